"""Gemini CLI: its own names of events, and a place for context after the prompt. Standard library only."""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.table import (
    DOCUMENT,
    SUBAGENT,
    Agent,
    Entry,
    Payload,
    Transcripts,
    count_utf16,
    is_plain_name,
    jsonl_files,
    list_of,
    nested_answer,
    object_of,
    read_first_line,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from tallybook.projections.surfaces.agents.installation import Installation

# No event tells a compression, so a session may go on without the playbook after one.
EVENTS = {
    "SessionStart": "SessionStart",
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "SessionEnd": "SessionEnd",
}
"""Its name of an event → Claude Code's. PreCompress comes at every turn, compressed or not, and means nothing."""


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload.

    The response is that of all messages of a turn as one text, so their citations are counted from the transcript,
    which has each message by itself.
    """
    payload = claude.read(document)
    return payload._replace(event=EVENTS.get(payload.name, ""), text=payload.text if document.get("tool_name") else "")


# Transcripts: session-TIME-ID8.jsonl in the folder of a project; a line is repeated, by its id, when more is known

PROGRAM_TEXTS = ("<hook_context>", "<session_context>", "<state_snapshot>")
"""How the texts begin that the program writes in a person's name."""


def read_line(line: Mapping[str, Any], seen: set[str]) -> Entry:
    """Return what a line says that no earlier one with its id said.

    The messages in a patch (``$set``) count only until one has a line of its own: later ones are repeated, or made up.
    """
    patch = object_of(line, "$set") or ({} if "id" in line else line)
    messages = [one for one in list_of(patch, "messages") if isinstance(one, dict)]
    if messages and _OWN not in seen:
        return Entry(more=[_read_message(one, seen) for one in messages])
    if "id" in line:
        seen.add(_OWN)
        return _read_message(line, seen)
    return Entry(at=text_of(line, "timestamp", "startTime"), is_unknown=KNOWN_FIELDS.isdisjoint(line))


_OWN = "a message with a line of its own"
KNOWN_FIELDS = {"$set", "$rewindTo", "sessionId"}
"""Of each line that is no message, one."""


def undone_by(lines: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return what was said from the message on to which a person went back; an unknown one means all of it."""
    undone: set[str] = set()
    parts: dict[str, set[str]] = {}
    for line in lines:
        target = line.get("$rewindTo")
        if isinstance(target, str):
            names = list(parts)
            for name in names[names.index(target) if target in parts else 0 :]:
                undone |= parts.pop(name)
            continue
        listed = list_of(object_of(line, "$set"), "messages")
        for message in [one for one in (listed or [line]) if isinstance(one, dict)]:
            if uuid := text_of(message, "id"):
                said: set[str] = set()
                _read_message(message, said)
                parts.setdefault(uuid, set()).update(said)
    return undone


def _read_message(line: Mapping[str, Any], seen: set[str]) -> Entry:
    uuid, at = text_of(line, "id"), text_of(line, "timestamp", "startTime")
    if line.get("type") == "user":
        # The content has the context that hooks added as well, which nobody typed.
        shown = list_of(line, "displayContent") or line.get("content")
        texts = [text for text in _texts(shown) if not text.lstrip().startswith(PROGRAM_TEXTS)]
        blocks = [*_new_texts(uuid, texts, seen), *_answers(list_of(line, "content"), seen)]
        return Entry("user", blocks, uuid, at)
    if line.get("type") == "gemini":
        blocks = _new_texts(uuid, ["".join(_texts(line.get("content")))], seen)
        for call in list_of(line, "toolCalls"):
            blocks += _call(call, seen) if isinstance(call, dict) else []
        return Entry("assistant", blocks, uuid, at)
    return Entry(uuid=uuid, at=at, is_unknown=line.get("type") not in PROGRAM_TYPES)


PROGRAM_TYPES = ("info", "warning", "error")


def _texts(content: object) -> list[str]:
    """Return the texts of a message, which is a text or parts, without thoughts."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [text_of(part, "text") for part in parts if not part.get("thought")]


def _new_texts(uuid: str, texts: list[str], seen: set[str]) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": text} for text in texts if text]
    return blocks if blocks and _is_new(f"text:{uuid}", seen) else []


def _call(call: Mapping[str, Any], seen: set[str]) -> list[dict[str, Any]]:
    """Return what is new of a call of a tool: its input, its answer, or both."""
    name, blocks = text_of(call, "id"), []
    if _is_new(f"use:{name}", seen):
        blocks.append({"type": "tool_use", "id": name, "name": call.get("name"), "input": call.get("args")})
    return blocks + _answers(list_of(call, "result"), seen, is_error=call.get("status") == "error")


def _answers(parts: list[Any], seen: set[str], *, is_error: bool = False) -> list[dict[str, Any]]:
    """Return the answers of tools that are new."""
    answers = [object_of(part, "functionResponse") for part in parts if isinstance(part, dict)]
    return [
        {
            "type": "tool_result",
            "tool_use_id": text_of(answer, "id"),
            "content": object_of(answer, "response"),
            "is_error": is_error or "error" in object_of(answer, "response"),
        }
        for answer in answers
        if answer and _is_new(f"answer:{text_of(answer, 'id')}", seen)
    ]


def _is_new(key: str, seen: set[str]) -> bool:
    """Return whether nothing has said this yet; what has no id is always new."""
    is_new = key not in seen or key.endswith(":")
    seen.add(key)
    return is_new


def session_of(path: str) -> str:
    """Return the id in the first line, of which the name has only the beginning; empty for a subagent's."""
    header = read_first_line(path)
    return text_of(header, "sessionId") if header.get("kind") != "subagent" else ""


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
    names = jsonl_files(folder) if is_plain_name(session) else []
    return {SUBAGENT + claude.session_of(name): os.path.join(folder, name) for name in names}


def places_of(path: str) -> tuple[str, ...]:
    """Return where a transcript can lie: newer versions write an old one anew when its session is resumed."""
    return (path, f"{path}l") if path.endswith(DOCUMENT) else (path,)


_MAX_PATH_CHARS = 4096
TRANSCRIPTS = Transcripts(
    pattern="*/chats/session-*",
    name="session-",
    read_line=read_line,
    # A line of any age can be repeated, by its id, once more is known.
    lookback=None,
    session_of=session_of,
    folder_of=folder_of,
    subagents=subagents,
    is_per_project=True,
    endings=(".jsonl", DOCUMENT),
    places_of=places_of,
    undo_mark=b'"$rewindTo"',
    undone_by=undone_by,
)


AGENT = Agent(
    title="Gemini CLI",
    read=read,
    # At a session's start the text would precede the first prompt, break a command there, and be lost on --resume.
    injects_at=("UserPromptSubmit",),
    answer=nested_answer,
    # No limit was met with 200,000 characters.
    size=count_utf16,
    max_size=200_000,
    # It does not wait for the hook of its end.
    awaits_at_stop=True,
    transcripts=TRANSCRIPTS,
    shows_message=True,
)


def installation() -> Installation:
    """Return its files; its timeouts are milliseconds."""
    from tallybook.projections.surfaces.agents import installation as form

    return form.Installation(
        title=AGENT.title,
        folder=".gemini",
        home=("", ".gemini"),
        file="settings.json",
        events=dict.fromkeys(EVENTS, 10_000),
        group=form.nested_group,
        programs=("gemini",),
        prompts=form.PromptFiles("", "commands/{}.toml", form.as_toml),
        users_hooks=("extensions/*/hooks/hooks.json",),
    )
