"""The verbs of every day: show in its forms, add, rate, record, why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger import strict_json
from tallybook.ledger.clock import utc_now
from tallybook.ledger.errors import EXIT_NO, BadInputError, TallybookError
from tallybook.ledger.events import RATINGS
from tallybook.ledger.playbook_constants import GONE_REASONS
from tallybook.projections.playbook.inject import lower_bound
from tallybook.projections.playbook.render import playbook_dict, with_day
from tallybook.projections.surfaces.cli import parameters
from tallybook.projections.surfaces.cli.parameters import Verb, at_when, with_key, with_reason, with_section
from tallybook.projections.surfaces.console.output import answer, note, reply, say
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

if TYPE_CHECKING:
    from tallybook.projections.surfaces.writing.record import Outcome

SORTS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "name": lambda entry: str(entry["name"]).casefold(),
    "helpful": lambda entry: -entry["helpful"],
    "harmful": lambda entry: -entry["harmful"],
    "trust": lambda entry: -lower_bound(entry["helpful"], entry["harmful"]),
}
"""Value of ``--sort`` → the key by which entries are sorted; equal ones keep their order in the playbook."""


_FORMS: Final = {
    "--as-agent": frozenset({"--for", "--explain", "--session"}),
    "--gone": frozenset({"--at"}),
    "--last-change": frozenset({"--at"}),
    "": frozenset({"--at", "--limit", "--sort"}),
}
"""Option that chooses what `show` answers, empty for the playbook → the options that go with it."""


@click.command(cls=Verb, example="tallybook show --sort trust --limit 10; tallybook show --gone --at 2026-11-01")
# Taken only to be answered: people ask this verb for one entry.
@click.argument("names", metavar="", nargs=-1)
@click.option("--sort", type=click.Choice(list(SORTS)), help="Sort by this, the largest number first.")
@click.option("-n", "--limit", metavar="N", type=parameters.WholeNumber(1), help="Show only the first N entries.")
@at_when
@click.option("--gone", is_flag=True, help="List the entries that left the playbook, and why.")
@click.option("--last-change", is_flag=True, help="Show the event that last changed each entry.")
@click.option("--as-agent", is_flag=True, help="Show what a session is given; inside an agent, record it.")
@click.option("--for", "for", metavar="TEXT", help="Rank for this task; - is standard input; with --as-agent.")
@click.option("--explain", is_flag=True, help="Show the parts of each score; with --for.")
@click.option("--session", metavar="ID", help="Show what this session is given; with --as-agent.")
def show(project: Project, /, *, names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Show the playbook, now or as of a moment.

    WHEN is an event number, ~N (N events before the last), a date or time, an age such as 2d, session:ID (before that
    session), session:ID+ (after it) or git:REV (the playbook of a commit). --gone lists the entries that were pruned,
    retired, removed, merged or undone; the latest comes last. --last-change names for each entry the event that last
    changed its counts, its text or its status. --as-agent shows the entries that a session is given. With --for, they
    are ranked for a task. The score of an entry is how well its text matches the words of the task, plus the lower end
    of the 95 % interval of its share of helpful ratings. --sort trust sorts by that lower end. Inside an agent the
    answer is recorded as an injection.

    --json answers the playbook in the specification's format; --gone: [{name, text, helpful, harmful, status, rule,
    reason, into, event}]; --last-change: [{name, text, helpful, harmful, event}], whose event has null as seq and id
    for a manual edit that is not recorded yet; --as-agent: {entries, left_out, chars, budget_chars}, an entry is
    {name, text, helpful, harmful}, with --for also score, words and proof
    """
    if names:
        words = " ".join(names)
        raise BadInputError(f"show {words}", "takes no entry", f"run `tallybook why {words}`, which explains it")
    given = {
        "--at" if name == "when" else f"--{name.replace('_', '-')}"
        for name, value in options.items()
        if value is not None and value is not False
    }
    form, *others = sorted(given & _FORMS.keys()) or [""]
    # No option is left out of the answer in silence.
    ignored = sorted(others or given - _FORMS[form] - {form})
    if ignored and form:
        raise BadInputError(f"{form} and {ignored[0]}", "exclude each other", "give one of them")
    if ignored:
        raise BadInputError(ignored[0], "needs --as-agent", f"run `tallybook show --as-agent {ignored[0]} …`")
    when = options["when"]
    if form == "--as-agent":
        _show_as_agent(project, options, as_json=as_json)
    elif form:
        _show_statuses(project, form, when, as_json=as_json)
    else:
        _show_playbook(project, options, when, as_json=as_json)


def _show_playbook(project: Project, options: Mapping[str, Any], when: str | None, *, as_json: bool) -> None:
    shown = commands.playbook(project, when)
    playbook = playbook_dict(shown.state)
    number = len(playbook["key_points"])
    if options["sort"] is not None:
        playbook["key_points"].sort(key=SORTS[options["sort"]])
    playbook["key_points"] = playbook["key_points"][: options["limit"]]
    note(*shown.notes, *commands.spool_notes(project))
    if as_json:
        answer(playbook)
        return
    from tallybook.projections.surfaces.console import terminal

    moment = None if when is None else shown.moment
    latest = shown.state.latest_batch
    # A past moment says of an entry what held then, whatever day it is now.
    today = utc_now().at if when is None else latest.at if latest else ""
    entries = [with_day(entry, shown.state.until, today[:10]) for entry in playbook["key_points"]]
    console = terminal.console_for()
    with terminal.page_output(console):
        terminal.print_playbook(console, entries, playbook["last_updated"], moment, number)


