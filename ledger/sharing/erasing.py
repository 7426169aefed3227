"""Erasing what a book says is redacted: up to where that was done here, so that a killed sync does it again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from tallybook.ledger.events import EventRedacted
from tallybook.ledger.line import WRITER, first_seq, head_field
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.storage import redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.sharing.landing import Sent
    from tallybook.ledger.sharing.replica import Current, Replica


_REDACTION: Final = re.compile(rb'[^\n\t]*,\t"kind":"event\.redacted","v":1,"body":\{"id":"([^"]*)"\}')
_LINE: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":[0-9]+,"id":"([^"]*)"[^\n]*')


class Redaction(NamedTuple):
    """A redaction in a book.

    Attributes:
        seq: Its event number of the book.
        writer: The machine that published it.
        of: The machine that had published the text; empty where the book does not say.
        name: The entry that the text was given; empty where it was none.
    """

    seq: int
    writer: str
    of: str
    name: str


def find_redactions(read: Callable[[], Iterable[bytes]], after: int = 0) -> list[Redaction]:
    """Return the redactions of a book after an event number.

    Args:
        read: Returns the book's bytes, some whole lines at a time.
        after: The event number.
    """
    writer = WRITER.encode()
    found = [match for data in read() for match in _REDACTION.finditer(data) if first_seq(match[0]) > after]
    ids = {match[1] for match in found}
    # Without a redaction the book is read once.
    lines = {match[1]: match[0] for data in read() for match in _LINE.finditer(data) if match[1] in ids} if ids else {}
    return [
        Redaction(
            first_seq(match[0]),
            head_field(match[0], writer),
            head_field(lines.get(match[1], b"").partition(b"\t")[0], writer),
            head_field(lines.get(match[1], b""), b"name"),
        )
        for match in found
    ]


def batches_after(copy: Replica, seq: int, new: Sequence[RawBatch]) -> Iterable[RawBatch]:
    """Return the batches of a copy of a book after an event number.

    Args:
        copy: The copy.
        seq: The event number.
        new: Its last batches, where they were just appended.
    """
    return new if new and new[0].first == seq + 1 else (batch for batch in copy.read() if batch.last > seq)


def erase_listed(copy: Replica, seq: int) -> None:
    """Erase the texts that a copy of a book lists as redacted, where they came in again after an event number.

    Raises:
        CannotWriteError, OutcomeUnknownError: The disk refuses.
    """
    # A copy that is fetched again brings back texts that were erased here, and that the engine still holds.
    listed = redaction.read_pending(copy.folder)
    ids = frozenset(listed.ids if listed else ())
    if ids and not ids.isdisjoint(copy.ids(seq)):
        redaction.erase(copy.log.path, copy.read(), ids)


def pending_finder(pending: Iterable[Sent]) -> Callable[[RawBatch], Iterable[str]]:
    """Return a function that returns the ids of the events in a batch of a copy that pending batches redact.

    An imported ledger redacts what comes in only later.
    """
    records = (record for own in pending for record in own.records)
    ids = {record.event.id for record in records if isinstance(record.event, EventRedacted)}

    return lambda batch: ids and ids.intersection(replicas.find_ids(batch.data))


def list_lost(copy: Replica, batches: Sequence[RawBatch], by: Mapping[str, str]) -> None:
    """List in a copy of a book the texts that came in erased, and whose redaction these batches do not have.

    A machine that gives an engine back what it lost can be ahead of its own ``event.redacted``, and another history may
    lack it.

    Args:
        copy: The copy.
        batches: What was appended to it.
        by: Who lists them.

    Raises:
        CannotWriteError, OutcomeUnknownError: The disk refuses.
    """
    erased = {id_ for batch in batches for _, id_ in redaction.find_erased(batch)}
    if lost := sorted(erased.difference(*map(redaction.redacted_ids, batches))):
        before = redaction.read_pending(copy.folder)
        ids = dict.fromkeys((*(before.ids if before else ()), *lost))
        redaction.write_pending(copy.folder, redaction.PendingRedaction(tuple(ids), (), "redacted", by))


def note_erased(ledger: StrPath, current: Current, seq: int) -> Current:
    """Store up to which event number of the book redacted texts were erased, and return what says so.

    Raises:
        CannotWriteError: The disk refuses.
    """
    stored = replicas.read_current(ledger)
    if stored is not None and stored.erased != seq:
        replicas.write_current(ledger, attrs.evolve(stored, erased=seq))
    return attrs.evolve(current, erased=seq)
