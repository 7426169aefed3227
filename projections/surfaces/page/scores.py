"""The scores of the page, day by day under the slider's axis."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tallybook.projections.scores.config import SESSION
from tallybook.projections.scores.files import OVERALL_ID
from tallybook.projections.scores.scoring import DASHBOARD, alerts
from tallybook.projections.scores.summary import names
from tallybook.projections.scores.view import series
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.state import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film
    from tallybook.projections.surfaces.workspace.project import Project


def scores_part(project: Project, film: Film, moment: Moment | None) -> dict[str, Any] | None:
    """Return the scores of a project, None where nothing was measured or scoring is off.

    Args:
        project: The project.
        film: Its film.
        moment: The moment of a commit whose own history the film shows; None for the project's.

    Raises:
        BadInputError: The configuration of the scores is invalid.
    """
    config = configuration.load(project)
    if not config.enabled:
        return None
    state = state_of(project, config, moment)
    days = sorted(state.days)
    if not days:
        return None
    labels = names(config)
    rows = [_series(state, score, labels[score], days) for score in config.score_ids]
    low = [
        [number, alert.score_id, alert.level]
        for number in range(len(days))
        for alert in alerts({row["id"]: row["values"][number] for row in rows}, config.levels, DASHBOARD)
    ]
    # The last event that was recorded by the end of each day, also where the clock ran back.
    by_time = sorted(zip(film.times, accumulate(film.sizes), strict=True))
    times, numbers = [at for at, _ in by_time], [0, *accumulate((seq for _, seq in by_time), max)]
    ends = (datetime.combine(date.fromisoformat(day), time.max, config.timezone).timestamp() for day in days)
    last = [numbers[bisect_right(times, int(end * 1000))] for end in ends]
    return {"days": days, "ends": last, "series": rows, "alerts": low}


def _series(state: Scores, score: str, label: str, days: Sequence[str]) -> dict[str, Any]:
    """Return a score on each day; None on a day on which too little of it was measured to show it."""
    enough = {day.isoformat(): value for day, value in series(state.days, score, state.config.display.min_coverage)}
    baseline = state.baselines.get(score)
    composite = "composite" if score.startswith(SESSION) else "component"
    return {
        "id": score,
        "label": label,
        "group": "overall" if score == OVERALL_ID else composite,
        "values": [enough.get(day) for day in days],
        "coverage": [
            state.days[day].measured(score) / 100 if score in state.days[day].scores else None for day in days
        ],
        "baseline": None if baseline is None else baseline.value,
    }
