"""What a store does for a book: three verbs over runs, which are bytes under the numbers 1, 2, 3 and so on.

A run is never changed. ``put`` stores one only if its number is free, which is the compare-and-swap of every engine.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tallybook.ledger.errors import EXIT_NOT_WRITTEN, TallybookError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Entry(NamedTuple):
    """A number that is in use.

    Attributes:
        number: The number.
        tag: What the store calls these bytes; other bytes have another tag.
        size: How many bytes they are; None where the store does not say.
        author: Who stored them, as far as the store knows; empty where it does not.
    """

    number: int
    tag: str
    size: int | None = None
    author: str = ""


class PutOutcome(Enum):
    """What became of a put."""

    DONE = "done"
    """The run is stored, and the store confirmed it."""
    TAKEN = "taken"
    """The number is in use, perhaps by these bytes: a client that tried twice refuses itself."""
    UNKNOWN = "unknown"
    """The store did not answer, so the run may be stored, now or later, or not."""


class Put(NamedTuple):
    """The answer to a put.

    Attributes:
        outcome: What became of it.
        tag: The tag of the run where the outcome is DONE.
    """

    outcome: PutOutcome
    tag: str = ""


class Store(Protocol):
    """Holds the runs of one book.

    Attributes:
        address: Where it is, for messages, without a password.
        warnings: What in its settings endangers the book, as far as it said so in the last list.
    """

    address: str
    warnings: tuple[str, ...]

    @property
    def segments(self) -> Store | None:
        """Return the series of segments; None where the runs alone are read fast enough."""
        ...

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers in use after a number, ascending.

        Raises:
            UnreachableError: It does not answer.
        """
        ...

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of these numbers; a number that is free, or that it does not return, is left out.

        Raises:
            UnreachableError: It does not answer.
        """
        ...

    def put(self, number: int, data: bytes) -> Put:
        """Store a run, if the number is free; what holds the book is created if this user may create it.

        A store that can tell answers a number that would leave a gap before it, after a loss, as one that is taken.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: It does not answer, and nothing was stored.
        """
        ...

    def erase(self, before: int) -> None:
        """Replace the bytes of every run under a smaller number by nothing; the numbers stay in use.

        Raises:
            ReadOnlyError: This user may not do that.
            UnreachableError: It does not answer.
        """
        ...

    def describe_remains(self) -> str:
        """Return what keeps the bytes of erased runs, and the command that removes them; empty where nothing does.

        Raises:
            UnreachableError: It does not answer.
        """
        ...

    def close(self) -> None:
        """Close connections, and remove temporary files."""
        ...


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
        self.why = why
        super().__init__(address, f"{READ_ONLY}{why}", "events wait in the own ledger")


class FormerLayoutError(EngineError):
    """The engine holds a book as an earlier version stored it."""

    exit_code = 2

    def __init__(self, address: str, what: str, removal: str) -> None:
        """Name what holds it, and the command that removes that."""
        hint = f"every own ledger has all of its events: run `{removal}`, then `tallybook sync` on each machine"
        super().__init__(address, f"{what} is of an earlier version", hint)


class MissingLibraryError(EngineError):
    """The client library of an engine is not installed."""

    exit_code = 2

    def __init__(self, engine: str, package: str, command: str) -> None:
        """Name its package, and the command that installs it where this Tallybook is."""
        super().__init__(engine, f"needs the package {package}", f"run: {command}")
