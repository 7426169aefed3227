"""The verbs that show what the ledger holds: `show` in its forms, and `sql`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.clock import utc_now
from tallybook.ledger.errors import BadInputError
from tallybook.projections.playbook.confidence import lower_bound
from tallybook.projections.playbook.render import playbook_dict, with_day
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.options import Verb, WholeNumber, at_when, read_text
from tallybook.projections.surfaces.console.output import answer, note, say
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.surfaces.workspace.project import Project

SORTS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "name": lambda entry: str(entry["name"]).casefold(),
    "helpful": lambda entry: -entry["helpful"],
    "harmful": lambda entry: -entry["harmful"],
    "trust": lambda entry: -lower_bound(entry["helpful"], entry["harmful"]),
}
"""Value of ``--sort`` → the key by which entries are sorted; equal ones keep their order in the playbook."""


_FORMS: Final = {
    "--as-agent": frozenset({"--for", "--explain", "--session"}),
    "--gone": frozenset({"--at"}),
    "--last-change": frozenset({"--at"}),
    "": frozenset({"--at", "--limit", "--lift", "--sort"}),
}
"""Option that chooses what `show` answers, empty for the playbook → the options that go with it."""


@click.command(cls=Verb, example="tallybook show --sort trust --limit 10; tallybook show --gone --at 2026-11-01")
# Taken only to be answered: people ask this verb for one entry.
@click.argument("names", metavar="", nargs=-1)
@click.option("--sort", type=click.Choice(list(SORTS)), help="Sort by this, the largest number first.")
@click.option("-n", "--limit", metavar="N", type=WholeNumber(1), help="Show only the first N entries.")
@click.option("--lift", is_flag=True, help="Say of each question of lift what is known.")
@at_when
@click.option("--gone", is_flag=True, help="List the entries that left the playbook, and why.")
@click.option("--last-change", is_flag=True, help="Show the event that last changed each entry.")
@click.option("--as-agent", is_flag=True, help="Show what a session is given, and record it in an agent.")
@click.option("--for", "for", metavar="TEXT", help="Rank by this task; - reads it; with --as-agent.")
@click.option("--explain", is_flag=True, help="Show the parts of each score; with --for.")
@click.option("--session", metavar="ID", help="Show what this session is given; with --as-agent.")
def show(project: Project, /, *, names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show the playbook, now or as of a moment.

    WHEN is an event number, ~N (N events before the last), a date or time, an age such as 2d, session:ID (before that
    session), session:ID+ (after it) or git:REV (the playbook of a commit). --gone lists the entries that were pruned,
    retired, removed, merged or undone; the latest comes last. --last-change names for each entry the event that last
    changed its counts, its text or its status. --as-agent ranks the entries for a task: the score of an entry is the
    relevance of the task's words plus the proof of its ratings. Inside an agent that answer is recorded as an
    injection.

    --json answers the playbook in the specification's format; --gone: [{name, text, helpful, harmful, status, rule,
    reason, into, event}]; --last-change: [{name, text, helpful, harmful, event}], where seq and id of a manual edit are
    null until a command records it; --as-agent: {entries, left_out, chars, budget_chars}, an entry {name, text,
    helpful, harmful}, and with --for score, words and proof
    """
    if names:
        words = " ".join(names)
        raise BadInputError(f"show {words}", "takes no entry", f"run `tallybook why {words}`, which explains it")
    form = _form_of(options)
    when = options["when"]
    if form == "--as-agent":
        _show_as_agent(project, options, as_json=as_json)
    elif form:
        _show_statuses(project, form, when, as_json=as_json)
    else:
        _show_playbook(project, options, when, as_json=as_json)


def _form_of(options: Mapping[str, Any]) -> str:
    """Return the option that chooses what is shown, empty for the playbook.

    Raises:
        BadInputError: There are several, or an option that its answer would ignore.
    """
    given = {
        "--at" if name == "when" else f"--{name.replace('_', '-')}"
        for name, value in options.items()
        if value is not None and value is not False
    }
    form, *others = sorted(given & _FORMS.keys()) or [""]
    ignored = sorted(others or given - _FORMS[form] - {form})
    if not ignored:
        return form
    if form:
        raise BadInputError(f"{form} and {ignored[0]}", "exclude each other", "give one of them")
    raise BadInputError(ignored[0], "needs --as-agent", f"run `tallybook show --as-agent {ignored[0]} …`")


