"""Helpers of tests: runs of a book, made without a ledger."""

from __future__ import annotations

from collections.abc import Iterator

from tallybook.ledger.line import START, Draft, Position, Stamp, frame
from tallybook.ledger.sharing.engine import Run

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
