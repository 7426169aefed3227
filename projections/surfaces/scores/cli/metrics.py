"""The verb `metrics`: what is measured of an agent comes in, from files, from a pipe, or typed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.errors import EXIT_BAD_INPUT, BadInputError
from tallybook.ledger.telemetry import lenient
from tallybook.projections.surfaces.console.options import announce_input, as_json, provenance_of
from tallybook.projections.surfaces.console.output import METER, answer, complain, note, say
from tallybook.projections.surfaces.scores.ingest import Defaults, Fed, feed
from tallybook.projections.surfaces.scores.ingest_files import Item, items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.projections.surfaces.workspace.project import Project

_EXAMPLES = 5
_TYPES_TOLD = 10

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
    """Say whether an argument is a metric rather than a file."""
    return "=" in word and not os.path.exists(word)  # noqa: PTH110 - what is no path at all is no file either


def defaults(session: str | None, component: str | None) -> Defaults:
    """Return what stands for what an object does not name.

    Raises:
        BadInputError: One of them could not stand as it was given.
    """
    provenance_of({"session": session})
    if component is not None and (not (name := lenient.read_name(component)) or name.startswith(lenient.DIGEST_PREFIX)):
        most = lenient.MAX_NAME_CHARS
        raise BadInputError("--component", f"needs 1 to {most} printable characters", "nothing was recorded")
    return Defaults(session or "", component or "")


def told_json(fed: Fed) -> dict[str, Any]:
    """Return the stable answer."""
    problems = [{"source": one.source, "message": one.message} for one in fed.problems]
    return {
        "recorded": dict(fed.recorded.most_common()),
        "repeated": fed.repeated,
        "kept": dict(fed.kept.most_common()),
        "problems": problems,
        "more_problems": fed.more,
        "seq_from": fed.seq_from,
        "seq_to": fed.seq_to,
        "spooled": bool(fed.spooled),
        "unscored": dict(fed.unscored.most_common()),
    }


def lines(fed: Fed) -> Iterator[str]:
    """Yield the answer for people, a line each: first what is in no score."""
    if fed.unscored:
        from tallybook.projections.surfaces.scores.render.omissions import reasons

        yield f"in no score: {reasons(fed.unscored.most_common())}; `tallybook score --config` shows what is scored"
    if fed.recorded:
        counts = [f"{count:,} {NOUNS[kind][count != 1]}" for kind, count in fed.recorded.most_common()]
        nouns = " and ".join(filter(None, (", ".join(counts[:-1]), counts[-1])))
        one = fed.seq_from == fed.seq_to
        yield f"recorded {nouns} as " + (f"event {fed.seq_to}" if one else f"events {fed.seq_from} to {fed.seq_to}")
    if fed.repeated:
        yield f"{fed.repeated:,} recorded before"
    if fed.spooled:
        yield "another process holds the ledger; spooled, the next command that writes records it"
    if fed.kept:
        types = [f"{type_ or 'without a type'} ({count:,})" for type_, count in fed.kept.most_common(_TYPES_TOLD)]
        rest = len(fed.kept) - _TYPES_TOLD
        yield f"kept, and in no score: {', '.join(types)}" + (f", and {rest} other types" if rest > 0 else "")


def odd(fed: Fed) -> Iterator[str]:
    """Yield what was odd, a few of it, a line each."""
    yield from map(str, fed.problems[:_EXAMPLES])
    rest = len(fed.problems) + fed.more - _EXAMPLES
    if rest > 0:
        yield f"and {rest:,} more of what was odd; --json lists {'all' if not fed.more else 'many'} of it"


@click.command(
    epilog="Example: tallybook metrics .claude/logs/*.jsonl; tallybook metrics --component ac01 startup_ms=8000"
)
@click.argument("files", metavar="[FILE|NAME=VALUE]...", nargs=-1)
@click.option("--session", metavar="ID", help="Use this session for items without one.")
@click.option("--component", metavar="ID", help="Use this component for items without one.")
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
    fed = feed(project, sources, defaults(options["session"], options["component"]), lambda done: METER.update(done, 0))
    return tell(fed, as_json=as_json)


def tell(fed: Fed, *, as_json: bool) -> int:
    """Print what became of it and return the exit code."""
    code = 0 if fed.taken else EXIT_BAD_INPUT
    if as_json:
        answer(told_json(fed))
        return code
    if code:
        first = str(fed.problems[0]) if fed.problems else "no object came"
        return complain(f"nothing could be read; {first}", code)
    note(*odd(fed))
    say(*lines(fed))
    return code
