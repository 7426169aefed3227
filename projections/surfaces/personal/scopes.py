"""Entries that go from a person's own playbook to the project's, and back: promoted, demoted, and found again.

A promoted entry stays in the person's own playbook, for other projects; a demoted one leaves the project. The new entry
starts without ratings. Notes in both ledgers say where it came from; a project's says the personal name and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import NothingToDoError, UnknownEntryError
from tallybook.ledger.events import PointNoted
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.names import find_name
from tallybook.ledger.sharing.landed_kinds import REDACTED
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.fold import history
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.personal import pair
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.ledger.events import Entry
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

_PROMOTED: Final = "promoted from"
_DEMOTED: Final = "demoted from"
_LEFT: Final = "demoted to a person's own playbook"


@attrs.frozen
class Move:
    """An entry that goes from one playbook to the other.

    Attributes:
        entry: The entry as it is where it comes from.
        known_as: The entry of the other playbook that has its text already; empty without one.
    """

    entry: Entry
    known_as: str = ""


def find_move(source: Project, target: Project, name: str) -> Move:
    """Return what would go from one playbook to the other.

    Raises:
        UnknownEntryError: No entry of the source ever had the name.
        NothingToDoError: It left the playbook, or its text was redacted in one of them.
    """
    state, other = (reading.current(reading.open_log(one)) for one in (source, target))
    exact = find_name(name, state.used)
    if exact is None:
        raise UnknownEntryError(name)
    if exact not in state.entries:
        raise NothingToDoError(exact, "is not in the playbook", "see `tallybook why`")
    entry = state.entries[exact]
    # The target would record the note without the entry, and a demoted one would be in neither playbook.
    if entry.text == REDACTED or redacted_digests.load(target.ledger).refusal(entry.text) is not None:
        raise NothingToDoError(exact, "has a text that was redacted")
    same = [known.name for known in other.entries.values() if known.text == entry.text]
    return Move(entry, same[0] if same else "")


def promote(project: Project, mine: Project, move: Move, by: Mapping[str, str]) -> Outcome:
    """Add an entry of the person's own playbook to the project's, without ratings.

    Raises:
        NothingToDoError: The project has its text.
    """
    name = move.entry.name
    if move.known_as:
        raise NothingToDoError(name, f"the project has this text as {move.known_as}")
    if not _id(project):
        # The note in the own ledger names the project's.
        recording.write(project, [], begin=True)
    added = Update({"new_key_points": [move.entry.text]}, origin=f"{_PROMOTED} {name}")
    note = PointNoted(name, f"promoted to the project {project.root.name}, ledger {_id(project)}")
    return pair.write_both(project, mine, Request(added, by), Request(PlainEvents((note,)), by))


def demote(project: Project, mine: Project, move: Move, by: Mapping[str, str], reason: str = "") -> Outcome:
    """Move an entry of the project to the person's own playbook, without ratings."""
    origin = f"{_DEMOTED} {move.entry.name} of the project {project.root.name}, ledger {_id(project)}"
    if move.known_as:
        own: Any = PlainEvents((PointNoted(move.known_as, origin),))
    else:
        own = Update({"new_key_points": [move.entry.text]}, origin=origin)
    retired = Curation("retire", move.entry.name, reason or _LEFT)
    return pair.write_both(project, mine, Request(retired, by), Request(own, by))


def _id(project: Project) -> str:
    return ledger_id(project.ledger / LOG_NAME)


def linked_names(project: Project, mine: Project, name: str, *, is_mine: bool) -> list[str]:
    """Return the entries of the other playbook that an entry came from or went to.

    Args:
        project: The project.
        mine: The person's own playbook.
        name: The entry.
        is_mine: Whether it is one of the person's own.
    """
    ledger = _id(project)
    links = [(theirs, text.removeprefix(f"{_PROMOTED} ")) for theirs, text in _notes(project, _PROMOTED)]
    for own, text in _notes(mine, _DEMOTED):
        if text.endswith(f", ledger {ledger}"):
            links.append((text.removeprefix(f"{_DEMOTED} ").partition(" of the project ")[0], own))
    found = [theirs if is_mine else own for theirs, own in links if name == (own if is_mine else theirs)]
    return list(dict.fromkeys(found))


def _notes(project: Project, beginning: str) -> Iterator[tuple[str, str]]:
    """Yield the entry and the text of each note of a ledger with this beginning that was not undone."""
    log = reading.open_log(project)
    if not log.may_contain(beginning.encode()):
        return
    for event in (event for batch in history(lambda: decode(log.read())) for event in batch.events):
        if isinstance(event, PointNoted) and (event.note or "").startswith(f"{beginning} "):
            yield event.name, event.note or ""
