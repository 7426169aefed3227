"""Landing: a batch of one ledger gets its form in another ledger, to which others have appended. Pure functions.

A batch keeps its events' ids and its order, and says by id which entries it means. Only decisions that depend on the
other ledger are made again: names that are taken, texts that another entry has, counts of a manual edit. Views,
``sync``, ``sync --rejoin`` and ``import --ledger`` use the same functions, so a machine shows its pending batches
exactly as they will be in the book.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
import json
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import attrs

from tallybook.ledger import events
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.update import rename_in_top
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.names import format_name, next_free_number, next_slug_name, read_sections, slug_of
from tallybook.ledger.playbook_constants import IDS_A_LINE, REDACTED
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.sharing.numbers import own_id
from tallybook.ledger.storage.redaction import read_redacted_ids

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook

_LINKED: Final = b'"kind":"%b"' % events.KIND_OF[events.RedactionLinked].encode()


_Events = tuple[events.Event, ...]

# ---- What lands ----


@attrs.frozen
class Sent:
    """A batch as its machine recorded it.

    Attributes:
        batch: The batch, with the ids of what it undoes of a session.
        means: Name in it → id of the event that made the entry; with the entries that it makes.
        frontier: Number and chain value of the book's last event that the machine's playbook contained then.
    """

    batch: Batch
    means: Mapping[str, str]
    frontier: tuple[int, str] = (0, "")

    @property
    def records(self) -> Sequence[EventRecord]:
        """Return its events; their heads are decoded only now."""
        return self.batch.records

    @property
    def ids(self) -> list[str]:
        """Return the ids of its events, as their machine recorded them."""
        return [own_id(record.id) for record in self.records]

    def makes(self, record: EventRecord) -> bool:
        """Return whether one of its events makes an entry."""
        event: Any = record.event
        return isinstance(event, events.MAKERS) and self.means.get(event.name) == record.id


class Reader:
    """Reads a ledger as the batches that it sends: which entries they mean follows from the ledger alone.

    In a shared project each batch says that itself. Otherwise a name means the entry that the ledger made under it:
    before it was shared, and in what a process appends that had opened the ledger before that.

    Attributes:
        frontier: Number and chain value of the book's last event that the ledger had taken in.
        made: Name → id of the event by which the ledger made the entry, as far as it was read.
    """

    def __init__(
        self,
        ids_of_session: Callable[[str, int], Sequence[str]],
        frontier: tuple[int, str] = (0, ""),
        made_before: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Begin at the ledger's beginning, or after it had taken in a book up to an event number.

        Args:
            ids_of_session: Returns the ids of what a session did before an event number that can be undone.
            frontier: That number, and its chain value; 0 for the beginning.
            made_before: Returns ``made`` of what the ledger has before that; called only where a batch needs it.
        """
        self.frontier = frontier
        self.made: dict[str, str] = {}
        self._ids_of_session = ids_of_session
        self._made_before: Callable[[], Mapping[str, str]] | None = made_before

    def read(self, batch: Batch) -> Sent:
        """Return the next batch."""
        means: dict[str, str] = {}
        for event in batch.events:
            if isinstance(event, events.NamesMeant):
                means |= zip(event.names, event.ids, strict=False)
            elif isinstance(event, events.BookTaken):
                self.frontier = event.seq, event.chain
            elif isinstance(event, events.EventsVoided) and event.session and not event.ids:
                batch = batch.with_records([*map(self._with_ids, batch.records)])
        if not means:
            # In a book an entry that is new has no entry before it, even where the ledger once made one of its name.
            new = {event.name for event in batch.events if self.frontier[0] and _is_new(event)}
            means = self._own_entries({name for event in batch.events for name in names_in(event)} - new)
        made: dict[str, str] = {}
        # Mostly none is made, and no head is decoded.
        for record in batch.records if any(isinstance(event, events.MAKERS) for event in batch.events) else ():
            maker: Any = record.event
            if isinstance(maker, events.MAKERS) and not (isinstance(maker, events.PointEdited) and maker.name in means):
                made[maker.name] = record.id
        self.made |= made
        return Sent(batch, means | made, self.frontier)

    def _own_entries(self, names: set[str]) -> dict[str, str]:
        """Return the entries that the ledger made under names: name → id."""
        if self._made_before is not None and not names <= self.made.keys():
            self.made, self._made_before = {**self._made_before(), **self.made}, None
        return {name: self.made[name] for name in names if name in self.made}

    def _with_ids(self, record: EventRecord) -> EventRecord:
        event = record.event
        if not isinstance(event, events.EventsVoided) or not event.session or event.ids:
            return record
        ids = tuple(self._ids_of_session(event.session, record.seq))
        return attrs.evolve(record, event=events.EventsVoided(ids, None, event.reason))


