"""Tables for people: the last change of each entry, the graveyard, entries that need ratings, rows of a query."""

from __future__ import annotations

from itertools import islice
import json
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from tallybook.projections.surfaces.console.output import format_author, format_time, happened_at
from tallybook.projections.surfaces.console.terminal import make_text, print_indented, print_line, print_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.text import Text

MAX_ROWS: Final = 1_000
"""Rows of a query that are shown to people."""

WIDE: Final = 40
"""Width of a column from which on it may be folded."""

GAP: Final = 3
NUMBER: Final = "bold"


def print_blame(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print a line for each entry: the event that last changed it. A line is never cut.

    Args:
        console: Where to print.
        rows: As ``entry_history.answers.blame`` has them; an event number is None where a manual edit is not recorded.
        at: The moment that they show, None for now.
    """
    if not rows:
        print_text(console, "The playbook is empty." if at is None else f"The playbook was empty at {at}.")
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        event, counts = row["event"], _counts(row)
        when = f"{_number(event):>6}  {format_time(happened_at(event))}  {format_author(event['by'])}"
        print_line(console, f"{row['name']:<{width}}  {counts:<8}  {when}  {event['summary']}")
    _as_of(console, at)


def _number(event: Mapping[str, Any]) -> str:
    return "-" if event["seq"] is None else str(event["seq"])


def _as_of(console: Console, at: str | None) -> None:
    if at is not None:
        print_text(console, f"as of {at}", style="dim")


def print_graveyard(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print each entry that left the playbook: how, by what, and its text.

    Args:
        console: Where to print.
        rows: As ``entry_history.answers.graveyard`` has them; an event number is None as for ``print_blame``.
        at: The moment that they show, None for now.
    """
    if not rows:
        gone = "was pruned, retired, removed, merged or undone"
        beginning = "is empty: nothing ever" if at is None else f"was empty at {at}: by then nothing"
        print_text(console, f"The graveyard {beginning} {gone}.")
        return
    for row in rows:
        event = row["event"]
        heading = make_text(console, row["name"], "bold")
        heading.append_text(make_text(console, f"  {row['status']}", "red"))
        why = f", {_cause(row)}" if _cause(row) else ""
        by = f"{format_time(happened_at(event))} by {format_author(event['by'])}{why}"
        where = "in playbook.json" if event["seq"] is None else f"event {event['seq']}"
        heading.append_text(make_text(console, f"  {_counts(row)}  {where}, {by}"))
        console.print(heading)
        print_indented(console, make_text(console, row["text"]))
    _as_of(console, at)


def _cause(row: Mapping[str, Any]) -> str:
    """Return the rule, the reason or the entry merged into, by which an entry left; empty where unknown."""
    into = f"into {row['into']}" if row["into"] else ""
    return row["rule"] or ", ".join(filter(None, (into, row["reason"]))) or ""


def print_needs_ratings(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the entries that most need ratings: the interval of their share of helpful ratings, and the text.

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


def print_rows(console: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bool:
    """Print the rows of a query, MAX_ROWS at most, and return whether there are more.

    Where the columns do not fit next to each other, each row is a block with a line for each column.
    """
    unread = iter(rows)
    cells = [[_cell(console, value) for value in row] for row in islice(unread, MAX_ROWS)]
    if not cells:
        print_text(console, f"no rows of {', '.join(columns)}")
        return False
    widths = [max(len(column), *(row[index].cell_len for row in cells)) for index, column in enumerate(columns)]
    if sum(min(width, WIDE) + GAP for width in widths) - GAP <= console.width:
        console.print(_make_table(console, columns, cells))
    else:
        _print_blocks(console, columns, cells)
    return next(unread, None) is not None


def _make_table(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = all(row[index].style == NUMBER for row in rows)
        table.add_column(make_text(console, column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _print_blocks(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    width = max(map(len, columns))
    for number, row in enumerate(rows, 1):
        print_text(console, f"row {number}", style="dim")
        for column, cell in zip(columns, row, strict=True):
            console.print(make_text(console, f"{column:<{width}}  ", "bold") + cell, soft_wrap=True)


def _cell(console: Console, value: Any) -> Text:
    """Return a value as text; an unknown one is dim."""
    if value is None:
        return make_text(console, "NULL", "dim")
    style = NUMBER if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return make_text(console, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), style)
