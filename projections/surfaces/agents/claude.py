"""Claude Code. Standard library only."""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import table


def read(document: table.Document) -> table.Payload:
    """Return a payload."""
    name, tool = table.text_of(document, "hook_event_name"), table.text_of(document, "tool_name")
    return table.Payload(
        name,
        session=table.text_of(document, "session_id"),
        folder=table.text_of(document, "cwd"),
        transcript=table.text_of(document, "transcript_path"),
        source=table.text_of(document, "source"),
        subagent=table.text_of(document, "agent_id"),
        text=table.collect_texts(document.get("tool_input"))
        if tool
        else table.text_of(document, "last_assistant_message"),
        where=tool or "message",
        occasion=table.text_of(document, "tool_use_id"),
        prompt=table.text_of(document, "prompt_id"),
        name=name,
    )


def is_unattended(_: table.Payload) -> bool:
    """Return whether it runs for a program, as under ``-p``; earlier versions say so by their entry point alone."""
    says = os.environ.get("CLAUDE_CODE_SESSION_ATTENDED", "")
    return says == "0" or (not says and os.environ.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk-"))


# Transcripts

# Claude Code sets these on lines that neither a person nor the agent wrote.
PROGRAM_MARKS = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")


def read_line(line: table.Document, _: set[str]) -> table.TranscriptEntry:
    """Return what a line says."""
    message = table.object_of(line, "message")
    usage, cached = table.object_of(message, "usage"), ("cache_creation_input_tokens", "cache_read_input_tokens")
    tokens = table.count_tokens(usage, ("input_tokens", *cached), ("output_tokens",))
    return table.TranscriptEntry(
        "assistant" if line.get("type") == "assistant" else "user",
        _blocks(line),
        table.text_of(line, "uuid"),
        table.text_of(line, "timestamp"),
        bool(line.get("isSidechain")),
        is_unknown="type" not in line,
        tokens={table.text_of(message, "id"): tokens} if usage else {},
        event=table.COMPACTED if line.get("subtype") == "compact_boundary" else "",
    )


def _blocks(line: table.Document) -> list[table.Block]:
    """Return the blocks of the message in a line, none if neither a person nor the agent wrote it."""
    if line.get("type") not in ("user", "assistant") or any(line.get(mark) for mark in PROGRAM_MARKS):
        return []
    content = table.object_of(line, "message").get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def session_of(path: str) -> str:
    """Return the session's id, which is the file's name."""
    return os.path.splitext(os.path.basename(path))[0]


def folder_name(path: str) -> str:
    """Return its name for a folder of transcripts: all but ASCII letters and digits become hyphens."""
    # It counts UTF-16 units, so a character beyond the first plane is two.
    return "".join(char if char.isascii() and char.isalnum() else "-" * (1 + (char > "\uffff")) for char in path)


def folder_of(path: str) -> str:
    """Return the folder in the first line that names one; the first lines of a session may name none."""
    return next(filter(None, (table.text_of(line, "cwd") for line in table.first_lines(path))), "")


def parent_of(path: str) -> str:
    """Return the session that `/branch` copied, which each copied line names; `--fork-session` says it by its start."""
    origins = (table.object_of(line, "forkedFrom") for line in table.first_lines(path))
    return next((table.text_of(origin, "sessionId") for origin in origins if origin), "")


def subagents(path: str) -> dict[str, str]:
    """Return the transcripts of the session's subagents."""
    folder = os.path.join(os.path.splitext(path)[0], "subagents")
    return {os.path.splitext(name)[0]: os.path.join(folder, name) for name in table.transcript_files(folder)}


TRANSCRIPTS = table.Transcripts(
    pattern="*/*",
    read_line=read_line,
    session_of=session_of,
    folder_of=folder_of,
    subagents=subagents,
    is_per_project=True,
    parent_of=parent_of,
)
