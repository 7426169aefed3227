"""What every way into the program shares: reading input, saying what became of it, and errors as one line.

Neither Click nor Rich is loaded here: a script in a pipe does without them.
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

MAX_BY_CHARS = 200
RECORDED = "what was sent is recorded, so do not send it again"
_TEXT_CHARS = 100

BY_OPTIONS = {
    "rater": "Who rates: human, agent, reflector, …",
    "session": "Id of the session it comes from.",
    "agent": "Which agent.",
    "model": "Which model judged.",
}
KEY_OPTION = "Names this delivery: recorded once, however often it comes."


def say(text: str) -> None:
    """Print a line."""
    METER.clear()
    sys.stdout.write(f"{text}\n")


def answer(value: Any) -> None:
    """Print one JSON answer on one line, in what the stream can carry."""
    utf = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    say(json.dumps(value, ensure_ascii=not utf))


def note(text: str) -> None:
    """Print a line beside the answer, for people."""
    METER.clear()
    sys.stderr.write(f"note: {_harmless(text)}\n")


def complain(message: str, code: int) -> int:
    """Print one line on standard error and return the code."""
    METER.clear()
    sys.stderr.write(f"tallybook: {_harmless(' '.join(message.split()))}\n")
    return code


def _harmless(text: str) -> str:
    """Return a text without what steers a terminal: ids and names in it are other people's."""
    if text.isprintable():
        return text
    from tallybook.projections.surfaces.console.terminal import harmless

    return harmless(text)


def local_minute(at: str) -> str:
    """Return an ISO time to the minute, in the local zone, with its offset; without one where the time names no zone.

    Args:
        at: Such as ``2026-11-21T20:17:03.123456Z``.

    Returns:
        ``2026-11-21 21:17+01:00``, or ``2026-11-21 20:17 UTC`` where the offset is none: ``--at`` takes both.

    Raises:
        ValueError: It is not a time.
        OverflowError: No calendar has it in the local zone.
    """
    from datetime import datetime

    time = datetime.fromisoformat(at)
    time = time if time.tzinfo is None else time.astimezone()
    return time.isoformat(" ", "minutes").replace("+00:00", " UTC")


def announce_input(what: str) -> None:
    """Say on a terminal what the command waits for, and how to end it."""
    if sys.stdin.isatty():
        key = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
        note(f"type or paste {what}, then press {key}")


def read_input(file: str, what: str = "the text") -> tuple[bytes, str]:
    """Return the bytes of a file, or of standard input for ``-``, and what to call them.

    Args:
        file: The file.
        what: What is expected, for a person at a terminal.
    """
    if file == "-":
        announce_input(what)
        return sys.stdin.buffer.read(strict_json.MAX_PAYLOAD_BYTES + 1), "standard input"
    try:
        return Path(file).read_bytes(), file
    except OSError as error:
        raise BadInputError(file, f"cannot be read: {reason(error)}", strict_json.HINT) from error


def given_text(given: str | None, what: str = "the text") -> str | None:
    """Return a text from the command line, or from standard input for ``-``, where no history keeps it."""
    if given != "-":
        return given
    try:
        return read_input("-", what)[0].decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise BadInputError("standard input", "is not UTF-8 text", strict_json.HINT) from error


def said_by(options: Mapping[str, Any]) -> dict[str, str]:
    """Return who says so, from the options of BY_OPTIONS."""
    by = {field: options[field] for field in BY_OPTIONS if options.get(field) is not None}
    for field, value in by.items():
        if not value.strip() or len(value) > MAX_BY_CHARS or not value.isprintable():
            raise BadInputError(f"--{field}", f"expected 1 to {MAX_BY_CHARS} printable characters", strict_json.HINT)
    return by


def told(outcome: Outcome, *, as_json: bool, with_counts: bool = False) -> None:
    """Print what became of a request; what was odd on the way goes to standard error.

    Args:
        outcome: What became of it.
        as_json: Whether a program asks.
        with_counts: Whether a person sees each rated entry with its new counts; a program always does.
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
        say("another process holds the ledger: kept in the spool, the next command that writes takes it in")
    elif outcome.repeated:
        say("recorded before under this key; nothing was added")
    else:
        parts = [f"recorded as events {outcome.seq_from} to {outcome.seq_to}"]
        parts += [f"added {', '.join(outcome.added)}"] if outcome.added else []
        parts += [f"pruned {', '.join(outcome.pruned)}"] if outcome.pruned else []
        say("; ".join(parts))
    for point in outcome.rated if with_counts else ():
        text = point.text if len(point.text) <= _TEXT_CHARS else f"{point.text[: _TEXT_CHARS - 1]}…"
        say(_harmless(f"{point.name}  +{point.helpful} -{point.harmful}  {text}"))


def _stand_in() -> None:
    """Let the null device stand in for each standard stream that is closed; else the next file gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


def guarded(work: Callable[[], int]) -> int:
    """Do the work of a command and return its exit code; whatever goes wrong is one line on standard error.

    What is recorded is no failure, even if the answer cannot be written: whoever is told of one sends it again.
    """
    _stand_in()
    METER.enable()
    before = receipts.count()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that lacks a character shows its number, rather than nothing at all.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = work()
        sys.stdout.flush()
    except TallybookError as error:
        return complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return complain(f"interrupted; {RECORDED}" if receipts.count() > before else "interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the answer has had enough; nothing more must be flushed into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if receipts.count() > before:
            note(f"the answer could not be written: {reason(error)}; {RECORDED}")
            return 0
        return complain(f"{error.filename or 'system'}: {reason(error)}", EXIT_NOT_WRITTEN)
    return code
