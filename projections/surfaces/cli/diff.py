"""``diff``: what changed in the playbook between two moments, in its stable shape and as lines for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.projections.comparison.diff import DEPARTURES_FORM
from tallybook.projections.comparison.diff import diff as differing
from tallybook.projections.playbook.render import entry
from tallybook.projections.surfaces.console.options import as_json
from tallybook.projections.surfaces.console.output import answer, note
from tallybook.projections.surfaces.history.as_of import Stood, stands, stood

if TYPE_CHECKING:
    from tallybook.ledger.events import Entry
    from tallybook.projections.comparison.diff import ChangedEntry, Departure, Departures, Diff
    from tallybook.projections.surfaces.workspace.project import Project

OPTION: Final = "diff"
"""What an error calls either moment."""


def side(project: Project, when: str | None) -> Stood[Departures]:
    """Return the playbook at a moment; now, with what a hand changed in the file, where there is no WHEN."""
    if when is not None:
        return stood(project, DEPARTURES_FORM, when, OPTION)
    found = stands(project, DEPARTURES_FORM)
    left = found.state.left
    found.state.left = {name: attrs.evolve(one, seq=one.seq and found.number(one.seq)) for name, one in left.items()}
    return found


def between(project: Project, first: str, second: str | None) -> tuple[Stood[Departures], Stood[Departures], Diff]:
    """Return the playbooks at two moments, the second now where it is None, and what changed between them."""
    before, after = side(project, first), side(project, second)
    return before, after, differing(before.state, after.state)


def diff_json(difference: Diff) -> dict[str, Any]:
    """Return a difference as JSON-ready values.

    Returns:
        ``{added, gone, changed, order, top}``: an added entry with ``was``, one that is gone with ``left``, each
        ``{how, seq, helpful, harmful, into}`` or None; a changed one as ``{name, before, after}``; ``order`` and
        ``top`` as in ``Diff``.
    """
    return {
        "added": [entry(one.point) | {"was": _left_json(one.was)} for one in difference.added],
        "gone": [entry(one.point) | {"left": _left_json(one.left)} for one in difference.gone],
        "changed": [
            {"name": one.after.name, "before": entry(one.before), "after": entry(one.after)}
            for one in difference.changed
        ],
        "order": None if difference.order is None else list(difference.order),
        "top": None if difference.top is None else dict(difference.top),
    }


def _left_json(left: Departure | None) -> dict[str, Any] | None:
    return None if left is None else attrs.asdict(left)


def diff_lines(difference: Diff, missing: str, since: int = 0) -> list[tuple[str, str]]:
    """Return a difference for people: lines, each with its sign, ``+``, ``-``, ``~`` or empty for what stands below.

    Args:
        difference: The difference.
        missing: What to say of an entry that nothing took out of the second playbook.
        since: The moment of the first where the second is a later one. What took an entry out by then did not count
            yet, or no longer, and does so since something was undone.
    """
    lines: list[tuple[str, str]] = []
    for came in difference.added:
        lines += [("+", f"{_counted(came.point)}{_before(came.was)}"), ("", came.point.text)]
    for gone in difference.gone:
        fate = _fate(gone.left, since) or f"{missing}, with {_counts(gone.point)}"
        lines += [("-", f"{gone.point.name}  {fate}"), ("", gone.point.text)]
    for one in difference.changed:
        lines += [("~", f"{one.after.name}  {_counting(one)}")]
        lines += [("", f"was: {one.before.text}"), ("", f"now: {one.after.text}")] * (one.before.text != one.after.text)
    if difference.order is not None:
        lines.append(("~", f"the order is {', '.join(difference.order)}"))
    return lines


def _counts(point: Entry | Departure) -> str:
    return f"{point.helpful} helpful and {point.harmful} harmful"


def _counted(point: Entry) -> str:
    return f"{point.name}  {_counts(point)}"


def _before(was: Departure | None) -> str:
    return "" if was is None else f", back: it was {was.how} at event {was.seq}"


def _fate(left: Departure | None, since: int) -> str:
    """Say how an entry left, empty where nothing took it out."""
    if left is None:
        return ""
    into = f" into {left.into}" if left.into else ""
    if left.seq is None:
        where = "in playbook.json"
    else:
        where = f"at event {left.seq}" + (", as history is told since an undoing" if left.seq <= since else "")
    return f"{left.how}{into} {where}, with {_counts(left)}"


def _counting(one: ChangedEntry) -> str:
    """Say how the counts changed."""
    told = []
    for field in ("helpful", "harmful"):
        before, after = getattr(one.before, field), getattr(one.after, field)
        told += [f"{field} {before} to {after}"] if before != after else []
    return ", ".join(told) or "reworded"


def _side_json(one: Stood[Departures]) -> dict[str, Any]:
    batch = one.state.latest_batch
    return {"seq": one.number(one.state.seq), "at": None if batch is None else batch.at, "commit": one.commit or None}


def _missing(before: Stood[Departures], after: Stood[Departures]) -> str:
    """Say why an entry is in the first playbook, and nothing took it out of the second."""
    if before.commit != after.commit:
        return "not in that history"
    return "not there yet" if after.state.seq < before.state.seq else "what brought it was undone"


def _since(before: Stood[Departures], after: Stood[Departures]) -> int:
    """Return the moment of the first playbook where the second is a later one of that history, else 0."""
    return before.state.seq if before.commit == after.commit and before.state.seq < after.state.seq else 0


def _total(difference: Diff) -> str:
    counts = {"added": difference.added, "gone": difference.gone, "changed": difference.changed}
    told = [f"{len(found)} {what}" for what, found in counts.items() if found]
    return ", ".join([*told, *(["another order"] if difference.order is not None else [])])


@click.command(epilog="Example: tallybook diff 2d && tallybook diff session:5f1c2f0e session:5f1c2f0e+ --json")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
@as_json
@click.pass_obj
def diff(project: Project, /, *, first: str, second: str | None, as_json: bool) -> None:
    """Compare the playbook at two moments.

    A and B are each a WHEN, as for `show --at`. Without B, A is compared with now. B may be the earlier moment.
    """
    before, after, difference = between(project, first, second)
    note(*before.notes, *after.notes)
    if as_json:
        answer({"from": _side_json(before), "to": _side_json(after)} | diff_json(difference))
        return
    from tallybook.projections.surfaces.console import terminal

    console = terminal.console_for(sys.stdout)
    lines = diff_lines(difference, _missing(before, after), _since(before, after))
    terminal.changes(console, f"From {before.told}", f"to {after.told}", lines, _total(difference))
