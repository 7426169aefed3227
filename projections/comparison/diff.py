"""The difference of two playbooks as a value, from which the second can be made of the first. Pure.

A playbook does not record how its entries left it, so the view `departures` here does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import Entry, PlaybookUpdated, PointMerged, PointRemoved, PointRetired
from tallybook.projections.entry_history.status import LEAVING_KINDS
from tallybook.projections.fold import View
from tallybook.projections.playbook.checkpoint import Form, pack, unpack
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.records import Batch


@attrs.frozen
class Departure:
    """How an entry left the playbook.

    Attributes:
        how: pruned, removed (by a manual edit), retired or merged.
        seq: Number of the event that took it out; None for a manual edit that is not in the ledger yet.
        helpful: Its helpful count at that time.
        harmful: Its harmful count at that time.
        into: The entry that it was merged into, None for other departures.
    """

    how: str
    seq: int | None
    helpful: int
    harmful: int
    into: str | None = None


DEPARTURE_KINDS: Final = LEAVING_KINDS | {PointRemoved: "removed"}
"""Class of an event that takes an entry out → how the entry left: its status since, or removed."""


@attrs.define
class Departures(Playbook):
    """The playbook as of a moment, and how each entry that is not in it left.

    Attributes:
        left: Name → how an entry left last; an entry that came back keeps its row.
        batch_events: Events of the current batch so far that could take an entry out.
    """

    left: dict[str, Departure] = attrs.field(factory=dict)
    batch_events: list[Any] = attrs.field(factory=list)


# The entries that can leave by an event of each kind: only these are checked.
_MAY_LEAVE: Final[dict[type[Any], Callable[[Playbook, Any], tuple[str, ...]]]] = {
    PlaybookUpdated: lambda state, _: tuple(state.due),
    PointRemoved: lambda _, event: (event.name,),
    PointRetired: lambda _, event: (event.name,),
    PointMerged: lambda _, event: event.merged,
}


def _record_departures(kind: type[Any]) -> Callable[[Departures, Any, Batch], None]:
    """Return a change that applies an event of a kind to the playbook and records each entry that leaves by it."""
    change, may_leave = CHANGES[kind], _MAY_LEAVE[kind]

    def apply_event(state: Departures, event: Any, batch: Batch) -> None:
        present = [name for name in may_leave(state, event) if name in state.points]
        change(state, event, batch)
        for name in present:
            if name not in state.points:
                last = state.gone[name]
                # The decoder gives equal events of a batch as one object, so the event's place is found by counting.
                places = [record.seq for record in batch.records if record.event is event]
                seq = places[sum(earlier is event for earlier in state.batch_events)]
                into = event.name if kind is PointMerged else None
                state.left[name] = Departure(DEPARTURE_KINDS[kind], seq, last.helpful, last.harmful, into)
        state.batch_events.append(event)

    return apply_event


def _settle(state: Departures, batch: Batch) -> None:
    state.batch_events.clear()
    settle(state, batch)


_TABLE: Final = CHANGES | {kind: _record_departures(kind) for kind in DEPARTURE_KINDS}


def departures_view(policy: Policy = SPEC_POLICY) -> View[Departures]:
    """Return the view of the playbook under a policy, and of how each entry that is not in it left."""
    return View(partial(Departures, policy=policy), _TABLE, _settle)


def _pack(state: Departures) -> dict[str, Any]:
    return pack(state) | {"left": {name: attrs.astuple(departure) for name, departure in state.left.items()}}


def _unpack(values: Mapping[str, Any]) -> Departures:
    state = unpack(values, Departures)
    state.left = {name: Departure(*row) for name, row in values["left"].items()}
    return state


DEPARTURES: Final = departures_view()
DEPARTURES_FORM: Final[Form[Departures]] = Form(
    "departures",
    DEPARTURES,
    _pack,
    _unpack,
    lambda state: state,
    ("tallybook.projections.comparison.diff", "tallybook.projections.entry_history.status"),
)


@attrs.frozen
class ChangedEntry:
    """An entry that both playbooks have and that differs.

    Attributes:
        before: The entry in the first.
        after: The entry in the second.
    """

    before: Entry
    after: Entry


@attrs.frozen
class AddedEntry:
    """An entry that only the second playbook has.

    Attributes:
        point: The entry.
        was: How it left before the first, None where it is new.
    """

    point: Entry
    was: Departure | None = None


@attrs.frozen
class LeftEntry:
    """An entry that only the first playbook has.

    Attributes:
        point: The entry in the first.
        left: How it left before the second; None where no event took it out, because the event that added it was
            undone or, in a difference back in time, had not happened.
    """

    point: Entry
    left: Departure | None = None


@attrs.frozen
class Diff:
    """The changes that turn the first playbook into the second.

    Attributes:
        added: Entries of the second only, in its order.
        gone: Entries of the first only, in its order.
        changed: Entries with another text or other counts, in the order of the second.
        order: Names in the order of the second; None where entries that stay keep their order and added ones follow.
        top: The second's other top-level keys, in order; None where they equal the first's.
    """

    added: tuple[AddedEntry, ...] = ()
    gone: tuple[LeftEntry, ...] = ()
    changed: tuple[ChangedEntry, ...] = ()
    order: tuple[str, ...] | None = None
    top: Mapping[str, Any] | None = None


def diff(first: Departures, second: Departures) -> Diff:
    """Return the changes that turn one playbook into another."""
    old, new = first.points, second.points
    added = tuple(AddedEntry(point, first.left.get(name)) for name, point in new.items() if name not in old)
    order = [name for name in old if name in new] + [addition.point.name for addition in added]
    old_top, new_top = _top(playbook_dict(first)), _top(playbook_dict(second))
    return Diff(
        added,
        tuple(LeftEntry(point, second.left.get(name)) for name, point in old.items() if name not in new),
        tuple(ChangedEntry(old[name], point) for name, point in new.items() if name in old and old[name] != point),
        None if order == list(new) else tuple(new),
        None if list(old_top.items()) == list(new_top.items()) else new_top,
    )


def _top(playbook: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in playbook.items() if key != "key_points"}
