"""``tallybook reflect``: what is owed is worked off, shown, or asked for from old transcripts."""

from __future__ import annotations

from contextlib import nullcontext, suppress
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger import clock
from tallybook.ledger.errors import EXIT_NO, EXIT_NOT_WRITTEN, BadInputError, CannotWriteError
from tallybook.ledger.storage.disk import reason
from tallybook.projections.reflections import NO_RATER
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.options import as_json
from tallybook.projections.surfaces.console.output import METER, answer, note, say
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.reflection import backfill, schedule, worker
from tallybook.projections.surfaces.reflection.raters import RATERS
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.reflection.backfill import Ask
    from tallybook.projections.surfaces.reflection.schedule import Plan
    from tallybook.projections.surfaces.reflection.worker import Came

_OWN_FILES, _MANY_FILES = 3, 1024
SETTINGS_NAME: Final = "tallybook.toml"
ENDED: Final = {
    worker.DONE: 0,
    worker.SPENT: EXIT_NO,
    worker.TOO_FEW: EXIT_NO,
    worker.BUSY: EXIT_NO,
    worker.HELD: EXIT_NOT_WRITTEN,
}
"""How the work ended → the exit code."""


@click.command(epilog="Example: tallybook reflect --dry-run; tallybook reflect --from ~/.claude/projects/-home-me-shop")
@click.option("--dry-run", is_flag=True, help="Show the prompts and estimated costs; record nothing.")
@click.option("--from", "source", metavar="DIR", help="Reflect on all transcripts in a folder, oldest first.")
@click.option("--yes", is_flag=True, help="Begin --from without asking.")
@click.option("--rater", help=f"Rate by {', '.join(RATERS)}; else by the settings.")
@click.option("--model", help="Use this model; else that of the settings.")
@click.option("--tokens", type=click.IntRange(0), help="Spend at most N tokens a day; else as the settings say.")
@click.option("--unattended", is_flag=True, hidden=True)
@click.option("--start", hidden=True)
@as_json
@click.pass_obj
def reflect(project: Project, /, **options: Any) -> int:
    """Let a model rate the sessions that await reflection.

    The ratings and new entries are recorded. Without a rater nothing is sent, and only the quotations are recorded.
    """
    if options["start"]:
        # Where the agent was started: that folder's settings win over the project's.
        project = Project(project.root, Path(options["start"]))
    plan = _plan(project, options)
    if options["unattended"]:
        return _unattended(project, attrs.evolve(plan, patient=True))
    if options["source"] is not None and plan.rater == NO_RATER:
        raise BadInputError("--from", "needs a rater", f"give --rater, or set it in {SETTINGS_NAME}")
    if options["source"] is not None:
        return _from(project, plan, options)
    if options["dry_run"]:
        return _shown(backfill.owed(project, plan), plan, as_json=options["as_json"])
    return _worked(project, plan, as_json=options["as_json"])


def _plan(project: Project, options: dict[str, Any]) -> Plan:
    """Return how the work is to be done: as the command line says, else as the settings do."""
    found = settings.read(project)
    rater = options["rater"] or found.rater
    if rater not in RATERS:
        raise BadInputError(f"--rater {rater}", "is not a rater that Tallybook has", f"use one of {', '.join(RATERS)}")
    tokens = found.tokens_per_day if options["tokens"] is None else options["tokens"]
    return schedule.Plan(rater, options["model"] or found.model, tokens)


def _unattended(project: Project, plan: Plan) -> int:
    """Work as the process that a hook started: nobody reads what it says, so what goes wrong is noted."""
    with suppress(OSError, AttributeError):
        os.setsid()
    # What the agent had open when it called the hook is none of ours.
    os.closerange(_OWN_FILES, _MANY_FILES)
    try:
        schedule.wait_for_writers(project, plan)
        worker.work(project, plan)
    except Exception as error:  # noqa: BLE001 - whatever it is, `doctor` is the one that tells
        with suppress(Exception):
            ledger_access.save_error(project, error)
    return 0


