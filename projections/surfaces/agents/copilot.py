"""Copilot CLI: fields as in Claude Code where the event is spelled as there, and a flat answer.

Standard library only.
"""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude, table


def read(document: table.Document) -> table.Payload:
    """Return a payload; it names no transcript at a session's start and end."""
    if "hook_event_name" not in document:
        # The start of a subagent is in camelCase and names no event, whatever the spelling in the settings.
        is_start = "agentName" in document and not {"toolName", "stopReason"}.intersection(document)
        name = "SubagentStart" if is_start else ""
        document = {**document, "session_id": document.get("sessionId"), "hook_event_name": name}
    payload = claude.read(document)
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
    session_of=lambda path: os.path.basename(os.path.dirname(os.path.abspath(path))),
    folder_of=lambda path: table.first_text(path, "data", "context", "cwd"),
)
