"""The story of one entry, from its origin to the reason it left the playbook, and what `why` answers about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.projections.entry_history.status import ADDING_KINDS, Uses, brief, lineage, prune_summary
from tallybook.projections.event_rows import by_json, happened, reference
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.entry_state import REDACTED, add_rating
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.view import CHANGES, UNDONE, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.entry_history.status import EntryStatuses

_BESIDE_KINDS: Final = (events.PointPinned, events.PointUnpinned, events.PointPlaced, events.PointLimited)
"""Kinds of steps that change neither text nor counts."""
_NEUTRAL_KINDS: Final = (events.EventRedacted, events.PointNoted)
"""Kinds of steps that never add an entry or take it out."""
_LEAVING_KINDS: Final = (events.PlaybookUpdated, events.PointRemoved, events.PointRetired, events.PointMerged)
"""Kinds of steps that take an entry out of the playbook."""
_OUTSIDE_KINDS: Final = (events.PointRated, events.PointReworded)
"""Kinds of steps of a pruned entry whose ratings go on counting; only an update brings it back."""


MAX_RATINGS: Final = 10
"""Most ratings among the events that decided: the last ones."""


@attrs.frozen
class Step:
    """An event that changed the entry.

    Attributes:
        record: The event; ``playbook.updated`` for a prune, ``event.redacted`` for a redacted text.
        helpful: Helpful count after the event; where the event took the entry out, the last count.
        harmful: Harmful count, in the same way.
    """

    record: EventRecord
    helpful: int
    harmful: int


@attrs.frozen
class IgnoredEvent:
    """An event that named the entry and changed nothing.

    Attributes:
        record: The event.
        reason: Why it changed nothing: counts nothing, not in the playbook, already pruned, already in the playbook,
            undone, or counts for the entry that this one was merged into.
    """

    record: EventRecord
    reason: str


@attrs.define
class Story(State):
    """The story of one name.

    Attributes:
        name: The name.
        book: The playbook, since the effect of an event on one entry can depend on others. Where only the batches of
            this entry were folded, the other entries in it are incomplete.
        last: The last state of the entry, None where it never existed.
        decision: The event that took it out; None while it is in the playbook, and where it never was.
        rule: The rule by which it was pruned, None where it was not.
        origin: Shape of the entry in a legacy file, None where it was not imported.
        original: The item of that file where it differs from the entry, empty elsewhere; None once redacted.
        trail: The events that changed it, in order.
        ignored: The events that changed nothing, in order.
        early_notes: Notes that come before the entry: in a shared history the own notes come before the book.
        last_exit: The event of the last batch that ended without the entry while the moment before had it; None where
            no moment had it: an entry added and taken out in one batch was in the playbook at no moment.
        last_undo_batch: The last batch with an undo, None without one. Moments before it showed another history.
    """

    name: str = ""
    book: Playbook = attrs.field(factory=Playbook)
    last: Entry | None = None
    decision: EventRecord | None = None
    rule: str | None = None
    origin: str | None = None
    original: str | None = None
    trail: list[Step] = attrs.field(factory=list)
    ignored: list[IgnoredEvent] = attrs.field(factory=list)
    early_notes: list[EventRecord] = attrs.field(factory=list)
    last_exit: EventRecord | None = None
    last_undo_batch: Batch | None = None

    @property
    def entry(self) -> Entry | None:
        """Return the entry, None where it is not in the playbook."""
        return self.book.entries.get(self.name)

    @property
    def candidate(self) -> Entry | None:
        """Return the pruned entry whose ratings go on counting, None where there is none."""
        return pruned_candidate(self.book, self.name)

    @property
    def status(self) -> str:
        """Return the status of the name, as the playbook has it."""
        return self.book.status_of(self.name)

    @property
    def undone_addition(self) -> UndoneEvent | None:
        """Return the event that had brought an undone entry, with its undo; None for an entry of another status."""
        undone = [event for one in self.ignored if isinstance(event := one.record.event, UndoneEvent)]
        added = [event for event in undone if isinstance(event.event, ADDING_KINDS)]
        return added[-1] if added and self.status == UNDONE else None


def pruned_candidate(book: Playbook, name: str) -> Entry | None:
    """Return a pruned entry whose ratings go on counting under the policy, None where there is none."""
    return book.gone[name] if not book.policy.is_permanent and name in book.pruned else None


def is_about(story: Story, event: Any) -> bool:
    """Say whether an event is about the entry: by its name, or by the name of an entry merged into it."""
    name = getattr(event, "name", None)
    if name is not None:
        merged = story.book.merged
        return name == story.name or merged.get(name) == story.name or story.name in getattr(event, "merged", ())
    if isinstance(event, UndoneEvent):
        return is_about(story, event.event)
    if not isinstance(event, events.EventRedacted):
        return False
    rows: list[Step | IgnoredEvent] = [*story.trail, *story.ignored]
    return event.id in {row.record.id for row in rows}


def _apply_batch(story: Story, batch: Batch) -> None:
    """Apply a whole batch, event by event; line heads are decoded only for events in the story."""
    was_present = story.entry is not None
    may_turn = story.name in story.book.due or story.candidate is not None
    is_concerned = may_turn or any(is_about(story, event) for event in batch.events)
    has_changes = False
    for index, event in enumerate(batch.events):
        kind = type(event)
        before = story.entry or story.candidate if is_concerned else None
        was_present_before = is_concerned and story.entry is not None
        change = CHANGES.get(kind)
        if change is not None:
            change(story.book, event, batch)
            has_changes = True
        if kind is events.EventsVoided:
            story.last_undo_batch = batch
        if is_concerned and (change is not None or kind is events.PointNoted):
            add_event(story, batch.records[index], before, was_present=was_present_before)
    if was_present or story.entry is not None:
        story.last_exit = story.decision
    if has_changes:
        settle(story.book, batch)


def add_event(story: Story, record: EventRecord, before: Entry | None, *, was_present: bool) -> None:
    """Add an event to the story by its effect on the entry."""
    event, after = record.event, story.entry
    if after is None and before is not None and (was_present or story.candidate is None):
        story.decision = record
        story.rule = story.book.policy.rule if isinstance(event, events.PlaybookUpdated) else None
        story.trail.append(Step(record, before.helpful, before.harmful))
    elif after is not None and (
        after is not before or not was_present or (isinstance(event, _BESIDE_KINDS) and is_about(story, event))
    ):
        story.decision = story.rule = None
        _step(story, record, after)
        if isinstance(event, events.PointSeeded):
            story.origin, story.original = event.origin, event.original
    elif after is None and story.candidate is not None and story.candidate is not before:
        _step(story, record, story.candidate)
    elif isinstance(event, events.PointMatched) and event.name == story.name:
        _step(story, record, Entry(event.name, _text_of(event), event.helpful, event.harmful))
        story.decision = record
    elif is_about(story, event):
        _add_unchanged(story, record)


def _text_of(event: Any) -> str:
    return REDACTED if event.text is None else str(event.text)


def _step(story: Story, record: EventRecord, after: Entry) -> None:
    """Add a step after which the entry is as given."""
    story.last = after
    story.trail.append(Step(record, after.helpful, after.harmful))


def _add_unchanged(story: Story, record: EventRecord) -> None:
    """Add an event that names the entry and did not change it."""
    event, last = record.event, story.last
    if isinstance(event, events.EventRedacted | events.PointNoted) and last is not None:
        story.trail.append(Step(record, last.helpful, last.harmful))
    elif isinstance(event, events.PointNoted):
        story.early_notes.append(record)
    else:
        story.ignored.append(IgnoredEvent(record, _reason(story, event)))


def _reason(story: Story, event: Any) -> str:
    """Return why an event changed nothing."""
    if isinstance(event, UndoneEvent):
        return "undone"
    name = story.book.merged.get(story.name, "")
    into = story.book.entries.get(name) or pruned_candidate(story.book, name)
    if into is not None and isinstance(event, events.PointRated):
        return f"counts for {into.name}" if add_rating(into, event.rating) is not into else "counts nothing"
    if story.entry is None and story.candidate is None:
        return "already pruned" if story.status == "pruned" else "not in the playbook"
    return "counts nothing" if isinstance(event, events.PointRated | events.PointMerged) else "already in the playbook"


def audit_view(name: str, policy: Policy = SPEC_POLICY) -> View[Story]:
    """Return the view of the story of one name under a policy."""
    kinds = (*CHANGES, events.PointNoted)
    return batch_view(lambda: Story(name=name, book=Playbook(policy=policy)), kinds, _apply_batch)


# What `why` answers


def explain(
    story: Story, statuses: EntryStatuses, story_as_of: Callable[[int], Story]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the story of an entry in its stable shape, and the additions of `why`.

    Args:
        story: The story.
        statuses: The status of every name as of the same moment.
        story_as_of: Returns the story as of an earlier event number; called where something was undone.

    Returns:
        The additions are ``{origin, original, notes, told, cited, stood, vanished_by, deciding, lineage}``. A note is
        ``{seq, at, by, note}``, ``note`` None once redacted. ``told`` (injections) and ``cited`` are
        ``{count, last}``; ``last`` is an event as in ``deciding``, a list of ``{seq, id, at, by, summary}`` in order.
        ``stood`` says whether the entry was in the playbook at any moment. ``vanished_by`` is the deciding event
        whose batch took it out, None where it is in the playbook or never existed. ``lineage`` is that of
        ``tallybook.projections.entry_history.status.lineage``. Only an entry that holds until a date has ``until``.
    """
    last = None if story.entry is not None else find_exit(story, story_as_of)
    # An entry added and taken out in one batch has no exit, but an event still took it out or undid it.
    undone = statuses.undone.get(story.name)
    exit_event = None if story.entry is not None else last or story.decision or (undone and undone[1])
    return story_json(story), {
        "origin": story.origin,
        "original": story.original,
        "notes": [_note(record) for record in _notes(story)],
        "told": _uses(statuses.injections.get(story.name, Uses())),
        "cited": _uses(statuses.citations.get(story.name, Uses())),
        "stood": story.entry is not None or last is not None,
        "vanished_by": None if exit_event is None else _brief(story, exit_event),
        "deciding": [_brief(story, record) for record in deciding_events(story, exit_event)],
        "lineage": lineage(statuses, story.name),
    } | ({"until": day} if (day := story.book.until.get(story.name)) else {})


