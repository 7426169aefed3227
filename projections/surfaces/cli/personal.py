"""The verbs `promote` and `demote`, and what `init --mine` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.errors import NothingToDoError, UnknownEntryError
from tallybook.ledger.events import PointNoted
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.names import find_name
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.event_rows import entry_line, numbered_rows
from tallybook.projections.fold import history
from tallybook.projections.playbook.view import REDACTED
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.console.options import Verb, provenance_of, with_reason
from tallybook.projections.surfaces.console.output import answer, note, recorded_lines, say
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.writing import pair, record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.events import Entry
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

_PROMOTED: Final = "promoted from"
_DEMOTED: Final = "demoted from"
_LEFT: Final = "demoted to a person's own playbook"
_NEXT: Final = (
    '`tallybook add --mine "..."` adds an entry; sessions in projects that have a playbook get it as well. '
    "It is never shared."
)


def begin(project: Project | None, *, dry_run: bool, as_json: bool) -> None:
    """Begin the person's own playbook.

    Raises:
        PersonsOnlyError: An agent asks for it.
        BadInputError: It cannot be where the environment says.
    """
    require_person("init --mine")
    mine = personal.place(project)
    path = mine.ledger / "events.jsonl"
    goes_on = path.exists()
    if not goes_on and not dry_run:
        report = record.write(mine, [], begin=True)
        note(*map(str, report.problems))
    row = {"path": str(path), "what": "left" if goes_on else "created"}
    row["why"] = "the ledger goes on" if goes_on else "your own playbook"
    if as_json:
        answer({"changed": [] if goes_on else [row], "left": [row] if goes_on else [], "diff": "", "others": []})
        return
    say(f"{row['what']} {row['path']}: {row['why']}", "Nothing was changed: this was a dry run." if dry_run else _NEXT)


@click.command(cls=Verb, rater="human", example="tallybook promote my_003")
@click.argument("name")
def promote(project: Project, /, *, name: str, as_json: bool, **by: Any) -> None:
    """Add an entry of your own playbook to the project's.

    The project's entry starts without ratings and says where it came from; yours stays as it is. Inside an agent this
    is refused.

    --json answers {events, mine}; mine has the {events} of your own playbook
    """
    require_person("promote", by["rater"])
    author, mine = provenance_of(by), personal.require_own(project)
    move = find_move(mine, project, name)
    _show(move, as_json=as_json)
    name = move.entry.name
    if move.known_as:
        raise NothingToDoError(name, f"the project has this text as {move.known_as}")
    if not _id(project):
        # The note in the own ledger names the project's.
        record.write(project, [], begin=True)
    added = Update({"new_key_points": [move.entry.text]}, origin=f"{_PROMOTED} {name}")
    link = PointNoted(name, f"promoted to the project {project.root.name}, ledger {_id(project)}")
    outcome = pair.write_both(project, mine, Request(added, author), Request(PlainEvents((link,)), author))
    _print(outcome, as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook demote kpt_007 --reason 'only I work this way'")
@click.argument("name")
@with_reason
def demote(project: Project, /, *, name: str, reason: str, as_json: bool, **by: Any) -> None:
    """Move an entry of the project to your own playbook.

    It leaves the project's playbook, and starts in yours without ratings. Inside an agent this is refused.

    --json answers as promote
    """
    require_person("demote", by["rater"])
    author, mine = provenance_of(by), personal.require_own(project)
    move = find_move(project, mine, name)
    _show(move, as_json=as_json)
    origin = f"{_DEMOTED} {move.entry.name} of the project {project.root.name}, ledger {_id(project)}"
    own: Any = Update({"new_key_points": [move.entry.text]}, origin=origin)
    if move.known_as:
        own = PlainEvents((PointNoted(move.known_as, origin),))
    retired = Curation("retire", move.entry.name, reason or _LEFT)
    _print(pair.write_both(project, mine, Request(retired, author), Request(own, author)), as_json=as_json)


def _show(move: Move, *, as_json: bool) -> None:
    """Print the entry before anything is recorded."""
    if not as_json:
        say(entry_line(move.entry))


def _print(outcome: Outcome, *, as_json: bool) -> None:
    note(*outcome.notes)
    rows, own = (numbered_rows(part.numbers, part.events) if part else [] for part in (outcome, outcome.mine))
    if as_json:
        answer({"events": rows, "mine": {"events": own}})
        return
    say(*recorded_lines(rows), *(f"your own playbook: {line}" for line in recorded_lines(own)))
    if outcome.spooled:
        say("another process holds the project's ledger; spooled, the next command that writes records it")


# Entries that move from one playbook to the other


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
    state, other = (reading.current(reading.open_log(owner)) for owner in (source, target))
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
