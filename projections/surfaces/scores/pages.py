"""What the verb `score` answers, as a page for people, which becomes a screen or a Markdown file."""

from __future__ import annotations

from itertools import islice
from math import ceil
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.scores import summary
from tallybook.projections.scores.config import SESSION
from tallybook.projections.scores.files import OVERALL_ID, grade_name
from tallybook.projections.scores.scoring import USER, grade_of, is_enough, number
from tallybook.projections.scores.trends import NOT_ENOUGH
from tallybook.projections.scores.view import UNSCORED_TYPE
from tallybook.projections.surfaces.console.output import escape, format_count, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallybook.projections.scores.config import Config, Metric
    from tallybook.projections.scores.inputs import Session
    from tallybook.projections.scores.summary import CurrentScore, Focus
    from tallybook.projections.scores.view import Scores, Series

    Answer = Mapping[str, Any]

_REASONS_SHOWN: Final = 4
_SESSIONS_SHOWN: Final = 3
_HINTS: Final = {
    "no session": "`tallybook score record --session ID` names the session",
    "no component": "`tallybook score record --component ID` names the component",
}
"""Why an event is in no score → what to do."""


def reasons(counts: Sequence[tuple[str, int]]) -> str:
    """Return the first few reasons why events are in no score, each with how many there are."""
    shown = [f"{why} ({count:,})" for why, count in counts[:_REASONS_SHOWN]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f", and {more} other reasons" if more else "")


def omissions(state: Scores) -> Iterator[str]:
    """Yield how many events that measure something are in no score, and why, the most frequent reason first."""
    # Most telemetry measures no score, so it is no omission.
    if measured := _by_frequency(state, telemetry=False):
        yield f"Measured, and in no score: {reasons(measured)}."


def explanation(state: Scores) -> Iterator[str]:
    """Yield what was recorded and why none of it is in a score, where nothing has a score; nothing if nothing was."""
    yield from omissions(state)
    if others := _by_frequency(state, telemetry=True):
        yield f"Recorded, and no measurement: {reasons(others)}."
    yield from (f"For {why}: {hint}." for why, hint in _HINTS.items() if why in state.unscored)
    sessions = list(islice(state.sessions.latest(), _SESSIONS_SHOWN + 1))
    for session in sessions[:_SESSIONS_SHOWN]:
        yield from _lacking(session, state)
    if len(sessions) > _SESSIONS_SHOWN:
        yield "Other sessions have no score either."


def _by_frequency(state: Scores, *, telemetry: bool) -> list[tuple[str, int]]:
    """Return why events are in no score and how many there are, the most frequent reason first."""
    counts = [one for one in state.unscored.items() if one[0].startswith(UNSCORED_TYPE) is telemetry]
    return sorted(counts, key=lambda one: (-one[1], one[0]))


def _lacking(session: Session, state: Scores) -> Iterator[str]:
    """Yield what a session without a score has of each component, and what its score would need."""
    known = [state.config.components[name] for name in session.components if name in state.config.components]
    for component in known:
        values = ", ".join(session.measured(component)) or "no metrics"
        # An empty table said nothing of why a component had no score.
        needs = "; or ".join(map(_needed, component.metrics))
        yield f"Session {session.id} has {values} of {component.id}, whose score needs {needs}."
    if not session.components:
        yield f"Session {session.id} has nothing measured of a component."


def _needed(metric: Metric) -> str:
    """Return the values that a metric is made of."""
    return f"{metric.of} and {metric.per}" if metric.per else metric.of


NOTHING: Final = "No scores yet: `tallybook score record` records what they are made of."
UNSCORED: Final = "No scores yet: what was recorded is in no score."
NO_DATA: Final = "no data"
ALL: Final = 100
ARROWS: Final = {"improving": "↑", "declining": "↓", "stable": "→"}
# The summary of the specification says last week.
BEFORE: Final = {7: "last week", 30: "last month"}
MOST_FOCUS: Final = 5
"""Focus areas that a page without details names."""


