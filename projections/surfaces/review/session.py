"""A review: its items as of now, and the decisions of a person about them, each recorded when it is made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tallybook.ledger import clock
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.events import PointReviewed
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.review import (
    DAYS,
    DISPUTED,
    LEFT,
    LESSON,
    Item,
    Question,
    select_agents_items,
    select_items,
)
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.hooks import notices
from tallybook.projections.surfaces.review import stale
from tallybook.projections.surfaces.writing import proposals
from tallybook.projections.surfaces.writing.requests import Answer, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

MAX_NAMES = 3
"""A notice has no more names."""
_DAY_US = 24 * 3600 * clock.MICROSECONDS


def find_items(project: Project) -> list[Item]:
    """Return what a person should decide now."""
    question = _ask(project)
    return select_items(question._replace(gone=stale.find_gone(project, question.book.entries.values())))


def _ask(project: Project) -> Question:
    now = clock.utc_now()
    since = clock.moment(now.unix_us - DAYS * _DAY_US).at
    opened = proposals.open_proposals(project)
    return Question(commands.playbook(project).state, stale.load_reviews(project), opened, {}, since, now.at[:10])


def refresh_notice(project: Project) -> None:
    """Write down for the next session and the next command what agents' marks ask of a person."""
    items = select_agents_items(_ask(project))
    number = Counter(item.why for item in items)
    parts = [f"{format_count(number[LESSON], 'lesson')} proposed"] if number[LESSON] else []
    parts += [f"{format_count(number[DISPUTED], 'entry', 'entries')} in dispute"] if number[DISPUTED] else []
    left = [item.names[0] for item in items if item.why == LEFT]
    if left:
        # Three sessions that quoted a hostile file pruned an entry, and nobody was told.
        names = ", ".join(left[-MAX_NAMES:])
        parts.append(f"agents' ratings pruned {names} (`tallybook restore {left[-1]}`)")
    # At a start the notice is seen on the terminal, and is in no request to a model.
    notices.put(project, f"{', '.join(parts)}: tallybook review" if parts else "", left)


def is_open(item: Item, book: Playbook) -> bool:
    """Return whether an item still can be decided: an earlier decision may have taken one of its entries out."""
    return item.proposal is not None or all((name in book.entries) != (item.why == LEFT) for name in item.names)


def decide(project: Project, item: Item, decision: str, text: str, by: Mapping[str, str]) -> Outcome:
    """Record a decision about an item, with the change that it makes in the same batch.

    Args:
        project: The project.
        item: The item.
        decision: accept or reject for a proposal; restore or leave for an entry that left; for others keep, retire,
            reword, until or merge.
        text: The new text, for reword; the new last day, for until.
        by: The person.

    Raises:
        TallybookError: The change is refused; nothing was recorded.
    """
    if item.proposal is not None:
        answer = proposals.accept if decision == "accept" else proposals.reject
        return answer(project, item.proposal, "", by).outcome
    event = PointReviewed(item.names, item.why, decision)
    sources = item.names[1:] if decision == "merge" else ()
    reason = f"review: {item.why}"
    # To keep an entry is recorded, too: what a person decided is not asked again for 90 days.
    wish = None if decision in {"keep", "leave"} else Curation(decision, item.names[0], reason, text, sources)
    if decision == "until":
        wish = Curation("reword", item.names[0], reason, until=text)
    # One batch, so that an undo brings back the item and what its decision changed.
    return commands.recorded(project, Request(Answer(event, wish), by))


def item_json(item: Item, book: Playbook) -> dict[str, Any]:
    """Return an item as ``{why, names, says, entries, proposal}``."""
    return {
        "why": item.why,
        "names": list(item.names),
        "says": item.says,
        "entries": [entry_json(book.entries[name]) for name in item.names if name in book.entries],
        "proposal": None if item.proposal is None else item.proposal.seq,
    }
