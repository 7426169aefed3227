"""The verbs that compare moments and histories: diff, bisect and what-if. They record nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
import sys
from textwrap import shorten
from typing import Any, Final

import attrs
import click

from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import Curation, decide_curation
from tallybook.ledger.errors import EXIT_NO, BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import PointRetired
from tallybook.ledger.line import RawBatch
from tallybook.ledger.names import find_name
from tallybook.ledger.records import EventRecord, make_batch
from tallybook.ledger.sharing.numbers import BOOK, PENDING, parse_book_number
from tallybook.projections.comparisons import Alternative, Exclusion, fold_alternative
from tallybook.projections.comparisons import difference_json as whatif_json
from tallybook.projections.conditions import COUNT, Search, parse, search, turn_json
from tallybook.projections.fold import View, fold
from tallybook.projections.playbook.aging import aged_view
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY
from tallybook.projections.playbook.view import playbook_view
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import (
    answer,
    format_author,
    format_count,
    format_counts,
    format_time,
    happened_at,
    note,
    reply,
    say,
)
from tallybook.projections.surfaces.console.parameters import (
    Verb,
    WholeNumber,
    at_when,
    find_moment,
    find_seq,
    note_moment,
    note_pending,
)
from tallybook.projections.surfaces.history import differences, moments, reading
from tallybook.projections.surfaces.history.moments import Moment
from tallybook.projections.surfaces.history.reading import Opened, current, has_book, open_log
from tallybook.projections.surfaces.history.stories import history_of
from tallybook.projections.surfaces.sharing.targets import find_number, find_writers
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project


@click.command(cls=Verb, example="tallybook diff 2d && tallybook diff session:5f1c2f0e session:5f1c2f0e+ --json")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
def diff(project: Project, /, *, first: str, second: str | None, as_json: bool) -> None:
    """Compare the playbook at two moments.

    A and B are each a WHEN, as for `show --at`. Without B, A is compared with now. B may be the earlier moment.

    --json answers {from, to, added, gone, changed, order, top}: what turns the first playbook into the second; an end
    is {seq, at, commit}
    """
    change = differences.compare(project, first, second)
    note(*change.before.notes, *change.after.notes)
    answer(change.json()) if as_json else change.print()


_TEXT_CHARS: Final = 70


def find(project: Project, text: str, bounds: tuple[str | None, str | None], *, last: bool = False) -> Search:
    """Return the search for the moment at which a condition became true, first or last.

    Args:
        project: The project.
        text: The condition.
        bounds: The moments after which and up to which to search; None for the beginning and the end.
        last: Whether to find the last such moment.

    Raises:
        BadInputError: The text is not a condition, or the second bound is before the first.
        UnknownEntryError: It never became true, and it names an entry that never existed.
    """
    condition = parse(text)
    log = open_log(project)
    options = zip(("--from", "--to"), bounds, strict=True)
    source: Callable[[], Iterable[RawBatch]] = log.read
    begin: int | None = 0
    end: int | None = None
    if has_book(log):
        first, second = (None if when is None else moments.find(project, when, option, log) for option, when in options)
        # An own moment is that of the book which the playbook contained then; own events that were pending follow it.
        if first is not None and first.in_book is not None:
            begin = BOOK + first.in_book
        elif first is not None:
            then, now = log.at(first.seq).history.frontier.seq, log.history.frontier.seq
            begin = PENDING + first.seq if then == now else BOOK + then
        is_reversed = False
        if second is not None:
            source = second.read
            # Numbers of the book and of this machine do not compare.
            if first is not None and (first.in_book is None) == (second.in_book is None):
                is_reversed = second.seq < first.seq
    else:
        begin, end = (find_seq(project, when, option) for option, when in options)
        is_reversed = begin is not None and end is not None and end < begin
    if is_reversed:
        raise BadInputError(f"--to {bounds[1]}", f"is before --from {bounds[0]}", "exchange them")
    # A condition that counts entries depends on every event, one that names entries on those about them.
    is_narrow = COUNT not in condition.terms and not has_book(log)
    read = history_of(log, condition.names) if is_narrow else lambda: decode(source())
    result = search(condition, read, (begin or 0, end), last=last)
    for name in sorted(condition.names):
        if result.record is None and name not in result.book.used:
            # The search need not have read the events of other entries.
            raise UnknownEntryError(name, find_name(name, current(log).used))
    return result


def _turn_lines(result: Mapping[str, Any], *, last: bool) -> Iterator[str]:
    """Yield the result of a search as lines for people."""
    event = result["event"]
    if event is None:
        always = "it was already true at the start and did not become true again"
        yield always if result["began"] else "it did not become true"
        yield from (f"  {term} is {_format_value(value)}" for term, value in result["after"].items())
        return
    by = event["by"]
    author = format_author(by) + (f" in session {by['session']}" if "session" in by else "")
    place = f"event {event['seq']}, {format_time(happened_at(event))}, by {author}: {event['summary']}"
    yield f"became true last at {place}" if last else f"first became true at {place}"
    for term, value in result["after"].items():
        before = result["before"][term]
        was = "" if before == value else f", was {_format_value(before)}"
        yield f"  {term} is {_format_value(value)}{was}"
    if result["moment"] != event["seq"]:
        yield f"the first playbook that shows it: tallybook show --at {result['moment']}"


def _format_value(value: Any) -> str:
    """Return the value of a term as a condition has it."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f'"{shorten(value, _TEXT_CHARS, placeholder="…")}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command(cls=Verb, example="tallybook bisect 'kpt_003.harmful > kpt_003.helpful'")
