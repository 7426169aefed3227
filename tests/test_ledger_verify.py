"""The verdict on a whole ledger: damage, notes, and the position of the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.ledger_lines import batches_of, forge, raw, stamp
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import Problem
from tallybook.ledger.events import LedgerOpened, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import (
    START,
    Draft,
    Position,
    RawBatch,
    frame,
    join_key,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head
from tallybook.ledger.verification import Verification, verify

RATED = encode(PointRated("kpt_001", "helpful"))
BATCHES = batches_of(
    [encode(LedgerOpened("ledger-1", 1))],
    [encode(PointAdded("kpt_001", "Use type hints")), encode(PlaybookUpdated(1, 0, 0))],
    [RATED],
)
LOG = raw(BATCHES)
LAST = BATCHES[-1].position
BODY = '"kind":"point.removed","v":1,"body":{"name":"kpt_001"}'
ADDED = '"kind":"point.added","v":1,"body":{"name":"kpt_002"}'
STARRED = '"kind":"point.starred","v":1,"body":{}'
SHORT = BATCHES[1].position


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[..., JsonlLog]:
    """Return a function that writes a ledger's bytes and a head that acknowledges up to a position, and opens it."""

    def write(data: bytes | None, head: Position | bytes | None = LAST) -> JsonlLog:
        if data is not None:
            (tmp_path / "events.jsonl").write_bytes(data)
        if head is not None:
            text = head if isinstance(head, bytes) else heads.encode(Head(head, "boot"))
            (tmp_path / "head").write_bytes(text)
        return JsonlLog(tmp_path)

    return write


def followed_by(*batches: RawBatch) -> bytes:
    """Return the log with further batches at its end."""
    return LOG + raw(batches)


def forged(what: str, free: str | None = None, **head: str) -> bytes:
    """Return the log with a further line of any content with valid proofs."""
    return followed_by(forge((what, free), mark=LAST, head=head))


@pytest.mark.parametrize("head", [None, b"", b"\0" * 192, b"tallybook-head 1 4"], ids=["gone", "empty", "NUL", "torn"])
def test_a_missing_head_is_noted(ledger: Callable[..., JsonlLog], head: bytes | None) -> None:
    """Without a head the log is read to its end, and a note names what cannot be checked."""
    verdict = verify(ledger(LOG, head))
    assert (True, 4) == (verdict.ok, verdict.events)
    assert ("there is no head, so a missing end cannot be detected",) == verdict.notes


@pytest.mark.parametrize(("end", "ok"), [(b"", True), (BATCHES[2].raw[-60:], False)], ids=["torn", "damaged"])
def test_without_a_head_only_an_end_can_be_torn(ledger: Callable[..., JsonlLog], end: bytes, ok: bool) -> None:
    """Invalid bytes are damage if a batch ends after them, and a torn end if none does."""
    verdict = verify(ledger(LOG[: SHORT.offset + 20] + end, None))
    assert (ok, 3) == (verdict.ok, verdict.events)


def test_a_repeated_id_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """An event is in a log once; its repetition is named."""
    (problem,) = verify(ledger(forged(BODY, id='"id-2"'))).problems
    assert Problem("events.jsonl: seq 5", "repeats the id id-2", 5) == problem


@pytest.mark.parametrize("digests", [("", ""), ("1" * 32, "1" * 32), ("1" * 32, "2" * 32), ("", "2" * 32)])
def test_a_repeated_key_is_damage(ledger: Callable[..., JsonlLog], digests: tuple[str, str]) -> None:
    """A key is in a log once, whatever was delivered under it; its repetition is named."""
    one = frame([RATED], stamp(LAST, key=join_key("once", digests[0])))
    two = frame([RATED], stamp(one.position, key=join_key("once", digests[1])))
    (problem,) = verify(ledger(followed_by(one, two))).problems
    assert Problem("events.jsonl: seq 6", "repeats the key once", 6) == problem


def test_unknown_kinds_are_listed(ledger: Callable[..., JsonlLog]) -> None:
    """Ignored events are counted by kind and version."""
    stars = [Draft("point.starred", 1, {}), Draft("point.rated", 2, {}), Draft("point.starred", 1, {})]
    verdict = verify(ledger(followed_by(frame(stars, stamp(LAST)))))
    assert (True, {"point.starred/1": 2, "point.rated/2": 1}) == (verdict.ok, verdict.unknown_kinds)


