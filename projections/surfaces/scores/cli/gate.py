"""The verbs `gate` and `baseline`: whether an agent may evolve, and what its scores are compared with."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import EXIT_NO, NothingToDoError
from tallybook.ledger.events import BaselineSet
from tallybook.projections.scores.grades import number
from tallybook.projections.scores.reports.summary import logged
from tallybook.projections.scores.trends.gates import NO_DATA, NOT_ENOUGH, GateQuery, gate
from tallybook.projections.scores.trends.regressions import METHODS, histories
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.notices import find_moment
from tallybook.projections.surfaces.console.options import as_json, at_when
from tallybook.projections.surfaces.console.output import answer, note, say
from tallybook.projections.surfaces.scores.configuration import load, score_named
from tallybook.projections.surfaces.scores.score_state import state_of
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.projections.scores.trends.gates import Gate, Reason
    from tallybook.projections.scores.trends.regressions import History
    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.console.options import Command
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome


class _Points(click.FloatRange):
    """A number from 0 to 100. Click takes NaN for a number in every range; here it is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        points = super().convert(value, param, ctx)
        if isnan(points):
            self.fail(f"{value} is not a number from 0 to 100.", param, ctx)
        return float(points)


_POINTS: Final = _Points(0, 100)
FEED: Final = "no score to judge has enough data: run `tallybook metrics FILE` to record some, or pass --allow-no-data"


def brief(reasons: Sequence[Reason], known: Sequence[History]) -> Iterator[str]:
    """Yield a line for each score that closes a gate, and one of how many there are; ``--json`` has the sentences."""
    closing: dict[str, list[Reason]] = {}
    for reason in reasons:
        if reason.closes and reason.bound is not None:
            closing.setdefault(reason.score_id, []).append(reason)
    for score, why in closing.items():
        value, bounds = why[0].value, [(number(one.bound), one.rule) for one in why if one.bound is not None]
        below = ", ".join(f"below {bound} ({rule})" for bound, rule in bounds)
        on = f" on {why[0].day}" if why[0].day else ""
        yield f"- {score} is {number(value) if value is not None else NO_DATA}{on}: {below}"
    yield from (f"  {one.text}" for one in reasons if one.rule == NOT_ENOUGH)
    scored = sum(one.latest is not None for one in known)
    regressed = any(one.rule in METHODS for why in closing.values() for one in why)
    hint = "; `tallybook baseline SCORE` acknowledges a drop" if regressed else ""
    yield f"  {len(closing) or 'none'} of {scored} scores close it, {len(known) - scored} have no data{hint}"


def set_baseline(project: Project, given: str, value: float | None, reason: str) -> tuple[BaselineSet, Outcome]:
    """Set the baseline of a score, which acknowledges the drops so far.

    Args:
        project: Whose score.
        given: The score.
        value: From 0 to 100; None for what the latest session with that score has.
        reason: Why; may be empty.

    Raises:
        BadInputError: There is no such score.
        NothingToDoError: No session has it.
    """
    config = load(project)
    score = score_named(config, given, "baseline")
    if value is None:
        value = _latest(state_of(project, config), score)
    event = BaselineSet(score, value, reason)
    return event, commands.recorded(project, Request(PlainEvents((event,)), {"rater": "human"}))


def _latest(state: Scores, score: str) -> int:
    (history,) = (one for one in histories(state) if one.score_id == score)
    if history.latest is None:
        raise NothingToDoError(score, "has no data and so no value for a baseline", "give --value N")
    return history.latest.value


def gate_options(command: Command) -> Command:
    """Give a verb the options of a gate."""
    for option in (
        click.option("--allow-no-data", is_flag=True, help="Open the gate if no score has data."),
        click.option(
            *("--no-drop", "greatest_drop"),
            metavar="N",
            type=_POINTS,
            help="Close it more than N points below baseline or last session.",
        ),
        click.option("--min", "minimum", metavar="N", type=_POINTS, help="Close the gate below N points."),
        click.option("--component", "score_id", metavar="ID", help="Check this component; without it, all of them."),
    ):
        command = option(command)
    return command


def ask(project: Project, query: GateQuery, when: Moment | None = None) -> tuple[Gate, Scores]:
    """Return the answer of a gate, and the scores that it has looked at.

    Raises:
        BadInputError: There is no such score.
    """
    state = state_of(project, load(project), when)
    if query.score_id is not None:
        query = attrs.evolve(query, score_id=score_named(state.config, query.score_id, "--component"))
    return gate(histories(state), state.config, query), state


@click.command("gate", epilog="Example: tallybook gate --component ac06 --min 75 --no-drop 3")
@gate_options
@at_when
@as_json
@click.pass_obj
def gate_verb(project: Project, /, *, when: str | None, as_json: bool, **options: Any) -> int:
    """Exit with 0 if the scores let the agent evolve, else 1.

    A critical score closes every gate, a score below 70 its component's own, and a regression until `tallybook
    baseline` acknowledges it; scoring-config.yaml has the bounds. Always the latest session with a score counts.
    Where none of the scores has data, the gate is closed. Where scoring is off, it is open.
    """
    query = GateQuery(**options)
    answered, state = ask(project, query, find_moment(project, when))
    if when is None and (low := logged(state)):
        note(low)
    if as_json:
        reasons = [attrs.asdict(reason) for reason in answered.reasons]
        answer({"open": answered.open, "day": answered.day or None, "reasons": reasons})
    else:
        say("open" if answered.open else "closed")
        if any(one.closes and one.bound is None for one in answered.reasons):
            say(f"- {FEED}")
        sentences = [f"{'- ' if one.closes else '  '}{one.text}" for one in answered.reasons]
        named = query.score_id is not None or not state.config.enabled
        say(*(sentences if named else brief(answered.reasons, histories(state))))
        say(*([f"  the latest score is of {answered.day}"] if answered.day else []))
    return 0 if answered.open else EXIT_NO


@click.command(epilog="Example: tallybook baseline ac06 --reason 'the new prompt is worth it'")
@click.argument("score", required=False)
@click.option("--value", metavar="N", type=_POINTS, help="Set N, 0 to 100; else the score of the latest session.")
@click.option("--reason", default="", help="State why; stored in the ledger.")
@as_json
@click.pass_obj
def baseline(project: Project, /, *, score: str | None, value: float | None, reason: str, as_json: bool) -> None:
    """Set the value that a score is compared with.

    SCORE is a component or overall; without it, the baselines are listed. A new baseline acknowledges the drops so far,
    and they no longer close a gate.
    """
    if score is None:
        _list(project, as_json=as_json)
        return
    event, outcome = set_baseline(project, score, value, reason)
    if as_json:
        answer({"score": event.score, "value": event.value, "seq": outcome.seq_from})
    else:
        say(f"baseline of {event.score} set to {event.value:g}")


def _list(project: Project, *, as_json: bool) -> None:
    baselines = state_of(project, load(project)).baselines
    rows = [{"score": name, "value": one.value, "day": str(one.day), "seq": one.seq} for name, one in baselines.items()]
    if as_json:
        answer(rows)
        return
    for row in rows:
        say(f"{row['score']}  {row['value']:g}  since {row['day']}, event {row['seq']}")
    if not rows:
        say("no score has a baseline; `tallybook baseline SCORE` sets one")
