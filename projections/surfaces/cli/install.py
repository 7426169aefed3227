"""The verbs of agents: `init` and `uninstall`, which show exactly what they change, and `hook`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
import shlex
from typing import Final

import click

from tallybook.ledger.errors import BadInputError
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.cli.parameters import as_json
from tallybook.projections.surfaces.console.output import answer, can_ask, escape, note, say, write
from tallybook.projections.surfaces.history.playbook_file import examine
from tallybook.projections.surfaces.history.reading import Opened, open_log
from tallybook.projections.surfaces.install import places, plan
from tallybook.projections.surfaces.install.places import InstallTarget
from tallybook.projections.surfaces.install.plan import Step
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.record import write as write_ledger

_MARKS: Final = (
    "Sessions that a person watches end their answers with marks, lines such as `[kpt_001 helpful]`: the agent rates "
    'entries and proposes new ones. `marks = "off"` in `[reflection]` of the settings switches that off.'
)


_agents: Final = click.argument("agents", metavar="[AGENT]...", nargs=-1, type=click.Choice([*table.AGENTS]))
_dry_run: Final = click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
_user: Final = click.option("--user", is_flag=True, help="Change the user's settings, for all projects.")


@click.command(epilog="Example: tallybook init --dry-run")
@_agents
@click.option("--all", "everyone", is_flag=True, help="Install for every agent that is found here.")
@_user
@click.option("--mine", is_flag=True, help="Make a playbook of your own, for all projects.")
@_dry_run
@as_json
@click.pass_context
def init(
    context: click.Context, /, *, agents: tuple[str, ...], everyone: bool, dry_run: bool, as_json: bool, **whose: bool
) -> None:
    """Install the hooks, commands and settings of an agent.

    AGENT is claude, codex, gemini, copilot or cursor; the default is claude, and the answer then lists the other agents
    found on this machine or in the project. The project gets a ledger as well; --mine makes a playbook of your own in
    Claude's user folder instead, and changes nothing else. A second run adds missing files and changes only hook lines
    that another version or installation of Tallybook wrote; the agent's other settings stay as they are.

    --json answers {changed, left, diff, others}, each file is {path, what, why}
    """
    root = context.find_root()
    if whose["mine"] or root.params["mine"]:
        if agents or everyone or whose["user"]:
            raise BadInputError("init --mine", "takes no agent, --all or --user", "nothing was created")
        from tallybook.projections.surfaces.cli import curation

        curation.begin(context.obj, dry_run=dry_run, as_json=as_json)
        return
    target = places.find_target(root.params["folder"], user=whose["user"])
    is_open = everyone or not agents
    others = _find_other_agents(target, {*agents, table.CLAUDE}) if is_open else []
    names = list(dict.fromkeys([*([table.CLAUDE] if is_open else ()), *agents, *(others if everyone else ())]))
    others = [] if everyone else others
    _install(target, names, {"others": others} if as_json else None, dry_run=dry_run)
    if as_json:
        return
    if others:
        say(f"Also here: {', '.join(others)}. `tallybook init {' '.join(others)}` or `--all` installs them.")
        if not dry_run and can_ask() and click.confirm("Install them now?"):
            _install(target, others, dry_run=False)
    if target.project is not None and not dry_run:
        from tallybook.projections.surfaces.cli import sharing

        if git.is_tracked(target.project.playbook):
            # Each machine renders its own, so git finds it changed again and again.
            command = f"git rm --cached {shlex.quote(str(target.project.playbook))}"
            what = f"git tracks {target.project.playbook}, which every rating changes"
            note(f"{what}; `{command}` stops that and keeps the file")
        sharing.offer(target.project)


@click.command(epilog="Example: tallybook uninstall --dry-run")
@_agents
@_user
@_dry_run
@as_json
@click.pass_context
def uninstall(context: click.Context, /, *, agents: tuple[str, ...], user: bool, dry_run: bool, as_json: bool) -> None:
    """Remove what init installed; the ledger stays.

    AGENT is claude, codex, gemini, copilot or cursor; without AGENT, the files of all agents are removed. Settings that
    are unchanged since `init` get their earlier text back; from settings that were changed, only the hooks are removed.

    --json answers like `init`, without others
    """
    target = places.find_target(context.find_root().params["folder"], user=user)
    steps = tuple(plan.uninstall(target, agents))
    for step in () if dry_run else steps:
        plan.take(step, target.bases)
    where = "your own settings" if target.folder is None else target.folder
    whose = f" for {', '.join(agents)}" if agents else ""
    nothing = f"Nothing to remove: Tallybook has nothing{whose} in {where}."
    stays = "The ledger and playbook.json stay as they are; `tallybook init` brings the rest back."
    _reply(steps, {} if as_json else None, [stays], nothing, dry_run=dry_run)


@click.command(epilog='Example: echo \'{"hook_event_name": "SessionStart", "session_id": "s1"}\' | tallybook hook')
@click.argument("agent", default="claude")
@click.pass_obj
def hook(project: Project, /, *, agent: str) -> int:
    """Handle one hook payload of an agent.

    The payload comes on standard input, and the exit code is always 0. A hook injects the playbook into a session
    once, records which entries the agent cites, and requests a reflection when a session ends.
    """
    # The entry point runs a plain hook without Click; only options before the verb lead here.
    from tallybook.projections.surfaces.hooks import handler

    return handler.run([agent, "--project", str(project.root)])


def _find_other_agents(target: InstallTarget, names: Collection[str]) -> list[str]:
    """Return the other agents that are there and not installed."""
    known = {*names, *plan.find_installed(target)}
    return [name for name, files in places.FILES.items() if name not in known and places.is_used(target, files)]


def _install(
    target: InstallTarget, names: Sequence[str], answered: dict[str, list[str]] | None = None, *, dry_run: bool
) -> None:
    """Plan an installation, take its steps unless it is a dry run, and print them with remarks on the result.

    Args:
        target: Where the installation goes.
        names: The agents.
        answered: What the answer in JSON has besides the steps; None for lines.
        dry_run: Whether nothing is changed.
    """
    files = plan.install(target, names)
    steps = files
    problems: tuple[str, ...] = ()
    removal = ""
    if target.project is not None:
        ledger = _plan_ledger(target.project)
        # The ledger comes first because it is most likely to fail: then nothing is installed.
        if not dry_run and ledger.result != plan.LEFT:
            problems = begin(target.project)
        files = (*files, *plan.exclusions(target.project))
        steps = (ledger, *files)
        # Git deletes some of these files without asking.
        removal = git.removal(target.project)
    for step in () if dry_run else files:
        plan.take(step)
    folders = [str(places.agent_folder(target, places.FILES[name])) for name in names]
    nothing = f"Nothing to change: {', '.join(folders)} {'has' if len(folders) == 1 else 'have'} all of it."
    _reply(steps, answered, _next_steps(target, names), nothing, dry_run=dry_run)
    note(*problems, *plan.remarks(target, names), *filter(None, [removal]))


def _next_steps(target: InstallTarget, names: Sequence[str]) -> list[str]:
    """Return what a person should do after an installation."""
    check = "`tallybook doctor` checks the installation."
    start = " or ".join(places.FILES[name].title for name in names)
    if target.folder is None:
        where = f'in each project that is to have a playbook, `tallybook add "..."`; then start {start}'
        return [f"Next: {where} and trust the hook. {check}", _MARKS]
    add = '`tallybook add "..."` adds an entry to its playbook'
    return [f"Next: start {start} in {target.folder} and trust the hook; {add}. {check}", _MARKS]


def _reply(
    steps: Sequence[Step], answered: dict[str, list[str]] | None, after: Sequence[str], nothing: str, *, dry_run: bool
) -> None:
    """Print the steps.

    Args:
        steps: The steps.
        answered: What the answer in JSON has besides the steps; None for a line for each file, and last lines.
        after: The last lines where something was changed.
        nothing: The last line where nothing was.
        dry_run: Whether the steps are only planned; then the difference of the settings comes first.
    """
    rows: dict[str, list[dict[str, str]]] = {"changed": [], "left": []}
    for step in steps:
        key = "left" if step.result == plan.LEFT else "changed"
        rows[key].append({"path": str(step.path), "what": step.result, "why": step.why})
    difference = "\n".join(filter(None, map(plan.diff, steps)))
    if answered is not None:
        answer(rows | {"diff": difference} | answered)
        return
    # All steps are taken by now, so a reader that closes the pipe interrupts none of them.
    if dry_run and difference:
        # Unlike other control characters, tabs are kept: they indent the lines of some settings.
        lines = ("\t".join(map(escape, line.split("\t"))) for line in difference.split("\n"))
        write("\n".join([*lines, "", ""]))
    last = ["Nothing was changed: this was a dry run."] if dry_run else after if rows["changed"] else [nothing]
    say(*steps, *last)


def _plan_ledger(project: Project) -> Step:
    """Return the step that begins a project's ledger; an existing one is left."""
    path = project.ledger / "events.jsonl"
    if open_log(project).exists():
        return Step(path, plan.LEFT, "the ledger goes on")
    is_import = project.playbook.exists() and not examine(Opened(project), PLAYBOOK.start()).unreadable
    return Step(path, "created", f"from {project.playbook}" if is_import else "with an empty playbook")


def begin(project: Project) -> tuple[str, ...]:
    """Begin a project's ledger, from its ``playbook.json`` if it has one; return problems, a line each."""
    report = write_ledger(project, [], begin=True)
    return tuple(map(str, filter(None, (*report.problems, report.unrendered))))
