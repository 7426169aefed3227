"""The audit view: the whole story of one name, from where it came to why it is gone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from ledger.events import (
    KIND_OF,
    EventRedacted,
    KeyPoint,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointSeeded,
)
from projections.fold import State, View
from projections.history import by_json
from projections.playbook import evolve
from projections.prune import SPEC_POLICY, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger.recorded import Batch, Recorded

GONE: Final[dict[type[Any], str]] = {PlaybookUpdated: "pruned", PointRemoved: "retired"}
"""What took an entry out of the playbook → the status it has since."""


@attrs.frozen
class Step:
    """Something that counted.

    Attributes:
        record: What happened; ``playbook.updated`` where it was pruned, ``event.redacted`` where a text of it went.
        helpful: Its count behind that; what it had where it went.
        harmful: Likewise.
    """

    record: Recorded
    helpful: int
    harmful: int


@attrs.frozen
class Ignored:
    """Something that named the entry and changed nothing.

    Attributes:
        record: What happened.
        reason: Why it changed nothing: counts nothing, not in the playbook, already pruned, or already in the playbook.
    """

    record: Recorded
    reason: str


@attrs.define
class Story(State):
    """What became of one name.

    Attributes:
        name: The name.
        point: The entry as it stands, None where it does not.
        last: The entry as it stood last, None where it never did.
        decided: What took it out; None while it stands, and where it never did.
        rule: The rule by which it was pruned, None where it was not.
        origin: Shape that a legacy file had it in, None where it came from none.
        original: The item of that file where it differs from what was read, empty elsewhere; None once redacted.
        trail: What counted, in order.
        ignored: What changed nothing, in order.
        texts: The latest text of every name: one text under two names is one piece of guidance that came back.
        mentioned: Whether the batch that is being folded belongs to the story.
    """

    name: str = ""
    point: KeyPoint | None = None
    last: KeyPoint | None = None
    decided: Recorded | None = None
    rule: str | None = None
    origin: str | None = None
    original: str | None = None
    trail: list[Step] = attrs.field(factory=list)
    ignored: list[Ignored] = attrs.field(factory=list)
    texts: dict[str, str] = attrs.field(factory=dict)
    mentioned: bool = False

    @property
    def status(self) -> str:
        """Return kept, pruned, retired, or unknown where no entry ever had the name."""
        if self.point is not None:
            return "kept"
        return GONE[type(self.decided.event)] if self.decided is not None else "unknown"

    @property
    def same_text(self) -> list[str]:
        """Return the other names that the same guidance has had, in the order they came."""
        if self.last is None or self.name not in self.texts:
            return []
        return [name for name, text in self.texts.items() if text == self.texts[self.name] and name != self.name]


def _mention(story: Story, event: Any, _: Batch) -> None:
    if event.name == story.name:
        story.mentioned = True


def _mention_text(story: Story, event: PointAdded | PointSeeded | PointEdited, batch: Batch) -> None:
    _mention(story, event, batch)
    if event.text:
        story.texts[event.name] = event.text


def _mention_prune(policy: Policy) -> Callable[[Story, PlaybookUpdated, Batch], None]:
    def mention(story: Story, _event: PlaybookUpdated, _: Batch) -> None:
        # An entry that comes to be due in this very batch is named by it, so it is mentioned already.
        if story.point is not None and policy.condemns(story.point):
            story.mentioned = True

    return mention


def _tell(story: Story, batch: Batch, policy: Policy) -> None:
    """Tell a batch whole, event by event; heads are decoded only where the story goes on."""
    if not story.mentioned:
        return
    story.mentioned = False
    for record in batch.records:
        event: Any = record.event
        if isinstance(event, PlaybookUpdated):
            _close(story, record, policy)
        elif isinstance(event, EventRedacted):
            _redact(story, record, event.id)
        elif type(event) in NAMED and event.name == story.name:
            _change(story, record)


def _ids(story: Story) -> set[str]:
    """Return the ids of the events that the story has told."""
    return {step.record.id for step in story.trail} | {ignored.record.id for ignored in story.ignored}


def _mention_redaction(story: Story, event: EventRedacted, _: Batch) -> None:
    if event.id in _ids(story):
        story.mentioned = True


def _redact(story: Story, record: Recorded, id_: str) -> None:
    """Tell that a text of the story is gone; the counts stay."""
    if story.last is not None and id_ in _ids(story):
        story.trail.append(Step(record, story.last.helpful, story.last.harmful))


def _close(story: Story, record: Recorded, policy: Policy) -> None:
    """Let an update drop the entry where it is due, rated in it or not (REQ-SCORE-007)."""
    if story.point is not None and policy.condemns(story.point):
        _leave(story, record, story.point)
        story.rule = policy.rule


def _leave(story: Story, record: Recorded, point: KeyPoint) -> None:
    story.point, story.decided = None, record
    story.trail.append(Step(record, point.helpful, point.harmful))


def _change(story: Story, record: Recorded) -> None:
    """Apply an event that names the entry, by the playbook's own rules."""
    before = story.point
    after = evolve(before, record.event)
    if after is before:
        story.ignored.append(Ignored(record, _reason(story, record.event)))
    elif after is None and before is not None:
        _leave(story, record, before)
    elif after is not None:  # pragma: no branch - where neither is, both are the same
        story.point = story.last = after
        story.decided = story.rule = None
        story.trail.append(Step(record, after.helpful, after.harmful))
        if isinstance(record.event, PointSeeded):
            story.origin, story.original = record.event.origin, record.event.original


def _reason(story: Story, event: Any) -> str:
    """Say why an event changed nothing."""
    if story.point is None:
        return "already pruned" if story.status == "pruned" else "not in the playbook"
    return "counts nothing" if isinstance(event, PointRated) else "already in the playbook"


NAMED: Final[dict[type[Any], Callable[[Story, Any, Batch], None]]] = {
    PointRated: _mention,
    PointRemoved: _mention,
    PointSeeded: _mention_text,
    PointAdded: _mention_text,
    PointEdited: _mention_text,
}
"""What can be part of the story where it has its name."""


def audit_view(name: str, policy: Policy = SPEC_POLICY) -> View[Story]:
    """Return the view that tells the story of one name under a policy."""
    return View(
        start=partial(Story, name=name),
        table={**NAMED, PlaybookUpdated: _mention_prune(policy), EventRedacted: _mention_redaction},
        settle=partial(_tell, policy=policy),
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


def story_extras(story: Story) -> dict[str, Any]:
    """Return what people are told beyond the stable shape: ``{origin, original, same_text}``."""
    return {"origin": story.origin, "original": story.original, "same_text": story.same_text}


def _decision(record: Recorded) -> dict[str, Any]:
    return {"seq": record.seq, "id": record.id, "at": record.at, "by": by_json(record.by)}


def _head(record: Recorded) -> dict[str, Any]:
    """Return when, what and by whom of one row of the trail."""
    return {
        "seq": record.seq,
        "at": record.at,
        "kind": KIND_OF[type(record.event)],
        "by": by_json(record.by),
        "rating": getattr(record.event, "rating", None),
    }
