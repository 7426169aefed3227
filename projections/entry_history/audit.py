"""The audit view: the whole story of one name, from where it came to why it is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import (
    KIND_OF,
    EventRedacted,
    EventsVoided,
    KeyPoint,
    PlaybookUpdated,
    PointMerged,
    PointNoted,
    PointPinned,
    PointRated,
    PointSeeded,
    PointUnpinned,
)
from tallybook.projections.entry_history.status import GONE
from tallybook.projections.event_rows import by_json
from tallybook.projections.fold import State, View
from tallybook.projections.playbook.entry_state import rated
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.undo import Voided

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

_JUDGED: Final = (PointPinned, PointUnpinned)


@attrs.frozen
class Step:
    """Something that counted.

    Attributes:
        record: What happened; ``playbook.updated`` where it was pruned, ``event.redacted`` where a text of it went.
        helpful: Its count behind that; what it had where it went.
        harmful: Likewise.
    """

    record: EventRecord
    helpful: int
    harmful: int


@attrs.frozen
class Ignored:
    """Something that named the entry and changed nothing.

    Attributes:
        record: What happened.
        reason: Why it changed nothing: counts nothing, not in the playbook, already pruned, already in the playbook,
            undone, or counts for the entry that this one went into.
    """

    record: EventRecord
    reason: str


@attrs.define
class Story(State):
    """What became of one name.

    Attributes:
        name: The name.
        book: The playbook: what an event does to one entry may lie with another. Where history was folded as far as it
            speaks of this entry alone, others are not as they were.
        last: The entry as it stood last, None where it never did.
        decided: What took it out; None while it stands, and where it never did.
        rule: The rule by which it was pruned, None where it was not.
        origin: Shape that a legacy file had it in, None where it came from none.
        original: The item of that file where it differs from what was read, empty elsewhere; None once redacted.
        trail: What counted, in order.
        ignored: What changed nothing, in order.
        ended: What took it out at the last moment that was without it behind one that had it; None while it stands,
            and where it stood at no moment: what comes and goes in one batch was never in the playbook.
        undoing: The last batch in which something was taken back, None without one: before it, history was another.
    """

    name: str = ""
    book: Playbook = attrs.field(factory=Playbook)
    last: KeyPoint | None = None
    decided: EventRecord | None = None
    rule: str | None = None
    origin: str | None = None
    original: str | None = None
    trail: list[Step] = attrs.field(factory=list)
    ignored: list[Ignored] = attrs.field(factory=list)
    ended: EventRecord | None = None
    undoing: Batch | None = None

    @property
    def point(self) -> KeyPoint | None:
        """Return the entry as it stands, None where it does not."""
        return self.book.points.get(self.name)

    @property
    def waits(self) -> KeyPoint | None:
        """Return the entry as it is judged outside of the playbook, None where nothing said of it counts there."""
        return waiting(self.book, self.name)

    @property
    def status(self) -> str:
        """Return kept, pruned, retired, merged, or unknown where no entry ever had the name."""
        if self.point is not None:
            return "kept"
        return GONE[type(self.decided.event)] if self.decided is not None else "unknown"


def waiting(book: Playbook, name: str) -> KeyPoint | None:
    """Return an entry that was pruned and whose ratings count on, None where there is none."""
    return book.gone[name] if not book.policy.lasting and name in book.pruned else None


def _names(story: Story, event: Any) -> bool:
    """Say whether an event is about the entry: by its name, or by one that went into it."""
    name = getattr(event, "name", None)
    if name is not None:
        merged = story.book.merged
        return name == story.name or merged.get(name) == story.name or story.name in getattr(event, "merged", ())
    if isinstance(event, Voided):
        return _names(story, event.event)
    return isinstance(event, EventRedacted) and event.id in _ids(story)


def _ids(story: Story) -> set[str]:
    """Return the ids of the events that the story has told."""
    return {step.record.id for step in story.trail} | {ignored.record.id for ignored in story.ignored}


def _tell(story: Story, batch: Batch) -> None:
    """Tell a batch whole, event by event; heads are decoded only where the story goes on."""
    stood = story.point is not None
    may_turn = story.name in story.book.due or story.waits is not None
    concerned = may_turn or any(_names(story, event) for event in batch.events)
    changes = False
    for index, event in enumerate(batch.events):
        kind = type(event)
        before = story.point or story.waits if concerned else None
        stood_before = concerned and story.point is not None
        change = CHANGES.get(kind)
        if change is not None:
            change(story.book, event, batch)
            changes = True
        if kind is EventsVoided:
            story.undoing = batch
        if concerned and (change is not None or kind is PointNoted):
            _compare(story, batch.records[index], before, stood=stood_before)
    if stood or story.point is not None:
        story.ended = story.decided
    if changes:
        settle(story.book, batch)


def _compare(story: Story, record: EventRecord, before: KeyPoint | None, *, stood: bool) -> None:
    """Tell what an event made of the entry."""
    event, after = record.event, story.point
    if after is None and before is not None and (stood or story.waits is None):
        story.decided = record
        story.rule = story.book.policy.rule if isinstance(event, PlaybookUpdated) else None
        story.trail.append(Step(record, before.helpful, before.harmful))
    elif after is not None and (
        after is not before or not stood or (isinstance(event, _JUDGED) and _names(story, event))
    ):
        story.decided = story.rule = None
        _step(story, record, after)
        if isinstance(event, PointSeeded):
            story.origin, story.original = event.origin, event.original
    elif after is None and story.waits is not None and story.waits is not before:
        _step(story, record, story.waits)
    elif _names(story, event):
        _set_aside(story, record)


def _step(story: Story, record: EventRecord, after: KeyPoint) -> None:
    """Tell that the entry is as given from an event on."""
    story.last = after
    story.trail.append(Step(record, after.helpful, after.harmful))


def _set_aside(story: Story, record: EventRecord) -> None:
    """Tell of an event that names the entry and left it as it was."""
    event, last = record.event, story.last
    if isinstance(event, EventRedacted | PointNoted) and last is not None:
        story.trail.append(Step(record, last.helpful, last.harmful))
    else:
        story.ignored.append(Ignored(record, _reason(story, event)))


def _reason(story: Story, event: Any) -> str:
    """Say why an event changed nothing."""
    if isinstance(event, Voided):
        return "undone"
    name = story.book.merged.get(story.name, "")
    into = story.book.points.get(name) or waiting(story.book, name)
    if into is not None and isinstance(event, PointRated):
        return f"counts for {into.name}" if rated(into, event.rating) is not into else "counts nothing"
    if story.point is None and story.waits is None:
        return "already pruned" if story.status == "pruned" else "not in the playbook"
    return "counts nothing" if isinstance(event, PointRated | PointMerged) else "already in the playbook"


def _heard(_story: Story, _event: Any, _batch: Batch) -> None:
    """Let the batch be told when it is whole."""


def audit_view(name: str, policy: Policy = SPEC_POLICY) -> View[Story]:
    """Return the view that tells the story of one name under a policy."""
    return View(
        start=lambda: Story(name=name, book=Playbook(policy=policy)),
        table=dict.fromkeys((*CHANGES, PointNoted), _heard),
        settle=_tell,
    )


def story_json(story: Story) -> dict[str, Any]:
    """Return a story in the stable shape that ``why --json`` answers.

    Returns:
        ``{name, text, status, helpful, harmful, rule, decided_by, trail, ignored}``. Counts are those that stand, or
        those it had when it went; ``rule`` is None unless it is pruned, ``decided_by`` what took it out or None.
    """
    last = story.last
    return {
        "name": story.name,
        "text": None if last is None else last.text,
        "status": story.status,
        "helpful": 0 if last is None else last.helpful,
        "harmful": 0 if last is None else last.harmful,
        "rule": story.rule,
        "decided_by": None if story.decided is None else _decision(story.decided),
        "trail": [_head(step.record) | {"helpful": step.helpful, "harmful": step.harmful} for step in story.trail],
        "ignored": [_head(ignored.record) | {"reason": ignored.reason} for ignored in story.ignored],
    }


def _decision(record: EventRecord) -> dict[str, Any]:
    return {"seq": record.seq, "id": record.id, "at": record.at, "by": by_json(record.by)}


def _head(record: EventRecord) -> dict[str, Any]:
    """Return when, what and by whom of one row of the trail; of a merge, also what went into what."""
    event = record.event.event if isinstance(record.event, Voided) else record.event
    merge = {"name": event.name, "merged": list(event.merged)} if isinstance(event, PointMerged) else {}
    return merge | {
        "seq": record.seq,
        "at": record.at,
        "kind": KIND_OF[type(event)],
        "by": by_json(record.by),
        "rating": getattr(event, "rating", None),
    }