def _show_playbook(project: Project, options: Mapping[str, Any], when: str | None, *, as_json: bool) -> None:
    if as_json and options["lift"]:
        raise BadInputError("--json", "excludes --lift", "`tallybook lift --json` has the verdicts")
    shown = commands.playbook(project, when)
    playbook = playbook_dict(shown.state)
    number = len(playbook["key_points"])
    if options["sort"] is not None:
        playbook["key_points"].sort(key=SORTS[options["sort"]])
    playbook["key_points"] = playbook["key_points"][: options["limit"]]
    note(*shown.notes, *commands.spool_notes(project))
    if as_json:
        answer(playbook)
        return
    from tallybook.projections.surfaces.console import terminal

    moment = None if when is None else shown.moment
    latest = shown.state.latest_batch
    # A past moment says of an entry what held then, whatever day it is now.
    today = utc_now().at if when is None else latest.at if latest else ""
    entries = [with_day(entry, shown.state.until, today[:10]) for entry in playbook["key_points"]]
    console = terminal.console_for(sys.stdout)
    with terminal.page_output(console):
        terminal.print_playbook(console, entries, playbook["last_updated"], moment, number)
    if options["lift"]:
        from tallybook.projections.surfaces.console.notices import find_moment
        from tallybook.projections.surfaces.selection import lift_notes

        say(*(lift_notes.summary_lines(project, find_moment(project, when)) or ["lift: nothing was asked"]))


def _show_statuses(project: Project, form: str, when: str | None, *, as_json: bool) -> None:
    """Print the entries that left, or the last change of each, and notes about their moment."""
    from tallybook.projections.entry_history import answers
    from tallybook.projections.surfaces.console import terminal
    from tallybook.projections.surfaces.history.stories import WITH_EDIT

    find_rows, print_rows = (
        (answers.graveyard, terminal.print_graveyard) if form == "--gone" else (answers.blame, terminal.print_blame)
    )
    shown = commands.statuses(project, when)
    rows = shown.without_numbers(find_rows(shown.state))
    note(*shown.notes, *([f"this is {WITH_EDIT}"] if shown.has_edit else []), *commands.spool_notes(project))
    if as_json:
        answer(rows)
    else:
        print_rows(terminal.console_for(sys.stdout), rows, when and shown.moment)


def _show_as_agent(project: Project, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a session is given, for a task or at its start."""
    from tallybook.projections.event_rows import CAUSES
    from tallybook.projections.surfaces.agents.table import find_agent
    from tallybook.projections.surfaces.selection import answers

    task, explain = options["for"], options["explain"]
    if personal.option(project):
        raise BadInputError("show --as-agent --mine", "does not work on your own playbook", "leave --mine out")
    if task is None and explain:
        raise BadInputError("--explain", "needs a task", "give --for TEXT")
    task = None if task is None else read_text(task, "the task")
    found = answers.answer_task(project, task, options["session"])
    if as_json:
        sizes = {"chars": len(found.text), "budget_chars": found.budget_chars}
        answer({"entries": answers.rows(found), "left_out": dict(found.left_out), **sizes})
        return
    if explain:
        for entry in found.entries:
            say(f"{entry['name']}  {answers.explain(entry, found.scores[entry['name']])}", f"    {entry['text']}")
    elif found.text:
        say(*found.text.split("\n"))
    if found.left_out and (explain or not found.text):
        causes = [f"{number} {CAUSES.get(cause, cause)}" for cause, number in found.left_out.items()]
        note(f"left out: {', '.join(causes)}")
    elif not found.text:
        note("nothing is given" + ("" if found.budget_chars else ": budget_chars is 0"))
    # A person is told how the agent does; the model that asks is not.
    if find_agent() is None:
        from tallybook.projections.surfaces.scores import configuration

        note(*filter(None, [configuration.line(project)]))


@click.command(cls=Verb, example="tallybook sql 'SELECT session, count(*) FROM ratings GROUP BY session'")
@click.argument("query")
@at_when
def sql(project: Project, /, *, query: str, when: str | None, as_json: bool) -> None:
    """Query the ledger in SQL.

    The database is SQLite. A QUERY of - is read from standard input. Tables: events, ratings, sessions, points (the
    playbook) and graveyard; PRAGMA table_info(NAME) shows their columns. A query cannot write, nor read a file or an
    address. --json prints one object a line for each row.

    --json answers one row a line
    """
    from tallybook.projections.surfaces.console import terminal
    from tallybook.projections.surfaces.console.notices import find_moment
    from tallybook.projections.surfaces.history import sql as engine

    result = engine.query(project, read_text(query, "a query"), find_moment(project, when))
    note(*commands.spool_notes(project))
    if as_json:
        for row in result.rows:
            answer(dict(zip(result.columns, row, strict=True)))
        return
    if terminal.print_rows(terminal.console_for(sys.stdout), result.columns, result.rows):
        note(f"only {terminal.MAX_ROWS:,} rows are shown; use --json for all rows")
