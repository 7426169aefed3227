"""The command line: the table of verbs, the group that finds a verb in it, and errors with their exit codes.

The help screen and shell completion read the table alone, so that neither imports the modules of the verbs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
import gc
from importlib import import_module
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from tallybook.ledger.errors import EXIT_BAD_INPUT, BadInputError, TallybookError
from tallybook.projections.surfaces.agents.table import find_agent
from tallybook.projections.surfaces.cli.parameters import as_json
from tallybook.projections.surfaces.console.output import METER, complain, note, run_guarded
from tallybook.projections.surfaces.hooks import ledger_access, sync_results
from tallybook.projections.surfaces.hooks.ledger_access import membership_file
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import NoProjectError, Project, find_project

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class VerbRow(NamedTuple):
    """The row of a verb.

    Attributes:
        name: The word after ``tallybook``, or two words: a verb and what it does.
        module: The module of this folder that holds its Click command.
        summary: A verb phrase of at most 60 characters; the command's docstring begins with it.
        takes_mine: Whether it has ``--mine``; the others work on a project, or on both playbooks.
    """

    name: str
    module: str
    summary: str
    takes_mine: bool = False


GROUPS: Final = {
    "Every day": (
        VerbRow("init", "install", "Install the hooks, commands and settings of an agent", takes_mine=True),
        VerbRow("show", "everyday", "Show the playbook, now or as of a moment", takes_mine=True),
        VerbRow("add", "everyday", "Add an entry to the playbook", takes_mine=True),
        VerbRow("rate", "everyday", "Rate entries helpful, harmful or neutral", takes_mine=True),
        VerbRow("why", "everyday", "Explain an entry: its origin, its ratings and its fate", takes_mine=True),
        VerbRow("review", "review", "Decide about entries and proposals, one key each", takes_mine=True),
        VerbRow("undo", "curation", "Undo the last change, an event or a session", takes_mine=True),
        VerbRow("page", "page", "Write a page that shows the history in a browser"),
        VerbRow("doctor", "doctor", "Check the ledger, hooks and settings, and suggest fixes"),
    ),
    "History": (
        VerbRow("log", "history", "List events, newest last", takes_mine=True),
        VerbRow("diff", "history", "Compare the playbook at two moments", takes_mine=True),
        VerbRow("bisect", "history", "Find the event that made a condition true", takes_mine=True),
        VerbRow("what-if", "history", "Replay history under another policy or without some events", takes_mine=True),
        VerbRow("sql", "history", "Query the ledger in SQL", takes_mine=True),
    ),
    "Curation": (
        VerbRow("retire", "curation", "Take entries out of the playbook", takes_mine=True),
        VerbRow("restore", "curation", "Bring retired, removed or pruned entries back", takes_mine=True),
        VerbRow("pin", "curation", "Protect entries from pruning, or let them be pruned again", takes_mine=True),
        VerbRow("reword", "curation", "Change the text of an entry", takes_mine=True),
        VerbRow("move", "curation", "Move entries to a section", takes_mine=True),
        VerbRow("merge", "curation", "Merge entries that say the same", takes_mine=True),
        VerbRow("promote", "curation", "Add an entry of your own playbook to the project's"),
        VerbRow("demote", "curation", "Move an entry of the project to your own playbook"),
        VerbRow("proposals", "curation", "List the changes that agents proposed", takes_mine=True),
        VerbRow("proposals accept", "curation", "Make changes that agents proposed", takes_mine=True),
        VerbRow("proposals reject", "curation", "Close proposals without making their changes", takes_mine=True),
    ),
    "Scores": (
        VerbRow("lift", "lift", "Measure whether the playbook and its entries help"),
        VerbRow("score", "scores", "Show the scores of the agent"),
        VerbRow("score record", "scores", "Record metrics and benchmarks of the agent"),
        VerbRow("score gate", "scores", "Exit with 0 if the scores let the agent evolve, else 1"),
        VerbRow("score baseline", "scores", "Set the value that a score is compared with"),
    ),
    "Sharing": (
        VerbRow("share", "sharing", "Share the playbook with other machines"),
        VerbRow("sync", "sharing", "Exchange events with the shared book"),
    ),
    "Upkeep": (
        VerbRow("verify", "upkeep", "Verify every event of the ledger", takes_mine=True),
        VerbRow("replay", "upkeep", "Rebuild playbook.json from the ledger", takes_mine=True),
        VerbRow("check", "doctor", "Run verify, replay --check and score gate at once, for CI"),
        VerbRow("import", "upkeep", "Import an existing playbook.json, or another ledger", takes_mine=True),
        VerbRow("redact", "curation", "Erase a text from the ledger and its files", takes_mine=True),
        VerbRow("reflect", "reflect", "Let a model rate the sessions that await reflection"),
        VerbRow("export", "upkeep", "Write entries into a file that agents read"),
        VerbRow("uninstall", "install", "Remove what init installed; the ledger stays"),
    ),
    "For programs": (
        VerbRow("hook", "install", "Handle one hook payload of an agent"),
        VerbRow("mcp", "mcp", "Serve the playbook to a model over MCP"),
        VerbRow("record", "everyday", "Record ratings and new entries from JSON", takes_mine=True),
        VerbRow("completion", "upkeep", "Print or install shell completion"),
    ),
}
"""Group on the help screen → its verbs, in the order of the screen, which describes those of the first group."""

VERBS: Final = {verb.name: verb for verbs in GROUPS.values() for verb in verbs}
"""Name → verb. A name of two words begins with the name of another verb."""

ANSWERS: Final = "--json answers "
"""What the last paragraph of the docstring of a verb with an answer in JSON begins with."""

_PROJECTLESS: Final = frozenset({"completion", "init", "uninstall"})
"""The verbs that change the user's own files, or find their folder themselves."""

