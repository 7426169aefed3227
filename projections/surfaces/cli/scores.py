"""The verbs of the scores: measurements in, scores, gates and baselines out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO, BadInputError, NothingToDoError
from tallybook.ledger.events import BaselineSet
from tallybook.ledger.names import format_names
from tallybook.projections.scores import scoring, summary, trends
from tallybook.projections.scores.config import LOG
from tallybook.projections.scores.view import Scores
from tallybook.projections.surfaces.cli import parameters as common
from tallybook.projections.surfaces.cli.parameters import find_moment
from tallybook.projections.surfaces.console.output import METER, answer, complain, format_count, note, reply, say, write
from tallybook.projections.surfaces.history.playbook_file import describe
from tallybook.projections.surfaces.scores import answers, configuration
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.scores.files import refresh
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores.read import IngestReport

_EXAMPLES = 5
_TYPES_SHOWN = 10
_ALERTS_SHOWN = 5

NOUNS: Final = {
    "metrics.recorded": ("measurement",),
    "benchmark.recorded": ("benchmark result",),
    "feedback.recorded": ("feedback score",),
    "baseline.set": ("baseline",),
    "session.ended": ("end of a session", "ends of sessions"),
    "telemetry.kept": ("unscored telemetry event",),
}
"""Kind of event that `score record` records → its noun, and the plural where that is not regular."""


def _report_lines(report: IngestReport) -> Iterator[str]:
    """Yield the answer for people, a line each: first what is in no score."""
    if report.unscored:
        why = answers.list_counts(report.unscored, answers.REASONS_SHOWN, "reasons")
        yield f"in no score: {why}; `tallybook score --config` shows what is scored"
    if report.recorded:
        *counts, last = [format_count(count, *NOUNS[kind]) for kind, count in report.recorded.most_common()]
        nouns = " and ".join(filter(None, (", ".join(counts), last)))
        events = "event" if report.seq_from == report.seq_to else f"events {report.seq_from} to"
        yield f"recorded {nouns} as {events} {report.seq_to}"
    if report.repeated:
        yield f"{report.repeated:,} recorded before"
    if report.spooled:
        yield "another process holds the ledger; spooled, the next command that writes records it"
    if report.kept:
        kept = {type_ or "without a type": count for type_, count in report.kept.items()}
        yield f"recorded, but in no score: {answers.list_counts(kept, _TYPES_SHOWN, 'types')}"


@click.command(
    "score record",
    cls=common.Verb,
    example="tallybook score record .claude/logs/*.jsonl; tallybook score record startup_ms=8000",
)
@click.argument("files", metavar="[FILE|NAME=VALUE]...", nargs=-1)
@click.option("--session", metavar="ID", help="Use this session for items without one.")
@click.option("--component", metavar="ID", help="Use this component for items without one.")
def metrics(project: Project, /, *, files: tuple[str, ...], as_json: bool, **options: str | None) -> int:
    """Record metrics and benchmarks of the agent.

    Feedback, baselines, ends of sessions and telemetry are recorded as well. A FILE holds JSON Lines, an array or one
    object, compressed with gzip or not; without arguments, or with -, standard input is read. The same file a second
    time adds nothing. A bad line is reported, and the others are recorded.

    --json answers {recorded, repeated, kept, problems, more_problems, seq_from, seq_to, spooled, unscored}
    """
    # Its modules, which write and mask secrets, are not for the other verbs.
    from tallybook.projections.surfaces.scores import read

    words = [word for word in files if read.is_typed(word)]
    names = [word for word in files if not read.is_typed(word)] or ([] if words else ["-"])
    if "-" in names:
        common.announce_input("what was measured, as JSON")
    sources: list[Iterable[Any]] = [list(read.parse_typed(words)), *map(read.items, names)]
    common.provenance_of({"session": options["session"]})
    given = (options["session"] or "", options["component"])
    report = read.feed(project, sources, lambda done: METER.update(done, 0), *given)
    code = 0 if report.read_count else EXIT_BAD_INPUT
    if as_json:
        answer(report.as_json())
        return code
    if code:
        first = str(report.problems[0]) if report.problems else "there is no object"
        return complain(f"nothing could be read; {first}", code)
    more = len(report.problems) + report.more_problems - _EXAMPLES
    note(*map(str, report.problems[:_EXAMPLES]))
    if more > 0:
        note(f"and {more:,} more of what was odd; --json lists {'many' if report.more_problems else 'all'} of it")
    say(*_report_lines(report))
    return code


_CURRENT: Final = "\0current"
"""The value of `--session` without an ID; no session has this id."""
_DATED: Final = "\0dated"
"""The value of `--export` without a FILE; no file has this name."""
_PERIODS: Final = ("session", "daily", "weekly", "monthly", "feed", "configured")
# No option is left out of the answer in silence.
_WITHOUT: Final = {"feed": ("component", "detail", "export"), "configured": ("component", "detail", "export", "when")}
"""Option → those that its answer would ignore, as well as the others of _PERIODS."""
_SPELLED: Final = {"configured": "config", "when": "at"}


def _choose_period(options: Mapping[str, Any]) -> str:
    """Return which of the mutually exclusive answers the user chose, empty for none.

    Raises:
        BadInputError: Several are, or an option that the answer would ignore.
    """
    given = {name for name, value in options.items() if value is not None and value is not False}
    period, *others = [*(name for name in _PERIODS if name in given), ""]
    clashing = [name for name in (*others, *_WITHOUT.get(period, ())) if name in given]
    if clashing:
        names = " and ".join(f"--{_SPELLED.get(name, name)}" for name in (period, clashing[0]))
        raise BadInputError(names, "exclude each other", "give one of them")
    return period


def _print_configuration(project: Project, *, as_json: bool) -> None:
    """Print the configuration in force; the packaged one, with an error, where the project's own is invalid."""
    try:
        text, document = configuration.read_effective(project)
    # Each error in the file tells people to run this command, which therefore answers in spite of the error.
    except BadInputError as error:
        write(configuration.PACKAGED.read_text(encoding="utf-8").removesuffix("\n") + "\n")
        raise BadInputError(str(error).partition(";")[0], "the default is printed") from error
    answer(document) if as_json else write(text.removesuffix("\n") + "\n")


