"""What every verb prints, without Rich: answers, notes, errors, and the progress of a long read.

Rich is loaded late, by ``terminal``: an answer in JSON does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from io import TextIOWrapper
import json
import os
from pathlib import Path
import sys
import time
from typing import Any, Final

import click

from tallybook.ledger.errors import EXIT_INTERRUPTED, EXIT_NOT_WRITTEN, BadInputError, NothingToDoError, TallybookError
from tallybook.ledger.sharing.numbers import plain_value
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces.agents.table import find_agent, require_person

RECORDED = "the events are recorded, so do not send them again"

# Unicode categories that steer a terminal or the direction of writing, or break the line.
_CONTROLS: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Joiners shape letters of several scripts and emoji, and move nothing.
_JOINERS: Final = "\u200c\u200d"

DELAY_S: Final = 1.0
"""Seconds before a command shows progress."""

_REFRESH_S: Final = 0.1
_CLEAR_LINE: Final = "\r\x1b[2K"


class Meter:
    """The progress of one command, in percent.

    Attributes:
        is_shown: Whether a person sees it.
    """

    is_shown = False
    _is_drawn = False
    _next_s = 0.0

    def enable(self) -> None:
        """Show progress from now on, if the error output is a terminal."""
        self.is_shown = sys.stderr.isatty()
        self._next_s = time.monotonic() + DELAY_S

    def disable(self) -> None:
        """Show no more progress."""
        self.clear()
        self.is_shown = False

    def update(self, done: int, size: int) -> None:
        """Show how much of a read is done; ``done`` equal to ``size`` ends it.

        Args:
            done: How much is done.
            size: How much there is in all; 0 where that is unknown.
        """
        if done == size:
            self.clear()
        elif self.is_shown and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _REFRESH_S
            self._is_drawn = True
            sys.stderr.write(f"{_CLEAR_LINE}{done / size:.0%} read" if size else f"{_CLEAR_LINE}reading")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_drawn:
            self._is_drawn = False
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


METER: Final = Meter()


def can_ask() -> bool:
    """Return whether a person sees a question and can answer it: on a terminal that is not an agent's."""
    # Some agents give their commands a terminal.
    return sys.stdin.isatty() and sys.stdout.isatty() and find_agent() is None


def escape(text: object) -> str:
    r"""Return a text on one line, with every character that steers a terminal shown as an escape such as ``\x1b``."""
    text = str(text)
    if text.isprintable():
        return text
    controls = find_controls(text)
    return "".join(char.encode("unicode_escape").decode() if char in controls else char for char in text)


def find_controls(text: str) -> set[str]:
    """Return the characters of a text that are invisible: they steer a terminal, or hide in other characters."""
    import unicodedata

    return {char for char in set(text) if unicodedata.category(char) in _CONTROLS and char not in _JOINERS}


def say(*lines: object) -> None:
    """Print lines to standard output; texts in them are other people's, so they are escaped."""
    write("\n".join([*map(escape, lines), ""]))


def write(text: str) -> None:
    """Print a text as it is."""
    METER.clear()
    sys.stdout.write(text)


def answer(value: Any) -> None:
    """Print one JSON answer on one line, in what the stream can carry."""
    utf = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    write(f"{json.dumps(plain_value(value), ensure_ascii=not utf)}\n")


def reply(value: Any, lines: Iterable[object], *, as_json: bool) -> None:
    """Print the answer of a verb: its value as JSON, or its lines for people."""
    answer(value) if as_json else say(*lines)


def note(*lines: str) -> None:
    """Print notes for people on standard error, a line each."""
    for line in lines:
        _write_error(f"note: {escape(line)}\n")


def complain(message: str, code: int) -> int:
    """Print an error on one line of standard error and return the exit code."""
    _write_error(f"tallybook: {escape(' '.join(message.split()))}\n")
    return code


def _write_error(text: str) -> None:
    """Print a text on standard error, if it takes it: an exit code says what was recorded, not what was printed."""
    with suppress(OSError):
        METER.clear()
        sys.stderr.write(text)