def _is_new(event: Any) -> TypeGuard[Any]:
    """Return whether an event makes an entry, as far as it says so itself."""
    return isinstance(event, events.MAKERS) and getattr(event, "change", "new") in {"new", "copied"}


# ---- What it lands on ----


@attrs.define
class Ground:
    """What batches land on; it grows as they land.

    Attributes:
        state: The playbook there, which is changed.
        ids: Name there → id of the event that made the entry.
        matched: Name of an entry that was joined to another when it landed → that one.
        advance: Folds a landed batch into this ground.
        has_key: Returns whether a batch that was there before has an idempotency key.
        here: Ids of batches that are there already, by an append whose answer was lost or by another machine.
        read: Returns the batches there; called only where texts were redacted.
        links: Returns sets of ids of events whose texts were equal before they were redacted.
        is_book: Whether a batch waits here for entries that it means and that only another history has.
        extra_rules: What becomes of kinds that a book does not share, as ``RULES``.
        names: Id of the event that made an entry → its name there.
        landed: The batches that landed since.
        keys: Their idempotency keys.
    """

    state: Playbook
    ids: dict[str, str]
    matched: dict[str, str]
    advance: Callable[[Ground, Landed, RawBatch], None]
    has_key: Callable[[str], bool]
    here: Collection[str] = ()
    read: Callable[[], Iterable[RawBatch]] = tuple
    links: Callable[[], Iterable[frozenset[str]]] = tuple
    is_book: bool = True
    extra_rules: Rules = attrs.field(factory=dict)
    names: dict[str, str] = attrs.field(init=False)
    landed: list[RawBatch] = attrs.field(factory=list)
    keys: set[str] = attrs.field(factory=set)
    _redacted: set[str] | None = None

    def __attrs_post_init__(self) -> None:
        """Turn the ids round."""
        self.names = {id_: name for name, id_ in self.ids.items()}

    def find_redacted_ids(self) -> set[str]:
        """Return the ids of the events that are redacted there; the caller adds those that it lands."""
        if self._redacted is None:
            self._redacted = {id_ for raw in chain(self.read(), self.landed) for id_ in read_redacted_ids(raw)}
        return self._redacted

    def equal_entries(self, id_: str) -> frozenset[str]:
        """Return the entries whose text was equal to that of an event before both were redacted."""
        equal, before, links = frozenset({id_}), frozenset[str](), tuple(self.links())
        while equal != before:
            equal, before = equal.union(*(ids for ids in links if not ids.isdisjoint(equal))), equal
        if len(equal) == 1:
            return frozenset()
        records = (record for batch in decode(chain(self.read(), self.landed)) for record in batch.records)
        found: list[tuple[str, Any]] = [
            (record.id, record.event) for record in records if isinstance(record.event, events.TEXT_GIVERS)
        ]
        # An edit that left the text of its entry may have had another one of its own.
        givers = {
            event.name: (id_, text_of(event.text)) for id_, event in found if getattr(event, "change", "") != "kept"
        }
        # An entry whose last text was undone has another one.
        texts = {name: entry.text for name, entry in self.state.entries.items()}
        return frozenset(name for name, (id_, text) in givers.items() if id_ in equal and texts.get(name) == text)


def redaction_links(batches: Iterable[RawBatch]) -> list[frozenset[str]]:
    """Return the ids of events whose texts were equal before they were redacted, as a machine found them."""
    found = decode(raw for raw in batches if _LINKED in raw.data)
    linked = (event for batch in found for event in batch.events)
    return [frozenset(event.ids) for event in linked if isinstance(event, events.RedactionLinked)]


# ---- Landing ----


