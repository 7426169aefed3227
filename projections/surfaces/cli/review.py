"""The verb review: what a person should decide, a key each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import NEVER, Curation
from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import Entry, PointReviewed
from tallybook.projections.history import review as reviews
from tallybook.projections.history.event_rows import entry_line, name_line, number_rows
from tallybook.projections.history.review import LEAST, describe_difference, find_pairs, merge_command, pair_json
from tallybook.projections.playbook.fold import fold_history
from tallybook.projections.playbook.render import entry_json, needs_ratings
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.agents.table import find_agent
from tallybook.projections.surfaces.cli.parameters import HUMAN, Number, Verb, WholeNumber, provenance_of
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.personal import PersonalPlaybook
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation
from tallybook.projections.surfaces.writing.record import Outcome
from tallybook.projections.surfaces.writing.requests import Request

if TYPE_CHECKING:
    from tallybook.projections.history.entry_history import EntryStatuses


MAX_NAMES = 3
"""A notice has no more names."""
_DAY_US = 24 * 3600 * clock.MICROSECONDS


def find_items(project: Project) -> list[reviews.Item]:
    """Return what a person should decide now."""
    question = _read_question(project)
    return reviews.select_items(question._replace(gone=find_gone(project, question.book.entries.values())))


def _read_question(project: Project) -> reviews.ReviewInput:
    now = clock.utc_now()
    since = clock.moment(now.unix_us - reviews.DAYS * _DAY_US).at
    opened = curation.open_proposals(project)
    return reviews.ReviewInput(commands.playbook(project).state, load_reviews(project), opened, {}, since, now.at[:10])


def refresh_notice(project: Project) -> None:
    """Write down for the next session and the next command what agents' marks ask of a person."""
    items = reviews.select_agents_items(_read_question(project))
    number = Counter(item.why for item in items)
    parts = [f"{format_count(number[reviews.LESSON], 'lesson')} proposed"] if number[reviews.LESSON] else []
    disputed = number[reviews.DISPUTED]
    parts += [f"{format_count(disputed, 'entry', 'entries')} in dispute"] if disputed else []
    left = [item.names[0] for item in items if item.why == reviews.LEFT]
    if left:
        # Three sessions that quoted a hostile file pruned an entry, and nobody was told.
        names = ", ".join(left[-MAX_NAMES:])
        parts.append(f"agents' ratings pruned {names} (`tallybook restore {left[-1]}`)")
    # At a start the notice is seen on the terminal, and is in no request to a model.
    ledger_access.put_notice(project, f"{', '.join(parts)}: tallybook review" if parts else "", left)


def decide(project: Project, item: reviews.Item, decision: str, text: str, by: Mapping[str, str]) -> Outcome:
    """Record a decision about an item, with the change that it makes in the same batch.

    Args:
        project: The project.
        item: The item.
        decision: accept or reject for a proposal; restore or leave for an entry that left; for others keep, retire,
            reword, until or merge.
        text: The new text, for reword; the new last day, for until.
        by: The person.

    Raises:
        TallybookError: The change is refused; nothing was recorded.
    """
    if item.proposal is not None:
        answer = curation.accept if decision == "accept" else curation.reject
        return answer(project, item.proposal, "", by)
    event = PointReviewed(item.names, item.why, decision)
    sources = item.names[1:] if decision == "merge" else ()
    reason = f"review: {item.why}"
    # To keep an entry is recorded, too: what a person decided is not asked again for 90 days.
    wish = None if decision in {"keep", "leave"} else Curation(decision, item.names[0], reason, text, sources)
    if decision == "until":
        wish = Curation("reword", item.names[0], reason, until=text)
    # One batch, so that an undo brings back the item and what its decision changed.
    return commands.record_request(project, Request(curation.PersonAnswer(event, wish), by))


# Entries without a sign of use, or about a path that git no longer has; nothing of this is recorded

MAX_PATHS_OF_ENTRY: Final = 10
# The texts are other people's, and may name any number of paths.
MAX_PATHS: Final = 1_000
MAX_LOOKUPS: Final = 30
"""So many paths that are not in the index are looked up in git's history."""
_MAX_PATH_CHARS: Final = 200

_BETWEEN: Final = re.compile(r"[\s\"'`\u2018-\u201d()\[\]{}<>,;|=*]+")
_LINE: Final = re.compile(r"(:\d+)+$")
_PATH: Final = re.compile(r"[\w@+.][\w@+.-]*(/[\w@+.-]+)*")


def load_reviews(project: Project) -> reviews.Reviews:
    """Return the state of the review view of a ledger, as of now."""
    from tallybook.projections.surfaces.sharing import membership

    log = reading.open_log(project)
    part = membership.load(project) if reading.has_book(log) else None
    return fold_history(reviews.reviews_view(part.writer if part is not None else ""), lambda: decode(log.read()))


