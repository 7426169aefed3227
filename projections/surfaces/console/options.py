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
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")(command)


def reasoned(command: Command) -> Command:
    """Add ``--reason``."""
    return click.option("--reason", default="", help="Why; kept in the ledger.")(command)


def at_when(command: Command) -> Command:
    """Add ``--at``."""
    text = "As it stood then: an event's number, ~N back, an ISO time, an age (2d), session:ID, session:ID+, git:REV."
    return click.option("--at", "when", metavar="WHEN", help=text)(command)


def noted(project: Project, when: str | None) -> Moment | None:
    """Return the moment that ``--at`` names, None without one; what it came to, and what is odd there, is printed."""
    if when is None:
        return None
    from tallybook.projections.surfaces.history import moments

    moment = moments.find(project, when)
    place = f"event {moment.seq}" if moment.seq else "the beginning, before any event"
    told = f"{when} is {place}{f', {moment.named}' if moment.named else ''}"
    # A number is the event that it names, whoever says so.
    for line in (*([] if when == str(moment.seq) else [told]), *moment.notes):
        output.note(line)
    return moment


def delivery(rater: str) -> Callable[[Command], Command]:
    """Add the options that say who rates, and what names this delivery."""

    def add(command: Command) -> Command:
        return said(rater)(click.option("--key", help=output.KEY_OPTION)(command))

    return add


def said(rater: str) -> Callable[[Command], Command]:
    """Add the options that say who says so."""

    def add(command: Command) -> Command:
        for field, text in reversed(output.BY_OPTIONS.items()):
            default = rater if field == "rater" else None
            command = click.option(f"--{field}", help=text, default=default, show_default=True)(command)
        return command

    return add
