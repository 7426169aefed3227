"""What a person would rather read than JSON: plain values in, tables and sentences out. The one place with Rich.

Texts are other people's: nothing in them is markup, and no character of theirs moves the cursor or turns the line.
Everything reads at 40 columns, without colour and without UTF-8.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Final
import unicodedata

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NARROW: Final = 60
"""Columns below which a table would leave too little for the text; entries are then blocks of lines."""

BAR_CELLS: Final = 5
TRAIL_ROWS: Final = 20
"""Rows of a trail that are shown; JSON has them all."""

HIDDEN: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories that steer a terminal or the direction of writing, or break the line."""

# Joiners: they shape letters of several scripts and emoji, and move nothing.
JOINERS: Final = "\u200c\u200d"

WORDS: Final = {
    "point.added": "learned",
    "point.seeded": "taken in from a legacy playbook",
    "point.edited": "set by hand",
    "point.removed": "removed by hand",
    "playbook.updated": "pruned",
    "point.noted": "noted",
    "point.reworded": "reworded",
    "point.retired": "retired",
    "point.restored": "restored",
    "point.pinned": "pinned",
    "point.unpinned": "unpinned",
    "event.redacted": "its text redacted",
}
"""Kind of a trail's row → what happened to the entry; other kinds are told by their name."""

GONE: Final = ("playbook.updated", "point.removed", "point.retired")
BESIDE: Final = ("event.redacted", "point.noted")
"""Kinds of rows that say nothing of whether an entry stands."""

SENT_ON: Final = "counts for "


def console_for(stream: IO[str], width: int | None = None) -> Console:
    """Return a console that prints to a stream: with colour only where it is a terminal.

    Args:
        stream: Where to print; its encoding decides on boxes and bars.
        width: Columns, from 20; None asks the terminal, and takes 80 in a pipe.
    """
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def harmless(text: object) -> str:
    r"""Return a text on one line, with every character that steers a terminal shown as an escape such as ``\x1b``."""
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in HIDDEN and char not in JOINERS else char
        for char in str(text)
    )


def moment(value: object) -> str:
    """Return an ISO time as ``2026-11-21 20:17``, in UTC where it names its zone; anything else as it is."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        if time is None:
            return harmless("never" if value is None else value)
        time = time if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return harmless(value)
    return time.replace(tzinfo=None).isoformat(" ", "minutes")


def playbook_table(
    console: Console, points: Sequence[Mapping[str, Any]], last_updated: object, at: object = None
) -> None:
    """Print the playbook.

    Args:
        console: Where to print.
        points: Entries in their order, each ``{name, text, helpful, harmful}``.
        last_updated: When it last changed, None for never.
        at: The moment it is shown at, as the person named it; None for now.
    """
    if not points:
        _say(console, "The playbook is empty." if at is None else f"The playbook was empty at {at}.")
        if at is None:
            _say(console, "`tallybook add TEXT` adds a key point, `tallybook import FILE` takes in an old playbook.")
        return
    if console.width < NARROW:
        for point in points:
            _block(console, point)
    else:
        console.print(_points_table(console, points))
    zone = " UTC" if str(last_updated).endswith("Z") else ""
    count = f"{len(points)} key point{_s(len(points))}, last updated {moment(last_updated)}{zone}"
    _say(console, count if at is None else f"{count}, as of {at}", style="dim")


def _points_table(console: Console, points: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    # A name can be any text in a hand-made file, and must not take the room of the guidance.
    table.add_column("name", overflow="fold", max_width=console.width // 4)
    table.add_column("helpful", justify="right", no_wrap=True)
    table.add_column("harmful", justify="right", no_wrap=True)
    table.add_column("trust", no_wrap=True)
    table.add_column("text", overflow="fold")
    for point in points:
        cells = (_text(console, point[field]) for field in ("name", "helpful", "harmful"))
        table.add_row(*cells, _bar(console, point), _text(console, point["text"]))
    return table


def _block(console: Console, point: Mapping[str, Any]) -> None:
    """Print one entry for a narrow terminal: its counts, and the guidance below."""
    line = _text(console, point["name"], "bold")
    line.append(f"  +{point['helpful']} -{point['harmful']}  ")
    console.print(line + _bar(console, point))
    console.print(Padding(_text(console, point["text"]), (0, 0, 0, 2)))


def _bar(console: Console, point: Mapping[str, Any]) -> Text:
    """Return the share of helpful among all counted ratings as a bar of five cells; empty where there are none."""
    rated = point["helpful"] + point["harmful"]
    if not rated:
        return Text("unrated", "dim")
    full, empty = "█░" if _is_utf(console) else "#."
    share = point["helpful"] / rated
    # Whole cells only for what is whole: neither is one harmful rating hidden, nor one helpful one.
    cells = min(max(round(share * BAR_CELLS), 1), BAR_CELLS - 1) if 0 < share < 1 else round(share * BAR_CELLS)
    return Text(full * cells + empty * (BAR_CELLS - cells), "green" if share > 1 / 2 else "red")


def story(console: Console, told: Mapping[str, Any], extras: Mapping[str, Any] | None = None) -> None:
    """Print the story of one entry.

    Args:
        console: Where to print.
        told: The story as ``why --json`` answers it.
        extras: ``{origin, original, same_text}`` as far as known.
    """
    heading = _text(console, told["name"], "bold")
    heading.append(f"  {told['status']}", "green" if told["status"] == "kept" else "red")
    console.print(heading)
    if told["text"] is not None:
        console.print(Padding(_text(console, told["text"]), (0, 0, 1, 2)))
    for sentence in _sentences(told, extras or {}):
        _say(console, sentence)
    _trail(console, told)


def _sentences(told: Mapping[str, Any], extras: Mapping[str, Any]) -> Iterator[str]:
    trail = told["trail"]
    if trail:
        yield from _origin(trail[0], told, extras)
    yield from _ratings([row for row in trail if row["kind"] == "point.rated"])
    for row, after in pairwise(row for row in trail if row["kind"] not in BESIDE):
        if row["kind"] in GONE or _went(row, told):
            yield f"{_did(row, told)} at event {row['seq']} with {_counts(row)}, back at event {after['seq']}."
    yield _fate(told)
    yield from _idle(told)
    if names := extras.get("same_text"):
        yield f"The same text came under another name too: {', '.join(names)}."


def _went(row: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Say whether a row tells that the entry went into another."""
    return bool(row["kind"] == "point.merged" and row["name"] != told["name"])


