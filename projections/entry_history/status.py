"""The standing view: of every name that ever was, the event that last changed it, and every text that it had.

So it answers for those that stand (`blame`) and for those that are gone (`graveyard`), finds either by its words, and
says how often sessions were told of them and agents cited them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import attrs

from tallybook.ledger.events import (
    KeyPoint,
    PlaybookInjected,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointMerged,
    PointRated,
    PointRemoved,
    PointRetired,
    PointSeeded,
)
from tallybook.projections.event_rows import by_json, summary
from tallybook.projections.fold import State, View
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.render import entry
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.undo import Voided

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

GONE: Final[dict[type[Any], str]] = {
    PlaybookUpdated: "pruned",
    PointRemoved: "retired",
    PointRetired: "retired",
    PointMerged: "merged",
}
"""What took an entry out of the playbook → the status it has since."""

UNDONE: Final = "undone"
"""The status of an entry whose beginning was taken back."""

BROUGHT: Final = (PointAdded, PointSeeded, PointEdited)


class Placed(Protocol):
    """Where an event stands."""

    @property
    def record(self) -> EventRecord:
        """Return the event with who and when."""
        ...


class Place(NamedTuple):
    """Where an event stands; who and when are decoded for those who ask.

    Attributes:
        batch: What it was appended with.
        number: Its place in that, from 0.
    """

    batch: Batch
    number: int

    @property
    def record(self) -> EventRecord:
        """Return the event with who and when."""
        return self.batch.records[self.number]


@attrs.frozen
class Uses:
    """How often something was done with an entry.

    Attributes:
        count: How often, 0 or more.
        last: Where it was done last, None where it never was.
    """

    count: int = 0
    last: Placed | None = None


@attrs.define
class Standing(State):
    """How every name stands, and since which event.

    Attributes:
        book: The playbook.
        changed: Name → where its count, its text or its standing last changed, in the order in which names came.
        texts: Name → every text that it had, in their order; what was redacted is none.
        undone: Name that somebody undid → its text, and the undoing; it is neither in the playbook nor gone from it.
        told: Name → how often a session was told of it.
        cited: Name → how often an agent cited it.
    """

    book: Playbook = attrs.field(factory=Playbook)
    changed: dict[str, Placed] = attrs.field(factory=dict)
    texts: dict[str, dict[str, None]] = attrs.field(factory=dict)
    undone: dict[str, tuple[str, EventRecord]] = attrs.field(factory=dict)
    told: dict[str, Uses] = attrs.field(factory=dict)
    cited: dict[str, Uses] = attrs.field(factory=dict)

    @property
    def names(self) -> list[str]:
        """Return every name that ever stood, those that were undone last."""
        return [*self.changed, *(name for name in self.undone if name not in self.changed)]

    def status(self, name: str) -> str:
        """Return kept, pruned, retired, merged, undone, or unknown where no entry ever had the name."""
        status = self.book.status_of(name)
        return UNDONE if status == "unknown" and name in self.undone else status

    def decided(self, name: str) -> EventRecord:
        """Return what last changed a name that stood."""
        return self.changed[name].record

    def text(self, name: str) -> str:
        """Return the text that a name has, or had last."""
        point = self.book.points.get(name) or self.book.gone.get(name)
        return point.text if point is not None else self.undone[name][0]


def hear(state: Standing, batch: Batch, index: int) -> None:
    """Let one event of a batch do to the playbook what it does, and note whom it changed."""
    event = batch.events[index]
    change = CHANGES.get(type(event))
    if change is None:
        return
    points = state.book.points
    if isinstance(event, PointRated):
        # The commonest event by far takes the short way: it changes one entry's counts, and no text.
        name = event.name if event.name in points else state.book.merged.get(event.name, event.name)
        rated = points.get(name)
        change(state.book, event, batch)
        if points.get(name) is not rated:
            state.changed[name] = Place(batch, index)
        return
    before = [(name, points.get(name)) for name in meant(state.book, event)]
    change(state.book, event, batch)
    # An order that is told gives the playbook a dict of its own.
    points = state.book.points
    for name, was in before:
        now = points.get(name)
        if now is not was and now != was:
            state.changed[name] = Place(batch, index)
            _know(state, now)
    if isinstance(event, Voided) and isinstance(event.event, BROUGHT):
        text = event.event.text
        state.undone[event.event.name] = (REDACTED if text is None else text, event.by)


def meant(book: Playbook, event: Any) -> tuple[str, ...]:
    """Return the names that an event can change."""
    if isinstance(event, PlaybookUpdated):
        return tuple(book.due)
    name = getattr(event, "name", None)
    if name is None:
        return ()
    return (name, book.merged.get(name, name), *getattr(event, "merged", ()))


def _know(state: Standing, now: KeyPoint | None) -> None:
    """Keep a text that came to stand."""
    if now is not None and now.text != REDACTED:
        state.texts.setdefault(now.name, {})[now.text] = None


def _heard(_state: Standing, _event: Any, _batch: Batch) -> None:
    """Let the batch be told when it is whole: a place in it is told by its number there."""


def _use(uses: dict[str, Uses], name: str, place: Place) -> None:
    """Count that an entry was told or cited; that decides nothing."""
    before = uses.get(name)
    uses[name] = Uses(1 if before is None else before.count + 1, place)


def _tell(state: Standing, batch: Batch) -> None:
    changes = False
    for index, event in enumerate(batch.events):
        if isinstance(event, PlaybookInjected):
            for name in dict.fromkeys(event.names):
                _use(state.told, name, Place(batch, index))
        elif isinstance(event, PointCited):
            _use(state.cited, event.name, Place(batch, index))
        else:
            changes = changes or type(event) in CHANGES
            hear(state, batch, index)
    if changes:
        settle(state.book, batch)


def standing_view(policy: Policy = SPEC_POLICY) -> View[Standing]:
    """Return the view that tells of every name how it stands, under a policy."""
    heard = dict.fromkeys((*CHANGES, PlaybookInjected, PointCited), _heard)
    return View(lambda: Standing(book=Playbook(policy=policy)), heard, _tell)


STANDING: Final = standing_view()


def brief(record: EventRecord) -> dict[str, Any]:
    """Return an event as answers name it: ``{seq, id, at, by, summary}``."""
    event = record.event.event if isinstance(record.event, Voided) else record.event
    return {"seq": record.seq, "id": record.id, "at": record.at, "by": by_json(record.by), "summary": summary(event)}


def blame(state: Standing) -> list[dict[str, Any]]:
    """Return each entry of the playbook with the event that last changed its counts, its text or its standing.

    Returns:
        ``{name, text, helpful, harmful, event}`` in the playbook's order; ``event`` as ``brief``.
    """
    return [entry(point) | {"event": brief(state.decided(point.name))} for point in state.book.points.values()]


def graveyard(state: Standing) -> list[dict[str, Any]]:
    """Return every entry that is gone and why, those that went last at the end.

    Returns:
        ``{name, text, helpful, harmful, status, rule, reason, into, event}``: counts are those that it had when it
        went, ``rule`` is None unless it was pruned, ``reason`` what was given with the event or None, ``into`` the
        entry that it went into or None; ``event`` took it out, as ``brief``.
    """
    gone = [_grave(state, name) for name in state.names if name not in state.book.points]
    return sorted(gone, key=lambda row: int(row["event"]["seq"]))


def _grave(state: Standing, name: str) -> dict[str, Any]:
    point = state.book.gone.get(name) or KeyPoint(name, state.text(name))
    status = state.status(name)
    record = state.undone[name][1] if status == UNDONE else state.decided(name)
    return entry(point) | {
        "status": status,
        "rule": state.book.policy.rule if status == "pruned" else None,
        "reason": getattr(record.event, "reason", None) or None,
        "into": state.book.merged.get(name),
        "event": brief(record),
    }
