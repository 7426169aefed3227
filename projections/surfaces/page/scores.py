"""The scores of the page, day by day under the slider's axis."""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, datetime, time
from itertools import accumulate
import json
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.fast_stdlib import dumps
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.config import SESSION
from tallybook.projections.scores.drops import (
    find_drop,
    interval_of,
    lead_json,
    leads_view,
    score_levels,
    scored_sessions,
)
from tallybook.projections.scores.files import OVERALL_ID
from tallybook.projections.scores.scoring import DASHBOARD, alerts, is_enough
from tallybook.projections.scores.summary import names
from tallybook.projections.scores.view import series
from tallybook.projections.surfaces.page.film import Interned, to_ms
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.state import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from tallybook.ledger.records import Batch
    from tallybook.projections.scores.drops import Lead, ScoredSession
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film
    from tallybook.projections.surfaces.workspace.project import Project

MAX_LOOKS: Final = 4_000_000
"""Most looks at a session to find drops: each pair of days looks, for each score, at those from its earlier day on."""

MAX_FOLDED: Final = 200_000
"""Most events that are folded for the leads: once to the end, and once to each undo before which there is a drop."""

MAX_LEADS: Final = 100_000
"""Most leads of all drops together."""

_FEWEST_SESSIONS: Final = 200
_LATEST: Final = "~"
"""After every time that the ledger writes."""


def scores_part(
    project: Project, film: Film, read: Callable[[], Iterable[Batch]], moment: Moment | None, *, with_texts: bool
) -> dict[str, Any] | None:
    """Return the scores of a project, None where nothing was measured or scoring is off.

    Args:
        project: The project.
        film: Its film.
        read: Reads the history of the film from the beginning.
        moment: The moment of a commit whose own history the film shows; None for the project's.
        with_texts: Whether sessions may be named.

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
    drops = _drops(state, days, film, read)
    if not with_texts:
        for drop in drops["drops"]:
            for side in ("good", "bad"):
                del drop[side]["session"]
    return {"days": days, "ends": _ends(days, config.timezone, film), "series": rows, "alerts": low, **drops}


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


def _last_events(film: Film, times: Iterable[int]) -> list[int]:
    """Return for each time the largest number of an event recorded by then, also where the clock ran back."""
    by_time = sorted(zip(film.times, accumulate(film.sizes), strict=True))
    ends, numbers = [at for at, _ in by_time], [0, *accumulate((seq for _, seq in by_time), max)]
    return [numbers[bisect_right(ends, at)] for at in times]


def _ends(days: Sequence[str], zone: tzinfo, film: Film) -> list[int]:
    """Return for each day the number of the last event that was recorded by its end, in the zone of the scores."""
    ends = (datetime.combine(date.fromisoformat(day), time.max, zone) for day in days)
    return _last_events(film, (int(end.timestamp() * 1000) for end in ends))


def _drops(state: Scores, days: Sequence[str], film: Film, read: Callable[[], Iterable[Batch]]) -> dict[str, Any]:
    """Return the drops of each score between days, with the leads that `score --blame` lists for each.

    Returns:
        ``{apart, drops, spans, leads}`` as README.md has them: between days more than ``apart`` days with data apart
        nothing was looked for.
    """
    scores, sessions = state.config.score_ids, sum(1 for _ in state.sessions.latest())
    looks = len(days) * max(1, len(scores)) * max(_FEWEST_SESSIONS, sessions // 2)
    apart = min(len(days) - 1, MAX_LOOKS // looks)
    while apart > 0:
        drops = [drop for score in scores for drop in _drops_of(state, score, days, apart)]
        spans = _leads_of({(drop["good"]["at"], drop["bad"]["at"]) for drop in drops}, film, read)
        if spans is not None and sum(map(len, spans.values())) <= MAX_LEADS:
            return {"apart": apart, **_number_leads(drops, spans)}
        apart //= 2
    return {"apart": 0, "drops": [], "spans": [], "leads": []}


def _drops_of(state: Scores, score: str, days: Sequence[str], apart: int) -> Iterator[dict[str, Any]]:
    """Yield the drops of a score between days that are at most so many apart."""
    levels = {level.period: level for level in score_levels(state.days, score, "daily")}
    sessions: dict[str, list[ScoredSession]] = {}
    for session in scored_sessions(state, score, "daily"):
        sessions.setdefault(session.period, []).append(session)
    for to, day in enumerate(days):
        for since in range(max(0, to - apart), to):
            drop = find_drop([levels[one] for one in (days[since], day) if one in levels])
            if drop is None:
                continue
            later = [one for name, some in sessions.items() if name >= days[since] for one in some]
            good, bad = interval_of(later, drop)
            least = min(state.days[name].measured(score) for name in (days[since], day))
            yield {
                "score": score,
                "from": since,
                "to": to,
                "before": drop.before.score,
                "after": drop.after.score,
                "enough": is_enough(least, state.config.display.min_coverage),
                "good": good._asdict(),
                "bad": bad._asdict(),
            }


def _leads_of(
    spans: Collection[tuple[str, str]], film: Film, read: Callable[[], Iterable[Batch]]
) -> dict[tuple[str, str], list[Lead]] | None:
    """Return what changed in the playbook after one time and up to another, as of then, the newest first.

    Returns:
        Span → its leads; None where that would fold too many events.
    """
    undos = [record.seq for record in film.undos.records]
    ends: dict[tuple[str, str], int] = {}
    for span, last in zip(spans, _last_events(film, (to_ms(until) for _, until in spans)), strict=True):
        # Up to the next undo, history reads as it did at that moment.
        later = bisect_right(undos, last)
        ends[span] = undos[later] - 1 if later < len(undos) else film.last
    if sum(set(ends.values())) > MAX_FOLDED:
        return None
    folds = {end: fold_history(leads_view("", _LATEST), read, end).leads for end in set(ends.values())}
    return {
        (since, until): [lead for lead in reversed(folds[end]) if since < lead.record.at <= until]
        for (since, until), end in ends.items()
    }


def _number_leads(drops: Sequence[dict[str, Any]], spans: Mapping[tuple[str, str], Sequence[Lead]]) -> dict[str, Any]:
    """Return drops with their leads by number: what several drops share is there once."""
    rows, keys = Interned(), ("seq", "change", "came", "went", "changed")
    lists = [[rows.number(dumps([lead_json(lead)[key] for key in keys])) for lead in leads] for leads in spans.values()]
    order = {span: number for number, span in enumerate(spans)}
    for drop in drops:
        drop["span"] = order[drop["good"]["at"], drop["bad"]["at"]]
        for side in ("good", "bad"):
            del drop[side]["period"]
    return {"drops": list(drops), "spans": lists, "leads": list(map(json.loads, rows.numbers))}