@click.command(cls=common.Verb, example="tallybook score --component ac06 --detail")
@click.option(
    "--session", metavar="[ID]", is_flag=False, flag_value=_CURRENT, help="Show a session; without ID, the current one."
)
@click.option("--daily", is_flag=True, help="Show the latest day with data.")
@click.option("--weekly", is_flag=True, help="Show the trend of the last 7 days with data.")
@click.option("--monthly", is_flag=True, help="Show the trend of the last 30 days with data.")
@click.option("--component", metavar="ID", help="Show one component, such as ac06.")
@click.option("--detail", is_flag=True, help="Show the inputs of each score.")
@click.option("--export", metavar="[FILE]", is_flag=False, flag_value=_DATED, help="Write the answer as Markdown.")
@click.option("--feed", is_flag=True, help="Print the data of a dashboard as JSON.")
@click.option("--config", "configured", is_flag=True, help="Print the configuration in force as YAML.")
@common.at_when
def score(project: Project, /, **options: Any) -> None:
    """Show the scores of the agent.

    A trend takes the last 7 or 30 days that have data, whatever day it is today. Score files that are out of date are
    written again. With `enabled: false` under `scoring:` in scoring-config.yaml, the answer is that scoring is off.

    --json answers {date, component_scores, session_scores, grade, coverage, days, trend, focus}; for a session or a day
    the content of its file, and coverage; for a trend {metric, period, data, trend, forecast, from, to}; where scoring
    is off {enabled}
    """
    period = _choose_period(options)
    if period == "configured":
        _print_configuration(project, as_json=options["as_json"])
        return
    config = configuration.load(project)
    named = options["component"]
    component = None if named is None else answers.find_component(config.components, named)
    # No old score is shown, so that none looks current.
    if not config.enabled:
        answer({"enabled": False}) if options["as_json"] or period == "feed" else say(scoring.SCORING_OFF)
        return
    when = find_moment(project, options["when"])
    state = state_of(project, config, when)
    # The files show the end of the ledger, and an earlier moment does not set them back.
    note(*([] if when else refresh(project, state)), *commands.spool_notes(project))
    _note_low(state, when)
    if period == "feed":
        answer(summary.feed(state))
        return
    session = None if options["session"] == _CURRENT else options["session"]
    query = answers.ScoreQuery(project, state, when, options["detail"], component, session)
    result, page = answers.look(query, period)
    if options["export"] is not None:
        if when is not None:
            moment = f"As of {describe(state, when.seq, when.named)}."
            page = page._replace(sentences=(*page.sentences, moment))
        data = answers.markdown(page).encode()
        if options["export"] == "-":
            sys.stdout.buffer.write(data)
            return
        dated_name = f"scores-{max(state.days, default='none')}.md"
        output = Path(dated_name if options["export"] == _DATED else options["export"])
        commands.write_copy(project, output, lambda: data)
        reply({"path": str(output), "result": "written"}, [f"{output} written"], as_json=options["as_json"])
    elif options["as_json"]:
        answer(result)
    else:
        # rich takes a while to import, and JSON and Markdown do without it.
        from tallybook.projections.surfaces.console import terminal
        from tallybook.projections.surfaces.scores import screen

        screen.show(terminal.console_for(), page)
        # Under the box, which is that of the specification.
        is_summary = not period and component is None and when is None
        say(*filter(None, [page.day, configuration.line(project) if is_summary else ""]))


