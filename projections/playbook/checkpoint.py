"""A state of the playbook as plain JSON values and back: what a checkpoint holds, and nothing of where it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import attrs

from tallybook.ledger.events import KeyPoint
from tallybook.projections.fold import State, View
from tallybook.projections.playbook.entry_state import Tally
from tallybook.projections.playbook.view import PLAYBOOK, Past, Playbook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

S = TypeVar("S", bound=State)
P = TypeVar("P", bound=Playbook)

PLAIN: Final = (
    "seq",
    "chain",
    "high_water",
    "adopted_at",
    "source",
    "adoption",
    "rewrites",
    "redacted",
    "voided",
    "begun",
)
"""Fields that are JSON as they are."""
BUILT: Final = {"points", "gone", "used", "due", "pruned", "pinned", "pardoned", "merged", "top", "stamp", "latest"}
"""Fields that are told in another form."""
APART: Final = {"policy", "latest_batch", "order", "tallies"}
"""Fields that no checkpoint has: the policy is the specification's, the batch is read again, no order is being told
behind a batch, and what is counted in is the entries."""


@attrs.frozen
class Form(Generic[S]):
    """How the state of a view is kept.

    Attributes:
        name: Of the folder that its checkpoints are in.
        view: The view.
        pack: Returns a state behind a batch as JSON values.
        unpack: Returns the state of such values, but for the batch folded last; raises ValueError, TypeError or
            KeyError where they are none.
        book: Gives the playbook in a state.
        sources: Modules beside those of the playbook that decide what a state of it is.
        apart: So many times the usual distance lies between two of those along the way, which are for time travel.
    """

    name: str
    view: View[S]
    pack: Callable[[S], dict[str, Any]]
    unpack: Callable[[Mapping[str, Any]], S]
    book: Callable[[S], Playbook]
    sources: tuple[str, ...] = ()
    apart: int = 1


def packed(state: Playbook) -> dict[str, Any]:
    """Return a state behind a batch, under the specification's policy, as JSON values."""
    told = {name: getattr(state, name) for name in PLAIN}
    return told | {
        "points": _rows(state.tallies.values()),
        "gone": _rows(state.gone.values()),
        "used": sorted(state.used - state.points.keys() - state.gone.keys()),
        "due": list(state.due),
        "pruned": list(state.pruned),
        "pinned": sorted(state.pinned),
        "pardoned": state.pardoned,
        "merged": state.merged,
        "top": state.top,
        "stamp": state.stamp,
        "latest": None if state.latest is None else (state.latest.last, state.latest.at),
    }


def unpacked(told: Mapping[str, Any]) -> Playbook:
    """Return the state that was packed, as ``Form.unpack``."""
    return taken_in(told, Playbook)


def taken_in(told: Mapping[str, Any], made: type[P]) -> P:
    """Return a playbook that was packed, as the class that its view has for it.

    Raises:
        ValueError, TypeError, KeyError: It is none.
    """
    state = made(**{name: told[name] for name in PLAIN})
    state.tallies.update((row[0], Tally(*row)) for row in told["points"])
    state.gone = {row[0]: KeyPoint(*row) for row in told["gone"]}
    state.used = {*told["used"], *state.points, *state.gone}
    state.due, state.pruned = dict.fromkeys(told["due"]), dict.fromkeys(told["pruned"])
    state.pinned = set(told["pinned"])
    state.pardoned, state.merged, state.top = dict(told["pardoned"]), dict(told["merged"]), dict(told["top"])
    seq, chain = told["stamp"]
    state.stamp = (seq, chain)
    if told["latest"] is not None:
        state.latest = Past(*told["latest"])
    return state


def _rows(points: Iterable[KeyPoint | Tally]) -> list[tuple[str, str, int, int]]:
    return [(point.name, point.text, point.helpful, point.harmful) for point in points]


PLAYBOOK_FORM: Final[Form[Playbook]] = Form("playbook", PLAYBOOK, packed, unpacked, lambda state: state)
