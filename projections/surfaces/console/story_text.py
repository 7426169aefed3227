"""The story of an entry for people: sentences, the events that decided, and its trail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from tallybook.projections.surfaces.console import output, terminal

if TYPE_CHECKING:
    Row = Mapping[str, Any]
    """A row of a trail as ``why --json`` has it: an event, and the counts of the entry after it."""
    Story = Mapping[str, Any]
    """The story of an entry as ``why --json`` has it."""


# JSON has all of what is left out here.
MAX_NOTES: Final = 3

DESCRIPTIONS: Final = {
    "point.added": "learned",
    "point.seeded": "imported from a legacy playbook",
    "point.edited": "changed by a manual edit",
    "point.removed": "removed by a manual edit",
    "playbook.updated": "pruned",
    "event.redacted": "its text redacted",
}
"""Kind of a row of the trail → what happened, where its name does not say so; ratings and merges have details."""

_EXITS: Final = ("playbook.updated", "point.removed", "point.retired")
STATUS_NEUTRAL: Final = ("event.redacted", "point.noted")
"""Kinds of rows that do not change whether the entry is in the playbook."""

_COUNT_CHANGES: Final = ("point.merged", "point.edited")
_CHANGES: Final = (*_COUNT_CHANGES, "point.reworded", "point.pinned", "point.unpinned")
_COUNTS_FOR: Final = "counts for "


def print_story(console: Console, story: Story, *, trail: bool = False, as_of: bool = False) -> None:
    """Print the story of one entry.

    Args:
        console: Where to print; it decides on columns, encoding and colour.
        story: The story.
        trail: Whether to print every event about the entry as well.
        as_of: Whether the story is that of an earlier moment.
    """
    heading = terminal.make_text(console, story["name"], "bold")
    heading.append(f"  {story['status']}", "green" if story["status"] == "kept" else "red")
    console.print(heading)
    if story["text"] is not None:
        terminal.print_indented(console, terminal.make_text(console, story["text"]))
        console.print()
    for sentence in tell_story(story, as_of=as_of):
        terminal.print_text(console, sentence)
    _print_deciding(console, story)
    _print_other_names(console, story["lineage"])
    if trail:
        _print_trail(console, story)


# Sentences


def tell_story(story: Story, *, as_of: bool = False) -> Iterator[str]:
    """Yield the sentences of a story; the arguments are as for `print_story`."""
    # That an entry was joined to another is told once, as its fate.
    if any(row["kind"] != "point.matched" for row in story["trail"][:1]):
        yield from _origin(story["trail"][0], story)
    if rated := [row for row in story["trail"] if row["kind"] == "point.rated"]:
        ratings = Counter(row["rating"] for row in rated)
        raters = Counter(output.format_author(row["by"]) for row in rated)
        counts = ", ".join(f"{count} {rating}" for rating, count in ratings.items())
        authors = ", ".join(f"{rater} ({count})" for rater, count in raters.most_common())
        yield f"Rated {_times(len(rated))}: {counts}; by {authors}."
    yield from _notes(story["notes"])
    uses = [(verb, use) for verb, use in (("injected", story["told"]), ("cited", story["cited"])) if use["count"]]
    if uses:
        parts = (f"{verb} {_times(use['count'])}, last {output.format_time(use['last']['at'])}" for verb, use in uses)
        yield f"{_capitalise('; '.join(parts))}."
    if says := story.get("stale", {}).get("says"):
        yield f"{_capitalise(says)}."
    yield from _changes(story)
    yield _fate(story, as_of=as_of)
    if day := story.get("until"):
        yield f"It holds until {day}, in UTC, and is not injected after that day."
    yield from _events_without_effect(story)


def _origin(first: Row, story: Story) -> Iterator[str]:
    shape = f" (as {story['origin']})" if story["origin"] else ""
    counts = f", with {output.format_counts(first)}" if first["helpful"] or first["harmful"] else ""
    yield f"{_capitalise(_describe(first, story))}{shape} {_describe_source(first)}{counts}."
    if story["original"]:
        yield f"That file had it as {story['original']}"


def _notes(notes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for note in notes[-MAX_NOTES:]:
        text = "[redacted]" if note["note"] is None else f'"{note["note"]}"'
        yield f"  {text} ({note['by']['rater']}, event {note['seq']})"
    if len(notes) > MAX_NOTES:
        yield f"  {output.format_count(len(notes) - MAX_NOTES, 'earlier note')} not shown; --json has them all."


def _changes(story: Story) -> Iterator[str]:
    """Yield what happened to the entry between its origin and its fate, without ratings."""
    for before, row in pairwise(row for row in story["trail"] if row["kind"] not in STATUS_NEUTRAL):
        if is_exit(before, story):
            left = (
                f"{_capitalise(_describe(before, story))} at event {before['seq']} with {output.format_counts(before)}"
            )
            yield f"{left}, back at event {row['seq']}."
        elif row["kind"] in _CHANGES and not is_exit(row, story):
            counts = f", which left it with {output.format_counts(row)}" if row["kind"] in _COUNT_CHANGES else ""
            yield f"{_capitalise(_describe(row, story))} at event {row['seq']}{counts}."


def _fate(story: Story, *, as_of: bool) -> str:
    decided_by = story["decided_by"]
    if story["status"] == "unknown":
        ever, then = ("had", " by then") if as_of else ("ever had", "")
        return f"No entry {ever} this name, or a text with these words{then}."
    if decided_by is None:
        pins = [row["kind"] for row in story["trail"] if row["kind"] in {"point.pinned", "point.unpinned"}]
        pinned = ", and is pinned: no rule prunes it" if pins[-1:] == ["point.pinned"] else ""
        return f"It is in the playbook with {output.format_counts(story)}{pinned}."
    if story["status"] == "undone":
        return f"What brought this entry was undone {_describe_source(decided_by)}."
    deciding = next(row for row in reversed(story["trail"]) if row["seq"] == decided_by["seq"])
    rule = f", by the rule {story['rule']}" if story["rule"] else ""
    what, counts = _capitalise(_describe(deciding, story)), output.format_counts(story)
    return f"{what} {_describe_source(decided_by)}{rule}, with {counts}."


def _events_without_effect(story: Story) -> Iterator[str]:
    """Yield what named the entry and did not change it: after its end, and otherwise."""
    end = story["decided_by"]["seq"] if story["decided_by"] else None
    counted_for = Counter(row["reason"] for row in story["ignored"] if row["reason"].startswith(_COUNTS_FOR))
    for reason, count in counted_for.items():
        what = output.format_count(count, "rating came after that and counts", "ratings came after that and count")
        yield f"{what} for {reason.removeprefix(_COUNTS_FOR)}."
    others = [row for row in story["ignored"] if row["reason"] not in counted_for]
    late = [row for row in others if end is not None and row["seq"] > end]
    lost = [row for row in late if row["by"].get("writer") and row["rating"] is not None and row["reason"] != "undone"]
    if lost:
        late = [row for row in late if row not in lost]
        singular, plural = (
            "rating of the book came after that and counts",
            "ratings of the book came after that and count",
        )
        back = f"to bring the entry back, run: tallybook restore {story['name']}"
        yield f"{output.format_count(len(lost), singular, plural)} nothing; {back}"
    if late:
        yield f"{output.format_count(len(late), 'event')} came after that and changed nothing."
    reasons = Counter(row["reason"] for row in others if row not in late)
    if reasons:
        details = ", ".join(f"{reason} ({count})" for reason, count in reasons.items())
        yield f"{output.format_count(reasons.total(), 'event')} about it changed nothing: {details}."


# Parts of sentences


def is_exit(row: Row, story: Story) -> bool:
    """Say whether the entry left the playbook by the event of a row."""
    return row["kind"] in _EXITS or (row["kind"] == "point.merged" and row["name"] != story["name"])


def _describe(row: Row, story: Story) -> str:
    """Return what happened to the entry by the event of a row."""
    if row["rating"] is not None:
        return f"rated {row['rating']}"
    if row["kind"] == "point.matched":
        return f"joined to {row['name']}, which has its text"
    if row["kind"] == "point.merged":
        return f"merged into {row['name']}" if is_exit(row, story) else f"merged with {', '.join(row['merged'])}"
    return DESCRIPTIONS.get(row["kind"]) or str(row["kind"]).removeprefix("point.")


def _capitalise(text: str) -> str:
    # Unlike str.capitalize, this leaves the rest of the text as it is.
    return text[:1].upper() + text[1:]


def _describe_source(row: Row) -> str:
    """Return when, by whom and by which event."""
    by = row["by"]
    author = output.format_author(by) + (f" in session {by['session']}" if by.get("session") else "")
    place = f" ({by['place']})" if by.get("place") else ""
    taken = row.get("taken")
    arrival = f", which came in here {output.format_time(taken['at'])}, event {taken['seq']}" if taken else ""
    return f"{output.format_time(output.read_event_time(row))} by {author}{place}, event {row['seq']}{arrival}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# What follows the sentences


def _print_deciding(console: Console, story: Story) -> None:
    """Print the events that decided, as ``log`` shows them."""
    deciding = story["deciding"]
    if not deciding:
        return
    rated = {row["seq"] for row in story["trail"] if row["kind"] == "point.rated"}
    console.print()
    terminal.print_log_rows(console, deciding)
    if earlier := len(rated.difference(event["seq"] for event in deciding)):
        terminal.print_text(
            console, f"   ...  and {output.format_count(earlier, 'earlier rating')}: --trail", style="dim"
        )


def _print_other_names(console: Console, lineage: Sequence[Mapping[str, Any]]) -> None:
    if not lineage:
        return
    console.print()
    terminal.print_text(console, f"The same guidance under {'another name' if len(lineage) == 1 else 'other names'}:")
    for relative in lineage:
        link = "" if relative["relation"] in {"went into", "took in"} else "as "
        how = f"{relative['relation']} {link}{relative['of']}"
        terminal.print_indented(
            console, terminal.make_text(console, f"{relative['name']}  {relative['status']}, {how}: {relative['text']}")
        )


def _print_trail(console: Console, story: Story) -> None:
    """Print the events about the entry as ``log`` does, each with the counts after it or why it changed nothing."""
    rows = sorted([*story["trail"], *story["ignored"]], key=lambda row: int(row["seq"]))
    if any(row["by"].get("writer") for row in rows):
        # Machines publish later than they record.
        rows.sort(key=output.read_event_time)
    if not rows:
        return
    console.print()
    for row in rows:
        effect = f" ({row['reason']})" if "reason" in row else f": {output.format_counts(row)}"
        arrival = f", here {output.format_time(row['taken']['at'])}" if row.get("taken") else ""
        terminal.print_log_rows(console, [{**row, "summary": f"{_describe(row, story)}{effect}{arrival}"}])
