"""The log as its readers read it: whole up to its acknowledged end, or refused with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.ledger_lines import batches_of, raw, stamp
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import DamagedLedgerError, Problem
from tallybook.ledger.events import EventRedacted, LedgerOpened, PointAdded, PointRated
from tallybook.ledger.line import START, Position, frame, split_line, split_lines
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.line import RawBatch

BATCHES = batches_of(
    [encode(LedgerOpened("ledger-1", 1))],
    [encode(PointAdded("kpt_001", "Use type hints"))],
    [encode(PointRated("kpt_001", "helpful"))],
)
LOG = raw(BATCHES)
LAST = BATCHES[-1].position


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


def refused(log: JsonlLog, after: Position = START) -> tuple[Problem, ...]:
    """Return the message of a reader that refuses the ledger."""
    with pytest.raises(DamagedLedgerError) as caught:
        list(log.read(after))
    return caught.value.problems


def redacted_log(data: bytes, batch: RawBatch) -> bytes:
    """Return a log with the text of a batch's first line overwritten."""
    value = split_line(split_lines(batch.data)[0])[2] or b""
    assert 1 == data.count(value)
    return data.replace(value, b"null".ljust(len(value)))


def test_a_log_that_is_too_short_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """The file, the line at which it ends, and the acknowledged position are named before any batch is returned."""
    lost = len(LOG) - BATCHES[1].end
    message = f"ends {lost} bytes before its acknowledged end at seq 3"
    log = ledger(LOG[: BATCHES[1].end])
    with pytest.raises(DamagedLedgerError) as caught:
        next(log.read())
    assert (Problem("events.jsonl:3", message, 3, 3),) == caught.value.problems


def test_another_log_is_damage(ledger: Callable[..., JsonlLog]) -> None:
    """A valid log without the acknowledged chain is refused after its last batch."""
    log = ledger(LOG, LAST._replace(chain="0" * 32))
    reading = log.read()
    assert BATCHES == [next(reading) for _ in BATCHES]
    with pytest.raises(DamagedLedgerError) as caught:
        next(reading)
    message = f"does not have the chain {'0' * 32} that was acknowledged at seq 3"
    assert (Problem("events.jsonl", message, 3),) == caught.value.problems


@pytest.mark.parametrize("where", ["text", "later"])
def test_damage_after_an_erased_text_is_damage(ledger: Callable[..., JsonlLog], where: str) -> None:
    """If the log is damaged after it, whether it was redacted is unknown, and that damage is reported."""
    said = frame([encode(EventRedacted("id-2", "a name"))], stamp(LAST))
    data = redacted_log(LOG, BATCHES[1]) + said.raw
    assert [*range(1, 5)] == [one.last for one in ledger(data, said.position).read()]
    changed = data.replace(b"helpful", b"harmful") if where == "later" else data.replace(b"null ", b"null:")
    assert [3 if where == "later" else 2] == [problem.seq for problem in refused(ledger(changed, said.position))]