def _note_low(state: Scores, when: Moment | None) -> None:
    """Print the line for a log about low scores, as long as these are the present ones."""
    if when is None and state.config.enabled:
        low = summary.low_scores(summary.current_scores(state), state.config, LOG)
        # Two long sentences about each score hid which one it was: a log gets one line.
        shown = [f"{alert['score']} is {alert['value']} on {alert['day']} ({alert['level']})" for alert in low]
        note(*([f"low scores: {format_names(shown, _ALERTS_SHOWN)}"] if low else []))


_POINTS: Final = common.Number(0, 100)


def gate_options(command: common.Command) -> common.Command:
    """Give a verb the options of a gate."""
    for option in (
        click.option("--allow-no-data", is_flag=True, help="Open the gate if no score has data."),
        click.option(
            *("--no-drop", "greatest_drop"),
            metavar="N",
            type=_POINTS,
            help="Close it if over N points below baseline or last session.",
        ),
        click.option("--min", "minimum", metavar="N", type=_POINTS, help="Close the gate below N points."),
        click.option("--component", "score_id", metavar="ID", help="Check this component; without it, all of them."),
    ):
        command = option(command)
    return command


@click.command("score gate", cls=common.Verb, example="tallybook score gate --component ac06 --min 75 --no-drop 3")
@gate_options
@common.at_when
def gate_verb(project: Project, /, *, when: str | None, as_json: bool, **options: Any) -> int:
    """Exit with 0 if the scores let the agent evolve, else 1.

    A critical score closes every gate. A score below 70 closes only the gate of its own component. A regression closes
    the gate until `tallybook score baseline` acknowledges it or a later session scores high enough. The bounds are in
    scoring-config.yaml. A gate judges the latest session that has a score. Where none of the scores has data, the gate
    is closed. Where scoring is off, it is open.

    --json answers {open, day, reasons}, a reason {rule, score_id, value, bound, text, closes, day}
    """
    moment = find_moment(project, when)
    gate, state = answers.ask_gate(project, trends.GateQuery(**options), moment)
    _note_low(state, moment)
    reasons = [reason._asdict() for reason in gate.reasons]
    lines = _gate_lines(gate) if state.config.enabled else [f"  {scoring.SCORING_OFF}"]
    value = {"open": gate.open, "day": gate.day or None, "reasons": reasons}
    reply(value, ("open" if gate.open else "closed", *lines), as_json=as_json)
    return 0 if gate.open else EXIT_NO


def _gate_lines(gate: trends.Gate) -> Iterator[str]:
    """Yield what closes a gate, a line for each reason, and how many scores do."""
    if any(reason.closes and reason.bound is None for reason in gate.reasons):
        yield f"- {answers.FEED}"
    # A list of all scores without data is not about any of them.
    yield from (f"{'- ' if reason.closes else '  '}{reason.text}" for reason in gate.reasons if reason.score_id)
    closing = {reason.score_id for reason in gate.reasons if reason.closes and reason.bound is not None}
    regressed = any(reason.rule in trends.METHODS for reason in gate.reasons)
    hint = "; `tallybook score baseline SCORE` acknowledges a drop" if regressed else ""
    yield f"  {len(closing) or 'none'} of {gate.scored} scores close it, {gate.without_data} have no data{hint}"
    if gate.day:
        yield f"  the latest score is of {gate.day}"


@click.command(
    "score baseline",
    cls=common.Verb,
    rater="human",
    example="tallybook score baseline ac06 --reason 'the new prompt is worth it'",
)
@click.argument("score", required=False)
@click.option("--value", metavar="N", type=_POINTS, help="Set N, 0 to 100; else the score of the latest session.")
@common.with_reason
def baseline(
    project: Project, /, *, score: str | None, value: float | None, reason: str, as_json: bool, **by: Any
) -> None:
    """Set the value that a score is compared with.

    SCORE is a component or overall; without it, the baselines are listed. A new baseline acknowledges the drops so far,
    and they no longer close a gate.

    --json answers {score, value, seq}; without SCORE [{score, value, day, seq}]
    """
    config = configuration.load(project)
    if score is None:
        rows = [
            {"score": name, "value": baseline.value, "day": str(baseline.day), "seq": baseline.seq}
            for name, baseline in state_of(project, config).baselines.items()
        ]
        lines = [f"{row['score']}  {row['value']:g}  since {row['day']}, event {row['seq']}" for row in rows]
        reply(rows, lines or ["no score has a baseline; `tallybook score baseline SCORE` sets one"], as_json=as_json)
        return
    score_id = configuration.score_named(config, score, "score baseline")
    if value is None:
        histories = trends.histories(state_of(project, config))
        latest = next(history.latest for history in histories if history.score_id == score_id)
        if latest is None:
            raise NothingToDoError(score_id, "has no data and so no value for a baseline", "give --value N")
        value = latest.value
    event = BaselineSet(score_id, value, reason)
    outcome = commands.record_request(project, Request(PlainEvents((event,)), common.provenance_of(by)))
    answered = {"score": event.score, "value": event.value, "seq": outcome.seq_from}
    reply(answered, [f"baseline of {event.score} set to {event.value:g}"], as_json=as_json)
