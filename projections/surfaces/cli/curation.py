"""The verbs by which a person curates the playbook, from retire to redact, and moves entries to and from their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import click

from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import NEVER, Curation, find_used_name
from tallybook.ledger.errors import EXIT_NOT_WRITTEN, BadInputError, NothingToDoError
from tallybook.ledger.events import Entry, PointNoted
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import EventRecord
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.history.event_rows import author_json, entry_line, kind_of, name_line, number_rows, summary
from tallybook.projections.history.review import proposal_lines
from tallybook.projections.playbook.fold import history
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.agents.table import require_person
from tallybook.projections.surfaces.cli import parameters
from tallybook.projections.surfaces.cli.parameters import Verb, with_reason
from tallybook.projections.surfaces.console import output
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.moments import find_event
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation, pair
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing import redact as redaction
from tallybook.projections.surfaces.writing.curation import UndoResult
from tallybook.projections.surfaces.writing.erasure import RedactionResult
from tallybook.projections.surfaces.writing.record import Outcome
from tallybook.projections.surfaces.writing.redact import NOTHING, RedactionTarget
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update

_MAX_EVENTS: Final = 20
"""Undone events that are listed for people; an import can have thousands."""


def _curate(project: Project, verb: str, options: Mapping[str, Any], **details: Any) -> None:
    """Record a change that a person wishes, of all its entries in one batch; print its events in the words of `log`."""
    first, *others = options["names"]
    wish = Curation(verb, first, options["reason"], more_names=tuple(others), **details)
    outcome, proposed = curation.make_or_propose(project, wish, parameters.provenance_of(options))
    output.note(*outcome.notes)
    rows = number_rows(outcome.numbers, outcome.events)
    output.reply(rows[0] | {"events": rows}, output.format_recorded(rows), as_json=options["as_json"])
    # The proposal is recorded; the exit code says that the change is not made.
    if proposed is not None:
        raise proposed


with_names: Final = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command(cls=Verb, rater="human", example="tallybook retire kpt_003 kpt_007")
@with_names
@with_reason
def retire(project: Project, /, **options: Any) -> None:
    """Take entries out of the playbook.

    `tallybook restore` brings them back.

    --json answers {seq, summary, events}: the first event, and each with its seq and summary
    """
    _curate(project, "retire", options)


@click.command(cls=Verb, rater="human", example="tallybook restore kpt_003")
@with_names
@with_reason
def restore(project: Project, /, **options: Any) -> None:
    """Bring retired, removed or pruned entries back.

    They keep their names and counts.

    --json answers like `retire`
    """
    _curate(project, "restore", options)


@click.command(
    cls=Verb, rater="human", example="tallybook pin kpt_003 --reason 'house rule'; tallybook pin --off kpt_003"
)
@with_names
@click.option("--off", is_flag=True, help="Let them be pruned again, if they are pinned.")
@with_reason
def pin(project: Project, /, *, off: bool, **options: Any) -> None:
    """Protect entries from pruning, or let them be pruned again.

    A pinned entry stays, however it is rated. After --off, the next update prunes the entry if the policy says so.

    --json answers like `retire`
    """
    _curate(project, "unpin" if off else "pin", options)


@click.command(cls=Verb, rater="human", example='tallybook reword kpt_003 "Quote ids as strings in JSON."')
@click.argument("name")
@click.argument("text", required=False)
@click.option(
    "--until", type=parameters.Day(NEVER), metavar="DATE", help=f"Do not inject it after this day, in UTC; or {NEVER}."
)
@with_reason
def reword(project: Project, /, *, name: str, text: str | None, until: str | None, **options: Any) -> None:
    """Change the text of an entry.

    Its name and its counts stay. A TEXT of - is read from standard input. Without TEXT, only the day of --until
    changes; `--until never` removes the day.

    --json answers like `retire`
    """
    if text is None and until is None:
        raise BadInputError("reword", "needs a TEXT or --until", "give one of them; nothing was recorded")
    text = parameters.read_text(text or "", "the new text")
    _curate(project, "reword", options | {"names": (name,)}, text=text, until=until or "")


@click.command(cls=Verb, rater="human", example="tallybook move kpt_003 kpt_007 mistakes")
@click.argument("names", metavar="NAME...", nargs=-1)
@click.argument("section", type=parameters.SectionName())
@with_reason
def move(project: Project, /, *, section: str, **options: Any) -> None:
    """Move entries to a section.

    SECTION is patterns, mistakes, user, project or others. Each is the beginning of a heading of the later playbook
    format, such as MISTAKES TO AVOID; the whole heading or its slug works too.

    --json answers like `retire`
    """
    if not options["names"]:
        raise BadInputError("move", "needs a NAME before the section", "nothing was recorded")
    _curate(project, "move", options, section=section)


@click.command(cls=Verb, rater="human", example="tallybook merge kpt_003 kpt_007 kpt_011")
@click.argument("name")
@click.argument("merged", nargs=-1, required=True)
@with_reason
def merge(project: Project, /, *, name: str, merged: tuple[str, ...], **options: Any) -> None:
    """Merge entries that say the same.

    NAME gets the counts of the merged entries, and their later ratings.

    --json answers like `retire`
    """
    _curate(project, "merge", options | {"names": (name,)}, sources=merged)


@click.command(cls=Verb, rater="human", example="tallybook undo --of 5f1c2f0e --reason 'the reflector misread it'")
@click.argument("event", metavar="[ID]", required=False)
@click.option("--of", "session_of", metavar="SESSION", help="Undo every event of a session so far.")
@click.option("--writer", metavar="W", help="Undo what machine W did, in a shared book.")
@click.option("--since", metavar="WHEN", help="Undo only what --writer did after this moment.")
@click.option("--yes", is_flag=True, help="Undo what --writer did without asking.")
@with_reason
def undo(project: Project, /, **options: Any) -> None:
    """Undo the last change, an event or a session.

    The playbook is then computed without the undone events; the answer has the command that brings them back. ID is the
    number of an event. For an event about one entry (a rating, a new text), that event is undone. For an update, a
    manual edit, an import, a measurement or an undo, its whole batch is undone. Without ID, the last change of the
    playbook or the scores is undone, but never an import, a redaction or an undo: the answer then lists the commands to
    choose from. Without ID, --session alone names the session to undo, like --of.

    --json answers {seq, events, redo}, an event {seq, summary}; redo is the command that reverses the undo
    """
    event, session, writer = options["event"], options["session_of"], options["writer"]
    if len([target for target in (event, session, writer) if target is not None]) > 1:
        raise BadInputError("undo", "takes one of ID, --of and --writer", "give one of them; nothing was recorded")
    if options["since"] is not None and writer is None:
        raise BadInputError("--since", "goes with --writer", "give the machine; nothing was recorded")
    if writer is not None:
        done = _undo_writer(project, options)
    else:
        if event is None and session is None:
            # Taken as provenance, it would undo the last change, whichever session that comes from.
            session, options["session"] = options["session"], None
        done = curation.undo(project, event, session, options["reason"], parameters.provenance_of(options))
    value = _undone_json(done)
    lines = list(_event_lines(done.events, "undone"))
    if done.mine:
        value["mine"] = _undone_json(done.mine)
        lines += _event_lines(done.mine.events, "undone in your own playbook")
    output.reply(value, (*lines, f"to bring this back, run: {done.redo}"), as_json=options["as_json"])
    output.note(*(() if options["as_json"] else done.outcome.notes))


def _undo_writer(project: Project, options: Mapping[str, Any]) -> UndoResult:
    """List what a machine did, ask on a terminal, and undo it.

    Raises:
        BadInputError: There is no terminal to ask on.
    """
    records = curation.find_by_writer(project, options["writer"], options["since"])
    number = output.format_count(len(records), "event")
    if not options["yes"]:
        output.say(*_event_lines([(record.seq, summary(record.event)) for record in records], "to undo"))
        if options["as_json"] or not output.can_ask():
            hint = "give --yes to undo them; nothing was recorded"
            raise BadInputError(f"--writer {options['writer']}", f"did {number}", hint)
        output.ask("undo", f"Undo {number}?")
    return curation.undo_events(project, records, options["reason"], parameters.provenance_of(options))


def _event_lines(rows: Sequence[tuple[int, str]], what: str) -> Iterator[str]:
    yield from (f"{what}: event {seq}, {words}" for seq, words in rows[:_MAX_EVENTS])
    if len(rows) > _MAX_EVENTS:
        yield f"and {len(rows) - _MAX_EVENTS:,} more"


def _undone_json(done: UndoResult) -> dict[str, Any]:
    events = [{"seq": seq, "summary": what} for seq, what in done.events]
    return {"seq": done.outcome.seq_from, "events": events, "redo": done.redo}


_chosen = click.argument("numbers", metavar="[NUMBER]...", nargs=-1)
_of = click.option("--of", "session_of", metavar="SESSION", help="Decide every open proposal of a session.")
_everything = click.option("--all", "everything", is_flag=True, help="Decide every open proposal.")


@click.command(cls=Verb, example="tallybook proposals")
def proposals(project: Project, /, *, as_json: bool) -> None:
    """List the changes that agents proposed.

    A person decides about them with `proposals accept` and `proposals reject`.

    --json answers [{seq, at, by, verb, name, merged, text, cause, reason, entries}]
    """
    records = curation.open_proposals(project)
    state = reading.current(reading.open_log(project))
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for record in records:
        event: Any = record.event
        entries = [entry_json(state.entries[name]) for name in (event.name, *event.merged) if name in state.entries]
        fields = {field: getattr(event, field) for field in ("verb", "name", "merged", "text", "cause", "reason")}
        rows.append({"seq": record.seq, "at": record.at, "by": author_json(record.by), **fields, "entries": entries})
        lines += _proposal_lines(record, state)
    output.reply(rows, lines or ["No proposal is open."], as_json=as_json)


def _proposal_lines(record: EventRecord, state: Playbook) -> Iterator[str]:
    """Yield a proposal for people: what it would do, and the entries as they are."""
    event: Any = record.event
    first, *more = proposal_lines(record)
    yield f"{record.seq}  {first}"
    yield from more
    for name in filter(None, (event.name, *event.merged)):
        yield f"    {name_line(state, name)}"


@click.command(
    "proposals accept", cls=Verb, rater="human", example="tallybook proposals accept 812 815 --reason 'both are right'"
)
@_chosen
@_of
@_everything
@with_reason
def accept(project: Project, /, **options: Any) -> None:
    """Make changes that agents proposed.

    Each proposal is shown with its entries as they are now; then its change is recorded as a batch of its own. NUMBER
    is the number of a proposal, as `proposals` lists it. Inside an agent this is refused. Lessons and redactions are
    accepted only by their number, because a lesson has to be read first and a redaction cannot be undone.

    --json answers [{proposal, events}]
    """
    _decide_proposals(project, options, curation.accept)


@click.command(
    "proposals reject",
    cls=Verb,
    rater="human",
    example="tallybook proposals reject --of 5f1c2f0e --reason 'it misread the logs'",
)
@_chosen
@_of
@_everything
@with_reason
def reject(project: Project, /, **options: Any) -> None:
    """Close proposals without making their changes.

    NUMBER is the number of a proposal, as `proposals` lists it. Inside an agent this is refused.

    --json answers like `proposals accept`
    """
    _decide_proposals(project, options, curation.reject)


def _decide_proposals(project: Project, options: dict[str, Any], decide: Callable[..., Outcome]) -> None:
    by = parameters.provenance_of(options)
    is_acceptance, everything = decide is curation.accept, options["everything"]
    chosen, left_out = curation.select_proposals(
        project, options["numbers"], options["session_of"], everything=everything, is_acceptance=is_acceptance
    )
    rows = []
    for record in chosen:
        # The decision before may have changed the entries that are shown.
        state = reading.current(reading.open_log(project))
        if not options["as_json"]:
            output.say(*_proposal_lines(record, state))
        outcome = decide(project, record, options["reason"], by)
        output.note(*outcome.notes)
        made = number_rows(outcome.numbers, outcome.events)
        rows.append({"proposal": record.seq, "events": made})
        if not options["as_json"]:
            output.say(*output.format_recorded(made))
    if left_out:
        number = output.format_count(len(left_out), "lesson or redaction", "lessons and redactions")
        output.note(f"{number} left out; each is accepted by its number: tallybook proposals")
    if options["as_json"]:
        output.answer(rows)


OUT_OF_REACH = "git history, checkouts, backups, other copies and other users' caches are out of reach"


@click.command(
    cls=Verb,
    rater="human",
    example="tallybook redact --text - --reason 'a name' --yes --expect 2 < name.txt; "
    "tallybook redact 12 --reason typo",
)
@click.argument("event", metavar="[ID]", required=False)
@click.option("--text", help="Redact this text everywhere; - reads it from stdin.")
@click.option("--reason", help="State why; stored in the ledger.")
@click.option("--dry-run", is_flag=True, help="List what holds the text and change nothing.")
@click.option("--yes", is_flag=True, help="Redact --text without asking.")
@click.option(
    "--expect", type=parameters.WholeNumber(0), metavar="N", help="Redact only if N events hold it, as --dry-run said."
)
def redact(project: Project, /, *, event: str | None, as_json: bool, **options: Any) -> int:
    """Erase a text from the ledger and its files.

    The proof of the ledger stays intact. ID is an event's id or number, as `log` shows them: its whole text is erased
    wherever it occurs.

    --json answers {events, files, stands, bodies, alike, unrecorded, mine, foreign, pages, blocks, beyond,
    unsearched}
    """
    event = None if event is None else find_event(open_log(project), event)
    target = RedactionTarget(event, None if options["text"] is None else parameters.read_text(options["text"]))
    if (target.event is None) is (target.text is None):
        raise BadInputError("redact", "takes either the ID of an event or --text", f"give one of them; {NOTHING}")
    if options["dry_run"]:
        found = redaction.find_text(project, target)
        return _print_redaction(project, found, "would be redacted", target, as_json=as_json)
    if not (options["reason"] or "").strip():
        raise BadInputError("--reason", "is missing", f"say why the text must go; {NOTHING}")
    by = parameters.provenance_of(options)
    # Inside an agent this ends the command where the text is of a protected entry.
    curation.propose_redaction(project, target, options["reason"], by)
    # Off a terminal nobody sees what goes, so --yes needs the number that the dry run showed.
    is_counted = options["expect"] is not None or output.can_ask()
    if target.text is not None and not (options["yes"] and is_counted):
        preview = redaction.find_text(project, target)
        number = len(preview.events)
        if as_json or not output.can_ask():
            raise redaction.UnexpectedNumberError(number)
        output.say(*(f"event {record.seq}: {summary(record.event)}" for record in preview.events))
        # The events are listed above, with what they say.
        output.say(*_describe_redaction(project, attrs.evolve(preview, events=()), "would be redacted")[1])
        output.ask("redact", f"Redact the whole text of {output.format_count(number, 'event')}? It cannot be restored.")
    done = redaction.redact(project, target, options["reason"], by, options["expect"])
    return _print_redaction(project, done, "redacted", target, as_json=as_json)


def _print_redaction(
    project: Project, done: RedactionResult, result: str, target: RedactionTarget, *, as_json: bool
) -> int:
    """Print the result and return the exit code: 4 where a file of Tallybook's still holds the text."""
    from tallybook.projections.surfaces.sharing import membership

    value, lines = _describe_redaction(project, done, result)
    if result == "redacted":
        part = membership.load(project) if done.events else None
        if part is not None:
            holds = f"the book {part.name} at {part.address} still holds it; run:"
            lines += [f"{holds} tallybook sync", f"{holds} tallybook share repair"]
    else:
        number = len(done.events)
        waiting = f", {done.unrecorded} of them not recorded yet" if done.unrecorded else ""
        need = f"; off a terminal, --text needs --yes --expect {number}" if target.text is not None else ""
        lines.append(f"note: {output.format_count(number, 'event')} in all{waiting}{need}")
    output.reply(value, lines, as_json=as_json)
    return EXIT_NOT_WRITTEN if done.remaining else 0


