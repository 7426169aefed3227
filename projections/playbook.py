"""The playbook view: which key points stand, with which counts, at a moment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from ledger.events import (
    EventRedacted,
    KeyPoint,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
    PointSeeded,
)
from ledger.names import number_of
from projections.fold import State, View
from projections.prune import SPEC_POLICY, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledger.recorded import Batch

VERSION = "1.0"
REDACTED = "[redacted]"


@attrs.define
class Playbook(State):
    """The playbook at a moment.

    Attributes:
        points: The entries that stand, by name, in their order.
        high_water: Highest number of a ``kpt_NNN`` that ever stood, 0 for none; names are never used again.
        used: Every name that ever stood.
        due: Names that the next update drops, unless their counts change before it.
        top: Top-level keys of the file other than key_points and last_updated, in order.
        adopted_at: The ``last_updated`` that a legacy file brought, None without one.
        source: SHA-256 of the adopted file, empty without one.
        adoption: Sequence number behind the batch that adopted a legacy file, 0 without one.
        latest: The last batch that changed the playbook after it was adopted; None before the first.
        stamp: Sequence number and chain of the last playbook batch, (0, "") before the first.
        order: Names of an order that is being told, applied when its edit closes.
        redactions: How many texts were redacted; a state that was folded before one may still hold that text, and is
            folded anew by whoever reads on.
    """

    points: dict[str, KeyPoint] = attrs.field(factory=dict)
    high_water: int = 0
    used: set[str] = attrs.field(factory=set)
    due: dict[str, None] = attrs.field(factory=dict)
    top: dict[str, Any] = attrs.field(factory=lambda: {"version": VERSION})
    adopted_at: Any = None
    source: str = ""
    adoption: int = 0
    latest: Batch | None = None
    stamp: tuple[int, str] = (0, "")
    order: list[str] = attrs.field(factory=list)
    redactions: int = 0

    @property
    def last_updated(self) -> Any:
        """Return when it last changed: the adopted value until the first playbook event behind the adoption."""
        return self.adopted_at if self.latest is None else self.latest.at


def evolve(point: KeyPoint | None, event: Any) -> KeyPoint | None:
    """Return what one event makes of one entry; None where there is none.

    Source: REQ-SCORE-002 for ratings, REQ-SCORE-004 to 006 for seeds.
    """
    match event:
        case PointRated():
            return rated(point, event.rating) if point is not None else None
        case PointAdded():
            return point or KeyPoint(event.name, _text(event.text))
        case PointSeeded():
            return point or KeyPoint(event.name, _text(event.text), event.helpful, event.harmful)
        case PointEdited():
            return KeyPoint(event.name, _text(event.text), event.helpful, event.harmful)
        case PointRemoved():
            return None
    return point


def _text(text: str | None) -> str:
    return REDACTED if text is None else text


def rated(point: KeyPoint, rating: str) -> KeyPoint:
    """Return an entry after one rating: helpful and harmful count one, anything else nothing (REQ-SCORE-002)."""
    if rating == "helpful":
        return KeyPoint(point.name, point.text, point.helpful + 1, point.harmful)
    if rating == "harmful":
        return KeyPoint(point.name, point.text, point.helpful, point.harmful + 1)
    return point


def _place(state: Playbook, point: KeyPoint, policy: Policy) -> None:
    """Let an entry stand as given, and note whether the next update drops it."""
    state.points[point.name] = point
    if policy.condemns(point):
        state.due[point.name] = None
    else:
        state.due.pop(point.name, None)


def _keep(policy: Policy) -> Callable[[Playbook, Any, Batch], None]:
    def keep(state: Playbook, event: Any, _: Batch) -> None:
        point = evolve(state.points.get(event.name), event)
        if point is None:
            state.points.pop(event.name, None)
            state.due.pop(event.name, None)
            return
        _place(state, point, policy)
        state.used.add(point.name)
        state.high_water = max(state.high_water, number_of(point.name) or 0)

    return keep


def _rate(policy: Policy) -> Callable[[Playbook, Any, Batch], None]:
    def rate(state: Playbook, event: PointRated, _: Batch) -> None:
        # The commonest event by far, so it takes the short way: a rating never changes who stands.
        before = state.points.get(event.name)
        if before is not None:
            point = rated(before, event.rating)
            if point is not before:
                _place(state, point, policy)

    return rate


def _update(state: Playbook, _event: PlaybookUpdated, _: Batch) -> None:
    """Drop every entry that is due, rated in this update or not (REQ-SCORE-007)."""
    for name in state.due:
        state.points.pop(name, None)
    state.due.clear()


def _adopt(state: Playbook, event: PlaybookAdopted, batch: Batch) -> None:
    # A file imported into a playbook that lives already brings entries, not its version or its date.
    if state.stamp == (0, ""):
        state.adoption, state.source = batch.last, event.source
        top = json.loads(event.top or "{}")
        state.adopted_at = top.pop("last_updated", None)
        state.top = {"version": VERSION} | top


def _order(state: Playbook, event: PlaybookOrdered, _: Batch) -> None:
    state.order.extend(event.names)


def _edit(state: Playbook, event: PlaybookEdited, _: Batch) -> None:
    if state.order:
        first = {name: state.points[name] for name in state.order if name in state.points}
        state.points = first | {name: point for name, point in state.points.items() if name not in first}
        state.order.clear()
    if event.top:
        top = json.loads(event.top)
        top.pop("last_updated", None)
        state.top = {"version": VERSION} | top


def _redact(state: Playbook, _event: EventRedacted, _: Batch) -> None:
    # The reader took the text out of the earlier event; that it did is news to whoever shows the playbook.
    state.redactions += 1


def _settle(state: Playbook, batch: Batch) -> None:
    if state.adoption != batch.last:
        state.latest = batch
    state.stamp = (batch.last, batch.chain)


def playbook_view(policy: Policy = SPEC_POLICY) -> View[Playbook]:
    """Return the playbook view under a policy."""
    keep = _keep(policy)
    return View(
        start=Playbook,
        table={
            PointRated: _rate(policy),
            PlaybookUpdated: _update,
            PointAdded: keep,
            PointSeeded: keep,
            PointEdited: keep,
            PointRemoved: keep,
            PlaybookAdopted: _adopt,
            PlaybookOrdered: _order,
            PlaybookEdited: _edit,
            EventRedacted: _redact,
        },
        settle=_settle,
    )


PLAYBOOK = playbook_view()
