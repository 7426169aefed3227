"""The verbs that ask the ledger about its entries: why, blame, graveyard, needs-ratings, sql."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.errors import EXIT_NO, BadInputError
from tallybook.projections.entry_history.explanation import explain
from tallybook.projections.entry_history.status import blame as blamed
from tallybook.projections.entry_history.status import graveyard as gone
from tallybook.projections.playbook.confidence import needs_ratings as widest
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console import notices
from tallybook.projections.surfaces.console.options import as_json, at_when, noted
from tallybook.projections.surfaces.console.output import answer, given_text, note
from tallybook.projections.surfaces.history import entry_story
from tallybook.projections.surfaces.history.as_of import UNTAKEN, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from tallybook.projections.entry_history.status import Standing
    from tallybook.projections.surfaces.workspace.project import Project


def console() -> Console:
    """Return the terminal; Rich is loaded only for a person's answer."""
    from tallybook.projections.surfaces.console import terminal

    return terminal.console_for(sys.stdout)


@click.command(epilog="Example: tallybook why kpt_003 --chart; tallybook why type hints")
@click.argument("words", metavar="NAME|WORDS", nargs=-1, required=True)
@at_when
@click.option("--chart", "charted", is_flag=True, help="Draw its helpful and harmful counts over time.")
@click.option("--trail", is_flag=True, help="List every event about it, row by row.")
@as_json
@click.pass_obj
def why(project: Project, /, *, words: tuple[str, ...], when: str | None, as_json: bool, **shown: bool) -> int:
    """Tell the story of an entry, by its name or by words of its text: learned, rated, pruned, and by whom.

    Entries that are gone are found as well.
    """
    name = " ".join(words)
    if as_json and any(shown.values()):
        raise BadInputError("--json", "goes with neither --chart nor --trail", "it has every event and every count")
    moment = noted(project, when)
    try:
        story, standing, tell = entry_story.story_of(project, name, moment)
    except entry_story.SeveralPointsError as several:
        _choose(several, as_json=as_json)
        raise
    told, extras = explain(story, standing, tell)
    notices.tell(project, moment, standing.book, story.name)
    if as_json:
        answer(told | extras)
    else:
        notices.as_of(moment, standing)
        _tell(told, extras, then=when is not None, **shown)
    if told["status"] != "unknown":
        return 0
    if elsewhere := _score(project, name):
        note(elsewhere)
    return EXIT_NO


def _score(project: Project, name: str) -> str:
    """Return who tells of a score of this name, empty where there is none."""
    # Only who asks for what is no entry waits for YAML.
    from tallybook.projections.scores.configuration.model import score_id
    from tallybook.projections.surfaces.scores import configuration

    try:
        config = configuration.load(project)
    except BadInputError:
        return ""
    wanted = score_id(name)
    if wanted in config.components:
        return f"{wanted} is a component of the scores: `tallybook score --component {wanted} --detail` tells why"
    return f"{wanted} is a score: `tallybook score --session --detail` tells why" if wanted in config.score_ids else ""


def _choose(several: entry_story.SeveralPointsError, *, as_json: bool) -> None:
    """Print the entries that words fit."""
    if as_json:
        answer({"matches": several.matches})
        return
    from tallybook.projections.surfaces.console import entry_story as stories

    stories.matches(console(), several.matches)
    sys.stdout.flush()


def _tell(told: dict[str, Any], extras: dict[str, Any], *, charted: bool, trail: bool, then: bool) -> None:
    from tallybook.projections.surfaces.console import entry_story as stories

    out = console()
    stories.story(out, told, extras, trail=trail, then=then)
    if charted:
        from tallybook.projections.surfaces.console import chart

        chart.chart(out, told)


def _waiting(project: Project) -> None:
    if waits := commands.waiting(project):
        note(waits)


def _asked(
    project: Project, when: str | None, rows_of: Callable[[Standing], list[dict[str, Any]]]
) -> tuple[list[dict[str, Any]], str | None]:
    """Return rows about names, and which moment they are of, None for now; what else there is to hear is printed."""
    found = commands.standing(project, when)
    rows = numbered(found, rows_of(found.state))
    for line in (*found.notes, *([f"this is {UNTAKEN}"] if found.is_untaken else [])):
        note(line)
    _waiting(project)
    return rows, when and found.told


@click.command(epilog="Example: tallybook blame --at 2d")
@at_when
@as_json
@click.pass_obj
def blame(project: Project, /, *, when: str | None, as_json: bool) -> None:
    """Show for each entry of the playbook the event that last changed its counts, its text or its standing."""
    rows, at = _asked(project, when, blamed)
    if as_json:
        answer(rows)
        return
    from tallybook.projections.surfaces.console import tables

    tables.blame(console(), rows, at)


@click.command(epilog="Example: tallybook graveyard --at 2026-11-01")
@at_when
@as_json
@click.pass_obj
def graveyard(project: Project, /, *, when: str | None, as_json: bool) -> None:
    """List all that was pruned, retired, removed, merged or undone, and why; what went last stands last."""
    rows, at = _asked(project, when, gone)
    if as_json:
        answer(rows)
        return
    from tallybook.projections.surfaces.console import tables

    tables.graveyard(console(), rows, at)


@click.command("needs-ratings", epilog="Example: tallybook needs-ratings --limit 5")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True, help="How many at most.")
@as_json
@click.pass_obj
def needs_ratings(project: Project, /, *, limit: int, as_json: bool) -> None:
    """List the entries of which ratings say least: the widest 95 % interval of the share that is helpful first."""
    rows = widest(commands.now(project))[:limit]
    _waiting(project)
    if as_json:
        answer(rows)
        return
    from tallybook.projections.surfaces.console import tables

    tables.needs_ratings(console(), rows)


@click.command(epilog="Example: tallybook sql 'SELECT session, count(*) FROM ratings GROUP BY session'")
@click.argument("query")
@at_when
@as_json
@click.pass_obj
def sql(project: Project, /, *, query: str, when: str | None, as_json: bool) -> None:
    """Answer one query over the verified ledger, with DuckDB (an extra); - reads it from standard input.

    Tables: events, ratings, sessions, points (the playbook) and graveyard; DESCRIBE tells their columns. Nothing can
    be written, and no file or address be read. With --json each row is an object on a line of its own.
    """
    from tallybook.projections.surfaces.console import tables
    from tallybook.projections.surfaces.history import sql as asked

    found = asked.query(project, given_text(query, "a query") or "", noted(project, when))
    _waiting(project)
    if as_json:
        for row in found.rows:
            answer(dict(zip(found.columns, row, strict=True)))
        return
    if tables.table(console(), found.columns, found.rows):
        note(f"only {tables.MAX_ROWS:,} rows are shown; --json has them all")


VERBS: Final = (why, blame, graveyard, needs_ratings, sql)
