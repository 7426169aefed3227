"""What was said in a session: its transcript, line by line, without what nobody said and what we said ourselves.

The shape is Claude Code's: JSON lines, of which any may be odd, and the last one half-written.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.surfaces.hooks import handler
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SAID_CHARS: Final = 4_000
"""Characters of one message that are kept: its beginning and its end."""
TOOL_CHARS: Final = 1_000
"""Characters of what a tool is asked and answers that are kept."""
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
CUT: Final = " […] "

MESSAGE: Final = "message"
SUBAGENT: Final = "agent-"
"""How the name of a subagent's transcript begins; its id follows."""
_UNSAID: Final = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_ECHOES: Final = ("<command-name>", "<command-message>", "<local-command-stdout>", "<local-command-stderr>")
_REMINDER: Final = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.DOTALL)
_OUR_LINE: Final = re.compile(r"^\s*\[[^\]\n]{1,200}\] helpful=\d+ harmful=\d+ ::.*$", re.MULTILINE)
# What shows the playbook to whoever reads its answer.
_OURS: Final = re.compile(r"playbook\.json|\btallybook\b|\.claude[\\/]+ledger")
# How much more than is shown is looked through: what lies further from the cut leaves nothing of itself.
_SCREENED: Final = 8
_SHOWS_OURS: Final = re.compile(r"playbook\.json|\.claude[\\/]+ledger|\"helpful\"\s*:\s*\d+\s*,\s*\"harmful\"\s*:")
_LOOKED_BACK_BYTES: Final = 256 * 1024
_LEFT_OUT: Final = "(the playbook, left out)"


@attrs.frozen
class Turn:
    """Something that was said.

    Attributes:
        role: ``user``, ``assistant``; ``use`` for what the agent asked of a tool, ``tool`` or ``error`` for its answer.
        text: What was said, shortened.
        where: MESSAGE, or the name of the tool.
        whole: All of it, where the agent said it: that is searched for citations; empty elsewhere.
        occasion: What names a message of the agent's in a citation's idempotency key; empty elsewhere.
    """

    role: str
    text: str
    where: str = MESSAGE
    whole: str = ""
    occasion: str = ""


@attrs.frozen
class Line:
    """One whole line of a transcript.

    Attributes:
        begin: Where it begins in the file, in bytes.
        end: Where the next one begins.
        turns: What was said in it, empty for most kinds of lines.
        uuid: Its own id, empty without one.
        at: When it was written, as it stands there; empty without one.
        sidechain: Whether a subagent said it, in the session's own transcript.
    """

    begin: int
    end: int
    turns: tuple[Turn, ...] = ()
    uuid: str = ""
    at: str = ""
    sidechain: bool = False


def files_of(transcript: Path) -> dict[str, Path]:
    """Return a session's transcripts by what the ledger calls them: its subagents' first, its own (``""``) last.

    So where its own was read to the end, nothing of the session is left.
    """
    folder = transcript.with_suffix("") / "subagents"
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix == ".jsonl" and path.is_file())
    except OSError:
        found = []
    return {path.stem: path for path in found} | {"": transcript}


def lines(path: Path, begin: int = 0) -> Iterator[Line]:
    """Yield the whole lines of a transcript from an offset on; a last one without its end is left for later.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        ours = _asked_for_ours(file, begin)
        file.seek(begin)
        at = begin
        while data := file.readline(MAX_LINE_BYTES):
            if not data.endswith(b"\n"):
                if len(data) < MAX_LINE_BYTES:
                    return
                # Too long to be anything but damage: passed over up to its end.
                data += _rest(file)
            end = at + len(data)
            yield _line(data, at, end, ours)
            at = end


def _asked_for_ours(file: Any, begin: int) -> set[str]:
    """Return which tools were asked for what shows the playbook, shortly before: their answers may come behind."""
    ours: set[str] = set()
    file.seek(max(begin - _LOOKED_BACK_BYTES, 0))
    for data in file.read(begin - file.tell()).splitlines(keepends=True):
        _line(data, 0, 0, ours)
    return ours


def _rest(file: Any) -> bytes:
    """Return blanks as long as what is left of a line: only its length counts."""
    length = 0
    while piece := file.readline(MAX_LINE_BYTES):
        length += len(piece)
        if piece.endswith(b"\n"):
            break
    return b" " * length


def _line(data: bytes, begin: int, end: int, ours: set[str]) -> Line:
    """Return a line, empty where it is odd or nobody said it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return Line(begin, end)
    if not isinstance(found, dict):
        return Line(begin, end)
    uuid, at = (_whole(value) if isinstance(value := found.get(field), str) else "" for field in ("uuid", "timestamp"))
    message = found.get("message")
    turns = tuple(_turns(message, str(found["type"]), ours)) if _is_said(found) and isinstance(message, dict) else ()
    return Line(begin, end, turns, uuid, at, bool(found.get("isSidechain")))


