"""The answers of `score`: a value for ``--json``, and the same as a page for people.

A page becomes a screen (`screen.py`) or a Markdown file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallybook.ledger.errors import BadInputError, NothingToDoError
from tallybook.ledger.names import format_names
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.scores import scoring, summary, trends, view
from tallybook.projections.scores.config import USER, Component, Config, component_id
from tallybook.projections.scores.scoring import Level, is_enough
from tallybook.projections.scores.summary import CurrentScore
from tallybook.projections.scores.trends import NOT_ENOUGH
from tallybook.projections.scores.view import OVERALL_ID, PLAYBOOK, ScoredSession, Scores
from tallybook.projections.surfaces.console.output import escape, format_count, format_time
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.scores.configuration import score_named, state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment

    Fields = Mapping[str, Any]
    Answer = tuple[Any, "ScorePage"]

NO_DATA: Final = "no data"
ALL: Final = 100
ARROWS: Final = {"improving": "↑", "declining": "↓", "stable": "→"}


class Bar(NamedTuple):
    """A score as a bar.

    Attributes:
        name: Of what.
        value: 0 to 100; None for no data.
        grade: Its letter; empty where none is shown.
        direction: Of its trend; empty where none is known, or none is shown.
        style: A colour.
        note: How much of its weight was measured where that is not all, also without a value where that is too little
            for one; and its day where that is not the page's.
    """

    name: str
    value: int | None
    grade: str = ""
    direction: str = ""
    style: str = ""
    note: str = ""


class Table(NamedTuple):
    """Rows of a table.

    Attributes:
        title: What it shows; empty for what the page does.
        columns: Their headings.
        rows: Texts and numbers, one for each column; a table without rows is not shown.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]


class ScorePage(NamedTuple):
    """An answer for people; a part that is empty is not shown.

    Attributes:
        title: What it is about.
        heading: The result in one line.
        bars: Scores as bars.
        sentences: What there is to say, a paragraph each.
        tables: Tables.
        focus: What deserves attention, a paragraph each.
        framed: Whether it is drawn in a box where there is room.
        day: The day or span of its scores, in a sentence under the box; empty where the heading or title names it.
        alerts: What a user is to be told before anything else, a paragraph each.
    """

    title: str
    heading: str = ""
    bars: Sequence[Bar] = ()
    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()
    focus: Sequence[str] = ()
    framed: bool = False
    day: str = ""
    alerts: Sequence[str] = ()


def make_bar(name: str, level: Level | None, config: Config, direction: str = "", page_day: str = "") -> Bar:
    """Return a score as a bar, coloured by its value; no value where too little of it was measured."""
    if level is None:
        return Bar(name, None)
    measured = f"{level.measured} % measured" if level.measured < ALL else ""
    note = ", ".join(filter(None, (measured, level.period if page_day not in {"", level.period} else "")))
    if not is_enough(level.measured, config):
        return Bar(name, None, note=note)
    is_low = level.value < config.thresholds.warning
    style = "red" if is_low else "green" if level.value >= summary.target(config) else "yellow"
    return Bar(name, level.value, letter(level.value, config), direction, style, note)


def letter(value: float, config: Config) -> str:
    """Return the grade of a score, empty where none is shown."""
    return scoring.grade_of(value, config).name if config.display.show_grades else ""


def format_level(level: Level | None, config: Config) -> str:
    """Return a score with its letter, and how much of it was measured where that is not all: ``87 (B), 60 % measured``.

    ``not enough measured (3 %)`` where that holds.
    """
    if level is None:
        return NO_DATA
    if not is_enough(level.measured, config):
        return f"{NOT_ENOUGH} ({level.measured} %)"
    grade = letter(level.value, config)
    text = f"{level.value} ({grade})" if grade else f"{level.value}"
    return text if level.measured == ALL else f"{text}, {level.measured} % measured"


