"""What happened to entries: the status of every name ever used, its texts and uses, and the stories of some names.

A story goes from the origin of an entry to the reason why it left the playbook. It needs the events of its own entry
alone, so stories are folded for the names that a question is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.entry import SPEC_POLICY, Policy, add_rating, text_of
from tallybook.projections.playbook.view import CHANGES, UNDONE, Playbook, settle

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

_BESIDE_KINDS: Final = (events.PointPinned, events.PointUnpinned, events.PointPlaced, events.PointLimited)
"""Kinds of steps that change neither text nor counts."""
LINKING: Final = (events.PointMerged, events.PointMatched, events.EventsVoided, events.EventRedacted)
"""Kinds that change what the events of other entries mean."""


class EventPlace(NamedTuple):
    """A reference to an event by its place in a batch: the head of its line is decoded only when asked for.

    Attributes:
        batch: The batch of the event.
        number: Its index in the batch, from 0.
    """

    batch: Batch
    number: int

    @property
    def record(self) -> EventRecord:
        """Return the event with its author and time."""
        return self.batch.records[self.number]


class NamedEvent(NamedTuple):
    """An event as answers name it, which a checkpoint holds in place of an ``EventPlace``.

    Attributes:
        row: ``{seq, id, at, by, summary}``.
        kind: Its kind.
        reason: Its reason, None without one.
        into: The entry that a merge left, None for other kinds.
    """

    row: dict[str, Any]
    kind: str
    reason: str | None
    into: str | None


EventReference = EventPlace | NamedEvent


@attrs.frozen
class Uses:
    """How often an entry was injected, or cited.

    Attributes:
        count: How often, 0 or more.
        last: The last such event, None without one.
    """

    count: int = 0
    last: EventReference | None = None


@attrs.frozen
class EntryChange:
    """An event that named an entry.

    Attributes:
        record: The event; ``playbook.updated`` for a prune, ``event.redacted`` for a redacted text.
        helpful: Helpful count after the event; where the event took the entry out, the last count.
        harmful: Harmful count, in the same way.
        reason: Why it changed nothing: counts nothing, not in the playbook, already pruned, already in the playbook,
            undone, or counts for the entry that this one was merged into; empty for an event that changed the entry.
    """

    record: EventRecord
    helpful: int = 0
    harmful: int = 0
    reason: str = ""


@attrs.define
class Story:
    """The story of one name.

    Attributes:
        name: The name.
        book: The playbook, since the effect of an event on one entry can depend on others. Where only the batches of
            this entry were folded, the other entries in it are incomplete.
        last: The last state of the entry, None where it never existed.
        decision: The event that took it out; None while it is in the playbook, and where it never was.
        trail: The events that changed it, in order.
        ignored: The events that changed nothing, in order.
        early_notes: Notes that come before the entry: in a shared history the own notes come before the book.
        last_exit: The event of the last batch that ended without the entry while the moment before had it; None where
            no moment had it: an entry added and taken out in one batch was in the playbook at no moment.
        last_undo_batch: The last batch with an undo, None without one. Moments before it showed another history.
    """

    name: str
    book: Playbook
    last: Entry | None = None
    decision: EventRecord | None = None
    trail: list[EntryChange] = attrs.field(factory=list)
    ignored: list[EntryChange] = attrs.field(factory=list)
    early_notes: list[EventRecord] = attrs.field(factory=list)
    last_exit: EventRecord | None = None
    last_undo_batch: Batch | None = None

    @property
    def entry(self) -> Entry | None:
        """Return the entry, None where it is not in the playbook."""
        return self.book.entries.get(self.name)

    @property
    def status(self) -> str:
        """Return the status of the name, as the playbook has it."""
        return self.book.status_of(self.name)

    @property
    def undone_addition(self) -> UndoneEvent | None:
        """Return the event that had brought an undone entry, with its undo; None for an entry of another status."""
        undone = [row.record.event for row in self.ignored if isinstance(row.record.event, UndoneEvent)]
        added = [event for event in undone if isinstance(event.event, events.MAKERS)]
        return added[-1] if added and self.status == UNDONE else None


@attrs.define
class EntryStatuses(State):
    """The status of every name as of a moment, and the stories of some.

    Attributes:
        book: The playbook.
        last_changes: Name → the event that last changed its counts, text or status, in the order of first use.
        texts: Name → every text that it had, in order, without redacted ones.
        undone: Name whose addition was undone → its text and the undo; such a name counts as never added.
        injections: Name → how often it was injected into a session.
        citations: Name → how often an agent cited it.
        links: Last event number of each batch with one of the kinds LINKING → its offset in the log.
        stories: Name → its story.
    """

    book: Playbook = attrs.field(factory=Playbook)
    last_changes: dict[str, EventReference] = attrs.field(factory=dict)
    texts: dict[str, dict[str, None]] = attrs.field(factory=dict)
    undone: dict[str, tuple[str, EventRecord | NamedEvent]] = attrs.field(factory=dict)
    injections: dict[str, Uses] = attrs.field(factory=dict)
    citations: dict[str, Uses] = attrs.field(factory=dict)
    links: dict[int, int] = attrs.field(factory=dict)
    stories: dict[str, Story] = attrs.field(factory=dict)

    @property
    def names(self) -> list[str]:
        """Return every name ever used; names whose addition was undone come last."""
        return [*self.last_changes, *(name for name in self.undone if name not in self.last_changes)]

    def text(self, name: str) -> str:
        """Return the text that a name has, or had last."""
        entry = self.book.entries.get(name) or self.book.gone.get(name)
        return entry.text if entry is not None else self.undone[name][0]


def affected_names(book: Playbook, event: Any) -> tuple[str, ...]:
    """Return the names that an event can change."""
    if isinstance(event, events.PlaybookUpdated):
        return tuple(book.due)
    name = getattr(event, "name", None)
    if name is None:
        return ()
    return (name, book.merged.get(name, name), *getattr(event, "merged", ()))


def _apply_batch(state: EntryStatuses, batch: Batch) -> None:
    """Apply a batch event by event; line heads are decoded only for events of a story."""
    was_present: dict[str, bool] = {}
    has_changes = False
    for index, event in enumerate(batch.events):
        if isinstance(event, events.PlaybookInjected):
            _count_uses(state.injections, dict.fromkeys(event.names), EventPlace(batch, index))
            continue
        if isinstance(event, events.PointCited):
            _count_uses(state.citations, (event.name,), EventPlace(batch, index))
            continue
        changes = type(event) in CHANGES
        has_changes = has_changes or changes
        is_told = state.stories and (changes or isinstance(event, events.PointNoted))
        before = [(story, story.entry) for story in (_stories_with(state, event) if is_told else ())]
        _apply_event(state, batch, index)
        if isinstance(event, events.EventsVoided):
            for story in state.stories.values():
                story.last_undo_batch = batch
        for story, entry in before:
            was_present.setdefault(story.name, entry is not None)
            _add_event(story, batch.records[index], entry)
    for name, is_old in was_present.items():
        story = state.stories[name]
        # An entry that one batch adds and takes out is in the playbook at no moment.
        if is_old or story.entry is not None:
            story.last_exit = story.decision
    # An injection or a citation is no change of the playbook, whose stamp stays.
    if has_changes:
        settle(state.book, batch)


def _count_uses(uses: dict[str, Uses], names: Iterable[str], place: EventPlace) -> None:
    uses |= {name: Uses(uses[name].count + 1 if name in uses else 1, place) for name in names}


def _apply_event(state: EntryStatuses, batch: Batch, index: int) -> None:
    """Apply one event to the playbook, and record which names it changed."""
    event = batch.events[index]
    change = CHANGES.get(type(event))
    if change is None:
        return
    entries = state.book.entries
    if isinstance(event, events.PointRated):
        # The most frequent event takes a short way: a rating changes one entry's counts and no text.
        name = event.name if event.name in entries else state.book.merged.get(event.name, event.name)
        before_rating = entries.get(name)
        change(state.book, event, batch)
        if entries.get(name) is not before_rating:
            state.last_changes[name] = EventPlace(batch, index)
        return
    before = [(name, entries.get(name)) for name in affected_names(state.book, event)]
    change(state.book, event, batch)
    # A change of the order replaces the playbook's dict.
    entries = state.book.entries
    for name, old in before:
        new = entries.get(name)
        if new is not old and new != old:
            state.last_changes[name] = EventPlace(batch, index)
            # Two redacted texts are not one text; compared, they would make entries of different advice related.
            if new is not None and new.text != REDACTED:
                state.texts.setdefault(name, {})[new.text] = None
    inner = event.event if isinstance(event, UndoneEvent) else event
    if isinstance(inner, LINKING):
        state.links[batch.last] = batch.begin
    if isinstance(event, UndoneEvent) and isinstance(event.event, events.MAKERS):
        state.undone[event.event.name] = (text_of(event.event), event.by)


# Stories


def _stories_with(state: EntryStatuses, event: Any) -> list[Story]:
    """Return the stories that an event can be in."""
    if isinstance(event, events.EventRedacted):
        return [story for story in state.stories.values() if _is_about(story, event)]
    inner = event.event if isinstance(event, UndoneEvent) else event
    # An undone update pruned nothing, and what is due now says nothing of what it had pruned.
    if inner is not event and isinstance(inner, events.PlaybookUpdated):
        return []
    names = dict.fromkeys(affected_names(state.book, inner))
    return [state.stories[name] for name in names if name in state.stories]


def _is_about(story: Story, event: Any) -> bool:
    """Say whether an event is about the entry: by its name, or by the name of an entry merged into it."""
    if isinstance(event, events.EventRedacted):
        # A redaction names an event and no entry.
        return event.id in {step.record.id for step in (*story.trail, *story.ignored)}
    inner = event.event if isinstance(event, UndoneEvent) else event
    name = getattr(inner, "name", None)
    into = story.book.merged.get(name or "")
    return name is not None and (story.name in {name, into} or story.name in getattr(inner, "merged", ()))


def _add_event(story: Story, record: EventRecord, before: Entry | None) -> None:
    """Add an event to the story by its effect on the entry."""
    event, after, is_about = record.event, story.entry, _is_about(story, record.event)
    if after is None and before is not None:
        story.decision = record
        story.trail.append(EntryChange(record, before.helpful, before.harmful))
    elif after is not None and (after is not before or (isinstance(event, _BESIDE_KINDS) and is_about)):
        story.decision, story.last = None, after
        story.trail.append(EntryChange(record, after.helpful, after.harmful))
    # An entry that was joined to another is not in the playbook, so the event that joined it ends its story.
    elif isinstance(event, events.PointMatched) and event.name == story.name:
        story.decision, story.last = record, Entry(event.name, text_of(event), event.helpful, event.harmful)
        story.trail.append(EntryChange(record, event.helpful, event.harmful))
    elif isinstance(event, events.EventRedacted | events.PointNoted) and is_about and story.last is not None:
        story.trail.append(EntryChange(record, story.last.helpful, story.last.harmful))
    elif isinstance(event, events.PointNoted) and is_about:
        story.early_notes.append(record)
    elif is_about:
        story.ignored.append(EntryChange(record, reason=_reason(story, event)))


def _reason(story: Story, event: Any) -> str:
    """Return why an event changed nothing."""
    if isinstance(event, UndoneEvent):
        return "undone"
    into = story.book.entries.get(story.book.merged.get(story.name, ""))
    if into is not None and isinstance(event, events.PointRated):
        return f"counts for {into.name}" if add_rating(into, event.rating) is not into else "counts nothing"
    if story.entry is None:
        return "already pruned" if story.status == "pruned" else "not in the playbook"
    return "counts nothing" if isinstance(event, events.PointRated | events.PointMerged) else "already in the playbook"


def entries_view(names: Collection[str] = (), policy: Policy = SPEC_POLICY) -> View[EntryStatuses]:
    """Return the view of the status of every name under a policy, with the stories of some names."""

    def start() -> EntryStatuses:
        book = Playbook(policy=policy)
        return EntryStatuses(book=book, stories={name: Story(name, book) for name in names})

    # References need the index of an event, so whole batches are applied.
    kinds = (*CHANGES, events.PlaybookInjected, events.PointCited, *([events.PointNoted] if names else ()))
    return batch_view(start, kinds, _apply_batch)


ENTRIES: Final = entries_view()
