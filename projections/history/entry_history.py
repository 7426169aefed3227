"""What happened to entries: the status of every name ever used, the stories of some names, and answers from both.

A story goes from the origin of an entry to the reason why it left the playbook. It needs the events of its own entry
alone, so stories are folded for the names that a question is about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.history.event_rows import brief
from tallybook.projections.playbook.entry import SPEC_POLICY, Policy, add_rating, normalize_words
from tallybook.projections.playbook.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import CHANGES, UNDONE, UNKNOWN, Playbook, settle, text_of

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

_BESIDE_KINDS: Final = (events.PointPinned, events.PointUnpinned, events.PointPlaced, events.PointLimited)
"""Kinds of steps that change neither text nor counts."""
LINKING: Final = (events.PointMerged, events.PointMatched, events.EventsVoided, events.EventRedacted)
"""Kinds that change what the events of other entries mean."""


SAME_TEXT: Final = "same text"
SAME_WORDS: Final = "same words"
WENT_INTO: Final = "went into"
TOOK_IN: Final = "took in"
MAX_RATINGS: Final = 10
"""Most ratings among the events that decided: the last ones."""

_NEUTRAL_KINDS: Final = (events.EventRedacted, events.PointNoted)
"""Kinds of steps that never add an entry or take it out."""


# The states


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
        row: As ``brief`` returns it.
        reason: Its reason, None without one.
    """

    row: dict[str, Any]
    reason: str | None


if TYPE_CHECKING:
    EventReference = EventPlace | NamedEvent
else:
    # A checkpoint has no place of an event.
    EventReference = NamedEvent


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
        reason: Why it changed nothing: has no effect, not in the playbook, already pruned, already in the playbook,
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
        turns: The events that brought it or took it out, and before each prune its last harmful rating, in order.
        notes: The notes about it; in a shared history the own ones come before the entry, which the book brings.
    """

    name: str
    book: Playbook
    last: Entry | None = None
    decision: EventRecord | None = None
    trail: list[EntryChange] = attrs.field(factory=list)
    ignored: list[EntryChange] = attrs.field(factory=list)
    turns: list[EventRecord] = attrs.field(factory=list)
    notes: list[EventRecord] = attrs.field(factory=list)

    @property
    def entry(self) -> Entry | None:
        """Return the entry, None where it is not in the playbook."""
        return self.book.entries.get(self.name)

    @property
    def status(self) -> str:
        """Return the status of the name, as the playbook has it."""
        return self.book.status_of(self.name)


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
        places: Name → the same of each batch that concerns the entry.
        stories: Name → its story.
    """

    book: Playbook = attrs.field(factory=Playbook)
    last_changes: dict[str, EventReference] = attrs.field(factory=dict)
    texts: dict[str, dict[str, None]] = attrs.field(factory=dict)
    undone: dict[str, tuple[str, NamedEvent]] = attrs.field(factory=dict)
    injections: dict[str, Uses] = attrs.field(factory=dict)
    citations: dict[str, Uses] = attrs.field(factory=dict)
    links: dict[int, int] = attrs.field(factory=dict)
    places: dict[str, dict[int, int]] = attrs.field(factory=dict)
    stories: dict[str, Story] = attrs.field(factory=dict)

    def seal(self) -> None:
        """Name every event as answers do."""
        self.last_changes = {name: name_event(place) for name, place in self.last_changes.items()}
        for uses in (self.injections, self.citations):
            for name, use in uses.items():
                uses[name] = Uses(use.count, use.last and name_event(use.last))

    @property
    def names(self) -> list[str]:
        """Return every name ever used; names whose addition was undone come last."""
        return [*self.last_changes, *(name for name in self.undone if name not in self.last_changes)]

    def text(self, name: str) -> str:
        """Return the text that a name has, or had last."""
        entry = self.book.entries.get(name) or self.book.gone.get(name)
        return entry.text if entry is not None else self.undone[name][0]


