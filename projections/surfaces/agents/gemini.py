"""Gemini CLI: its own names of events, and a place for context after the prompt. Standard library only."""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude, table

# No event tells a compression, so a session may go on without the playbook after one.
EVENTS = {
    "SessionStart": "SessionStart",
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "SessionEnd": "SessionEnd",
}
"""Its name of an event → Claude Code's. PreCompress comes at every turn, compressed or not, and means nothing."""


def read(document: table.Document) -> table.Payload:
    """Return a payload.

    The response is that of all messages of a turn as one text, so their citations are counted from the transcript,
    which has each message by itself.
    """
    payload = claude.read(document)
    return payload._replace(event=EVENTS.get(payload.name, ""), text=payload.text if document.get("tool_name") else "")


# Transcripts: session-TIME-ID8.jsonl in the folder of a project; a line is repeated, by its id, when more is known

PROGRAM_TEXTS = ("<hook_context>", "<session_context>", "<state_snapshot>")
"""How the texts begin that the program writes in a person's name."""


def read_line(line: table.Document, seen: set[str]) -> table.TranscriptEntry:
    """Return what a line says that no earlier one with its id said; the messages in a patch have lines of their own."""
    if "id" in line:
        return _read_message(line, seen)
    at = table.text_of(line, "timestamp", "startTime")
    return table.TranscriptEntry(at=at, is_unknown=KNOWN_FIELDS.isdisjoint(line))


KNOWN_FIELDS = {"$set", "$rewindTo", "sessionId"}
"""Of each line that is no message, one."""


def _read_message(line: table.Document, seen: set[str]) -> table.TranscriptEntry:
    uuid, at = table.text_of(line, "id"), table.text_of(line, "timestamp", "startTime")
    if line.get("type") == "user":
        # The content has the context that hooks added as well, which nobody typed.
        shown = table.list_of(line, "displayContent") or line.get("content")
        texts = [text for text in _texts(shown) if not text.lstrip().startswith(PROGRAM_TEXTS)]
        blocks = [*_new_texts(uuid, texts, seen), *_answers(table.list_of(line, "content"), seen)]
        return table.TranscriptEntry("user", blocks, uuid, at)
    if line.get("type") == "gemini":
        blocks = _new_texts(uuid, ["".join(_texts(line.get("content")))], seen)
        calls = [call for call in table.list_of(line, "toolCalls") if isinstance(call, dict)]
        for call in calls:
            blocks += _call(call, seen)
        tokens = table.count_tokens(table.object_of(line, "tokens"), ("input",), ("output", "thoughts"))
        return table.TranscriptEntry(
            "assistant",
            blocks,
            uuid,
            at,
            tokens={uuid: tokens} if "tokens" in line else {},
            event=table.ABORTED if blocks and any(call.get("status") == "cancelled" for call in calls) else "",
        )
    return table.TranscriptEntry(uuid=uuid, at=at, is_unknown=line.get("type") not in PROGRAM_TYPES)


PROGRAM_TYPES = ("info", "warning", "error")


def _texts(content: object) -> list[str]:
    """Return the texts of a message, which is a text or parts, without thoughts."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [table.text_of(part, "text") for part in parts if not part.get("thought")]


def _new_texts(uuid: str, texts: list[str], seen: set[str]) -> list[table.Block]:
    blocks = [{"type": "text", "text": text} for text in texts if text]
    return blocks if blocks and _is_new(f"text:{uuid}", seen) else []


def _call(call: table.Document, seen: set[str]) -> list[table.Block]:
    """Return what is new of a call of a tool: its input, its answer, or both."""
    name, blocks = table.text_of(call, "id"), []
    if _is_new(f"use:{name}", seen):
        blocks.append({"type": "tool_use", "id": name, "name": call.get("name"), "input": call.get("args")})
    return blocks + _answers(table.list_of(call, "result"), seen, is_error=call.get("status") == "error")


def _answers(parts: list[object], seen: set[str], *, is_error: bool = False) -> list[table.Block]:
    """Return the answers of tools that are new."""
    answers = [table.object_of(part, "functionResponse") for part in parts if isinstance(part, dict)]
    return [
        {
            "type": "tool_result",
            "tool_use_id": table.text_of(answer, "id"),
            "content": table.object_of(answer, "response"),
            "is_error": is_error or "error" in table.object_of(answer, "response") or _has_exit_code(answer),
        }
        for answer in answers
        if answer and _is_new(f"answer:{table.text_of(answer, 'id')}", seen)
    ]


def _has_exit_code(answer: table.Document) -> bool:
    """Return whether a command failed, which has the status "success"."""
    mark = "Exit Code: "
    lines = table.collect_texts(answer.get("response")).splitlines()
    return any(line.startswith(mark) and "1" <= line[len(mark) :][:1] <= "9" for line in lines)


def _is_new(key: str, seen: set[str]) -> bool:
    """Return whether nothing has said this yet; what has no id is always new."""
    is_new = key not in seen or key.endswith(":")
    seen.add(key)
    return is_new


def session_of(path: str) -> str:
    """Return the id in the first line, of which the name has only the beginning; empty for a subagent's."""
    header = next(table.first_lines(path), {})
    return table.text_of(header, "sessionId") if header.get("kind") != "subagent" else ""


def folder_of(path: str) -> str:
    """Return the folder that the folder of a project's files belongs to."""
    chats = os.path.dirname(os.path.abspath(path))
    try:
        with open(os.path.join(os.path.dirname(chats), ".project_root"), encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_PATH_CHARS).strip()
    except OSError:
        return ""


def subagents(path: str) -> dict[str, str]:
    """Return the transcripts of the session's subagents, in a folder with the session's id."""
    session = session_of(path)
    folder = os.path.join(os.path.dirname(path), session)
    names = table.transcript_files(folder) if table.is_plain_name(session) else []
    return {table.SUBAGENT + claude.session_of(name): os.path.join(folder, name) for name in names}


_MAX_PATH_CHARS = 4096
TRANSCRIPTS = table.Transcripts(
    pattern="*/chats/session-*",
    name="session-",
    read_line=read_line,
    # A line of any age can be repeated, by its id, once more is known.
    may_repeat=True,
    session_of=session_of,
    folder_of=folder_of,
    subagents=subagents,
    is_per_project=True,
)
