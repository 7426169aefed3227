"""A store in memory: the model that the others are compared with, and that of the laws' random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines.store import Entry, Put, PutOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MemoryStore:
    """Holds runs in a dictionary. Several machines share one by sharing the object.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`.
        runs: Number → run; tests take some away, and change them.
    """

    def __init__(self, address: str = "memory") -> None:
        """Begin with nothing."""
        self.address = address
        self.warnings: tuple[str, ...] = ()
        self.runs: dict[int, bytes] = {}

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers in use after a number."""
        return [Entry(number, digest(data), len(data)) for number, data in sorted(self.runs.items()) if number > after]

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers."""
        return {number: self.runs[number] for number in numbers if number in self.runs}

    def put(self, number: int, data: bytes) -> Put:
        """Store a run, if the number is free."""
        if number in self.runs or (number > 1 and number - 1 not in self.runs):
            return Put(PutOutcome.TAKEN)
        self.runs[number] = data
        return Put(PutOutcome.DONE, digest(data))

    def erase(self, before: int) -> None:
        """Replace earlier runs by nothing."""
        self.runs |= {number: b"" for number in self.runs if number < before}

    def close(self) -> None:
        """Do nothing: there is no connection."""