def find_affected_names(book: Playbook, event: Any) -> tuple[str, ...]:
    """Return the names that an event can change, or could before it was undone, each once."""
    if isinstance(event, events.PlaybookUpdated):
        return tuple(book.due)
    # An undone update pruned nothing, and what is due now says nothing of what it had pruned.
    event = event.event if isinstance(event, UndoneEvent) else event
    name = getattr(event, "name", None)
    if name is None:
        return ()
    return tuple(dict.fromkeys((name, book.merged.get(name, name), *getattr(event, "merged", ()))))


def _apply_batch(state: EntryStatuses, batch: Batch) -> None:
    """Apply a batch event by event; line heads are decoded only for events of a story."""
    book = state.book
    has_changes = False
    for index, event in enumerate(batch.events):
        place = EventPlace(batch, index)
        if isinstance(event, events.PlaybookInjected):
            _count_uses(state.injections, dict.fromkeys(event.names), place)
            continue
        if isinstance(event, events.PointCited):
            _count_uses(state.citations, (event.name,), place)
            continue
        change = CHANGES.get(type(event))
        if change is None and not isinstance(event, events.PointNoted):
            continue
        before = {name: book.entries.get(name) for name in find_affected_names(book, event)}
        # Who folds stories has read their batches, and of a long ledger the places take much memory.
        for name in () if state.stories else before:
            state.places.setdefault(name, {})[batch.last] = batch.begin
        if change is not None:
            has_changes = True
            change(book, event, batch)
            _note_changes(state, event, place, before)
        for story in _stories_with(state, event, before):
            _add_event(story, batch.records[index], before.get(story.name, story.entry))
    # An injection or a citation is no change of the playbook, whose stamp stays.
    if has_changes:
        settle(book, batch)


def _count_uses(uses: dict[str, Uses], names: Iterable[str], place: EventPlace) -> None:
    uses |= {name: Uses(uses[name].count + 1 if name in uses else 1, place) for name in names}


def _note_changes(state: EntryStatuses, event: Any, place: EventPlace, before: Mapping[str, Entry | None]) -> None:
    """Note what an event changed of the entries that it can change, and what it means for others."""
    for name, old in before.items():
        new = state.book.entries.get(name)
        if new is not old and new != old:
            state.last_changes[name] = place
            # Two redacted texts are not one text; compared, they would make entries of different advice related.
            if new is not None and new.text != REDACTED:
                state.texts.setdefault(name, {})[new.text] = None
    if isinstance(event.event if isinstance(event, UndoneEvent) else event, LINKING):
        state.links[place.batch.last] = place.batch.begin
    if isinstance(event, UndoneEvent) and isinstance(event.event, events.MAKERS):
        state.undone[event.event.name] = (text_of(event.event), name_event(event.by))


# Stories


def _stories_with(state: EntryStatuses, event: Any, names: Iterable[str]) -> list[Story]:
    """Return the stories that an event belongs to: those of the names, or of the event that it redacts."""
    if isinstance(event, events.EventRedacted):
        stories = state.stories.values()
        return [story for story in stories if any(event.id == row.record.id for row in (*story.trail, *story.ignored))]
    return [state.stories[name] for name in names if name in state.stories]


