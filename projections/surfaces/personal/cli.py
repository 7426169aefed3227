"""The verbs `promote` and `demote`, and what `init --mine` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.projections.event_rows import entry_line, numbered_rows
from tallybook.projections.surfaces.agents.inside import require_person
from tallybook.projections.surfaces.console.options import Verb, provenance_of, with_reason
from tallybook.projections.surfaces.console.output import answer, note, recorded_lines, say
from tallybook.projections.surfaces.personal import pair
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.writing import record

if TYPE_CHECKING:
    from tallybook.projections.surfaces.personal.pair import Move
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

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
    """
    require_person("promote", by["rater"])
    author, mine = provenance_of(by), personal.named(project)
    move = pair.find_move(mine, project, name)
    _show(move, as_json=as_json)
    _print(pair.promote(project, mine, move, author), as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook demote kpt_007 --reason 'only I work this way'")
@click.argument("name")
@with_reason
def demote(project: Project, /, *, name: str, reason: str, as_json: bool, **by: Any) -> None:
    """Move an entry of the project to your own playbook.

    It leaves the project's playbook, and starts in yours without ratings. Inside an agent this is refused.
    """
    require_person("demote", by["rater"])
    author, mine = provenance_of(by), personal.named(project)
    move = pair.find_move(project, mine, name)
    _show(move, as_json=as_json)
    _print(pair.demote(project, mine, move, author, reason), as_json=as_json)


def _show(move: Move, *, as_json: bool) -> None:
    """Print the entry before anything is recorded."""
    if not as_json:
        say(entry_line(move.entry))


def _print(outcome: Outcome, *, as_json: bool) -> None:
    note(*outcome.notes)
    rows, own = (numbered_rows(one.numbers, one.events) if one else [] for one in (outcome, outcome.mine))
    if as_json:
        answer({"events": rows, "mine": {"events": own}})
        return
    say(*recorded_lines(rows), *(f"your own playbook: {line}" for line in recorded_lines(own)))
    if outcome.spooled:
        say("another process holds the project's ledger; spooled, the next command that writes records it")
