"""How hooks ran, according to an agent's transcripts: the ends of the newest ones are read."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
import json
import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.clock import MICROSECONDS
from tallybook.ledger.errors import CannotWriteError
from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.doctor.finding import read_part
from tallybook.projections.surfaces.install.hook_entries import calls_us

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SUCCEEDED: Final = "ran"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

MAX_FILES: Final = 20
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bound for all transcripts together; of a larger one the end is read."""
_MAX_LINE_BYTES: Final = 1024 * 1024
_MAX_MS: Final = 24 * 3600 * 1000

_OUTCOMES: Final = {
    "hook_success": SUCCEEDED,
    "hook_cancelled": CANCELLED,
    "hook_non_blocking_error": FAILED,
    "hook_blocking_error": FAILED,
    "hook_error_during_execution": FAILED,
}
# A line that only quotes such a record has a backslash before the second quote.
_MENTION: Final = b'"hook_'
_CARRIER: Final = b'"attachment"'


@attrs.frozen
class Run:
    """One call of a hook.

    Attributes:
        event: The agent's event that it was called for.
        outcome: SUCCEEDED, FAILED or CANCELLED.
        at_us: When it ran, in microseconds since 1970; 0 where unknown.
        time_ms: Its duration in milliseconds, None where unknown.
        code: Its exit code, None where unknown.
        stderr: The first line that it, or the shell, wrote to standard error; may be empty.
        is_ours: Whether it is Tallybook's; False where the agent does not say whose it is.
        timed_out: Whether the agent ended it for taking too long.
    """

    event: str
    outcome: str
    at_us: int = 0
    time_ms: float | None = None
    code: int | None = None
    stderr: str = ""
    is_ours: bool = True
    timed_out: bool = False


@attrs.frozen
class TranscriptRuns:
    """The hooks that ran according to the newest transcripts of a project.

    Attributes:
        runs: Tallybook's hooks, and cancelled ones of unknown owner.
        changed_us: When each transcript was written last, in microseconds since 1970, the newest first.
    """

    runs: tuple[Run, ...]
    changed_us: tuple[int, ...]


def read_runs(agents_folder: Path, folders: Iterable[str]) -> TranscriptRuns:
    """Return the hooks that ran in sessions that were started in these folders.

    Args:
        agents_folder: The agent's folder in the user's home.
        folders: Folders in which sessions may have started.
    """
    transcripts = _transcripts(agents_folder / "projects", folders)
    bytes_left = MAX_BYTES
    runs: list[Run] = []
    known_ids: set[str] = set()
    for _, path in transcripts:
        # A transcript that is gone or unreadable is skipped.
        with suppress(OSError, CannotWriteError):
            # A first line that is cut off is no JSON any more, so it is skipped as well.
            data = read_part(path, bytes_left, from_end=True)
            bytes_left -= len(data)
            # Nearly all lines record something else, and are not parsed.
            lines = (line for line in BytesIO(data) if _MENTION in line and _CARRIER in line)
            parsed = (_parse_run(line, known_ids) for line in lines if len(line) <= _MAX_LINE_BYTES)
            runs += filter(None, parsed)
    return TranscriptRuns(tuple(runs), tuple(changed_us for changed_us, _ in transcripts))


def _transcripts(projects: Path, folders: Iterable[str]) -> list[tuple[int, str]]:
    """Return the newest transcripts, with the time of their last change in microseconds since 1970."""
    transcripts: list[tuple[int, str]] = []
    for name in dict.fromkeys(map(claude.folder_name, folders)):
        with suppress(OSError), os.scandir(projects / name) as entries:
            logs = [entry for entry in entries if entry.name.endswith(".jsonl")]
            files = [entry for entry in logs if entry.is_file(follow_symlinks=False)]
            transcripts += [(entry.stat(follow_symlinks=False).st_mtime_ns // 1000, entry.path) for entry in files]
    return sorted(transcripts, reverse=True)[:MAX_FILES]


def _parse_run(line: bytes, known_ids: set[str]) -> Run | None:
    """Return the run that a line records; None for other hooks, and for a line that another transcript had already."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    hook = record.get("attachment") if _text(record, "type") == "attachment" else None
    if not isinstance(hook, dict) or (outcome := _OUTCOMES.get(_text(hook, "type"))) is None:
        return None
    blocking_error = hook.get("blockingError")
    command = _text(hook, "command") or _text(blocking_error, "command")
    is_ours = _calls_us(command)
    id_ = _text(record, "uuid")
    if not (is_ours or (outcome == CANCELLED and not command)) or id_ in known_ids:
        return None
    known_ids |= {id_} - {""}
    stderr = _text(hook, "stderr") or _text(blocking_error, "blockingError") or _text(hook, "content")
    code = _number(hook, "exitCode")
    return Run(
        _text(hook, "hookEvent") or _text(hook, "hookName").partition(":")[0],
        FAILED if outcome == SUCCEEDED and code else outcome,
        _unix_us(_text(record, "timestamp")),
        _number(hook, "durationMs"),
        None if code is None else int(code),
        next(filter(None, map(str.strip, stderr.splitlines())), ""),
        is_ours,
        hook.get("timedOut") is True,
    )


@cache
def _calls_us(command: str) -> bool:
    return calls_us(command)


def _text(values: Any, field: str) -> str:
    value = values.get(field) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""


def _number(values: dict[str, Any], field: str) -> float | None:
    value = values.get(field)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if 0 <= value <= _MAX_MS else None


def _unix_us(at: str) -> int:
    try:
        moment = datetime.fromisoformat(at)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(int(moment.timestamp() * MICROSECONDS), 0)
    except (ValueError, OverflowError):
        return 0
