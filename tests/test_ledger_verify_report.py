"""The verification report: missing ranges, expected positions, order, messages, and what salvage yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.ledger_lines import batches_of, forge, raw
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.errors import NewerLedgerError, Problem
from tallybook.ledger.events import LedgerOpened, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import START, Draft, Position
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head
from tallybook.ledger.verification import Verdict, salvage, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RATED = encode(PointRated("kpt_001", "helpful"))
STARRED = Draft("point.starred", 1, {})
BATCHES = batches_of(
    [encode(LedgerOpened("ledger-1", 1))],
    [encode(PointAdded("kpt_001", "Use type hints")), encode(PlaybookUpdated(1, 0, 0))],
    [RATED],
    [STARRED],
    [RATED],
)
LOG = raw(BATCHES)
LAST = BATCHES[-1].position
BODY = '"kind":"point.removed","v":1,"body":{"name":"kpt_001"}'
CHANGED = "was changed: its bytes do not fit its checksum"


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[..., JsonlLog]:
    """Return a function that writes a ledger's bytes and a head that acknowledges up to a position, and opens it."""

    def write(data: bytes | None, head: Position | None = LAST) -> JsonlLog:
        if data is not None:
            (tmp_path / "events.jsonl").write_bytes(data)
        if head is not None:
            (tmp_path / "head").write_bytes(heads.encode(Head(head, "boot")))
        return JsonlLog(tmp_path)

    return write


def problem_at(seq: int, message: str) -> Problem:
    """Return the problem of an existing line."""
    return Problem(f"events.jsonl: seq {seq}", message, seq)


@pytest.mark.parametrize("seq", [1, 2, 3, 9])
def test_a_missing_expected_head_is_a_problem(ledger: Callable[..., JsonlLog], seq: int) -> None:
    """A ledger that was written anew verifies, but does not have the noted head of the old one."""
    message = f"no batch that ends at seq {seq} has the chain {BATCHES[2].chain}, which was expected"
    problem = Problem("events.jsonl", message, seq)
    assert Verdict(6, LAST, (problem,), (), {"point.starred/1": 1}) == verify(
        ledger(LOG), expect=(seq, BATCHES[2].chain)
    )


def test_an_expected_head_without_a_ledger_is_a_problem(ledger: Callable[..., JsonlLog]) -> None:
    """If the ledger is missing with its head, the expectation fails; with its head, one problem is reported."""
    expect = (3, BATCHES[1].chain)
    problem = Problem("events.jsonl", "is missing, and seq 3 was expected", 3)
    assert Verdict(0, START, (problem,), (), {}) == verify(ledger(None, None), expect=expect)
    problem = Problem("events.jsonl", "is missing, and held 6 events", 6)
    assert Verdict(0, START, (problem,), (), {}) == verify(ledger(None), expect=expect)


@pytest.mark.parametrize("number", range(1, 4))
def test_damage_hides_no_later_batch(ledger: Callable[..., JsonlLog], number: int) -> None:
    """The missing range has its first and last seq, and all later valid batches are checked."""
    batch = BATCHES[number]
    changed = raw(BATCHES[:number]) + batch.raw.replace(b'"id":"id', b'"id":"di', 1) + raw(BATCHES[number + 1 :])
    again = forge((BODY, None), mark=LAST, head={"id": '"id-1"'})
    verdict = verify(ledger(changed + again.raw, again.position))
    problem = Problem(f"events.jsonl:{batch.first}", CHANGED, batch.first, batch.first)
    assert (problem, problem_at(7, "repeats the id id-1")) == verdict.problems
    assert (BATCHES[number - 1].last, BATCHES[number - 1].position) == (verdict.events, verdict.head)
    assert ((batch.first, batch.last),) == verdict.missing
    assert ({} if number == 3 else {"point.starred/1": 1}) == verdict.unknown_kinds


def test_a_later_format_is_refused_by_name(ledger: Callable[..., JsonlLog]) -> None:
    """The error has the file and the remedy."""
    opened = batches_of([encode(LedgerOpened("ledger-1", 2))])
    with pytest.raises(NewerLedgerError) as caught:
        verify(ledger(raw(opened), opened[0].position))
    expected = "events.jsonl: written in ledger format 2, this Tallybook reads up to 1; upgrade Tallybook"
    assert expected == str(caught.value)


def salvaged(log: JsonlLog) -> list[int]:
    """Return the last seq of every batch that salvage returns."""
    return [batch.last for batch in salvage(log)]


def test_salvage_needs_a_log(ledger: Callable[..., JsonlLog]) -> None:
    """Without a log nothing can be salvaged."""
    with pytest.raises(FileNotFoundError):
        salvaged(ledger(None))


def test_salvage_returns_whole_batches(ledger: Callable[..., JsonlLog]) -> None:
    """Of a whole ledger it returns all; of a damaged one all batches that verify and fit their class."""
    assert [1, 3, 4, 5, 6] == salvaged(ledger(LOG))
    assert [1, 3, 5, 6] == salvaged(ledger(LOG.replace(b'"id":"id-4"', b'"id":"id-9"')))
    for bad in (
        forge(('"kind":"point.removed","v":1,"body":{"name":7}', None), mark=LAST),
        forge((BODY, None), mark=LAST, head={"by": '{"rater":7}'}),
    ):
        more = batches_of([RATED], mark=bad.position)[0]
        assert [1, 3, 4, 5, 6, 8] == salvaged(ledger(LOG + raw([bad, more]), more.position))


def unacknowledged() -> bytes:
    """Return the log with a batch changed so that all later ones can be verified."""
    return LOG.replace(b'"id":"id-4"', b'"id":"id-9"')


def test_salvage_ends_at_a_torn_end(ledger: Callable[..., JsonlLog]) -> None:
    """An invalid unacknowledged range is no damage, and nothing after it counts."""
    assert [1, 3] == salvaged(ledger(unacknowledged(), BATCHES[1].position))
    assert [1, 3, 5, 6] == salvaged(ledger(unacknowledged(), BATCHES[2].position))
    verdict = verify(ledger(unacknowledged(), BATCHES[1].position))
    left = len(LOG) - BATCHES[1].end
    expected = (f"{left:,} bytes at the end were never acknowledged; the next writer seals them",)
    assert ((), expected, 3) == (verdict.problems, verdict.notes, verdict.events)