# What holds a text, by its key in the answer → its line for people.
_HOLDERS: Final = {
    "files": "{result}: {}",
    "stands": "not erased: {}",
    "bodies": "not redacted: event {} has the text in a name, a rating or its author; "
    "these cannot be erased without breaking the chain",
    "foreign": "not redacted: {} holds it and is not a file of Tallybook's",
    "mine": "not redacted: your own playbook, {}, holds it as well; run the same command with --mine",
    "unsearched": "not searched: {}",
    "pages": "out of reach: {} is a page, which may hold it; delete it, or write it again with `tallybook page`",
    "blocks": "not redacted: {0} has it among exported entries; write them again with `tallybook export agents-md {0}`",
}


def _describe_redaction(project: Project, done: RedactionResult, result: str) -> tuple[dict[str, Any], list[str]]:
    """Return the answer to a redaction, as JSON and as lines for people."""
    from tallybook.projections.surfaces.cli.selection import find_blocks
    from tallybook.projections.surfaces.page.document import find_pages

    texts = (getattr(event.event, "text", None) for event in done.events)
    value: dict[str, Any] = {
        "events": [{"seq": event.seq, "id": event.id, "kind": kind_of(event.event)[0]} for event in done.events],
        "files": list(map(str, done.files)),
        "stands": done.remaining,
        "bodies": done.bodies,
        "alike": done.alike,
        "unrecorded": done.unrecorded,
        "mine": done.mine and str(done.mine),
        "foreign": list(map(str, done.foreign)),
        "unsearched": done.unsearched,
        "pages": list(map(str, find_pages(project))),
        "blocks": find_blocks(project, filter(None, texts)),
        "beyond": OUT_OF_REACH,
    }
    lines = [
        f"{result}: event {event.seq}, {kind_of(event.event)[0]} {getattr(event.event, 'name', '')}".rstrip()
        for event in done.events
    ]
    if done.alike:
        lines.append(f"note: {output.format_count(done.alike, 'event')} of these only in what looks the same")
    for key, told in _HOLDERS.items():
        holders = [value[key]] if isinstance(value[key], str) else value[key] or ()
        lines += [told.format(holder, result=result) for holder in holders]
    return value, [*lines, f"note: {OUT_OF_REACH}"]