_DECIDING: Final = frozenset({"review", "proposals accept", "proposals reject", "restore", "undo"})
"""The verbs by which a person decides about what agents' marks ask."""

_ALTERNATIVES: Final = {
    # No word leads to redact, which cannot be undone.
    "accept": "use `tallybook proposals accept`",
    "baseline": "use `tallybook score baseline`",
    "blame": "use `tallybook show --last-change`",
    "config settings": "edit `.claude/config/tallybook.toml`; `tallybook doctor` checks it",
    "delete remove rm": "use `tallybook retire NAME`, which takes an entry out",
    "duplicates": "use `tallybook review --list duplicates`",
    "edit": "use `tallybook reword NAME TEXT`, which changes the text of an entry",
    "find search": "use `tallybook why WORDS`, which finds entries by words of their text",
    "gate": "use `tallybook score gate`",
    "get": "use `tallybook why NAME`, which explains an entry, or `tallybook show --json`",
    "graveyard": "use `tallybook show --gone`",
    "history": "use `tallybook log` for events, or `tallybook why NAME` for those of an entry",
    "install": "use `tallybook init`, which installs the hooks of an agent",
    "list ls": "use `tallybook show` for entries, or `tallybook log` for events",
    "metrics": "use `tallybook score record`",
    "needs-ratings": "use `tallybook review --list needs-ratings`",
    "playbook": "use `tallybook show --as-agent`",
    "pull push": "use `tallybook sync`, which takes in and publishes events",
    "reject": "use `tallybook proposals reject`",
    "revert": "use `tallybook undo`, which undoes the last change, an event or a session",
    "status": "use `tallybook doctor` to check the ledger, or `tallybook show` for entries",
    "unpin": "use `tallybook pin --off`",
    "version": "use `tallybook --version`",
}
"""Words that people try, or that were verbs → what to use."""
ALTERNATIVES: Final = {word: use for words, use in _ALTERNATIVES.items() for word in words.split()}

COMPLETE_VARIABLE: Final = "_TALLYBOOK_COMPLETE"
"""Environment variable by which a shell asks for its completion script or for completions."""


def _refuse_word(context: click.Context, _argument: click.Parameter, word: str | None) -> None:
    if word is not None and not context.resilient_parsing:
        raise BadInputError(word, "comes before the options", f"run `tallybook {context.info_name} {word} …`")


