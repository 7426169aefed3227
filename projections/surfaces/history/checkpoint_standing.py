"""How the standing of every name is kept: with the events that last changed them, each as it was recorded."""

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
class Kept:
    """An event as a checkpoint has it, understood when somebody asks.

    Attributes:
        told: The event as JSON values.
    """

    told: Any

    @property
    def record(self) -> EventRecord:
        """Return the event with who and when."""
        return _recorded(self.told)


def _told(record: EventRecord) -> Any:
    """Return an event as JSON values."""
    event, void = record.event, None
    if isinstance(event, UndoneEvent):
        event, void = event.event, _told(event.by)
    said = (KIND_OF[type(event)], attrs.asdict(event, recurse=False))
    return [[getattr(record, name) for name in _PLAIN], attrs.astuple(record.by), said, void]


def _recorded(told: Any) -> EventRecord:
    """Return the event of such values."""
    (seq, at, id_, key, when, part), by, (kind, fields), void = told
    event: Any = structure(kind, EVENT_TYPES[kind][1], fields)
    if void is not None:
        event = UndoneEvent(event, _recorded(void))
    return EventRecord(seq, at, event, id_, Author(*by), key, when, (part[0], part[1]))


def _placed(place: EventReference) -> Any:
    return place.told if isinstance(place, Kept) else _told(place.record)


def _packed_uses(*given: Mapping[str, Uses]) -> Any:
    """Return the events that were uses, each once, for one may be the last of many names; and each name's count."""
    places = dict.fromkeys(use.last for uses in given for use in uses.values() if use.last is not None)
    numbers = {place: number for number, place in enumerate(places)}
    rows = [{name: (use.count, numbers[use.last]) for name, use in uses.items() if use.last} for uses in given]
    return [_placed(place) for place in places], *rows


def _unpacked_uses(places: Any, *rows: Mapping[str, Any]) -> list[dict[str, Uses]]:
    kept = [Kept(one) for one in places]
    return [{name: Uses(count, kept[number]) for name, (count, number) in uses.items()} for uses in rows]


def _packed(state: EntryStatuses) -> dict[str, Any]:
    return {
        "place": (state.seq, state.chain),
        "book": pack(state.book),
        "changed": {name: _placed(place) for name, place in state.last_changes.items()},
        "texts": {name: list(texts) for name, texts in state.texts.items()},
        "undone": {name: (text, _told(by)) for name, (text, by) in state.undone.items()},
        "uses": _packed_uses(state.injections, state.citations),
    }


def _unpacked(told: Mapping[str, Any]) -> EntryStatuses:
    seq, chain = told["place"]
    given, cited = _unpacked_uses(*told["uses"])
    return EntryStatuses(
        seq,
        chain,
        book=unpack_playbook(told["book"]),
        last_changes={name: Kept(one) for name, one in told["changed"].items()},
        texts={name: dict.fromkeys(texts) for name, texts in told["texts"].items()},
        undone={name: (text, _recorded(by)) for name, (text, by) in told["undone"].items()},
        injections=given,
        citations=cited,
    )


STANDING_FORM: Final[Form[EntryStatuses]] = Form(
    "standing",
    STATUS_VIEW,
    _packed,
    _unpacked,
    lambda state: state.book,
    ("tallybook.projections.surfaces.history.checkpoint_standing",),
    # With the events it is large, and seldom asked of the past.
    spacing=8,
)
