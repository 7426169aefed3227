"""The exceptions of many modules with their exit codes, and ``Problem``, which reports bad data without raising.

    TallybookError            message of one line, and the exit code
    ├── BadInputError         2  the input is invalid
    │   └── UsedKeyError      1  the idempotency key was used for another payload
    ├── UnknownEntryError     1  no entry ever had this name
    ├── NothingToDoError      1  already done, or impossible for this entry
    ├── DamagedLedgerError    3  acknowledged bytes are missing or changed
    ├── NewerLedgerError      4  the ledger has a newer format
    ├── MissingLinesError     1  lines of the shared book are not on this machine
    ├── CannotWriteError      4  nothing was written
    ├── OutcomeUnknownError   4  written, but the disk did not confirm it
    └── LockHeldError         4  another process holds the lock

Standard library only, because hooks import this module.
"""

from __future__ import annotations

import errno
import os

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_DAMAGED = 3
EXIT_NOT_WRITTEN = 4
EXIT_INTERRUPTED = 130
NOT_UNICODE = (
    "contains a broken character (half of a surrogate pair), which UTF-8 cannot store; send the text as UTF-8, or "
    "leave that character out"
)
"""Why a text is refused that is not Unicode, and what to do."""


class Problem(NamedTuple):
    """A piece of bad data, reported while the rest is used.

    Attributes:
        source: Where it is: ``events.jsonl:812``.
        message: What is wrong with it, in one line.
        seq: The event number that it has or should have; None without one.
        line: Line number in the file, from 1; None where the source is not a file of lines.
    """

    source: str
    message: str
    seq: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        """Render as ``source: message``."""
        return f"{self.source}: {self.message}"


class TallybookError(Exception):
    """Base of every error that a user can see. The message is one complete line."""

    exit_code = EXIT_BAD_INPUT


class BadInputError(TallybookError):
    """The input is invalid; nothing was written."""

    def __init__(self, where: str, what: str, hint: str = "") -> None:
        """Build the message ``where: what; hint``."""
        super().__init__(f"{where}: {what}" + (f"; {hint}" if hint else ""))


class UsedKeyError(BadInputError):
    """The idempotency key of a delivery was used for another payload before."""

    exit_code = EXIT_NO

    def __init__(self, key: str, first: int | None = None, last: int | None = None) -> None:
        """Name the key and the events of the first delivery; None while that waits in the spool."""
        events = f"event {first}" if first == last else f"events {first} to {last}"
        place = "in the spool" if first is None else f"recorded as {events}"
        super().__init__(
            f"key {key}", f"was used for another payload, {place}", "use another key; nothing was recorded"
        )


class UnknownEntryError(TallybookError):
    """No entry ever had this name."""

    exit_code = EXIT_NO

    def __init__(self, name: str, meant: str | None = None) -> None:
        """Name the entry that does not exist, and the one that was probably meant; None if there is none."""
        self.name = name
        hint = "see `tallybook show`" if meant is None else f"did you mean {meant}?"
        super().__init__(f"{name}: no entry ever had this name; {hint}")


class NothingToDoError(TallybookError):
    """The request is already fulfilled, or impossible for the entry in its present state."""

    exit_code = EXIT_NO

    def __init__(self, name: str, what: str, hint: str = "nothing was recorded") -> None:
        """Name the entry and its state."""
        super().__init__(f"{name}: {what}; {hint}")
        self.name = name


class DamagedLedgerError(TallybookError):
    """Acknowledged bytes are missing or changed; no view is computed from them."""

    exit_code = EXIT_DAMAGED

    def __init__(self, problems: Sequence[Problem], fix: str = "") -> None:
        """Keep all problems, of which there is at least one, and what to do; the message names the first problem."""
        self.problems, self.fix = tuple(problems), fix
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{self.problems[0]}{more}; {fix or 'the ledger is damaged, run `tallybook verify`'}")


class MissingLinesError(TallybookError):
    """Lines of the shared book that a moment contains are not on this machine, or are damaged here."""

    # Not damage: a sync brings them.
    exit_code = EXIT_NO

    def __init__(self, moment: str, last: int, hint: str, state: str = "missing") -> None:
        """Name the moment, the last of the lines, and how to get them."""
        super().__init__(f"{moment}: not available here: book lines 1 to {last} are {state}; {hint}")


class NewerLedgerError(TallybookError):
    """The ledger has a format that only a later version can read."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, source: str, written: object, known: int) -> None:
        """Name both formats."""
        super().__init__(
            f"{source}: written in ledger format {written}, this Tallybook reads up to {known}; upgrade Tallybook"
        )


_CURES = {
    errno.EROFS: "it is mounted read-only, so mount it for writing first",
    errno.EACCES: "get the right to {} there first",
    errno.EPERM: "get the right to {} there first",
}
"""Number of an error that stays whatever is tried again → what to do about it."""


class CannotWriteError(TallybookError):
    """The file system refused a write; nothing was acknowledged."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, reason: str, hint: str = "nothing was recorded; try again") -> None:
        """Name the file, the system's reason, and what to do: trying again is no advice where nothing would change."""
        self.reason = reason
        action = "read" if reason.startswith("cannot be read") else "write"
        for number, cure in _CURES.items():
            if reason.endswith(os.strerror(number)):
                hint = hint.replace("try again", cure.format(action))
        super().__init__(f"{path}: {reason}; {hint}")


class OutcomeUnknownError(TallybookError):
    """The bytes were written, but the disk did not confirm the flush, so they may or may not survive a power loss."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, reason: str) -> None:
        """Name the file and the system's reason."""
        self.reason = reason
        super().__init__(
            f"{path}: could not be flushed ({reason}), so it may or may not be recorded; check with `tallybook log`"
        )


class LockHeldError(TallybookError):
    """Another process held the lock for longer than a writer waits."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, wait_ms: int) -> None:
        """Name the lock file and the time waited, in milliseconds."""
        super().__init__(f"{path}: held by another process for {wait_ms} ms; nothing was recorded; try again")
