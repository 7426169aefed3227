"""Answers about the whole playbook, for people: who changed what, who is gone, who wants ratings, and of queries."""

from __future__ import annotations

from itertools import islice
import json
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.console.terminal import make_text, print_indented, print_line, print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

MAX_ROWS: Final = 1_000
"""Rows of a query's answer that people are shown."""

WIDE: Final = 40
"""Characters of a column beyond which it may be folded."""

GAP: Final = 3
NUMBER: Final = "bold"


def blame(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print a line for each entry: the event that last changed it. A line is never cut.

    Args:
        console: Where to print.
        rows: As ``projections.standing.blame`` has them; a number is None where a hand's change is no event yet.
        at: The moment they are of, None where that need not be said.
    """
    if not rows:
        print_text(console, "The playbook is empty." if at is None else f"The playbook was empty at {at}.")
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        event, counts = row["event"], _counts(row)
        when = f"{_number(event):>6}  {format_time(event['at'])}  {event['by']['rater']}"
        print_line(console, f"{row['name']:<{width}}  {counts:<8}  {when}  {event['summary']}")
    _as_of(console, at)


def _number(event: Mapping[str, Any]) -> str:
    return "-" if event["seq"] is None else str(event["seq"])


def _as_of(console: Console, at: str | None) -> None:
    if at is not None:
        print_text(console, f"as of {at}", style="dim")


def graveyard(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print each entry that is gone: how and by what, and its text.

    Args:
        console: Where to print.
        rows: As ``projections.standing.graveyard`` has them; a number is None where a hand's change is no event yet.
        at: The moment they are of, None where that need not be said.
    """
    if not rows:
        gone = "was pruned, retired, removed, merged or undone"
        begins = "is empty: nothing ever" if at is None else f"was empty at {at}: by then nothing"
        print_text(console, f"The graveyard {begins} {gone}.")
        return
    for row in rows:
        event = row["event"]
        heading = make_text(console, row["name"], "bold")
        heading.append_text(make_text(console, f"  {row['status']}", "red"))
        why = f", {_cause(row)}" if _cause(row) else ""
        by = f"{format_time(event['at'])} by {event['by']['rater']}{why}"
        where = "in playbook.json" if event["seq"] is None else f"event {event['seq']}"
        heading.append_text(make_text(console, f"  {_counts(row)}  {where}, {by}"))
        console.print(heading)
        print_indented(console, make_text(console, row["text"]))
    _as_of(console, at)


def _cause(row: Mapping[str, Any]) -> str:
    """Return by which rule, for which reason or into what an entry went, as far as known."""
    into = f"into {row['into']}" if row["into"] else ""
    return row["rule"] or ", ".join(filter(None, (into, row["reason"]))) or ""


def needs_ratings(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the entries of which the ratings say least: the interval of the share that is helpful, and the text.

    Args:
        console: Where to print.
        rows: As ``tallybook.projections.playbook.render.needs_ratings`` has them.
    """
    if not rows:
        print_text(console, "The playbook is empty.")
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        share = f"{row['low'] * 100:>3.0f} to {row['high'] * 100:>3.0f} %"
        print_line(console, f"{row['name']:<{width}}  {_counts(row):<8}  {share}  {row['text']}")


def _counts(row: Mapping[str, Any]) -> str:
    return f"+{row['helpful']} -{row['harmful']}"


def table(console: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bool:
    """Print the answer of a query, and say whether there were more rows than MAX_ROWS, which are left out.

    Where the columns have no room beside each other, each row is a block with a line for each column.
    """
    left = iter(rows)
    chosen = [[_cell(console, value) for value in row] for row in islice(left, MAX_ROWS)]
    if not chosen:
        print_text(console, f"no rows of {', '.join(columns)}")
        return False
    widths = [max(len(column), *(row[index].cell_len for row in chosen)) for index, column in enumerate(columns)]
    if sum(min(width, WIDE) + GAP for width in widths) - GAP <= console.width:
        console.print(_side_by_side(console, columns, chosen))
    else:
        _blocks(console, columns, chosen)
    return next(left, None) is not None


def _side_by_side(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    printed = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = all(row[index].style == NUMBER for row in rows)
        printed.add_column(make_text(console, column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        printed.add_row(*row)
    return printed


def _blocks(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        print_text(console, f"row {number}", style="dim")
        for column, cell in zip(columns, row, strict=True):
            console.print(make_text(console, f"{column:<{width}}  ", "bold") + cell, soft_wrap=True)


def _cell(console: Console, value: Any) -> Text:
    """Return a value of an answer; what is not known is dim."""
    if value is None:
        return make_text(console, "NULL", "dim")
    style = NUMBER if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return make_text(console, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), style)
