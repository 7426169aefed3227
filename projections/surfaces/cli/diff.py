"""``diff``: what changed in the playbook between two moments, in its stable shape and as lines for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from tallybook.projections.comparison.diff import diff as differing
from tallybook.projections.entry_history.view import EntryStatuses
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import answer, format_counts, note
from tallybook.projections.surfaces.history.as_of import AsOf, as_of
from tallybook.projections.surfaces.history.entry_story import STATUS_FORM
from tallybook.projections.surfaces.history.reading import PLAYBOOK_FORM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.comparison.diff import Departure, Diff
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project


def compare(project: Project, first: str, second: str | None) -> tuple[AsOf[EntryStatuses], AsOf[EntryStatuses], Diff]:
    """Return the playbook as of two moments, the second now where it is None, and what changed between them."""
    old, new = (as_of(project, PLAYBOOK_FORM, when, "diff") for when in (first, second))
    if _has_left(old.state, new.state) or _has_left(new.state, old.state):
        before, after = (as_of(project, STATUS_FORM, when, "diff") for when in (first, second))
    else:
        before, after = _without_events(old), _without_events(new)
    return before, after, differing(before.state, after.state, after.end)


def _has_left(one: Playbook, other: Playbook) -> bool:
    """Return whether an entry of one playbook has left the other; only the view of statuses says how."""
    return any(name in other.gone for name in one.entries if name not in other.entries)


def _without_events(side: AsOf[Playbook]) -> AsOf[EntryStatuses]:
    """Return a playbook without the events of its entries, which take long to find in a long shared history."""
    book = side.state
    state = EntryStatuses(book.seq, book.chain, book.latest_batch, book)
    return AsOf(state, side.moment, side.end, side.notes, side.commit)


def difference_json(before: AsOf[EntryStatuses], after: AsOf[EntryStatuses], difference: Diff) -> dict[str, Any]:
    """Return two moments and what changed between them as ``diff --json`` prints it."""
    return {"from": _side_json(before), "to": _side_json(after)} | _diff_json(difference)


def _diff_json(difference: Diff) -> dict[str, Any]:
    """Return a difference as JSON-ready values.

    Returns:
        ``{added, gone, changed, order, top}``: an added entry with ``was``, one that is gone with ``left``, each
        ``{how, seq, helpful, harmful, into}`` or None; a changed one as ``{name, before, after}``; ``order`` and
        ``top`` as in ``Diff``.
    """
    return {
        "added": [entry_json(one.entry) | {"was": one.left and attrs.asdict(one.left)} for one in difference.added],
        "gone": [entry_json(one.entry) | {"left": one.left and attrs.asdict(one.left)} for one in difference.gone],
        "changed": [
            {"name": one.after.name, "before": entry_json(one.before), "after": entry_json(one.after)}
            for one in difference.changed
        ],
        "order": None if difference.order is None else list(difference.order),
        "top": None if difference.top is None else dict(difference.top),
    }


def difference_lines(
    difference: Diff, before: AsOf[EntryStatuses], after: AsOf[EntryStatuses]
) -> Iterator[tuple[str, str]]:
    """Yield a difference for people: lines with their sign, ``+``, ``-``, ``~``, or empty below such a line."""
    for addition in difference.added:
        was = f", back: it was {addition.left.how} at event {addition.left.seq}" if addition.left else ""
        yield "+", f"{addition.entry.name}  {_counts(addition.entry)}{was}"
        yield "", addition.entry.text
    for removal in difference.gone:
        fate = _fate(removal.left, before, after) or f"{_cause(before, after)}, with {_counts(removal.entry)}"
        yield "-", f"{removal.entry.name}  {fate}"
        yield "", removal.entry.text
    for change in difference.changed:
        old, new = attrs.asdict(change.before), attrs.asdict(change.after)
        counts = [
            f"{field} {old[field]} to {new[field]}" for field in ("helpful", "harmful") if old[field] != new[field]
        ]
        yield "~", f"{change.after.name}  {', '.join(counts) or 'reworded'}"
        if change.before.text != change.after.text:
            yield "", f"was: {change.before.text}"
            yield "", f"now: {change.after.text}"
    if difference.order is not None:
        yield "~", f"the order is {', '.join(difference.order)}"


def _counts(entry: Any) -> str:
    return format_counts(attrs.asdict(entry))


def _fate(left: Departure | None, before: AsOf[EntryStatuses], after: AsOf[EntryStatuses]) -> str:
    """Return how an entry left the playbook, empty where no event removed it."""
    if left is None:
        return ""
    place = "in playbook.json" if left.seq is None else f"at event {left.seq}"
    # An undo between the two moments can make an event count that came before both.
    if left.seq is not None and before.commit == after.commit and left.seq <= before.state.seq < after.state.seq:
        place += ", after a later undo changed the history"
    return f"{left.how}{f' into {left.into}' if left.into else ''} {place}, with {_counts(left)}"


def _cause(before: AsOf[EntryStatuses], after: AsOf[EntryStatuses]) -> str:
    """Return why an entry of the first playbook is missing in the second although no event removed it."""
    if before.commit != after.commit:
        return "not in that history"
    return "not there yet" if after.state.seq < before.state.seq else "what brought it was undone"


def _side_json(side: AsOf[EntryStatuses]) -> dict[str, Any]:
    batch = side.state.latest_batch
    at = None if batch is None else batch.at
    return {"seq": side.number(side.state.seq), "at": at, "commit": side.commit or None}


def _total(difference: Diff) -> str:
    parts = {"added": difference.added, "gone": difference.gone, "changed": difference.changed}
    counts = [f"{len(entries)} {what}" for what, entries in parts.items() if entries]
    return ", ".join([*counts, *(["another order"] if difference.order is not None else [])])


@click.command(cls=Verb, example="tallybook diff 2d && tallybook diff session:5f1c2f0e session:5f1c2f0e+ --json")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
def diff(project: Project, /, *, first: str, second: str | None, as_json: bool) -> None:
    """Compare the playbook at two moments.

    A and B are each a WHEN, as for `show --at`. Without B, A is compared with now. B may be the earlier moment.
    """
    before, after, difference = compare(project, first, second)
    note(*before.notes, *after.notes)
    if as_json:
        answer(difference_json(before, after, difference))
        return
    print_difference(before, after, difference)


def print_difference(before: AsOf[EntryStatuses], after: AsOf[EntryStatuses], difference: Diff) -> None:
    """Print what changed between two moments, for people."""
    from tallybook.projections.surfaces.console import terminal

    console = terminal.console_for(sys.stdout)
    lines = difference_lines(difference, before, after)
    terminal.print_changes(console, f"From {before.moment}", f"to {after.moment}", lines, _total(difference))
