"""Scores over days, weeks, months and versions: tallies of sessions by score, which can be averaged. Pure.

Source: "Aggregate Scores" and "Daily Aggregates" of the scoring framework.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.scores.configuration.model import OVERALL, SESSION
from tallybook.projections.scores.grades import is_enough
from tallybook.projections.scores.measures import FULL, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tallybook.projections.scores.configuration.model import Config


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
        unmeasured: Score id → sum over the sessions of the unmeasured percent of its weight; no item for 0.
    """

    sessions: int = 0
    scores: dict[str, dict[int, int]] = attrs.field(factory=dict)
    unmeasured: dict[str, int] = attrs.field(factory=dict)

    def add(self, scores: Mapping[str, int], unmeasured: Mapping[str, int], sign: int = 1) -> None:
        """Add a session, or with a sign of -1 subtract one that was added."""
        self.sessions += sign
        for score, value in scores.items():
            counts = self.scores.setdefault(score, {})
            counts[value] = counts.get(value, 0) + sign
            if not counts[value]:
                del counts[value]
            if not counts:
                del self.scores[score]
        for score, points in unmeasured.items():
            self.unmeasured[score] = self.unmeasured.get(score, 0) + sign * points
            if not self.unmeasured[score]:
                del self.unmeasured[score]

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
        return percent(1 - self.unmeasured.get(score, 0) / sum(self.scores[score].values()) / FULL)


def together(tallies: Iterable[Tally]) -> Tally:
    """Add up the tallies of several periods."""
    whole = Tally()
    for tally in tallies:
        whole.sessions += tally.sessions
        for score, counts in tally.scores.items():
            into = whole.scores.setdefault(score, {})
            for value, count in counts.items():
                into[value] = into.get(value, 0) + count
        for score, unmeasured in tally.unmeasured.items():
            whole.unmeasured[score] = whole.unmeasured.get(score, 0) + unmeasured
    return whole


Series = list[tuple[date, int]]
"""Days with data, in order, each with the average of a score on it."""


def week_of(day: str) -> str:
    """Return the ISO week of a day: ``2026-01-16`` → ``2026-W03``."""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year:04}-W{week:02}"


def month_of(day: str) -> str:
    """Return the month of a day: ``2026-01-16`` → ``2026-01``."""
    return day[:7]


PERIODS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "daily": ("date", str),
    "weekly": ("week", week_of),
    "monthly": ("month", month_of),
}
"""Folder of the score files → the key of the period in them, and the function from a day to the period."""


def grouped(days: Mapping[str, Tally], name_of: Callable[[str], str]) -> dict[str, Tally]:
    """Return the periods of days, in order, with the tallies of their days added up."""
    groups: dict[str, list[Tally]] = {}
    for day in sorted(days):
        groups.setdefault(name_of(day), []).append(days[day])
    return {name: together(tallies) for name, tallies in groups.items()}


def series(periods: Mapping[str, Tally], score: str, least: float = 0.0) -> Series:
    """Return the average of a score on each day that has it, in order.

    Args:
        periods: Day → its tally.
        score: The score id.
        least: The share of the score's weight, 0 to 1, that must be measured on a day; other days are left out.
    """
    ranges = [(day, periods[day], periods[day].range(score)) for day in sorted(periods)]
    return [
        (date.fromisoformat(day), one.avg)
        for day, tally, one in ranges
        if one is not None and is_enough(tally.measured(score), least)
    ]


def aggregate(tally: Tally, config: Config) -> dict[str, Any]:
    """Return the scores of a period in the format of the score files.

    Returns:
        ``{sessions_count, component_averages, session_averages, session_ranges}``: the averages of the composites are
        plain numbers, as in the specification, so their least and greatest have a key of their own.
    """
    components = {name: one for name in config.components if (one := tally.range(name)) is not None}
    names = (*config.sessions, OVERALL)
    sessions = {name: one for name in names if (one := tally.range(f"{SESSION}{name}")) is not None}
    return {
        "sessions_count": tally.sessions,
        "component_averages": {name: _range(one) for name, one in components.items()},
        "session_averages": {name: one.avg for name, one in sessions.items()},
        "session_ranges": {name: {"min": one.min, "max": one.max} for name, one in sessions.items()},
    }


def _range(one: Range) -> dict[str, int]:
    return {"avg": one.avg, "min": one.min, "max": one.max}
