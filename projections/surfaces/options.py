"""Options that several verbs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from projections.surfaces import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., Any]


def as_json(command: Command) -> Command:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")(command)


def at_when(command: Command) -> Command:
    """Add ``--at``."""
    text = "As it stood then: an event's number, ~N back, an ISO time (UTC), 2d ago, session:ID, git:REV."
    return click.option("--at", "when", metavar="WHEN", help=text)(command)


def delivery(rater: str) -> Callable[[Command], Command]:
    """Add the options that say who rates, and what names this delivery."""

    def add(command: Command) -> Command:
        return said(rater)(click.option("--key", help=answers.KEY_OPTION)(command))

    return add


def said(rater: str) -> Callable[[Command], Command]:
    """Add the options that say who says so."""

    def add(command: Command) -> Command:
        for field, text in reversed(answers.BY_OPTIONS.items()):
            default = rater if field == "rater" else None
            command = click.option(f"--{field}", help=text, default=default, show_default=True)(command)
        return command

    return add
