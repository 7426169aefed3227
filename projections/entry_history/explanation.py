"""What is told beside a story's stable shape: which events decided, what was said, how it was used, other names."""

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
from tallybook.projections.entry_history.status import BROUGHT, GONE, Uses, brief
from tallybook.projections.event_rows import by_json
from tallybook.projections.undo import Voided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.entry_history.audit import Step, Story
    from tallybook.projections.entry_history.status import Standing

_BESIDE: Final = (EventRedacted, PointNoted)
"""Kinds of steps that say nothing of whether an entry stands."""

_JUDGED_OUTSIDE: Final = (PointRated, PointReworded)
"""Kinds of steps of an entry that is out and whose ratings count on: they do not bring it back by themselves."""


def explain(story: Story, standing: Standing, tell: Callable[[int], Story]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the story of an entry in its stable shape, and what is told beside it.

    Args:
        story: The story.
        standing: How every name stands at its moment.
        tell: Tells it up to an earlier moment: asked for where something was taken back.

    Returns:
        The second: ``{origin, original, notes, told, cited, stood, vanished_by, deciding, lineage}``. A note is
        ``{seq, at, by, note}``, the last None once redacted; ``told`` and ``cited`` are ``{count, last}``, the event
        as in ``deciding``, which are ``{seq, id, at, by, summary}`` in order; ``stood`` says whether the entry was in
        the playbook at any moment; ``vanished_by`` is one of those that decided, None where the entry stands or never
        was: without its batch an entry that stood would have stayed at that moment; ``lineage`` as
        ``tallybook.projections.entry_history.lineage`` has it.
    """
    last = None if story.point is not None else vanished(story, tell)
    # What came and went in one batch was in the playbook at no moment; still something took it out, or back.
    undone = standing.undone.get(story.name)
    gone = None if story.point is not None else last or story.decided or (undone and undone[1])
    return story_json(story), {
        "origin": story.origin,
        "original": story.original,
        "notes": [_note(step.record) for step in story.trail if isinstance(step.record.event, PointNoted)],
        "told": _uses(standing.told.get(story.name, Uses())),
        "cited": _uses(standing.cited.get(story.name, Uses())),
        "stood": story.point is not None or last is not None,
        "vanished_by": None if gone is None else brief(gone),
        "deciding": [brief(record) for record in deciding(story, gone)],
        "lineage": lineage(standing, story.name),
    }


def vanished(story: Story, tell: Callable[[int], Story]) -> EventRecord | None:
    """Return the event by whose batch an entry that is absent left the playbook, None where it never was in it.

    The playbook at the moment before that batch has the entry, and at no moment since. An undoing retells what came
    before it, so where one lies behind the end that the story has now, the moments before it are told for themselves.
    """
    while story.undoing is not None:
        begin = story.undoing.records[0].seq
        if story.ended is not None and story.ended.seq > story.undoing.last:
            break
        before = tell(begin - 1)
        if before.point is not None:
            here = story.ended is not None and story.ended.seq >= begin
            return story.ended if here else _undoing(story)
        story = before
    return story.ended


def _undoing(story: Story) -> EventRecord:
    """Return the undoing of the last batch in which there is one."""
    records = () if story.undoing is None else story.undoing.records
    return next(record for record in records if isinstance(record.event, EventsVoided))


def deciding(story: Story, gone: EventRecord | None = None) -> list[EventRecord]:
    """Return the events that decided about an entry, in order.

    Those that brought it, took it out or brought it back; before a prune the harmful rating that came last; what took
    back some of its events; and ``gone``.
    """
    chosen = {record.seq: record for record in (*_turns(story), *_undone(story))}
    if gone is not None:
        chosen[gone.seq] = gone
    return [chosen[seq] for seq in sorted(chosen)]


def _turns(story: Story) -> Iterator[EventRecord]:
    """Yield what brought the entry or took it out, and the ratings on which prunes hung."""
    stands, against = False, None
    for step in story.trail:
        record = step.record
        if isinstance(record.event, _BESIDE):
            continue
        if not stands and isinstance(record.event, _JUDGED_OUTSIDE):
            continue
        if not stands:
            yield record
            stands = True
            continue
        if isinstance(record.event, PointRated) and record.event.rating == "harmful":
            against = record
        if leaves(story, step):
            if isinstance(record.event, PlaybookUpdated) and against is not None:
                yield against
            yield record
            stands = False


def leaves(story: Story, step: Step) -> bool:
    """Say whether a step took the entry out of the playbook."""
    event = step.record.event
    return type(event) in GONE and not (isinstance(event, PointMerged) and event.name == story.name)


def _undone(story: Story) -> Iterator[EventRecord]:
    """Yield what took events of the entry back, and what had brought it where that is among them."""
    for ignored in story.ignored:
        void = ignored.record.event
        if isinstance(void, Voided):
            yield void.by
            if isinstance(void.event, BROUGHT):
                yield ignored.record


def _note(record: EventRecord) -> dict[str, Any]:
    return {"seq": record.seq, "at": record.at, "by": by_json(record.by), "note": record.event.note}  # type: ignore[union-attr]


def _uses(uses: Uses) -> dict[str, Any]:
    return {"count": uses.count, "last": None if uses.last is None else brief(uses.last.record)}
