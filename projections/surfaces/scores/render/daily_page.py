"""The page of a day's scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallybook.projections.scores.configuration.model import SESSION
from tallybook.projections.scores.grades import is_enough
from tallybook.projections.scores.reports import summary as scoring
from tallybook.projections.scores.reports.score_files import OVERALL_ID
from tallybook.projections.scores.trends.gates import NOT_ENOUGH
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.scores.render.page import (
    ALL,
    NO_DATA,
    Page,
    Table,
    changed,
    graded,
    letter,
    not_enough,
    percents,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.scores.configuration.model import Config


def daily_page(told: Mapping[str, Any], config: Config, only: str | None = None) -> Page:
    """Return the scores of a day, as its file has them, and ``coverage``; of a component alone where one is named."""
    names, count = scoring.names(config), told["sessions_count"]
    measured = {name: percents(share) for name, share in told["coverage"].items()}
    shown = is_enough(OVERALL_ID, measured.get(OVERALL_ID, ALL), config.display.min_coverage)
    found = dict(told["component_averages"])
    if only is None:
        ranges = told["session_ranges"]
        found |= {f"{SESSION}{name}": {"avg": avg, **ranges[name]} for name, avg in told["session_averages"].items()}
    rows = tuple(
        (names[name], NOT_ENOUGH, "", "", "", f"{measured[name]} %")
        if name == OVERALL_ID and not shown
        else (names[name], one["avg"], one["min"], one["max"], letter(one["avg"], config), f"{measured[name]} %")
        for name, one in found.items()
    )
    overall = told["session_averages"].get("overall")
    value = graded(overall, config) if shown else not_enough(measured[OVERALL_ID])
    change = changed(told["trend"], config.trends.short_term_days) if config.display.show_trends and shown else ""
    table = Table("", ("score", "avg", "min", "max", "grade", "measured"), rows)
    heading = format_count(count, "session") + ("" if only else f", Overall: {value}  {change}".rstrip())
    return Page(f"DAY {told['date']}", heading, tables=(table,) if rows else (), sentences=() if rows else (NO_DATA,))