def _worked(project: Project, plan: Plan, *, as_json: bool, pieces: int = 0) -> int:
    """Work, and say what came of it; with a progress bar where the number of pieces is known."""
    done: list[Came] = []
    if pieces:
        METER.disable()
    bar = click.progressbar(length=pieces, label="reflecting", file=sys.stderr) if pieces else nullcontext()
    with bar as shown:

        def tell(came: Came) -> None:
            done.append(came)
            if shown is not None:
                shown.update(1)
            elif not as_json:
                say(_line(came))

        ended = _ended(project, plan, tell, done)
    if as_json:
        answer({"ended": ended, "tokens": sum(came.tokens for came in done), "pieces": list(map(attrs.asdict, done))})
        return ENDED[ended]
    if pieces:
        say(*map(_line, done))
    if not done and ended == worker.DONE:
        say("nothing is owed")
    if ended != worker.DONE:
        note(f"{ended}; what is left stays owed")
    elif done and plan.rater == NO_RATER:
        note(f"no rater is chosen, so nothing was judged: set [reflection] rater in {SETTINGS_NAME}, or give --rater")
    return ENDED[ended]


def _ended(project: Project, plan: Plan, tell: Callable[[Came], None], done: list[Came]) -> str:
    """Work, and return how it ended; what fails on the disk then says nothing against what was recorded before."""
    try:
        return worker.work(project, plan, tell)
    except (CannotWriteError, OSError) as error:
        # A broken pipe is no fault of the disk: whoever read the lines has had enough.
        if not done or isinstance(error, BrokenPipeError):
            raise
        hint = "what was said so far is recorded, the rest stays owed"
        why = reason(error) if isinstance(error, OSError) else error.reason
        raise CannotWriteError(project.ledger, why, hint) from error


def _line(came: Came) -> str:
    """Return what came of a piece, in one line."""
    if came.failed:
        return f"{came.session}: nothing came of it: {came.failed}"
    told = [f"{came.rated} rated", *(f"learned {name}" for name in came.added), *(f"pruned {n}" for n in came.pruned)]
    told += [f"{came.quotes} quoted"] if came.quotes else []
    told += [f"ignored {what}" for what in came.ignored]
    return f"{came.session}: {', '.join(told)}, {came.tokens:,} tokens"


def _shown(asks: list[Ask], plan: Plan, *, as_json: bool) -> int:
    """Print what would be sent."""
    if as_json:
        answer(
            {"rater": plan.rater, "tokens": sum(ask.tokens for ask in asks), "pieces": list(map(attrs.asdict, asks))}
        )
        return 0
    for ask in asks:
        say(f"== session {ask.session}, about {ask.tokens:,} tokens", *ask.prompt.splitlines())
    say(backfill.estimate(asks, plan))
    return 0


def _from(project: Project, plan: Plan, options: dict[str, Any]) -> int:
    """Ask for reflections on the transcripts of a folder, and work them off."""
    known = schedule.look(project)
    found = backfill.transcripts(Path(options["source"]), known, plan.rater)
    asks = backfill.asks(found, known, commands.now(project), plan)
    if options["dry_run"]:
        return _shown(asks, plan, as_json=options["as_json"])
    if not asks:
        say("every session there was reflected on")
        return 0
    spent = known.tokens_by_day.get(clock.utc_now().at[:10], 0)
    note(backfill.estimate(asks, plan, spent))
    if not options["yes"]:
        if not sys.stdin.isatty():
            raise BadInputError("--from", "needs a confirmation", "give --yes if there is no terminal")
        click.confirm("Begin?", abort=True, err=True)
    backfill.request(project, found)
    plan = attrs.evolve(plan, folders=(Path(options["source"]),))
    return _worked(project, plan, as_json=options["as_json"], pieces=len(asks))
