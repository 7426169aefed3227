"""The verbs that show the playbook and its events: show and log."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import chain
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.clock import utc_now
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED, START
from tallybook.ledger.log import JsonlLog
from tallybook.projections.event_rows import EventFilter, is_of_kind
from tallybook.projections.playbook.confidence import lower_bound
from tallybook.projections.playbook.render import playbook_dict, with_day
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.notices import find_seq
from tallybook.projections.surfaces.console.options import Verb, WholeNumber, at_when, read_text
from tallybook.projections.surfaces.console.output import METER, answer, note, say
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.events import (
    comes_from,
    event_parts,
    find_start,
    find_undone_events,
    raters,
    tail_of,
)
from tallybook.projections.surfaces.history.reading import log_with_book, open_log
from tallybook.projections.surfaces.sharing.targets import contained_in, find_writers
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rich.console import Console

    from tallybook.ledger.line import Position
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import EventRecord
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog
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
    from tallybook.projections.surfaces.agents.inside import find_agent
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


FOLLOW_S: Final = 0.5
"""Seconds between two looks at a ledger that is followed."""


def _parse_filter(project: Project, log: Log, options: Mapping[str, Any]) -> EventFilter:
    """Return the events that the options of the command select; print notes about options that select none.

    Raises:
        BadInputError: An option names no moment or session of this ledger.
    """
    session, rater = options["session"], options["rater"]
    # A session that is followed need not have begun.
    if session is not None and not options["follow"]:
        session = moments.session_of(log, session, f"--session {session}").session
    if log_with_book(log):
        return _shared_filter(project, log, {**options, "session": session})
    if options["writer"] is not None:
        find_writers(log, options["writer"], "--writer")
    since = find_seq(project, options["since"], "--since")
    until = find_seq(project, options["until"], "--until")
    if since is not None and until is not None and since >= until:
        note(f"--until {options['until']} is not after --since {options['since']}: no event is between them")
    _note_unknown(log, options)
    return EventFilter(options["name"], session, rater, options["kinds"], since or 0, until)


def _shared_filter(project: Project, log: SharedLog, options: Mapping[str, Any]) -> EventFilter:
    """Return the events of a shared history that the options select; the log ends at ``--until`` already."""
    since = moments.find(project, options["since"], "--since", log) if options["since"] is not None else None
    wanted = options["writer"]
    _note_unknown(log, options)
    return EventFilter(
        options["name"],
        options["session"],
        options["rater"],
        options["kinds"],
        writers=frozenset() if wanted is None else find_writers(log, wanted, "--writer"),
        is_earlier=None if since is None else contained_in(log, since),
    )


def _open(project: Project, when: str | None) -> Log:
    """Return the ledger; a shared one as of the moment of ``--until``.

    Raises:
        BadInputError: It is a moment of the book or of a commit.
    """
    log = open_log(project)
    if log_with_book(log) and when is not None:
        moment = moments.find_here(project, when, "--until")
        note(*moment.notes)
        return log.at(moment.seq)
    return log


def _note_unknown(log: Log, options: Mapping[str, Any]) -> None:
    """Print notes about kinds and raters that select nothing."""
    rater = options["rater"]
    for kind in options["kinds"]:
        if not any(is_of_kind(known, kind) for known in (*EVENT_TYPES, CONTINUED)):
            note(f"--kind {kind}: not a kind of this Tallybook; a kind is point.rated, a family is point.*")
    if rater is not None and not comes_from(log, rater):
        names = ", ".join(raters(log)) or "none yet"
        note(f"--rater {rater}: no event comes from this rater; the raters in this ledger: {names}")


def wait_for_more() -> bool:
    """Flush standard output and wait for FOLLOW_S; return whether its reader is still there."""
    sys.stdout.flush()
    if hasattr(select, "poll"):  # Windows has none.
        poll = select.poll()
        # With no event asked for, poll reports only an end: a closed pipe, a terminal that hung up.
        poll.register(sys.stdout.fileno(), 0)
        reported = poll.poll(FOLLOW_S * 1000)
        if not reported:
            return True
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in reported):
            return False
    # Poll returns at once for a stream that it cannot watch.
    time.sleep(FOLLOW_S)
    return True


@click.command(cls=Verb, example="tallybook log kpt_001 --since 2d --kind 'point.*' --rater reflector --json")
@click.argument("name", required=False)
@click.option("--since", metavar="WHEN", help="List only events after this moment.")
@click.option("--until", metavar="WHEN", help="List only events up to this moment.")
@click.option("--session", metavar="ID", help="List only events of this session; a prefix will do.")
@click.option("--rater", metavar="R", help="List only events of this rater: human, reflector, …")
@click.option("--writer", metavar="W", help="List only events of this machine, in a shared book.")
@click.option(
    "--kind", "kinds", metavar="K", multiple=True, help="List only this kind, or a family (point.*); repeatable."
)
@click.option("--follow", is_flag=True, help="Wait for more events until interrupted.")
@click.option("-n", "--limit", "limit", metavar="N", type=WholeNumber(1), help="List only the last N of them.")
def log(project: Project, /, *, follow: bool, as_json: bool, **options: Any) -> None:
    """List events, newest last.

    With a NAME, only the events that name this entry; an update that prunes entries names none, `why NAME` shows it.
    WHEN is as for `show --at`; --since A --until B lists the events between the playbooks of `diff A B`.
    --follow --since '~0' lists new events only. --follow takes the whole id of a --session.
    """
    ledger = _open(project, options["until"])
    selection = _parse_filter(project, ledger, options | {"follow": follow})
    limit, start = options["limit"], START
    if limit is not None and selection == EventFilter(since=selection.since) and type(ledger) is JsonlLog:
        # Every event counts, so the last of them are those before the head.
        selection = attrs.evolve(selection, since=max(selection.since, ledger.head().seq - limit))
        start = find_start(ledger, limit)
    elif limit is not None and selection == EventFilter() and log_with_book(ledger) and ledger.until is None:
        ledger = tail_of(ledger, limit)
    paged = sys.stdout.isatty() and not (follow or as_json)
    # Ctrl-C is the regular end of following.
    with suppress(*[KeyboardInterrupt] if follow else []):
        for position, records in event_parts(ledger, selection, wait_for_more if follow else None, start):
            last = records
            if log_with_book(ledger):
                # The book lists events as they came in.
                last = iter(sorted(last, key=lambda record: record.when or record.at))
            last = last if limit is None else iter(deque(last, limit))
            limit = None
            _print_events(ledger, position, _without_progress(last), as_json=as_json, paged=paged)


def _without_progress(records: Iterator[EventRecord]) -> Iterator[EventRecord]:
    """Yield records; on a terminal, the first of them ends the display of progress."""
    for record in records:
        if sys.stdout.isatty():
            METER.disable()
        yield record


def _print_events(ledger: Log, after: Position, records: Iterator[EventRecord], *, as_json: bool, paged: bool) -> None:
    """Print events, each as soon as it is read."""
    undone = find_undone_events(ledger, after)
    if as_json:
        for record in records:
            answer(undone.row(record))
        return
    from tallybook.projections.surfaces.console import terminal

    console = terminal.console_for(sys.stdout)
    if paged:
        _page(console, map(undone.brief, records))
    else:
        terminal.print_log_rows(console, map(undone.brief, records))


def _page(console: Console, briefs: Iterator[dict[str, Any]]) -> None:
    """Show events in the user's pager; an error while reading is raised after the pager is closed."""
    from tallybook.projections.surfaces.console import terminal

    first = next(briefs, None)
    if first is None:
        return
    errors: list[TallybookError] = []

    def lines() -> Iterator[str]:
        try:
            for index, brief in enumerate(chain([first], briefs)):
                rows = terminal.format_log_row(console, brief)
                text = "\n".join(click.style(row.plain, dim=True) if row.style else row.plain for row in rows)
                # Click ends the last line.
                yield ("\n" if index else "") + text
        except TallybookError as error:
            errors.append(error)

    terminal.page(lines())
    if errors:
        raise errors[0]
