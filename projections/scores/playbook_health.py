"""The playbook as a scored component: the measurements that its own events make of their session. Pure.

Only this module knows what is measured; the configuration decides how it scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import (
    PlaybookInjected,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointRated,
    PointReworded,
    PointSeeded,
)
from tallybook.projections.entry_history.lineage import normalize_words
from tallybook.projections.fold import View
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.view import CHANGES, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.records import Batch
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
        """Say whether an entry with the words of a text was pruned and did not come back."""
        return text is not None and any(name in self.pruned for name in self.words.get(normalize_words(text), ()))


def is_measured(config: Config) -> bool:
    """Say whether a configuration has the component, which is off by default."""
    return COMPONENT in config.components


def measures(advice: ScoredPlaybook, batch: Batch) -> tuple[int, dict[str, float]]:
    """Apply a batch to the playbook, and return the measurements.

    Returns:
        The place in the batch, from 0, of the last event that measures something, and name → value, an amount that
        adds up over a session; empty where none does.
    """
    found: dict[str, float] = {}
    place, changed = 0, False
    for index, event in enumerate(batch.events):
        measure, change = _MEASURES.get(type(event)), CHANGES.get(type(event))
        if measure is not None:
            # Measured before the change: whether the rated entry exists depends on the playbook before the event.
            for name, value in measure(advice, event).items():
                found[name] = found.get(name, 0) + value
                place = index
        if change is not None:
            change(advice, event, batch)
            _know(advice, event)
            changed = True
    if changed:
        settle(advice, batch)
    return place, found


def _know(advice: ScoredPlaybook, event: Any) -> None:
    """Record the words of a new text."""
    if isinstance(event, _TEXTS):
        point = advice.points.get(event.name)
        if point is not None and point.text != REDACTED:
            advice.words.setdefault(normalize_words(point.text), {})[point.name] = None


_TEXTS: Final = (PointAdded, PointSeeded, PointEdited, PointReworded)


def _rated(advice: ScoredPlaybook, event: PointRated) -> dict[str, float]:
    name = advice.merged.get(event.name, event.name)
    return _RATINGS.get(event.rating, {}) if name in advice.points else {}


def _learned(advice: ScoredPlaybook, event: PointAdded) -> dict[str, float]:
    if event.name in advice.points:
        return {}
    return {"learned": 1, "relearned": int(advice.was_pruned(event.text))}


def _updated(advice: ScoredPlaybook, _: PlaybookUpdated) -> dict[str, float]:
    """Measure the entries that an update prunes, and all other values as 0 in case nothing else measured them."""
    return {"ratings": 0, "judged": 0, "helpful": 0, "learned": 0, "relearned": 0, "pruned": len(advice.due)}


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


def _heard(_advice: ScoredPlaybook, _event: Any, _batch: Batch) -> None:
    """Do nothing: the whole batch is applied afterwards."""


def _take_in(advice: ScoredPlaybook, batch: Batch) -> None:
    measures(advice, batch)


SCORED_PLAYBOOK: Final = View(ScoredPlaybook, dict.fromkeys(KINDS, _heard), _take_in)
"""The view of this state alone, for cached scores that were stored without it."""
