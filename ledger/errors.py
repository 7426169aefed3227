"""What can go wrong, one exception per situation; Problem is a bad line as a value.

    TallybookError            one line for people, and the exit code
    ├── BadInputError         2  what was given cannot be taken
    ├── UnknownPointError     1  no entry ever had that name
    ├── NothingToDoError      1  it is so already, or cannot be done to this entry
    ├── DamagedLedgerError    3  acknowledged bytes are gone or changed
    ├── NewerLedgerError      4  written by a later Tallybook, in a format this one cannot read
    ├── CannotWriteError      4  nothing was written
    ├── OutcomeUnknownError   4  written, but the disk would not confirm it
    └── LockHeldError         4  another process holds the ledger

Standard library only: hooks import this module.
"""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_DAMAGED = 3
EXIT_NOT_WRITTEN = 4
EXIT_INTERRUPTED = 130


class Problem(NamedTuple):
    """A piece of bad data beside the good.

    Attributes:
        source: Where it stands, as a person would look it up: ``events.jsonl:812``.
        message: What is wrong with it, in one line.
        seq: The sequence number it has or should have; None where it has none.
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
    """Base of every error that a user can meet: the message is one complete line."""

    exit_code = EXIT_BAD_INPUT


class BadInputError(TallybookError):
    """What was given cannot be taken; nothing was written."""

    def __init__(self, where: str, what: str, hint: str = "") -> None:
        """Say where, what is wrong, and what to do about it."""
        super().__init__(f"{where}: {what}" + (f"; {hint}" if hint else ""))


class UnknownPointError(TallybookError):
    """No entry ever had this name."""

    exit_code = EXIT_NO

    def __init__(self, name: str, meant: str | None = None) -> None:
        """Name the entry that is not there, and the one that was probably meant."""
        self.name = name
        hint = "`tallybook show` lists those there are" if meant is None else f"did you mean {meant}?"
        super().__init__(f"{name}: no entry ever had this name; {hint}")


class NothingToDoError(TallybookError):
    """What was asked for is so already, or cannot be done to an entry as it stands."""

    exit_code = EXIT_NO

    def __init__(self, name: str, what: str, hint: str = "nothing was recorded") -> None:
        """Name the entry, and say how it stands."""
        super().__init__(f"{name}: {what}; {hint}")
        self.name = name


class DamagedLedgerError(TallybookError):
    """Acknowledged bytes are gone or changed; nothing is folded over them."""

    exit_code = EXIT_DAMAGED

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep every problem; the message names the first."""
        self.problems = tuple(problems)
        more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
        super().__init__(f"{self.problems[0]}{more}; the ledger is damaged, see `tallybook verify`")


class NewerLedgerError(TallybookError):
    """The ledger was written by a later version, in a format this one cannot read."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, source: str, found: object, known: int) -> None:
        """Name both formats."""
        super().__init__(
            f"{source}: written in ledger format {found}, this Tallybook knows up to {known}; upgrade Tallybook"
        )


class CannotWriteError(TallybookError):
    """The file system refused; nothing was acknowledged."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, reason: str, hint: str = "nothing was recorded, try again") -> None:
        """Name the file and the system's reason."""
        self.reason = reason
        super().__init__(f"{path}: {reason}; {hint}")


class OutcomeUnknownError(TallybookError):
    """The bytes were handed over, but the disk would not confirm them."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, reason: str) -> None:
        """Name the file and the system's reason."""
        super().__init__(
            f"{path}: could not be flushed ({reason}), so it is unknown whether it was recorded; "
            "`tallybook log` shows what stands"
        )


class LockHeldError(TallybookError):
    """Another process holds the ledger longer than a writer waits."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, path: object, wait_ms: int) -> None:
        """Name the lock and the wait."""
        super().__init__(f"{path}: held by another process for {wait_ms} ms; nothing was recorded, try again")
