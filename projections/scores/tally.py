"""Counts of sessions by score in a period, which can be averaged and from which a session can be subtracted. Pure."""

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
        scores: Score id → score, 0 to 100 → number of sessions; so the size is bounded.
        lacking: Score id → sum over the sessions of the unmeasured percent of its weight; no item for 0.
    """

    sessions: int = 0
    scores: dict[str, dict[int, int]] = attrs.field(factory=dict)
    lacking: dict[str, int] = attrs.field(factory=dict)

    def add(self, scores: Mapping[str, int], lacking: Mapping[str, int], sign: int = 1) -> None:
        """Add a session, or with a sign of -1 subtract one that was added."""
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
        """Return the measured percent of a score's weight, 0 to 100; 100 only if all was. The score must be present."""
        return percent(1 - self.lacking.get(score, 0) / sum(self.scores[score].values()) / FULL)


def together(tallies: Iterable[Tally]) -> Tally:
    """Add up the tallies of several periods."""
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
