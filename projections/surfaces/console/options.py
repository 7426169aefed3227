"""Options that several verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallybook.projections.surfaces.console import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project

    Command = Callable[..., Any]


def as_json(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")(command)


def with_reason(command: Command) -> Command:
    """Add ``--reason``."""
    return click.option("--reason", default="", help="State why; stored in the ledger.")(command)


def at_when(command: Command) -> Command:
    """Add ``--at``."""
    text = "Answer as of an event, date, age (2d), session or commit."
    return click.option("--at", "when", metavar="WHEN", help=text)(command)


def find_moment(project: Project, when: str | None) -> Moment | None:
    """Return the moment that ``--at`` names, None without one; print which moment it is and notes about it."""
    if when is None:
        return None
    from tallybook.projections.surfaces.history import moments

    moment = moments.find(project, when)
    place = f"event {moment.seq}" if moment.seq else "the beginning, before any event"
    # A plain event number needs no explanation.
    if when != str(moment.seq):
        output.note(f"{when} is {place}{f', {moment.named}' if moment.named else ''}")
    for line in moment.notes:
        output.note(line)
    return moment


def delivery(rater: str) -> Callable[[Command], Command]:
    """Add the options for provenance and for the idempotency key."""

    def add(command: Command) -> Command:
        return provenance(rater)(click.option("--key", help=output.KEY_OPTION)(command))

    return add


def provenance(rater: str) -> Callable[[Command], Command]:
    """Add the options for provenance: who rates, from which session, with which agent and model."""

    def add(command: Command) -> Command:
        for field, text in reversed(output.PROVENANCE_OPTIONS.items()):
            default = rater if field == "rater" else None
            command = click.option(f"--{field}", help=text, default=default, show_default=True)(command)
        return command

    return add
