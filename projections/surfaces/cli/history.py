"""The verbs about history: log, sql, diff, bisect and what-if. They record nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
import sys
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import Curation, decide_curation
from tallybook.ledger.errors import EXIT_NO, BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import EVENT_TYPES, PointRetired
from tallybook.ledger.line import CONTINUED, START
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import find_name
from tallybook.ledger.records import EventRecord, make_batch
from tallybook.ledger.scan import bytes_of
from tallybook.ledger.sharing.numbers import BOOK, PENDING, parse_book_number
from tallybook.projections.history.comparisons import Alternative, Exclusion, fold_alternative
from tallybook.projections.history.comparisons import difference_json as whatif_json
from tallybook.projections.history.conditions import parse, search
from tallybook.projections.history.event_rows import EventFilter, is_of_kind
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY
from tallybook.projections.playbook.fold import View, fold
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.playbook.view import Playbook, playbook_view
from tallybook.projections.surfaces.cli import parameters
from tallybook.projections.surfaces.cli.parameters import Verb, at_when
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.history import events, moments, reading, stories
from tallybook.projections.surfaces.history.moments import Moment, find_number, find_writers, make_containment_test
from tallybook.projections.surfaces.history.reading import Opened, current, has_book, open_log
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

if TYPE_CHECKING:
    from tallybook.ledger.log import Log


def _select(project: Project, options: Mapping[str, Any]) -> tuple[Log, EventFilter]:
    """Return the ledger and what the options select of it; print notes about options that select nothing.

    A shared ledger is as of the moment of ``--until``.

    Raises:
        BadInputError: An option names no kind, moment, session or machine of this ledger.
    """
    log, until = open_log(project), parameters.find_seq(project, options["until"], "--until")
    if has_book(log) and until is not None:
        log, until = log.open_at(until), None
    session, rater, writer, when, kinds = (options[name] for name in ("session", "rater", "writer", "since", "kinds"))
    if session is not None:
        session = moments.find_session_span(log, session, f"--session {session}").session
    writers = frozenset() if writer is None else find_writers(log, writer, "--writer")
    since, is_earlier = 0, None
    if when is not None and has_book(log):
        is_earlier = make_containment_test(moments.find(project, when, "--since", log))
    elif when is not None:
        since = parameters.find_seq(project, when, "--since") or 0
        if until is not None and since >= until:
            output.note(f"--until {options['until']} is not after --since {when}: no event is between them")
    for kind in kinds:
        is_known = any(is_of_kind(known, kind) for known in (*EVENT_TYPES, CONTINUED))
        # A newer Tallybook may have written kinds of its own.
        if not is_known and not log.may_contain(events.bytes_of_kind(kind)):
            raise BadInputError(f"--kind {kind}", "is not a kind", "a kind is point.rated, a family is point.*")
    if rater is not None and not log.may_contain(bytes_of("rater", rater)):
        raters = {record.by.rater for batch in decode(log.read()) for record in batch.records}
        names = ", ".join(sorted(raters)) or "none yet"
        output.note(f"--rater {rater}: no event comes from this rater; the raters in this ledger: {names}")
    return log, EventFilter(options["name"], session, rater, kinds, since, until, writers, is_earlier)


@click.command(cls=Verb, example="tallybook log kpt_001 --since 2d --kind 'point.*' --rater reflector --json")
@click.argument("name", required=False)
@click.option("--since", metavar="WHEN", help="List only events after this moment.")
@click.option("--until", metavar="WHEN", help="List only events up to this moment.")
@click.option("--session", metavar="ID", help="List only events of this session; a prefix will do.")
@click.option("--rater", metavar="R", help="List only events of this rater: human, reflector, …")
@click.option("--writer", metavar="W", help="In a shared book: only events of machine W, or of user W.")
@click.option(
    "--kind", "kinds", metavar="K", multiple=True, help="List only this kind, or a family (point.*); repeatable."
)
@click.option(
    "-n", "--limit", "limit", metavar="N", type=parameters.WholeNumber(1), help="List only the last N of them."
)
def log(project: Project, /, *, as_json: bool, **options: Any) -> None:
    """List events, newest last.

    With a NAME, only the events that name this entry are listed. The event of an update does not name the entries that
    it prunes, so a pruning is not listed; `why NAME` shows it. WHEN is as for `show --at`; --since A --until B lists
    the events between the moments A and B, which `diff A B` compares.

    --json answers one event a line, with undone_by where it was undone
    """
    ledger, selection = _select(project, options)
    limit, start = options["limit"], START
    if limit is not None and selection == EventFilter(since=selection.since) and type(ledger) is JsonlLog:
        # Every event counts, so the last of them are those before the head.
        selection = attrs.evolve(selection, since=max(selection.since, ledger.head().seq - limit))
        start = events.find_start(ledger, limit)
    elif limit is not None and selection == EventFilter() and has_book(ledger) and ledger.until is None:
        ledger = events.find_tail(ledger, limit)
    records = events.events(ledger, selection, start)
    if has_book(ledger):
        # The book lists events as they came in.
        records = iter(sorted(records, key=lambda record: record.when or record.at))
    records = records if limit is None else iter(deque(records, limit))
    undone = events.find_undone_events(ledger, start)
    if as_json:
        for record in records:
            if sys.stdout.isatty():
                # Between lines on a terminal progress would flicker.
                output.METER.disable()
            output.answer(undone.row(record))
        return
    from tallybook.projections.surfaces.console import terminal

    console, briefs = terminal.console_for(), map(undone.brief, records)
    if not sys.stdout.isatty():
        terminal.print_log_rows(console, briefs)
        return
    # The pager has the terminal from here on.
    output.METER.disable()
    rows = (row for brief in briefs for row in terminal.format_log_row(console, brief))
    terminal.page(click.style(row.plain, dim=True) if row.style else row.plain for row in rows)


@click.command(cls=Verb, example="tallybook sql 'SELECT session, count(*) FROM ratings GROUP BY session'")
@click.argument("query")
@at_when
def sql(project: Project, /, *, query: str, when: str | None, as_json: bool) -> None:
    """Query the ledger in SQL.

    The database is SQLite. A QUERY of - is read from standard input. Tables: events, ratings, sessions, points (the
    playbook) and graveyard (the entries that left it); PRAGMA table_info(NAME) shows their columns. A query cannot
    write, and cannot read files or network addresses.

    --json answers each row as one object on a line
    """
    from tallybook.projections.surfaces.console import terminal
    from tallybook.projections.surfaces.history import sql as engine

    rows = engine.query(project, parameters.read_text(query, "a query"), parameters.find_moment(project, when))
    columns = next(rows)
    output.note(*commands.spool_notes(project))
    if as_json:
        for row in rows:
            output.answer(dict(zip(columns, row, strict=True)))
        return
    if terminal.print_rows(terminal.console_for(), columns, rows):
        output.note(f"only {terminal.MAX_ROWS:,} rows are shown; use --json for all rows")


@click.command(cls=Verb, example="tallybook diff 2d && tallybook diff session:5f1c2f0e session:5f1c2f0e+ --json")
@click.argument("first", metavar="A")
@click.argument("second", metavar="[B]", required=False)
def diff(project: Project, /, *, first: str, second: str | None, as_json: bool) -> None:
    """Compare the playbook at two moments.

    A and B are each a WHEN, as for `show --at`. Without B, A is compared with now. B may be the earlier moment.

    --json answers {from, to, added, gone, changed, order, top}; from and to are each {seq, at, commit}, and the other
    keys turn the first playbook into the second
    """
    change = stories.compare(project, first, second)
    output.note(*change.before.notes, *change.after.notes)
    output.answer(change.json()) if as_json else change.print()


# The moment at which something became true

_TEXT_CHARS: Final = 70


def find(project: Project, text: str, bounds: tuple[str | None, str | None], *, last: bool = False) -> dict[str, Any]:
    """Return, as ``search``, the moment at which a condition became true, first or last.

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
    locate = moments.find if has_book(log) else moments.find_here
    options = zip(("--from", "--to"), bounds, strict=True)
    first, second = (None if when is None else locate(project, when, option) for option, when in options)
    output.note(*(first.notes if first else ()), *(second.notes if second else ()))
    # Numbers of the book and of this machine do not compare.
    if first and second and (first.in_book is None) == (second.in_book is None) and second.seq < first.seq:
        raise BadInputError(f"--to {bounds[1]}", f"is before --from {bounds[0]}", "exchange them")
    begin = first.seq if first else 0
    if first and first.in_book is not None:
        begin = BOOK + first.in_book
    elif first and has_book(log):
        # An own moment is that of the book which the playbook contained then; own events that were pending follow it.
        then, now = log.open_at(first.seq).history.frontier.seq, log.history.frontier.seq
        begin = PENDING + first.seq if then == now else BOOK + then
    source = second.read if second else log.read
    result = search(condition, lambda: decode(source()), begin, last=last)
    if result["event"] is None:
        used = current(log).used
        for name in sorted(condition.names - used):
            raise UnknownEntryError(name, find_name(name, used))
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
    author = output.format_author(by) + (f" in session {by['session']}" if "session" in by else "")
    place = (
        f"event {event['seq']}, {output.format_time(output.read_event_time(event))}, by {author}: {event['summary']}"
    )
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
    tests exists(NAME), pruned(NAME), retired(NAME), merged(NAME), pinned(NAME) or "words" in NAME.text, and joins these
    with and, or, not and parentheses. Put a NAME that has other characters than letters, digits and _ in quotes.

    --json answers {condition, moment, event, before, after, began}
    """
    result = find(project, options["condition"], (options["begin"], options["end"]), last=options["last"])
    output.reply(result, _turn_lines(result, last=options["last"]), as_json=options["as_json"])
    return EXIT_NO if result["event"] is None else 0


# Other assumptions

_SEQ_DIGITS: Final = 18
LIFT: Final = "lift"
"""The policy that also takes out the entries of which lift says that they hurt."""
_COUNT: Final = parameters.WholeNumber(1, 10**9)


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
        return [f"session:{moments.find_session_span(log, name, f'--without {value}').session}"]
    return [value]


def _fold(project: Project, moment: Moment | None, view: View[Playbook], values: Sequence[str]) -> Alternative:
    """Return the real playbook of a moment and the alternative one.

    Raises:
        BadInputError: A value of ``--without`` is not something to leave out.
        NothingToDoError: No event up to that moment matches one of them.
    """
    history = moments.history_at(project, moment)
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
    left_out = [f"{value} ({output.format_count(count, 'event')})" for value, count in result["without"].items()]
    without = f"; without {', '.join(left_out)}" if left_out else ""
    yield f"by the policy {result['policy']}: {result['rule']}{without}"
    for row in result.get("merge", ()):
        if row["pruned"]:
            yield f"{row['name']} would be pruned by the next update"
    for row in result["back"]:
        was = "was never there" if row["status"] == "unknown" else f"is {row['status']}"
        yield f"{row['name']} would be there with {output.format_counts(row)}, and {was}: {_cut(row['text'])}"
    for row in result["gone"]:
        there = row["there"]
        would = f"would be {row['status']} with {output.format_counts(there)}" if there else "would never have come"
        yield f"{row['name']} {would}, and is there with {output.format_counts(row)}: {_cut(row['text'])}"
    for row in result["changed"]:
        real, other = row["real"], row["other"]
        if output.format_counts(real) != output.format_counts(other):
            counts = f"would have {output.format_counts(other)}, and has {output.format_counts(real)}"
            yield f"{row['name']} {counts}: {_cut(real['text'])}"
        if real["text"] != other["text"]:
            yield f"{row['name']} would have another text: {_cut(other['text'])}"
    differ = sum(len(result[part]) for part in ("back", "gone", "changed"))
    if not differ:
        yield f"nothing would differ at event {result['at']}"
        return
    sizes = f"{output.format_count(result['other'], 'entry', 'entries')} instead of {result['real']}"
    yield f"{output.format_count(differ, 'entry', 'entries')} would differ at event {result['at']}; {sizes}"


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
@click.option("--margin", metavar="N", type=_COUNT, help="Prune where harmful exceeds helpful by N or more.")
@click.option("--without", metavar="WHAT", multiple=True, help="Leave out session:ID, rater:NAME or SEQ; repeatable.")
@click.option("--merge", metavar="A B", nargs=2, multiple=True, help="Merge B into A at the end; repeatable.")
@at_when
@click.option("--output", metavar="FILE", help="Write that playbook to FILE; - is standard output.")
def what_if(project: Project, /, **options: Any) -> None:
    """Replay history under another policy or without some events.

    With --merge, entries are merged at the end, as `tallybook merge` would merge them. The answer compares the
    resulting playbook with the real one. Nothing is recorded, and playbook.json stays as it is.

    --json answers {policy, rule, without, at, real, other, back, gone, changed}; --merge: also merge, [{name, merged,
    pruned}], where pruned says whether the next update would prune the result
    """
    file = options["output"]
    # Lift only takes more out of what the playbook's own policy leaves.
    policy = attrs.evolve(POLICIES.get(options["policy"], SPEC_POLICY), name=options["policy"])
    policy = attrs.evolve(policy, floor=options["floor"] or policy.floor, margin=options["margin"] or policy.margin)
    moment = parameters.find_moment(project, options["when"])
    view, rule = playbook_view(policy), policy.rule
    alternative = _fold(project, moment, view, options["without"])
    state, at = alternative.other, clock.utc_now().at
    if policy.name == LIFT:
        from tallybook.projections.surfaces.scores import lift

        rule += ", or lift says that it hurts"
        # No rule takes out a pinned entry.
        for name in sorted(lift.find_hurting_names(project, moment) & state.entries.keys() - state.pinned):
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
    parameters.note_pending(project, moment, alternative.real)
    if file == "-":
        sys.stdout.buffer.write(playbook_bytes(state, Opened(project).settings.format))
        return
    if file is not None:
        commands.write_copy(project, Path(file), lambda: playbook_bytes(state, Opened(project).settings.format))
        output.note(f"{file} written")
    premise = {"policy": policy.name, "rule": rule, "without": alternative.left_out}
    result = premise | ({"merge": merges} if merges else {}) | whatif_json(alternative)
    if options["as_json"]:
        output.answer(result)
        return
    parameters.note_moment(moment, alternative.real)
    output.say(*(" ".join(line.split()) for line in _whatif_lines(result)))