@attrs.frozen
class Bar:
    """A score as a bar.

    Attributes:
        name: Of what.
        value: 0 to 100; None for no data.
        grade: Its letter; empty where none is shown.
        direction: Of its trend; empty where none is known, or none is shown.
        style: A colour.
        measured: How much of its weight was measured, 0 to 100 percent; shown where it is not all, also without a
            value where that is too little for one.
        day: Its day, where that is not the page's; else empty.
    """

    name: str
    value: int | None
    grade: str = ""
    direction: str = ""
    style: str = ""
    measured: int = ALL
    day: str = ""

    @property
    def note(self) -> str:
        """Return the text after it: how much of it was measured where that is not all, and its day."""
        return ", ".join(filter(None, (coverage_note(self.measured), self.day)))


@attrs.frozen
class Table:
    """Rows of a table.

    Attributes:
        title: What it shows; empty for what the page does.
        columns: Their headings.
        rows: Texts and numbers, one for each column.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@attrs.frozen
class Page:
    """An answer for people; a part that is empty is not shown.

    Attributes:
        title: What it is about.
        heading: The result in one line.
        bars: Scores as bars.
        chart: A score day by day.
        sentences: What there is to say, a paragraph each.
        tables: Tables.
        focus: What deserves attention, a paragraph each.
        framed: Whether it is drawn in a box where there is room.
        day: The day or span of its scores, in a sentence under the box; empty where the heading or title names it.
        alerts: What a user is to be answer before anything else, a paragraph each.
    """

    title: str
    heading: str = ""
    bars: tuple[Bar, ...] = ()
    chart: Series | None = None
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    focus: tuple[str, ...] = ()
    framed: bool = False
    day: str = ""
    alerts: tuple[str, ...] = ()


def graded(value: float | None, config: Config) -> str:
    """Return a score with its letter: ``87 (B)``."""
    if value is None:
        return NO_DATA
    grade = letter(value, config)
    return f"{value:g} ({grade})" if grade else f"{value:g}"


def coverage_note(measured: int | None) -> str:
    """Return how much of a score's weight was measured, ``60 % measured``; empty where that is all, or is not known."""
    return "" if measured is None or measured >= ALL else f"{measured} % measured"


def with_coverage(value: float | None, measured: int, config: Config) -> str:
    """Return a score with its letter, and how much of it was measured.

    ``87 (B), 60 % measured``, or ``not enough measured (3 %)`` where that holds.
    """
    if value is None:
        return NO_DATA
    if not is_enough(measured, config.display.min_coverage):
        return not_enough(measured)
    return ", ".join(filter(None, (graded(value, config), coverage_note(measured))))


def not_enough(measured: int) -> str:
    """Return the text for a score of which too little was measured: ``not enough measured (3 %)``."""
    return f"{NOT_ENOUGH} ({measured} %)"


def change_text(trend: Answer | None, days: int) -> str:
    """Return how a score changed over so many days: ``↑ +2.5 from last week``."""
    if trend is None:
        return "(not enough data for a trend)"
    return f"{ARROWS[trend['direction']]} {trend['delta']:+.1f} from {BEFORE.get(days, f'the {days} days before')}"


def summary_page(state: Scores, answer: Answer, *, detail: bool) -> Page:
    """Return the summary, in the box of "Summary Format".

    Args:
        state: What was scored, counted.
        answer: As `summary.summary` has it.
        detail: Whether composites and every focus area are shown as well.
    """
    config, current = state.config, summary.current_scores(state)
    if answer["date"] is None:
        return nothing_page(state, framed=True)
    whole = current[OVERALL_ID]
    shown = config.display.show_trends and whole.is_shown
    change = f"  {change_text(answer['trend']['trend'], config.trends.short_term_days)}" if shown else ""
    areas = summary.focus(current.values(), config)
    shown_focus = (areas if detail else areas[:MOST_FOCUS]) if config.display.show_recommendations else []
    lines = [focus_line(one) for one in shown_focus]
    more = len(areas) - len(lines) if lines else 0
    # The scores may be of any day: the box alone would look like today's.
    day = whole.day or answer["date"]
    return Page(
        config.title,
        f"Overall: {with_coverage(whole.value, whole.measured, config)}{change}",
        tuple(_bar(one, config, day) for one in current.values() if detail or one.id in config.components),
        sentences=tuple(omissions(state)) if detail else (),
        focus=(*lines, *([f"and {more} more; --detail names them."] if more else [])),
        framed=True,
        day=f"Scores of {day}.",
        alerts=tuple(alert_lines(current, config)),
    )


