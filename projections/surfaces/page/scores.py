"""The scores of the page, day by day under the slider's axis."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import date, datetime, time
from itertools import accumulate
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.configuration.model import SESSION
from tallybook.projections.scores.grades import DASHBOARD, alerts, is_enough
from tallybook.projections.scores.periods import series
from tallybook.projections.scores.playbook_health import is_measured
from tallybook.projections.scores.reports.drop_causes import (
    find_drop,
    interval_of,
    lead_json,
    leads_view,
    score_levels,
    scored_sessions,
)
from tallybook.projections.scores.reports.score_files import OVERALL_ID
from tallybook.projections.scores.reports.summary import names
from tallybook.projections.scores.session_inputs import KINDS
from tallybook.projections.surfaces.page.film import to_ms
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores.drop_report import leads_between
from tallybook.projections.surfaces.scores.score_state import state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import tzinfo

    from tallybook.ledger.records import Batch
    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.reports.drop_causes import Lead, ScoredSession
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.page.film import Film
    from tallybook.projections.surfaces.workspace.project import Project

MAX_PAIRS: Final = 20_000
"""Most pairs of days, times scores, between which drops are looked for."""

MAX_LOOKS: Final = 4_000_000
"""Most looks at a session for that: each pair looks at those from its earlier day on."""

MAX_FOLDED: Final = 200_000
"""Most events that are folded for the leads: once to the end, and once to each undo before which there is a drop."""

MAX_LEADS: Final = 100_000
"""Most leads of all drops together."""

_LATEST: Final = "~"
"""After every time that the ledger writes."""


@attrs.frozen
class Source:
    """What the scores of a page are made of.

    Attributes:
        film: The film.
        read: Reads its history from the beginning.
        with_texts: Whether sessions may be named.
    """

    film: Film
    read: Callable[[], Iterable[Batch]]
    with_texts: bool = True


def scores_part(project: Project, source: Source, moment: Moment | None) -> dict[str, Any] | None:
    """Return the scores of a project, None where nothing was measured.

    Args:
        project: The project.
        source: Its film and history.
        moment: The moment of a commit whose own history the film shows; None for the project's.

    Raises:
        BadInputError: The configuration of the scores is invalid.
    """
    config = configuration.load(project)
    if source.film.types.isdisjoint(KINDS) and not is_measured(config):
        return None
    state = state_of(project, config, moment)
    return _tables(state, config, source) if state.days else None


def _tables(state: Scores, config: Config, source: Source) -> dict[str, Any]:
    days = sorted(state.days)
    labels = names(config)
    rows = [_series(state, score, labels[score], days) for score in config.score_ids]
    shown = {row["id"]: row["values"] for row in rows}
    low = [
        [number, alert.score_id, alert.level]
        for number in range(len(days))
        for alert in alerts({score: values[number] for score, values in shown.items()}, config.levels, DASHBOARD)
    ]
    ends = _ends(days, config.timezone, source.film)
    return {"days": days, "ends": ends, "series": rows, "alerts": low, **_drops(state, days, source)}


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


def _ends(days: Sequence[str], zone: tzinfo, film: Film) -> list[int]:
    """Return for each day the number of the last event that was recorded by its end, in the zone of the scores."""
    ends_ms = [int(datetime.combine(date.fromisoformat(day), time.max, zone).timestamp() * 1000) for day in days]
    last = [0] * (len(days) + 1)
    for at, seq in zip(film.times, accumulate(film.sizes), strict=True):
        # As of a time is the largest number recorded by then, also where the clock ran back.
        day = bisect_left(ends_ms, at)
        last[day] = max(last[day], seq)
    return list(accumulate(last, max))[: len(days)]


def _drops(state: Scores, days: Sequence[str], source: Source) -> dict[str, Any]:
    """Return the drops of each score between days, with the leads that `score --blame` lists for each.

    Returns:
        ``{apart, drops, spans, leads}`` as README.md has them: between days more than ``apart`` days with data apart
        nothing was looked for.
    """
    scores = state.config.score_ids
    pairs, sessions = max(1, len(days) * len(scores)), sum(1 for _ in state.sessions.latest())
    apart = min(len(days) - 1, MAX_PAIRS // pairs, MAX_LOOKS // (pairs * max(1, sessions // 2)))
    while apart > 0:
        drops = [drop for score in scores for drop in _drops_of(state, score, days, apart)]
        spans = leads_of({(drop["good"]["at"], drop["bad"]["at"]) for drop in drops}, source)
        if spans is not None and sum(map(len, spans.values())) <= MAX_LEADS:
            return {"apart": apart, **number_leads(drops, spans, with_texts=source.with_texts)}
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


def pair_leads(project: Project, pair: tuple[str, str], moment: Moment | None, *, with_texts: bool) -> dict[str, Any]:
    """Return the drops between two days, with their leads, as ``_drops``.

    Raises:
        BadInputError: One of them has no data, or the configuration of the scores is invalid.
    """
    state = state_of(project, configuration.load(project), moment)
    for day in pair:
        if day not in state.days:
            raise BadInputError(f"leads of {day}", "the day has no data", "choose one that has")
    drops = [drop for score in state.config.score_ids for drop in _drops_of(state, score, sorted(pair), 1)]
    times = {(drop["good"]["at"], drop["bad"]["at"]) for drop in drops}
    spans = {span: leads_between(project, span, moment).leads[::-1] for span in times}
    return number_leads(drops, spans, with_texts=with_texts)


def leads_of(spans: Collection[tuple[str, str]], source: Source) -> dict[tuple[str, str], list[Lead]] | None:
    """Return what changed in the playbook after one time and up to another, as of then, the newest first.

    Returns:
        Span → its leads; None where that would fold too many events.
    """
    film = source.film
    undos = [record.seq for record in film.undos.records]
    # As of a time is the largest number recorded by then, also where the clock ran back meanwhile.
    by_time = sorted(zip(film.times, accumulate(film.sizes), strict=True))
    times, numbers = [at for at, _ in by_time], list(accumulate((seq for _, seq in by_time), max))
    ends: dict[tuple[str, str], int] = {}
    for span in spans:
        at = bisect_right(times, to_ms(span[1]))
        # Up to the next undo, history reads as it did at that moment.
        later = bisect_right(undos, numbers[at - 1] if at else 0)
        ends[span] = undos[later] - 1 if later < len(undos) else film.last
    if sum(set(ends.values())) > MAX_FOLDED:
        return None
    folds = {end: fold_history(leads_view("", _LATEST), source.read, end).leads for end in set(ends.values())}
    return {
        (since, until): [lead for lead in reversed(folds[end]) if since < lead.record.at <= until]
        for (since, until), end in ends.items()
    }


def number_leads(
    drops: Sequence[dict[str, Any]], spans: Mapping[tuple[str, str], Sequence[Lead]], *, with_texts: bool
) -> dict[str, Any]:
    """Return drops with their leads by number: what several drops share is there once."""
    rows: dict[str, int] = {}
    keys = ("seq", "change", "came", "went", "changed")
    lists: dict[tuple[str, str], list[int]] = {}
    for span, leads in spans.items():
        told = [lead_json(lead) for lead in leads]
        lists[span] = [rows.setdefault(dumps([one[key] for key in keys]), len(rows)) for one in told]
    order = {span: number for number, span in enumerate(lists)}
    for drop in drops:
        drop["span"] = order[drop["good"]["at"], drop["bad"]["at"]]
        for side in ("good", "bad"):
            drop[side] = {key: drop[side][key] for key in ("at", "score", "session") if with_texts or key != "session"}
    return {"drops": list(drops), "spans": list(lists.values()), "leads": list(map(json.loads, rows))}
