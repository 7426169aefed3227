"""Copilot CLI: fields in camelCase or as in Claude Code, by the spelling of the event, and a flat answer.

Standard library only.
"""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude, table


def read(document: table.Document) -> table.Payload:
    """Return a payload; it names no transcript at a session's start and end, and one in camelCase names no event."""
    payload = claude.read(document) if "hook_event_name" in document else _read_camel_case(document)
    text = payload.text if payload.where != "message" else ""
    if session := table.text_of(document, "parent_agent_id", "parentAgentId"):
        # A subagent gives its own id for a session's, and its session's transcript, which is read at the session's end.
        subagent = table.text_of(document, "agent_id", "agentId")
        return payload._replace(session=session, subagent=subagent, transcript="", text=text)
    transcript = payload.transcript
    if not transcript and table.is_plain_name(payload.session):
        path = os.path.join(table.transcripts_folder("copilot"), payload.session, _NAME)
        transcript = path if os.path.isfile(path) else ""
    return payload._replace(transcript=transcript, subagent="", text=text)


_NAMES = {"session_id": "sessionId", "transcript_path": "transcriptPath", "tool_name": "toolName"}
"""A field's name in Claude Code → its name in camelCase."""


def _read_camel_case(document: table.Document) -> table.Payload:
    # The start of a subagent names no event in the other spelling either.
    renamed = {name: document[camel_case] for name, camel_case in _NAMES.items() if camel_case in document}
    renamed |= {"tool_input": document.get("toolArgs"), "hook_event_name": _guess_event(document)}
    return claude.read({**document, **renamed})


_EVENTS = {
    "toolResult": "PostToolUse",
    "toolName": "PreToolUse",
    "source": "SessionStart",
    "initialPrompt": "SessionStart",
    "stopReason": "Stop",
    "prompt": "UserPromptSubmit",
    "trigger": "PreCompact",
    "reason": "SessionEnd",
}
"""A field → the event whose payload has it, by its name in Claude Code; the first field counts."""


def _guess_event(document: table.Document) -> str:
    """Return the event whose payload has these fields, by its name in Claude Code."""
    if "agentName" in document and "toolName" not in document:
        return "SubagentStop" if "stopReason" in document else "SubagentStart"
    return next((event for field, event in _EVENTS.items() if field in document), "")


# Transcripts: events.jsonl in a folder with the session's id; subagents write into their session's

_NAME = "events.jsonl"
_PROGRAM_SOURCES = ("skill", "system", "autopilot", "command")
"""How the sources of messages begin that the program writes in a person's name."""


def read_line(line: table.Document, _: set[str]) -> table.TranscriptEntry:
    """Return what a line says."""
    kind, data = table.text_of(line, "type"), table.object_of(line, "data")
    subagent = table.text_of(line, "agentId")
    role = "assistant" if kind == "assistant.message" else "user"
    uuid, at = table.text_of(line, "id"), table.text_of(line, "timestamp")
    usage = table.object_of(data, "usage") if kind == "session.usage_record" else {}
    is_compacted = kind == "session.compaction_complete" and data.get("success") is not False
    return table.TranscriptEntry(
        role,
        _blocks(kind, data),
        uuid,
        at,
        bool(subagent),
        subagent,
        is_unknown=not kind,
        tokens={uuid: table.count_tokens(usage, ("inputTokens",), ("outputTokens",))} if usage else {},
        event=table.COMPACTED if is_compacted else table.ABORTED if kind == "abort" else "",
    )


def _blocks(kind: str, data: table.Document) -> list[table.Block]:
    if kind == "tool.execution_complete":
        answer, code = table.object_of(data, "result").get("content"), table.object_of(data, "shellExecution")
        # A command that failed is a success with an exit code.
        failed = data.get("success") is False or bool(code.get("exitCode"))
        content = answer or table.text_of(table.object_of(data, "error"), "message")
        return [{"type": "tool_result", "tool_use_id": data.get("toolCallId"), "content": content, "is_error": failed}]
    if kind == "user.message" and table.text_of(data, "source").startswith(_PROGRAM_SOURCES):
        return []
    if kind not in ("user.message", "assistant.message"):
        return []
    calls = [call for call in table.list_of(data, "toolRequests") if isinstance(call, dict)]
    uses = [
        {"type": "tool_use", "id": call.get("toolCallId"), "name": call.get("name"), "input": call.get("arguments")}
        for call in calls
    ]
    return [{"type": "text", "text": table.text_of(data, "content")}, *uses]


TRANSCRIPTS = table.Transcripts(
    pattern="*/events",
    name=_NAME,
    read_line=read_line,
    lookback=claude.TRANSCRIPTS.lookback,
    session_of=lambda path: os.path.basename(os.path.dirname(os.path.abspath(path))),
    folder_of=lambda path: table.first_text(path, "data", "context", "cwd"),
)
