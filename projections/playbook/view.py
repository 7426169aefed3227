"""The playbook view: which key points stand, with which counts, at a moment."""

from __future__ import annotations

from functools import partial
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import (
    EventRedacted,
    EventsVoided,
    KeyPoint,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
)
from tallybook.ledger.names import join_sections, parse_number
from tallybook.projections.fold import State, View
from tallybook.projections.playbook.entry_state import REDACTED, Points, Tally, evolve, rated
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.undo import Voided

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from tallybook.ledger.records import Batch

VERSION = "1.0"


@attrs.frozen
class Past:
    """A batch that was folded by somebody else, of whom a checkpoint has it: when it was recorded, and no more.

    Attributes:
        last: Sequence number of its last line.
        at: When it was recorded.
    """

    last: int
    at: str


@attrs.define
class Playbook(State):
    """The playbook at a moment.

    Attributes:
        policy: Decides what an update drops.
        points: The entries that stand, by name, in their order.
        tallies: The same, to be counted in.
        high_water: Highest number of a ``kpt_NNN`` that ever stood, 0 for none; names are never used again.
        used: Every name that ever stood.
        due: Names that the next update drops, unless their counts change before it.
        gone: Entries that stood and do not, as they stood last.
        pruned: Those of them that an update dropped. Under a policy that lets them back their ratings count on.
        pinned: Names that are not pruned.
        pardoned: Name of a restored entry → its harmful count then; it is pruned only above that.
        merged: Name of a merged entry → the one that it went into.
        top: Top-level keys of the file other than key_points and last_updated, in order.
        adopted_at: The ``last_updated`` that a legacy file brought, None without one.
        source: SHA-256 of the adopted file, empty without one.
        adoption: Sequence number behind the batch that adopted a legacy file, 0 without one.
        latest: The last batch that changed the playbook after it was adopted; None before the first.
        stamp: Sequence number and chain of the last playbook batch, (0, "") before the first.
        order: Names of an order that is being told, applied when its edit closes.
        rewrites: How often earlier events were redacted or voided; a state that was folded before that is folded anew
            by whoever reads on.
        redacted: Sequence number behind the last batch that redacted something, 0 before the first.
        voided: Sequence number behind the last batch that undid something, 0 before the first.
        begun: Whether anything was said of the playbook that was not undone.
    """

    policy: Policy = SPEC_POLICY
    points: MutableMapping[str, KeyPoint] = attrs.field(factory=Points)
    tallies: dict[str, Tally] = attrs.field(init=False, eq=False, repr=False)
    high_water: int = 0
    used: set[str] = attrs.field(factory=set)
    due: dict[str, None] = attrs.field(factory=dict)
    gone: dict[str, KeyPoint] = attrs.field(factory=dict)
    pruned: dict[str, None] = attrs.field(factory=dict)
    pinned: set[str] = attrs.field(factory=set)
    pardoned: dict[str, int] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    top: dict[str, Any] = attrs.field(factory=lambda: {"version": VERSION})
    adopted_at: Any = None
    source: str = ""
    adoption: int = 0
    latest: Batch | Past | None = None
    stamp: tuple[int, str] = (0, "")
    order: list[str] = attrs.field(factory=list)
    rewrites: int = 0
    redacted: int = 0
    voided: int = 0
    begun: bool = False

    def __attrs_post_init__(self) -> None:
        """Take any mapping for the entries."""
        points = self.points if isinstance(self.points, Points) else Points(self.points)
        self.points, self.tallies = points, points.tallies

    def spares(self, point: KeyPoint | Tally) -> bool:
        """Say whether an entry stays whatever the policy says: it is pinned, or was pardoned with so many harmful."""
        return point.name in self.pinned or point.harmful <= self.pardoned.get(point.name, -1)

    def condemns(self, point: KeyPoint) -> bool:
        """Say whether the next update drops an entry if its counts stay."""
        return self.policy.condemns(point) and not self.spares(point)

    def status_of(self, name: str) -> str:
        """Return kept, pruned, retired, merged, or unknown where no entry ever had the name, as `why` tells it."""
        if name in self.points:
            return "kept"
        if name in self.merged:
            return "merged"
        if name in self.pruned:
            return "pruned"
        return "retired" if name in self.gone else "unknown"

    @property
    def last_updated(self) -> Any:
        """Return when it last changed: the adopted value until the first playbook event behind the adoption."""
        return self.adopted_at if self.latest is None else self.latest.at


