"""The verb `score`: its options choose what is shown of the scores, and in which form."""

from __future__ import annotations

from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import BadInputError
from tallybook.projections.scores.grades import SCORING_OFF
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.notices import find_moment
from tallybook.projections.surfaces.console.options import as_json, at_when
from tallybook.projections.surfaces.console.output import answer, note, say, write
from tallybook.projections.surfaces.scores.rebuild import refresh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.scores.view import Scores
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.scores.render.page import Page
    from tallybook.projections.surfaces.workspace.project import Project

_CURRENT: Final = "\0current"
"""The value of `--session` without an ID; no session has this id."""
_DATED: Final = "\0dated"
"""The value of `--export` without a FILE; no file has this name."""
_OVERALL: Final = "session.overall"
_PERIODS: Final = ("session", "daily", "weekly", "monthly", "feed", "configured")
_WITHOUT: Final = {
    "feed": ("blame", "component", "detail", "export"),
    "blame": ("session", "detail", "export"),
    "configured": ("blame", "component", "detail", "export", "when"),
}
"""Option → those that its answer would ignore, as well as the others of _PERIODS."""
_SPELLED: Final = {"configured": "config", "when": "at"}


def _one_of(given_options: Mapping[str, Any]) -> str:
    """Return which of the mutually exclusive answers the user chose, empty for none.

    Raises:
        BadInputError: Several are, or an option that the answer would ignore.
    """
    given = {name for name, value in given_options.items() if value is not None and value is not False}
    named = [name for name in _PERIODS if name in given]
    ignored = [(one, other) for one, others in _WITHOUT.items() if one in given for other in others if other in given]
    if len(named) > 1 or ignored:
        options = [f"--{_SPELLED.get(name, name)}" for name in (named if len(named) > 1 else ignored[0])]
        raise BadInputError(" and ".join(options), "exclude each other", "give one of them")
    return named[0] if named else ""


def _configured(project: Project, *, as_json: bool) -> None:
    """Print the configuration in force; the packaged one, with an error, where the project's own is invalid."""
    from tallybook.projections.surfaces.scores import configuration

    try:
        text, document = configuration.in_force(project)
    except BadInputError as error:
        write(configuration.PACKAGED.read_text(encoding="utf-8").removesuffix("\n") + "\n")
        raise BadInputError(str(error).partition(";")[0], "the default is printed") from error
    answer(document) if as_json else write(text.removesuffix("\n") + "\n")


@click.command(epilog="Example: tallybook score --component ac06 --detail")
@click.option(
    "--session", metavar="[ID]", is_flag=False, flag_value=_CURRENT, help="Show a session; without ID, the current one."
)
@click.option("--daily", is_flag=True, help="Show the latest day with data.")
@click.option("--weekly", is_flag=True, help="Show the trend of 7 days.")
@click.option("--monthly", is_flag=True, help="Show the trend of 30 days.")
@click.option("--component", metavar="ID", help="Show one component, such as ac06.")
@click.option("--detail", is_flag=True, help="Show the inputs of each score.")
@click.option("--export", metavar="[FILE]", is_flag=False, flag_value=_DATED, help="Write the answer as Markdown.")
@click.option(
    "--blame",
    metavar="[WHAT]",
    is_flag=False,
    flag_value=_OVERALL,
    help="Show what changed before a score dropped.",
)
@click.option("--feed", is_flag=True, help="Print the data of a dashboard as JSON.")
@click.option("--config", "configured", is_flag=True, help="Print the configuration in force as YAML.")
@at_when
@as_json
@click.pass_obj
def score(project: Project, /, **options: Any) -> None:
    """Show the scores of the agent.

    Days are counted back from the last scored event. Outdated score files are written. With `enabled: false` in
    scoring-config.yaml, the answer is that scoring is off.
    """
    period = _one_of(options)
    if period == "configured":
        _configured(project, as_json=options["as_json"])
        return
    from tallybook.projections.scores.reports import summary
    from tallybook.projections.surfaces.scores import configuration, work
    from tallybook.projections.surfaces.scores.cli import score_answers
    from tallybook.projections.surfaces.scores.score_state import state_of

    config = configuration.load(project)
    component = (
        None if options["component"] is None else score_answers.find_component(config.components, options["component"])
    )
    if not config.enabled:
        answer({"enabled": False}) if options["as_json"] or period == "feed" else say(SCORING_OFF)
        return
    when = find_moment(project, options["when"])
    state = state_of(project, config, when)
    note(*_notes(project, state, when))
    if period == "feed":
        answer(summary.feed(state))
        return
    if options["blame"] is not None:
        _blame(project, state, when, options)
        return
    session = None if options["session"] == _CURRENT else options["session"]
    result, page = score_answers.look(
        score_answers.ScoreQuery(project, state, when, options["detail"], component, session), period
    )
    if options["export"] is not None:
        _export(project, options, _dated(page, when, state), state)
    elif options["as_json"]:
        answer(result)
    else:
        from tallybook.projections.surfaces.console import terminal
        from tallybook.projections.surfaces.scores.render import box

        box.show(terminal.console_for(sys.stdout), page)
        # Under the box, which is that of the specification.
        is_summary = not period and component is None and when is None
        say(*filter(None, [page.day, work.line(project) if is_summary else ""]))


def _notes(project: Project, state: Scores, when: Moment | None) -> Iterator[str]:
    """Yield what to report before an answer, a line each; now, the score files are written."""
    from tallybook.projections.scores.reports import summary

    if when is None:
        yield from refresh(project, state)
    yield from commands.spool_notes(project)
    if when is None and (low := summary.logged(state)):
        yield low


def _dated(page: Page, when: Moment | None, state: Scores) -> Page:
    """Return a page that names the moment that it shows."""
    if when is None:
        return page
    from tallybook.projections.surfaces.history.as_of import describe

    return attrs.evolve(page, sentences=(*page.sentences, f"As of {describe(state, when.seq, when.named)}."))


def _blame(project: Project, state: Scores, when: Moment | None, options: Mapping[str, Any]) -> None:
    """Print what changed in the playbook before a score dropped."""
    from tallybook.projections.surfaces.scores import drop_report

    given = options["blame"]
    dated = given == drop_report.LAST or given[:1].isdecimal()
    score = options["component"] or (_OVERALL if dated else given)
    period = next((name for name in ("weekly", "monthly") if options[name]), "daily")
    answered = drop_report.blame(project, state, drop_report.DropQuery(score, period, given if dated else None), when)
    if options["as_json"]:
        answer(answered)
        return
    say(*drop_report.lines(answered, state.config.display.min_coverage))
    from tallybook.projections.surfaces.lift import notes

    say(*notes.summary_lines(project, when))


def _export(project: Project, options: Mapping[str, Any], page: Page, state: Scores) -> None:
    """Write a page to a file, or to standard output for ``-``."""
    from tallybook.projections.surfaces.scores.render.markdown import markdown

    data = markdown(page).encode()
    if options["export"] == "-":
        sys.stdout.buffer.write(data)
        return
    dated = f"scores-{max(state.days, default='none')}.md"
    output = Path(dated if options["export"] == _DATED else options["export"])
    commands.write_copy(project, output, lambda: data)
    answer({"path": str(output), "result": "written"}) if options["as_json"] else say(f"{output} written")
