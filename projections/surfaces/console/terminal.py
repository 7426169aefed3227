"""The Rich console, and the tables and lines that verbs print on it for people.

Texts come from other people: nothing in them is markup, and none of their characters moves the cursor. Everything is
readable at 40 columns, without colour and without UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice, repeat
import json
import os
import sys
from typing import IO, Any, Final

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tallybook.projections.playbook.inject import interval
from tallybook.projections.surfaces.console import output

NARROW: Final = 60
"""Columns below which a table leaves too little room for the text, so that entries are blocks of lines instead."""

BAR_CELLS: Final = 5
INDENT: Final = 2
LOG_INDENT: Final = 8
"""Columns of an event's number in a line of `log`, and of the lines that continue it."""


class _Terminal(Console):
    """A console that raises BrokenPipeError where the reader of a pipe has closed it."""

    def on_broken_pipe(self) -> None:
        """Raise the error; Rich would exit with 1 here, which means that the answer is no."""
        raise BrokenPipeError


def console_for(stream: IO[str] | None = None, width: int | None = None) -> Console:
    """Return a console that prints to a stream: with colour only where it is a terminal.

    Args:
        stream: Where to print, standard output by default; its encoding decides how boxes and bars look.
        width: Columns, 20 at least; None asks the terminal, and takes 80 in a pipe.
    """
    output.METER.clear()
    console = _Terminal(file=stream or sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    # The variable COLUMNS can be 0, and then nothing at all would be printed.
    console.width = console.width or 80
    return console


@contextmanager
def page_output(console: Console) -> Iterator[None]:
    """Show what is printed meanwhile in the user's pager, where the console is a terminal."""
    if not console.file.isatty():
        yield
        return
    with console.capture() as capture:
        yield
    page([capture.get().removesuffix("\n")])


def page(lines: Iterable[str]) -> None:
    """Show lines in the user's pager."""
    # Click's default pager is less: it exits if all fits on one screen, keeps colours, and leaves the screen as it is.
    os.environ.setdefault("LESS", "-FRX")
    # Click ends the last line.
    breaks = chain([""], repeat("\n"))
    click.echo_via_pager(f"{mark}{line}" for mark, line in zip(breaks, lines, strict=False))


def print_playbook(
    console: Console,
    entries: Sequence[Mapping[str, Any]],
    last_updated: object,
    at: object = None,
    number: int | None = None,
) -> None:
    """Print the playbook.

    Args:
        console: Where to print.
        entries: Entries in their order, each ``{name, text, helpful, harmful}``.
        last_updated: When it last changed, None for never.
        at: The moment that it shows, in words; None for now.
        number: How many entries the playbook has, if these are only some of them.
    """
    if not entries:
        print_text(console, "The playbook is empty." if at is None else f"The playbook was empty at {at}.")
        if at is None:
            adding = "`tallybook add TEXT` adds an entry, `tallybook import FILE` takes in an old playbook."
            print_text(console, adding)
        return
    if console.width < NARROW:
        for entry in entries:
            # On a narrow terminal the text is below the counts.
            line = make_text(console, entry["name"], "bold")
            line.append(f"  +{entry['helpful']} -{entry['harmful']}  ")
            console.print(line + _bar(console, entry))
            console.print(Padding(make_text(console, entry["text"]), (0, 0, 0, 2)))
    else:
        _print_table(console, entries)
    shown = "" if number in {None, len(entries)} else f"{len(entries):,} of "
    count = f"{shown}{output.format_count(number or len(entries), 'entry', 'entries')}"
    count += f", last updated {output.format_time(last_updated)}"
    print_text(console, count if at is None else f"{count}, as of {at}", style="dim")


def _print_table(console: Console, entries: Sequence[Mapping[str, Any]]) -> None:
    """Print entries in columns."""
    table = _make_table()
    # In a file that a person wrote, a name can be any text; it must not take the room of the entry's text.
    table.add_column("name", max_width=console.width // 4, overflow="fold")
    table.add_column("helpful", justify="right", overflow="fold")
    table.add_column("harmful", justify="right", overflow="fold")
    table.add_column("trust")
    table.add_column("text", overflow="fold")
    for entry in entries:
        name, text = make_text(console, entry["name"]), make_text(console, entry["text"])
        table.add_row(name, str(entry["helpful"]), str(entry["harmful"]), _bar(console, entry), text)
    console.print(table)


def _bar(console: Console, entry: Mapping[str, Any]) -> Text:
    """Return the lower end of the 95 % interval of the share of helpful ratings as a bar of five cells."""
    if not entry["helpful"] + entry["harmful"]:
        return Text("unrated", "dim")
    full, empty = "█░" if is_utf(console) else "#."
    # The page draws the same interval in the same colours: one helpful rating alone is little evidence.
    low, high = interval(entry["helpful"], entry["harmful"])
    # A single harmful rating among a thousand stays visible.
    cells = min(round(low * BAR_CELLS), BAR_CELLS - bool(entry["harmful"]))
    return Text(full * cells + empty * (BAR_CELLS - cells), "green" if low > 1 / 2 else "red" if high < 1 / 2 else "")


def print_log_rows(console: Console, briefs: Iterable[Mapping[str, Any]]) -> None:
    """Print a line for each event as soon as it is read; in a pipe it is one line, so that it can be searched.

    Args:
        console: Where to print.
        briefs: Events as ``{seq, at, by, summary}``, with ``undone_by`` where it was undone.
    """
    for brief in briefs:
        for line in format_log_row(console, brief):
            _print_whole(console, line)


def format_log_row(console: Console, brief: Mapping[str, Any]) -> list[Text]:
    """Return an event as one line, on a terminal as several where it is too long; dim where it was undone."""
    line = _event_line(brief)
    undone = brief.get("undone_by")
    mark = "" if undone is None else f" (undone by event {undone})"
    return _wrap_on_terminal(console, make_text(console, line + mark, "dim" if mark else ""), LOG_INDENT)


def _event_line(event: Mapping[str, Any]) -> str:
    number = "-" if event["seq"] is None else event["seq"]
    when, who = output.format_time(output.read_event_time(event)), output.format_author(event["by"])
    return f"{number:>6}  {when}  {who}  {event['summary']}"


def print_changes(console: Console, before: str, after: str, lines: Iterable[tuple[str, str]], total: str) -> None:
    """Print the changes between two moments.

    Args:
        console: Where to print.
        before: The first moment in words.
        after: The second moment in words.
        lines: The changes as (sign, line); a line without a sign belongs to the one above it.
        total: The numbers of changes, empty where nothing changed.
    """
    print_text(console, f"{before}, {after}:", style="dim")
    for sign, line in lines:
        text = make_text(console, f"{sign} {line}" if sign else line, _SIGNS[sign])
        console.print(text if sign else Padding(text, (0, 0, 0, 2), expand=False))
    print_text(console, f"{total}." if total else "Nothing changed in the playbook.")


_SIGNS: Final = {"+": "green", "-": "red", "~": "yellow", "": ""}


def print_text(console: Console, sentence: str, style: str = "") -> None:
    """Print a text, wrapped at the width of the terminal."""
    console.print(make_text(console, sentence, style))


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a line, in a pipe without wrapping it, so that it can be searched."""
    for line in _wrap_on_terminal(console, make_text(console, text, style), INDENT):
        _print_whole(console, line)


def _wrap_on_terminal(console: Console, line: Text, indent: int) -> list[Text]:
    """Return a line as the lines of a terminal, which would break words, and as it is for a pipe."""
    if not console.is_terminal or cell_len(line.plain) <= console.width:
        return [line]
    first, *others = line[indent:].wrap(console, console.width - indent, overflow="fold")
    rows = [line[:indent] + first, *(Text(" " * indent, line.style) + other for other in others)]
    for row in rows:
        row.rstrip()
    return rows


def _print_whole(console: Console, line: Text) -> None:
    if console.color_system is None:
        # Without styles Rich prints the same characters, and takes twenty times as long.
        console.file.write(f"{line.plain}\n")
    else:
        console.print(line, soft_wrap=True)


def print_indented(console: Console, text: Text) -> None:
    """Print a text wrapped and indented by two columns, without blanks at the ends of its lines."""
    for wrapped in text.wrap(console, max(console.width - INDENT, 1)):
        row = Text(" " * INDENT) + wrapped
        row.rstrip()
        console.print(row, soft_wrap=True)


def make_text(console: Console, value: object, style: str = "") -> Text:
    """Return a value as text that the console can show: without markup, controls or characters its encoding lacks."""
    text = str(value)
    # Nearly every text is, and a playbook has thousands of them.
    text = text if text.isprintable() else output.escape(text)
    if not is_utf(console):
        text = text.replace("…", "...").encode(console.encoding, "backslashreplace").decode(console.encoding)
    return Text(text, style)


def is_utf(console: Console) -> bool:
    """Say whether a console can show every character."""
    encoding: str = console.encoding
    return encoding.startswith("utf")


MAX_ROWS: Final = 1_000
"""Rows of a query that are shown to people."""

WIDE: Final = 40
"""Width of a column from which on it may be folded."""

COLUMN_GAP: Final = 3
NUMBER: Final = "bold"


def print_blame(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print a line for each entry: the event that last changed it. A line is never cut.

    Args:
        console: Where to print.
        rows: As ``entry_history.blame`` has them; an event number is None where a manual edit is not recorded.
        at: The moment that they show, None for now.
    """
    if not rows:
        print_text(console, "The playbook is empty." if at is None else f"The playbook was empty at {at}.")
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print_line(console, f"{row['name']:<{width}}  {_counts(row):<8}  {_event_line(row['event'])}")
    _print_moment(console, at)


def _print_moment(console: Console, at: str | None) -> None:
    if at is not None:
        print_text(console, f"as of {at}", style="dim")


def print_graveyard(console: Console, rows: Sequence[Mapping[str, Any]], at: str | None = None) -> None:
    """Print each entry that left the playbook: how, by what, and its text.

    Args:
        console: Where to print.
        rows: As ``entry_history.graveyard`` has them; an event number is None as for ``print_blame``.
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
        into = f"into {row['into']}" if row["into"] else ""
        cause = row["rule"] or ", ".join(filter(None, (into, row["reason"])))
        why = f", {cause}" if cause else ""
        by = f"{output.format_time(output.read_event_time(event))} by {output.format_author(event['by'])}{why}"
        where = "in playbook.json" if event["seq"] is None else f"event {event['seq']}"
        heading.append_text(make_text(console, f"  {_counts(row)}  {where}, {by}"))
        console.print(heading)
        print_indented(console, make_text(console, row["text"]))
    _print_moment(console, at)


def _counts(row: Mapping[str, Any]) -> str:
    return f"+{row['helpful']} -{row['harmful']}"


def print_rows(console: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, fold: bool = False) -> bool:
    """Print rows of a table, MAX_ROWS at most, and return whether there are more.

    Where the columns do not fit next to each other, each row is a block with a line for each column, or with ``fold``
    their cells are folded.
    """
    unread = iter(rows)
    cells = [[_cell(console, value) for value in row] for row in islice(unread, MAX_ROWS)]
    if not cells:
        print_text(console, f"no rows of {', '.join(columns)}")
        return False
    widths = [max(len(column), *(row[index].cell_len for row in cells)) for index, column in enumerate(columns)]
    if fold or sum(min(width, WIDE) + COLUMN_GAP for width in widths) - COLUMN_GAP <= console.width:
        table = _make_table()
        for index, column in enumerate(columns):
            numbers = any(row[index].style == NUMBER for row in cells)
            table.add_column(make_text(console, column), justify="right" if numbers else "left", overflow="fold")
        for row in cells:
            table.add_row(*row)
        console.print(table)
        return next(unread, None) is not None
    width = max(map(len, columns))
    for number, row in enumerate(cells, 1):
        print_text(console, f"row {number}", style="dim")
        for column, cell in zip(columns, row, strict=True):
            console.print(make_text(console, f"{column:<{width}}  ", "bold") + cell, soft_wrap=True)
    return next(unread, None) is not None


def _make_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)


def _cell(console: Console, value: Any) -> Text:
    """Return a value as text; an unknown one is dim."""
    if value is None:
        return make_text(console, "NULL", "dim")
    style = NUMBER if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return make_text(console, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), style)