def _origin(row: Mapping[str, Any], told: Mapping[str, Any], extras: Mapping[str, Any]) -> Iterator[str]:
    """Say where an entry came from."""
    shape = f" (as {extras['origin']})" if extras.get("origin") else ""
    counts = f", with {_counts(row)}" if row["helpful"] or row["harmful"] else ""
    yield f"{_did(row, told)}{shape} {_when(row)}{counts}."
    if extras.get("original"):
        yield f"That file had it as {extras['original']}"


def _ratings(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how often it was rated, and by whom."""
    if not rows:
        return
    ratings = Counter(row["rating"] for row in rows)
    raters = Counter(row["by"]["rater"] for row in rows)
    told = ", ".join(f"{count} {rating}" for rating, count in ratings.items())
    who = ", ".join(f"{rater} ({count})" for rater, count in raters.most_common())
    yield f"Rated {_times(len(rows))}: {told}; by {who}."


def _fate(told: Mapping[str, Any]) -> str:
    """Say what became of it."""
    decided = told["decided_by"]
    if told["status"] == "unknown":
        undone = any(row["reason"] == "undone" for row in told["ignored"])
        return "What brought this entry was undone." if undone else "No entry ever had this name."
    if decided is None:
        return f"It stands in the playbook with {_counts(told)}."
    verb = next(_did(row, told) for row in reversed(told["trail"]) if row["seq"] == decided["seq"])
    rule = f", by the rule {told['rule']}" if told["rule"] else ""
    return f"{verb} {_when(decided)}{rule}, with {_counts(told)}."


def _idle(told: Mapping[str, Any]) -> Iterator[str]:
    """Say what named it and changed nothing: what came after its end, and the rest."""
    end = told["decided_by"]["seq"] if told["decided_by"] else None
    sent_on = Counter(row["reason"] for row in told["ignored"] if row["reason"].startswith(SENT_ON))
    for reason, count in sent_on.items():
        what = "rating came after that and counts" if count == 1 else "ratings came after that and count"
        yield f"{count} {what} for {reason.removeprefix(SENT_ON)}."
    idle = [row for row in told["ignored"] if row["reason"] not in sent_on]
    late = [row for row in idle if end is not None and row["seq"] > end]
    if late:
        yield f"{len(late)} event{_s(len(late))} came after that and changed nothing."
    reasons = Counter(row["reason"] for row in idle if row not in late)
    if reasons:
        reason = ", ".join(f"{reason} ({count})" for reason, count in reasons.items())
        yield f"{reasons.total()} event{_s(reasons.total())} about it changed nothing: {reason}."


def _trail(console: Console, told: Mapping[str, Any]) -> None:
    """Print what happened row by row, what changed nothing among it."""
    rows = sorted([*told["trail"], *told["ignored"]], key=lambda row: int(row["seq"]))
    shown = rows[-TRAIL_ROWS:]
    if shown:
        console.print()
    if len(rows) > len(shown):
        earlier = len(rows) - len(shown)
        _say(console, f"{earlier} earlier event{_s(earlier)} not shown; --json has them all.", style="dim")
    if shown and console.width >= NARROW:
        console.print(_trail_table(console, shown, told))
        return
    for row in shown:
        _say(console, f"{row['seq']}  {moment(row['at'])}  {_step(row, told)}, {row['by']['rater']}{_sofar(row)}")


def _trail_table(console: Console, rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("by", overflow="fold", max_width=console.width // 5)
    table.add_column("+", justify="right", no_wrap=True)
    table.add_column("-", justify="right", no_wrap=True)
    for row in rows:
        cells = (row["seq"], moment(row["at"]), _step(row, told), row["by"]["rater"], *(_count(row, c) for c in COUNTS))
        table.add_row(*(_text(console, cell) for cell in cells), style="dim" if "reason" in row else "")
    return table


COUNTS: Final = ("helpful", "harmful")


def _count(row: Mapping[str, Any], which: str) -> str:
    return str(row.get(which, ""))


def _sofar(row: Mapping[str, Any]) -> str:
    return f": {_counts(row)}" if "helpful" in row else ""


def _step(row: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Return what one row of a trail says happened."""
    what = _word(row, told) if row["rating"] is None else f"rated {row['rating']}"
    return f"{what} ({row['reason']})" if "reason" in row else what


def log_rows(console: Console, briefs: Iterable[Mapping[str, Any]]) -> None:
    """Print one line per event, each as it comes; a line is never cut, so that it can be searched in a pipe.

    Args:
        console: Where to print.
        briefs: Events as ``{seq, at, by, summary}``, with ``undone_by`` where one was taken back.
    """
    for brief in briefs:
        line = f"{brief['seq']:>6}  {moment(brief['at'])}  {brief['by']['rater']}  {brief['summary']}"
        undone = brief.get("undone_by")
        if undone is not None:
            line += f" (undone by event {undone})"
        console.print(_text(console, line, "" if undone is None else "dim"), soft_wrap=True)


def changes(console: Console, before: str, after: str, lines: Sequence[tuple[str, str]], total: str) -> None:
    """Print what changed between two moments.

    Args:
        console: Where to print.
        before: Which moment the first is.
        after: Which the second is.
        lines: What changed, as (sign, line); without a sign a line belongs to the one above it.
        total: All of it in a line, empty where nothing changed.
    """
    _say(console, f"{before}, {after}:", style="dim")
    for sign, line in lines:
        text = _text(console, f"{sign} {line}" if sign else line, _SIGNS[sign])
        console.print(text if sign else Padding(text, (0, 0, 0, 2), expand=False))
    _say(console, f"{total}." if total else "Nothing changed in the playbook.")


_SIGNS: Final = {"+": "green", "-": "red", "~": "yellow", "": ""}


def problems(console: Console, found: Iterable[Mapping[str, Any]]) -> None:
    """Print one line per problem, none for none.

    Args:
        console: Where to print.
        found: Each ``{message}`` with ``source``, ``line`` or ``seq`` where known.
    """
    for problem in found:
        places = [f"{place} {problem[place]}" for place in ("line", "seq") if problem.get(place) is not None]
        where = problem.get("source") or ", ".join(places)
        line = f"{where}: {problem['message']}" if where else problem["message"]
        console.print(_text(console, line), soft_wrap=True)


def _say(console: Console, sentence: str, style: str = "") -> None:
    console.print(_text(console, sentence, style))


def _text(console: Console, value: object, style: str = "") -> Text:
    """Return a value as the console can show it: no markup, no steering, nothing its encoding lacks."""
    shown = harmless(value)
    if not _is_utf(console):
        shown = _spelled(shown, console.encoding)
    return Text(shown, style)


def _spelled(text: str, encoding: str) -> str:
    """Return a text with what an encoding lacks spelled as escapes."""
    return text.replace("…", "...").encode(encoding, "backslashreplace").decode(encoding)


def _is_utf(console: Console) -> bool:
    encoding: str = console.encoding
    return encoding.startswith("utf")


def _when(row: Mapping[str, Any]) -> str:
    """Return when, by whom, and at which event."""
    by = row["by"]
    who = by["rater"] + (f" in session {by['session']}" if by.get("session") else "")
    return f"{moment(row['at'])} UTC by {who}, event {row['seq']}"


def _did(row: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Return what a row says happened, as the beginning of a sentence."""
    what = _word(row, told)
    return what[:1].upper() + what[1:]


def _word(row: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """Return what a row of another kind than a rating says happened to the entry that is told of."""
    if row["kind"] == "point.merged":
        return f"merged into {row['name']}" if _went(row, told) else f"merged with {', '.join(row['merged'])}"
    return str(WORDS.get(row["kind"], row["kind"]))


def _counts(row: Mapping[str, Any]) -> str:
    return f"{row['helpful']} helpful and {row['harmful']} harmful"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _s(count: int) -> str:
    return "" if count == 1 else "s"
