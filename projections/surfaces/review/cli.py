"""The verb `review`: a person decides item by item, with one key each, or has entries listed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.decisions.curation import NEVER
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.projections import review as reviews
from tallybook.projections.comparison.similarity import LEAST, find_pairs, pair_json
from tallybook.projections.event_rows import entry_line, name_line, numbered_rows
from tallybook.projections.playbook.render import needs_ratings
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents.inside import find_agent
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.console.options import HUMAN, Verb, WholeNumber, provenance_of
from tallybook.projections.surfaces.review import decisions
from tallybook.projections.surfaces.workspace import personal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.workspace.project import Project

_KEYS: Final = {
    "k": "keep",
    "t": "retire",
    "w": "reword",
    "u": "until",
    "m": "merge",
    "b": "restore",
    "l": "leave",
    "a": "accept",
    "r": "reject",
    "s": "skip",
    "q": "quit",
}
_PROMPTS: Final = {"reword": "new text", "until": f"new last day, or {NEVER}"}
"""The decisions that need a text → what it is."""
_OF_ENTRY: Final = "ktwsq"
_OFFERED: Final = {
    reviews.CONTESTED: _OF_ENTRY,
    reviews.DISPUTED: "arsq",
    reviews.LEFT: "blsq",
    reviews.LESSON: "arsq",
    reviews.PROPOSAL: "arsq",
    reviews.DUPLICATE: "kmsq",
    reviews.UNPROVEN: _OF_ENTRY,
    reviews.UNUSED: _OF_ENTRY,
    reviews.GONE: _OF_ENTRY,
    reviews.EXPIRED: "ktwusq",
}
"""Why an item is shown → the keys that decide it."""


_NEEDS_RATINGS: Final = "needs-ratings"
_DUPLICATES: Final = "duplicates"
_MAX_LISTED: Final = 10


@click.command(cls=Verb, rater="human", example="tallybook review; tallybook review --list needs-ratings --limit 5")
@click.option(
    "--list", "listed", type=click.Choice([_NEEDS_RATINGS, _DUPLICATES]), help="List entries, and decide nothing."
)
@click.option("--limit", type=WholeNumber(1), help=f"List at most this many; by default {_MAX_LISTED}.")
@click.option("--least", type=click.FloatRange(0.5, 1.0), help=f"List texts as alike as this; by default {LEAST}.")
def review(project: Project, /, *, as_json: bool, **options: Any) -> None:
    """Decide about entries and proposals, one key each.

    At most 30 items are shown: contested entries, those past their last day, those that agents' ratings pruned, lessons
    and other proposals of agents, entries that resemble each other, entries with few ratings, and those without a sign
    of use or about paths that git no longer has. Each decision is recorded when its key is pressed; `tallybook undo`
    undoes it. What was decided is not asked again for 90 days, unless the entry changed.
    Off a terminal, with --json and inside an agent the items are listed and nothing is decided.
    --list needs-ratings lists the entries that most need ratings: first the one with the widest 95 % interval of its
    share of helpful ratings. --list duplicates lists the pairs of entries that resemble each other: their words are
    compared, whatever the order. One other word can make an opposite, so each pair has the words that differ, and the
    command that merges it if it says the same.
    """
    for option, goes_with in (("limit", _NEEDS_RATINGS), ("least", _DUPLICATES)):
        if options[option] is not None and options["listed"] != goes_with:
            raise BadInputError(f"--{option}", f"goes with --list {goes_with}", "leave it out, or give that")
    if options["listed"] == _NEEDS_RATINGS:
        _list_needs_ratings(project, options["limit"] or _MAX_LISTED, as_json=as_json)
        return
    if options["listed"] == _DUPLICATES:
        _list_duplicates(project, options["least"] or LEAST, as_json=as_json)
        return
    by = provenance_of(options)
    items = decisions.find_items(project)
    shown = items[: reviews.MAX_ITEMS]
    book = commands.playbook(project).state
    output.note(*commands.spool_notes(project))
    if as_json:
        output.answer([decisions.item_json(item, book) for item in shown])
        return
    # Inside an agent nothing is a person's decision.
    is_person = find_agent() is None and by.get("rater") == HUMAN
    if is_person and output.can_ask():
        _walk(project, shown, by)
    else:
        output.say(*(line for item in shown for line in _lines(item, book)))
        output.say(*([f"{len(shown)} of {len(items)} items are shown."] if len(items) > len(shown) else []))
    if not items:
        output.say("Nothing needs a decision.")


def _list_needs_ratings(project: Project, limit: int, *, as_json: bool) -> None:
    shown = commands.playbook(project)
    rows = needs_ratings(shown.state)[:limit]
    output.note(*shown.notes, *commands.spool_notes(project))
    if as_json:
        output.answer(rows)
        return
    from tallybook.projections.surfaces.console import terminal

    terminal.print_needs_ratings(terminal.console_for(sys.stdout), rows)


def _list_duplicates(project: Project, least: float, *, as_json: bool) -> None:
    option = personal.option(project)
    pairs = list(find_pairs(commands.playbook(project).state.entries.values(), least))
    output.note(*commands.spool_notes(project))
    if as_json:
        output.answer([pair_json(pair, option) for pair in pairs])
        return
    for pair in pairs:
        output.say(f"{pair.similarity:.2f}  {pair.difference}; if they say the same: {pair.merge(option)}")
        output.say(*(f"    {entry_line(entry)}" for entry in pair.entries))
    if not pairs:
        output.say("No entries resemble each other.")


def _lines(item: reviews.Item, book: Playbook, place: str = "") -> Iterator[str]:
    """Yield an item for people: what is known, and the entries as they are."""
    number = "" if item.proposal is None else f" {item.proposal.seq}"
    yield from f"{place}{item.why}{number}: {item.says}".split("\n")
    for name in item.names:
        yield f"    {name_line(book, name)}"


def _walk(project: Project, items: Sequence[reviews.Item], by: Mapping[str, str]) -> None:
    """Show one item after another, and record what a person decides about it."""
    recorded = 0
    for number, item in enumerate(items, 1):
        book = commands.playbook(project).state
        if not decisions.is_open(item, book):
            continue
        output.say(*_lines(item, book, f"{number} of {len(items)}  "))
        decision = _ask(_OFFERED[item.why])
        if decision == "quit":
            break
        # Recorded when the key is pressed, so that Ctrl-C loses no decision.
        if decision != "skip":
            recorded += _decide(project, item, decision, by)
    # Without a decision here, the last change is another one.
    undo = f"; `tallybook undo{personal.option(project)}` undoes the last" if recorded else ""
    output.say(f"{output.format_count(recorded, 'decision')} recorded{undo}.")
    # What was skipped, what was not reached, and what the decisions brought up.
    left = len(decisions.find_items(project))
    output.say(*([f"{output.format_count(left, 'item')} left for the next review."] if left else []))


def _ask(keys: str) -> str:
    """Return the decision of the key that a person presses; the end of the input quits.

    Raises:
        KeyboardInterrupt: It is Ctrl-C.
    """
    while True:
        click.echo("    " + "  ".join(f"[{key}] {_KEYS[key]}" for key in keys) + "  ", nl=False)
        sys.stdout.flush()
        try:
            # An empty answer is the end of the input, too: the terminal is gone.
            key = click.getchar().lower() or "q"
        except EOFError:
            key = "q"
        output.say(f"→ {_KEYS[key]}" if key in set(keys) else "")
        if key in set(keys):
            return _KEYS[key]


def _decide(project: Project, item: reviews.Item, decision: str, by: Mapping[str, str]) -> int:
    """Record a decision, print its events, and return how many decisions that are; one that is refused is none."""
    text = ""
    if decision in _PROMPTS:
        text = click.prompt(f"    {_PROMPTS[decision]}, empty to leave it", default="", show_default=False).strip()
        if not text:
            return 0
    try:
        outcome = decisions.decide(project, item, decision, text, by)
    except TallybookError as error:
        output.complain(str(error), error.exit_code)
        return 0
    output.note(*outcome.notes)
    output.say(*(f"    event {row['seq']}: {row['summary']}" for row in numbered_rows(outcome.numbers, outcome.events)))
    return 1
