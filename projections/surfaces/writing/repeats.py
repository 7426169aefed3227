"""Repeats: a new text that says nearly what an entry says is refused, added all the same, or proposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallybook.ledger.decisions.update import text_fault
from tallybook.ledger.errors import EXIT_NO, TallybookError
from tallybook.ledger.events import PointProposed
from tallybook.ledger.storage import redacted_digests
from tallybook.projections.comparison.similarity import find_similar
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents.inside import find_agent
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.comparison.similarity import Likeness
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome


class RepeatedTextError(TallybookError):
    """A text was not added, because an entry says nearly the same."""

    exit_code = EXIT_NO

    def __init__(self, match: Likeness, more: str) -> None:
        """Take the entry that it repeats, and what else can be done."""
        entry = match.entry
        what = f"{entry.name} says nearly the same ({match.similarity:.2f}): {' '.join(entry.text.split())}"
        super().__init__(f"TEXT: {what}; nothing was recorded; {more}")


def find_repeated(project: Project, text: str) -> list[Likeness]:
    """Return the entries that say nearly the same as a new text; none where an entry has the text itself."""
    entries = commands.playbook(project).state.entries.values()
    if not entries or any(entry.text == text for entry in entries):
        return []
    return find_similar(text, entries)


def propose_repeat(
    project: Project, text: str, by: Mapping[str, str], section: str = "", *, again: bool
) -> Outcome | None:
    """Refuse a text that repeats an entry, or propose it where an agent wants to add it all the same.

    Args:
        project: The project.
        text: The text.
        by: Who adds it.
        section: The heading of its section; empty for none.
        again: Whether it is to be added all the same.

    Returns:
        What was recorded; None where the text can be added.

    Raises:
        RepeatedTextError: It repeats an entry, and ``again`` is not given.
    """
    is_refused = text_fault(text) is not None or redacted_digests.load(project.ledger).refusal(text) is not None
    matches = [] if is_refused else find_repeated(project, text)
    if not matches:
        return None
    if not again:
        name = matches[0].entry.name
        raise RepeatedTextError(matches[0], f"rate it: tallybook rate {name} helpful; or give --again to add it")
    if find_agent() is None:
        return None
    proposal = PointProposed("add", "", (), f"repeats {matches[0].entry.name}", section, text, "")
    return commands.recorded(project, Request(PlainEvents((proposal,)), by))
