"""The story of one entry as people read it: a few sentences, the events that decided, and other names it has had."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table

from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.console.terminal import (
    NARROW,
    log_rows,
    make_text,
    print_indented,
    print_line,
    print_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    Told = Mapping[str, Any]

TRAIL_ROWS: Final = 20
"""Rows of a trail that are shown; JSON has them all."""

DECIDING_ROWS: Final = 9
"""Events that decided which are quoted: the first, and the last of the others."""

NOTES: Final = 3
KIN: Final = 8

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

COUNTED: Final = ("point.merged", "point.edited")
CHANGED: Final = (*COUNTED, "point.reworded", "point.pinned", "point.unpinned")
"""Kinds of rows that are told by themselves where the entry was there and stayed; the first change its counts."""

CHANGES: Final = 5
"""Changes of that kind, and absences, that are told."""

COUNTS: Final = ("helpful", "harmful")
SENT_ON: Final = "counts for "


def story(console: Console, told: Told, extras: Told | None = None, *, trail: bool = False, then: bool = False) -> None:
    """Print the story of one entry.

    Args:
        console: Where to print.
        told: The story as ``why --json`` answers it.
        extras: What is told beside it (``tallybook.projections.entry_history.audit``), as far as known.
        trail: Whether every event about it follows, row by row.
        then: Whether a moment was asked for, so that what came later is not told.
    """
    extras = extras or {}
    status = "undone" if told["status"] == "unknown" and extras.get("vanished_by") else told["status"]
    heading = make_text(console, told["name"], "bold")
    heading.append(f"  {status}", "green" if status == "kept" else "red")
    console.print(heading)
    if told["text"] is not None:
        print_indented(console, make_text(console, told["text"]))
        console.print()
    for sentence in _sentences(told, extras, then=then):
        print_text(console, sentence)
    _quoted(console, extras.get("deciding", ()))
    _kin(console, extras.get("lineage", ()))
    if trail:
        _trail(console, told)


def print_matches(console: Console, matches: Sequence[Told]) -> None:
    """Print entries to choose from, each ``{name, status, text}``, a line each that is never cut."""
    for one in matches:
        print_line(console, f"{one['name']}  {one['status']}  {one['text']}")


def _sentences(told: Told, extras: Told, *, then: bool) -> Iterator[str]:
    trail = told["trail"]
    if trail:
        yield from _origin(trail[0], told, extras)
    yield from _ratings([row for row in trail if row["kind"] == "point.rated"])
    yield from _notes(extras.get("notes", ()))
    yield from _used(extras)
    yield from _changes(told)
    yield _fate(told, then=then)
    yield from _until(told, extras)
    yield from _idle(told)


def leaves(row: Told, told: Told) -> bool:
    """Say whether a row tells that the entry left the playbook."""
    return row["kind"] in GONE or _went(row, told)


def _went(row: Told, told: Told) -> bool:
    """Say whether a row tells that the entry went into another."""
    return bool(row["kind"] == "point.merged" and row["name"] != told["name"])


def _origin(row: Told, told: Told, extras: Told) -> Iterator[str]:
    """Say where an entry came from."""
    shape = f" (as {extras['origin']})" if extras.get("origin") else ""
    counts = f", with {_counts(row)}" if row["helpful"] or row["harmful"] else ""
    yield f"{_did(row, told)}{shape} {_when(row)}{counts}."
    if extras.get("original"):
        yield f"That file had it as {extras['original']}"


def _ratings(rows: Sequence[Told]) -> Iterator[str]:
    """Say how often it was rated, and by whom."""
    if not rows:
        return
    ratings = Counter(row["rating"] for row in rows)
    raters = Counter(row["by"]["rater"] for row in rows)
    told = ", ".join(f"{count} {rating}" for rating, count in ratings.items())
    who = ", ".join(f"{rater} ({count})" for rater, count in raters.most_common())
    yield f"Rated {_times(len(rows))}: {told}; by {who}."


def _notes(notes: Sequence[Told]) -> Iterator[str]:
    """Say what was said of it, the latest of that."""
    for note in notes[-NOTES:]:
        said = "[redacted]" if note["note"] is None else f'"{note["note"]}"'
        yield f"  {said} ({note['by']['rater']}, event {note['seq']})"
    if len(notes) > NOTES:
        earlier = len(notes) - NOTES
        yield f"  {format_count(earlier, 'earlier note')} not shown; --json has them all."


def _used(extras: Told) -> Iterator[str]:
    """Say how often sessions were told of it and agents cited it."""
    uses = ((what, extras.get(key)) for what, key in (("told to sessions", "told"), ("cited", "cited")))
    said = [
        f"{what} {_times(use['count'])}, last {format_time(use['last']['at'])}"
        for what, use in uses
        if use and use["count"]
    ]
    if said:
        line = "; ".join(said)
        yield f"{line[:1].upper()}{line[1:]}."


def _changes(told: Told) -> Iterator[str]:
    """Say what happened to it between its beginning and its end, ratings aside, the latest of that."""
    said = []
    for before, row in pairwise(row for row in told["trail"] if row["kind"] not in BESIDE):
        if leaves(before, told):
            said.append(
                f"{_did(before, told)} at event {before['seq']} with {_counts(before)}, back at event {row['seq']}."
            )
        elif row["kind"] in CHANGED and not leaves(row, told):
            counts = f", which left it with {_counts(row)}" if row["kind"] in COUNTED else ""
            said.append(f"{_did(row, told)} at event {row['seq']}{counts}.")
    if len(said) > CHANGES:
        yield f"{len(said) - CHANGES} earlier changes are not told here; --json has them all."
    yield from said[-CHANGES:]


def _is_pinned(told: Told) -> bool:
    """Say whether the last that was decided about pruning it is that it is not."""
    pins = [row["kind"] for row in told["trail"] if row["kind"] in {"point.pinned", "point.unpinned"}]
    return pins[-1:] == ["point.pinned"]


def _fate(told: Told, *, then: bool) -> str:
    """Say what became of it."""
    decided = told["decided_by"]
    if told["status"] == "unknown":
        undone = any(row["reason"] == "undone" for row in told["ignored"])
        return (
            "What brought this entry was undone."
            if undone
            else f"No entry {'had' if then else 'ever had'} this name, or a text with these words{' by then' * then}."
        )
    if decided is None:
        pinned = ", and is pinned: no rule prunes it" if _is_pinned(told) else ""
        return f"It stands in the playbook with {_counts(told)}{pinned}."
    verb = next(_did(row, told) for row in reversed(told["trail"]) if row["seq"] == decided["seq"])
    rule = f", by the rule {told['rule']}" if told["rule"] else ""
    return f"{verb} {_when(decided)}{rule}, with {_counts(told)}."


def _until(told: Told, extras: Told) -> Iterator[str]:
    """Say when it left the playbook, where what is told above came to count only later, by an undoing."""
    gone, decided = extras.get("vanished_by"), told["decided_by"]
    if gone and extras.get("stood", True) and (decided is None or gone["seq"] != decided["seq"]):
        yield f"It was in the playbook until event {gone['seq']}: {gone['summary']}."


def _idle(told: Told) -> Iterator[str]:
    """Say what named it and changed nothing: what came after its end, and the rest."""
    end = told["decided_by"]["seq"] if told["decided_by"] else None
    sent_on = Counter(row["reason"] for row in told["ignored"] if row["reason"].startswith(SENT_ON))
    for reason, count in sent_on.items():
        what = "rating came after that and counts" if count == 1 else "ratings came after that and count"
        yield f"{count} {what} for {reason.removeprefix(SENT_ON)}."
    idle = [row for row in told["ignored"] if row["reason"] not in sent_on]
    late = [row for row in idle if end is not None and row["seq"] > end]
    if late:
        yield f"{format_count(len(late), 'event')} came after that and changed nothing."
    reasons = Counter(row["reason"] for row in idle if row not in late)
    if reasons:
        reason = ", ".join(f"{reason} ({count})" for reason, count in reasons.items())
        yield f"{format_count(reasons.total(), 'event')} about it changed nothing: {reason}."


def _quoted(console: Console, deciding: Sequence[Told]) -> None:
    """Print the events that decided, as ``log`` shows them."""
    if not deciding:
        return
    rest = deciding[1:][1 - DECIDING_ROWS :]
    console.print()
    log_rows(console, deciding[:1])
    if left := len(deciding) - 1 - len(rest):
        print_text(console, f"   ...  {left} more that decided; --json has them all", style="dim")
    log_rows(console, rest)


def _kin(console: Console, lineage: Sequence[Told]) -> None:
    """Print the other names that the same guidance has had."""
    if not lineage:
        return
    console.print()
    print_text(console, f"The same guidance under {'another name' if len(lineage) == 1 else 'other names'}:")
    for one in lineage[:KIN]:
        how = f"{one['relation']} {'' if one['relation'] in {'went into', 'took in'} else 'as '}{one['of']}"
        print_indented(console, make_text(console, f"{one['name']}  {one['status']}, {how}: {one['text']}"))
    if len(lineage) > KIN:
        print_text(console, f"  and {len(lineage) - KIN} more; --json has them all.", style="dim")


def _trail(console: Console, told: Told) -> None:
    """Print what happened row by row, what changed nothing among it."""
    rows = sorted([*told["trail"], *told["ignored"]], key=lambda row: int(row["seq"]))
    last = rows[-TRAIL_ROWS:]
    if last:
        console.print()
    if len(rows) > len(last):
        earlier = len(rows) - len(last)
        print_text(console, f"{format_count(earlier, 'earlier event')} not shown; --json has them all.", style="dim")
    if last and console.width >= NARROW:
        console.print(_trail_table(console, last, told))
        return
    for row in last:
        print_text(
            console, f"{row['seq']}  {format_time(row['at'])}  {_step(row, told)}, {row['by']['rater']}{_sofar(row)}"
        )


def _trail_table(console: Console, rows: Sequence[Told], told: Told) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("event", justify="right", no_wrap=True)
    table.add_column("when", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("by", overflow="fold", max_width=console.width // 5)
    table.add_column("+", justify="right", no_wrap=True)
    table.add_column("-", justify="right", no_wrap=True)
    for row in rows:
        counts = (row.get(which, "") for which in COUNTS)
        cells = (row["seq"], format_time(row["at"]), _step(row, told), row["by"]["rater"], *counts)
        table.add_row(*(make_text(console, cell) for cell in cells), style="dim" if "reason" in row else "")
    return table


def _sofar(row: Told) -> str:
    return f": {_counts(row)}" if "helpful" in row else ""


def _step(row: Told, told: Told) -> str:
    """Return what one row of a trail says happened."""
    what = _word(row, told) if row["rating"] is None else f"rated {row['rating']}"
    return f"{what} ({row['reason']})" if "reason" in row else what


def _when(row: Told) -> str:
    """Return when, by whom, and at which event."""
    by = row["by"]
    who = by["rater"] + (f" in session {by['session']}" if by.get("session") else "")
    place = f" ({by['place']})" if by.get("place") else ""
    return f"{format_time(row['at'])} by {who}{place}, event {row['seq']}"


def _did(row: Told, told: Told) -> str:
    """Return what a row says happened, as the beginning of a sentence."""
    what = _word(row, told)
    return what[:1].upper() + what[1:]


def _word(row: Told, told: Told) -> str:
    """Return what a row of another kind than a rating says happened to the entry that is told of."""
    if row["kind"] == "point.merged":
        return f"merged into {row['name']}" if _went(row, told) else f"merged with {', '.join(row['merged'])}"
    return str(WORDS.get(row["kind"], row["kind"]))


def _counts(row: Told) -> str:
    return f"{row['helpful']} helpful and {row['harmful']} harmful"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
