"""A store in memory: the model that the others are compared with, and that of the laws' random histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tallybook.ledger.line import START, Draft, Position, Stamp, digest, frame
from tallybook.ledger.sharing.engine import Run, Store, StoredRun


class MemoryStore(Store):
    """Holds runs in a dictionary, which tests change. Several machines share one by sharing the object."""

    def __init__(self, address: str = "memory") -> None:
        """Begin with nothing."""
        self.address = address
        self.runs: dict[int, bytes] = {}

    def list(self, after: int) -> Sequence[StoredRun]:
        """Return the numbers in use after a number."""
        return [
            StoredRun(number, digest(data), len(data)) for number, data in sorted(self.runs.items()) if number > after
        ]

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers."""
        return {number: self.runs[number] for number in numbers if number in self.runs}

    def put(self, number: int, data: bytes) -> str | None:
        """Store a run, if the number is free."""
        if number in self.runs or (number > 1 and number - 1 not in self.runs):
            return None
        self.runs[number] = data
        return digest(data)

    def erase(self, before: int) -> None:
        """Replace earlier runs by nothing."""
        self.runs |= {number: b"" for number in self.runs if number < before}

    def describe_remains(self) -> str:
        """Return nothing: erased runs are gone."""
        return ""


FAULTS = ("stored", "not stored", "stored late")
"""What may become of a put that is not confirmed."""


class FaultyStore(Store):
    """Another store whose next put goes wrong by the fault that a test names; empty for none."""

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self.address = store.address
        self.segments = store.segments
        self.fault = ""
        self._store = store
        self._late: tuple[int, bytes] | None = None

    def list(self, after: int) -> Sequence[StoredRun]:
        """Return the numbers in use after a number."""
        return self._store.list(after)

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers."""
        return self._store.get(numbers)

    def put(self, number: int, data: bytes) -> str | None:
        """Store a run, unless it goes wrong; what came late is stored before the next one."""
        late, self._late = self._late, None
        if late is not None:
            self._store.put(*late)
        fault, self.fault = self.fault, ""
        if fault == "stored late":
            self._late = number, data
        elif fault != "not stored":
            answer = self._store.put(number, data)
            if not fault:
                return answer
        return None

    def erase(self, before: int) -> None:
        """Replace earlier runs by nothing."""
        self._store.erase(before)

    def describe_remains(self) -> str:
        """Return what the store says."""
        return self._store.describe_remains()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


# Helpers of tests: runs of a book, made without a ledger.


AT = "2026-11-23T12:00:00.000000Z"


def _ids(beginning: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{beginning}-{number}"


def make_run(after: Position, writer: str, *names: str, text: str = "") -> tuple[Run, Position]:
    """Return a run with one batch, a rating of each name, after a position; and the position after it.

    Args:
        after: Where the book ends.
        writer: Begins the ids, so that two writers' runs differ.
        names: The names that are rated.
        text: A text of an entry that is added first, to make the run long; empty for none.
    """
    drafts = [Draft("point.rated", 1, {"name": name, "rating": "helpful"}) for name in names]
    if text:
        drafts.insert(0, Draft("point.added", 1, {"name": "kpt_900"}, {"text": text}))
    ids = _ids(f"{writer}-{after.seq}")
    by = {"rater": "test"}
    batch = frame(drafts, Stamp(after, AT, by, lambda: next(ids), lambda: "salt"))
    return Run(batch.first, batch.last, after.chain, batch.chain, batch.raw), batch.position


def make_runs(number: int, writer: str = "anna", after: Position = START) -> list[Run]:
    """Return so many runs of one rating each, which follow one another."""
    runs = []
    for _ in range(number):
        run, after = make_run(after, writer, "kpt_001")
        runs.append(run)
    return runs


def plain(run: Run) -> Run:
    """Return a run without what an engine says of where it has it."""
    return run._replace(place="", author="", fresh=None)