def alert_lines(current: Mapping[str, CurrentScore], config: Config) -> Iterator[str]:
    """Yield the alerts of the channel ``user``, the worst first: ``AC-06 is 45 on 2026-01-16, below …``."""
    reached = summary.low_scores(current, config, USER)
    for one in sorted(reached, key=lambda alert: alert.value)[:MOST_FOCUS]:
        score = current[one.score_id]
        yield f"{score.name} is {number(one.value)} on {score.day}, below {number(one.below)} ({one.level})."
    if len(reached) > MOST_FOCUS:
        yield f"and {len(reached) - MOST_FOCUS} more."


def nothing_page(state: Scores, *, framed: bool = False) -> Page:
    """Return the page for a ledger without scores: what was recorded, and why none of it is scored."""
    why = tuple(explanation(state))
    return Page(state.config.title, UNSCORED if why else NOTHING, sentences=why, framed=framed)


def _bar(one: CurrentScore, config: Config, page_day: str) -> Bar:
    trend = one.trend if config.display.show_trends and one.value is not None and one.is_shown else None
    made = bar(one.name, one.value, config, one.measured, "" if trend is None else trend.direction)
    return made if one.day in {"", page_day} else attrs.evolve(made, day=one.day)


def bar(name: str, value: int | None, config: Config, measured: int, direction: str = "") -> Bar:
    """Return a score as a bar, coloured by its value, with how much of it was measured; no value where too little."""
    if value is not None and not is_enough(measured, config.display.min_coverage):
        return Bar(name, None, measured=measured)
    alerts = value is not None and value < max(level.below for level in config.levels)
    good = value is not None and value >= summary.target(config)
    style = "red" if alerts else "green" if good else "yellow"
    return Bar(name, value, letter(value, config), direction, style, ALL if value is None else measured)


def focus_line(one: Focus) -> str:
    """Return a focus area in a line: ``AC-07 R&D Cycles: Below target (75). Review needed.``."""
    below = [f"Below target ({one.value})."] if one.below else []
    declining = [] if one.drop is None else [f"Declining trend ({-one.drop:+.1f})."]
    return " ".join([f"{one.name}:", *below, *declining, f"{one.action}."])


def session_page(answer: Answer, config: Config, parts: Sequence[tuple[str, Answer]] = ()) -> Page:
    """Return the scores of a session.

    Args:
        answer: As its file has them, with ``coverage``.
        config: What scores are made of.
        parts: Name of a component → why it has its score there; none without details.
    """
    names = summary.names(config)
    version = [f"version {answer['version']}"] if answer["version"] else []
    scores = answer["component_scores"] | {
        f"{SESSION}{name}": value for name, value in answer["session_scores"].items()
    }
    measured = {name: percents(share) for name, share in answer["coverage"].items()}
    bars = [
        bar(names[name], scores.get(name), config, measured.get(name, ALL))
        for name in (*config.components, *(f"{SESSION}{name}" for name in config.sessions))
    ]
    whole = with_coverage(scores.get(OVERALL_ID), measured.get(OVERALL_ID, ALL), config)
    return Page(
        f"SESSION {answer['session_id']}",
        ", ".join([f"Overall: {whole}", f"{format_time(answer['timestamp'])}", *version]),
        tuple(bars),
        tables=tuple(parts_table(why, f"{name}: {_covered(why, config)}") for name, why in parts),
    )