def _show_statuses(project: Project, form: str, when: str | None, *, as_json: bool) -> None:
    """Print the entries that left, or the last change of each, and notes about their moment."""
    from tallybook.projections.history import entry_history
    from tallybook.projections.surfaces.console import terminal
    from tallybook.projections.surfaces.history.playbook_file import WITH_EDIT, fold_as_of
    from tallybook.projections.surfaces.history.stories import STATUS_FORM

    find_rows, print_rows = (
        (entry_history.graveyard, terminal.print_graveyard)
        if form == "--gone"
        else (entry_history.blame, terminal.print_blame)
    )
    shown = fold_as_of(project, STATUS_FORM, when)
    rows = find_rows(shown.state)
    edited = [f"this is {WITH_EDIT}"] if shown.moment == WITH_EDIT else []
    note(*shown.notes, *edited, *commands.spool_notes(project))
    if as_json:
        answer(rows)
    else:
        print_rows(terminal.console_for(), rows, when and shown.moment)


def _show_as_agent(project: Project, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what a session is given, for a task or at its start."""
    from tallybook.projections.history.event_rows import CAUSES
    from tallybook.projections.surfaces.agents.table import find_agent
    from tallybook.projections.surfaces.cli import selection

    task, explain = options["for"], options["explain"]
    if personal.option(project):
        raise BadInputError("show --as-agent --mine", "does not work on your own playbook", "leave --mine out")
    if task is None and explain:
        raise BadInputError("--explain", "needs a task", "give --for TEXT")
    task = None if task is None else parameters.read_text(task, "the task")
    text, given = selection.answer_task(project, task, options["session"])
    if as_json:
        answer(given)
        return
    if explain:
        for entry in given["entries"]:
            say(f"{entry['name']}  {selection.explain_score(entry)}", f"    {entry['text']}")
    elif text:
        say(*text.split("\n"))
    if given["left_out"] and (explain or not text):
        causes = [f"{number} {CAUSES.get(cause, cause)}" for cause, number in given["left_out"].items()]
        note(f"left out: {', '.join(causes)}")
    elif not text:
        note("nothing is given" + ("" if given["budget_chars"] else ": budget_chars is 0"))
    # A person is told how the agent does; the model that asks is not.
    if find_agent() is None:
        from tallybook.projections.surfaces.scores import configuration

        note(*filter(None, [configuration.line(project)]))


_TEXT_CHARS: Final = 100


@click.command(cls=Verb, rater="human", example='tallybook add "Quote ids as strings in JSON."')
@click.argument("text")
@click.option("--again", is_flag=True, help="Add a text that was redacted.")
@click.option("--until", type=parameters.Day(), metavar="DATE", help="Do not inject it after this day, in UTC.")
@with_section
@with_key
def add(project: Project, /, *, text: str, again: bool, as_json: bool, **options: Any) -> None:
    """Add an entry to the playbook.

    A TEXT of - is read from standard input. The answer has the entry's name. A text that differs from an entry only in
    case, white space and final punctuation is refused: the answer names that entry, so that you can rate it. If the
    text only resembles an entry, it is added, and the answer names that entry and the words that differ. After the day
    of --until the entry stays in the playbook but is no longer injected, and `review` asks about it.

    --json answers like `record`
    """
    text = parameters.read_text(text, "the text of the entry")
    author, key = parameters.provenance_of(options), options["key"]
    if options["until"] and options["until"] < utc_now().at[:10]:
        raise BadInputError(f"--until {options['until']}", "is in the past", "give today or a later day, in UTC")
    details = {field: options[field] for field in ("section", "until") if options[field]}
    point: Any = {"text": text, **details} if details else text
    _print_outcome(commands.add(project, point, author, key, again=again), as_json=as_json)


@click.command(
    cls=Verb, rater="human", example="tallybook rate kpt_003 kpt_007 harmful --reason 'both broke the build'"
)
@click.argument("names", metavar="NAME...", nargs=-1)
@click.argument("rating")
@with_reason
@with_key
def rate(project: Project, /, *, as_json: bool, **options: Any) -> None:
    """Rate entries helpful, harmful or neutral.

    All names of one command are recorded as one batch.

    --json answers like `record`
    """
    names, rating, reason = options["names"], options["rating"], options["reason"]
    if not names:
        missing = "a NAME before it" if rating.lower() in RATINGS else "helpful, harmful or neutral after it"
        raise BadInputError(f"rate {rating}", f"needs {missing}", "nothing was recorded")
    outcome = commands.rate(project, names, rating, parameters.provenance_of(options), options["key"], reason=reason)
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
    author = parameters.provenance_of(by)
    payload = strict_json.loads(*parameters.read_input(file, "an extraction result, a JSON object"))
    _print_outcome(commands.record(project, payload, author, key), as_json=as_json)


def _print_outcome(outcome: Outcome, *, as_json: bool, with_counts: bool = False) -> None:
    """Print the outcome of a request, and its notes on standard error.

    Args:
        outcome: The outcome.
        as_json: Whether to print JSON.
        with_counts: Whether names were typed: each rated entry is printed with its new counts, which JSON always has,
            and what was ignored by its name alone.
    """
    note(*outcome.notes)
    is_all_mine = outcome.mine is not None and outcome.seq_from is None and not (outcome.spooled or outcome.repeated)
    lines = [] if is_all_mine else _outcome_lines(outcome, with_counts=with_counts)
    own = _outcome_lines(outcome.mine, with_counts=with_counts) if outcome.mine else ()
    reply(outcome.json(), (*lines, *(f"your own playbook: {line}" for line in own)), as_json=as_json)


def _outcome_lines(outcome: Outcome, *, with_counts: bool) -> list[str]:
    lines = []
    for part in outcome.ignored:
        # Who rates by name knows no place in a payload.
        what = part.name if with_counts else f"{part.item} ({part.name})"
        is_gone = with_counts and part.reason in GONE_REASONS.values()
        hint = f"; `tallybook restore {part.name}` brings it back" if is_gone else ""
        lines.append(f"ignored {what if part.name else part.item}: {part.reason}{hint}")
    for entry in outcome.rated if with_counts else ():
        text = entry.text if len(entry.text) <= _TEXT_CHARS else f"{entry.text[: _TEXT_CHARS - 1]}…"
        lines.append(f"{entry.name}  +{entry.helpful} -{entry.harmful}  {text}")
    first, last = outcome.seq_from, outcome.seq_to
    numbers = f"event {first}" if first == last else f"events {first} to {last}"
    if outcome.spooled:
        lines.append(outcome.spooled_why)
    elif outcome.repeated:
        lines.append(f"already recorded under this key, as {numbers}; nothing was added")
    else:
        parts = [f"added {', '.join(outcome.added)}"] if outcome.added else []
        parts += [f"pruned {', '.join(outcome.pruned)}"] if outcome.pruned else []
        parts.append(f"recorded as {numbers}")
        lines.append("; ".join(parts))
    return lines


@click.command(cls=Verb, example="tallybook why kpt_003 --trail; tallybook why type hints")
@click.argument("words", metavar="NAME|WORDS", nargs=-1, required=True)
@at_when
@click.option("--trail", is_flag=True, help="List every event that concerns the entry.")
def why(project: Project, /, *, words: tuple[str, ...], when: str | None, as_json: bool, trail: bool) -> int:
    """Explain an entry: its origin, its ratings and its fate.

    Give its name or words of its text. Entries that left the playbook are included.

    --json answers {name, text, status, helpful, harmful, rule, decided_by, trail, ignored, origin, original, notes,
    told, cited, stood, deciding, lineage, stale}, or {matches}; stale is {sessions, unused, gone, says}, and is missing
    with --at
    """
    from tallybook.projections.surfaces.history import stories

    name = " ".join(words)
    if as_json and trail:
        raise BadInputError("--json", "excludes --trail", "leave that out; it has every event and count")
    moment = parameters.find_moment(project, when)
    mine = personal.find(project) if when is None else None
    owner = project if mine is None else _owner(project, mine, name)
    try:
        story, statuses = stories.explain_entry(owner, name, moment)
    except stories.AmbiguousEntryError as error:
        if as_json:
            answer({"matches": error.matches})
        else:
            from tallybook.projections.surfaces.console import terminal

            console = terminal.console_for()
            for match in error.matches:
                terminal.print_line(console, f"{match['name']}  {match['status']}  {match['text']}")
            # The error comes next, on the other stream.
            console.file.flush()
        raise
    entry = story["name"]
    if when is None:
        from tallybook.projections.surfaces.cli import review

        story["stale"] = review.explain(owner, statuses.book.entries.get(entry), statuses)
    parameters.note_pending(owner, moment, statuses.book, entry)
    others = []
    if mine is not None:
        from tallybook.projections.surfaces.cli.curation import find_linked_names

        is_mine = owner is mine
        other = project if is_mine else mine
        # Damage of the other playbook does not keep this story back.
        with suppress(TallybookError):
            others = [commands.why(other, link) for link in find_linked_names(project, mine, entry, is_mine=is_mine)]
    if as_json:
        answer(story | ({"linked": others} if others else {}))
    else:
        from tallybook.projections.surfaces.console import story_text, terminal
        from tallybook.projections.surfaces.scores import lift

        parameters.note_moment(moment, statuses)
        console = terminal.console_for()
        story_text.print_story(console, story, as_of=when is not None, trail=trail)
        lift_lines = lift.entry_lines(owner, entry, moment)
        say(*(line for line in lift_lines if moment is None or not moment.commit))
        for linked in others:
            say("", "In the project's playbook:" if owner is mine else "In your own playbook:")
            story_text.print_story(console, linked, trail=trail)
    return EXIT_NO if story["status"] == "unknown" else 0


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