@attrs.frozen
class LandedEvent:
    """An event as the other ledger gets it.

    Attributes:
        record: The event as its machine recorded it, whose id, author and time it keeps.
        event: What the other ledger gets.
    """

    record: EventRecord
    event: events.Event


@attrs.frozen
class Landed:
    """A batch as the other ledger gets it; without events if nothing in it concerns the others.

    Attributes:
        sent: The batch.
        events: Its events there, in order.
        renamed: Name → name there, for entries that this batch made and that have another name there.
        repeated: Whether that ledger has this delivery from another machine.
        is_here: Whether that ledger had the batch already.
        lacks: Whether it cannot land: it means an entry that is not there, or does not fit.
    """

    sent: Sent
    events: tuple[LandedEvent, ...] = ()
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    repeated: bool = False
    is_here: bool = False
    lacks: bool = False


def land(
    sent: Iterable[Sent], ground: Ground, frame: Callable[[Landed, Position], RawBatch | None], after: Position = START
) -> Iterator[tuple[Landed, RawBatch | None]]:
    """Yield batches as they land one after another, each with its bytes.

    Args:
        sent: The batches.
        ground: What they land on; it grows.
        frame: Returns a landed batch, which has an event, as the batch after a position; None where it cannot land.
        after: The position before the first one.
    """
    for batch in sent:
        landed = _land(batch, ground)
        raw = frame(landed, after) if landed.events else None
        if raw is not None:
            after = raw.position
            ground.landed.append(raw)
            if (key := batch.records[0].key) is not None:
                ground.keys.add(key)
            ground.advance(ground, landed, raw)
        elif landed.events:
            landed = attrs.evolve(landed, lacks=True)
        yield landed, raw


def _land(sent: Sent, ground: Ground) -> Landed:
    if not ground.here or not any(id_ in ground.here for id_ in sent.ids):
        key = sent.records[0].key
        return BatchLanding(sent, ground, key is not None and (key in ground.keys or ground.has_key(key))).land()
    made: list[tuple[str, Any]] = [(record.id, record.event) for record in sent.records if sent.makes(record)]
    renamed = {event.name: ground.names.get(id_, event.name) for id_, event in made}
    return Landed(sent, renamed={old: new for old, new in renamed.items() if old != new}, is_here=True)


@attrs.define
class BatchLanding:
    """The landing of one batch.

    Attributes:
        sent, ground: As for ``land``.
        repeated: As in `Landed`.
        made: Id of an event of this batch that makes an entry → its name there.
        joined: Name there of such an entry → the standing entry of the same text.
        id: Id of the event that lands at the moment.
    """

    sent: Sent
    ground: Ground
    repeated: bool
    made: dict[str, str] = attrs.field(factory=dict)
    joined: dict[str, str] = attrs.field(factory=dict)
    id: str = ""

    def land(self) -> Landed:
        """Return the batch as it lands."""
        sent = self.sent
        renamed: dict[str, str] = {}
        for record in sent.records:
            if sent.makes(record):
                own, name = self._name_entry(record.id, record.event)
                renamed |= {own: name} if own != name else {}
        missing = {name for name in sent.means if self.resolve(name) is None} if self.ground.is_book else set()
        # Mostly none is missing, and only then each event is looked at.
        shared = (record.event for record in sent.records if missing and type(record.event) in RULES)
        if any(not missing.isdisjoint(names_in(event)) for event in shared):
            return Landed(sent, lacks=True)
        landed: list[LandedEvent] = []
        for record in sent.records:
            kind, self.id = type(record.event), record.id
            rule = RULES.get(kind) or self.ground.extra_rules.get(kind)
            # Mostly one event becomes one; none where it concerns nobody else.
            if self.repeated and kind in _REPEATABLE and record.id not in self.made:
                landed.append(LandedEvent(record, events.EventRepeated(events.KIND_OF[kind])))
            elif rule is not None:
                landed += [LandedEvent(record, event) for event in rule(self, record.event)]
        return Landed(sent, tuple(landed), renamed, self.repeated)

    def resolve(self, name: str) -> str | None:
        """Return the name there of the entry that a name of this batch means; None where that is not there."""
        id_ = self.sent.means.get(name, "")
        return self.made.get(id_) or self.ground.names.get(id_)

    def resolve_joined(self, name: str) -> str | None:
        """Return as ``resolve``, and for an entry that was joined to another of the same text that other one."""
        found = self.resolve(name)
        if found is None or found in self.joined:
            return self.joined.get(found or "")
        state = self.ground.state
        # Where the other one was undone since, the entry stands by itself.
        stands = found in state.entries or found not in state.merged
        return found if stands else self.ground.matched.get(found, found)

    def _name_entry(self, id_: str, event: Any) -> tuple[str, str]:
        """Give the entry that an event makes its name there, its own or the next free one; return both."""
        standing = self._equal_entry(id_, event)
        taken = {*self.ground.state.used, *self.made.values()}
        name = event.name
        if name in taken:
            slug = slug_of(name)
            high = self.ground.state.high_water
            name = format_name(next_free_number(high, taken)) if slug is None else next_slug_name(slug, taken)
        self.made[id_] = name
        if standing is not None:
            self.joined[name] = standing
        return event.name, name

    def _equal_entry(self, id_: str, event: Any) -> str | None:
        """Return the entry that has the text of a new one; None where the new one stands by itself."""
        if isinstance(event, events.PointEdited) and event.change == "copied":
            # A person may well add by hand a text that another entry has, as long as he saw that.
            return None
        text = text_of(event.text)
        linked = self.ground.equal_entries(id_) if text == REDACTED else frozenset[str]()
        entries = self.ground.state.entries.values()
        # Two redacted texts look the same, and an equal text may not be redacted here yet: only what is noted counts.
        equal = (entry.name for entry in entries if (entry.name in linked if text == REDACTED else entry.text == text))
        return next(equal, None)