def percents(share: float) -> int:
    """Return a share of 0 to 1, of whole percents, as percents."""
    return round(share * ALL)


def letter(value: float | None, config: Config) -> str:
    """Return the grade of a score, empty where none is shown."""
    return (grade_name(value, config) or "") if config.display.show_grades and value is not None else ""


def daily_page(answer: Answer, config: Config, only: str | None = None) -> Page:
    """Return the scores of a day, as its file has them, and ``coverage``; of a component alone where one is named."""
    names, count = summary.names(config), answer["sessions_count"]
    measured = {name: percents(share) for name, share in answer["coverage"].items()}
    enough = {name for name, percent in measured.items() if is_enough(percent, config.display.min_coverage)}
    # A score of which too little was measured has no letter and no trend for people, while JSON has its number.
    shown = OVERALL_ID not in measured or OVERALL_ID in enough
    ranges = dict(answer["component_averages"])
    if only is None:
        bounds = answer["session_ranges"]
        ranges |= {f"{SESSION}{name}": {"avg": avg, **bounds[name]} for name, avg in answer["session_averages"].items()}
    rows = tuple(
        (names[name], one["avg"], one["min"], one["max"], letter(one["avg"], config), f"{measured[name]} %")
        if name in enough
        else (names[name], NOT_ENOUGH, "", "", "", f"{measured[name]} %")
        for name, one in ranges.items()
    )
    overall = answer["session_averages"].get("overall")
    value = graded(overall, config) if shown else not_enough(measured[OVERALL_ID])
    change = change_text(answer["trend"], config.trends.short_term_days) if config.display.show_trends and shown else ""
    table = Table("", ("score", "avg", "min", "max", "grade", "measured"), rows)
    heading = format_count(count, "session") + ("" if only else f", Overall: {value}  {change}".rstrip())
    return Page(f"DAY {answer['date']}", heading, tables=(table,) if rows else (), sentences=() if rows else (NO_DATA,))


def trend_page(
    one: CurrentScore, answer: Answer, config: Config, days: int, others: Sequence[tuple[CurrentScore, Answer]] = ()
) -> Page:
    """Return the trend of a score over so many days.

    Args:
        one: The current score.
        answer: The trend as "Trend Output" has it, with the first and last day of its data, ``from`` and ``to``.
        config: What scores are made of.
        days: How many days.
        others: Other current scores, and their trends; none without details.
    """
    if not one.series:
        return Page(f"{one.name.upper()}, {days} DAYS", NO_DATA)
    rows = tuple(_trend_row(*other) for other in others)
    columns = ("score", "last", "average", "before", "change", "%", "forecast", "last day")
    return Page(
        f"{one.name.upper()}, {days} DAYS",
        f"{one.name}: {graded(answer['data'][-1], config)}  {change_text(answer['trend'], days)}"
        if one.is_shown
        else f"{one.name}: {not_enough(one.measured)}",
        # Both sides that the trend compares.
        chart=one.shown[-2 * days :],
        sentences=tuple(trend_sentences(answer, days)) if one.is_shown else (),
        tables=(Table("", columns, rows),) if rows else (),
        day=f"Days with data from {answer['from']} to {answer['to']}.",
    )


def _trend_row(one: CurrentScore, answer: Answer) -> tuple[Any, ...]:
    if not one.is_shown:
        return (one.name, not_enough(one.measured), "", "", "", "", "", answer["to"])
    trend, forecast = answer["trend"], answer["forecast"]
    keys = ("current_avg", "previous_avg", "delta", "delta_percent")
    numbers = ("" if trend is None else trend[key] for key in keys)
    last = answer["data"][-1] if answer["data"] else NO_DATA
    return (one.name, last, *numbers, "" if forecast is None else forecast["next_7_days"], answer["to"] or "")


