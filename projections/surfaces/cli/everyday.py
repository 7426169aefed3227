"""The verbs of every day: add, rate, record, why."""

from __future__ import annotations

from contextlib import suppress
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger import event_json
from tallybook.ledger.errors import EXIT_NO, BadInputError, TallybookError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.options import (
    Day,
    Verb,
    at_when,
    provenance_of,
    read_input,
    read_text,
    with_key,
    with_reason,
    with_section,
)
from tallybook.projections.surfaces.console.output import answer, note, say
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome

_TEXT_CHARS: Final = 100


@click.command(cls=Verb, rater="human", example='tallybook add "Quote ids as strings in JSON."')
@click.argument("text")
@click.option("--again", is_flag=True, help="Add a text that was redacted.")
@click.option("--until", type=Day(), metavar="DATE", help="Do not inject it after this day, in UTC.")
@with_section
@with_key
def add(project: Project, /, *, text: str, again: bool, as_json: bool, **options: Any) -> None:
    """Add an entry to the playbook.

    A TEXT of - is read from standard input. The answer has the entry's name. A text that differs from an entry only in
    case, white space and final punctuation is refused: the answer names that entry, to be rated. Where the text
    resembles an entry, the answer names it and the words that differ. After the day of --until the entry stays, is not
    injected, and `review` asks about it.

    --json answers as record
    """
    text = read_text(text, "the text of the entry")
    author, key = provenance_of(options), options["key"]
    details = {field: options[field] for field in ("section", "until") if options[field]}
    point: Any = {"text": text, **details} if details else text
    _print_outcome(commands.add(project, point, author, key, again=again), as_json=as_json)


