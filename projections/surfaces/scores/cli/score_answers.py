"""What the verb `score` is query, and what it answers: values for ``--json``, and a page for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.projections.fold import fold_history
from tallybook.projections.scores.configuration.model import component_id
from tallybook.projections.scores.reports import evidence, score_files
from tallybook.projections.scores.reports import summary as scoring
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores.render import page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.scores.configuration.model import Component
    from tallybook.projections.scores.reports.summary import CurrentScore
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores.render.page import Page
    from tallybook.projections.surfaces.workspace.project import Project

    Answer = tuple[Any, Page]

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
    answer = scoring.summary(query.state)
    return answer, page.summary_page(query.state, answer, detail=query.detail)


def _session(query: ScoreQuery) -> Answer:
    session = find_session(query.state, query.session)
    config = query.state.config
    if session is None:
        return None, page.nothing_page(query.state)
    answer = score_files.session_document(session, config)
    answer["coverage"] = score_files.coverage({score: session.measured_percent(score) for score in session.scores})
    if not query.detail:
        return answer, page.session_page(answer, config)
    parts = {one.id: _why(query, session, one) for one in config.components.values() if one.id in session.components}
    named = [(config.components[name].name, why) for name, why in parts.items()]
    return answer | {"parts": parts}, page.session_page(answer, config, named)


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
        return None, page.nothing_page(query.state)
    tally = query.state.days[answer["date"]]
    only = None if query.component is None else query.component.id
    scored = [name for name in config.score_ids if name in tally.scores and only in {None, name}]
    answer |= {"coverage": score_files.coverage({name: tally.measured(name) for name in scored})}
    if only is not None:
        averages = {name: one for name, one in answer["component_averages"].items() if name == only}
        answer |= {"component_averages": averages, "session_averages": {}, "session_ranges": {}}
    return answer, page.daily_page(answer, config, only)


def _trend(query: ScoreQuery, days: int) -> Answer:
    current = scoring.current_scores(query.state)
    one = current[score_files.OVERALL_ID if query.component is None else query.component.id]
    answer = scoring.trend_of(one, days) | _span(one, days)
    if not query.detail:
        return answer, page.trend_page(one, answer, query.state.config, days)
    others = [(other, scoring.trend_of(other, days) | _span(other, days)) for other in current.values()]
    return answer | {"scores": [other for _, other in others]}, page.trend_page(
        one, answer, query.state.config, days, others
    )


def _span(one: CurrentScore, days: int) -> dict[str, str | None]:
    """Return the first and the last of so many days with data."""
    shown = [day.isoformat() for day, _ in one.series[-days:]]
    return {"from": shown[0] if shown else None, "to": shown[-1] if shown else None}


def _component(query: ScoreQuery, component: Component) -> Answer:
    """Return the score of a component; with details or in a session also why, and what changed it."""
    state, config = query.state, query.state.config
    one = scoring.current_scores(state)[component.id]
    answer: dict[str, Any] = {
        "component": one.id,
        "name": one.name,
        "date": one.day or None,
        "score": one.value,
        "grade": None if one.value is None else score_files.grade_name(one.value, config),
        "coverage": None if one.value is None else one.measured / 100,
        "trend": scoring.trend_of(one, config.trends.short_term_days),
    }
    if query.detail or query.session is not None:
        session = _session_with(query, component)
        why = None if session is None else _why(query, session, component)
        answer |= {"why": why, "changes": evidence.changes(state, component, config.trends.short_term_days)}
    return answer, page.component_page(one, answer, config)


def _session_with(query: ScoreQuery, component: Component) -> Session | None:
    """Return the session of the query, or without one the latest in which a component has a score."""
    if query.session is not None:
        return find_session(query.state, query.session)
    return next((session for session in query.state.sessions.latest() if component.id in session.scores), None)


def _why(query: ScoreQuery, session: Session, component: Component) -> dict[str, Any]:
    history, until = commands.up_to(query.project, query.when)
    folded = fold_history(evidence.evidence_view(session.id, component.id), history, until)
    return evidence.explain(session, component, query.state.config, folded.records)


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