def text_of(text: str | None) -> str:
    """Return a text as it lands."""
    return REDACTED if text is None else text


def names_in(event: Any) -> Iterator[str]:
    """Yield the names of entries in an event, or in a draft's fields as attributes."""
    for field in ("name", "to"):
        if hasattr(event, field):
            yield getattr(event, field)
    for field in ("names", "merged"):
        yield from getattr(event, field, ())
    yield from names_in_top(getattr(event, "top", "") or "")


def names_in_top(top: str) -> Iterator[str]:
    """Yield the names of entries in the sections of top-level keys, a JSON object or empty."""
    for listed in ((read_sections(json.loads(top)) or {}) if top else {}).values():
        yield from listed


# ---- The rules ----


def _make(step: BatchLanding, event: Any) -> _Events:
    text, name = text_of(event.text), step.made[step.id]
    # Of a delivery that is there already nothing counts.
    counts = (0, 0) if step.repeated or isinstance(event, events.PointAdded) else (event.helpful, event.harmful)
    if name in step.joined:
        to = step.ground.state.entries[step.joined[name]]
        return (
            events.PointMatched(name, to.name, max(counts[0] - to.helpful, 0), max(counts[1] - to.harmful, 0), text),
        )
    if isinstance(event, events.PointAdded):
        return (events.PointAdded(name, text),)
    item = {"original": ""} if isinstance(event, events.PointSeeded) else {}
    return (event.evolve(name=name, helpful=counts[0], harmful=counts[1], text=text, **item),)


def _edit(step: BatchLanding, event: Any) -> _Events:
    """Return a manual edit as the difference between what its writer saw and what he made of it."""
    if step.id in step.made:
        return _make(step, event)
    name = step.resolve_joined(event.name)
    if name is None:
        return ()
    now = step.ground.state.entries.get(name)
    if now is None or event.change not in {"kept", "changed"}:
        return (attrs.evolve(event, name=name, text=text_of(event.text)),)
    # What a person wrote and redacted stays away; only its counts come.
    is_kept = event.change == "kept" or event.text is None
    return (
        events.PointEdited(
            name=name,
            helpful=max(now.helpful + event.helpful - event.helpful_before, 0),
            harmful=max(now.harmful + event.harmful - event.harmful_before, 0),
            change="kept" if is_kept else "changed",
            helpful_before=now.helpful,
            harmful_before=now.harmful,
            # Its own text is erased wherever this event comes to, so that must not be the text of the entry.
            text=REDACTED if text_of(event.text) == REDACTED else now.text if is_kept else event.text,
        ),
    )