_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(page: ScorePage) -> str:
    """Return a page as Markdown; no text in it is markup of its own."""
    blocks = [f"# {_plain(page.title)}", *(f"**{_plain(alert)}**" for alert in page.alerts)]
    blocks += [_plain(page.heading), _plain(page.day)]
    rows = [
        (bar.name, NO_DATA if bar.value is None else bar.value, bar.grade, ARROWS.get(bar.direction, ""), bar.note)
        for bar in page.bars
    ]
    blocks.append(_table(("Score of", "Points", "Grade", "Trend", "Note"), rows))
    blocks += map(_plain, page.sentences)
    for table in page.tables:
        blocks += [f"## {_plain(table.title)}"] if table.title and table.rows else []
        blocks.append(_table(table.columns, table.rows))
    if page.focus:
        blocks += ["## Focus areas", "\n".join(f"- {_plain(line)}" for line in page.focus)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _plain(value: Any) -> str:
    # Names and ids are what somebody recorded, and could be markup.
    return _MARKS.sub(r"\\\1", escape(value))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table, empty without rows."""
    if not rows:
        return ""
    lines = [[_plain(cell) for cell in columns], ["---"] * len(columns), *([*map(_plain, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Answers

VARIABLE: Final = "CLAUDE_SESSION_ID"
REASONS_SHOWN: Final = 8
# The summary of the specification says last week.
_BEFORE: Final = {7: "last week", 30: "last month"}
_NOTHING: Final = "No scores yet: `tallybook score record` records metrics, and `score --config` lists them."


class ScoreQuery(NamedTuple):
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


def look(query: ScoreQuery, period: str) -> Answer:
    """Return an answer: what ``--json`` prints, and a page for people.

    Args:
        query: The question.
        period: session, daily, weekly, monthly, or empty for the summary.
    """
    lengths = query.state.config.trends
    if period == "daily":
        return _show_day(query)
    if period in {"weekly", "monthly"}:
        return _show_trend(query, lengths.short_term_days if period == "weekly" else lengths.long_term_days)
    if query.component is not None:
        return _show_component(query, query.component)
    return _show_session(query) if period == "session" else _show_summary(query)


def find_component(components: Mapping[str, Component], name: str) -> Component:
    """Return the component of a name, however it is written.

    Raises:
        BadInputError: There is none.
    """
    component = components.get(component_id(name))
    if component is None:
        raise BadInputError(f"--component {name}", "is not a component", f"there are {', '.join(components)}")
    return component


# The summary


def _show_summary(query: ScoreQuery) -> Answer:
    """Return the summary, in the box of "Summary Format"; with details also composites."""
    state, config = query.state, query.state.config
    scores = summary.current_scores(state)
    areas = summary.focus(scores.values(), config)
    trend = summary.trend_of(scores[OVERALL_ID], config.trends.short_term_days)
    answer = summary.current(scores, config) | {"trend": trend, "focus": areas}
    if answer["date"] is None:
        return answer, _make_empty_page(state, framed=True)
    whole, display = scores[OVERALL_ID].latest, config.display
    # The scores may be of any day: the box alone would look like today's.
    day = answer["date"] if whole is None else whole.period
    bars = []
    for score in scores.values():
        if query.detail or score.id in config.components:
            has_trend = display.show_trends and score.latest and score.is_shown
            direction = score.trend["direction"] if score.trend and has_trend else ""
            bars.append(make_bar(score.name, score.latest, config, direction, day))
    page = ScorePage(
        config.title,
        _headline("Overall", whole, trend["trend"], config),
        bars,
        sentences=_omissions(state) if query.detail else (),
        focus=[_focus_line(area) for area in areas if display.show_recommendations],
        framed=True,
        day=f"Scores of {day}.",
        alerts=[*_alert_lines(scores, config)],
    )
    return answer, page


def _headline(name: str, level: Level | None, trend: Fields | None, config: Config, days: int = 0) -> str:
    """Return a score and how it changed over so many days, 0 for a short trend: ``Overall: 87 (B)  ↑ +2.5 from …``."""
    text, days = f"{name}: {format_level(level, config)}", days or config.trends.short_term_days
    if not config.display.show_trends or not (level is None or is_enough(level.measured, config)):
        return text
    if trend is None:
        return f"{text}  (not enough data for a trend)"
    before = _BEFORE.get(days, f"the {days} days before")
    return f"{text}  {ARROWS[trend['direction']]} {trend['delta']:+.1f} from {before}"


def _focus_line(area: Fields) -> str:
    """Return a focus area in a line: ``AC-07 R&D Cycles: Below target (75). Review needed.``."""
    below = [f"Below target ({area['value']})."] if area["below"] else []
    declining = [] if area["drop"] is None else [f"Declining trend ({-area['drop']:+.1f})."]
    return " ".join([f"{area['name']}:", *below, *declining, f"{area['action']}."])


def _alert_lines(scores: Mapping[str, CurrentScore], config: Config) -> Iterator[str]:
    """Yield the alerts of the channel ``user``, the worst first: ``AC-06 is 45 on 2026-01-16, below …``."""
    reached = sorted(summary.low_scores(scores, config, USER), key=lambda alert: int(alert["value"]))
    for alert in reached:
        name, bound = scores[alert["score"]].name, scoring.number(alert["below"])
        yield f"{name} is {alert['value']} on {alert['day']}, below {bound} ({alert['level']})."


# Where nothing has a score


def _make_empty_page(state: Scores, *, framed: bool = False) -> ScorePage:
    """Return the page for a ledger without scores: what was recorded, and why none of it is scored."""
    return ScorePage(state.config.title, _NOTHING, sentences=_omissions(state), framed=framed)


def list_counts(counts: Mapping[str, int], most: int, others: str) -> str:
    """Return the most frequent names, each with its count, and how many others there are."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{name} ({count:,})" for name, count in ranked[:most]]
    more = [f"and {len(ranked) - most} other {others}"] if len(ranked) > most else []
    return ", ".join([*shown, *more])


