"""Verbs that query the history of the entries: blame, graveyard, sql."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tallybook.projections.entry_history import answers
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.notices import find_moment
from tallybook.projections.surfaces.console.options import Verb, at_when, read_text
from tallybook.projections.surfaces.console.output import answer, note
from tallybook.projections.surfaces.history.as_of import WITH_EDIT

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project


def _print_entries(project: Project, verb: str, when: str | None, *, as_json: bool) -> None:
    """Print the rows of `blame` or `graveyard`, and notes about their moment."""
    shown = commands.statuses(project, when)
    rows = shown.without_numbers((answers.blame if verb == "blame" else answers.graveyard)(shown.state))
    note(*shown.notes, *([f"this is {WITH_EDIT}"] if shown.has_edit else []), *commands.spool_notes(project))
    if as_json:
        answer(rows)
        return
    from tallybook.projections.surfaces.console import tables, terminal

    print_rows = tables.print_blame if verb == "blame" else tables.print_graveyard
    print_rows(terminal.console_for(sys.stdout), rows, when and shown.moment)


@click.command(cls=Verb, example="tallybook blame --at 2d")
@at_when
def blame(project: Project, /, *, when: str | None, as_json: bool) -> None:
    """Show the event that last changed each entry.

    A change is one of its counts, its text or its status.
    """
    _print_entries(project, "blame", when, as_json=as_json)


@click.command(cls=Verb, example="tallybook graveyard --at 2026-11-01")
@at_when
def graveyard(project: Project, /, *, when: str | None, as_json: bool) -> None:
    """List the entries that left the playbook, and why.

    They were pruned, retired, removed, merged or undone; the latest comes last.
    """
    _print_entries(project, "graveyard", when, as_json=as_json)


@click.command(cls=Verb, example="tallybook sql 'SELECT session, count(*) FROM ratings GROUP BY session'")
@click.argument("query")
@at_when
def sql(project: Project, /, *, query: str, when: str | None, as_json: bool) -> None:
    """Query the ledger in SQL.

    The database is SQLite. A QUERY of - is read from standard input. Tables: events, ratings, sessions, points (the
    playbook) and graveyard; PRAGMA table_info(NAME) shows their columns. A query cannot write, nor read a file or an
    address. --json prints one object a line for each row.
    """
    from tallybook.projections.surfaces.console import tables, terminal
    from tallybook.projections.surfaces.history import sql as engine

    result = engine.query(project, read_text(query, "a query"), find_moment(project, when))
    note(*commands.spool_notes(project))
    if as_json:
        for row in result.rows:
            answer(dict(zip(result.columns, row, strict=True)))
        return
    if tables.print_rows(terminal.console_for(sys.stdout), result.columns, result.rows):
        note(f"only {tables.MAX_ROWS:,} rows are shown; use --json for all rows")