class Verbs(click.Group):
    """The verbs of the table; a verb's module is imported only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb, None where there is none of the name."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module = import_module(f"tallybook.projections.surfaces.cli.{VERBS[cmd_name].module}")
        commands = (value for value in vars(module).values() if isinstance(value, click.Command))
        command = next(command for command in commands if command.name == cmd_name)
        if _PROJECT not in command.params:
            if words := [name.partition(" ")[2] for name in VERBS if name.startswith(f"{cmd_name} ")]:
                # For the help and for completion; on a command line the second word follows the first.
                kind = click.Choice(words)
                word = click.Argument(["word"], type=kind, required=False, expose_value=False, callback=_refuse_word)
                command.params.append(word)
            # `init` has an option of this name, which is its own.
            own = {param.name for param in command.params}
            command.params += [_PROJECT] if "mine" in own else [_PROJECT, _MINE]
            # The shape of the JSON, the last paragraph of the docstring, stands after the example.
            command.help, mark, shape = (command.help or "").partition(ANSWERS)
            if mark:
                command.epilog = f"{command.epilog}\n\n{mark}{' '.join(shape.split())}"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb and its arguments; ``help VERB`` becomes ``VERB --help``."""
        if args[0] == "help" and not ctx.resilient_parsing:
            words = [word for word in args[1:] if word != "help" and not word.startswith("-")]
            if not words:
                click.echo(ctx.get_help())
                ctx.exit()
            if words == ["all"]:
                formatter = ctx.make_formatter()
                for group in GROUPS:
                    _write_group(formatter, group)
                click.echo(formatter.getvalue().strip("\n"))
                ctx.exit()
            name = " ".join(words[:2])
            return self.resolve_command(ctx, [name if name in VERBS else words[0], "--help"])
        if (name := " ".join(args[:2])) in VERBS:
            return super().resolve_command(ctx, [name, *args[2:]])
        word = args[0]
        # Completion parses unfinished lines, and must not fail for them.
        if word in VERBS or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.exceptions.NoSuchCommand(word, possibilities=VERBS, ctx=ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first group with its summaries, and the verbs of the others."""
        del ctx
        first, *others = GROUPS
        _write_group(formatter, first)
        # The first screen names every verb in forty lines at most.
        with formatter.section("More commands"):
            words = {group: [verb.name for verb in GROUPS[group] if " " not in verb.name] for group in others}
            formatter.write_dl([(group, ", ".join(names)) for group, names in words.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options and verbs that begin with a text; Click would import every verb for its summary."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.summary)
            for name, verb in VERBS.items()
            if name.startswith(incomplete) and " " not in name
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


def _write_group(formatter: click.HelpFormatter, group: str) -> None:
    with formatter.section(group):
        formatter.write_dl([(verb.name, verb.summary) for verb in GROUPS[group]])


def _enter_project(context: click.Context, _option: click.Parameter, folder: str | None) -> None:
    """Find the project; ``--project`` after the verb wins over ``--project`` before it."""
    params = context.find_root().params
    params["folder"] = folder or params["folder"]
    # Without a project, `_enter_mine` raises the error again if the verb needs one.
    with suppress(NoProjectError):
        context.obj = find_project(params["folder"])
        if not context.resilient_parsing:
            context.call_on_close(partial(_follow_up, context.obj, str(context.info_name)))


def _enter_mine(context: click.Context, _option: click.Parameter, mine: bool) -> None:  # noqa: FBT001 - Click's own
    """Take the person's own playbook in place of the project's."""
    params = context.find_root().params
    params["mine"] = mine or params["mine"]
    if context.resilient_parsing:
        return
    if not params["mine"]:
        if context.obj is None and context.info_name not in _PROJECTLESS:
            find_project(params["folder"])
        return
    if not VERBS[str(context.info_name)].takes_mine:
        raise BadInputError(f"{context.info_name} --mine", "does not work on your own playbook", "leave --mine out")
    context.obj = personal.require_own(context.obj)


def _follow_up(project: Project, verb: str) -> None:
    """Tell a person what agents' marks ask, or see what is left of that; and what detached syncs did."""
    # The answer is printed already, and a display of progress would come between it and what is told.
    METER.is_shown = False
    if verb in _DECIDING:
        if ledger_access.read_notice(project)[1]:
            from tallybook.projections.surfaces.cli import review

            with suppress(TallybookError, OSError):
                review.refresh_notice(project)
    elif sys.stderr.isatty() and find_agent() is None and (message := ledger_access.take_notice(project)):
        note(message)
    with suppress(TallybookError):
        if sys.stderr.isatty() and Path(membership_file(project)).exists() and sync_results.has_news(project):
            from tallybook.projections.surfaces.sharing import operations

            operations.tell_new(project)


_PROJECT: Final = click.Option(
    ["--project"], metavar="DIR", expose_value=False, hidden=True, is_eager=True, callback=_enter_project
)
"""``--project`` after a verb; every verb has it."""
_MINE: Final = click.Option(["--mine"], is_flag=True, expose_value=False, hidden=True, callback=_enter_mine)
"""``--mine`` after a verb, read after ``--project``."""


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    epilog="Run `tallybook help COMMAND` for its options and examples, `tallybook help all` for a line about each "
    "command. Example: tallybook rate kpt_003 harmful",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--project", "folder", metavar="DIR", help="Use the project in DIR instead of finding it.")
@click.option("--mine", is_flag=True, help="Use your own playbook instead of the project's.")
@as_json
@click.version_option(package_name="tallybook", prog_name="tallybook", help="Print the version and exit.")
@click.help_option("-h", "--help", help="Print this help and exit.")
@click.pass_context
def tallybook(context: click.Context, /, *, as_json: bool, **_: Any) -> None:
    """An event-sourced ledger of ratings for coding agents.

    Every rating is appended to the ledger as an event; playbook.json is a
    replay of the events. --project, --mine and --json may follow the command.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    elif as_json:
        context.default_map = {context.invoked_subcommand: {"as_json": True}}


def usage_message(error: click.ClickException) -> str:
    """Return what is wrong with a command line, and what to do about it."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "tallybook" if context is None else context.command_path
    if isinstance(error, click.exceptions.NoSuchCommand):
        word, near = error.command_name, error.possibilities
        what = f"{word!r} is not a command"
        if word in ALTERNATIVES:
            return f"{what}; {ALTERNATIVES[word]}"
    elif isinstance(error, click.NoSuchOption):
        what, near = f"{error.option_name} is not an option of `{command}`", error.possibilities
    else:
        what, near = error.format_message().rstrip("."), None
        param = error.param if isinstance(error, click.BadParameter) else None
        # Of one that is missing there is no value.
        if param is not None and error.message and isinstance(param.type, click.Choice):
            from difflib import get_close_matches

            # Click's error has the value in its text alone.
            near = get_close_matches(error.message.split("'")[1], param.type.choices)
    return f"{what}; " + (f"did you mean {near[0]}?" if near else f"see `{command} --help`")


_GC_OBJECTS: Final = 100_000
"""After so many new objects garbage is looked for; Python's default is 700."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code; an error is one line on standard error."""

    def work() -> int:
        if instruction := os.environ.get(COMPLETE_VARIABLE):
            from click.shell_completion import shell_complete

            return shell_complete(tallybook, {}, "tallybook", COMPLETE_VARIABLE, instruction)
        try:
            # Not main(): it would handle a closed pipe itself, and differently.
            with tallybook.make_context("tallybook", list(arguments)) as context:
                result = tallybook.invoke(context)
        except click.exceptions.Exit as end:
            return end.exit_code
        except click.Abort:
            # Click raises it for Ctrl-C at a question.
            raise KeyboardInterrupt from None
        except click.ClickException as error:
            return complain(usage_message(error), EXIT_BAD_INPUT)
        return result if isinstance(result, int) else 0

    # Nearly all that a command makes lives until it ends, so looking for garbage took a quarter of a long one's time.
    gc.set_threshold(_GC_OBJECTS)
    return run_guarded(work)