def messages(path: Path) -> Iterator[dict[str, str]]:
    """Yield the messages of a transcript that hold text, whole, as ``{"role", "content"}``.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        for data in file:
            try:
                found = json.loads(data)
            except (ValueError, RecursionError):
                continue
            message = found.get("message") if isinstance(found, dict) and _is_said(found) else None
            content = message.get("content") if isinstance(message, dict) else None
            if isinstance(content, list):
                texts = [
                    block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"
                ]
                content = "\n".join(text for text in texts if isinstance(text, str))
            if isinstance(content, str) and content and not content.lstrip().startswith(_ECHOES):
                yield {"role": str(found["type"]), "content": _whole(content)}


def _is_said(line: Mapping[str, Any]) -> bool:
    """Return whether a person or the agent wrote a line of a transcript."""
    return line.get("type") in ("user", "assistant") and not any(line.get(mark) for mark in _UNSAID)


def _turns(message: Mapping[str, Any], role: str, ours: set[str]) -> Iterator[Turn]:
    """Yield what one message says: its texts, what it asks of tools, and what they answered."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict):
            turn = _turn(block, role, ours)
            if turn is not None and turn.text:
                yield turn


def _turn(block: Mapping[str, Any], role: str, ours: set[str]) -> Turn | None:
    """Return what one block says, None for thoughts, pictures and kinds that are not known."""
    kind = block.get("type")
    if kind == "text" and isinstance(text := block.get("text"), str):
        said = unreminded(_whole(text))
        if role != "assistant":
            return Turn(role, _shown(said, SAID_CHARS))
        return Turn(role, _shown(said, SAID_CHARS), whole=said, occasion=handler.occasion_of(text))
    if kind == "tool_use":
        asked = "\n".join(_texts(block.get("input")))
        if _OURS.search(asked):
            ours.add(str(block.get("id")))
        return Turn("use", _shown(asked, TOOL_CHARS), _whole(str(block.get("name") or "a tool"))[:100], asked)
    if kind == "tool_result":
        answered = "\n".join(_texts(block.get("content")))
        is_ours = str(block.get("tool_use_id")) in ours or _SHOWS_OURS.search(answered)
        shown = _LEFT_OUT if is_ours else _shown(unreminded(answered), TOOL_CHARS)
        return Turn("error" if block.get("is_error") else "tool", shown)
    return None


def _texts(value: object) -> list[str]:
    """Return the texts in a tool's input or answer, in order; pictures and other data are left out."""
    if isinstance(value, str):
        return [_whole(value)]
    if isinstance(value, dict):
        if value.get("type") in ("image", "document"):
            return []
        return [text for field, one in value.items() if field != "type" for text in _texts(one)]
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []


def _whole(text: str) -> str:
    """Return a text as UTF-8 can carry it: agents cut emoji in two."""
    return text.encode("utf-8", "replace").decode()


def unreminded(text: str) -> str:
    """Return a text without what the agent's program put into it: reminders, echoes of commands, and our playbook."""
    if text.lstrip().startswith(_ECHOES):
        return ""
    return _OUR_LINE.sub("", _REMINDER.sub("", text)).strip()


def _shown(text: str, most: int) -> str:
    """Return a text shortened and without secrets: they are masked first, since half of one is not known for one."""
    return shortened(secrets.mask(shortened(text, _SCREENED * most)).text, most)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters: three quarters of them from its beginning, the rest from its end."""
    if len(text) <= most:
        return text
    room = most - len(CUT)
    return text[: room - room // 4].rstrip() + CUT + text[len(text) - room // 4 :].lstrip()


SAID: Final = {
    "user": "User",
    "assistant": "Agent",
    "use": "Agent used {}",
    "tool": "Tool answered",
    "error": "Tool failed",
}
"""Role of a turn → how its line begins."""


def told(turn: Turn, *, subagent: bool = False) -> str:
    """Return a turn as a model reads it; its further lines are set in, so that none looks like another's turn."""
    who = SAID[turn.role].format(turn.where)
    text = "\n  ".join(turn.text.splitlines())
    return f"{'Subagent: ' if subagent else ''}{who}: {text}"


def message_line(role: str, content: str) -> str:
    """Return a message of `messages` as a model reads it: shortened, without secrets and the playbook's own lines."""
    return told(Turn(role if role in SAID else "user", _shown(unreminded(_whole(content)), SAID_CHARS)))
