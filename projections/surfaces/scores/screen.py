"""A page of scores on a terminal: in the document's box where there is room for it, and readable wherever there is not.

Texts are other people's, as in projections/surfaces/console/terminal.py: nothing in them steers the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import re
from typing import Any, Final

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from tallybook.projections.surfaces.console import terminal
from tallybook.projections.surfaces.console.terminal import is_utf, make_text, print_text
from tallybook.projections.surfaces.scores.pages import ALL, ARROWS, NO_DATA, Bar, ScorePage, plot

MAX_COLUMNS: Final = 71
"""Columns of the box; a wider terminal gets no wider one."""

FRAMED_COLUMNS: Final = 60
"""Columns below which there is no box."""

INLINE_COLUMNS: Final = 36
"""Columns below which a bar is drawn under its name."""

NOTED_COLUMNS: Final = 48
"""Columns below which a bar with a note is drawn under its name, and the note under the bar."""

ALERT: Final = "bold red"
MAX_BAR: Final = 24
MAX_NAME: Final = 30
LEAST_BAR: Final = 4
_PLAIN: Final = str.maketrans(
    {**dict(zip("↑↓→•█░", "^v=*#.", strict=True)), **dict.fromkeys("┌┐└┘├┤", "+"), "─": "-", "│": "|"}
)
_VALUE: Final = len(" 100 (A) ↑")
_NUMBER: Final = re.compile(r"-?[0-9.]+")


def show(console: Console, page: ScorePage) -> None:
    """Print a page."""
    width, lines = min(console.width, MAX_COLUMNS), box.SQUARE if is_utf(console) else box.ASCII2
    title, heading = _text(console, page.title, "bold"), _text(console, page.heading)
    alerts = [_list_texts(console, "! ", page.alerts, ALERT)] if page.alerts else []
    sentences = [_text(console, sentence) for sentence in page.sentences]
    focus: list[Any] = ["Focus Areas:", _list_texts(console, "• ", page.focus)] if page.focus else []
    if not page.framed or console.width < FRAMED_COLUMNS:
        chart = ["", *plot(page.chart, console.width, utf=is_utf(console)), ""] if page.chart else []
        for part in (title, *alerts, heading, *bars(console, page.bars, width), *map(Text, chart), *sentences):
            console.print(part)
        _print_tables(console, page)
        for part in ("", *focus) if focus else ():
            console.print(part)
        return
    title.justify, title.no_wrap, title.overflow = "center", True, "ellipsis" if is_utf(console) else "crop"
    inner = Panel(Group(*bars(console, page.bars, width - 4 * len("│  "))), box=lines, padding=(0, 2))
    scores = ["Component Scores:", inner] if page.bars else []
    blocks: list[list[Any]] = [alerts, [heading], scores, *([sentence] for sentence in sentences), focus]
    frame = Table(box=lines, width=width, padding=(0, 2))
    frame.add_column(title)
    # An empty line after each block.
    frame.add_row(Group("", *(part for block in blocks if block for part in (*block, ""))))
    console.print(frame)


def _print_tables(console: Console, page: ScorePage) -> None:
    for table in page.tables:
        console.print()
        if table.title:
            print_text(console, table.title, style="bold")
        if console.width < FRAMED_COLUMNS:
            terminal.print_rows(console, table.columns, table.rows)
            continue
        printed = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for index, column in enumerate(table.columns):
            # Numbers to the right; long cells are folded.
            is_number = index > 0 and any(_NUMBER.fullmatch(str(row[index])) for row in table.rows)
            printed.add_column(_text(console, column), justify="right" if is_number else "left", overflow="fold")
        for row in table.rows:
            printed.add_row(*(_text(console, str(cell)) for cell in row))
        console.print(printed)


def _text(console: Console, text: str, style: str = "") -> Text:
    """Return a text as the console can show it, signs of this module included."""
    return make_text(console, text if is_utf(console) else text.translate(_PLAIN), style)


def _list_texts(console: Console, sign: str, texts: Iterable[str], style: str = "") -> Table:
    """Return paragraphs, each after a sign and indented by it."""
    grid = Table.grid("", Column(overflow="fold"))
    for text in texts:
        grid.add_row(_text(console, sign, style), _text(console, text, style))
    return grid


def _fit(console: Console, text: Text, width: int) -> Text:
    """Return a text in exactly so many columns, its end cut off where it is longer."""
    fitted = text.copy()
    fitted.truncate(width, overflow="ellipsis" if is_utf(console) else "crop", pad=True)
    return fitted


def bars(console: Console, scores: Sequence[Bar], width: int) -> Iterator[Text]:
    """Yield scores as bars: name, bar, score; the bar is under the name where there is no room next to it."""
    names = [_text(console, bar.name) for bar in scores]
    noted = max((len(bar.note) for bar in scores), default=0)
    room = width - _VALUE - (noted + 1 if noted else 0)
    is_narrow = width < (NOTED_COLUMNS if noted else INLINE_COLUMNS)
    longest = max((name.cell_len for name in names), default=0)
    name_cells = min(longest, MAX_NAME, room - LEAST_BAR - 2)
    for name, bar in zip(names, scores, strict=True):
        if is_narrow:
            yield _fit(console, name, min(name.cell_len, width))
            yield Text(" ") + _measure(console, bar, min(MAX_BAR, width - _VALUE - 1))
            yield from [Text(f" {bar.note}")] if bar.note else []
            continue
        bar_cells = min(MAX_BAR, room - name_cells - 1)
        line = _fit(console, name, name_cells) + Text(" ") + _measure(console, bar, bar_cells)
        room_before_note = name_cells + 1 + bar_cells + _VALUE
        yield _fit(console, line, room_before_note) + Text(f" {bar.note}") if bar.note else line


def _measure(console: Console, bar: Bar, cells: int) -> Text:
    """Return the bar and the score after it; only 100 fills it, only 0 leaves it empty."""
    if bar.value is None:
        return _text(console, f"{'░' * max(cells, 0)} {NO_DATA}", "dim")
    filled = round(bar.value / ALL * cells)
    filled = min(max(filled, 1), cells - 1) if 0 < bar.value < ALL and cells > 1 else filled
    drawn = _text(console, "█" * filled + "░" * (cells - filled), bar.style)
    grade = f" ({bar.grade})" if bar.grade else ""
    return drawn + _text(console, f" {bar.value:>3}{grade} {ARROWS.get(bar.direction, '')}".rstrip())
