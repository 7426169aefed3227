"""The playbook where ratings lose weight with age: each counts half after a time, and entries are judged by that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import PlaybookUpdated, PointMerged, PointRated
from tallybook.projections.fold import View
from tallybook.projections.playbook.prune import SPEC_POLICY, STEPS, Policy, weight
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from tallybook.ledger.events import KeyPoint
    from tallybook.ledger.records import Batch

DAY_US: Final = 24 * 3600 * 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@attrs.frozen
class Weighed:
    """What the ratings of an entry weigh at a moment.

    Attributes:
        helpful: Their helpful ones, 0 or more.
        harmful: Their harmful ones, 0 or more.
        step: The moment, in steps since 1970; later it is as much less.
    """

    helpful: float = 0.0
    harmful: float = 0.0
    step: int = 0

    def at(self, step: int) -> Weighed:
        """Return what they weigh at another moment, which is not before this one."""
        left = weight(step - self.step)
        return Weighed(self.helpful * left, self.harmful * left, step)

    def plus(self, other: Weighed) -> Weighed:
        """Return what both weigh together, at the later of their moments."""
        step = max(self.step, other.step)
        one, two = self.at(step), other.at(step)
        return Weighed(one.helpful + two.helpful, one.harmful + two.harmful, step)


@attrs.define
class Aged(Playbook):
    """A playbook whose entries are judged by what their ratings weigh; the counts that it shows are whole.

    Attributes:
        half_life_us: After how many microseconds a rating counts half, 1 or more.
        weighed: What the ratings of each entry weigh; no entry for those without any.
        step: The latest moment so far at which an update was closed: ages are counted back from it.
    """

    half_life_us: int = 90 * DAY_US
    weighed: dict[str, Weighed] = attrs.field(factory=dict)
    step: int = 0

    def condemns(self, point: KeyPoint) -> bool:
        """Say whether an update that is closed now drops an entry."""
        weighed = self.weighed.get(point.name, Weighed())
        now = weighed.at(max(self.step, weighed.step))
        return self.policy.condemns_weighed(now.helpful, now.harmful) and not self.spares(point)


def _step(state: Aged, at: str) -> int:
    """Return a moment in steps."""
    return (datetime.fromisoformat(at) - _EPOCH) // _MICROSECOND * STEPS // state.half_life_us


def _steps(state: Aged, batch: Batch) -> tuple[int, list[int]]:
    """Return when a batch was recorded, and when each of its events happened, in steps."""
    try:
        now = _step(state, batch.unverified_at)
    except ValueError:
        # Whoever decodes it says what is wrong with it.
        now = _step(state, batch.at)
    if not batch.may_contain_text('"when":"'):
        return now, [now] * len(batch.events)
    # What claims to come from the future is as old as its line.
    return now, [min(_step(state, one.when or one.at), now) for one in batch.records]


def _tell(state: Aged, batch: Batch) -> None:
    """Tell a batch, event by event: when something happened stands in its head."""
    now, steps = _steps(state, batch)
    for event, step in zip(batch.events, steps, strict=True):
        change = CHANGES.get(type(event))
        if change is None:
            continue
        if isinstance(event, PlaybookUpdated):
            _judge(state, now)
        name = _named(state, event)
        before = _counts(state, name)
        change(state, event, batch)
        if _counts(state, name) != before:
            state.weighed[name] = _weighed(state, event, name, (before, step))
        if name in state.points:
            # Whoever is touched is judged by the next update.
            state.due[name] = None
    settle(state, batch)


def _named(state: Aged, event: Any) -> str:
    """Return the entry whose counts an event can change, of a merge the one that stays; empty for none."""
    name: str = getattr(event, "name", "")
    return state.merged.get(name, name) if isinstance(event, PointRated) and name not in state.points else name


def _counts(state: Aged, name: str) -> tuple[int, int]:
    point = state.points.get(name) or state.gone.get(name)
    return (0, 0) if point is None else (point.helpful, point.harmful)


def _weighed(state: Aged, event: Any, name: str, was: tuple[tuple[int, int], int]) -> Weighed:
    """Return what the ratings of an entry weigh behind an event; ``was``: its counts before, and when it happened."""
    counts, old = _counts(state, name), state.weighed.get(name, Weighed())
    before, step = was
    if isinstance(event, PointRated):
        return old.plus(Weighed(counts[0] - before[0], counts[1] - before[1], step))
    if isinstance(event, PointMerged):
        for source in event.merged:
            if state.merged.get(source) == name:
                old = old.plus(state.weighed.pop(source, Weighed()))
        return old
    return Weighed(*counts, step)


def _judge(state: Aged, now: int) -> None:
    """Leave in ``due`` what the update drops.

    What it does not drop is not looked at again before its counts change: age alone condemns nobody.
    """
    state.step = max(state.step, now)
    for name in tuple(state.due):
        if not state.condemns(state.points[name]):
            del state.due[name]


def _heard(_state: Aged, _event: Any, _batch: Batch) -> None:
    """Let the batch be told when it is whole."""


def aged_view(policy: Policy = SPEC_POLICY, half_life_us: int = 90 * DAY_US) -> View[Aged]:
    """Return the playbook view under a policy by which a rating counts half after so many microseconds.

    A rating's age is the time from when it happened to the deciding update, never less than nothing. Counts that a
    legacy file brought, or that a hand set, are as old as that event.
    """
    return View(partial(Aged, policy=policy, half_life_us=half_life_us), dict.fromkeys(CHANGES, _heard), _tell)