def _add_event(story: Story, record: EventRecord, before: Entry | None) -> None:
    """Add an event to the story by its effect on the entry."""
    event, after = record.event, story.entry
    # A redaction names an event and no entry.
    is_about = isinstance(event, events.EventRedacted) or story.name in find_affected_names(story.book, event)
    if isinstance(event, events.PointNoted) and is_about:
        story.notes.append(record)
    if after is None and before is not None:
        story.decision = record
        if isinstance(event, events.PlaybookUpdated):
            story.turns += [
                step.record for step in story.trail if getattr(step.record.event, "rating", "") == "harmful"
            ][-1:]
        story.turns.append(record)
        story.trail.append(EntryChange(record, before.helpful, before.harmful))
    elif after is not None and (after is not before or (isinstance(event, _BESIDE_KINDS) and is_about)):
        story.decision, story.last = None, after
        story.turns += [record] if before is None else []
        story.trail.append(EntryChange(record, after.helpful, after.harmful))
    # An entry that was joined to another is not in the playbook, so the event that joined it ends its story.
    elif isinstance(event, events.PointMatched) and event.name == story.name:
        story.decision, story.last = record, Entry(event.name, text_of(event), event.helpful, event.harmful)
        story.turns.append(record)
        story.trail.append(EntryChange(record, event.helpful, event.harmful))
    elif isinstance(event, _NEUTRAL_KINDS) and is_about and story.last is not None:
        story.trail.append(EntryChange(record, story.last.helpful, story.last.harmful))
    elif is_about and not isinstance(event, events.PointNoted):
        story.ignored.append(EntryChange(record, reason=_reason(story, event)))


def _reason(story: Story, event: Any) -> str:
    """Return why an event changed nothing."""
    if isinstance(event, UndoneEvent):
        return "undone"
    into = story.book.entries.get(story.book.merged.get(story.name, ""))
    if into is not None and isinstance(event, events.PointRated):
        return f"counts for {into.name}" if add_rating(into, event.rating) is not into else "has no effect"
    if story.entry is None:
        return "already pruned" if story.status == "pruned" else "not in the playbook"
    return "has no effect" if isinstance(event, events.PointRated | events.PointMerged) else "already in the playbook"


def entries_view(names: Collection[str] = (), policy: Policy = SPEC_POLICY) -> View[EntryStatuses]:
    """Return the view of the status of every name under a policy, with the stories of some names."""

    def start() -> EntryStatuses:
        book = Playbook(policy=policy)
        return EntryStatuses(book=book, stories={name: Story(name, book) for name in names})

    # References need the index of an event, so whole batches are applied.
    return batch_view(start, (*CHANGES, events.PlaybookInjected, events.PointCited, events.PointNoted), _apply_batch)


ENTRIES: Final = entries_view()


# Events as answers name them


def name_event(place: EventReference | EventRecord) -> NamedEvent:
    """Return the event of a reference as answers name it."""
    if isinstance(place, NamedEvent):
        return place
    record = place.record if isinstance(place, EventPlace) else place
    return NamedEvent(brief(record), getattr(record.event, "reason", None) or None)


def _describe_prune(name: str, last: Entry | EntryChange, rule: str) -> str:
    """Return what an update did to an entry that it pruned; its own summary counts what it had of all entries."""
    return f"{name} pruned with {last.helpful} helpful and {last.harmful} harmful: {rule}"


# The status of every name


