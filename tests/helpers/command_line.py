"""The result of a command that a test ran in its own process; conftest.py has the fixture that does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.cli.main import tallybook
from tallybook.projections.surfaces.hooks import handler


class Answer(NamedTuple):
    """The result of a command: its exit code and its output."""

    code: int
    out: str
    err: str


Run = Callable[..., Answer]
"""Takes the words of a command line, and ``stdin`` as bytes."""


def run_here(arguments: Sequence[str]) -> int:
    """Return the exit code of a command line in this process, where a hook runs without Click as well."""
    is_hook = arguments[:1] == ["hook"] and not {"-h", "--help"}.intersection(arguments)
    return handler.run(arguments[1:]) if is_hook else main.run(arguments)


def verbs() -> dict[str, click.Command]:
    """Return every verb by its name, at any depth."""
    context = click.Context(tallybook)
    found = {name: tallybook.get_command(context, name) for name in tallybook.list_commands(context)}
    return {name: verb for name, verb in found.items() if verb is not None}