def find_paths(text: str) -> Iterator[str]:
    """Yield the relative paths that a text names: with a slash or a dot in them, and without ``..``."""
    for word in _BETWEEN.split(text):
        path = _LINE.sub("", word.rstrip(".:!?")).removeprefix("./").rstrip("/")
        is_path = "/" in word or "." in path.strip(".")
        if is_path and len(path) <= _MAX_PATH_CHARS and _PATH.fullmatch(path) and ".." not in path.split("/"):
            yield path


def find_gone(project: Project, entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return the entries whose texts name paths that git's history has and its index has not, with these paths.

    Git is asked about relative paths alone, and about so many at most. Where it does not answer, none is gone.
    """
    from tallybook.projections.surfaces.workspace import git

    # A person's own playbook is for all projects, and its paths are in none of them.
    if isinstance(project, PersonalPlaybook):
        return {}
    named = {entry.name: list(dict.fromkeys(find_paths(entry.text)))[:MAX_PATHS_OF_ENTRY] for entry in entries}
    paths = list(dict.fromkeys(path for named_paths in named.values() for path in named_paths))[:MAX_PATHS]
    if not paths:
        return {}
    try:
        gone = set(git.find_gone(project.root, paths, MAX_LOOKUPS))
    except git.FAILURES:
        return {}
    paths_of = {name: [path for path in named_paths if path in gone] for name, named_paths in named.items()}
    return {name: gone_paths for name, gone_paths in paths_of.items() if gone_paths}


def explain(project: Project, entry: Entry | None, statuses: EntryStatuses) -> dict[str, Any]:
    """Return what `why` says of an entry that may be stale, as ``{sessions, unused, gone, says}``.

    ``sessions`` counts those that were given it and whose citations are seen; it is None where nothing depends on it.
    """
    if entry is None:
        return {"sessions": None, "unused": False, "gone": [], "says": ""}
    injections = statuses.injections.get(entry.name)
    # The whole ledger is read only for an entry that can be without a sign of use.
    may_be_unused = (
        injections is not None and injections.count >= reviews.MIN_SESSIONS and entry.name not in statuses.citations
    )
    past = load_reviews(project) if may_be_unused and not entry.helpful + entry.harmful else None
    gone = find_gone(project, [entry]).get(entry.name, [])
    return {
        "sessions": None if past is None else len(past.sessions.get(entry.name, ())),
        "unused": past is not None and past.is_unused(entry),
        "gone": gone,
        "says": reviews.stale_words(entry, past or reviews.Reviews(), gone)[1],
    }


_KEYS: Final = {
    "k": ("keep", "leave it as it is, and do not ask for 90 days"),
    "t": ("retire", "take the entry out; `tallybook restore` brings it back"),
    "w": ("reword", "type a new text for it"),
    "u": ("until", "type a new last day on which it is injected"),
    "m": ("merge", "merge the entries into the first"),
    "b": ("restore", "bring the entry back"),
    "l": ("leave", "leave the entry out, and do not ask for 90 days"),
    "a": ("accept", "make the proposed change"),
    "r": ("reject", "close the proposal without its change"),
    "s": ("skip", "decide nothing now, and ask again in the next review"),
    "q": ("quit", "end the review; what was decided is recorded"),
}
"""Key → the decision, and what it does."""
_PROMPTS: Final = {"reword": "new text", "until": f"new last day, or {NEVER}"}
"""The decisions that need a text → what it is."""
_OF_ENTRY: Final = "ktwsq"
_OFFERED: Final = {
    reviews.DISPUTED: "arsq",
    reviews.LEFT: "blsq",
    reviews.LESSON: "arsq",
    reviews.PROPOSAL: "arsq",
    reviews.DUPLICATE: "kmsq",
    reviews.EXPIRED: "ktwusq",
}
"""Why an item is shown → the keys that decide it, where others than ``_OF_ENTRY`` do."""


_NEEDS_RATINGS: Final = "needs-ratings"
_DUPLICATES: Final = "duplicates"
_MAX_LISTED: Final = 10


@click.command(cls=Verb, rater="human", example="tallybook review; tallybook review --list needs-ratings --limit 5")
@click.option(
    "--list", "listed", type=click.Choice([_NEEDS_RATINGS, _DUPLICATES]), help="List entries, and decide nothing."
)
@click.option("--limit", metavar="N", type=WholeNumber(1), help=f"List at most N; by default {_MAX_LISTED}.")
@click.option(
    "--least", metavar="N", type=Number(0.5, 1.0), help=f"List pairs at least so similar; by default {LEAST}."
)
def review(project: Project, /, *, as_json: bool, **options: Any) -> None:
    """Decide about entries and proposals, one key each.

    At most 30 items are shown: contested entries, those past their last day, those that agents' ratings pruned, lessons
    and other proposals of agents, entries that resemble each other, entries with few ratings, entries without a sign of
    use, and entries about paths that git no longer has. Each decision is recorded when its key is pressed; `tallybook
    undo` undoes it. What was decided is not asked again for 90 days, unless the entry changed. In a pipe, with --json
    or inside an agent, the items are only listed. --list needs-ratings lists the entries that most need ratings: first
    the one with the widest 95 % interval of its share of helpful ratings. --list duplicates lists the pairs of entries
    that resemble each other: their words are compared, whatever the order. One different word can reverse the meaning,
    so each pair is listed with the words that differ and the command that merges the two if they say the same.

    --json answers [{why, names, says, entries, proposal}]; --list needs-ratings: [{name, text, helpful, harmful, low,
    high, width}]; --list duplicates: [{similarity, entries, merge}]
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
    items = find_items(project)
    shown = items[: reviews.MAX_ITEMS]
    book = commands.playbook(project).state
    output.note(*commands.spool_notes(project))
    if as_json:
        output.answer(
            [
                {
                    "why": item.why,
                    "names": list(item.names),
                    "says": item.says,
                    "entries": [entry_json(book.entries[name]) for name in item.names if name in book.entries],
                    "proposal": None if item.proposal is None else item.proposal.seq,
                }
                for item in shown
            ]
        )
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
    width = max((len(row["name"]) for row in rows), default=0)
    lines = []
    for row in rows:
        counts, low, high = f"+{row['helpful']} -{row['harmful']}", row["low"] * 100, row["high"] * 100
        lines.append(f"{row['name']:<{width}}  {counts:<8}  {low:>3.0f} to {high:>3.0f} %  {row['text']}")
    output.reply(rows, lines or ["The playbook is empty."], as_json=as_json)


def _list_duplicates(project: Project, least: float, *, as_json: bool) -> None:
    option = personal.option(project)
    pairs = list(find_pairs(commands.playbook(project).state.entries.values(), least))
    output.note(*commands.spool_notes(project))
    lines = []
    for pair in pairs:
        difference, merge = describe_difference(*pair.entries), merge_command(pair.entries, option)
        lines.append(f"{pair.similarity:.2f}  {difference}; if they say the same: {merge}")
        lines += (f"    {entry_line(entry)}" for entry in pair.entries)
    value = [pair_json(pair, option) for pair in pairs]
    output.reply(value, lines or ["No entries resemble each other."], as_json=as_json)


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
        # An earlier decision may have taken one of its entries out, or brought it back.
        is_changed = any((name in book.entries) == (item.why == reviews.LEFT) for name in item.names)
        if item.proposal is None and is_changed:
            continue
        output.say(*_lines(item, book, f"{number} of {len(items)}  "))
        decision = _ask(_OFFERED.get(item.why, _OF_ENTRY))
        if decision == "quit":
            break
        # Recorded when the key is pressed, so that Ctrl-C loses no decision.
        if decision != "skip":
            recorded += _decide(project, item, decision, by)
    # Without a decision here, the last change is another one.
    undo = f"; `tallybook undo{personal.option(project)}` undoes the last" if recorded else ""
    output.say(f"{output.format_count(recorded, 'decision')} recorded{undo}.")
    # What was skipped, what was not reached, and what the decisions brought up.
    left = len(find_items(project))
    output.say(*([f"{output.format_count(left, 'item')} left for the next review."] if left else []))


def _ask(keys: str) -> str:
    """Return the decision of the key that a person presses; another key explains the keys, the end of the input quits.

    Raises:
        KeyboardInterrupt: It is Ctrl-C.
    """
    while True:
        click.echo("    " + "  ".join(f"[{key}] {_KEYS[key][0]}" for key in keys) + "  ", nl=False)
        sys.stdout.flush()
        try:
            # An empty answer is the end of the input, too: the terminal is gone.
            key = click.getchar().lower() or "q"
        except EOFError:
            key = "q"
        if key in set(keys):
            output.say(f"→ {_KEYS[key][0]}")
            return _KEYS[key][0]
        output.say("", *(f"    [{key}] {': '.join(_KEYS[key])}" for key in keys))


def _decide(project: Project, item: reviews.Item, decision: str, by: Mapping[str, str]) -> int:
    """Record a decision, print its events, and return how many decisions that are; one that is refused is none."""
    text = ""
    if decision in _PROMPTS:
        text = click.prompt(f"    {_PROMPTS[decision]}, empty to leave it", default="", show_default=False).strip()
        if not text:
            return 0
    try:
        outcome = decide(project, item, decision, text, by)
    except TallybookError as error:
        output.complain(str(error), error.exit_code)
        return 0
    output.note(*outcome.notes)
    output.say(*(f"    event {row['seq']}: {row['summary']}" for row in number_rows(outcome.numbers, outcome.events)))
    return 1