def _omissions(state: Scores) -> tuple[str, ...]:
    """Return how many events are in no score, and why, the most frequent reason first; empty where all are."""
    if not state.unscored:
        return ()
    return (f"Recorded, and in no score: {list_counts(state.unscored, REASONS_SHOWN, 'reasons')}.",)


# A session, and a day


def _show_session(query: ScoreQuery) -> Answer:
    session = find_session(query.state, query.session)
    config = query.state.config
    if session is None:
        return None, _make_empty_page(query.state)
    levels = {score: session.level(score) for score in config.scores if score in session.levels}
    answer = view.session_document(session, config) | {"coverage": view.coverage(levels)}
    parts = {}
    if query.detail:
        measured = query.state.session(session.id).components
        parts = _explain(query, session, [part for part in config.components.values() if part.id in measured])
        answer |= {"parts": parts}
    version = [f"version {session.version}"] if session.version else []
    whole = f"Overall: {format_level(levels.get(OVERALL_ID), config)}"
    page = ScorePage(
        f"SESSION {session.id}",
        ", ".join([whole, format_time(answer["timestamp"]), *version]),
        [make_bar(name, levels.get(id_), config) for id_, name in config.scores.items() if id_ != OVERALL_ID],
        tables=[_parts_table(why, config.scores[name], config) for name, why in parts.items()],
    )
    return answer, page


def find_session(state: Scores, wanted: str | None) -> ScoredSession | None:
    """Return the session of an id or of the beginning of one, or the current one; None where nothing is scored yet.

    Args:
        state: What was scored, counted.
        wanted: The id, or its beginning; None for the one that the agent's variable names, or else for the latest
            session that has a score.

    Raises:
        NothingToDoError: It has no scored event.
        BadInputError: Several ids begin with it.
    """
    id_ = os.environ.get(VARIABLE, "") if wanted is None else wanted
    scored = state.latest_sessions()
    if wanted is None and not id_:
        # A run outside of any session, as in CI, measures one component, and is never somebody's current session.
        return next((session for session in scored if session.named), scored[0] if scored else None)
    # A whole id may be the beginning of another one, and means itself.
    is_whole = not id_ or id_ in state.sessions
    matches = [session for session in scored if (session.id == id_ if is_whole else session.id.startswith(id_))]
    if len(matches) > 1:
        ids = format_names([repr(session.id) for session in matches], 5)
        raise BadInputError(f"--session {id_}", f"several ids begin with it: {ids}", "give more of the id")
    if not matches:
        # For the current session another hint: the user has just run `score --session`.
        hint = "`tallybook score --session` shows the latest that has a score"
        hint = f"${VARIABLE} names it; `tallybook score` shows all scores" if wanted is None else hint
        raise NothingToDoError(f"session {id_}", "has no scored event", hint)
    return matches[0]