# The person's own playbook

_PROMOTED: Final = "promoted from"
_DEMOTED: Final = "demoted from"
_LEFT: Final = "demoted to a person's own playbook"
_NEXT: Final = (
    '`tallybook add --mine "..."` adds an entry; sessions in projects that have a playbook get it as well. '
    "It is never shared."
)


def begin(project: Project | None, *, dry_run: bool, as_json: bool) -> None:
    """Begin the person's own playbook.

    Raises:
        PersonsOnlyError: An agent asks for it.
        BadInputError: It cannot be where the environment says.
    """
    require_person("init --mine")
    mine = personal.place(project)
    path = mine.ledger / "events.jsonl"
    goes_on = path.exists()
    if not goes_on and not dry_run:
        report = recording.write(mine, [], begin=True)
        output.note(*map(str, report.problems))
    row = {"path": str(path), "what": "left" if goes_on else "created"}
    row["why"] = "the ledger goes on" if goes_on else "your own playbook"
    value = {"changed": [] if goes_on else [row], "left": [row] if goes_on else [], "diff": "", "others": []}
    end = "Nothing was changed: this was a dry run." if dry_run else _NEXT
    output.reply(value, (f"{row['what']} {row['path']}: {row['why']}", end), as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook promote my_003")
@click.argument("name")
def promote(project: Project, /, *, name: str, as_json: bool, **by: Any) -> None:
    """Add an entry of your own playbook to the project's.

    The project's entry starts without ratings and says where it came from; yours stays as it is. Inside an agent this
    is refused.

    --json answers {events, mine}; mine has the {events} of your own playbook
    """
    require_person("promote", by["rater"])
    author, mine = parameters.provenance_of(by), personal.require_own(project)
    entry, known_as = _choose(mine, project, name, as_json=as_json)
    if known_as:
        raise NothingToDoError(entry.name, f"the project has this text as {known_as}")
    if not _id(project):
        # The note in the own ledger names the project's.
        recording.write(project, [], begin=True)
    added = Update({"new_key_points": [entry.text]}, origin=f"{_PROMOTED} {entry.name}")
    link = PointNoted(entry.name, f"promoted to the project {project.root.name}, ledger {_id(project)}")
    done = pair.write_both(project, mine, Request(added, author), Request(PlainEvents((link,)), author))
    _print_move(done.outcomes[0], as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook demote kpt_007 --reason 'only I work this way'")
@click.argument("name")
@with_reason
def demote(project: Project, /, *, name: str, reason: str, as_json: bool, **by: Any) -> None:
    """Move an entry of the project to your own playbook.

    It leaves the project's playbook, and starts in yours without ratings. Inside an agent this is refused.

    --json answers like `promote`
    """
    require_person("demote", by["rater"])
    author, mine = parameters.provenance_of(by), personal.require_own(project)
    entry, known_as = _choose(project, mine, name, as_json=as_json)
    origin = f"{_DEMOTED} {entry.name} of the project {project.root.name}, ledger {_id(project)}"
    own: Any = Update({"new_key_points": [entry.text]}, origin=origin)
    if known_as:
        own = PlainEvents((PointNoted(known_as, origin),))
    retired = Curation("retire", entry.name, reason or _LEFT)
    done = pair.write_both(project, mine, Request(retired, author), Request(own, author))
    _print_move(done.outcomes[0], as_json=as_json)


def _print_move(outcome: Outcome, *, as_json: bool) -> None:
    output.note(*outcome.notes)
    rows, own = (number_rows(part.numbers, part.events) if part else [] for part in (outcome, outcome.mine))
    lines = [*output.format_recorded(rows), *(f"your own playbook: {line}" for line in output.format_recorded(own))]
    if outcome.spooled:
        lines.append("another process holds the project's ledger; spooled, the next command that writes records it")
    output.reply({"events": rows, "mine": {"events": own}}, lines, as_json=as_json)


def _choose(source: Project, target: Project, name: str, *, as_json: bool) -> tuple[Entry, str]:
    """Return an entry that goes from one playbook to the other, and the entry that has its text there, else empty.

    People see the entry before anything is recorded.

    Raises:
        UnknownEntryError: No entry of the source ever had the name.
        NothingToDoError: It left the playbook, or its text was redacted in one of them.
    """
    state, other = (reading.current(reading.open_log(owner)) for owner in (source, target))
    exact = find_used_name(name, state)
    if exact not in state.entries:
        raise NothingToDoError(exact, "is not in the playbook", "see `tallybook why`")
    entry = state.entries[exact]
    # The target would record the note without the entry, and a demoted one would be in neither playbook.
    if entry.text == REDACTED or redacted_digests.load(target.ledger).refusal(entry.text) is not None:
        raise NothingToDoError(exact, "has a text that was redacted")
    if not as_json:
        output.say(entry_line(entry))
    return entry, next((known.name for known in other.entries.values() if known.text == entry.text), "")


def _id(project: Project) -> str:
    return ledger_id(project.ledger / LOG_NAME)


def find_linked_names(project: Project, mine: Project, name: str, *, is_mine: bool) -> list[str]:
    """Return the entries of the other playbook that an entry came from or went to.

    Args:
        project: The project.
        mine: The person's own playbook.
        name: The entry.
        is_mine: Whether it is one of the person's own.
    """
    ledger = _id(project)
    links = [(theirs, text.removeprefix(f"{_PROMOTED} ")) for theirs, text in _notes(project, _PROMOTED)]
    for own, text in _notes(mine, _DEMOTED):
        if text.endswith(f", ledger {ledger}"):
            links.append((text.removeprefix(f"{_DEMOTED} ").partition(" of the project ")[0], own))
    names = [theirs if is_mine else own for theirs, own in links if name == (own if is_mine else theirs)]
    return list(dict.fromkeys(names))


def _notes(project: Project, beginning: str) -> Iterator[tuple[str, str]]:
    """Yield the entry and the text of each note of a ledger with this beginning that was not undone."""
    log = reading.open_log(project)
    if not log.may_contain(beginning.encode()):
        return
    for event in (event for batch in history(lambda: decode(log.read())) for event in batch.events):
        if isinstance(event, PointNoted) and (event.note or "").startswith(f"{beginning} "):
            yield event.name, event.note or ""
