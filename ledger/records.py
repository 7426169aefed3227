"""An event together with when, where and by whom it was recorded; a batch of them is the step of every fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.line import SECTION, head_field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from tallybook.ledger.batches import LineBatch
    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch


_BY: Final = b',"by":'


@attrs.frozen
class Author:
    """Who says so.

    Attributes:
        rater: human, agent, reflector, import, test or tallybook.
        session: Session id, None outside a session.
        agent: Which agent, None where unknown.
        model: Which model judged, None where none did.
        place: Where the evidence stands, None without one.
    """

    rater: str
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    place: str | None = None


@attrs.frozen
class EventRecord:
    """One line of the ledger, understood.

    Attributes:
        seq: Its place in this copy, from 1.
        at: When it was recorded, UTC, microseconds, ``…Z``.
        event: What happened.
        id: The event's own UUIDv7, the same in every copy.
        by: Who says so.
        key: What turns away a second delivery; None where there can be none.
        when: When it happened, if that was another time; None otherwise.
        part: Place and size in its batch, from (1, 1).
    """

    seq: int
    at: str
    event: Event
    id: str = ""
    by: Author = Author("test")
    key: str | None = None
    when: str | None = None
    part: tuple[int, int] = (1, 1)


class Batch:
    """What was appended at once, and is applied at once or not at all.

    A fold needs little more than the events; who and when are decoded for those who ask.

    Attributes:
        last: Sequence number of its last line: the name of the moment behind it.
        chain: Its chain value, empty where it comes from no ledger.
        events: Its events in order.
    """

    __slots__ = ("_raw", "_records", "_recover", "chain", "events", "last")

    def __init__(
        self,
        last: int,
        chain: str,
        events: Sequence[Event],
        recover: Callable[[Any, Sequence[Event]], Sequence[EventRecord]],
        raw: RawBatch | LineBatch | None = None,
    ) -> None:
        """Keep the events; ``recover`` gives the records, from the bytes and the events, when they are asked for."""
        self.last = last
        self.chain = chain
        self.events = events
        self._raw = raw
        self._recover = recover
        self._records: Sequence[EventRecord] | None = None

    @property
    def begin(self) -> int:
        """Return the offset of its first byte in its file, 0 where it comes from none: sooner told than its end."""
        return 0 if self._raw is None else self._raw.offset

    @property
    def end(self) -> int:
        """Return the offset of the byte behind it in its file, 0 where it comes from none."""
        return 0 if self._raw is None else self._raw.end

    @property
    def records(self) -> Sequence[EventRecord]:
        """Return each event with its seq, time and rater."""
        if self._records is None:
            self._records = self._recover(self._raw, self.events)
        return self._records

    def with_records(self, records: Sequence[EventRecord]) -> Batch:
        """Return the same batch with other records in the place of its own."""
        return Batch(
            self.last, self.chain, tuple(one.event for one in records), lambda _raw, _events: records, self._raw
        )

    @property
    def at(self) -> str:
        """Return when it was recorded."""
        return self.records[-1].at

    @property
    def unverified_at(self) -> str:
        """Return when it was recorded, without decoding its heads, so that nobody has checked the form of it."""
        return self.at if self._raw is None else self._raw.position.at

    @property
    def unverified_authors(self) -> tuple[str, Collection[bytes]]:
        """Return when it was recorded, and each who says so in JSON, likewise; both empty where it comes from none."""
        data = b"" if self._raw is None else self._raw.data
        begin = data.find(_BY) + len(_BY)
        by = data[begin : data.find(SECTION, begin)]
        if data.count(b"%b%b%b" % (_BY, by, SECTION)) <= data.count(b"\n"):
            # One append has one time and one who says so; whatever else this is, nothing of it is left out.
            return head_field(data, b"at"), {part.partition(SECTION)[0] for part in data.split(_BY)[1:]}
        return head_field(data, b"at"), (by,)

    def may_contain_ids(self, ids: Collection[str]) -> bool:
        """Return False where none of its events has one of these ids, likewise without decoding its heads."""
        if self._raw is None:
            return True
        # What looks like an id elsewhere in a line only makes it a maybe.
        found = {part.partition(b'"')[0] for part in self._raw.data.split(b'"id":"')[1:]}
        return any(id_.decode("utf-8", "replace") in ids for id_ in found)

    def may_contain_text(self, text: str) -> bool:
        """Return False where none of its lines holds a text, in a fraction of the time that decoding its heads takes.

        A line with an escape in it may say anything, and so may a batch that comes from no ledger.
        """
        data = b"\\" if self._raw is None else self._raw.data
        return b"\\" in data or text.encode("utf-8", "surrogatepass") in data


def make_batch(*records: EventRecord, chain: str = "") -> Batch:
    """Return a batch of records that were built by hand, as tests and what-ifs do."""
    return Batch(records[-1].seq, chain, tuple(record.event for record in records), lambda _raw, _events: records)
