"""The scores of the page, day by day under the slider's axis."""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.events import KIND_OF
from tallybook.projections.scores.configuration.model import SESSION
from tallybook.projections.scores.grades import DASHBOARD, alerts, is_enough
from tallybook.projections.scores.periods import series
from tallybook.projections.scores.playbook_health import is_measured
from tallybook.projections.scores.reports.score_files import OVERALL_ID
from tallybook.projections.scores.reports.summary import names
from tallybook.projections.scores.session_inputs import KINDS
from tallybook.projections.surfaces.page.columns import pack
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.score_state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film
    from tallybook.projections.surfaces.workspace.project import Project

_SCORED: Final = frozenset(KIND_OF[kind] for kind in KINDS)


def scores_stream(project: Project, film: Film, moment: Moment | None) -> bytes | None:
    """Return the scores of a project, None where nothing was measured.

    Args:
        project: The project.
        film: Its film.
        moment: The moment of a commit whose own history the film shows; None for the project's.

    Raises:
        BadInputError: The configuration of the scores is invalid.
    """
    config = configuration.load(project)
    kinds = {kind.partition("\t")[0] for kind in film.kind_names.numbers}
    if kinds.isdisjoint(_SCORED) and not is_measured(config):
        return None
    state = state_of(project, config, moment)
    return pack(_tables(state, config, film)) if state.days else None


def _tables(state: Scores, config: Config, film: Film) -> dict[str, Any]:
    days = sorted(state.days)
    labels = names(config)
    rows = [_series(state, score, labels[score], days) for score in config.score_ids]
    shown = {row["id"]: row["values"] for row in rows}
    low = [
        [number, alert.score_id, alert.level]
        for number in range(len(days))
        for alert in alerts({score: values[number] for score, values in shown.items()}, config.levels, DASHBOARD)
    ]
    return {"days": days, "ends": _ends(days, config.timezone, film), "series": rows, "alerts": low}


def _series(state: Scores, score: str, label: str, days: Sequence[str]) -> dict[str, Any]:
    """Return a score on each day; None on a day on which too little of it was measured to show it."""
    by_day = {day.isoformat(): value for day, value in series(state.days, score)}
    measured = {day: state.days[day].measured(score) for day in by_day}
    enough = {day for day in by_day if is_enough(score, measured[day], state.config.display.min_coverage)}
    baseline = state.baselines.get(score)
    composite = "composite" if score.startswith(SESSION) else "component"
    return {
        "id": score,
        "label": label,
        "group": "overall" if score == OVERALL_ID else composite,
        "values": [by_day[day] if day in enough else None for day in days],
        "coverage": [measured[day] / 100 if day in by_day else None for day in days],
        "baseline": None if baseline is None else baseline.value,
    }


def _ends(days: Sequence[str], zone: tzinfo, film: Film) -> list[int]:
    """Return for each day the number of the last event that was recorded by its end, in the zone of the scores."""
    ends_ms = [int(datetime.combine(date.fromisoformat(day), time.max, zone).timestamp() * 1000) for day in days]
    last = [0] * (len(days) + 1)
    for at, seq in zip(film.times, accumulate(film.sizes), strict=True):
        # As of a time is the largest number recorded by then, also where the clock ran back.
        day = bisect_left(ends_ms, at)
        last[day] = max(last[day], seq)
    return list(accumulate(last, max))[: len(days)]
