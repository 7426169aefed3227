"""What counts of an engine's runs goes into the copy of the book byte for byte, and nothing else does."""

from __future__ import annotations

import pytest

from helpers.books import AT, make_run, make_runs
from tallybook.ledger.codec import encode
from tallybook.ledger.events import BookOpened, BookRules, Event
from tallybook.ledger.line import START, Position, RawBatch, Stamp, frame
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.book import count, cut_runs
from tallybook.ledger.sharing.engine import Run


def _batch(event: Event, after: Position, id_: str) -> RawBatch:
    return frame([encode(event)], Stamp(after, AT, {"rater": "test"}, lambda: id_, lambda: "salt"))


OPENED = _batch(BookOpened("book", "demo", 1, 1), START, "opened")
RUNS = [*cut_runs([OPENED], START, 1), *make_runs(4, after=OPENED.position)]


@pytest.mark.parametrize(("number", "known", "counts"), [(2, 1, 1), (2, 2, 3), (3, 2, 1), (1, 2, 1)])
def test_only_the_next_rules_can_follow(number: int, known: int, counts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not know the next rules takes in up to there; other numbers are skipped by every program."""
    monkeypatch.setattr(book, "NEWEST", known)
    changed = _batch(BookRules(number), OPENED.position, "changed")
    later = make_run(changed.position, "anna", "kpt_001")[0]
    counted = count([RUNS[0], *cut_runs([changed], OPENED.position, 1), later], START, set())
    is_unknown = (number, known) == (2, 1)
    assert (counts, is_unknown) == (len(counted.batches), counted.newer is not None)
    assert (0 if is_unknown or counts > 1 else 2) == len(counted.skipped)


def test_rules_change_only_where_a_run_begins() -> None:
    """Else a program that knows the next rules could skip what one that does not has taken in; fresh runs keep that."""
    changed = _batch(BookRules(2), OPENED.position, "changed")
    batches = [OPENED, changed]
    together = Run(1, changed.last, START.chain, changed.chain, b"".join(batch.raw for batch in batches))
    counted = count([together], START, set())
    assert ([], None, 1) == (counted.batches, counted.newer, len(counted.skipped))
    runs = cut_runs(batches, START, 1_000_000)
    assert [1, 2] == [run.first for run in runs]
    assert 1 == len(count(runs, START, set()).batches)


def test_runs_whose_bytes_end_elsewhere_do_not_count() -> None:
    """Two runs that prove themselves only together are skipped, as by a reader who meets them one after the other."""
    first, second, third = RUNS[1:4]
    moved = [first._replace(data=first.data + second.data), second._replace(data=b""), third]
    counted = count(moved, OPENED.position, {"opened"}, 1)
    assert ([], 3) == (counted.batches, len(counted.skipped))
