"""The command line: options in, answers out, errors as one line and an exit code."""

from __future__ import annotations

from importlib import import_module
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.errors import EXIT_BAD_INPUT, BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import everyday
from tallybook.projections.surfaces.cli.plain import RECORD_RATER
from tallybook.projections.surfaces.console import output as answers
from tallybook.projections.surfaces.console.options import as_json, at_when, delivery, reasoned, said
from tallybook.projections.surfaces.console.output import answer, complain, guarded, note, read_input, said_by
from tallybook.projections.surfaces.console.progress import METER
from tallybook.projections.surfaces.workspace.project import Project, find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


def console() -> Console:
    """Return the terminal; Rich is loaded only for a person's answer."""
    from tallybook.projections.surfaces.console import terminal

    return terminal.console_for(sys.stdout)


ELSEWHERE: Final = {
    "cli.entries": ("why", "blame", "graveyard", "needs-ratings", "sql"),
    "cli.bisect": ("bisect",),
    "cli.diff": ("diff",),
    "cli.curate": ("retire", "restore", "pin", "unpin", "reword", "merge", "undo"),
    "install.cli": ("init", "uninstall"),
    "cli.log": ("log",),
    "reflection.cli": ("reflect",),
    "scores.cli.gate": ("gate", "baseline"),
    "scores.cli.metrics": ("metrics",),
    "scores.cli.score": ("score",),
    "cli.whatif": ("what-if",),
}
"""Module of the shell → the verbs in it. It is loaded when one of them is asked for."""


INSTEAD: Final = {
    "delete": "`tallybook retire NAME` takes an entry out",
    "edit": "`tallybook reword NAME TEXT` changes the text of an entry",
    "export": "`tallybook replay --output FILE` writes the playbook, `tallybook show --json` prints it",
    "list": "`tallybook show` lists the entries, `tallybook log` the events",
    "remove": "`tallybook retire NAME` takes an entry out",
    "status": "`tallybook doctor` checks the ledger, `tallybook show` lists the entries",
}
"""What people try that is not a verb → which one does it."""