def blame(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return each entry of the playbook with the event that last changed its counts, text or status.

    Returns:
        ``{name, text, helpful, harmful, event}`` in the playbook's order; ``event`` as ``brief``.
    """
    return [
        entry_json(entry) | {"event": name_event(state.last_changes[entry.name]).row}
        for entry in state.book.entries.values()
    ]


def graveyard(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return every entry that left the playbook and why, the last to leave at the end.

    Returns:
        ``{name, text, helpful, harmful, status, rule, reason, into, event}``: the counts when it left; ``rule``, None
        unless it was pruned; ``reason`` of the event, or None; ``into``, the entry that it was merged into, or None;
        ``event`` that took it out, as ``brief``.
    """
    rows = []
    for name in state.names:
        if name in state.book.entries:
            continue
        # Of an entry whose addition was undone the playbook has the name alone.
        entry = state.book.gone.get(name) or Entry(name, state.text(name))
        status = state.book.status_of(name)
        event = state.undone[name][1] if status == UNDONE else name_event(state.last_changes[name])
        rule = state.book.policy.rule if status == "pruned" else None
        summary_of_prune = {} if rule is None else {"summary": _describe_prune(name, entry, rule)}
        rows.append(
            entry_json(entry)
            | {"status": status, "rule": rule, "reason": event.reason, "into": state.book.merged.get(name)}
            | {"event": event.row | summary_of_prune}
        )
    return sorted(rows, key=lambda row: row["event"]["seq"] or inf)


# Entries by their words, and the other names of their advice


def find_by_words(state: EntryStatuses, words: str) -> list[str]:
    """Return the names that had a text with these words, in the order of first use.

    Args:
        state: The status of every name.
        words: Parts of words, in any order; no words match nothing. Where exactly one entry had these words and no
            others, it is the only match.
    """
    normalized = normalize_words(words)
    texts = {name: {normalize_words(text) for text in _texts(state, name)} for name in state.names}
    exact = [name for name, normalized_texts in texts.items() if normalized in normalized_texts]
    if len(exact) == 1 or not normalized.strip():
        return exact
    parts = normalized.split()
    return [
        name
        for name, normalized_texts in texts.items()
        if any(all(part in text for part in parts) for text in normalized_texts)
    ]


def _texts(state: EntryStatuses, name: str) -> list[str]:
    """Return every text that a name had, undone ones included, redacted ones not."""
    undone = [state.undone[name][0]] if name in state.undone else []
    return [*state.texts.get(name, ()), *(text for text in undone if text != REDACTED)]


def entry_rows(state: EntryStatuses, names: list[str]) -> list[dict[str, Any]]:
    """Return entries as a list to choose from: ``{name, status, text}`` each."""
    return [{"name": name, "status": state.book.status_of(name), "text": state.text(name)} for name in names]


def lineage(state: EntryStatuses, name: str) -> list[dict[str, Any]]:
    """Return the other names that the advice of an entry has had, the nearest first.

    Names are related where one was merged into the other or both had a text with the same words; relations chain.

    Returns:
        ``{name, status, text, relation, of}`` each: ``relation`` is its relation to the name ``of``: SAME_TEXT,
        SAME_WORDS (differing in case, white space or punctuation), WENT_INTO or TOOK_IN.
    """
    if state.book.status_of(name) == UNKNOWN:
        return []
    kin = {name: ("", "")}
    queue = [name]
    # The list grows while it is read, so the nearest names come first.
    for current in queue:
        for other, relation in _kin(state, current):
            if other not in kin:
                kin[other] = (relation, current)
                queue.append(other)
    del kin[name]
    rows = entry_rows(state, list(kin))
    return [row | {"relation": kin[row["name"]][0], "of": kin[row["name"]][1]} for row in rows]


def _kin(state: EntryStatuses, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names directly related to another, each with the relation."""
    texts = set(_texts(state, name))
    words = set(map(normalize_words, texts))
    into = state.book.merged
    for other in state.names:
        if other == name:
            continue
        if into.get(other) == name:
            yield other, WENT_INTO
        elif into.get(name) == other:
            yield other, TOOK_IN
        elif theirs := _texts(state, other):
            if not texts.isdisjoint(theirs):
                yield other, SAME_TEXT
            elif not words.isdisjoint(map(normalize_words, theirs)):
                yield other, SAME_WORDS


# What `why` answers


def explain(story: Story, statuses: EntryStatuses) -> dict[str, Any]:
    """Return what `why` answers about an entry.

    Args:
        story: The story.
        statuses: The status of every name as of the same moment.

    Returns:
        ``{name, text, status, helpful, harmful, rule, decided_by, trail, ignored, origin, original, notes, told, cited,
        stood, deciding, lineage}``. Counts are the last ones; ``rule`` is None unless it is pruned; ``decided_by`` is
        the event that took it out, or undid its addition. Events are as ``brief`` returns them: in ``trail`` with
        ``rating`` and the counts after it, in ``ignored`` with ``rating`` and ``reason``, in ``notes`` with ``note``,
        None once redacted, and in ``deciding`` without more. ``told`` (injections) and ``cited`` are ``{count, last}``,
        ``last`` an event. ``stood`` says whether the entry was ever in the playbook, which one joined to another by its
        text was not. ``lineage`` is that of ``lineage``. Only an entry that holds until a date has ``until``.
    """
    name, policy, decision = story.name, story.book.policy, story.decision
    last = story.last or Entry(name, "")
    seqs = {row.record.id: row.record.seq for row in (*story.trail, *story.ignored)}
    deciding = {record.seq: _brief(story, record, seqs) for record in _find_deciding_events(story)}
    text = None if story.last is None else story.last.text
    decided_by = None if decision is None else deciding[decision.seq]
    if story.status == UNDONE:
        text, undo = statuses.undone[name]
        decided_by = deciding[undo.row["seq"]]
    seeds: list[Any] = [step.record.event for step in story.trail if isinstance(step.record.event, events.PointSeeded)]
    answer = {
        "name": name,
        "text": text,
        "status": story.status,
        "helpful": last.helpful,
        "harmful": last.harmful,
        "rule": policy.rule if story.status == "pruned" else None,
        "decided_by": decided_by,
        "trail": [
            _head(story, step.record, seqs) | {"helpful": step.helpful, "harmful": step.harmful} for step in story.trail
        ],
        "ignored": [_head(story, ignored.record, seqs) | {"reason": ignored.reason} for ignored in story.ignored],
        "origin": seeds[-1].origin if seeds else None,
        "original": seeds[-1].original if seeds else None,
        "notes": [brief(note) | {"note": getattr(note.event, "note", None)} for note in story.notes],
        "told": _uses_json(statuses.injections, name),
        "cited": _uses_json(statuses.citations, name),
        "stood": story.status != UNKNOWN and not (decision and isinstance(decision.event, events.PointMatched)),
        "deciding": [*deciding.values()],
        "lineage": lineage(statuses, name),
    }
    return answer | ({"until": day} if (day := story.book.until.get(name)) else {})


def _uses_json(uses: Mapping[str, Uses], name: str) -> dict[str, Any]:
    use = uses.get(name, Uses())
    return {"count": use.count, "last": use.last and name_event(use.last).row}


def _brief(story: Story, record: EventRecord, seqs: Mapping[str, int]) -> dict[str, Any]:
    """Return an event as `brief`; of an update, which pruned the entry, by which counts and rule."""
    row = brief(record, seqs)
    if isinstance(record.event, events.PlaybookUpdated):
        step = next(step for step in story.trail if step.record.seq == record.seq)
        row["summary"] = _describe_prune(story.name, step, story.book.policy.rule)
    return row


def _find_deciding_events(story: Story) -> list[EventRecord]:
    """Return the events that decided about an entry, in order.

    These are the events that added it, took it out or brought it back; its last ratings that count, MAX_RATINGS at
    most, and the last harmful one before a prune; the undos of its events, and the undone event that had added it.
    """
    ratings = [step.record for step in story.trail if isinstance(step.record.event, events.PointRated)]
    records = [*ratings[-MAX_RATINGS:], *story.turns]
    for ignored in story.ignored:
        undone_event = ignored.record.event
        if isinstance(undone_event, UndoneEvent):
            records += [undone_event.by, *([ignored.record] if isinstance(undone_event.event, events.MAKERS) else [])]
    # By number, because one rating can be among the last ones and the one before a prune.
    deciding = {record.seq: record for record in records}
    return [deciding[seq] for seq in sorted(deciding)]


def _head(story: Story, record: EventRecord, seqs: Mapping[str, int]) -> dict[str, Any]:
    """Return an event as `_brief`, with its rating; of a merge also the entries."""
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    merge = {"name": event.name, "merged": list(event.merged)} if isinstance(event, events.PointMerged) else {}
    if isinstance(event, events.PointMatched):
        # A join reads as what it is to people: a merge into the entry that has the text.
        merge = {"name": event.to, "merged": [event.name]}
    return _brief(story, record, seqs) | merge | {"rating": getattr(event, "rating", None)}
