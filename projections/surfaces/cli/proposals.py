"""The verbs of proposals: what agents proposed, and a person's answer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallybook.projections.event_rows import by_json, name_line, numbered_rows
from tallybook.projections.proposals import is_lesson, proposal_lines
from tallybook.projections.surfaces.console.options import Verb, provenance_of, with_reason
from tallybook.projections.surfaces.console.output import answer, format_count, note, recorded_lines, say
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.writing import proposals as store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project

_chosen = click.argument("numbers", metavar="[NUMBER]...", nargs=-1)
_of = click.option("--of", "session_of", metavar="SESSION", help="Take every open proposal of a session.")
_all = click.option("--all", "everything", is_flag=True, help="Take every open proposal.")


@click.command(cls=Verb, example="tallybook proposals")
def proposals(project: Project, /, *, as_json: bool) -> None:
    """List the changes that agents proposed.

    A person decides them with `proposals accept` and `proposals reject`.
    """
    found = store.open_proposals(project)
    state = reading.current(reading.open_log(project))
    if as_json:
        answer([_row(record, state) for record in found])
        return
    say(*(line for record in found for line in _lines(record, state)))
    if not found:
        say("No proposal is open.")


def _row(record: EventRecord, state: Playbook) -> dict[str, Any]:
    event: Any = record.event
    entries = [state.entries[name] for name in (event.name, *event.merged) if name in state.entries]
    return {
        "seq": record.seq,
        "at": record.at,
        "by": by_json(record.by),
        "verb": event.verb,
        "name": event.name,
        "merged": list(event.merged),
        "text": event.text,
        "cause": event.cause,
        "reason": event.reason,
        "entries": [
            {"name": one.name, "text": one.text, "helpful": one.helpful, "harmful": one.harmful} for one in entries
        ],
    }


def _lines(record: EventRecord, state: Playbook) -> Iterator[str]:
    """Yield a proposal for people: what it would do, and the entries as they are."""
    event: Any = record.event
    first, *more = proposal_lines(record)
    yield f"{record.seq}  {first}"
    yield from more
    for name in filter(None, (event.name, *event.merged)):
        yield f"    {name_line(state, name)}"


@click.command(
    "proposals accept", cls=Verb, rater="human", example="tallybook proposals accept 812 815 --reason 'both are right'"
)
@_chosen
@_of
@_all
@with_reason
def accept(project: Project, /, **options: Any) -> None:
    """Make changes that agents proposed.

    Each is shown with the entries as they are, then made, one batch for each. NUMBER is the number of a proposal, as
    `proposals` lists it. Inside an agent this is refused. A lesson, to be seen whole, and a redaction, which
    cannot be undone, need their number.
    """
    _decide(project, options, store.accept)


@click.command(
    "proposals reject",
    cls=Verb,
    rater="human",
    example="tallybook proposals reject --of 5f1c2f0e --reason 'it misread the logs'",
)
@_chosen
@_of
@_all
@with_reason
def reject(project: Project, /, **options: Any) -> None:
    """Close proposals without making their changes.

    NUMBER is the number of a proposal, as `proposals` lists it. Inside an agent this is refused.
    """
    _decide(project, options, store.reject)


def _decide(project: Project, options: dict[str, Any], decide: Callable[..., store.Decided]) -> None:
    by = provenance_of(options)
    numbers, session, everything = options["numbers"], options["session_of"], options["everything"]
    is_acceptance = decide is store.accept
    chosen, left_out = store.select(project, numbers, session, everything=everything, is_acceptance=is_acceptance)
    rows = []
    for record in chosen:
        state = reading.current(reading.open_log(project))
        if not options["as_json"]:
            say(*_lines(record, state))
        done = decide(project, record, options["reason"], by)
        note(*done.outcome.notes)
        made = numbered_rows(done.outcome.numbers, done.outcome.events)
        rows.append({"proposal": record.seq, "events": made})
        if not options["as_json"]:
            say(*recorded_lines(made))
    if left_out:
        lessons = sum(map(is_lesson, left_out))
        counts = {"lesson": lessons, "redaction": len(left_out) - lessons}
        what = " and ".join(format_count(count, word) for word, count in counts.items() if count)
        note(f"{what} left out; each is accepted by its number: tallybook proposals")
    if options["as_json"]:
        answer(rows)
