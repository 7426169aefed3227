"""Decoded events with their metadata (event number, time, author), and batches of them, which views fold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.line import RawBatch, join_key
from tallybook.ledger.playbook_constants import AGENT

if TYPE_CHECKING:
    from tallybook.ledger.events import Event


@attrs.frozen
class Author:
    """Who recorded an event.

    Attributes:
        rater: human, agent, reflector, import, test or tallybook.
        session: Session id; None outside a session.
        agent: Name of the agent; None where unknown.
        model: Name of the model that rated; None without one.
        place: Where the evidence is; None without evidence.
        writer: The machine that recorded it, in a shared book; None in a machine's own ledger.
    """

    rater: str
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    place: str | None = None
    writer: str | None = None


@attrs.frozen
class EventRecord:
    """An event with its metadata: one decoded line of the ledger.

    Attributes:
        seq: Event number in this copy of the ledger, from 1.
        at: When it was recorded: UTC, microseconds, ``…Z``.
        event: The event.
        id: Its UUIDv7, the same in every copy.
        by: Who recorded it.
        key: Idempotency key of its batch, on the first line only; None without one.
        when: When it happened, if that was another time; None otherwise.
        part: Index in its batch, from 1, and the size of the batch.
        payload: Digest of what was delivered under the key, where its caller gave it; empty otherwise.
    """

    seq: int
    at: str
    event: Event
    id: str = ""
    by: Author = Author("test")
    key: str | None = None
    when: str | None = None
    part: tuple[int, int] = (1, 1)
    payload: str = ""

    @property
    def delivery(self) -> str | None:
        """Return what its line has as its key, as ``line.join_key`` returns it; None without a key."""
        return None if self.key is None else join_key(self.key, self.payload)


@attrs.define(eq=False, repr=False)
class Batch:
    """The events of one append, which views apply all at once or not at all.

    Most folds need only the events, so the metadata is decoded, by ``recover(raw, events)``, when ``records`` is first
    used.

    Attributes:
        last: Event number of its last line.
        chain: Its chain value; empty where it does not come from a ledger.
        events: Its events in order.
        written_at: When it was recorded, where this process has just written it; empty elsewhere.
    """

    last: int
    chain: str
    events: Sequence[Event]
    _recover: Callable[[Any, Sequence[Event]], Sequence[EventRecord]]
    _raw: RawBatch | None = None
    written_at: str = ""
    _records: Sequence[EventRecord] | None = None
    _is_by_agent: bool | None = None

    @property
    def first(self) -> int:
        """Return the event number of its first line."""
        return self.records[0].seq if self._raw is None else self._raw.first

    @property
    def begin(self) -> int:
        """Return the offset of its first byte in the log, 0 where it does not come from one; cheaper than ``end``."""
        return 0 if self._raw is None else self._raw.offset

    @property
    def end(self) -> int:
        """Return the offset after its last byte in the log, 0 where it does not come from one."""
        return 0 if self._raw is None else self._raw.end

    @property
    def records(self) -> Sequence[EventRecord]:
        """Return each event with its metadata.

        Raises:
            DamagedLedgerError: A head cannot be decoded, although the chain fits.
        """
        if self._records is None:
            self._records = self._recover(self._raw, self.events)
        return self._records

    def with_records(self, records: Sequence[EventRecord]) -> Batch:
        """Return the same batch with other records."""
        return Batch(
            self.last, self.chain, tuple(record.event for record in records), lambda _raw, _events: records, self._raw
        )

    @property
    def at(self) -> str:
        """Return when it was recorded."""
        return self.written_at or self.records[-1].at

    def may_contain_ids(self, ids: Collection[str]) -> bool:
        """Return False where none of its events has one of these ids; heads are not decoded, so True is a maybe."""
        if self._raw is None:
            return True
        # Text that looks like an id can also be elsewhere in a line.
        parts = self._raw.data.split(b'"id":"')[1:]
        return any(part.partition(b'"')[0].decode("utf-8", "replace") in ids for part in parts)

    def is_by_agent(self) -> bool:
        """Return whether an agent recorded its last event, without decoding heads where that can be decided."""
        # Decided once: the playbook asks for each rating.
        if self._is_by_agent is None:
            line = b"\\" if self._raw is None else self._raw.lines[-1]
            # A JSON escape can stand for any text.
            may_be = b"\\" in line or b'"rater":"%b"' % AGENT.encode() in line
            self._is_by_agent = may_be and self.records[-1].by.rater == AGENT
        return self._is_by_agent

    def may_contain_text(self, text: str) -> bool:
        """Return False where none of its lines contains a text; True is a maybe. Much faster than decoding heads."""
        # A JSON escape can stand for any text, and a batch without bytes cannot be searched.
        data = b"\\" if self._raw is None else self._raw.data
        return b"\\" in data or text.encode("utf-8", "surrogatepass") in data


def make_batch(*records: EventRecord, chain: str = "") -> Batch:
    """Return a batch of records that do not come from a log, for tests and what-ifs."""
    return Batch(records[-1].seq, chain, tuple(record.event for record in records), lambda _raw, _events: records)
