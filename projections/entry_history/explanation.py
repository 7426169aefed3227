"""What `why` adds to a story: the deciding events, notes, injections, citations and related names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.events import (
    EventRedacted,
    EventsVoided,
    PlaybookUpdated,
    PointMerged,
    PointNoted,
    PointRated,
    PointReworded,
)
from tallybook.projections.entry_history.audit import story_json
from tallybook.projections.entry_history.lineage import lineage
from tallybook.projections.entry_history.status import ADDING_KINDS, LEAVING_KINDS, Uses, brief
from tallybook.projections.event_rows import by_json
from tallybook.projections.undo import UndoneEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.entry_history.audit import Step, Story
    from tallybook.projections.entry_history.status import EntryStatuses

_NEUTRAL_KINDS: Final = (EventRedacted, PointNoted)
"""Kinds of steps that never add an entry or take it out."""

_OUTSIDE_KINDS: Final = (PointRated, PointReworded)
"""Kinds of steps of a pruned entry whose ratings go on counting; only an update brings it back."""


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
        ``tallybook.projections.entry_history.lineage``.
    """
    last = None if story.point is not None else find_exit(story, story_as_of)
    # An entry added and taken out in one batch has no exit, but an event still took it out or undid it.
    undone = statuses.undone.get(story.name)
    exit_event = None if story.point is not None else last or story.decision or (undone and undone[1])
    return story_json(story), {
        "origin": story.origin,
        "original": story.original,
        "notes": [_note(step.record) for step in story.trail if isinstance(step.record.event, PointNoted)],
        "told": _uses(statuses.injections.get(story.name, Uses())),
        "cited": _uses(statuses.citations.get(story.name, Uses())),
        "stood": story.point is not None or last is not None,
        "vanished_by": None if exit_event is None else brief(exit_event),
        "deciding": [brief(record) for record in deciding_events(story, exit_event)],
        "lineage": lineage(statuses, story.name),
    }


def find_exit(story: Story, story_as_of: Callable[[int], Story]) -> EventRecord | None:
    """Return the event whose batch took an absent entry out of the playbook, None where it never was in it.

    The playbook as of the moment before that batch has the entry, and no later one has. An undo changes how the
    history before it reads; where one comes after the exit in the story, the story as of before the undo decides.
    """
    while story.last_undo_batch is not None:
        begin = story.last_undo_batch.records[0].seq
        if story.last_exit is not None and story.last_exit.seq > story.last_undo_batch.last:
            break
        before = story_as_of(begin - 1)
        if before.point is not None:
            is_later = story.last_exit is not None and story.last_exit.seq >= begin
            return story.last_exit if is_later else _last_undo(story)
        story = before
    return story.last_exit


def _last_undo(story: Story) -> EventRecord:
    """Return the undo in the last batch that has one."""
    records = () if story.last_undo_batch is None else story.last_undo_batch.records
    return next(record for record in records if isinstance(record.event, EventsVoided))


def deciding_events(story: Story, exit_event: EventRecord | None = None) -> list[EventRecord]:
    """Return the events that decided about an entry, in order.

    These are the events that added it, took it out or brought it back; the last harmful rating before a prune; the
    undos of its events; and ``exit_event``.
    """
    chosen = {record.seq: record for record in (*_turning_points(story), *_undos(story))}
    if exit_event is not None:
        chosen[exit_event.seq] = exit_event
    return [chosen[seq] for seq in sorted(chosen)]


def _turning_points(story: Story) -> Iterator[EventRecord]:
    """Yield the events that added the entry or took it out, and the last harmful rating before each prune."""
    is_present, last_harmful = False, None
    for step in story.trail:
        record = step.record
        if isinstance(record.event, _NEUTRAL_KINDS):
            continue
        if not is_present and isinstance(record.event, _OUTSIDE_KINDS):
            continue
        if not is_present:
            yield record
            is_present = True
            continue
        if isinstance(record.event, PointRated) and record.event.rating == "harmful":
            last_harmful = record
        if leaves(story, step):
            if isinstance(record.event, PlaybookUpdated) and last_harmful is not None:
                yield last_harmful
            yield record
            is_present = False


def leaves(story: Story, step: Step) -> bool:
    """Say whether a step took the entry out of the playbook."""
    event = step.record.event
    return type(event) in LEAVING_KINDS and not (isinstance(event, PointMerged) and event.name == story.name)


def _undos(story: Story) -> Iterator[EventRecord]:
    """Yield the undos of the entry's events, and the undone event that had added it."""
    for ignored in story.ignored:
        undone_event = ignored.record.event
        if isinstance(undone_event, UndoneEvent):
            yield undone_event.by
            if isinstance(undone_event.event, ADDING_KINDS):
                yield ignored.record


def _note(record: EventRecord) -> dict[str, Any]:
    return {"seq": record.seq, "at": record.at, "by": by_json(record.by), "note": record.event.note}  # type: ignore[attr-defined]


def _uses(uses: Uses) -> dict[str, Any]:
    return {"count": uses.count, "last": None if uses.last is None else brief(uses.last.record)}