def format_time(at: object) -> str:
    """Return an ISO time to the minute, in the local zone with its offset, or without one where the time has no zone.

    Args:
        at: Such as ``2026-11-21T20:17:03.123456Z``; a legacy playbook may have any text or None in its place.

    Returns:
        ``2026-11-21 21:17+01:00``, or ``2026-11-21 20:17 UTC`` where the offset is zero: ``--at`` takes both.
        ``never`` for None, and anything that is not a time unchanged.
    """
    from datetime import datetime

    try:
        time = datetime.fromisoformat(at) if isinstance(at, str) else None
        time = time if time is None or time.tzinfo is None else time.astimezone()
    except (ValueError, OverflowError):  # The calendar has no such time, in this zone at least.
        time = None
    if time is None:
        return escape("never" if at is None else at)
    return time.isoformat(" ", "minutes").replace("+00:00", " UTC")


def read_event_time(row: Mapping[str, Any]) -> str:
    """Return when an event happened; of one in a shared book ``at`` is when it was published there.

    Of an own event it is when it was recorded.
    """
    return str((row["by"].get("writer") and row.get("when")) or row["at"])


def format_author(by: Mapping[str, Any]) -> str:
    """Return who recorded an event, with the machine in a shared book: ``human at anna-1f2e3d4c``."""
    return f"{by['rater']} at {by['writer']}" if by.get("writer") else str(by["rater"])


def format_recorded(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each recorded event, ``{seq, summary}``: what it says, and then its number."""
    return [f"{row['summary']}; recorded as event {row['seq']}" for row in rows]


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 byte``, ``2 bytes``, ``2 entries``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_counts(counts: Mapping[str, Any]) -> str:
    """Return the counts of an entry in words."""
    return f"{counts['helpful']} helpful and {counts['harmful']} harmful"


def run_guarded(work: Callable[[], int]) -> int:
    """Do the work of a command and return its exit code; an error is one line on standard error.

    If events were recorded but the answer could not be written, the exit code is 0: a caller that sees a failure would
    send them again.
    """
    # The null device takes the place of a closed stream; otherwise the next file would get its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end
    METER.enable()
    before = disk.acknowledged
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A stream whose encoding lacks a character gets an escape instead of an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        # A full disk may refuse the answer only at the flush, while the exit code can still say so.
        code = work()
        sys.stdout.flush()
    except TallybookError as error:
        return complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        is_recorded = disk.acknowledged > before
        return complain(f"interrupted; {RECORDED}" if is_recorded else "interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of the pipe closed it; Python must not flush into it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if disk.acknowledged > before:
            note(f"the answer could not be written: {reason(error)}; {RECORDED}")
            return 0
        return complain(f"{error.filename or 'system'}: {reason(error)}", EXIT_NOT_WRITTEN)
    return code


UNCHANGED = "nothing was changed"


def require_consent(verb: str, what: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Return if a person consents: by ``--yes``, or by the answer yes on a terminal, where the default is no.

    Args:
        verb: The verb.
        what: What it does, which the error says where nobody can be asked.
        question: The question.
        yes: Whether ``--yes`` was given.
        as_json: Whether the answer is JSON, which leaves no room for a question.

    Raises:
        PersonsOnlyError: An agent typed the verb; what it types is no consent.
        BadInputError: There is no terminal to ask on.
        NothingToDoError: The answer is no.
    """
    # Before --yes counts: what an agent types is no consent.
    require_person(verb)
    if yes:
        return
    if as_json or not can_ask():
        raise BadInputError(verb, what, f"give --yes; {UNCHANGED}")
    ask(verb, question)


def ask(verb: str, question: str) -> None:
    """Ask a question on the terminal; the default is no.

    Raises:
        NothingToDoError: The answer is no.
    """
    if not click.confirm(question, default=False):
        raise NothingToDoError(verb, "not confirmed", UNCHANGED)
