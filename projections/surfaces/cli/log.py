"""The verb `log`: list events, once or as they are appended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED, START
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import EventRecord
from tallybook.projections.event_rows import EventFilter, is_of_kind
from tallybook.projections.surfaces.console.output import METER, answer, note
from tallybook.projections.surfaces.console.parameters import Verb, WholeNumber, find_seq
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.events import (
    comes_from,
    event_parts,
    find_start,
    find_undone_events,
    has_kind,
    raters,
    tail_of,
)
from tallybook.projections.surfaces.history.reading import has_book, open_log
from tallybook.projections.surfaces.sharing.targets import contained_in, find_writers
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from rich.console import Console

    from tallybook.ledger.log import Log

FOLLOW_S: Final = 0.5
"""Seconds between two looks at a ledger that is followed."""


def _select(project: Project, options: Mapping[str, Any]) -> tuple[Log, EventFilter]:
    """Return the ledger and what the options select of it; print notes about options that select nothing.

    A shared ledger is as of the moment of ``--until``.

    Raises:
        BadInputError: An option names no kind, moment, session or machine of this ledger.
    """
    log, until = open_log(project), find_seq(project, options["until"], "--until")
    if has_book(log) and until is not None:
        log, until = log.at(until), None
    session, rater, writer, when, kinds = (options[name] for name in ("session", "rater", "writer", "since", "kinds"))
    # A session that is followed need not have begun.
    if session is not None and not options["follow"]:
        session = moments.session_of(log, session, f"--session {session}").session
    writers = frozenset() if writer is None else find_writers(log, writer, "--writer")
    since, is_earlier = 0, None
    if when is not None and has_book(log):
        is_earlier = contained_in(log, moments.find(project, when, "--since", log))
    elif when is not None:
        since = find_seq(project, when, "--since") or 0
        if until is not None and since >= until:
            note(f"--until {options['until']} is not after --since {when}: no event is between them")
    for kind in kinds:
        # A newer Tallybook may have written kinds of its own.
        if not any(is_of_kind(known, kind) for known in (*EVENT_TYPES, CONTINUED)) and not has_kind(log, kind):
            raise BadInputError(f"--kind {kind}", "is not a kind", "a kind is point.rated, a family is point.*")
    if rater is not None and not comes_from(log, rater):
        names = ", ".join(raters(log)) or "none yet"
        note(f"--rater {rater}: no event comes from this rater; the raters in this ledger: {names}")
    return log, EventFilter(options["name"], session, rater, kinds, since, until, writers, is_earlier)


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

    --json answers one event a line, with undone_by where it was undone
    """
    ledger, selection = _select(project, options | {"follow": follow})
    limit, start = options["limit"], START
    if limit is not None and selection == EventFilter(since=selection.since) and type(ledger) is JsonlLog:
        # Every event counts, so the last of them are those before the head.
        selection = attrs.evolve(selection, since=max(selection.since, ledger.head().seq - limit))
        start = find_start(ledger, limit)
    elif limit is not None and selection == EventFilter() and has_book(ledger) and ledger.until is None:
        ledger = tail_of(ledger, limit)
    paged = sys.stdout.isatty() and not (follow or as_json)
    # Ctrl-C is the regular end of following.
    with suppress(*[KeyboardInterrupt] if follow else []):
        for position, records in event_parts(ledger, selection, wait_for_more if follow else None, start):
            last = records
            if has_book(ledger):
                # The book lists events as they came in.
                last = iter(sorted(last, key=lambda record: record.when or record.at))
            last = last if limit is None else iter(deque(last, limit))
            limit = None
            last = _without_progress(last)
            undone = find_undone_events(ledger, position)
            if as_json:
                for record in last:
                    answer(undone.row(record))
                continue
            from tallybook.projections.surfaces.console import terminal

            console = terminal.console_for()
            if paged:
                _page(console, map(undone.brief, last))
            else:
                terminal.print_log_rows(console, map(undone.brief, last))


def _without_progress(records: Iterator[EventRecord]) -> Iterator[EventRecord]:
    """Yield records; on a terminal, the first of them ends the display of progress."""
    for record in records:
        if sys.stdout.isatty():
            METER.disable()
        yield record


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