def _brief(story: Story, record: EventRecord) -> dict[str, Any]:
    """Return an event as `brief`; of an update, which pruned the entry, by which counts and rule."""
    row = brief(record)
    if isinstance(record.event, events.PlaybookUpdated):
        step = next((step for step in story.trail if step.record.seq == record.seq), None)
        last = step or story.last or Entry(story.name, "")
        row["summary"] = prune_summary(Entry(story.name, "", last.helpful, last.harmful), story.book.policy.rule)
    return row


def find_exit(story: Story, story_as_of: Callable[[int], Story]) -> EventRecord | None:
    """Return the event whose batch took an absent entry out of the playbook, None where it never was in it.

    The playbook as of the moment before that batch has the entry, and no later one has. An undo changes how the
    history before it reads; where one comes after the exit in the story, the story as of before the undo decides.
    """
    while (batch := story.last_undo_batch) is not None:
        begin = batch.records[0].seq
        if story.last_exit is not None and story.last_exit.seq > batch.last:
            break
        before = story_as_of(begin - 1)
        if before.entry is not None:
            is_later = story.last_exit is not None and story.last_exit.seq >= begin
            undo = next(record for record in batch.records if isinstance(record.event, events.EventsVoided))
            return story.last_exit if is_later else undo
        story = before
    return story.last_exit


