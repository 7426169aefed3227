"""The verb `bisect`: find the event that made a condition true. It records nothing."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import EXIT_NO, BadInputError, UnknownEntryError
from tallybook.ledger.names import find_name
from tallybook.ledger.sharing.numbers import BOOK, PENDING
from tallybook.projections.comparison.bisection import search, turn_json
from tallybook.projections.comparison.conditions import parse
from tallybook.projections.surfaces.console.notices import find_seq
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import answer, format_author, format_time, happened_at, say
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.entry_batches import history_of
from tallybook.projections.surfaces.history.reading import current, log_with_book, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.comparison.bisection import Search
    from tallybook.projections.comparison.conditions import Condition
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog
    from tallybook.projections.surfaces.workspace.project import Project


_TEXT_CHARS: Final = 70


def find(project: Project, text: str, bounds: tuple[str | None, str | None], *, last: bool = False) -> Search:
    """Return the search for the moment at which a condition became true, first or last.

    Args:
        project: The project.
        text: The condition.
        bounds: The moments after which and up to which to search; None for the beginning and the end.
        last: Whether to find the last such moment.

    Raises:
        BadInputError: The text is not a condition, or the second bound is before the first.
        UnknownEntryError: It never became true, and it names an entry that never existed.
    """
    condition = parse(text)
    log = open_log(project)
    if log_with_book(log):
        result = _search_shared(project, log, condition, bounds, last=last)
    else:
        begin, end = (find_seq(project, when, option) for option, when in zip(("--from", "--to"), bounds, strict=True))
        if begin is not None and end is not None and end < begin:
            raise _reversed(bounds)
        result = _search(project, condition, (begin or 0, end), last=last)
    for name in sorted(condition.names):
        if result.turn is None and name not in result.book.used:
            # The search need not have read the events of other entries.
            raise UnknownEntryError(name, find_name(name, current(log).used))
    return result


def _reversed(bounds: tuple[str | None, str | None]) -> BadInputError:
    return BadInputError(f"--to {bounds[1]}", f"is before --from {bounds[0]}", "exchange them")


def _search_shared(
    project: Project, log: SharedLog, condition: Condition, bounds: tuple[str | None, str | None], *, last: bool
) -> Search:
    """Return the search in a shared history: of this machine, or of the book alone where a bound is one of its events.

    An own moment is that of the book which the playbook contained then; own events that were pending then follow it.
    """
    first, second = (
        None if when is None else moments.find(project, when, option, log)
        for option, when in zip(("--from", "--to"), bounds, strict=True)
    )
    history = log.read if second is None else second.read
    end = None if second is None else second.seq
    begin = 0
    if first is not None and first.in_book is not None:
        begin = BOOK + first.in_book
    elif first is not None:
        then, now = log.at(first.seq).history.frontier.seq, log.history.frontier.seq
        begin = PENDING + first.seq if then == now else BOOK + then
    same_kind = first is None or second is None or (first.in_book is None) == (second.in_book is None)
    if first is not None and end is not None and same_kind and end < first.seq:
        raise _reversed(bounds)
    return search(condition, lambda: decode(history()), (begin, None), last=last)


def _search(project: Project, condition: Condition, bounds: tuple[int, int | None], *, last: bool) -> Search:
    log = open_log(project)
    # A condition that counts entries depends on every event, one that names entries on those about them.
    is_named = all(term.name is not None for term in condition.terms)
    read = history_of(log, condition.names) if is_named else lambda: decode(log.read())
    return search(condition, read, bounds, last=last)


def _lines(result: Mapping[str, Any], *, last: bool) -> Iterator[str]:
    """Yield the result of a search as lines for people."""
    event = result["event"]
    if event is None:
        always = "it was already true at the start and did not become true again"
        yield always if result["began"] else "it did not become true"
        yield from (f"  {term} is {_format_value(value)}" for term, value in result["after"].items())
        return
    by = event["by"]
    author = format_author(by) + (f" in session {by['session']}" if "session" in by else "")
    place = f"event {event['seq']}, {format_time(happened_at(event))}, by {author}: {event['summary']}"
    yield f"became true last at {place}" if last else f"first became true at {place}"
    for term, value in result["after"].items():
        before = result["before"][term]
        was = "" if before == value else f", was {_format_value(before)}"
        yield f"  {term} is {_format_value(value)}{was}"
    if result["moment"] != event["seq"]:
        yield f"the first playbook that shows it: tallybook show --at {result['moment']}"


def _format_value(value: Any) -> str:
    """Return the value of a term as a condition has it."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{shorten(value, _TEXT_CHARS, placeholder="…")}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command(cls=Verb, example="tallybook bisect 'kpt_003.harmful > kpt_003.helpful'")
@click.argument("condition")
@click.option("--from", "begin", metavar="WHEN", help="Search after this moment.")
@click.option("--to", "end", metavar="WHEN", help="Search up to this moment.")
@click.option("--last", is_flag=True, help="Find the last such event instead of the first.")
def bisect(project: Project, /, **options: Any) -> int:
    """Find the event that made a condition true.

    A CONDITION compares (> >= < <= == !=) whole numbers, count (the number of entries), NAME.helpful and NAME.harmful,
    tests exists(NAME), pruned(NAME), retired(NAME), merged(NAME), pinned(NAME) or NAME.text contains "words", and joins
    these with and, or, not and parentheses. Quote a NAME with characters other than letters, digits, _ and -.
    """
    search_result = find(project, options["condition"], (options["begin"], options["end"]), last=options["last"])
    result = turn_json(search_result)
    if options["as_json"]:
        answer(result)
    else:
        say(*_lines(result, last=options["last"]))
    return EXIT_NO if search_result.turn is None else 0