@pytest.mark.parametrize(
    "data",
    [
        forged('"kind":"point.removed","v":1,"body":{"name":7}'),
        forged('"kind":"point.removed","v":1,"body":{}'),
        forged('"kind":"point.removed","v":1,"body":{"name":"a","name":"b"}'),
        forged('"kind":"point.removed","v":1,"v":1,"body":{"name":"a"}'),
        forged('"kind":"point.starred","v":1,"body":{"stars":9007199254740993}'),
        forged('"kind":"point.starred","v":1,"body":{"stars":NaN}'),
        forged(BODY, by='{"rater":7}'),
        forged(BODY, at='"yesterday"'),
        forged(BODY, at='"2026-11-21T20:17:03Z"'),
        forged(BODY, at="7"),
        forged(BODY, at='"0000"'),
        forged(BODY, id="7"),
        forged(BODY, key="7"),
        forged(BODY, id='"id-5","id":"id-9"'),
        forged(BODY, at='"2026-02-30T20:17:03.123456Z"'),
        forged(BODY, at='"2026-11-21T20:17:61.123456Z"'),
        forged(BODY, by='{"rater":"test","rater":"human"}'),
        forged(BODY, by='{"rater": "test"}'),
        forged(BODY, by='{"rater":"t\\u0065st"}'),
        forged('"kind":"point.removed","v":1,"body":{"name":"a"},"more":1'),
        forged(ADDED, '{"salt":"5a17","text":"a","text":"b"}'),
        forged(ADDED, '{"salt":"5a17", "text":"a"}'),
        forged(STARRED, '{"salt":"5a17","stars":[9007199254740993]}'),
        forged('"kind":"text.continued","v":1,"body":{}', "null"),
    ],
    ids=lambda data: data[len(LOG) + 50 : -45].decode(),
)
def test_an_invalid_event_is_damage_although_its_chain_fits(ledger: Callable[..., JsonlLog], data: bytes) -> None:
    """Even with a right chain, ambiguous JSON and invalid field values are damage."""
    verdict = verify(ledger(data))
    assert {5} == {problem.seq for problem in verdict.problems}


def test_every_batch_of_an_invalid_author_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """Authors of lines that follow on each other are compared, and an invalid one is not believed the second time."""
    first = forge((BODY, None), mark=LAST, head={"by": '{"rater":7}'})
    second = forge((BODY, None), mark=first.position, head={"by": '{"rater":7}'})
    verdict = verify(ledger(followed_by(first, second), second.position))
    assert {5, 6} == {problem.seq for problem in verdict.problems}


@pytest.mark.parametrize("seq", [1, 2, 9])
def test_a_missing_expected_head_is_a_problem(ledger: Callable[..., JsonlLog], seq: int) -> None:
    """A ledger that was written anew verifies, but does not have the noted head of the old one."""
    message = f"no batch that ends at seq {seq} has the chain {BATCHES[2].chain}, which was expected"
    problem = Problem("events.jsonl", message, seq)
    assert Verification(4, LAST, (problem,), (), {}) == verify(ledger(LOG), expect=(seq, BATCHES[2].chain))


def test_an_expected_head_without_a_ledger_is_a_problem(ledger: Callable[..., JsonlLog]) -> None:
    """If the ledger is missing with its head, the expectation fails; with its head, one problem is reported."""
    expect = (3, BATCHES[1].chain)
    problem = Problem("events.jsonl", "is missing, and seq 3 was expected", 3)
    assert Verification(0, START, (problem,), (), {}) == verify(ledger(None, None), expect=expect)
    problem = Problem("events.jsonl", "is missing, and held 4 events", 4)
    assert Verification(0, START, (problem,), (), {}) == verify(ledger(None), expect=expect)


@pytest.mark.parametrize("number", [1, 2])
def test_damage_hides_no_later_batch(ledger: Callable[..., JsonlLog], number: int) -> None:
    """The missing range has its first and last seq, and all later valid batches are checked."""
    batch, more = BATCHES[number], frame([Draft("point.starred", 1, {})], stamp(LAST))
    changed = batch.raw.replace(b'"id":"id', b'"id":"di', 1)
    again = forge((BODY, None), mark=more.position, head={"id": '"id-1"'})
    log = ledger(followed_by(more, again).replace(batch.raw, changed), again.position)
    verdict = verify(log)
    message = "was changed: its bytes do not fit its checksum"
    problem = Problem(f"events.jsonl:{batch.first}", message, batch.first, batch.first)
    assert (problem, Problem("events.jsonl: seq 6", "repeats the id id-1", 6)) == verdict.problems
    assert (BATCHES[number - 1].last, BATCHES[number - 1].position) == (verdict.events, verdict.head)
    assert ((batch.first, batch.last),) == verdict.missing
    assert {"point.starred/1": 1} == verdict.unknown_kinds