class Verbs(click.Group):
    """The verbs here, and those elsewhere."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all of them."""
        return sorted({*super().list_commands(ctx), *(name for names in ELSEWHERE.values() for name in names)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, None where there is none of the name."""
        for module, names in ELSEWHERE.items():
            if cmd_name in names:
                for verb in import_module(f"tallybook.projections.surfaces.{module}").VERBS:
                    self.add_command(verb)
        command = super().get_command(ctx, cmd_name)
        if command is not None and _PROJECT not in command.params:
            command.params.append(_PROJECT)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb and its words; for ``help`` the verb that it is about, to print that one's help."""
        word = args[0]
        if word == "help":
            about = [one for one in args[1:] if one != "help" and not one.startswith("-")]
            if not about:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [about[0], "--help"])
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            if word in INSTEAD:
                raise click.UsageError(f"{word!r} is not a command; {INSTEAD[word]}.", ctx)
            raise click.exceptions.NoSuchCommand(word, possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)


def _enter_project(context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Find the project: the one that is named after the verb, else as named before it."""
    named = context.find_root().params
    named["folder"] = folder or named["folder"]
    context.obj = find_project(named["folder"], must_exist=True)


_PROJECT: Final = click.Option(
    ["--project"], metavar="DIR", expose_value=False, hidden=True, is_eager=True, callback=_enter_project
)
"""``--project`` after a verb; every verb has it."""


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    epilog="Example: tallybook rate kpt_003 harmful && tallybook why kpt_003",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--project", "folder", metavar="DIR", help="The project; else CLAUDE_PROJECT_DIR, else found from here.")
@as_json
@click.version_option(package_name="tallybook", prog_name="tallybook")
@click.pass_context
def tallybook(context: click.Context, /, *, as_json: bool, **_: Any) -> None:
    """An event-sourced ledger of ratings for coding agents.

    Every rating is appended as an event; playbook.json is a replay of them.
    --project and --json may also come after the command.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return
    if as_json:
        context.default_map = {context.invoked_subcommand: {"as_json": True}}


@tallybook.command("import", epilog="Example: tallybook import .claude/playbook.json")
@click.argument("file")
@as_json
@click.pass_obj
def import_(project: Project, /, *, file: str, as_json: bool) -> None:
    """Take a legacy playbook in as seed events."""
    data, source = read_input(file, "a playbook, as JSON")
    done = commands.import_file(project, data, source)
    if as_json:
        answer({"imported": done.imported, "skipped": done.skipped, "problems": list(done.problems)})
        return
    entries = f"{done.imported} {'entry' if done.imported == 1 else 'entries'} imported from {source}"
    again = "; this file was imported before" if done.repeated else ""
    click.echo(entries + (f", {done.skipped} skipped" if done.skipped else "") + again)
    if done.problems:
        from tallybook.projections.surfaces.console import terminal

        terminal.problems(console(), done.problems)


@tallybook.command(epilog='Example: tallybook add "Quote ids as strings in JSON."')
@click.argument("text")
@click.option("--again", is_flag=True, help="Accept a text that was redacted, from now on.")
@delivery("human")
@as_json
@click.pass_obj
def add(project: Project, /, **options: Any) -> int:
    """Add a new key point; the answer has its name. A TEXT of - is read from standard input."""
    return everyday.add(project, options)


@tallybook.command(epilog="Example: tallybook rate kpt_003 kpt_007 harmful --reason 'both broke the build'")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.argument("rating")
@reasoned
@delivery("human")
@as_json
@click.pass_obj
def rate(project: Project, /, **options: Any) -> int:
    """Rate entries helpful, harmful or neutral, in one batch."""
    return everyday.rate(project, options)


@tallybook.command(
    epilog='Example: echo \'{"evaluations": [{"name": "kpt_003", "rating": "helpful"}]}\' | tallybook record -'
)
@click.argument("file", default="-")
@delivery(RECORD_RATER)
@as_json
@click.pass_obj
def record(project: Project, /, **options: Any) -> int:
    """Record an extraction result, a JSON object, as one batch."""
    return everyday.record(project, options)


BLIND: Final = (
    "Compare no chain value: quicker, and what was changed in the ledger is believed. So playbook.json is left alone; "
    "the playbook is printed, or written to --output."
)


@tallybook.command(epilog="Example: tallybook replay --at 2d --output before.json")
@at_when
@click.option("--output", metavar="FILE", help="Write to FILE instead, or to standard output for -.")
@click.option("--check", "checking", is_flag=True, help="Write nothing; exit 1 where a file is not the replay.")
@click.option("--no-verify", "blind", is_flag=True, help=BLIND)
@as_json
@click.pass_obj
def replay(project: Project, /, *, when: str | None, output: str | None, as_json: bool, **how: bool) -> None:
    """Rebuild playbook.json from the ledger; with --at, print it as it stood, or write it to --output."""
    checking, blind = how["checking"], how["blind"]
    if checking and not (when is None and output is None):
        raise BadInputError("--check", "goes with neither --at nor --output")
    if checking and blind:
        raise BadInputError("--check", "verifies the ledger first", "leave out --no-verify")
    then = _blindly(project, when) if blind else everyday.stood(project, when)
    if checking:
        from tallybook.projections.surfaces.scores.cli import score

        commands.check(project)
        score.check(project)
        told_path(project.playbook, "is what the ledger says", as_json=as_json)
    elif output == "-" or (then is not None and output is None):
        sys.stdout.buffer.write(commands.replay_bytes(project, then))
    elif output is not None:
        commands.write_replay(project, then, Path(output))
        beside = "" if then is None else f", as of {then.told}"
        told_path(Path(output), "written", as_json=as_json, beside=beside, blind=blind)
    else:
        from tallybook.projections.surfaces.scores.cli import score

        commands.replay(project)
        begun = os.path.lexists(project.playbook)
        what, beside = ("written", "") if begun else ("not begun", ", the ledger says nothing of a playbook")
        # All of it before the answer: what fails behind that would be an error beside a yes.
        lines = list(score.rebuilt(project))
        told_path(project.playbook, what, as_json=as_json, beside=beside)
        for line in lines:
            note(line)


def _blindly(project: Project, when: str | None) -> commands.Then:
    """Return the playbook now, or at a moment, no chain value being compared; that is told on standard error."""
    from tallybook.projections.surfaces.history.as_of import unproven

    found = unproven(project, when)
    for line in found.notes:
        note(line)
    return commands.Then(found.state, found.told, found.notes)


def told_path(path: Path, what: str, *, as_json: bool, beside: str = "", blind: bool = False) -> None:
    """Print what became of a file, and to a person also what else there is to say of it.

    Args:
        path: The file.
        what: What became of it.
        as_json: Whether a program asks.
        beside: What else a person is told.
        blind: Whether no chain value was compared, which both are told.
    """
    if as_json:
        answer({"path": str(path), "result": what} | ({"verified": False} if blind else {}))
    else:
        click.echo(f"{path} {what}{beside}{', not verified' if blind else ''}")


@tallybook.command(epilog="Example: tallybook show --at 2026-11-01")
@at_when
@as_json
@click.pass_obj
def show(project: Project, /, **options: Any) -> int:
    """Show the playbook, now or as it stood."""
    return everyday.show(project, options)


@tallybook.command(epilog="Example: tallybook verify --json")
@click.option("--expect", metavar="SEQ:CHAIN", help="What was noted elsewhere must stand in the ledger.")
@click.option("--salvage", "salvaging", is_flag=True, help="Show the playbook folded from what is whole.")
@as_json
@click.pass_obj
def verify(project: Project, /, **options: Any) -> int:
    """Verify the ledger, from its first byte to its last."""
    return everyday.verify(project, options)


@tallybook.command(epilog="Example: tallybook doctor --json")
@as_json
@click.pass_obj
def doctor(project: Project, /, *, as_json: bool) -> int:
    """Tell what ails the ledger, in plain words, and what mends it; nothing is changed."""
    from tallybook.projections.surfaces.doctor import checks

    return checks.print_findings(checks.run_checks(project, METER.update), as_json=as_json)


@tallybook.command(
    epilog="Example: tallybook redact --text - --reason 'a name' --yes < name.txt; tallybook redact 12 --reason typo"
)
@click.argument("event", metavar="[ID]", required=False)
@click.option("--text", help="Every event and file that holds this text; - reads it from standard input.")
@click.option("--reason", help="Why it must go; kept in the ledger.")
@click.option("--dry-run", is_flag=True, help="Say what holds it and change nothing.")
@click.option("--yes", is_flag=True, help="Redact --text without asking.")
@said("human")
@as_json
@click.pass_obj
def redact(project: Project, /, **options: Any) -> int:
    """Take a text out of the ledger and every file of the project; what it proved stays proven.

    ID is an event's id or sequence number, as `log` shows them: its whole text goes, wherever it stands.
    """
    from tallybook.projections.surfaces.writing import redact as redacting

    target = redacting.Target(options["event"], answers.given_text(options["text"]))
    if (target.event is None) is (target.text is None):
        raise BadInputError("redact", "takes either the ID of an event or --text", "nothing was redacted")
    if options["dry_run"]:
        return redacting.tell(redacting.look(project, target), "would be redacted", as_json=options["as_json"])
    if not (options["reason"] or "").strip():
        raise BadInputError("--reason", "is missing", "say why the text must go; nothing was redacted")
    if target.text is not None and not options["yes"]:
        redacting.confirm(project, target, as_json=options["as_json"])
    done = redacting.apply(project, target, options["reason"], said_by(options))
    return redacting.tell(done, "redacted", as_json=options["as_json"])


@tallybook.command(
    "hook", epilog='Example: echo \'{"hook_event_name": "SessionStart", "session_id": "s1"}\' | tallybook hook'
)
@click.argument("agent", default="claude")
def hook_(agent: str) -> int:
    """Handle one payload of an agent's hook on standard input; always ends with 0.

    It tells a session the playbook once, records which entries the agent cites, and notes what is to be reflected on.
    """
    from tallybook.projections.surfaces.hooks import handler

    return handler.run([agent])


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; whatever goes wrong is one line on standard error."""

    def work() -> int:
        try:
            # Not main(), which would answer a closed pipe by itself, and otherwise than we do.
            with tallybook.make_context("tallybook", list(arguments)) as context:
                result = tallybook.invoke(context)
        except click.exceptions.Exit as done:
            return done.exit_code
        except click.Abort:
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            return complain(f"{error.format_message()} See `tallybook --help`.", EXIT_BAD_INPUT)
        return result if isinstance(result, int) else 0

    return guarded(work)
