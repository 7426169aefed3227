"""The playbook view where ratings lose weight with age: each counts half after a half-life."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, repeat
from math import ldexp, sqrt
from operator import mul
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import Entry, PlaybookUpdated, PointMerged, PointRated
from tallybook.projections.fold import View, batch_view
from tallybook.projections.playbook.entry import SPEC_POLICY, MutableEntry, Policy
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch

DAY_US: Final = 24 * 3600 * 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
STEPS: Final = 1024
"""Number of steps in a half-life: ages are counted in whole steps."""

# IEEE 754 fixes the result of a square root and of a product, but not of a power, so replays agree everywhere.
_STEP: Final = list(accumulate(repeat(0.5, 11), lambda root, _: sqrt(root)))[-1]
_SHARES: Final = tuple(accumulate(repeat(_STEP, STEPS - 1), mul, initial=1.0))


def weight(steps: int) -> float:
    """Return the weight of a rating after so many steps, 0 or more: 1 at first, 1/2 after 1,024 (STEPS)."""
    return ldexp(_SHARES[steps % STEPS], -(steps // STEPS))


@attrs.frozen
class Weight:
    """The weight of an entry's ratings as of a moment.

    Attributes:
        helpful: Weight of the helpful ratings, 0 or more.
        harmful: Weight of the harmful ratings, 0 or more.
        step: The moment, in steps since 1970.
    """

    helpful: float = 0.0
    harmful: float = 0.0
    step: int = 0

    def at(self, step: int) -> Weight:
        """Return the weight at the same or a later moment."""
        left = weight(step - self.step)
        return Weight(self.helpful * left, self.harmful * left, step)

    def plus(self, other: Weight) -> Weight:
        """Return the sum of two weights, at the later of their moments."""
        step = max(self.step, other.step)
        first, second = self.at(step), other.at(step)
        return Weight(first.helpful + second.helpful, first.harmful + second.harmful, step)


@attrs.frozen
class AgedPolicy(Policy):
    """A policy by which a rating counts half after an age.

    Attributes:
        half_life: The age, such as ``90d``.
        half_life_us: The same in microseconds, 1 or more.
    """

    half_life: str = "90d"
    half_life_us: int = 90 * DAY_US

    @property
    def rule(self) -> str:
        """Return the rule, with the age."""
        return f"{super().rule}, a rating counting half after {self.half_life}"


@attrs.define
class AgedPlaybook(Playbook):
    """A playbook that prunes by the weight of ratings; the counts that it shows are still whole.

    Attributes:
        half_life_us: Half-life of a rating in microseconds, 1 or more.
        weights: Name → weight of the entry's ratings; no item for an entry without ratings.
        step: The latest moment of an update so far, in steps; ages are counted back from it.
    """

    half_life_us: int = 90 * DAY_US
    weights: dict[str, Weight] = attrs.field(factory=dict)
    step: int = 0

    def prunes(self, entry: Entry | MutableEntry) -> bool:
        """Say whether an update at this moment prunes an entry."""
        weights = self.weights.get(entry.name, Weight())
        now = weights.at(max(self.step, weights.step))
        return self.policy.prunes_weights(now.helpful, now.harmful) and not self.protects(entry)


def _step(state: AgedPlaybook, at: str) -> int:
    """Return a moment in steps."""
    return (datetime.fromisoformat(at) - _EPOCH) // _MICROSECOND * STEPS // state.half_life_us


def _event_steps(state: AgedPlaybook, batch: Batch) -> tuple[int, list[int]]:
    """Return when a batch was recorded, and when each of its events happened, in steps."""
    try:
        now = _step(state, batch.unverified_at)
    except ValueError:
        # The unproven time is damaged; the decoder raises the right error for it.
        now = _step(state, batch.at)
    # Hardly any batch has one, so the heads of lines are hardly ever decoded.
    if not batch.may_contain_text('"when":"'):
        return now, [now] * len(batch.events)
    # A time in the future counts as the time of recording.
    return now, [min(_step(state, record.when or record.at), now) for record in batch.records]


def _apply_batch(state: AgedPlaybook, batch: Batch) -> None:
    """Apply a whole batch, event by event, because the time of an event is in the head of its line."""
    now, steps = _event_steps(state, batch)
    for event, step in zip(batch.events, steps, strict=True):
        change = CHANGES.get(type(event))
        if change is None:
            continue
        if isinstance(event, PlaybookUpdated):
            # Ages count back from the latest update, also where the clock ran back.
            state.step = max(state.step, now)
            # The others are checked again once their counts change: age alone never makes an entry prunable.
            state.due = {name: None for name in state.due if state.prunes(state.mutable[name])}
        # Of a merge the entry that stays; an event about no entry changes no counts.
        name: str = getattr(event, "name", "")
        if isinstance(event, PointRated) and name not in state.mutable:
            name = state.merged.get(name, name)
        before = _counts(state, name)
        change(state, event, batch)
        if _counts(state, name) != before:
            state.weights[name] = _weight_after(state, event, name, (before, step))
        if name in state.mutable:
            # The next update decides about every entry that changed.
            state.due[name] = None
    settle(state, batch)


def _counts(state: AgedPlaybook, name: str) -> tuple[int, int]:
    entry = state.mutable.get(name) or state.gone.get(name)
    return (0, 0) if entry is None else (entry.helpful, entry.harmful)


def _weight_after(state: AgedPlaybook, event: Any, name: str, was: tuple[tuple[int, int], int]) -> Weight:
    """Return the weight of an entry's ratings after an event.

    Args:
        state: The state after the event.
        event: The event.
        name: The entry.
        was: The entry's counts before the event, and the step at which the event happened.
    """
    counts, old = _counts(state, name), state.weights.get(name, Weight())
    before, step = was
    if isinstance(event, PointRated):
        return old.plus(Weight(counts[0] - before[0], counts[1] - before[1], step))
    if isinstance(event, PointMerged):
        for source in event.merged:
            if state.merged.get(source) == name:
                old = old.plus(state.weights.pop(source, Weight()))
        return old
    return Weight(*counts, step)


def aged_view(policy: Policy = SPEC_POLICY, half_life_us: int = 90 * DAY_US) -> View[AgedPlaybook]:
    """Return the playbook view under a policy by which a rating counts half after so many microseconds.

    A rating's age is the time from its event to the deciding update, at least 0. Counts from a legacy file or a manual
    edit are as old as that event.
    """
    return batch_view(partial(AgedPlaybook, policy=policy, half_life_us=half_life_us), CHANGES, _apply_batch)