@click.argument("condition")
@click.option("--from", "begin", metavar="WHEN", help="Search after this moment.")
@click.option("--to", "end", metavar="WHEN", help="Search up to this moment.")
@click.option("--last", is_flag=True, help="Find the last such event instead of the first.")
def bisect(project: Project, /, **options: Any) -> int:
    """Find the event that made a condition true.

    A CONDITION compares (> >= < <= == !=) whole numbers, count (the number of entries), NAME.helpful and NAME.harmful,
    tests exists(NAME), pruned(NAME), retired(NAME), merged(NAME), pinned(NAME) or NAME.text contains "words", and joins
    these with and, or, not and parentheses. Quote a NAME with characters other than letters, digits, _ and -.

    --json answers {condition, moment, event, before, after, began}
    """
    search_result = find(project, options["condition"], (options["begin"], options["end"]), last=options["last"])
    result = turn_json(search_result)
    reply(result, _turn_lines(result, last=options["last"]), as_json=options["as_json"])
    return EXIT_NO if search_result.record is None else 0


_SEQ_DIGITS: Final = 18
LIFT: Final = "lift"
"""The policy that also takes out the entries of which lift says that they hurt."""
_COUNT: Final = WholeNumber(1, 10**9)


def _parse_without(project: Project, value: str, *, own_history: bool) -> list[str | int]:
    """Return a value of ``--without`` in full: ``session:ID``, ``rater:NAME`` or writers, or the number of an event.

    Raises:
        BadInputError: It is none of these, or its prefix of a session's id does not name one session.
    """
    kind, _, name = value.partition(":")
    log = reading.open_log(project)
    if parse_book_number(value) is not None or (value.isdecimal() and reading.has_book(log)):
        return [find_number(log, value)]
    if kind == "writer" and name:
        return [f"writer:{writer}" for writer in sorted(find_writers(log, name, "--without"))]
    if value.isascii() and value.isdigit() and len(value) <= _SEQ_DIGITS:
        return [int(value)]
    if kind not in {"session", "rater"} or not name:
        writers = ", writer:NAME" if reading.has_book(log) else ""
        hint = f"use session:ID, rater:NAME{writers} or an event number"
        raise BadInputError(f"--without {value!r}", "is not something to leave out", hint)
    # The history of a commit may have sessions of its own, so only the project's are completed.
    if kind == "session" and own_history:
        return [f"session:{moments.session_of(log, name, f'--without {value}').session}"]
    return [value]


def _fold(project: Project, moment: Moment | None, view: View[Any], values: Sequence[str]) -> Alternative:
    """Return the real playbook of a moment and the alternative one.

    Raises:
        BadInputError: A value of ``--without`` is not something to leave out.
        NothingToDoError: No event up to that moment matches one of them.
    """
    history = commands.history_at(project, moment)
    own_history = moment is None or not moment.commit
    names = [name for value in values for name in _parse_without(project, value, own_history=own_history)]
    seqs = frozenset(name for name in names if isinstance(name, int))
    authors = frozenset(name for name in names if isinstance(name, str))
    alternative = fold_alternative(history, view, Exclusion(authors, seqs))
    for name in names:
        if str(name) not in alternative.left_out:
            hint = f"see `tallybook log{personal.option(project)}`"
            raise NothingToDoError(f"--without {name}", "leaves out no event up to that moment", hint)
    return alternative


