"""The playbook as a scored component: the measurements that its own events make of their session. Pure.

Only this module knows what is measured; the configuration decides how it scores.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import (
    MetricsRecorded,
    Numbers,
    PlaybookInjected,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointRated,
    PointReworded,
    PointSeeded,
)
from tallybook.projections.entry_history.answers import normalize_words
from tallybook.projections.fold import batch_view
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.configuration.model import Config

COMPONENT: Final = "playbook"


@attrs.define
class ScoredPlaybook(Playbook):
    """The playbook, and the words of all its texts.

    Attributes:
        words: Words of a text, as ``lineage.normalize_words`` gives them → the names that had it, in order.
    """

    words: dict[str, dict[str, None]] = attrs.field(factory=dict)

    def was_pruned(self, text: str | None) -> bool:
        """Return whether an entry with the words of a text was pruned and did not come back."""
        return text is not None and any(name in self.pruned for name in self.words.get(normalize_words(text), ()))


def is_measured(config: Config) -> bool:
    """Return whether a configuration has the component, which is off by default."""
    return COMPONENT in config.components


def measure_batch(playbook: ScoredPlaybook, batch: Batch) -> EventRecord | None:
    """Apply a batch to the playbook, and return what it measures, as if it had been sent; None for nothing.

    Returns:
        Metrics of the component with the metadata of the last event that measures something. Each value adds up over a
        session.
    """
    values: Counter[str] = Counter()
    place, is_changed = None, False
    for index, event in enumerate(batch.events):
        measure, change = _MEASURES.get(type(event)), CHANGES.get(type(event))
        # Measured before the change: whether the rated entry exists depends on the playbook before the event.
        if measure is not None and (measured := measure(playbook, event)):
            values.update(measured)
            place = index
        if change is not None:
            change(playbook, event, batch)
            _add_words(playbook, event)
            is_changed = True
    if is_changed:
        settle(playbook, batch)
    if place is None:
        return None
    return attrs.evolve(batch.records[place], event=MetricsRecorded(COMPONENT, Numbers({**values}), ""))


def _add_words(playbook: ScoredPlaybook, event: Any) -> None:
    """Record the words of a new text."""
    if isinstance(event, _TEXTS):
        point = playbook.entries.get(event.name)
        if point is not None and point.text != REDACTED:
            playbook.words.setdefault(normalize_words(point.text), {})[point.name] = None


_TEXTS: Final = (PointAdded, PointSeeded, PointEdited, PointReworded)


def _rated(playbook: ScoredPlaybook, event: PointRated) -> dict[str, float]:
    name = playbook.merged.get(event.name, event.name)
    return _RATINGS.get(event.rating, {}) if name in playbook.entries else {}


def _learned(playbook: ScoredPlaybook, event: PointAdded) -> dict[str, float]:
    if event.name in playbook.entries:
        return {}
    return {"learned": 1, "relearned": int(playbook.was_pruned(event.text))}


def _updated(playbook: ScoredPlaybook, _: PlaybookUpdated) -> dict[str, float]:
    """Measure the entries that an update prunes, and all other values as 0 in case nothing else measured them."""
    return {"ratings": 0, "judged": 0, "helpful": 0, "learned": 0, "relearned": 0, "pruned": len(playbook.due)}


_RATINGS: Final[dict[str, dict[str, float]]] = {
    "helpful": {"ratings": 1, "judged": 1, "helpful": 1},
    "harmful": {"ratings": 1, "judged": 1},
    "neutral": {"ratings": 1},
}
"""Rating → measurements; other ratings measure nothing. Neutral ratings show activity and no judgement."""

_MEASURES: Final[dict[type[Any], Callable[[ScoredPlaybook, Any], dict[str, float]]]] = {
    PointRated: _rated,
    PointAdded: _learned,
    PlaybookUpdated: _updated,
    PlaybookInjected: lambda _, event: {"told": len(event.names)},
    PointCited: lambda _advice, _event: {"cited": 1},
}
"""Class of an event → its measurements, by the names that the configuration of the component uses."""

KINDS: Final = tuple({**CHANGES, **_MEASURES})
"""Kinds that the component needs: all that change the playbook, injections and citations."""


def _apply_batch(playbook: ScoredPlaybook, batch: Batch) -> None:
    measure_batch(playbook, batch)


SCORED_PLAYBOOK: Final = batch_view(ScoredPlaybook, KINDS, _apply_batch)
"""The view of this state alone, for cached scores that were stored without it."""
