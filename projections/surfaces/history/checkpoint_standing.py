"""Checkpoints of the status of every entry, with the events that last changed them, each as it was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.event_json import structure
from tallybook.ledger.events import EVENT_TYPES, KIND_OF
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.entry_history.status import STATUS_VIEW, EntryStatuses, Uses
from tallybook.projections.playbook.checkpoint import Form, pack, unpack_playbook
from tallybook.projections.undo import UndoneEvent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.entry_history.status import EventReference

_PLAIN: Final = ("seq", "at", "id", "key", "when", "part")


@attrs.frozen(eq=False)
class StoredEvent:
    """An event as a checkpoint has it. It is decoded when it is asked for: most never are.

    Attributes:
        values: The event as JSON values.
    """

    values: Any

    @property
    def record(self) -> EventRecord:
        """Return the event with who and when."""
        return _decode(self.values)


def _encode(record: EventRecord) -> Any:
    """Return an event as JSON values."""
    event, undoing = record.event, None
    if isinstance(event, UndoneEvent):
        event, undoing = event.event, _encode(event.by)
    body = (KIND_OF[type(event)], attrs.asdict(event, recurse=False))
    return [[getattr(record, name) for name in _PLAIN], attrs.astuple(record.by), body, undoing]


def _decode(values: Any) -> EventRecord:
    """Return the event of JSON values."""
    (seq, at, id_, key, when, part), author, (kind, fields), undoing = values
    event: Any = structure(kind, EVENT_TYPES[kind][1], fields)
    if undoing is not None:
        event = UndoneEvent(event, _decode(undoing))
    return EventRecord(seq, at, event, id_, Author(*author), key, when, (part[0], part[1]))


def _values_of(reference: EventReference) -> Any:
    return reference.values if isinstance(reference, StoredEvent) else _encode(reference.record)


def _pack_uses(*by_name: Mapping[str, Uses]) -> Any:
    """Return the events of uses, each once, because one may be the last use of many entries; and each entry's count."""
    places = dict.fromkeys(use.last for uses in by_name for use in uses.values() if use.last is not None)
    numbers = {place: number for number, place in enumerate(places)}
    rows = [{name: (use.count, numbers[use.last]) for name, use in uses.items() if use.last} for uses in by_name]
    return [_values_of(place) for place in places], *rows


def _unpack_uses(places: Any, *rows: Mapping[str, Any]) -> list[dict[str, Uses]]:
    events = [StoredEvent(one) for one in places]
    return [{name: Uses(count, events[number]) for name, (count, number) in uses.items()} for uses in rows]


def _pack(state: EntryStatuses) -> dict[str, Any]:
    return {
        "place": (state.seq, state.chain),
        "book": pack(state.book),
        "changed": {name: _values_of(place) for name, place in state.last_changes.items()},
        "texts": {name: list(texts) for name, texts in state.texts.items()},
        "undone": {name: (text, _encode(by)) for name, (text, by) in state.undone.items()},
        "uses": _pack_uses(state.injections, state.citations),
    }


def _unpack(values: Mapping[str, Any]) -> EntryStatuses:
    seq, chain = values["place"]
    injections, citations = _unpack_uses(*values["uses"])
    return EntryStatuses(
        seq,
        chain,
        book=unpack_playbook(values["book"]),
        last_changes={name: StoredEvent(one) for name, one in values["changed"].items()},
        texts={name: dict.fromkeys(texts) for name, texts in values["texts"].items()},
        undone={name: (text, _decode(by)) for name, (text, by) in values["undone"].items()},
        injections=injections,
        citations=citations,
    )


STANDING_FORM: Final[Form[EntryStatuses]] = Form(
    "standing",
    STATUS_VIEW,
    _pack,
    _unpack,
    lambda state: state.book,
    ("tallybook.projections.surfaces.history.checkpoint_standing",),
    # With its events it is large, and few questions are about its past.
    spacing=8,
)
