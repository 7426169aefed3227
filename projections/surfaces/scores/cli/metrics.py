"""The verb `metrics`: records measurements of an agent, from files, from a pipe, or typed."""

from __future__ import annotations

from datetime import UTC, datetime
import os
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from tallybook.ledger.errors import EXIT_BAD_INPUT, BadInputError
from tallybook.ledger.telemetry import lenient
from tallybook.projections.surfaces.console.options import announce_input, as_json, provenance_of
from tallybook.projections.surfaces.console.output import METER, answer, complain, note, say
from tallybook.projections.surfaces.scores.ingest import Defaults, IngestReport, feed
from tallybook.projections.surfaces.scores.ingest_files import Item, items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    from tallybook.projections.surfaces.workspace.project import Project

_EXAMPLES = 5
_TYPES_SHOWN = 10

NOUNS: Final = {
    "metrics.recorded": ("measurement", "measurements"),
    "benchmark.recorded": ("benchmark result", "benchmark results"),
    "feedback.recorded": ("feedback score", "feedback scores"),
    "baseline.set": ("baseline", "baselines"),
    "session.ended": ("end of a session", "ends of sessions"),
    "telemetry.kept": ("unscored telemetry event", "unscored telemetry events"),
}
"""Kind of event that `metrics` records → the words for one of them, and for several."""


def typed(words: Sequence[str]) -> Iterator[Item]:
    """Yield the metrics that were typed as NAME=VALUE, all as one object.

    Raises:
        BadInputError: A value is no number.
    """
    pairs = [word.partition("=")[::2] for word in words]
    for name, value in pairs:
        if not name or lenient.read_number(value) is None:
            hint = "give NAME=NUMBER, or true or false; there is no file of that name"
            raise BadInputError(f"{name}={value}", "is not a metric", hint)
    if pairs:
        yield Item({"metrics": dict(pairs)}, "command line", "", 0)


def is_typed(word: str) -> bool:
    """Return whether an argument is a metric rather than a file."""
    return "=" in word and not os.path.exists(word)  # noqa: PTH110 - what is no path at all is no file either


def defaults(session: str | None, component: str | None, zone: str | None = None) -> Defaults:
    """Return the session, component and time zone of objects that name none.

    Raises:
        BadInputError: One of them is not a valid name.
    """
    provenance_of({"session": session})
    if component is not None and (not (name := lenient.read_name(component)) or name.startswith(lenient.DIGEST_PREFIX)):
        most = lenient.MAX_NAME_CHARS
        raise BadInputError("--component", f"needs 1 to {most} printable characters", "nothing was recorded")
    return Defaults(session or "", component or "", UTC if zone is None else _zone_named(zone))


def _zone_named(name: str) -> tzinfo:
    """Return the time zone of a name, such as Europe/Berlin, or of an offset, such as +02:00.

    Raises:
        BadInputError: There is none.
    """
    try:
        if name[:1] in {"+", "-"}:
            return datetime.strptime(name, "%z").tzinfo or UTC
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        hint = "give a name such as Europe/Berlin, or an offset such as +02:00; nothing was recorded"
        raise BadInputError(f"--tz {name}", "is not a time zone", hint) from error


def report_json(report: IngestReport) -> dict[str, Any]:
    """Return the answer of ``--json``."""
    problems = [{"source": one.source, "message": one.message} for one in report.problems]
    return {
        "recorded": dict(report.recorded.most_common()),
        "repeated": report.repeated,
        "kept": dict(report.unscored_types.most_common()),
        "problems": problems,
        "more_problems": report.more,
        "seq_from": report.seq_from,
        "seq_to": report.seq_to,
        "spooled": bool(report.spooled),
        "unscored": dict(report.unscored.most_common()),
    }


def lines(report: IngestReport) -> Iterator[str]:
    """Yield the answer for people, a line each: first what is in no score."""
    if report.unscored:
        from tallybook.projections.surfaces.scores.render.omissions import reasons

        yield f"in no score: {reasons(report.unscored.most_common())}; `tallybook score --config` shows what is scored"
    if report.recorded:
        counts = [f"{count:,} {NOUNS[kind][count != 1]}" for kind, count in report.recorded.most_common()]
        nouns = " and ".join(filter(None, (", ".join(counts[:-1]), counts[-1])))
        one = report.seq_from == report.seq_to
        yield f"recorded {nouns} as " + (
            f"event {report.seq_to}" if one else f"events {report.seq_from} to {report.seq_to}"
        )
    if report.repeated:
        yield f"{report.repeated:,} recorded before"
    if report.spooled:
        yield "another process holds the ledger; spooled, the next command that writes records it"
    if report.unscored_types:
        types = [
            f"{type_ or 'without a type'} ({count:,})"
            for type_, count in report.unscored_types.most_common(_TYPES_SHOWN)
        ]
        rest = len(report.unscored_types) - _TYPES_SHOWN
        yield f"recorded, but in no score: {', '.join(types)}" + (f", and {rest} other types" if rest > 0 else "")


def problem_lines(report: IngestReport) -> Iterator[str]:
    """Yield the first few problems, a line each."""
    yield from map(str, report.problems[:_EXAMPLES])
    rest = len(report.problems) + report.more - _EXAMPLES
    if rest > 0:
        yield f"and {rest:,} more of what was odd; --json lists {'all' if not report.more else 'many'} of it"


@click.command(
    epilog="Example: tallybook metrics .claude/logs/*.jsonl; tallybook metrics --component ac01 startup_ms=8000"
)
@click.argument("files", metavar="[FILE|NAME=VALUE]...", nargs=-1)
@click.option("--session", metavar="ID", help="Use this session for items without one.")
@click.option("--component", metavar="ID", help="Use this component for items without one.")
@click.option("--tz", metavar="ZONE", help="Use this time zone for times without one; default UTC.")
@as_json
@click.pass_obj
def metrics(project: Project, /, *, files: tuple[str, ...], as_json: bool, **options: str | None) -> int:
    """Record metrics and benchmarks of the agent.

    Feedback, baselines, ends of sessions and telemetry are recorded as well. A FILE holds JSON Lines, an array or one
    object, compressed with gzip or not; - or none is standard input. The same file a second time adds nothing. A bad
    line is reported, and the others are recorded.
    """
    words = [word for word in files if is_typed(word)]
    names = [word for word in files if not is_typed(word)] or ([] if words else ["-"])
    if "-" in names:
        announce_input("what was measured, as JSON")
    sources: list[Iterable[Any]] = [list(typed(words)), *map(items, names)]
    given = defaults(options["session"], options["component"], options["tz"])
    report = feed(project, sources, given, lambda done: METER.update(done, 0))
    return tell(report, as_json=as_json)


def tell(report: IngestReport, *, as_json: bool) -> int:
    """Print the report and return the exit code."""
    code = 0 if report.read_count else EXIT_BAD_INPUT
    if as_json:
        answer(report_json(report))
        return code
    if code:
        first = str(report.problems[0]) if report.problems else "there is no object"
        return complain(f"nothing could be read; {first}", code)
    note(*problem_lines(report))
    say(*lines(report))
    return code
