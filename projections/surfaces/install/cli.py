"""The verbs that install: ``init`` and ``uninstall``; both show exactly what they change, or would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallybook.projections.surfaces.console.options import as_json
from tallybook.projections.surfaces.console.output import answer, escape, note, say, write
from tallybook.projections.surfaces.install import hook_command as command
from tallybook.projections.surfaces.install import places, plan, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallybook.projections.surfaces.install.places import Target
    from tallybook.projections.surfaces.install.steps import Step

    Command = Callable[..., Any]

_DRY = "Nothing was changed: this was a dry run."
_STAYS = "The ledger and playbook.json stay as they are; `tallybook init` brings the rest back."


def _scope(command: Command) -> Command:
    """Add the options that both verbs have."""
    command = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")(command)
    text = "Change the user's settings, for all projects."
    return click.option("--user", is_flag=True, help=text)(command)


@click.command(epilog="Example: tallybook init --dry-run")
@_scope
@as_json
@click.pass_context
def init(context: click.Context, /, *, user: bool, dry_run: bool, as_json: bool) -> None:
    """Install the hooks, commands and settings of an agent.

    The project gets a ledger as well. A second run changes only hook lines that another version or installation of
    Tallybook wrote; the agent's other settings stay as they are.
    """
    root = context.find_root()
    place = places.target(root.params["folder"], user=user)
    verbs = root.command.list_commands(root) if isinstance(root.command, click.Group) else ()
    planned = plan.install(place, command.hook_command(), verbs)
    begun = () if place.project is None else (plan.ledger(place.project),)
    odd: tuple[str, ...] = ()
    if not dry_run:
        # First what is most likely to fail: then nothing is installed.
        odd = plan.begin(place.project) if place.project is not None and _changed(begun) else ()
        _take(planned)
    note(*odd, *plan.remarks(planned))
    last = _next(place) if _changed((*begun, *planned)) else f"Nothing to change: all of it is in {place.claude}."
    _tell((*begun, *planned), _DRY if dry_run else last, as_json=as_json)


@click.command(epilog="Example: tallybook uninstall --dry-run")
@_scope
@as_json
@click.pass_context
def uninstall(context: click.Context, /, *, user: bool, dry_run: bool, as_json: bool) -> None:
    """Remove what init installed; the ledger stays.

    Settings that are unchanged since `init` get their earlier text back; from others only the hooks are removed.
    """
    place = places.target(context.find_root().params["folder"], user=user)
    planned = plan.uninstall(place)
    if not dry_run:
        _take(planned)
    last = _STAYS if _changed(planned) else f"Nothing to take out: there is nothing of Tallybook's in {place.claude}."
    _tell(planned, _DRY if dry_run else last, as_json=as_json)


def _changed(planned: Sequence[Step]) -> list[Step]:
    return [step for step in planned if step.what != steps.LEFT]


def _take(planned: Sequence[Step]) -> None:
    for step in planned:
        steps.take(step)


def _next(place: Target) -> str:
    """Say what a person does next."""
    if place.folder is None:
        return (
            'Next: in each project that is to have a playbook, `tallybook add "..."`; then start the agent and trust '
            "the hook. `tallybook doctor` tells whether all is well."
        )
    return (
        f"Next: start the agent in {place.folder} and trust the hook; "
        '`tallybook add "..."` adds to what it is told, `tallybook doctor` tells whether all is well.'
    )


def _tell(taken: Sequence[Step], last: str, *, as_json: bool) -> None:
    """Print how the settings change, what became of each file, and what is to be said last.

    All is done by then: a reader who has seen enough and closes the pipe ends nothing half way.
    """
    difference = "\n".join(filter(None, map(steps.diff, taken)))
    if as_json:
        left = [step for step in taken if step.what == steps.LEFT]
        answer({"changed": _rows(_changed(taken)), "left": _rows(left), "diff": difference})
        return
    if difference:
        # Tabs indent the lines of some people's settings.
        write("\t".join("\n".join(map(escape, part.split("\n"))) for part in difference.split("\t")) + "\n\n")
    say(*taken, last)


def _rows(taken: Sequence[Step]) -> list[dict[str, str]]:
    return [{"path": str(step.path), "what": step.what, "why": step.why} for step in taken]
