"""The verbs of agents: `init` and `uninstall`, which show exactly what they change, and `hook`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from tallybook.projections.surfaces.console.options import as_json
from tallybook.projections.surfaces.console.output import answer, escape, note, say, write
from tallybook.projections.surfaces.install import hook_command as command
from tallybook.projections.surfaces.install import places, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.projections.surfaces.install.places import InstallTarget
    from tallybook.projections.surfaces.install.plan import Step
    from tallybook.projections.surfaces.workspace.project import Project

_DRY_RUN: Final = "Nothing was changed: this was a dry run."
_STAYS: Final = "The ledger and playbook.json stay as they are; `tallybook init` brings the rest back."


_dry_run: Final = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
_user: Final = click.option("--user", is_flag=True, help="Change the user's settings, for all projects.")


@click.command(epilog="Example: tallybook init --dry-run")
@_user
@_dry_run
@as_json
@click.pass_context
def init(context: click.Context, /, *, user: bool, dry_run: bool, as_json: bool) -> None:
    """Install the hooks, commands and settings of an agent.

    The project gets a ledger as well. A second run changes only hook lines that another version or installation of
    Tallybook wrote; the agent's other settings stay as they are.
    """
    root = context.find_root()
    place = places.find_target(root.params["folder"], user=user)
    verbs = root.command.list_commands(root) if isinstance(root.command, click.Group) else ()
    files = plan.install(place, command.hook_command(), verbs)
    steps = files if place.project is None else (plan.ledger(place.project), *files)
    problems: tuple[str, ...] = ()
    if not dry_run:
        # The ledger comes first because it is most likely to fail: then nothing is installed.
        if place.project is not None and steps[0].result != plan.LEFT:
            problems = plan.begin(place.project)
        for step in files:
            plan.take(step)
    note(*problems, *plan.remarks(files))
    last = _next_steps(place) if _changes(steps) else f"Nothing to change: {place.claude} has all of it."
    _print_steps(steps, _DRY_RUN if dry_run else last, as_json=as_json)


@click.command(epilog="Example: tallybook uninstall --dry-run")
@_user
@_dry_run
@as_json
@click.pass_context
def uninstall(context: click.Context, /, *, user: bool, dry_run: bool, as_json: bool) -> None:
    """Remove what init installed; the ledger stays.

    Settings that are unchanged since `init` get their earlier text back; from others only the hooks are removed.
    """
    place = places.find_target(context.find_root().params["folder"], user=user)
    steps = tuple(plan.uninstall(place))
    for step in () if dry_run else steps:
        plan.take(step)
    last = _STAYS if _changes(steps) else f"Nothing to remove: Tallybook has nothing in {place.claude}."
    _print_steps(steps, _DRY_RUN if dry_run else last, as_json=as_json)


@click.command(epilog='Example: echo \'{"hook_event_name": "SessionStart", "session_id": "s1"}\' | tallybook hook')
@click.argument("agent", default="claude")
@click.pass_obj
def hook(project: Project, /, *, agent: str) -> int:
    """Handle one hook payload of an agent.

    The payload comes on standard input, and the exit code is always 0. A hook injects the playbook into a session
    once, records which entries the agent cites, and requests a reflection when a session ends.
    """
    from tallybook.projections.surfaces.hooks import handler

    return handler.run([agent, "--project", str(project.root)])


def _changes(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.result != plan.LEFT]


def _next_steps(place: InstallTarget) -> str:
    """Return what a person should do next."""
    check = "`tallybook doctor` checks the installation."
    if place.folder is None:
        where = 'in each project that is to have a playbook, `tallybook add "..."`; then start the agent'
        return f"Next: {where} and trust the hook. {check}"
    add = '`tallybook add "..."` adds an entry to its playbook'
    return f"Next: start the agent in {place.folder} and trust the hook; {add}. {check}"


def _print_steps(steps: Sequence[Step], last: str, *, as_json: bool) -> None:
    """Print the difference of the settings, a line for each file, and a last line."""
    # All steps are taken by now, so a reader that closes the pipe interrupts none of them.
    difference = "\n".join(filter(None, map(plan.diff, steps)))
    if as_json:
        left = [step for step in steps if step.result == plan.LEFT]
        answer({"changed": _rows(_changes(steps)), "left": _rows(left), "diff": difference})
        return
    if difference:
        # Unlike other control characters, tabs are kept: they indent the lines of some settings.
        lines = ("\t".join(map(escape, line.split("\t"))) for line in difference.split("\n"))
        write("\n".join([*lines, "", ""]))
    say(*steps, last)


def _rows(steps: Sequence[Step]) -> list[dict[str, str]]:
    return [{"path": str(step.path), "what": step.result, "why": step.why} for step in steps]