def _show_day(query: ScoreQuery) -> Answer:
    """Return the scores of the latest day with data, as its file has them, or of a component there."""
    state, config = query.state, query.state.config
    if not state.days:
        return None, _make_empty_page(state)
    day = max(state.days)
    tally, component = state.days[day], query.component
    wanted = config.scores if component is None else [component.id]
    levels = {name: tally.level(day, name) for name in wanted if name in tally.levels}
    answer = next(view.periods(state, "daily", day)) | {"coverage": view.coverage(levels)}
    heading = format_count(tally.sessions, "session")
    if component is None:
        heading += f", {_headline('Overall', levels.get(OVERALL_ID), answer['trend'], config)}"
    else:
        averages = {name: average for name, average in answer["component_averages"].items() if name in levels}
        answer |= {"component_averages": averages, "session_averages": {}, "session_ranges": {}}
    rows: list[tuple[Any, ...]] = []
    for name, level in levels.items():
        # A score of which too little was measured has no letter and no trend for people, while JSON has its number.
        cells: tuple[Any, ...] = (NOT_ENOUGH, "", "", "")
        if is_enough(level.measured, config):
            cells = (*tally.range(name).values(), letter(level.value, config))
        rows.append((config.scores[name], *cells, f"{level.measured} %"))
    table = Table("", ("score", "avg", "min", "max", "grade", "measured"), rows)
    return answer, ScorePage(f"DAY {day}", heading, tables=[table], sentences=() if rows else [NO_DATA])


# Trends


def _show_trend(query: ScoreQuery, days: int) -> Answer:
    """Return the trend of a score over so many days, in the format of "Trend Output"; with details of all scores."""
    state, config = query.state, query.state.config
    scores = summary.current_scores(state)
    score = scores[OVERALL_ID if query.component is None else query.component.id]
    answer = _trend_of(score, days)
    others = [(other, _trend_of(other, days)) for other in scores.values()] if query.detail else []
    answer |= {"scores": [trend for _, trend in others]} if query.detail else {}
    title = f"{score.name.upper()}, {days} DAYS"
    if not score.levels:
        return answer, ScorePage(title, NO_DATA)
    rows = [_trend_row(other, trend, config) for other, trend in others]
    columns = ("score", "last", "average", "before", "change", "%", "forecast", "last day")
    page = ScorePage(
        title,
        _headline(score.name, score.levels[-1], answer["trend"], config, days),
        sentences=[*_trend_sentences(score, answer, days)],
        tables=[Table("", columns, rows)],
        day=f"Days with data from {answer['from']} to {answer['to']}.",
    )
    return answer, page


def _trend_of(score: CurrentScore, days: int) -> dict[str, Any]:
    """Return the trend of a score, with the first and the last of its days."""
    # Days are counted back from the last scored event and not from today, so that an answer names its days.
    shown = score.levels[-days:]
    ends = {"from": shown[0].period, "to": shown[-1].period} if shown else {"from": None, "to": None}
    return summary.trend_of(score, days) | ends


def _trend_row(score: CurrentScore, answer: Fields, config: Config) -> tuple[Any, ...]:
    trend, forecast = (answer["trend"] or {}, answer["forecast"] or {}) if score.is_shown else ({}, {})
    last: Any = NO_DATA
    if score.levels:
        last = score.levels[-1].value if score.is_shown else format_level(score.levels[-1], config)
    numbers = [trend.get(key, "") for key in ("current_avg", "previous_avg", "delta", "delta_percent")]
    return (score.name, last, *numbers, forecast.get("next_7_days", ""), answer["to"] or "")


def _trend_sentences(score: CurrentScore, answer: Fields, days: int) -> Iterator[str]:
    """Yield the trend and the forecast of a score, nothing where too little of it was measured."""
    trend, forecast = answer["trend"], answer["forecast"]
    if not score.is_shown:
        return
    if trend is not None:
        yield (
            f"{trend['direction'].capitalize()}: {trend['current_avg']:.1f} on average of the last {days} days with "
            f"data, {trend['previous_avg']:.1f} of those before, {trend['delta_percent']:+.1f} %."
        )
    if forecast is None:
        yield "Not enough data for a forecast."
    else:
        sure = round(forecast["confidence"] * ALL)
        yield f"Forecast for the next 7 days: {forecast['next_7_days']}, with a confidence of {sure} %."


# A component, and the evidence of its score


