"""How hooks really ran: what an agent's transcripts say of it, read from their ends, within bounds."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
import json
import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.log_ends import read_at
from tallybook.projections.surfaces.install.hook_entries import calls_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RAN: Final = "ran"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

MAX_FILES: Final = 20
MAX_BYTES: Final = 64 * 1024 * 1024
"""What is read of all transcripts together; of one that is larger, its end."""
_MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_MS: Final = 24 * 3600 * 1000

_OUTCOMES: Final = {
    "hook_success": RAN,
    "hook_cancelled": CANCELLED,
    "hook_non_blocking_error": FAILED,
    "hook_blocking_error": FAILED,
    "hook_error_during_execution": FAILED,
}
# What quotes such a line has a backslash before its last quote.
_MENTIONS: Final = b'"hook_'
_CARRIES: Final = b'"attachment"'


@attrs.frozen
class Run:
    """One hook that was called.

    Attributes:
        event: What it was called for.
        outcome: RAN, FAILED or CANCELLED.
        at_us: When, in microseconds since 1970; 0 where that is not said.
        time_ms: How long it took, in milliseconds, None where that is not said.
        code: Its exit code, None where that is not said.
        said: The first line of what it, or the shell, complained about; may be empty.
        is_ours: False where the agent does not say which hook it was.
        timed_out: Whether the agent says that it took too long.
    """

    event: str
    outcome: str
    at_us: int = 0
    time_ms: float | None = None
    code: int | None = None
    said: str = ""
    is_ours: bool = True
    timed_out: bool = False


@attrs.frozen
class Seen:
    """What the newest transcripts of a project say.

    Attributes:
        runs: The hooks of ours, and those that were cancelled and may have been.
        changed_us: When each of the transcripts was written last, in microseconds since 1970, the newest first.
    """

    runs: tuple[Run, ...]
    changed_us: tuple[int, ...]


def read(agents_folder: Path, folders: Iterable[str]) -> Seen:
    """Return what the transcripts of sessions in these folders say.

    Args:
        agents_folder: The agent's own folder of this user.
        folders: Where sessions may have been started.
    """
    found = _transcripts(agents_folder / "projects", folders)
    left = MAX_BYTES
    runs: list[Run] = []
    known: set[str] = set()
    for _, path in found:
        # One that was taken away meanwhile, or may not be read, says nothing.
        with suppress(OSError, CannotWriteError):
            data = _end(path, left)
            left -= len(data)
            runs += (run for line in _lines(data) if (run := _run(line, known)) is not None)
    return Seen(tuple(runs), tuple(changed_us for changed_us, _ in found))


def folder_name(path: str) -> str:
    """Return what the agent calls the transcripts' folder: a hyphen for whatever is no ASCII letter and no digit."""
    # It counts in UTF-16, where what lies beyond its first plane is two.
    return "".join(char if char.isascii() and char.isalnum() else "-" * (1 + (char > "\uffff")) for char in path)


def _transcripts(projects: Path, folders: Iterable[str]) -> list[tuple[int, str]]:
    """Return the newest transcripts, with the time of their last change in microseconds since 1970."""
    found: list[tuple[int, str]] = []
    for name in dict.fromkeys(map(folder_name, folders)):
        with suppress(OSError), os.scandir(projects / name) as entries:
            named = [entry for entry in entries if entry.name.endswith(".jsonl")]
            files = [entry for entry in named if entry.is_file(follow_symlinks=False)]
            found += [(entry.stat(follow_symlinks=False).st_mtime_ns // 1000, entry.path) for entry in files]
    return sorted(found, reverse=True)[:MAX_FILES]


def _end(path: str, most: int) -> bytes:
    """Return the last bytes of a file, from the beginning of a line on."""
    fd = disk.open_file(path, write=False)
    try:
        size = os.fstat(fd).st_size
        begin = max(size - most, 0)
        data = read_at(fd, size - begin, begin)
    finally:
        os.close(fd)
    return data.partition(b"\n")[2] if begin else data


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines that may tell of a hook; the others, most of all, are passed over unread."""
    position = 0
    while (hit := data.find(_MENTIONS, position)) >= 0:
        begin = data.rfind(b"\n", position, hit) + 1 or position
        end = data.find(b"\n", hit)
        end = len(data) if end < 0 else end
        if end - begin <= _MAX_LINE_BYTES and data.find(_CARRIES, begin, end) >= 0:
            yield data[begin:end]
        position = end + 1


def _run(line: bytes, known: set[str]) -> Run | None:
    """Return what a line tells; None where it tells of no hook of ours, or stands in another transcript as well."""
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    told = found.get("attachment") if _text(found, "type") == "attachment" else None
    if not isinstance(told, dict) or (outcome := _OUTCOMES.get(_text(told, "type"))) is None:
        return None
    blocked = told.get("blockingError")
    command = _text(told, "command") or _text(blocked, "command")
    is_ours = _calls_us(command)
    id_ = _text(found, "uuid")
    if not (is_ours or (outcome == CANCELLED and not command)) or id_ in known:
        return None
    known |= {id_} - {""}
    said = _text(told, "stderr") or _text(blocked, "blockingError") or _text(told, "content")
    code = _number(told, "exitCode")
    return Run(
        _text(told, "hookEvent") or _text(told, "hookName").partition(":")[0],
        FAILED if outcome == RAN and code else outcome,
        _unix_us(_text(found, "timestamp")),
        _number(told, "durationMs"),
        None if code is None else int(code),
        next(filter(None, map(str.strip, said.splitlines())), ""),
        is_ours,
        told.get("timedOut") is True,
    )


@cache
def _calls_us(command: str) -> bool:
    return calls_us(command)


def _text(found: Any, field: str) -> str:
    value = found.get(field) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _number(found: dict[str, Any], field: str) -> float | None:
    value = found.get(field)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_MS else None


def _unix_us(at: str) -> int:
    try:
        moment = datetime.fromisoformat(at)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(int(moment.timestamp() * 1_000_000), 0)
    except (ValueError, OverflowError):
        return 0
