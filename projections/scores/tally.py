"""How many sessions had which score in a period: enough to average, and to take a session out again. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tallybook.projections.scores.measures import FULL, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@attrs.frozen
class Range:
    """A score over several sessions, in whole points.

    Attributes:
        avg: The average, halves rounded up, 0 to 100.
        min: The least.
        max: The greatest.
    """

    avg: int
    min: int
    max: int


@attrs.define
class Tally:
    """The scores of the sessions of a period.

    Attributes:
        sessions: How many sessions have any score.
        scores: Score id → score → how many sessions have it; a score of 0 to 100 each, so this never grows large.
        lacking: Score id → the sum over them of the percent of its weight that was not measured, where that is any.
    """

    sessions: int = 0
    scores: dict[str, dict[int, int]] = attrs.field(factory=dict)
    lacking: dict[str, int] = attrs.field(factory=dict)

    def add(self, scores: Mapping[str, int], lacking: Mapping[str, int], sign: int = 1) -> None:
        """Count a session, or no more, with a sign of -1, one that was counted."""
        self.sessions += sign
        for score, value in scores.items():
            counts = self.scores.setdefault(score, {})
            counts[value] = counts.get(value, 0) + sign
            if not counts[value]:
                del counts[value]
            if not counts:
                del self.scores[score]
        for score, points in lacking.items():
            self.lacking[score] = self.lacking.get(score, 0) + sign * points
            if not self.lacking[score]:
                del self.lacking[score]

    def range(self, score: str) -> Range | None:
        """Return average, least and greatest of a score, None where no session has it."""
        counts = self.scores.get(score)
        if not counts:
            return None
        number = sum(counts.values())
        total = sum(value * count for value, count in counts.items())
        return Range((2 * total + number) // (2 * number), min(counts), max(counts))

    def measured(self, score: str) -> int:
        """Return how much of the weight of a score that is there was measured: 0 to 100 percent, 100 only for all."""
        return percent(1 - self.lacking.get(score, 0) / sum(self.scores[score].values()) / FULL)


def together(tallies: Iterable[Tally]) -> Tally:
    """Return several periods as one."""
    whole = Tally()
    for tally in tallies:
        whole.sessions += tally.sessions
        for score, counts in tally.scores.items():
            into = whole.scores.setdefault(score, {})
            for value, count in counts.items():
                into[value] = into.get(value, 0) + count
        for score, lacking in tally.lacking.items():
            whole.lacking[score] = whole.lacking.get(score, 0) + lacking
    return whole
