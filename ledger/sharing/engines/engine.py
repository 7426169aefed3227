"""What an engine does for a book: it returns runs in the order in which it took them, and compares before it appends.

An engine knows nothing about events. It stores runs, which are bytes, and promises two things: every reader sees the
same runs in the same order, and an append is done only if nobody else appended since the end that it expects.
"""

from __future__ import annotations

from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from tallybook.ledger.errors import EXIT_NOT_WRITTEN, TallybookError
from tallybook.ledger.line import GENESIS

if TYPE_CHECKING:
    from collections.abc import Sequence


class Run(NamedTuple):
    """Consecutive whole batches of a book, as bytes of its log file.

    The numbers and chain values are what its writer states. A reader verifies them with the bytes.

    Attributes:
        first: Event number of its first line.
        last: Event number of its last line.
        before: Chain value before it.
        after: Chain value after it.
        data: Its bytes.
        place: Where the engine has it, for messages: ``message 57``; empty for a run that is not stored yet.
        author: Who stored it, as far as the engine knows; empty where it does not.
    """

    first: int
    last: int
    before: str
    after: str
    data: bytes
    place: str = ""
    author: str = ""


class End(NamedTuple):
    """The end of what an engine holds.

    Attributes:
        seq: The last event number that its last run states, 0 where it holds nothing.
        chain: The chain value after that.
        token: What the engine compares before it appends; empty where it holds nothing.
    """

    seq: int
    chain: str
    token: str = ""


NOTHING = End(0, GENESIS)
"""The end of an engine that holds nothing."""


class Contents(NamedTuple):
    """What an engine holds after an event number.

    Attributes:
        runs: Every run whose last event number is larger, in the engine's order, whether or not it counts.
        first: The first event number that the engine holds; 0 where it holds nothing.
        end: The engine's end when the runs were read.
        more: Whether further runs follow, which the limit left out.
    """

    runs: Sequence[Run]
    first: int
    end: End
    more: bool = False


def cut_at(runs: Sequence[Run], limit: int | None) -> Sequence[Run]:
    """Return the first runs that together have at least so many bytes; all where there is no limit."""
    sizes = accumulate(len(run.data) for run in runs)
    count = next((number for number, size in enumerate(sizes, 1) if limit is not None and size >= limit), len(runs))
    return runs[:count]


class Outcome(Enum):
    """What became of an append."""

    DONE = "done"
    """All runs are stored, and the engine confirmed it."""
    MOVED = "moved"
    """Another writer was quicker. The runs after the last one that the engine confirmed are not stored."""
    UNKNOWN = "unknown"
    """The engine did not answer, so the runs may be stored or not."""


class Appended(NamedTuple):
    """The answer to an append.

    Attributes:
        outcome: What became of it.
        end: The engine's end afterwards, None unless the outcome is DONE.
    """

    outcome: Outcome
    end: End | None = None


class EngineError(TallybookError):
    """An engine did not do what was asked of it; the own ledger is as it was."""

    exit_code = EXIT_NOT_WRITTEN

    def __init__(self, address: str, what: str, hint: str) -> None:
        """Build the message ``address: what; hint``. An address never holds a password."""
        self.address = address
        self.what = what
        self.hint = hint
        super().__init__(f"{address}: {what}; {hint}")


WAIT: Final = "events wait in the own ledger; run `tallybook sync` later"


class UnreachableError(EngineError):
    """The engine does not answer, or does not let this user read."""

    def __init__(self, address: str, why: str, hint: str = WAIT) -> None:
        """Say why."""
        self.why = why
        super().__init__(address, f"cannot be reached: {why}", hint)


READ_ONLY: Final = "is read-only here: "
"""What stands in a message before the reason for which an engine lets this user read, not write."""


class ReadOnlyError(EngineError):
    """The engine lets this user read, not write."""

    def __init__(self, address: str, why: str) -> None:
        """Give the engine's own reason."""
        super().__init__(address, f"{READ_ONLY}{why}", "events wait in the own ledger")


class DamagedEngineError(ReadOnlyError):
    """What the engine stored is damaged, so that it cannot be read, or nothing can follow it."""

    def __init__(self, address: str, why: str) -> None:
        """Give the engine's own reason."""
        hint = "events wait in the own ledger until its operator has repaired it"
        EngineError.__init__(self, address, f"is damaged: {why}", hint)


class MissingLibraryError(EngineError):
    """The client library of an engine is not installed."""

    exit_code = 2

    def __init__(self, address: str, package: str, command: str = "") -> None:
        """Name its package, and the command that installs it where this Tallybook is; by default pip's."""
        super().__init__(address, f"needs the package {package}", f"run: {command or f'pip install {package}'}")


class Engine(Protocol):
    """Holds the runs of one book.

    Attributes:
        address: Where it is, for messages, without a password.
        run_bytes: How many bytes the runs of one append should have together, at most; a batch alone may have more.
    """

    address: str
    run_bytes: int

    def read(self, after: int, limit: int | None = None) -> Contents:
        """Return what the engine holds after an event number, read from where its last append is visible.

        Args:
            after: The event number.
            limit: About how many bytes to return, of whole runs from the first one on; None for all.

        Raises:
            UnreachableError: The engine does not answer.
        """
        ...

    def append(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs in order, if the engine still ends where ``expected`` says.

        With ``NOTHING`` as the expected end, what holds the book (a branch, a stream, a table) is created if this
        user may create it.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: The engine cannot be reached, so that nothing was stored.
        """
        ...

    def replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store these runs in place of all that the engine holds, if it still ends where ``expected`` says.

        Raises:
            ReadOnlyError: This user may not do that.
            UnreachableError: The engine cannot be reached.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


@runtime_checkable
class CachingEngine(Protocol):
    """An engine that keeps a copy of its own on this machine."""

    def delete_cache(self) -> None:
        """Delete that copy, which may hold a text that was redacted; it is fetched again when it is needed."""
        ...


@runtime_checkable
class KeepingEngine(Protocol):
    """An engine that keeps what was there before a replacement."""

    def delete_others(self) -> list[str]:
        """Delete that, and return the names of what was deleted.

        Raises:
            ReadOnlyError: This user may not delete it.
        """
        ...
