"""The verb `log`: list events, once or as they are appended."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from itertools import chain
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import CONTINUED
from tallybook.projections.event_rows import EventFilter, is_of_kind
from tallybook.projections.surfaces.console.notices import find_seq
from tallybook.projections.surfaces.console.options import WholeNumber, as_json
from tallybook.projections.surfaces.console.output import METER, answer, note
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.events import comes_from, raters, stretches, undone
from tallybook.projections.surfaces.history.reading import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from tallybook.ledger.line import Position
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import EventRecord
    from tallybook.projections.surfaces.workspace.project import Project

FOLLOW_S: Final = 0.5
"""Seconds between two looks at a ledger that is followed."""


def wanted_of(project: Project, options: Mapping[str, Any]) -> EventFilter:
    """Return what the options of the command ask for.

    Raises:
        BadInputError: One of them names no moment or session of this ledger.
    """
    session = options["session"]
    if session is not None and not options["follow"]:
        session = moments.session_of(open_log(project), session, f"--session {session}").session
    since = find_seq(project, options["since"], "--since")
    until = find_seq(project, options["until"], "--until")
    if since is not None and until is not None and since >= until:
        note(f"--until {options['until']} is not after --since {options['since']}: no event is between them")
    return EventFilter(options["name"], session, options["rater"], options["kinds"], since or 0, until)


def wait_for_more() -> bool:
    """Wait a little, with all shown that there is; say whether anybody still reads standard output."""
    sys.stdout.flush()
    if not hasattr(select, "poll"):  # Windows
        time.sleep(FOLLOW_S)
        return True
    watch = select.poll()
    # Asked for nothing, it tells alone of an end: the reader of a pipe that is gone, a terminal that hung up.
    watch.register(sys.stdout.fileno(), 0)
    told = watch.poll(FOLLOW_S * 1000)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in told):
        return False
    if told:
        # What cannot be watched is told of at once.
        time.sleep(FOLLOW_S)
    return True


@click.command(epilog="Example: tallybook log kpt_001 --since 2d --kind 'point.*' --rater reflector --json")
@click.argument("name", required=False)
@click.option("--since", metavar="WHEN", help="List only events after this moment.")
@click.option("--until", metavar="WHEN", help="List only events up to this moment.")
@click.option(
    "--session",
    metavar="ID",
    help="List only events of this session; a prefix will do.",
)
@click.option("--rater", metavar="R", help="List only events of this rater: human, reflector, …")
@click.option(
    "--kind", "kinds", metavar="K", multiple=True, help="List only this kind, or a family (point.*); repeatable."
)
@click.option("--follow", is_flag=True, help="Wait for more events until interrupted.")
@click.option("-n", "--limit", "limit", metavar="N", type=WholeNumber(1), help="List only the last N of them.")
@as_json
@click.pass_obj
def log(project: Project, /, *, follow: bool, as_json: bool, **options: Any) -> None:
    """List events, newest last.

    With a NAME, only the events that name this entry; an update that prunes entries names none, `why NAME` shows it.
    WHEN is as for `show --at`; --since A --until B lists the events between the playbooks of `diff A B`.
    --follow --since '~0' lists new events only. --follow takes the whole id of a --session.
    """
    ledger, wanted = open_log(project), wanted_of(project, options | {"follow": follow})
    for kind in wanted.kinds:
        if not any(is_of_kind(known, kind) for known in (*EVENT_TYPES, CONTINUED)):
            note(f"--kind {kind}: not a kind of this Tallybook; a kind is point.rated, a family is point.*")
    if wanted.rater is not None and not comes_from(ledger, wanted.rater):
        names = ", ".join(raters(ledger)) or "none yet"
        note(f"--rater {wanted.rater}: no event comes from this rater; the raters in this ledger: {names}")
    limit = options["limit"]
    if limit is not None and wanted == EventFilter(since=wanted.since):
        wanted = attrs.evolve(wanted, since=max(wanted.since, ledger.head().seq - limit))
    paged = sys.stdout.isatty() and not (follow or as_json)
    # There is no other end to following than this.
    with suppress(*[KeyboardInterrupt] if follow else []):
        for mark, records in stretches(ledger, wanted, wait_for_more if follow else None):
            last = records if limit is None else iter(deque(records, limit))
            limit = None
            _tell(ledger, mark, _quietly(last), as_json=as_json, paged=paged)


def _quietly(records: Iterator[EventRecord]) -> Iterator[EventRecord]:
    """Yield records; from the first one on, they alone show on a terminal how far the reading is."""
    for record in records:
        if sys.stdout.isatty():
            METER.disable()
        yield record


def _tell(ledger: Log, mark: Position, records: Iterator[EventRecord], *, as_json: bool, paged: bool) -> None:
    """Print a stretch of the ledger's events, each as it comes."""
    marked = undone(ledger, mark)
    if as_json:
        for record in records:
            answer(marked.row(record))
        return
    from tallybook.projections.surfaces.console import terminal

    console = terminal.console_for(sys.stdout)
    if paged:
        _page(console, map(marked.brief, records))
    else:
        terminal.print_log_rows(console, map(marked.brief, records))


def _page(console: Console, briefs: Iterator[dict[str, Any]]) -> None:
    """Show events in the user's pager; what goes wrong meanwhile is raised once that is closed.

    Without PAGER that is ``less``, which leaves what fits on one screen as it is.
    """
    from tallybook.projections.surfaces.console import terminal

    first = next(briefs, None)
    if first is None:
        return
    errors: list[TallybookError] = []

    def lines() -> Iterator[str]:
        try:
            for index, brief in enumerate(chain([first], briefs)):
                row = terminal.format_log_row(console, brief)
                # Click ends the last line.
                yield ("\n" if index else "") + (click.style(row.plain, dim=True) if row.style else row.plain)
        except TallybookError as error:
            errors.append(error)

    os.environ.setdefault("LESS", "-FRX")
    click.echo_via_pager(lines())
    if errors:
        raise errors[0]