def _place(state: Playbook, point: KeyPoint) -> None:
    """Let an entry stand as given, and note whether the next update drops it."""
    state.points[point.name] = point
    _judge(state, point)


def _judge(state: Playbook, point: KeyPoint | Tally) -> None:
    """Note whether the next update drops an entry."""
    if state.policy.condemns(point) and not state.spares(point):
        state.due[point.name] = None
    else:
        state.due.pop(point.name, None)


def _enter(state: Playbook, point: KeyPoint) -> None:
    """Let an entry stand that may be new."""
    _place(state, point)
    _come(state, point.name)


def _come(state: Playbook, name: str) -> None:
    """Note that an entry stands that may be new."""
    state.gone.pop(name, None)
    state.pruned.pop(name, None)
    # One that went into another and was set by a hand again stands for itself.
    state.merged.pop(name, None)
    _use(state, name)


def _use(state: Playbook, name: str) -> None:
    state.used.add(name)
    state.high_water = max(state.high_water, parse_number(name) or 0)


def _leave(state: Playbook, name: str) -> None:
    """Take an entry out, if it stands; how it stood last is kept for whoever restores it."""
    point = state.points.pop(name, None)
    state.due.pop(name, None)
    state.pardoned.pop(name, None)
    if point is not None:
        state.gone[name] = point
    if not state.policy.lasting:
        # What was taken out by decision comes back by decision alone.
        state.pruned.pop(name, None)


def _void(state: Playbook, event: Voided, batch: Batch) -> None:
    """Keep a name from being used again, even if the event that brought it is void."""
    if isinstance(event.event, PointAdded | PointSeeded | PointEdited):
        _use(state, event.event.name)
    elif isinstance(event.event, EventsVoided):
        _rewrite(state, event.event, batch)


def _keep(state: Playbook, event: Any, _: Batch) -> None:
    """Let an entry become what an event makes of it."""
    before = state.points.get(event.name)
    point = evolve(before, event)
    if point is None:
        _leave(state, event.name)
    elif point is not before:
        _enter(state, point)


def _add(state: Playbook, event: PointAdded, _: Batch) -> None:
    # The second commonest: one that stands stays as it is, and a new one has no counts to be judged by.
    if event.name not in state.tallies:
        text = REDACTED if event.text is None else event.text
        state.tallies[event.name] = Tally(event.name, text, 0, 0)
        _come(state, event.name)


def _set(state: Playbook, event: PointEdited, batch: Batch) -> None:
    before = state.points.get(event.name)
    if before is not None and (before.helpful, before.harmful) != (event.helpful, event.harmful):
        # Counts that a hand sets are judged anew, whatever was pardoned.
        state.pardoned.pop(event.name, None)
    _keep(state, event, batch)


def _rate(state: Playbook, event: PointRated, _: Batch) -> None:
    # The commonest event by far, so it takes the short way: a rating never changes who stands, a helpful one condemns
    # nobody, and a harmful one spares nobody.
    tally = state.tallies.get(event.name) or state.tallies.get(state.merged.get(event.name, ""))
    if tally is None:
        name = state.merged.get(event.name, event.name)
        if name in state.pruned and not state.policy.lasting:
            state.gone[name] = rated(state.gone[name], event.rating)
    elif event.rating == "helpful":
        tally.helpful += 1
        tally.shown = None
        if state.due and tally.name in state.due:
            _judge(state, tally)
    elif event.rating == "harmful":
        tally.harmful += 1
        tally.shown = None
        if tally.harmful >= state.policy.floor:
            _judge(state, tally)


def _reword(state: Playbook, event: PointReworded, batch: Batch) -> None:
    if event.name in state.pruned and not state.policy.lasting:
        point = state.gone[event.name]
        state.gone[event.name] = evolve(point, event) or point
    else:
        _keep(state, event, batch)


def _restore(state: Playbook, event: PointRestored, _: Batch) -> None:
    point = state.gone.get(event.name)
    if point is not None and event.name not in state.merged:
        state.pardoned[event.name] = point.harmful
        _enter(state, point)


def _pin(state: Playbook, event: PointPinned, _: Batch) -> None:
    state.pinned.add(event.name)
    _again(state, event.name)


def _unpin(state: Playbook, event: PointUnpinned, _: Batch) -> None:
    state.pinned.discard(event.name)
    _again(state, event.name)