def _whatif_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the comparison as lines for people; texts are cut."""
    left_out = ", ".join(f"{value} ({format_count(count, 'event')})" for value, count in result["without"].items())
    yield f"by the policy {result['policy']}: {result['rule']}" + (f"; without {left_out}" if left_out else "")
    for row in result.get("merge", ()):
        if row["pruned"]:
            yield f"{row['name']} would be pruned by the next update"
    for row in result["back"]:
        was = "was never there" if row["status"] == "unknown" else f"is {row['status']}"
        yield f"{row['name']} would be there with {format_counts(row)}, and {was}: {_cut(row['text'])}"
    for row in result["gone"]:
        there = row["there"]
        would = "would never have come" if there is None else f"would be {row['status']} with {format_counts(there)}"
        yield f"{row['name']} {would}, and is there with {format_counts(row)}: {_cut(row['text'])}"
    for row in result["changed"]:
        real, other = row["real"], row["other"]
        if format_counts(real) != format_counts(other):
            counts = f"would have {format_counts(other)}, and has {format_counts(real)}"
            yield f"{row['name']} {counts}: {_cut(real['text'])}"
        if real["text"] != other["text"]:
            yield f"{row['name']} would have another text: {_cut(other['text'])}"
    differ = sum(len(result[part]) for part in ("back", "gone", "changed"))
    if not differ:
        yield f"nothing would differ at event {result['at']}"
        return
    sizes = f"{format_count(result['other'], 'entry', 'entries')} instead of {result['real']}"
    yield f"{format_count(differ, 'entry', 'entries')} would differ at event {result['at']}; {sizes}"


def _cut(text: str) -> str:
    return shorten(text, _TEXT_CHARS, placeholder="…")


@click.command("what-if", cls=Verb, example="tallybook what-if --floor 5 --without session:5f1c2f0e")
@click.option(
    "--policy",
    type=click.Choice([*POLICIES, LIFT]),
    default=SPEC_POLICY.name,
    help="Prune by this policy; playbook.json follows sticky.",
)
@click.option("--floor", metavar="N", type=_COUNT, help="Prune at N harmful ratings or more.")
@click.option("--margin", metavar="N", type=_COUNT, help="Prune at N more harmful than helpful ratings or more.")
@click.option("--half-life", metavar="AGE", help="Count a rating of this age half, such as 90d.")
@click.option("--without", metavar="WHAT", multiple=True, help="Leave out session:ID, rater:NAME or SEQ; repeatable.")
@click.option("--merge", metavar="A B", nargs=2, multiple=True, help="Merge B into A at the end; repeatable.")
@at_when
@click.option("--output", metavar="FILE", help="Write that playbook to FILE; - is standard output.")
def what_if(project: Project, /, **options: Any) -> None:
    """Replay history under another policy or without some events.

    With --merge, entries are merged at the end, as `tallybook merge` would. The answer compares that playbook with the
    real one. Nothing is recorded, and playbook.json stays as it is.

    --json answers {policy, rule, without, at, real, other, back, gone, changed}; --merge: also merge, [{name, merged,
    pruned}], where pruned says whether the next update would prune the result
    """
    half_life, output = options["half_life"], options["output"]
    # Lift only takes more out of what the playbook's own policy leaves.
    policy = attrs.evolve(POLICIES.get(options["policy"], SPEC_POLICY), name=options["policy"])
    policy = attrs.evolve(policy, floor=options["floor"] or policy.floor, margin=options["margin"] or policy.margin)
    moment = find_moment(project, options["when"])
    view: View[Any] = playbook_view(policy)
    rule = policy.rule
    if half_life is not None:
        age_us = moments.age_us(half_life)
        if not age_us:
            raise BadInputError(f"--half-life {half_life}", "is not an age", "use an age such as 90d, 12h or 8w")
        view = aged_view(policy, age_us)
        rule += f", a rating counting half after {half_life}"
    alternative = _fold(project, moment, view, options["without"])
    state = alternative.other
    # A policy by age reads the time of each event.
    at = clock.utc_now().at
    if policy.name == LIFT:
        from tallybook.projections.surfaces import lift

        rule += ", or lift says that it hurts"
        # No rule takes out a pinned entry.
        for name in sorted(lift.hurting_names(project, moment) & state.entries.keys() - state.pinned):
            fold(view, [make_batch(EventRecord(state.seq, at, PointRetired(name, "")))], state)
    if not policy.is_permanent:
        rule += ", and back as soon as that no longer holds"
    merges = []
    for name, merged in options["merge"]:
        # Decided as the verb decides, so that both refuse the same.
        event: Any = decide_curation(Curation("merge", name, sources=(merged,)), state).events[0]
        fold(view, [make_batch(EventRecord(state.seq, at, event))], state)
        is_pruned = event.name in state.entries and state.prunes(state.entries[event.name])
        merges.append({"name": event.name, "merged": list(event.merged), "pruned": is_pruned})
    note_pending(project, moment, alternative.real)
    if output == "-":
        sys.stdout.buffer.write(Opened(project).rendering_of(state))
        return
    if output is not None:
        commands.write_copy(project, Path(output), lambda: Opened(project).rendering_of(state))
        note(f"{output} written")
    premise = {"policy": policy.name, "rule": rule, "without": alternative.left_out}
    result = premise | ({"merge": merges} if merges else {}) | whatif_json(alternative)
    if options["as_json"]:
        answer(result)
        return
    note_moment(moment, alternative)
    say(*(" ".join(line.split()) for line in _whatif_lines(result)))
