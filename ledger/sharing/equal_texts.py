"""Which texts of a book were equal before they were redacted, and which of its redacted events have another's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import (
    KIND_OF,
    PointAdded,
    PointEdited,
    PointMatched,
    PointReworded,
    PointSeeded,
    RedactionLinked,
)
from tallybook.ledger.sharing.landed_kinds import REDACTED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tallybook.ledger.line import RawBatch

_GIVES_TEXT: Final = (PointAdded, PointSeeded, PointEdited, PointMatched, PointReworded)
_LINKED: Final = b'"kind":"%b"' % KIND_OF[RedactionLinked].encode()
_EDITED: Final = b'"kind":"%b"' % KIND_OF[PointEdited].encode()


def redaction_links(batches: Iterable[RawBatch]) -> list[frozenset[str]]:
    """Return the ids of events whose texts were equal before they were redacted, as a machine found them."""
    found = decode(raw for raw in batches if _LINKED in raw.data)
    events = (event for batch in found for event in batch.events)
    return [frozenset(event.ids) for event in events if isinstance(event, RedactionLinked)]


def text_events(batches: Iterable[RawBatch]) -> dict[str, str]:
    """Return the event that gave each entry of a book its last text: name → id."""
    records = (record for batch in decode(batches) for record in batch.records)
    events: list[tuple[str, Any]] = [(one.id, one.event) for one in records if isinstance(one.event, _GIVES_TEXT)]
    return {event.name: id_ for id_, event in events}


def equal_entries(id_: str, links: Iterable[frozenset[str]], texts: Callable[[], Mapping[str, str]]) -> frozenset[str]:
    """Return the entries of a book whose text was equal to that of an event before both were redacted.

    Args:
        id_: Id of the event.
        links: As ``redaction_links`` returns them.
        texts: Returns what ``text_events`` does; called only where it matters.
    """
    equal = _equal_events(id_, links)
    return frozenset(name for name, event_id in texts().items() if event_id in equal) if len(equal) > 1 else frozenset()


def had_text(id_: str, name: str, links: Iterable[frozenset[str]], batches: Iterable[RawBatch]) -> bool:
    """Return whether an entry of a book ever had a text that was equal to that of an event before both were redacted.

    Args:
        id_: Id of the event.
        name: The entry's name in the book.
        links: As ``redaction_links`` returns them.
        batches: Batches of the book; read only where it matters.
    """
    others = _equal_events(id_, links) - {id_}
    records = (record for batch in decode(batches) for record in batch.records) if others else ()
    texts: Iterator[tuple[str, Any]] = ((one.id, one.event) for one in records if isinstance(one.event, _GIVES_TEXT))
    return any(event_id in others and event.name == name for event_id, event in texts)


def _equal_events(id_: str, links: Iterable[frozenset[str]]) -> frozenset[str]:
    equal, before = frozenset({id_}), frozenset[str]()
    while equal != before:
        equal, before = equal.union(*(ids for ids in links if not ids.isdisjoint(equal))), equal
    return equal


def edits_with_other_text(read: Callable[[], Iterable[RawBatch]], redacted: Collection[str]) -> frozenset[str]:
    """Return the redacted manual edits that have a text of another event in a book, which is not redacted."""
    records = (one for batch in decode(raw for raw in read() if _EDITED in raw.data) for one in batch.records)
    edits = ((one.id, one.event) for one in records if isinstance(one.event, PointEdited))
    readable = {id_ for id_, event in edits if event.text not in {None, REDACTED} and id_ in redacted}
    return frozenset(readable and readable.difference(own_texts(read(), redacted)))


def own_texts(batches: Iterable[RawBatch], ids: Collection[str]) -> list[str]:
    """Return those of some redacted events whose text in a book is their own.

    A manual edit of counts lands with the text that its entry has by then. Where an event that is not redacted gave
    the entry that text, it is another one than the edit's own, and stays.

    Raises:
        DamagedLedgerError: The bytes of the book are damaged.
    """
    standing: set[tuple[str, str]] = set()
    own: list[str] = []
    for record in (one for batch in decode(batches) for one in batch.records):
        event: Any = record.event
        given = (getattr(event, "name", ""), getattr(event, "text", None) or "")
        if record.id not in ids:
            standing.add(given)
        elif not (isinstance(event, PointEdited) and given[1] and given in standing):
            own.append(record.id)
    return own
