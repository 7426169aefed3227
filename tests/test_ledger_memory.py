"""The ledger in memory begins like the one on disk; the state machine compares the rest."""

from __future__ import annotations

from tallybook.ledger.backends.memory import MemoryLog
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.events import LedgerOpened, PointAdded
from tallybook.ledger.line import FORMAT


def test_its_first_transaction_opens_it() -> None:
    """The first event names the ledger and the current format."""
    log = MemoryLog()
    assert not log.exists()
    with log.transaction() as transaction:
        transaction.append([encode(PointAdded("kpt_001", "a"))], {"rater": "test"})
    opened, added = [next(iter(batch.events)) for batch in decode(log.read())]
    assert isinstance(opened, LedgerOpened)
    assert (FORMAT, PointAdded("kpt_001", "a")) == (opened.format, added)
