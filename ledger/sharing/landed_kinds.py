"""What each kind of event becomes when its batch lands in a book."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions.edit import rename_in_top
from tallybook.ledger.events import (
    BookRules,
    EventRedacted,
    EventRepeated,
    EventsVoided,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointLimited,
    PointMatched,
    PointMerged,
    PointPinned,
    PointPlaced,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    RedactionLinked,
)
from tallybook.ledger.kinds.limits import IDS_A_LINE
from tallybook.ledger.names import read_sections

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.events import Event
    from tallybook.ledger.records import EventRecord
    from tallybook.ledger.sharing.landing import Step

REDACTED: Final = "[redacted]"
"""The text under which a redacted text lands: its digest would prove nothing to machines that never had it."""


def text_of(text: str | None) -> str:
    """Return a text as it lands."""
    return REDACTED if text is None else text


def _adopt(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    names = {name: step.names.joined.get(landed, landed) for name, landed in step.names.landed.items()}
    return (attrs.evolve(event, top=rename_in_top(event.top or "", names)),)


def _add(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    text, name = text_of(event.text), step.names.by_id[record.id]
    helpful, harmful = step.counts(event)
    if record.id in step.joined:
        to = step.state.entries[step.joined[record.id]]
        return (PointMatched(name, to.name, max(helpful - to.helpful, 0), max(harmful - to.harmful, 0), text),)
    if isinstance(event, PointAdded):
        return (PointAdded(name, text),)
    if isinstance(event, PointEdited):
        return (PointEdited(name, helpful, harmful, text),)
    return (PointSeeded(name, helpful, harmful, event.origin, text, ""),)


def _rate(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve(event.name)
    return () if name is None else (PointRated(name, event.rating),)


def _edit(step: Step, record: EventRecord) -> tuple[Event, ...]:
    """Return a manual edit as the difference between what its writer saw and what he made of it."""
    if record.id in step.names.by_id:
        return _add(step, record)
    event: Any = record.event
    text = text_of(event.text)
    name = step.resolve_standing(event.name)
    if name is None:
        return ()
    now, was = step.state.entries.get(name), (step.book.shown(step.own) or {}).get(event.name)
    if now is None or was is None:
        return (PointEdited(name, event.helpful, event.harmful, text),)
    helpful, harmful = now.helpful + event.helpful - was.helpful, now.harmful + event.harmful - was.harmful
    # Two redacted texts look the same; only what was equal before is noted.
    is_kept = text == was.text and (event.text is not None or step.book.had_text(record.id, name))
    kept = now.text if is_kept else text
    if text == REDACTED and kept != REDACTED:
        step.names.kept.add(record.id)
    return (PointEdited(name, max(helpful, 0), max(harmful, 0), kept),)


def _remove(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    return () if name is None else (PointRemoved(name),)


def _order(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    names = tuple(name for name in map(step.resolve_standing, event.names) if name is not None)
    return (PlaybookOrdered(tuple(dict.fromkeys(names))),) if names else ()


def _close_edit(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    top = event.top or ""
    sections = (read_sections(json.loads(top)) or {}) if top else {}
    names = {name: step.resolve_standing(name) or name for listed in sections.values() for name in listed}
    # The number of the rendering that was edited means nothing on another machine.
    return (PlaybookEdited(None, event.source, rename_in_top(top, names)),)


def _curate(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    changes: dict[str, Any] = {"name": name, "reason": ""}
    if isinstance(event, PointReworded):
        changes["text"] = text_of(event.text)
    return () if name is None else (attrs.evolve(event, **changes),)


def _merge(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    name = step.resolve_standing(event.name)
    found = (step.resolve_standing(one) for one in event.merged)
    merged = tuple(dict.fromkeys(one for one in found if one is not None and one != name))
    return () if name is None or not merged else (PointMerged(name, merged, ""),)


def _void(step: Step, record: EventRecord) -> tuple[Event, ...]:
    event: Any = record.event
    ids = (*event.ids, *(step.book.session_ids(step.own, event.session) if event.session is not None else ()))
    begins = range(0, max(len(ids), 1), IDS_A_LINE)
    return tuple(EventsVoided(ids[begin : begin + IDS_A_LINE], None, "") for begin in begins)


def _match(step: Step, record: EventRecord) -> tuple[Event, ...]:
    """Return an entry that was joined before, with what it brought then."""
    event: Any = record.event
    name, text = step.names.by_id[record.id], text_of(event.text)
    to = step.resolve_standing(event.to)
    other = step.state.entries.get(to or "")
    if other is None or other.text != text:
        # What else names that entry means it still, so another one of the same text only takes its place.
        to = step.joined.get(record.id) or (to if other is None else None)
    # Without the other one, or where that has another text by now, it stands by itself.
    step.names.joined[name] = to or name
    return (PointMatched(name, to or name, event.helpful, event.harmful, text),)


def _redact(step: Step, record: EventRecord) -> tuple[Event, ...]:
    """Return nothing for a manual edit that has another text in the book: the one of its entry where it landed."""
    event: Any = record.event
    return () if event.id in step.names.kept or step.book.has_text(event.id) else (event,)


def _keep(_: Step, record: EventRecord) -> tuple[Event, ...]:
    return (record.event,)


def _unless_repeated(
    change: Callable[[Step, EventRecord], tuple[Event, ...]], kind: str
) -> Callable[[Step, EventRecord], tuple[Event, ...]]:
    """Return the same landing, which gives an event that counts nothing where the book has the delivery already."""

    def landing(step: Step, record: EventRecord) -> tuple[Event, ...]:
        makes_entry = record.id in step.names.by_id
        return (EventRepeated(kind),) if step.repeated and not makes_entry else change(step, record)

    return landing


LANDINGS: Final[dict[type[Any], Callable[[Step, EventRecord], tuple[Event, ...]]]] = {
    PlaybookAdopted: _adopt,
    PointSeeded: _add,
    PointAdded: _add,
    PointRated: _unless_repeated(_rate, "point.rated"),
    PlaybookUpdated: _unless_repeated(_keep, "playbook.updated"),
    PointEdited: _unless_repeated(_edit, "point.edited"),
    PointRemoved: _unless_repeated(_remove, "point.removed"),
    PlaybookOrdered: _unless_repeated(_order, "playbook.ordered"),
    PlaybookEdited: _unless_repeated(_close_edit, "playbook.edited"),
    PointReworded: _curate,
    PointRetired: _curate,
    PointRestored: _curate,
    PointPinned: _curate,
    PointPlaced: _curate,
    PointLimited: _curate,
    PointUnpinned: _curate,
    PointMerged: _merge,
    EventsVoided: _void,
    EventRedacted: _redact,
    RedactionLinked: _keep,
    # A book has these, and an own ledger does not: they land where a book is begun anew.
    PointMatched: _match,
    EventRepeated: _keep,
    BookRules: _keep,
}
"""Kinds that a book shares → what becomes of such an event. Other kinds stay in the own ledger."""
