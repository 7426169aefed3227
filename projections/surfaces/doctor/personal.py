"""The doctor's check of a person's own playbook: whether it can be told here, and which entries the project hides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context


def check_personal(context: Context) -> Iterator[Finding]:
    """Check the person's own playbook; where there is none, it is not mentioned."""
    mine = personal.find(context.project)
    if mine is None:
        fault = personal.fault(context.project)
        if fault and Path(personal.folder()).exists():
            message = f"{personal.folder()} is left out here: {fault}"
            yield Finding(NOTE, message, personal.FIXES[fault])
        return
    log = reading.open_log(mine)
    problems = verify(log).problems
    for problem in problems:
        yield Finding(BAD, f"{mine.root}: {problem}", "run `tallybook verify --mine`", is_damage=True)
    if problems:
        return
    own, theirs = reading.current(log), reading.current(context.log)
    message = f"{format_count(len(own.entries), 'entry', 'entries')} of your own in {mine.root}"
    yield Finding(OK, message, is_always_shown=True)
    if hidden := [name for name in own.entries if name in theirs.used]:
        message = f"the project has entries of the same name, which hide your own {format_names(hidden)}"
        yield Finding(NOTE, message, "`tallybook retire NAME --mine` and `tallybook add --mine` give them other names")
