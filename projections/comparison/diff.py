"""What lies between two playbooks, as a value: taken from one and applied to the first, it gives the second. Pure.

A playbook does not say how an entry left it, so the view here notes that beside it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import KeyPoint, PlaybookUpdated, PointMerged, PointRemoved, PointRetired
from tallybook.projections.entry_history.status import GONE
from tallybook.projections.fold import View
from tallybook.projections.playbook.checkpoint import Form, packed, taken_in
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.render import entry, playbook_dict
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.records import Batch


@attrs.frozen
class Left:
    """How an entry left the playbook.

    Attributes:
        how: pruned, removed (by a hand in the file), retired or merged.
        seq: Sequence number of the event that decided it; None where a hand did, and it is no event yet.
        helpful: Its count then.
        harmful: Likewise.
        into: The entry that it went into, None unless it was merged.
    """

    how: str
    seq: int | None
    helpful: int
    harmful: int
    into: str | None = None


HOWS: Final = GONE | {PointRemoved: "removed"}
"""What takes an entry out of the playbook → how it left: as the status it has since, a hand in the file apart."""


@attrs.define
class Departures(Playbook):
    """The playbook at a moment, and how whatever is out of it left.

    Attributes:
        left: Name of an entry that was out of the playbook → how it left last; one that came back stays noted.
        passed: What could have taken one out in the batch that is being told.
    """

    left: dict[str, Left] = attrs.field(factory=dict)
    passed: list[Any] = attrs.field(factory=list)


# Only these can leave by an event of the kind, so nothing else is looked at.
_MAY_LEAVE: Final[dict[type[Any], Callable[[Playbook, Any], tuple[str, ...]]]] = {
    PlaybookUpdated: lambda state, _: tuple(state.due),
    PointRemoved: lambda _, event: (event.name,),
    PointRetired: lambda _, event: (event.name,),
    PointMerged: lambda _, event: event.merged,
}


def _noting(kind: type[Any]) -> Callable[[Departures, Any, Batch], None]:
    """Return what an event of a kind does to the playbook, and a note of each entry that leaves by it."""
    change, may_leave = CHANGES[kind], _MAY_LEAVE[kind]

    def note(state: Departures, event: Any, batch: Batch) -> None:
        standing = [name for name in may_leave(state, event) if name in state.points]
        change(state, event, batch)
        for name in standing:
            if name not in state.points:
                last = state.gone[name]
                # What says the same twice in a batch may be one object in two places.
                places = [record.seq for record in batch.records if record.event is event]
                seq = places[sum(one is event for one in state.passed)]
                into = event.name if kind is PointMerged else None
                state.left[name] = Left(HOWS[kind], seq, last.helpful, last.harmful, into)
        state.passed.append(event)

    return note


def _settle(state: Departures, batch: Batch) -> None:
    state.passed.clear()
    settle(state, batch)


_TABLE: Final = CHANGES | {kind: _noting(kind) for kind in HOWS}


def departures_view(policy: Policy = SPEC_POLICY) -> View[Departures]:
    """Return the view of the playbook under a policy, and of how whatever is out of it left."""
    return View(partial(Departures, policy=policy), _TABLE, _settle)


def _packed(state: Departures) -> dict[str, Any]:
    return packed(state) | {"left": {name: attrs.astuple(one) for name, one in state.left.items()}}


def _unpacked(told: Mapping[str, Any]) -> Departures:
    state = taken_in(told, Departures)
    state.left = {name: Left(*one) for name, one in told["left"].items()}
    return state


DEPARTURES: Final = departures_view()
DEPARTURES_FORM: Final[Form[Departures]] = Form(
    "departures",
    DEPARTURES,
    _packed,
    _unpacked,
    lambda state: state,
    ("tallybook.projections.comparison.diff", "tallybook.projections.entry_history.status"),
)


@attrs.frozen
class Changed:
    """An entry that stands in both, under one name.

    Attributes:
        before: As it stood in the first.
        after: As it stands in the second.
    """

    before: KeyPoint
    after: KeyPoint


@attrs.frozen
class Came:
    """An entry of the second alone.

    Attributes:
        point: The entry.
        was: How it had left before the first, where it had stood until then; None where it is new.
    """

    point: KeyPoint
    was: Left | None = None


@attrs.frozen
class Gone:
    """An entry of the first alone.

    Attributes:
        point: As it stood in the first.
        left: How it left before the second. None where nothing took it out: what brought it was undone by then or had
            not happened yet, as in a difference that goes back in time.
    """

    point: KeyPoint
    left: Left | None = None


@attrs.frozen
class Diff:
    """What makes the second playbook of the first.

    Attributes:
        added: Entries of the second alone, in its order.
        gone: Entries of the first alone, in its order.
        changed: Entries that say or count something else, in the order of the second.
        order: Names in the order of the second, None where that follows from the rest: what stays keeps its place, and
            what is added stands behind it.
        top: The second's keys beside the entries, in order, where they are others than the first's; None where not.
    """

    added: tuple[Came, ...] = ()
    gone: tuple[Gone, ...] = ()
    changed: tuple[Changed, ...] = ()
    order: tuple[str, ...] | None = None
    top: Mapping[str, Any] | None = None


def diff(first: Departures, second: Departures) -> Diff:
    """Return what makes one playbook of another."""
    here, there = first.points, second.points
    added = tuple(Came(point, first.left.get(name)) for name, point in there.items() if name not in here)
    order = [name for name in here if name in there] + [came.point.name for came in added]
    top, fresh = _top(playbook_dict(first)), _top(playbook_dict(second))
    return Diff(
        added,
        tuple(Gone(point, second.left.get(name)) for name, point in here.items() if name not in there),
        tuple(Changed(here[name], point) for name, point in there.items() if name in here and here[name] != point),
        None if order == list(there) else tuple(there),
        None if list(top.items()) == list(fresh.items()) else fresh,
    )


def _top(playbook: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in playbook.items() if key != "key_points"}


def apply(difference: Diff, playbook: Mapping[str, Any]) -> dict[str, Any]:
    """Return the second playbook, made of the first, both in the specification's format."""
    gone = {one.point.name for one in difference.gone}
    fresh = {one.after.name: entry(one.after) for one in difference.changed}
    points = {point["name"]: fresh.get(point["name"], point) for point in playbook["key_points"]}
    points = {name: point for name, point in points.items() if name not in gone}
    points |= {one.point.name: entry(one.point) for one in difference.added}
    order = points if difference.order is None else difference.order
    top = _top(playbook) if difference.top is None else difference.top
    return {**top, "key_points": [points[name] for name in order]}
