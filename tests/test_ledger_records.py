"""What the bytes of a batch show before its headers are decoded: a search never misses a match."""

from __future__ import annotations

import pytest

from helpers.memory_log import MemoryLog
from tallybook.ledger.clock import moment
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.events import PointAdded, PointRated
from tallybook.ledger.records import Batch, EventRecord, make_batch


def appended(by: dict[str, str], text: str = "plain") -> Batch:
    """Return a batch of two events as a ledger returns it."""
    log = MemoryLog(lambda: moment(1_800_000_000_000_000))
    with log.transaction() as tx:
        tx.append([encode(PointAdded("kpt_001", text)), encode(PointRated("kpt_001", "helpful"))], by)
    return list(decode(log.read()))[-1]


def test_a_batch_matches_its_own_ids_alone() -> None:
    """Each of its events is found by its id, and no other id matches."""
    batch = appended({"rater": "human"})
    assert [True, True] == [batch.may_contain_ids({one.id}) for one in batch.records]
    assert not batch.may_contain_ids({"0" * 36, ""})
    assert not batch.may_contain_ids(set())


@pytest.mark.parametrize("session", ["s1", "ünï ✨", 'with "quotes"', "back\\slash", "a\tb"])
def test_a_batch_matches_its_own_author(session: str) -> None:
    """Its session and its rater are found, whatever escapes their bytes need."""
    batch = appended({"rater": "human", "session": session})
    assert session == batch.records[0].by.session
    assert batch.may_contain_text(session)
    assert batch.may_contain_text("human")


def test_a_text_with_an_escape_matches_anything() -> None:
    """A session cannot be missed because of another spelling."""
    assert appended({"rater": "human"}, 'say "no"').may_contain_text("s2")
    assert not appended({"rater": "human"}).may_contain_text("s2")
    assert not appended({"rater": "human"}).may_contain_text("\udce9")


def test_a_batch_outside_a_ledger_matches_anything() -> None:
    """Nothing is known of it before its records are decoded."""
    batch = make_batch(EventRecord(1, "2026-01-01T00:00:00.000000Z", PointRated("kpt_001", "helpful"), "id-1"))
    assert batch.may_contain_ids({"other"})
    assert batch.may_contain_text("s2")
    assert batch.at == batch.unverified_at
