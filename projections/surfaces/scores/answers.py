"""The scores of a project, folded out of its ledger, and the answers of `score`: values for ``--json``, and pages."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.projections.fold import fold_history
from tallybook.projections.scores import files as score_files
from tallybook.projections.scores import summary
from tallybook.projections.scores.config import OVERALL, SESSION, component_id
from tallybook.projections.scores.drops import find_drop, find_interval, lead_json, leads_view, score_levels
from tallybook.projections.scores.scoring import is_enough
from tallybook.projections.scores.summary import changes, evidence_view, explain
from tallybook.projections.scores.trends import NOT_ENOUGH
from tallybook.projections.scores.view import (
    PERIODS,
    Scores,
    grouped,
)
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores import pages
from tallybook.projections.surfaces.scores.configuration import score_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.scores.config import Component
    from tallybook.projections.scores.drops import Leads, PeriodScore, ScoredSession
    from tallybook.projections.scores.inputs import Session
    from tallybook.projections.scores.summary import CurrentScore
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores.pages import Page
    from tallybook.projections.surfaces.workspace.project import Project

    Answer = tuple[Any, Page]

LAST: Final = "last"
RANGE: Final = ".."
"""Between two periods of a query."""
OPTION: Final = "--blame"
CAUTION: Final = "Each is a lead and not a proof: that it came first does not make it the cause."
SHOWN: Final = 20
"""Leads that people are shown, the newest."""

_WORDS: Final = {"daily": "day", "weekly": "week", "monthly": "month"}
_WITHIN: Final = {"daily": "on", "weekly": "in", "monthly": "in"}


@attrs.frozen
class DropQuery:
    """A question for a drop.

    Attributes:
        score: The score: a component's id in any spelling, ``session.NAME``, or the NAME alone.
        period: daily, weekly or monthly: between which it is looked for.
        name: The period that it dropped in, such as ``2026-01-16``; two of them, ``2026-01-14..2026-01-16``, for the
            drop from the one to the other; LAST for the last one that has the score; None for whichever saw the
            greatest drop.
    """

    score: str = SESSION + OVERALL
    period: str = "daily"
    name: str | None = None


def blame(project: Project, state: Scores, query: DropQuery, when: Moment | None = None) -> dict[str, Any]:
    """Return where a score dropped, and what changed in the playbook before that.

    Args:
        project: Whose ledger.
        state: Its scores, counted.
        query: Which drop.
        when: The moment that the scores were folded up to; None for the ledger's end.

    Returns:
        ``{score, period, name, periods, drop, coverage, between, moment, leads, caution}``: ``periods`` is how many
        have the score; ``drop`` is ``{before, after, points}``, two times ``{period, score}``, or None where it did not
        drop, and then ``coverage``, ``between`` and ``moment`` are None and ``leads`` is empty; ``coverage`` is the
        share of the score's weight, 0 to 1, that was measured in the less measured of the two periods; ``between`` is
        ``{good, bad}``, each ``{session, at, score}``; ``moment`` is the last event by then; ``leads`` are as
        ``leads.lead_json``, the newest first.

    Raises:
        BadInputError: There is no such score, or no such period that has it.
    """
    score = score_named(state.config, query.score, OPTION)
    levels = score_levels(state.days, score, query.period)
    since, name = _names(query, score, levels)
    named = name if since is None else f"{since}{RANGE}{name}"
    answer = {"score": score, "period": query.period, "name": named, "periods": len(levels)}
    drop = find_drop([one for one in levels if since is None or one.period in {since, name}], name)
    if drop is None:
        nothing = dict.fromkeys(("drop", "coverage", "between", "moment"))
        return answer | nothing | {"leads": [], "caution": CAUTION}
    tallies = grouped(state.days, PERIODS[query.period][1])
    coverage_percent = min(tallies[one.period].measured(score) for one in (drop.before, drop.after))
    good, bad = find_interval(state, score, query.period, drop)
    span_leads = leads_between(project, (good.at, bad.at), when)
    return answer | {
        "drop": {"before": drop.before._asdict(), "after": drop.after._asdict(), "points": drop.points},
        "coverage": coverage_percent / 100,
        "between": {"good": _session_json(good), "bad": _session_json(bad)},
        "moment": span_leads.seq,
        "leads": [lead_json(lead) for lead in reversed(span_leads.leads)],
        "caution": CAUTION,
    }


def leads_between(project: Project, times: tuple[str, str], when: Moment | None = None) -> Leads:
    """Return what changed in the playbook after one time and up to another, as of then."""
    since, until = times
    read = open_log(project).read if when is None else when.read
    # As-of a time is the largest number recorded by then, also where the clock ran back meanwhile.
    seq = max((raw.last for raw in read() if raw.position.at <= until), default=0)
    return fold_history(leads_view(since, until), lambda: decode(read()), seq)


def _names(query: DropQuery, score: str, levels: Sequence[PeriodScore]) -> tuple[str | None, str | None]:
    """Return the name of the period of the query, None for any, and before it that of an earlier one, None for any."""
    if query.name is None or not levels:
        return None, None
    since, dots, name = query.name.rpartition(RANGE)
    name = levels[-1].period if name == LAST else name
    for one in [since, name] if dots else [name]:
        if one not in {level.period for level in levels}:
            span = f"the first {_WORDS[query.period]} that has it is {levels[0].period}, the last {levels[-1].period}"
            raise BadInputError(f"{OPTION} {score}", f"has no data {_WITHIN[query.period]} {one}", span)
    if dots and since >= name:
        raise BadInputError(f"{OPTION} {query.name}", "does not go forward", "give the earlier one first")
    return since if dots else None, name


def _session_json(session: ScoredSession) -> dict[str, Any]:
    return {"session": session.session, "at": session.at, "score": session.score}


def drop_lines(answer: Mapping[str, Any], min_coverage: float = 0) -> Iterator[str]:
    """Yield the answer for people, a line each; names and texts in it are as they were recorded.

    Args:
        answer: The answer, as ``blame`` returns it.
        min_coverage: ``display.min_coverage``: a score of which less was measured is not shown.
    """
    drop = answer["drop"]
    if drop is None:
        yield _no_drop(answer)
        return
    coverage_percent = round(answer["coverage"] * 100)
    # The changes before a drop of what was barely measured explain nothing.
    if not is_enough(coverage_percent, min_coverage):
        yield (
            f"{answer['score']}: {NOT_ENOUGH} ({coverage_percent} %) to explain the drop; "
            "`tallybook score --blame COMPONENT` explains one component, such as ac06"
        )
        return
    before, after = drop["before"], drop["after"]
    points = "1 point" if drop["points"] == 1 else f"{drop['points']} points"
    fell = ", ".join(f"{one['score']} {_WITHIN[answer['period']]} {one['period']}" for one in (before, after))
    yield f"{answer['score']} dropped by {points}: {fell}"
    for label, one in (("last as good as before", "good"), ("then worst", "bad")):
        session = answer["between"][one]
        yield f"  {label} in session {session['session']}, {format_time(session['at'])}, with {session['score']}"
    leads = answer["leads"]
    if not leads:
        yield "Between these nothing changed in the playbook: the cause of the drop is elsewhere."
        return
    changes = "1 change" if len(leads) == 1 else f"{len(leads)} changes"
    yield f"Between these the playbook had {changes}, the newest first. {CAUTION}"
    for lead in leads[:SHOWN]:
        by = lead["by"]
        author = by["rater"] + (f" in session {by['session']}" if "session" in by else "")
        yield f"{lead['seq']:>6}  {format_time(lead['at'])}  {author}: {lead['summary']}"
    if len(leads) > SHOWN:
        yield f"and {len(leads) - SHOWN} older; --json has them all"
    yield f"`tallybook show --at {answer['moment']}` shows the playbook as of then"


def _no_drop(answer: Mapping[str, Any]) -> str:
    """Return the sentence that there is no drop, and why."""
    score, word = answer["score"], _WORDS[answer["period"]]
    if answer["periods"] <= 1:
        subject = f"only one {word} has" if answer["periods"] else f"no {word} has"
        return f"{score} did not drop: {subject} data of it"
    since, dots, name = (answer["name"] or "").partition(RANGE)
    if dots:
        return f"{score} did not drop from {since} to {name}"
    if answer["name"] is not None:
        return (
            f"{score} did not drop {_WITHIN[answer['period']]} {answer['name']}, against the {word} with data before it"
        )
    return f"{score} never dropped from one {word} with data to the next"


VARIABLE: Final = "CLAUDE_SESSION_ID"
_NAMED: Final = 5


@attrs.frozen
class ScoreQuery:
    """A question about scores.

    Attributes:
        project: Of which project.
        state: What was scored there, counted.
        when: The moment; None for now.
        detail: Whether details are wanted.
        component: Show this component only; None for all.
        session: The id of the session, or its beginning; None for the current one.
    """

    project: Project
    state: Scores
    when: Moment | None
    detail: bool
    component: Component | None
    session: str | None


def _summary(query: ScoreQuery) -> Answer:
    answer = summary.summary(query.state)
    return answer, pages.summary_page(query.state, answer, detail=query.detail)


def _session(query: ScoreQuery) -> Answer:
    session = find_session(query.state, query.session)
    config = query.state.config
    if session is None:
        return None, pages.nothing_page(query.state)
    answer = score_files.session_document(session, config)
    answer["coverage"] = score_files.coverage({score: session.measured_percent(score) for score in session.scores})
    if not query.detail:
        return answer, pages.session_page(answer, config)
    parts = {one.id: _why(query, session, one) for one in config.components.values() if one.id in session.components}
    named = [(config.components[name].name, why) for name, why in parts.items()]
    return answer | {"parts": parts}, pages.session_page(answer, config, named)


def find_session(state: Scores, wanted: str | None) -> Session | None:
    """Return the session of an id or of the beginning of one, or the current one; None where nothing is scored yet.

    Args:
        state: What was scored, counted.
        wanted: The id, or its beginning; None for the one that the agent's variable names, or else for the latest
            session that has a score.

    Raises:
        NothingToDoError: It has no scored event.
        BadInputError: Several ids begin with it.
    """
    if wanted is None and not os.environ.get(VARIABLE):
        return _latest(state)
    id_ = os.environ[VARIABLE] if wanted is None else wanted
    # A whole id may be the beginning of another one, and means itself.
    exact = state.sessions.get(id_)
    by_beginning = (one for one in state.sessions.latest() if id_ and one.id.startswith(id_) and one.contribution)
    matches: list[Session] = [exact] if exact is not None else list(by_beginning)
    if len(matches) > 1:
        more = f" and {len(matches) - _NAMED} more" if len(matches) > _NAMED else ""
        ids = ", ".join(repr(one.id) for one in matches[:_NAMED])
        raise BadInputError(f"--session {id_}", f"several ids begin with it: {ids}{more}", "give more of the id")
    if not matches or matches[0].contribution is None:
        # For the current session another hint: the user has just run `score --session`.
        hint = "`tallybook score --session` shows the latest that has a score"
        hint = f"${VARIABLE} names it; `tallybook score` shows all scores" if wanted is None else hint
        raise NothingToDoError(f"session {id_}", "has no scored event", hint)
    return matches[0]


def _latest(state: Scores) -> Session | None:
    """Return the latest session that has a score; a benchmark that names none only where there is no other."""
    # A run outside of any session, as in CI, measures one component, and is never somebody's current session.
    first: Session | None = None
    session: Session
    for session in state.sessions.latest():
        if session.contribution is not None:
            if session.named:
                return session
            first = first or session
    return first


def _daily(query: ScoreQuery) -> Answer:
    config = query.state.config
    answer = max(score_files.periods(query.state, "daily"), key=lambda day: str(day["date"]), default=None)
    if answer is None:
        return None, pages.nothing_page(query.state)
    tally = query.state.days[answer["date"]]
    only = None if query.component is None else query.component.id
    scored = [name for name in config.score_ids if name in tally.scores and only in {None, name}]
    answer |= {"coverage": score_files.coverage({name: tally.measured(name) for name in scored})}
    if only is not None:
        averages = {name: one for name, one in answer["component_averages"].items() if name == only}
        answer |= {"component_averages": averages, "session_averages": {}, "session_ranges": {}}
    return answer, pages.daily_page(answer, config, only)


def _trend(query: ScoreQuery, days: int) -> Answer:
    current = summary.current_scores(query.state)
    one = current[score_files.OVERALL_ID if query.component is None else query.component.id]
    answer = summary.trend_of(one, days) | _span(one, days)
    if not query.detail:
        return answer, pages.trend_page(one, answer, query.state.config, days)
    others = [(other, summary.trend_of(other, days) | _span(other, days)) for other in current.values()]
    return answer | {"scores": [other for _, other in others]}, pages.trend_page(
        one, answer, query.state.config, days, others
    )


def _span(one: CurrentScore, days: int) -> dict[str, str | None]:
    """Return the first and the last of so many days with data."""
    # Days are counted back from the last scored event and not from today, so that an answer names its days.
    shown = [day.isoformat() for day, _ in one.series[-days:]]
    return {"from": shown[0] if shown else None, "to": shown[-1] if shown else None}


def _component(query: ScoreQuery, component: Component) -> Answer:
    """Return the score of a component; with details or in a session also why, and what changed it."""
    state, config = query.state, query.state.config
    one = summary.current_scores(state)[component.id]
    answer: dict[str, Any] = {
        "component": one.id,
        "name": one.name,
        "date": one.day or None,
        "score": one.value,
        "grade": None if one.value is None else score_files.grade_name(one.value, config),
        "coverage": None if one.value is None else one.measured / 100,
        "trend": summary.trend_of(one, config.trends.short_term_days),
    }
    if query.detail or query.session is not None:
        session = _session_with(query, component)
        why = None if session is None else _why(query, session, component)
        answer |= {"why": why, "changes": changes(state, component, config.trends.short_term_days)}
    return answer, pages.component_page(one, answer, config)


def _session_with(query: ScoreQuery, component: Component) -> Session | None:
    """Return the session of the query, or without one the latest in which a component has a score."""
    if query.session is not None:
        return find_session(query.state, query.session)
    return next((session for session in query.state.sessions.latest() if component.id in session.scores), None)


def _why(query: ScoreQuery, session: Session, component: Component) -> dict[str, Any]:
    history = commands.history_at(query.project, query.when)
    folded = fold_history(evidence_view(session.id, component.id), history)
    return explain(session, component, query.state.config, folded.records)


def look(query: ScoreQuery, period: str) -> Answer:
    """Return an answer: what ``--json`` prints, and a page for people.

    Args:
        query: The question.
        period: session, daily, weekly, monthly, or empty for the summary.
    """
    config = query.state.config
    if period == "daily":
        return _daily(query)
    if period in {"weekly", "monthly"}:
        return _trend(query, config.trends.short_term_days if period == "weekly" else config.trends.long_term_days)
    if query.component is not None:
        return _component(query, query.component)
    return _session(query) if period == "session" else _summary(query)


def find_component(components: Mapping[str, Component], name: str) -> Component:
    """Return the component of a name, however it is written.

    Raises:
        BadInputError: There is none.
    """
    component = components.get(component_id(name))
    if component is None:
        raise BadInputError(f"--component {name}", "is not a component", f"there are {', '.join(components)}")
    return component