@click.command(
    cls=Verb, rater="human", example="tallybook rate kpt_003 kpt_007 harmful --reason 'both broke the build'"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.argument("rating")
@with_reason
@with_key
def rate(project: Project, /, *, as_json: bool, **options: Any) -> None:
    """Rate entries helpful, harmful or neutral.

    All names of one command are recorded as one batch.

    --json answers as record
    """
    names, rating, reason = options["names"], options["rating"], options["reason"]
    outcome = commands.rate(project, names, rating, provenance_of(options), options["key"], reason=reason)
    _print_outcome(outcome, as_json=as_json, with_counts=True)


@click.command(
    cls=Verb,
    rater="reflector",
    example='echo \'{"evaluations": [{"name": "kpt_003", "rating": "helpful"}]}\' | tallybook record -',
)
@click.argument("file", default="-")
@with_key
def record(project: Project, /, *, file: str, key: str | None, as_json: bool, **by: str | None) -> None:
    """Record ratings and new entries from JSON.

    FILE holds an extraction result, one JSON object, recorded as one batch; - is standard input.

    --json answers {seq_from, seq_to, added, pruned, ignored, spooled, rated, repeated}; rated has the rated entries as
    they are afterwards
    """
    author = provenance_of(by)
    payload = event_json.loads(*read_input(file, "an extraction result, a JSON object"))
    _print_outcome(commands.record(project, payload, author, key), as_json=as_json)


def _print_outcome(outcome: Outcome, *, as_json: bool, with_counts: bool = False) -> None:
    """Print the outcome of a request, and its notes on standard error.

    Args:
        outcome: The outcome.
        as_json: Whether to print JSON.
        with_counts: Whether to print each rated entry with its new counts; JSON always has them.
    """
    note(*outcome.notes)
    if as_json:
        answer(_outcome_json(outcome) | ({"mine": _outcome_json(outcome.mine)} if outcome.mine else {}))
        return
    is_all_mine = outcome.mine is not None and outcome.seq_from is None and not (outcome.spooled or outcome.repeated)
    if not is_all_mine:
        say(*_outcome_lines(outcome, with_counts=with_counts))
    if outcome.mine is not None:
        say(*(f"your own playbook: {line}" for line in _outcome_lines(outcome.mine, with_counts=with_counts)))


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    fields = {field: getattr(outcome, field) for field in ("seq_from", "seq_to", "added", "pruned")}
    ignored, rated = ([attrs.asdict(part) for part in group] for group in (outcome.ignored, outcome.rated))
    return fields | {"ignored": ignored, "spooled": outcome.spooled, "rated": rated, "repeated": outcome.repeated}


def _numbers(outcome: Outcome) -> str:
    first, last = outcome.seq_from, outcome.seq_to
    return f"event {first}" if first == last else f"events {first} to {last}"


def _outcome_lines(outcome: Outcome, *, with_counts: bool) -> list[str]:
    lines = [f"ignored {part.item}{f' ({part.name})' if part.name else ''}: {part.reason}" for part in outcome.ignored]
    for entry in outcome.rated if with_counts else ():
        text = entry.text if len(entry.text) <= _TEXT_CHARS else f"{entry.text[: _TEXT_CHARS - 1]}…"
        lines.append(f"{entry.name}  +{entry.helpful} -{entry.harmful}  {text}")
    if outcome.spooled:
        lines.append(outcome.spooled_why)
    elif outcome.repeated:
        lines.append(f"already recorded under this key, as {_numbers(outcome)}; nothing was added")
    else:
        parts = [f"added {', '.join(outcome.added)}"] if outcome.added else []
        parts += [f"pruned {', '.join(outcome.pruned)}"] if outcome.pruned else []
        parts.append(f"recorded as {_numbers(outcome)}")
        lines.append("; ".join(parts))
    return lines


@click.command(cls=Verb, example="tallybook why kpt_003 --chart; tallybook why type hints")
@click.argument("words", metavar="NAME|WORDS", nargs=-1, required=True)
@at_when
@click.option("--chart", is_flag=True, help="Draw the helpful and harmful counts over time.")
@click.option("--trail", is_flag=True, help="List every event that concerns the entry.")
def why(project: Project, /, *, words: tuple[str, ...], when: str | None, as_json: bool, **parts: bool) -> int:
    """Explain an entry: its origin, its ratings and its fate.

    Give its name or words of its text. Entries that left the playbook are included.

    --json answers {name, text, status, helpful, harmful, rule, decided_by, trail, ignored, origin, original, notes,
    told, cited, stood, vanished_by, deciding, lineage, stale}, or {matches}; stale is {sessions, unused, gone, says},
    without --at only
    """
    from tallybook.projections.entry_history.answers import explain
    from tallybook.projections.surfaces.console import notices
    from tallybook.projections.surfaces.history import stories

    name = " ".join(words)
    if as_json and any(parts.values()):
        raise BadInputError("--json", "excludes --chart and --trail", "leave them out; it has every event and count")
    moment = notices.find_moment(project, when)
    mine = personal.find(project) if when is None else None
    owner = project if mine is None else _owner(project, mine, name)
    try:
        story, standing, tell = stories.story_of(owner, name, moment)
    except stories.AmbiguousEntryError as error:
        _print_matches(error.matches, as_json=as_json)
        raise
    explained, extras = explain(story, standing, tell)
    if when is None:
        from tallybook.projections.surfaces import review

        extras["stale"] = review.explain(owner, story.entry, standing)
    stories.add_arrivals(owner, explained, extras)
    notices.note_pending(owner, moment, standing.book, story.name)
    others = [] if mine is None else _linked_stories(project, mine, story.name, is_mine=owner is mine)
    if as_json:
        answer(explained | extras | ({"linked": [one | more for one, more in others]} if others else {}))
    else:
        notices.note_moment(moment, standing)
        _print_story(explained, extras, as_of=when is not None, **parts)
        from tallybook.projections.surfaces.selection import lift_notes

        lift_lines = lift_notes.entry_lines(owner, story.name, moment)
        say(*(line for line in lift_lines if moment is None or not moment.commit))
        for one, more in others:
            say("", "In the project's playbook:" if owner is mine else "In your own playbook:")
            _print_story(one, more, as_of=False, **parts)
    if explained["status"] != "unknown":
        return 0
    note(*_score_hint(project, name))
    return EXIT_NO


def _owner(project: Project, mine: Project, name: str) -> Project:
    """Return the playbook that knows a name, or else words of a text: the project's, if it does."""
    from tallybook.projections.surfaces.history import stories

    # A name that the project ever used means its entry, and any name comes before words.
    for by_words in (False, True):
        if stories.is_known(project, name, by_words=by_words):
            return project
        # Damage of the own ledger must not hide what the project knows.
        with suppress(TallybookError):
            if stories.is_known(mine, name, by_words=by_words):
                return mine
    return project


def _linked_stories(
    project: Project, mine: Project, name: str, *, is_mine: bool
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the stories of the entries that an entry came from or went to, by `promote` and `demote`."""
    from tallybook.projections.surfaces.cli.personal import linked_names

    other = project if is_mine else mine
    # Damage of the other playbook does not keep this story back.
    with suppress(TallybookError):
        return [commands.why(other, linked) for linked in linked_names(project, mine, name, is_mine=is_mine)]
    return []


def _score_hint(project: Project, name: str) -> Iterator[str]:
    """Yield the command that explains the score of a name, if there is such a score."""
    # Imported here because the configuration of the scores is YAML, which is slow to load.
    from tallybook.projections.scores.config import score_id
    from tallybook.projections.surfaces.scores import configuration

    # A mistake in that configuration does not concern an entry.
    try:
        config = configuration.load(project)
    except BadInputError:
        return
    score = score_id(name)
    if score in config.components:
        yield f"{score} is a component of the scores; run: tallybook score --component {score} --detail"
    elif score in config.score_ids:
        yield f"{score} is a score; run: tallybook score --session --detail"


def _print_matches(matches: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print the entries to choose from, before the error that says so."""
    if as_json:
        answer({"matches": matches})
        return
    from tallybook.projections.surfaces.console import story_text, terminal

    story_text.print_matches(terminal.console_for(sys.stdout), matches)
    sys.stdout.flush()


def _print_story(explained: dict[str, Any], extras: dict[str, Any], *, chart: bool, trail: bool, as_of: bool) -> None:
    from tallybook.projections.surfaces.console import story_text, terminal

    console = terminal.console_for(sys.stdout)
    story_text.print_story(console, explained, extras, trail=trail, as_of=as_of)
    if chart:
        from tallybook.projections.surfaces.console.chart import print_chart

        print_chart(console, explained)
