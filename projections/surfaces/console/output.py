"""Standard input, output and error of every verb: read a text, print an answer, a note or an error.

Rich is not imported here: an answer in JSON does not need it.
"""

from __future__ import annotations

from io import TextIOWrapper
import json
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import EXIT_INTERRUPTED, EXIT_NOT_WRITTEN, BadInputError, TallybookError
from tallybook.ledger.storage import receipts
from tallybook.ledger.storage.disk import reason
from tallybook.projections.surfaces.console.progress import METER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.surfaces.writing.record import Outcome

MAX_PROVENANCE_CHARS = 200
RECORDED = "the events are recorded, so do not send them again"
_TEXT_CHARS = 100

PROVENANCE_OPTIONS = {
    "rater": "Record this rater: human, agent, reflector, …",
    "session": "Record the session it comes from.",
    "agent": "Record the agent.",
    "model": "Record the model that rated.",
}
KEY_OPTION = "Record once, however often this key is sent."


def say(text: str) -> None:
    """Print a line."""
    METER.clear()
    sys.stdout.write(f"{text}\n")


def answer(value: Any) -> None:
    """Print one JSON answer on one line, in what the stream can carry."""
    utf = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    say(json.dumps(value, ensure_ascii=not utf))


def note(text: str) -> None:
    """Print a note for people on standard error."""
    METER.clear()
    sys.stderr.write(f"note: {_harmless(text)}\n")


def complain(message: str, code: int) -> int:
    """Print one line on standard error and return the code."""
    METER.clear()
    sys.stderr.write(f"tallybook: {_harmless(' '.join(message.split()))}\n")
    return code


def _harmless(text: str) -> str:
    """Return a text with control characters escaped: ids and names in it come from other people."""
    if text.isprintable():
        return text
    from tallybook.projections.surfaces.console.terminal import harmless

    return harmless(text)


def local_minute(at: str) -> str:
    """Return an ISO time to the minute, in the local zone with its offset, or without one where the time has no zone.

    Args:
        at: Such as ``2026-11-21T20:17:03.123456Z``.

    Returns:
        ``2026-11-21 21:17+01:00``, or ``2026-11-21 20:17 UTC`` where the offset is zero: ``--at`` takes both.

    Raises:
        ValueError: It is not a time.
        OverflowError: No calendar has it in the local zone.
    """
    from datetime import datetime

    time = datetime.fromisoformat(at)
    time = time if time.tzinfo is None else time.astimezone()
    return time.isoformat(" ", "minutes").replace("+00:00", " UTC")


def announce_input(what: str) -> None:
    """Print what a command reads from a terminal, and how to end the input."""
    if sys.stdin.isatty():
        key = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
        note(f"type or paste {what}, then press {key}")


def read_input(file: str, what: str = "the text") -> tuple[bytes, str]:
    """Return the bytes of a file, or of standard input for ``-``, and the name of the source for messages.

    Args:
        file: The file.
        what: What the command expects, for a person at a terminal.
    """
    if file == "-":
        announce_input(what)
        return sys.stdin.buffer.read(strict_json.MAX_PAYLOAD_BYTES + 1), "standard input"
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise BadInputError(file, f"cannot be read: {reason(error)}", strict_json.HINT) from error


def given_text(given: str | None, what: str = "the text") -> str | None:
    """Return a text from the command line, or from standard input for ``-``: that leaves no trace in shell history."""
    if given != "-":
        return given
    try:
        return read_input("-", what)[0].decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise BadInputError("standard input", "is not UTF-8 text", strict_json.HINT) from error


def provenance_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the provenance that the options of PROVENANCE_OPTIONS give.

    Raises:
        BadInputError: A value is empty, too long or not printable.
    """
    by = {field: options[field] for field in PROVENANCE_OPTIONS if options.get(field) is not None}
    for field, value in by.items():
        if not value.strip() or len(value) > MAX_PROVENANCE_CHARS or not value.isprintable():
            raise BadInputError(
                f"--{field}", f"needs 1 to {MAX_PROVENANCE_CHARS} printable characters", strict_json.HINT
            )
    return by


def print_outcome(outcome: Outcome, *, as_json: bool, with_counts: bool = False) -> None:
    """Print the outcome of a request, and its notes on standard error.

    Args:
        outcome: The outcome.
        as_json: Whether to print JSON.
        with_counts: Whether to print each rated entry with its new counts; JSON always has them.
    """
    for line in outcome.notes:
        note(line)
    if as_json:
        fields = ("seq_from", "seq_to", "added", "pruned")
        ignored = [attrs.asdict(one) for one in outcome.ignored]
        rated = [attrs.asdict(point) for point in outcome.rated]
        beside = {"ignored": ignored, "spooled": outcome.spooled, "rated": rated}
        answer({field: getattr(outcome, field) for field in fields} | beside)
        return
    for one in outcome.ignored:
        say(f"ignored {one.item}{f' ({one.name})' if one.name else ''}: {one.reason}")
    if outcome.spooled:
        say("another process holds the ledger; spooled, the next command that writes records it")
    elif outcome.repeated:
        say("already recorded under this key; nothing was added")
    else:
        first, last = outcome.seq_from, outcome.seq_to
        parts = [f"recorded as event {first}" if first == last else f"recorded as events {first} to {last}"]
        parts += [f"added {', '.join(outcome.added)}"] if outcome.added else []
        parts += [f"pruned {', '.join(outcome.pruned)}"] if outcome.pruned else []
        say("; ".join(parts))
    for point in outcome.rated if with_counts else ():
        text = point.text if len(point.text) <= _TEXT_CHARS else f"{point.text[: _TEXT_CHARS - 1]}…"
        say(_harmless(f"{point.name}  +{point.helpful} -{point.harmful}  {text}"))


def _replace_closed_streams() -> None:
    """Open the null device for each closed standard stream; otherwise the next file would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


def run_guarded(work: Callable[[], int]) -> int:
    """Do the work of a command and return its exit code; an error is one line on standard error.

    If events were recorded but the answer could not be written, the exit code is 0: a caller that sees a failure would
    send them again.
    """
    _replace_closed_streams()
    METER.enable()
    before = receipts.count()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A stream whose encoding lacks a character gets an escape instead of an error.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = work()
        sys.stdout.flush()
    except TallybookError as error:
        return complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return complain(f"interrupted; {RECORDED}" if receipts.count() > before else "interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of the pipe closed it; Python must not flush into it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if receipts.count() > before:
            note(f"the answer could not be written: {reason(error)}; {RECORDED}")
            return 0
        return complain(f"{error.filename or 'system'}: {reason(error)}", EXIT_NOT_WRITTEN)
    return code
