"""A page of scores on a terminal: in the box of the specification if the terminal is wide enough, and else as lines.

Texts come from other people, so control characters in them are escaped, as in projections/surfaces/console/terminal.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from tallybook.projections.surfaces.console import terminal
from tallybook.projections.surfaces.console.terminal import is_utf, make_text, print_text
from tallybook.projections.surfaces.scores.answers import ALL, ARROWS, NO_DATA, Bar, ScorePage

MAX_COLUMNS: Final = 71
"""Columns of the box; a wider terminal gets no wider one."""

FRAMED_COLUMNS: Final = 60
"""Columns below which there is no box."""

NOTED_COLUMNS: Final = 48
"""Columns below which a note is under the name."""

ALERT: Final = "bold red"
MAX_BAR: Final = 24
MAX_NAME: Final = 30
LEAST_BAR: Final = 4
_PLAIN: Final = str.maketrans(
    {**dict(zip("↑↓→•░█", "^v=*.#", strict=True)), **dict.fromkeys("┌┐└┘├┤", "+"), "─": "-", "│": "|"}
)
_VALUE: Final = len(" 100 (A) ↑")


def show(console: Console, page: ScorePage) -> None:
    """Print a page."""
    width, lines = min(console.width, MAX_COLUMNS), box.SQUARE if is_utf(console) else box.ASCII2
    title, heading = _text(console, page.title, "bold"), _text(console, page.heading)
    alerts = [_list_texts(console, "! ", page.alerts, ALERT)] if page.alerts else []
    sentences = [_text(console, sentence) for sentence in page.sentences if sentence]
    focus: list[Any] = ["Focus Areas:", _list_texts(console, "• ", page.focus)] if page.focus else []
    if not page.framed or console.width < FRAMED_COLUMNS:
        bars = [_draw_bars(console, page.bars, width)] if page.bars else []
        for part in (title, *alerts, heading, *bars, *sentences):
            console.print(part)
        for table in filter(attrgetter("rows"), page.tables):
            console.print()
            if table.title:
                print_text(console, table.title, style="bold")
            if terminal.print_rows(console, table.columns, table.rows, fold=console.width >= FRAMED_COLUMNS):
                print_text(console, "and more; --json has them all")
        for part in ("", *focus) if focus else ():
            console.print(part)
        return
    title.justify, title.no_wrap, title.overflow = "center", True, "ellipsis" if is_utf(console) else "crop"
    inner = Panel(_draw_bars(console, page.bars, width - 4 * len("│  ")), box=lines, padding=(0, 2))
    scores = ["Component Scores:", inner] if page.bars else []
    blocks: list[list[Any]] = [alerts, [heading], scores, *([sentence] for sentence in sentences), focus]
    frame = Table(box=lines, width=width, padding=(0, 2))
    frame.add_column(title)
    # An empty line after each block.
    frame.add_row(Group("", *(part for block in blocks if block for part in (*block, ""))))
    console.print(frame)


def _text(console: Console, text: str, style: str = "") -> Text:
    """Return a text as the console can show it, signs of this module included."""
    return make_text(console, text if is_utf(console) else text.translate(_PLAIN), style)


def _list_texts(console: Console, sign: str, texts: Iterable[str], style: str = "") -> Table:
    """Return paragraphs, each after a sign and indented by it."""
    grid = Table.grid("", Column(overflow="fold"))
    for text in texts:
        grid.add_row(_text(console, sign, style), _text(console, text, style))
    return grid


def _draw_bars(console: Console, bars: Sequence[Bar], width: int) -> Table:
    """Return scores as bars: name, bar, score and note; a note is under the name where there is no room next to it."""
    names = [_text(console, bar.name) for bar in bars]
    longest = min(max((name.cell_len for name in names), default=0), MAX_NAME)
    noted = max((len(bar.note) + 2 for bar in bars if bar.note), default=0) if width >= NOTED_COLUMNS else 0
    cells = min(max(width - longest - 1 - _VALUE - noted, LEAST_BAR), MAX_BAR)
    grid = Table.grid(Column(max_width=MAX_NAME, overflow="fold"), Column(no_wrap=True), padding=(0, 1, 0, 0))
    if noted:
        grid.add_column(overflow="fold")
    for name, bar in zip(names, bars, strict=True):
        if bar.value is None:
            measure = _text(console, f"{'░' * cells} {NO_DATA}", "dim")
        else:
            filled = round(bar.value / ALL * cells)
            # Only 100 fills it, only 0 leaves it empty.
            filled = min(max(filled, 1), cells - 1) if 0 < bar.value < ALL else filled
            grade = f" ({bar.grade})" if bar.grade else ""
            measure = _text(console, "█" * filled + "░" * (cells - filled), bar.style)
            measure += _text(console, f" {bar.value:>3}{grade} {ARROWS.get(bar.direction, '')}".rstrip())
        if bar.note and not noted:
            name.append(f"\n  {bar.note}")
        grid.add_row(name, measure, *([f" {bar.note}"] if noted else []))
    return grid
