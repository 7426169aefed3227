"""A store in memory: the model that the others are compared with, and that of the laws' random histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines.engine import Entry, Put, PutOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.ledger.sharing.engines.engine import Store


class MemoryStore:
    """Holds runs in a dictionary. Several machines share one by sharing the object.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`.
        segments: As in `Store`; none.
        runs: Number → run; tests take some away, and change them.
    """

    def __init__(self, address: str = "memory") -> None:
        """Begin with nothing."""
        self.address = address
        self.warnings: tuple[str, ...] = ()
        self.segments: Store | None = None
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

    def describe_remains(self) -> str:
        """Return nothing: erased runs are gone."""
        return ""

    def close(self) -> None:
        """Do nothing: there is no connection."""


FAULTS = ("stored, unknown", "stored, taken", "not stored, taken", "stored late, unknown")
"""What may become of a put, and what is answered."""


class FaultyStore:
    """Another store whose next put goes wrong where a test says how.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`; none.
        fault: One of the faults; empty for none.
    """

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self.address = store.address
        self.warnings: tuple[str, ...] = ()
        self.fault = ""
        self._store = store
        self._late: tuple[int, bytes] | None = None

    @property
    def segments(self) -> Store | None:
        """Return those of the store."""
        return self._store.segments

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers in use after a number."""
        return self._store.list(after)

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers."""
        return self._store.get(numbers)

    def put(self, number: int, data: bytes) -> Put:
        """Store a run, unless it goes wrong; what came late is stored before the next one."""
        late, self._late = self._late, None
        if late is not None:
            self._store.put(*late)
        fault, self.fault = self.fault, ""
        if fault == "stored late, unknown":
            self._late = number, data
        elif fault != "not stored, taken":
            answer = self._store.put(number, data)
            if not fault:
                return answer
        return Put(PutOutcome.TAKEN if fault.endswith("taken") else PutOutcome.UNKNOWN)

    def erase(self, before: int) -> None:
        """Replace earlier runs by nothing."""
        self._store.erase(before)

    def describe_remains(self) -> str:
        """Return what the store says."""
        return self._store.describe_remains()

    def close(self) -> None:
        """Close the store."""
        self._store.close()