def _again(state: Playbook, name: str) -> None:
    """Judge an entry again whose counts did not change."""
    if name in state.points:
        _place(state, state.points[name])


def _merge(state: Playbook, event: PointMerged, _: Batch) -> None:
    """Add what the merged entries were rated to the one that stays."""
    point = state.points.get(event.name)
    for name in event.merged:
        source = state.points.get(name)
        if point is None or source is None or name == event.name:
            continue
        helpful, harmful = point.helpful + source.helpful, point.harmful + source.harmful
        point = KeyPoint(point.name, point.text, helpful, harmful)
        if name in state.pardoned:
            state.pardoned[point.name] = state.pardoned.get(point.name, 0) + state.pardoned[name]
        _leave(state, name)
        state.merged[name] = event.name
        # What went into the merged entry goes on into this one.
        state.merged |= {old: event.name for old, into in state.merged.items() if into == name}
        _place(state, point)


def _update(state: Playbook, _event: PlaybookUpdated, _: Batch) -> None:
    """Drop every entry that is due, rated in this update or not (REQ-SCORE-007)."""
    for name in tuple(state.due):
        _leave(state, name)
        state.pruned[name] = None
    if not state.policy.lasting:
        _let_back(state)


def _let_back(state: Playbook) -> None:
    """Let every entry stand again that an update dropped and none would drop now."""
    for point in [state.gone[name] for name in state.pruned]:
        if not state.condemns(point):
            _enter(state, point)


def _adopt(state: Playbook, event: PlaybookAdopted, batch: Batch) -> None:
    top = json.loads(event.top or "{}")
    if state.begun:
        # A file imported into a playbook that has entries brings entries and their sections, not its version or date.
        state.top = join_sections(state.top, top)
    else:
        state.adoption, state.source = batch.last, event.source
        state.adopted_at = top.pop("last_updated", None)
        state.top = {"version": VERSION} | top


def _order(state: Playbook, event: PlaybookOrdered, _: Batch) -> None:
    state.order.extend(event.names)


def _edit(state: Playbook, event: PlaybookEdited, _: Batch) -> None:
    if state.order:
        first = {name: state.tallies[name] for name in state.order if name in state.tallies}
        behind = {name: tally for name, tally in state.tallies.items() if name not in first}
        state.tallies.clear()
        state.tallies.update(first | behind)
        state.order.clear()
    if event.top:
        top = json.loads(event.top)
        top.pop("last_updated", None)
        state.top = {"version": VERSION} | top


def _rewrite(state: Playbook, event: EventRedacted | EventsVoided, batch: Batch) -> None:
    # Readers take the earlier events for what they are now; that they do is news to whoever shows the playbook.
    state.rewrites += 1
    if isinstance(event, EventRedacted):
        state.redacted = batch.last
    else:
        state.voided = batch.last


def settle(state: Playbook, batch: Batch) -> None:
    """Note which batch changed the playbook last."""
    if not state.begun:
        state.begun = any(type(event) in CHANGES and type(event) not in UNDOING for event in batch.events)
    if state.order:
        # An order whose edit was undone is none.
        state.order.clear()
    if state.adoption != batch.last:
        state.latest = batch
    state.stamp = (batch.last, batch.chain)


CHANGES: Final[dict[type[Any], Callable[[Playbook, Any, Batch], None]]] = {
    PointRated: _rate,
    PlaybookUpdated: _update,
    PointAdded: _add,
    PointSeeded: _keep,
    PointEdited: _set,
    PointRemoved: _keep,
    PointReworded: _reword,
    PointRetired: _keep,
    PointRestored: _restore,
    PointPinned: _pin,
    PointUnpinned: _unpin,
    PointMerged: _merge,
    PlaybookAdopted: _adopt,
    PlaybookOrdered: _order,
    PlaybookEdited: _edit,
    EventRedacted: _rewrite,
    EventsVoided: _rewrite,
    Voided: _void,
}
"""What each kind does to the playbook."""

UNDOING: Final = (EventRedacted, EventsVoided, Voided)
"""Kinds that take away, and say nothing of the playbook by themselves."""


def playbook_view(policy: Policy = SPEC_POLICY) -> View[Playbook]:
    """Return the playbook view under a policy."""
    return View(partial(Playbook, policy=policy), CHANGES, settle)


PLAYBOOK = playbook_view()
