"""Copilot CLI: fields in camelCase or as in Claude Code, by the spelling of the event, and a flat answer.

Standard library only.
"""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.table import (
    Agent,
    Entry,
    Payload,
    Transcripts,
    all_texts,
    count_utf16,
    flat_answer,
    is_plain_name,
    list_of,
    object_of,
    read_first_line,
    text_of,
    transcripts_folder,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tallybook.projections.surfaces.agents.installation import Installation


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload; it names no transcript at a session's start and end, and one in camelCase names no event."""
    payload = claude.read(document) if "hook_event_name" in document else _read_camel_case(document)
    text = payload.text if payload.where != "message" else ""
    if session := text_of(document, "parent_agent_id", "parentAgentId"):
        # A subagent gives its own id for a session's, and its session's transcript, which is read at the session's end.
        subagent = text_of(document, "agent_id", "agentId")
        return payload._replace(session=session, subagent=subagent, transcript="", text=text)
    transcript = payload.transcript or _transcript_of(payload.session)
    return payload._replace(transcript=transcript, subagent="", text=text)


def _read_camel_case(document: Mapping[str, Any]) -> Payload:
    tool = text_of(document, "toolName")
    return Payload(
        _guess_event(document),
        # The start of a subagent names no event in the other spelling either.
        text_of(document, "sessionId", "session_id"),
        text_of(document, "cwd"),
        text_of(document, "transcriptPath"),
        text_of(document, "source"),
        text=all_texts(document.get("toolArgs")) if tool else "",
        where=tool or "message",
        name=_guess_event(document),
    )


def _guess_event(document: Mapping[str, Any]) -> str:
    """Return the event whose payload has these fields, by its name in Claude Code."""
    if "toolName" in document:
        return "PostToolUse" if "toolResult" in document else "PreToolUse"
    if "agentName" in document:
        return "SubagentStop" if "stopReason" in document else "SubagentStart"
    for field, event in (
        ("source", "SessionStart"),
        ("initialPrompt", "SessionStart"),
        ("stopReason", "Stop"),
        ("prompt", "UserPromptSubmit"),
        ("trigger", "PreCompact"),
        ("reason", "SessionEnd"),
    ):
        if field in document:
            return event
    return ""


def _transcript_of(session: str) -> str:
    """Return the path of a session's transcript, empty if there is none."""
    path = os.path.join(transcripts_folder("copilot"), session, _NAME) if is_plain_name(session) else ""
    return path if path and os.path.isfile(path) else ""


# Transcripts: events.jsonl in a folder with the session's id; subagents write into their session's

_NAME = "events.jsonl"
_PROGRAM_SOURCES = ("skill", "system", "autopilot", "command")
"""How the sources of messages begin that the program writes in a person's name."""


def read_line(line: Mapping[str, Any], _: set[str]) -> Entry:
    """Return what a line says."""
    kind, data = text_of(line, "type"), object_of(line, "data")
    subagent = text_of(line, "agentId")
    role = "assistant" if kind == "assistant.message" else "user"
    uuid, at = text_of(line, "id"), text_of(line, "timestamp")
    return Entry(role, _blocks(kind, data), uuid, at, bool(subagent), subagent, is_unknown=not kind)


def _blocks(kind: str, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    if kind == "tool.execution_complete":
        answer, failed = object_of(data, "result").get("content"), data.get("success") is False
        content = answer or text_of(object_of(data, "error"), "message")
        return [{"type": "tool_result", "tool_use_id": data.get("toolCallId"), "content": content, "is_error": failed}]
    if kind == "user.message" and text_of(data, "source").startswith(_PROGRAM_SOURCES):
        return []
    if kind not in ("user.message", "assistant.message"):
        return []
    calls = [call for call in list_of(data, "toolRequests") if isinstance(call, dict)]
    return [
        {"type": "text", "text": text_of(data, "content")},
        *(
            {"type": "tool_use", "id": call.get("toolCallId"), "name": call.get("name"), "input": call.get("arguments")}
            for call in calls
        ),
    ]


def session_of(path: str) -> str:
    """Return the session's id, the name of the file's folder."""
    return os.path.basename(os.path.dirname(os.path.abspath(path)))


def folder_of(path: str) -> str:
    """Return the folder in the first line."""
    return text_of(object_of(object_of(read_first_line(path), "data"), "context"), "cwd")


def subagents(_: str) -> dict[str, str]:
    """Return nothing: a session's subagents have no transcripts of their own."""
    return {}


TRANSCRIPTS = Transcripts(
    pattern="*/events",
    name=_NAME,
    read_line=read_line,
    lookback=claude.TRANSCRIPTS.lookback,
    session_of=session_of,
    folder_of=folder_of,
    subagents=subagents,
    is_per_project=False,
)

AGENT = Agent(
    title="Copilot CLI",
    read=read,
    # What a session's start adds is lost when the session is resumed; what a prompt adds stays until a compaction.
    injects_at=("UserPromptSubmit", "SubagentStart"),
    answer=flat_answer,
    # No limit was met with 200,000 characters.
    size=count_utf16,
    max_size=200_000,
    # It may end without calling a hook.
    awaits_at_stop=True,
    transcripts=TRANSCRIPTS,
    # It calls PreCompact, and nothing when the compaction is done.
    reports_compacted=False,
)


def installation() -> Installation:
    """Return its files; only names of events in this spelling come back in the payload."""
    from tallybook.projections.surfaces.agents import installation as form

    names = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStart", "PreCompact", "SessionEnd")
    return form.Installation(
        title=AGENT.title,
        folder=".github",
        home=("COPILOT_HOME", ".copilot"),
        file="hooks/tallybook.json",
        events=dict.fromkeys(names, 10),
        group=lambda line, timeout: {"type": "command", "bash": line, "timeoutSec": timeout},
        timeout="timeoutSec",
        key="bash",
        is_nested=False,
        document={"version": 1},
        signs=(".github/hooks", ".github/copilot", ".github/copilot-instructions.md"),
        programs=("copilot",),
        prompts=form.PromptFiles(".agents", "skills/{}/SKILL.md", form.as_skill),
        other_hooks=(".github/hooks/*.json", ".github/copilot/settings.json", ".github/copilot/settings.local.json"),
        users_hooks=("hooks/*.json", "settings.json"),
        runs="claude",
    )
