"""Scores over days, weeks, months and versions. Pure.

Source: "Aggregate Scores" and "Daily Aggregates" of the scoring framework.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

from tallybook.projections.scores.configuration.model import OVERALL, SESSION
from tallybook.projections.scores.tally import Tally, together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.tally import Range

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


def series(periods: Mapping[str, Tally], score: str) -> Series:
    """Return the average of a score on each day that has it, in order."""
    found = [(day, periods[day].range(score)) for day in sorted(periods)]
    return [(date.fromisoformat(day), one.avg) for day, one in found if one is not None]


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
