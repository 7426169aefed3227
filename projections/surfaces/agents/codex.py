"""Codex CLI: Claude Code's events, a limit in bytes, and no event when a person quits. Standard library only."""

from __future__ import annotations

from functools import cache
import os

from tallybook.projections.surfaces.agents import claude, table


def read(document: table.Document) -> table.Payload:
    """Return a payload; a subagent's names the subagent's transcript, not the session's."""
    payload = claude.read(document)
    transcript = "" if payload.subagent else payload.transcript
    return payload._replace(prompt=table.text_of(document, "turn_id"), transcript=transcript)


# Transcripts: rollout-TIME-ID.jsonl in a folder for the day

PROGRAM_TEXTS = ("# AGENTS.md instructions", "<")
"""How the texts begin that the program of an earlier version writes in a person's name; newer ones say who wrote it."""
USES = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
"""Kind of an item → its field with a tool's input."""
ANSWERS = ("function_call_output", "custom_tool_call_output")
_PREFIX = "rollout-"
_ARCHIVE = "archived_sessions"
_TIME_CHARS = len("2026-11-23T12-24-22-")
_MAX_DAYS = 31


def read_line(line: table.Document, seen: set[str]) -> table.TranscriptEntry:
    """Return what a line says; an item that a fork or a compaction repeats says it once."""
    item, at = table.object_of(line, "payload"), table.text_of(line, "timestamp")
    if line.get("type") != "response_item":
        return _read_event(table.text_of(line, "type"), item, at)._replace(is_unknown="payload" not in line)
    uuid, blocks = _uuid(item), _blocks(item)
    role, key = "assistant" if item.get("role") == "assistant" else "user", _key(uuid, at, blocks)
    # A summary is the answer to the program's own prompt.
    if key in seen or table.object_of(line, "metadata").get("compaction_output"):
        return table.TranscriptEntry(role, (), uuid, at)
    seen.add(key)
    return table.TranscriptEntry(role, blocks, uuid, at)


def _read_event(kind: str, item: table.Document, at: str) -> table.TranscriptEntry:
    """Return what a line without a message says."""
    call, usage = table.object_of(item, "item"), table.object_of(item, "usage")
    if kind == "token_usage_record":
        tokens = table.count_tokens(usage, ("input_tokens",), ("output_tokens",))
        return table.TranscriptEntry(at=at, tokens={table.text_of(item, "response_id"): tokens} if usage else {})
    is_aborted = item.get("type") == "turn_aborted" and item.get("reason") == "interrupted"
    return table.TranscriptEntry(
        at=at,
        # A command that failed is completed, with an exit code.
        failed=(table.text_of(call, "id"),) if call.get("exit_code") or call.get("status") == "failed" else (),
        event=table.COMPACTED if kind == "compacted" else table.ABORTED if is_aborted else "",
    )


def _uuid(item: table.Document) -> str:
    """Return the id of an item: a model's server may count its own in every session anew, or in every answer."""
    own, turn = table.text_of(item, "id", "call_id"), table.text_of(table.object_of(item, _PASSED_ON), "turn_id")
    return f"{turn}:{own}" if turn and own else own


def _key(uuid: str, at: str, blocks: object) -> str:
    return f"{uuid or at}:{hash(repr(blocks))}"


_PASSED_ON = "internal_chat_message_metadata_passthrough"


def _blocks(item: table.Document) -> list[table.Block]:
    kind, call = table.text_of(item, "type"), table.text_of(item, "call_id")
    if kind in USES:
        name = ".".join(filter(None, (table.text_of(item, "namespace"), table.text_of(item, "name")))) or "shell"
        given = item.get(USES[kind])
        if isinstance(given, str):
            # A call of a function holds it as JSON in a text.
            given = table.parse_line(given.encode("utf-8", "replace")) or given
        return [{"type": "tool_use", "id": call, "name": name, "input": given}]
    if kind in ANSWERS:
        return [{"type": "tool_result", "tool_use_id": call, "content": item.get("output")}]
    if kind != "message" or item.get("role") not in ("user", "assistant"):
        return []
    texts = [table.text_of(part, "text") if isinstance(part, dict) else "" for part in table.list_of(item, "content")]
    if item["role"] == "assistant":
        # The hook of a stop is given the parts as one text.
        return [{"type": "text", "text": "".join(texts)}]
    kinds = table.list_of(table.object_of(item, _PASSED_ON), "content_item_kinds")
    if len(kinds) == len(texts):
        texts = [text for text, kind in zip(texts, kinds, strict=True) if str(kind).startswith("user.")]
    else:
        texts = [text for text in texts if not text.lstrip().startswith(PROGRAM_TEXTS)]
    return [{"type": "text", "text": text} for text in texts]


def session_of(path: str) -> str:
    """Return the id that ends the file's name: the session's, or the subagent's."""
    return claude.session_of(path.removesuffix(table.PACKED))[len(_PREFIX) + _TIME_CHARS :]


# Every session of a day asks this of all files of the day.
@cache
def session_of_subagent(path: str) -> str:
    """Return the session whose subagent wrote a transcript, empty for a session's own."""
    own = table.object_of(next(table.first_lines(path), {}), "payload")
    session = table.text_of(own, "parent_thread_id") and table.text_of(own, "session_id", "parent_thread_id")
    return session if session != table.text_of(own, "id") else ""


def subagents(path: str) -> dict[str, str]:
    """Return the transcripts of the session's subagents, which lie among those of other sessions of the same days."""
    session, earliest = session_of(path), os.path.basename(path)[: len(_PREFIX) + _TIME_CHARS]
    found: dict[str, str] = {}
    for folder in _days(path):
        for name in table.transcript_files(folder):
            file = os.path.join(folder, name)
            # Names begin with the time, and a subagent begins after its session.
            if name.startswith(_PREFIX) and name >= earliest and session_of_subagent(file) == session:
                # While it is packed it lies there twice.
                found.setdefault(table.SUBAGENT + session_of(file), file)
    return found


def _days(path: str) -> list[str]:
    """Return the folders of the days on which a session may have been written to."""
    from glob import escape, glob

    folder = os.path.dirname(path)
    folders = [folder]
    if os.path.basename(folder) == _ARCHIVE:
        day = os.path.basename(path)[len(_PREFIX) :].partition("T")[0]
        folder = os.path.join(os.path.dirname(folder), table.AGENTS["codex"].transcripts, *day.split("-"))
        folders.append(folder)
    top = folder.rsplit(os.sep, 3)[0]
    days = sorted(glob(os.path.join(escape(top), "[0-9]*", "[0-9]*", "[0-9]*")))
    return [*folders, *[day for day in days if folder < day][:_MAX_DAYS]]


TRANSCRIPTS = table.Transcripts(
    pattern="*/*/*/rollout-*",
    name=_PREFIX,
    read_line=read_line,
    # A fork or a compaction repeats items from anywhere before.
    may_repeat=True,
    session_of=session_of,
    folder_of=lambda path: table.first_text(path, "payload", "cwd"),
    subagents=subagents,
    parent_of=lambda path: table.first_text(path, "payload", "forked_from_id"),
    archive=_ARCHIVE,
)


def is_unattended(payload: table.Payload) -> bool:
    """Return whether `codex exec` began the session, as its first line says."""
    return table.first_text(payload.transcript, "payload", "source") == "exec"