def deciding_events(story: Story, exit_event: EventRecord | None = None) -> list[EventRecord]:
    """Return the events that decided about an entry, in order.

    These are the events that added it, took it out or brought it back; its last ratings that count, MAX_RATINGS at
    most, and the last harmful one before a prune; the undos of its events; and ``exit_event``.
    """
    ratings = [step.record for step in story.trail if isinstance(step.record.event, events.PointRated)]
    chosen = {record.seq: record for record in (*ratings[-MAX_RATINGS:], *_turning_points(story), *_undos(story))}
    if exit_event is not None:
        chosen[exit_event.seq] = exit_event
    return [chosen[seq] for seq in sorted(chosen)]


def _turning_points(story: Story) -> Iterator[EventRecord]:
    """Yield the events that added the entry or took it out, and the last harmful rating before each prune."""
    is_present, last_harmful = False, None
    for step in story.trail:
        record, event = step.record, step.record.event
        if isinstance(event, _NEUTRAL_KINDS) or (not is_present and isinstance(event, _OUTSIDE_KINDS)):
            continue
        if not is_present:
            yield record
            is_present = True
        elif isinstance(event, _LEAVING_KINDS) and not _takes_in(story, event):
            if isinstance(event, events.PlaybookUpdated) and last_harmful is not None:
                yield last_harmful
            yield record
            is_present = False
        elif isinstance(event, events.PointRated) and event.rating == "harmful":
            last_harmful = record