def trend_sentences(answer: Answer, days: int) -> Iterator[str]:
    """Yield sentences on a trend and its forecast."""
    trend, forecast = answer["trend"], answer["forecast"]
    if trend is not None:
        yield (
            f"{trend['direction'].capitalize()}: {trend['current_avg']:.1f} on average of the last {days} days with "
            f"data, {trend['previous_avg']:.1f} of those before, {trend['delta_percent']:+.1f} %."
        )
    if forecast is None:
        yield "Not enough data for a forecast."
    else:
        sure = round(forecast["confidence"] * 100)
        yield f"Forecast for the next 7 days: {forecast['next_7_days']}, with a confidence of {sure} %."


def component_page(one: CurrentScore, answer: Answer, config: Config) -> Page:
    """Return the score of a component; with details also why, and what changed it.

    Args:
        one: The current score.
        answer: As ``score --component`` answers it.
        config: What scores are made of.
    """
    heading = (
        f"{NO_DATA}."
        if one.value is None
        else f"{with_coverage(one.value, one.measured, config)} on {one.day}{_advice(one, config)}."
    )
    why = answer.get("why")
    trend = trend_sentences(answer["trend"], config.trends.short_term_days) if one.is_shown else ()
    return Page(
        one.name,
        heading,
        chart=one.shown[-2 * config.trends.long_term_days :] or None,
        sentences=(*trend, *_changes(answer.get("changes"))),
        tables=(*why_tables(why, config),) if why else (),
    )


def _advice(one: CurrentScore, config: Config) -> str:
    """Return the status and action of the grade, where they are shown: ``: Good. Minor improvements``."""
    grade, display = grade_of(one.value if one.is_shown else None, config.grades), config.display
    if grade is None:
        return ""
    status = grade.status if display.show_grades else ""
    advice = ". ".join(filter(None, (status, grade.action if display.show_recommendations else "")))
    return f": {advice}" if advice else ""


def why_tables(why: Answer, config: Config) -> Iterator[Table]:
    """Yield what gave a component's score in a session: its parts, and the events."""
    title = f"In session {why['session_id']}, {format_time(why['timestamp'])}: {_covered(why, config)}"
    yield parts_table(why, title)
    rows = tuple((row["seq"], format_time(row["at"]), row["what"], values(row["values"])) for row in why["events"])
    if rows:
        yield Table("Events", ("event", "when", "what", "values"), rows)


def _covered(why: Answer, config: Config) -> str:
    """Return a score with how much of it was measured: ``87 (B), 85% of its weight measured``."""
    measured = percents(why["coverage"])
    if why["score"] is not None and not is_enough(measured, config.display.min_coverage):
        return not_enough(measured)
    return f"{graded(why['score'], config)}, {measured}% of its weight measured"


def parts_table(why: Answer, title: str) -> Table:
    """Return the parts of a component's score."""
    rows = tuple(
        (
            part["name"],
            NO_DATA if part["points"] is None else f"{part['points']:g}",
            f"{part['weight']:g}",
            "" if part["gives"] is None else f"{part['gives']:g}",
            _values_of(part) if part["measured"] else "not measured",
            " ".join(map(str, part["events"])),
        )
        for part in why["parts"]
    )
    return Table(title, ("metric", "points", "weight", "gives", "measured", "events"), rows)


def _values_of(part: Answer) -> str:
    measured = part["values"]
    return f"{measured[part['name']]:g}" if set(measured) == {part["name"]} else values(measured)


def values(measured: Answer) -> str:
    """Return what was measured: ``implemented 10, successful 9``."""
    return ", ".join(f"{name} {value:g}" for name, value in measured.items())


def _changes(changes: Answer | None) -> Iterator[str]:
    if changes is None:
        return
    parts = [f"{part['name']} {part['delta']:+.1f}" for part in changes["parts"] if part["delta"]]
    total = f"{changes['before']:.1f} to {changes['now']:.1f}"
    since = f"the {changes['days']} days with data before"
    yield f"From {total} since {since}: {', '.join(parts) if parts else 'no part gave more or less'}."


