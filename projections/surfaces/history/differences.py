"""What changed in the playbook between two moments, as a value and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tallybook.projections.comparisons import diff
from tallybook.projections.entry_history import EntryStatuses
from tallybook.projections.surfaces.console.output import format_counts
from tallybook.projections.surfaces.history.stories import STATUS_FORM, AsOf, as_of
from tallybook.projections.surfaces.workspace.project import Project


@attrs.frozen
class Difference:
    """The playbook as of two moments, and what changed between them.

    Attributes:
        before: The first.
        after: The second.
        rows: The changes, as ``diff`` returns them.
    """

    before: AsOf[EntryStatuses]
    after: AsOf[EntryStatuses]
    rows: Mapping[str, Any]

    def json(self) -> dict[str, Any]:
        """Return it as ``diff --json`` prints it: the rows, and the moments as ``from`` and ``to``."""
        return {"from": _side_json(self.before), "to": _side_json(self.after), **self.rows}

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the changes for people: lines with their sign, ``+``, ``-``, ``~``, or empty below such a line."""
        for row in self.rows["added"]:
            was = f", back: it was {row['was']['how']} at event {row['was']['seq']}" if row["was"] else ""
            yield "+", f"{row['name']}  {format_counts(row)}{was}"
            yield "", row["text"]
        for row in self.rows["gone"]:
            fate = self._fate(row["left"]) if row["left"] else f"{self._cause()}, with {format_counts(row)}"
            yield "-", f"{row['name']}  {fate}"
            yield "", row["text"]
        for row in self.rows["changed"]:
            old, new = row["before"], row["after"]
            counts = [
                f"{field} {old[field]} to {new[field]}" for field in ("helpful", "harmful") if old[field] != new[field]
            ]
            yield "~", f"{row['name']}  {', '.join(counts) or 'reworded'}"
            if old["text"] != new["text"]:
                yield "", f"was: {old['text']}"
                yield "", f"now: {new['text']}"
        if self.rows["order"] is not None:
            yield "~", f"the order is {', '.join(self.rows['order'])}"

    def print(self) -> None:
        """Print the changes for people."""
        from tallybook.projections.surfaces.console import terminal

        counts = [f"{len(self.rows[part])} {part}" for part in ("added", "gone", "changed") if self.rows[part]]
        total = ", ".join([*counts, *(["another order"] if self.rows["order"] is not None else [])])
        begin, end = f"From {self.before.moment}", f"to {self.after.moment}"
        terminal.print_changes(terminal.console_for(), begin, end, self.lines(), total)

    def _fate(self, left: Mapping[str, Any]) -> str:
        """Return how an entry left the playbook."""
        seq = left["seq"]
        place = "in playbook.json" if seq is None else f"at event {seq}"
        # An undo between the two moments can make an event count that came before both.
        is_one_history = self.before.commit == self.after.commit
        if seq is not None and is_one_history and seq <= self.before.state.seq < self.after.state.seq:
            place += ", after a later undo changed the history"
        into = f" into {left['into']}" if left["into"] else ""
        return f"{left['how']}{into} {place}, with {format_counts(left)}"

    def _cause(self) -> str:
        """Return why an entry of the first playbook is missing in the second although no event removed it."""
        if self.before.commit != self.after.commit:
            return "not in that history"
        return "not there yet" if self.after.state.seq < self.before.state.seq else "what brought it was undone"


def compare(project: Project, first: str, second: str | None, renamed: Mapping[str, str] | None = None) -> Difference:
    """Return what changed in the playbook between two moments.

    Args:
        project: The project.
        first: The first moment.
        second: The second; None for now.
        renamed: Name at the first moment → name at the second, of entries that a shared book has under another name.
    """
    before, after = (as_of(project, STATUS_FORM, when, "diff") for when in (first, second))
    if renamed:
        book = before.state.book
        entries = {renamed.get(name, name): entry for name, entry in book.entries.items()}
        entries = {name: attrs.evolve(entry, name=name) for name, entry in entries.items()}
        before = attrs.evolve(before, state=attrs.evolve(before.state, book=attrs.evolve(book, entries=entries)))
    return Difference(before, after, diff(before.state, after.state, after.end))


def _side_json(side: AsOf[EntryStatuses]) -> dict[str, Any]:
    batch, seq = side.state.latest_batch, side.state.seq
    at = None if batch is None else batch.at
    return {"seq": seq if seq <= side.end else None, "at": at, "commit": side.commit or None}