def _match(step: BatchLanding, event: Any) -> _Events:
    """Return an entry that was joined before, with what it brought then."""
    name, text = step.made[step.id], text_of(event.text)
    to = step.resolve_joined(event.to)
    other = step.ground.state.entries.get(to or "")
    if other is None or other.text != text:
        # What else names that entry means it still, so another one of the same text only takes its place.
        to = step.joined.get(name) or (to if other is None else None)
    # Without the other one, or where that has another text by now, it stands by itself.
    step.joined[name] = to or name
    helpful, harmful = (0, 0) if step.repeated else (event.helpful, event.harmful)
    return (events.PointMatched(name, to or name, helpful, harmful, text),)


def _rename(step: BatchLanding, event: Any) -> _Events:
    name = step.resolve_joined(event.name)
    changes: dict[str, Any] = {"name": name} | ({"reason": ""} if hasattr(event, "reason") else {})
    if isinstance(event, events.PointReworded):
        changes["text"] = text_of(event.text)
    return () if name is None else (attrs.evolve(event, **changes),)


def _rate(step: BatchLanding, event: Any) -> _Events:
    # The fold lets it count for the entry that this one was joined to.
    name = step.resolve(event.name)
    return () if name is None else (events.PointRated(name, event.rating),)


def _merge(step: BatchLanding, event: Any) -> _Events:
    name = step.resolve_joined(event.name)
    merged = tuple(entry for entry in _resolve_all(step, event.merged) if entry != name)
    return () if name is None or not merged else (events.PointMerged(name, merged, ""),)


def _order(step: BatchLanding, event: Any) -> _Events:
    names = _resolve_all(step, event.names)
    return (events.PlaybookOrdered(names),) if names else ()


def _resolve_all(step: BatchLanding, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in map(step.resolve_joined, names) if name is not None))


def _set_top(step: BatchLanding, event: Any) -> _Events:
    top = event.top or ""
    top = rename_in_top(top, {name: step.resolve_joined(name) or name for name in names_in_top(top)})
    if isinstance(event, events.PlaybookAdopted):
        return (event.evolve(top=top),)
    # The number of the rendering that was edited means nothing on another machine.
    return (events.PlaybookEdited(None, event.source, top),)


def _void(_: BatchLanding, event: Any) -> _Events:
    begins = range(0, max(len(event.ids), 1), IDS_A_LINE)
    return tuple(events.EventsVoided(event.ids[begin : begin + IDS_A_LINE], None, "") for begin in begins)


def _redact(step: BatchLanding, event: Any) -> _Events:
    """Return a redaction, unless the text of its event is redacted there already."""
    redacted = step.ground.find_redacted_ids()
    if event.id in redacted:
        return ()
    redacted.add(event.id)
    return (event,)


def _keep(_: BatchLanding, event: Any) -> _Events:
    return (event,)


Rules = Mapping[type[Any], Callable[[BatchLanding, Any], _Events]]
RULES: Final[Rules] = {
    events.PlaybookAdopted: _set_top,
    events.PointSeeded: _make,
    events.PointAdded: _make,
    events.PointMatched: _match,
    events.PointEdited: _edit,
    events.PointRated: _rate,
    events.PlaybookUpdated: _keep,
    events.PointRemoved: _rename,
    events.PlaybookOrdered: _order,
    events.PlaybookEdited: _set_top,
    events.PointReworded: _rename,
    events.PointRetired: _rename,
    events.PointRestored: _rename,
    events.PointPinned: _rename,
    events.PointPlaced: _rename,
    events.PointLimited: _rename,
    events.PointUnpinned: _rename,
    events.PointMerged: _merge,
    events.EventsVoided: _void,
    events.EventRedacted: _redact,
    events.RedactionLinked: _keep,
    events.EventRepeated: _keep,
}
"""Kinds that a book shares → what becomes of such an event. Other kinds stay in the own ledger."""

_REPEATABLE: Final = frozenset(
    {
        events.PointRated,
        events.PlaybookUpdated,
        events.PointEdited,
        events.PointRemoved,
        events.PlaybookOrdered,
        events.PlaybookEdited,
    }
)
"""What of a delivery that is there already becomes ``event.repeated``, unless it makes an entry."""

SHARED: Final = frozenset(RULES)
"""Classes of the events that leave this machine."""
