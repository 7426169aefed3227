"""What the verb `score` is asked, and what it answers: values for ``--json``, and a page for people."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.projections.scores.configuration.model import component_id
from tallybook.projections.scores.reports import evidence, score_files
from tallybook.projections.scores.reports import summary as scoring
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores.render import page
from tallybook.projections.surfaces.scores.render.daily_page import daily_page
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.scores.configuration.model import Component
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores.render.page import Page
    from tallybook.projections.surfaces.workspace.project import Project

    Answer = tuple[Any, Page]

VARIABLE: Final = "CLAUDE_SESSION_ID"
_NAMED: Final = 5


@attrs.frozen
class Asked:
    """What is asked.

    Attributes:
        project: Of which project.
        state: What was scored there, counted.
        when: The moment; None for now.
        detail: Whether details are wanted.
        component: The component that alone is asked about; None for all.
        session: The id of the session, or its beginning; None for the current one.
    """

    project: Project
    state: Scores
    when: Moment | None
    detail: bool
    component: Component | None
    session: str | None


def _summary(asked: Asked) -> Answer:
    told = scoring.summary(asked.state)
    return told, page.summary_page(asked.state, told, detail=asked.detail)


def _session(asked: Asked) -> Answer:
    session = find_session(asked.state, asked.session)
    config = asked.state.config
    if session is None:
        return None, page.nothing_page(asked.state)
    told = score_files.session_document(session, config) | {"coverage": _coverage(session)}
    if not asked.detail:
        return told, page.session_page(told, config)
    parts = {one.id: _why(asked, session, one) for one in config.components.values() if one.id in session.components}
    named = [(config.components[name].name, why) for name, why in parts.items()]
    return told | {"parts": parts}, page.session_page(told, config, named)


def _coverage(session: Session) -> dict[str, float]:
    """Return score id → the share of its weight that was measured, 0 to 1, of a session that was counted."""
    counted = session.counted
    return (
        {}
        if counted is None
        else score_files.coverage({one: 100 - counted.lacking.get(one, 0) for one in counted.scores})
    )


def find_session(state: Scores, wanted: str | None) -> Session | None:
    """Return the session of an id or of the beginning of one, or the current one; None where nothing is scored yet.

    Args:
        state: What was scored, counted.
        wanted: The id, or its beginning; None for the one that the agent's variable names, or else for the latest
            session that has a score.

    Raises:
        NothingToDoError: Nothing was scored of it.
        BadInputError: Several begin so.
    """
    if wanted is None and not os.environ.get(VARIABLE):
        return _latest(state)
    id_ = os.environ[VARIABLE] if wanted is None else wanted
    found: list[Session] = [state.sessions.get(id_)] if state.sessions.get(id_) is not None else []
    found = found or [one for one in state.sessions.latest() if id_ and one.id.startswith(id_) and one.counted]
    if len(found) > 1:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        ids = ", ".join(repr(one.id) for one in found[:_NAMED])
        raise BadInputError(f"--session {id_}", f"several ids begin with it: {ids}{more}", "give more of the id")
    if not found or found[0].counted is None:
        # Of the current one that would be what was asked just now.
        hint = "`tallybook score --session` shows the latest that has a score"
        hint = f"${VARIABLE} names it; `tallybook score` shows how all stands" if wanted is None else hint
        raise NothingToDoError(f"session {id_}", "has no scored event", hint)
    return found[0]


def _latest(state: Scores) -> Session | None:
    """Return the latest session that has a score; a benchmark that names none only where there is no other."""
    first: Session | None = None
    session: Session
    for session in state.sessions.latest():
        if session.counted is not None:
            if session.named:
                return session
            first = first or session
    return first


def _daily(asked: Asked) -> Answer:
    config = asked.state.config
    told = max(score_files.periods(asked.state, "daily"), key=lambda day: str(day["date"]), default=None)
    if told is None:
        return None, page.nothing_page(asked.state)
    tally = asked.state.days[told["date"]]
    only = None if asked.component is None else asked.component.id
    scored = [name for name in config.score_ids if name in tally.scores and only in {None, name}]
    told |= {"coverage": score_files.coverage({name: tally.measured(name) for name in scored})}
    if only is not None:
        averages = {name: one for name, one in told["component_averages"].items() if name == only}
        told |= {"component_averages": averages, "session_averages": {}, "session_ranges": {}}
    return told, daily_page(told, config, only)


def _trend(asked: Asked, days: int) -> Answer:
    standing = scoring.standings(asked.state)
    one = standing[score_files.OVERALL_ID if asked.component is None else asked.component.id]
    told = scoring.trend_of(one, days)
    if not asked.detail:
        return told, page.trend_page(one, told, asked.state.config, days)
    others = [(other, scoring.trend_of(other, days)) for other in standing.values()]
    return told | {"scores": [other for _, other in others]}, page.trend_page(
        one, told, asked.state.config, days, others
    )


def _component(asked: Asked, component: Component) -> Answer:
    """Return how a component stands; with details or in a session, why it has its score there, and what changed it."""
    state, config = asked.state, asked.state.config
    one = scoring.standings(state)[component.id]
    told: dict[str, Any] = {
        "component": one.id,
        "name": one.name,
        "date": one.day or None,
        "score": one.value,
        "grade": None if one.value is None else score_files.grade_name(one.value, config),
        "coverage": None if one.value is None else one.measured / 100,
        "trend": scoring.trend_of(one, config.trends.short_term_days),
    }
    if asked.detail or asked.session is not None:
        session = _session_with(asked, component)
        why = None if session is None else _why(asked, session, component)
        told |= {"why": why, "changes": evidence.changes(state, component, config.trends.short_term_days)}
    return told, page.component_page(one, told, config)


def _session_with(asked: Asked, component: Component) -> Session | None:
    """Return the session that is asked for, or without one the latest in which a component has a score."""
    if asked.session is not None:
        return find_session(asked.state, asked.session)
    scored = (one for one in asked.state.sessions.latest() if one.counted and component.id in one.counted.scores)
    return next(scored, None)


def _why(asked: Asked, session: Session, component: Component) -> dict[str, Any]:
    history, until = commands.up_to(asked.project, asked.when)
    found = fold_history(evidence.evidence_view(session.id, component.id), history, until)
    return evidence.explained(session, component, asked.state.config, found.records)


def look(asked: Asked, period: str) -> Answer:
    """Return an answer: what ``--json`` prints, and a page for people.

    Args:
        asked: What is asked.
        period: session, daily, weekly, monthly, or empty for how all stands.
    """
    config = asked.state.config
    if period == "daily":
        return _daily(asked)
    if period in {"weekly", "monthly"}:
        return _trend(asked, config.trends.short_term_days if period == "weekly" else config.trends.long_term_days)
    if asked.component is not None:
        return _component(asked, asked.component)
    return _session(asked) if period == "session" else _summary(asked)


def find_component(components: Mapping[str, Component], name: str) -> Component:
    """Return the component of a name, however it is written.

    Raises:
        BadInputError: There is none.
    """
    found = components.get(component_id(name))
    if found is None:
        raise BadInputError(f"--component {name}", "is not a component", f"there are {', '.join(components)}")
    return found
