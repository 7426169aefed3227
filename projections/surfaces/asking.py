"""The verbs that ask the ledger about its entries: why, blame, graveyard, needs-ratings, sql."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ledger.errors import EXIT_NO, BadInputError
from projections.confidence import needs_ratings as widest
from projections.explain import explain
from projections.standing import blame as blamed
from projections.standing import graveyard as gone
from projections.surfaces import beside, commands, telling
from projections.surfaces.answers import answer, given_text, note
from projections.surfaces.options import as_json, at_when, noted
from projections.surfaces.stood import UNTAKEN, numbered

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from projections.standing import Standing
    from projections.surfaces.project import Project


def console() -> Console:
    """Return the terminal; Rich is loaded only for a person's answer."""
    from projections.surfaces import terminal

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
        story, standing, tell = telling.story_of(project, name, moment)
    except telling.SeveralPointsError as several:
        _choose(several, as_json=as_json)
        raise
    told, extras = explain(story, standing, tell)
    beside.tell(project, moment, standing.book, story.name)
    if as_json:
        answer(told | extras)
    else:
        beside.as_of(moment, standing)
        _tell(told, extras, then=when is not None, **shown)
    if told["status"] != "unknown":
        return 0
    if elsewhere := _score(project, name):
        note(elsewhere)
    return EXIT_NO


def _score(project: Project, name: str) -> str:
    """Return who tells of a score of this name, empty where there is none."""
    # Only who asks for what is no entry waits for YAML.
    from projections.scores.config import score_id
    from projections.surfaces.scores import configuration

    try:
        config = configuration.load(project)
    except BadInputError:
        return ""
    wanted = score_id(name)
    if wanted in config.components:
        return f"{wanted} is a component of the scores: `tallybook score --component {wanted} --detail` tells why"
    return f"{wanted} is a score: `tallybook score --session --detail` tells why" if wanted in config.score_ids else ""


def _choose(several: telling.SeveralPointsError, *, as_json: bool) -> None:
    """Print the entries that words fit."""
    if as_json:
        answer({"matches": several.matches})
        return
    from projections.surfaces import story as stories

    stories.matches(console(), several.matches)
    sys.stdout.flush()


def _tell(told: dict[str, Any], extras: dict[str, Any], *, charted: bool, trail: bool, then: bool) -> None:
    from projections.surfaces import story as stories

    out = console()
    stories.story(out, told, extras, trail=trail, then=then)
    if charted:
        from projections.surfaces import chart

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
    from projections.surfaces import lists

    lists.blame(console(), rows, at)


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
    from projections.surfaces import lists

    lists.graveyard(console(), rows, at)


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
    from projections.surfaces import lists

    lists.needs_ratings(console(), rows)


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
    from projections.surfaces import lists
    from projections.surfaces import sql as asked

    found = asked.query(project, given_text(query, "a query") or "", noted(project, when))
    _waiting(project)
    if as_json:
        for row in found.rows:
            answer(dict(zip(found.columns, row, strict=True)))
        return
    if lists.table(console(), found.columns, found.rows):
        note(f"only {lists.MAX_ROWS:,} rows are shown; --json has them all")


VERBS: Final = (why, blame, graveyard, needs_ratings, sql)