ROWS: Final = 6
MAX_COLUMNS: Final = 62
_STEP: Final = 10
_LABEL: Final = 3
_DAY: Final = len("2026-01-16")
_FULL: Final = 100


def plot(series: Series, width: int, *, utf: bool) -> list[str]:
    """Return the lines of a chart, none wider than ``width``; the latest days where not all fit.

    Args:
        series: Days with data in order, one or more, each with a score from 0 to 100.
        width: Columns, from 10.
        utf: Whether there are other characters than ASCII.
    """
    # It loads rich, which JSON does without.
    from tallybook.projections.surfaces.console.chart import GLYPHS, LINES

    room = min(width - _LABEL - 2, MAX_COLUMNS)
    shown = list(series)[-room:]
    wide = max(room // len(shown), 1) if len(shown) > 1 else 1
    scores = [value for _, value in shown]
    least, most = bounds(scores)
    lines, glyphs = LINES[utf], GLYPHS[utf][0]
    unit = (most - least) / ROWS
    rows = []
    for row in reversed(range(ROWS)):
        fills = [min(max((value - least) / unit - row, 0), 1) for value in scores]
        cells = "".join(glyphs[ceil(fill * (len(glyphs) - 1))] * wide for fill in fills)
        label = most if row == ROWS - 1 else ""
        rows.append(f"{label:>{_LABEL}} {lines.bar if label == '' else lines.tick}{cells}".rstrip())
    drawn = wide * len(shown)
    rows.append(f"{least:>{_LABEL}} {lines.cross}{lines.dash * drawn}")
    first, last = shown[0][0].isoformat(), shown[-1][0].isoformat()
    ends = last if first == last else f"{first}{last.rjust(max(drawn - _DAY, _DAY + 1))}"
    margin = " " * min(_LABEL + 2, max(width - len(ends), 0))
    return [*rows, *(f"{margin}{ends}".split() if len(ends) > width else [f"{margin}{ends}"])]


def bounds(scores: Sequence[int]) -> tuple[int, int]:
    """Return the scores at the bottom and the top: whole tens around the scores, so that a low score has a bar."""
    least = max((min(scores) - 1) // _STEP * _STEP, 0)
    return least, min(max(-(-max(scores) // _STEP) * _STEP, least + _STEP), _FULL)


_MARKS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")
_COLUMNS: Final = 72


def markdown(page: Page) -> str:
    """Return a page as markdown; no text in it is markup of its own."""
    blocks = [f"# {_plain(page.title)}", *(f"**{_plain(alert)}**" for alert in page.alerts), _plain(page.heading)]
    blocks.append(_plain(page.day))
    if page.bars:
        rows = [
            (bar.name, NO_DATA if bar.value is None else bar.value, bar.grade, ARROWS.get(bar.direction, ""), _of(bar))
            for bar in page.bars
        ]
        blocks.append(_table(("Score of", "Points", "Grade", "Trend", "Measured"), rows))
    if page.chart:
        blocks.append("\n".join(["```text", *plot(page.chart, _COLUMNS, utf=True), "```"]))
    blocks += map(_plain, page.sentences)
    for table in page.tables:
        blocks += [f"## {_plain(table.title)}"] if table.title else []
        blocks.append(_table(table.columns, table.rows))
    if page.focus:
        blocks += ["## Focus areas", "\n".join(f"- {_plain(line)}" for line in page.focus)]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _of(bar: Bar) -> str:
    return ", ".join(filter(None, (f"{bar.measured} %" if bar.value is not None or bar.note else "", bar.day)))


def _plain(value: Any) -> str:
    # Names and ids are what somebody recorded, and could be markup.
    return _MARKS.sub(r"\\\1", escape(value))


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines: Iterator[Sequence[Any]] = iter([columns, ["---"] * len(columns), *rows])
    return "\n".join(f"| {' | '.join(cell if cell == '---' else _plain(cell) for cell in row)} |" for row in lines)
