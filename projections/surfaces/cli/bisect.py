"""The verb `bisect`: find the event that made a condition true. It records nothing."""

from __future__ import annotations

from contextlib import suppress
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import EXIT_NO, BadInputError, DamagedLedgerError, UnknownEntryError
from tallybook.ledger.names import find_name
from tallybook.projections.comparison.bisection import search, turn_json
from tallybook.projections.comparison.conditions import parse
from tallybook.projections.surfaces.cli.whatif import TEXT_CHARS
from tallybook.projections.surfaces.console.notices import find_seq
from tallybook.projections.surfaces.console.options import as_json
from tallybook.projections.surfaces.console.output import answer, format_time, say
from tallybook.projections.surfaces.history.index import index_of
from tallybook.projections.surfaces.history.reading import open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.comparison.bisection import Search
    from tallybook.projections.comparison.conditions import Condition
    from tallybook.projections.surfaces.workspace.project import Project


def find(project: Project, text: str, stretch: tuple[str | None, str | None], *, last: bool = False) -> Search:
    """Return the search for the moment at which a condition became true, first or last.

    Raises:
        BadInputError: It is no condition, or the stretch ends before it begins.
        UnknownEntryError: It never became true, and no entry ever had a name in it.
    """
    condition = parse(text)
    begin, end = (find_seq(project, when, option) for option, when in zip(("--from", "--to"), stretch, strict=True))
    if begin is not None and end is not None and end < begin:
        raise BadInputError(f"--to {stretch[1]}", f"is before --from {stretch[0]}", "exchange them")
    found = _search(project, condition, (begin or 0, end), last=last)
    for name in sorted(condition.names):
        if found.turn is None and name not in found.book.used:
            raise UnknownEntryError(name, find_name(name, found.book.used))
    return found


def _search(project: Project, condition: Condition, stretch: tuple[int, int | None], *, last: bool) -> Search:
    """Search in what speaks of the entries of a condition, where that is known, or in all of history."""
    log = open_log(project)
    # Whoever counts entries asks for all of them.
    found = index_of(log) if all(term.name is not None for term in condition.terms) else None
    if found is not None:
        # What is not as it was is told by whoever reads everything.
        with suppress(DamagedLedgerError):
            return search(condition, lambda: found.about(condition.names), stretch, last=last)
    return search(condition, lambda: decode(log.read()), stretch, last=last)


def lines(told: Mapping[str, Any], *, last: bool) -> Iterator[str]:
    """Yield the answer for people, a line each."""
    event, values = told["event"], told["after"]
    if event is None:
        yield (
            "it was already true at the start and did not become true again"
            if told["began"]
            else "it did not become true"
        )
        yield from (f"  {term} is {_value(value)}" for term, value in values.items())
        return
    by = event["by"]
    who = by["rater"] + (f" in session {by['session']}" if "session" in by else "")
    what = "became true last" if last else "first became true"
    yield f"{what} at event {event['seq']}, {format_time(event['at'])}, by {who}: {event['summary']}"
    for term, value in values.items():
        was = told["before"][term]
        yield f"  {term} is {_value(value)}" + ("" if was == value else f", was {_value(was)}")
    if told["moment"] != event["seq"]:
        yield f"the first playbook that shows it: tallybook show --at {told['moment']}"


def _value(value: Any) -> str:
    """Return the value of a term as a condition has it."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{shorten(value, TEXT_CHARS, placeholder="…")}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command(epilog="Example: tallybook bisect 'kpt_003.harmful > kpt_003.helpful'")
@click.argument("condition")
@click.option("--from", "begin", metavar="WHEN", help="Search after this moment.")
@click.option("--to", "end", metavar="WHEN", help="Search up to this moment.")
@click.option("--last", is_flag=True, help="Find the last such event instead of the first.")
@as_json
@click.pass_obj
def bisect(project: Project, /, **options: Any) -> int:
    """Find the event that made a condition true.

    A CONDITION compares (> >= < <= == !=) whole numbers, count (the number of entries), NAME.helpful and NAME.harmful,
    tests exists(NAME), pruned(NAME), retired(NAME), merged(NAME), pinned(NAME) or NAME.text contains "words", and joins
    these with and, or, not and parentheses. Quote a NAME with characters other than letters, digits, _ and -.
    """
    found = find(project, options["condition"], (options["begin"], options["end"]), last=options["last"])
    told = turn_json(found)
    if options["as_json"]:
        answer(told)
    else:
        say(*lines(told, last=options["last"]))
    return EXIT_NO if found.turn is None else 0