def _takes_in(story: Story, event: Any) -> bool:
    """Say whether an event merges other entries into this one."""
    return isinstance(event, events.PointMerged) and event.name == story.name


def _undos(story: Story) -> Iterator[EventRecord]:
    """Yield the undos of the entry's events, and the undone event that had added it."""
    for ignored in story.ignored:
        undone_event = ignored.record.event
        if isinstance(undone_event, UndoneEvent):
            yield undone_event.by
            if isinstance(undone_event.event, ADDING_KINDS):
                yield ignored.record


def _notes(story: Story) -> list[EventRecord]:
    return [*story.early_notes, *(one.record for one in story.trail if isinstance(one.record.event, events.PointNoted))]


def _note(record: EventRecord) -> dict[str, Any]:
    return {"seq": record.seq, "at": record.at, "by": by_json(record.by), "note": record.event.note}  # type: ignore[attr-defined]


def _uses(uses: Uses) -> dict[str, Any]:
    return {"count": uses.count, "last": None if uses.last is None else brief(uses.last.record)}


def story_json(story: Story) -> dict[str, Any]:
    """Return a story in the stable shape that ``why --json`` answers.

    Returns:
        ``{name, text, status, helpful, harmful, rule, decided_by, trail, ignored}``. Counts are the last ones;
        ``rule`` is None unless it is pruned; ``decided_by`` is the event that took it out, or undid its addition.
    """
    last, decision = story.last, story.decision
    text = None if last is None else last.text
    if (addition := story.undone_addition) is not None:
        text, decision = _text_of(addition.event), addition.by
    return {
        "name": story.name,
        "text": text,
        "status": story.status,
        "helpful": 0 if last is None else last.helpful,
        "harmful": 0 if last is None else last.harmful,
        "rule": story.rule,
        "decided_by": None if decision is None else reference(decision),
        "trail": [_head(step.record) | {"helpful": step.helpful, "harmful": step.harmful} for step in story.trail],
        "ignored": [_head(ignored.record) | {"reason": ignored.reason} for ignored in story.ignored],
    }


def _head(record: EventRecord) -> dict[str, Any]:
    """Return number, time, kind and author of a row of the trail; of a merge also the entries."""
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    merge = {"name": event.name, "merged": list(event.merged)} if isinstance(event, events.PointMerged) else {}
    if isinstance(event, events.PointMatched):
        merge = {"name": event.to, "merged": [event.name]}
    return (
        merge
        | happened(record)
        | {
            "seq": record.seq,
            "at": record.at,
            "kind": events.KIND_OF[type(event)],
            "by": by_json(record.by),
            "rating": getattr(event, "rating", None),
        }
    )