def _show_component(query: ScoreQuery, component: Component) -> Answer:
    """Return the score of a component; with details or in a session also why, and what changed it."""
    state, config = query.state, query.state.config
    score = summary.current_scores(state)[component.id]
    days, latest = config.trends.short_term_days, score.latest
    answer: dict[str, Any] = {
        "component": score.id,
        "name": score.name,
        "date": latest and latest.period,
        "score": latest and latest.value,
        "grade": latest and scoring.grade_of(latest.value, config).name,
        "coverage": latest and latest.measured / 100,
        "trend": summary.trend_of(score, days),
    }
    sentences, tables = [*_trend_sentences(score, answer["trend"], days)], []
    if query.detail or query.session is not None:
        if query.session is not None:
            session = find_session(state, query.session)
        else:
            session = next((session for session in state.latest_sessions() if score.id in session.levels), None)
        answer["why"] = why = None if session is None else _explain(query, session, [component])[score.id]
        answer["changes"] = changes = summary.changes(state, component, days)
        sentences += [_change_sentence(changes)] if changes is not None else []
        if why is not None:
            title = f"In session {why['session_id']}, {format_time(why['timestamp'])}"
            rows = [(row["seq"], format_time(row["at"]), row["what"], _values(row["values"])) for row in why["events"]]
            events = Table("Events", ("event", "when", "what", "values"), rows)
            tables += [_parts_table(why, title, config), events]
    on = "" if latest is None else f" on {latest.period}"
    if latest is not None and score.is_shown and config.display.show_recommendations:
        grade = scoring.grade_of(latest.value, config)
        on += f": {grade.status}. {grade.action}"
    return answer, ScorePage(score.name, f"{format_level(latest, config)}{on}.", sentences=sentences, tables=tables)


def _change_sentence(changes: Fields) -> str:
    """Return what changed a component's score, the part that changed it most first."""
    parts = [f"{part['name']} {part['delta']:+.1f}" for part in changes["parts"] if part["delta"]]
    total = f"{changes['before']:.1f} to {changes['now']:.1f}"
    gave = ", ".join(parts) if parts else "no part gave more or less"
    return f"From {total} since the {changes['days']} days with data before: {gave}."


def _explain(query: ScoreQuery, scored: ScoredSession, components: Sequence[Component]) -> dict[str, dict[str, Any]]:
    """Return component → why it has its score in a session."""
    view = summary.evidence_view(scored.id, with_playbook=any(part.id == PLAYBOOK for part in components))
    records = fold_history(view, moments.history_at(query.project, query.when)).records
    session, config = query.state.session(scored.id), query.state.config
    return {part.id: summary.explain(session, part, config, records) for part in components}


def _parts_table(why: Fields, what: str, config: Config) -> Table:
    """Return the parts of a component's score in a session."""
    score = None if why["score"] is None else Level("", why["score"], round(why["coverage"] * ALL))
    rows = [
        (
            part["name"],
            NO_DATA if part["points"] is None else _shorten(part["points"]),
            _shorten(part["weight"]),
            "" if part["gives"] is None else _shorten(part["gives"]),
            _values(part["values"], part["name"]) if part["measured"] else "not measured",
            " ".join(map(str, part["events"])),
        )
        for part in why["parts"]
    ]
    columns = ("metric", "points", "weight", "gives", "measured", "events")
    return Table(f"{what}: {format_level(score, config)}", columns, rows)


def _shorten(number: float) -> float:
    """Return a number that is printed without ``.0``."""
    return int(number) if number == int(number) else number


def _values(measured: Fields, name: str = "") -> str:
    """Return what was measured, ``implemented 10, successful 9``; the number alone where it has the given name."""
    if set(measured) == {name}:
        return f"{measured[name]:g}"
    return ", ".join(f"{name} {value:g}" for name, value in measured.items())


# Gates

FEED: Final = (
    "no score to judge has enough data: run `tallybook score record FILE` to record some, or pass --allow-no-data"
)


def ask_gate(project: Project, query: trends.GateQuery, when: Moment | None = None) -> tuple[trends.Gate, Scores]:
    """Return the answer of a gate, and the scores that it has looked at.

    Raises:
        BadInputError: There is no such score.
    """
    state = state_of(project, when=when)
    if query.score_id is not None:
        score_id = score_named(state.config, query.score_id, "--component")
        query = query._replace(score_id=score_id)
    return trends.gate(trends.histories(state), state.config, query), state
