"""The verbs by which a person curates the playbook: retire, restore, pin, reword, merge, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.decisions.curation import NEVER, Curation
from tallybook.ledger.errors import BadInputError
from tallybook.projections.event_rows import numbered_rows, summary
from tallybook.projections.surfaces.cli.main import VERBS
from tallybook.projections.surfaces.console.consent import ask
from tallybook.projections.surfaces.console.options import Day, SectionName, Verb, provenance_of, read_text, with_reason
from tallybook.projections.surfaces.console.output import answer, can_ask, format_count, note, recorded_lines, say
from tallybook.projections.surfaces.writing import curation, proposals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.curation import UndoResult

_MAX_EVENTS: Final = 20
"""Undone events that are listed for people; an import can have thousands."""


def _curate(project: Project, wish: Curation, by: Mapping[str, Any], *, as_json: bool) -> None:
    """Record a change that a person wishes, and print its events in the words of ``log``."""
    outcome, proposed = proposals.make_or_propose(project, wish, provenance_of(by))
    note(*outcome.notes)
    rows = numbered_rows(outcome.numbers, outcome.events)
    if as_json:
        answer(rows[0] | {"events": rows})
    else:
        say(*recorded_lines(rows))
    if proposed is not None:
        raise proposed


def _verb_of_names(verb: str, details: str, example: str) -> click.Command:
    """Return a verb that does one thing to several entries, all in one batch."""
    help_text = f"{VERBS[verb].summary}.\n\n{details}"

    @click.command(verb, help=help_text, cls=Verb, rater="human", example=f"tallybook {verb} {example}")
    @click.argument("names", metavar="NAME...", nargs=-1, required=True)
    @with_reason
    def command(project: Project, /, *, names: tuple[str, ...], reason: str, as_json: bool, **by: str | None) -> None:
        _curate(project, Curation(verb, names[0], reason, more_names=names[1:]), by, as_json=as_json)

    return command


retire = _verb_of_names("retire", "`tallybook restore` brings them back.", "kpt_003 kpt_007")
restore = _verb_of_names("restore", "They keep their names and counts.", "kpt_003")


@click.command(
    cls=Verb, rater="human", example="tallybook pin kpt_003 --reason 'house rule'; tallybook pin --off kpt_003"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--off", is_flag=True, help="Let them be pruned again, if they are pinned.")
@with_reason
def pin(project: Project, /, *, names: tuple[str, ...], off: bool, reason: str, as_json: bool, **by: Any) -> None:
    """Protect entries from pruning, or let them be pruned again.

    A pinned entry stays, however it is rated. After --off the next update prunes those that the policy prunes.
    """
    wish = Curation("unpin" if off else "pin", names[0], reason, more_names=names[1:])
    _curate(project, wish, by, as_json=as_json)


@click.command(cls=Verb, rater="human", example='tallybook reword kpt_003 "Quote ids as strings in JSON."')
@click.argument("name")
@click.argument("text", required=False)
@click.option("--until", type=Day(NEVER), metavar="DATE", help=f"Do not inject it after this day, in UTC; or {NEVER}.")
@with_reason
def reword(project: Project, /, *, name: str, text: str | None, reason: str, as_json: bool, **options: Any) -> None:
    """Change the text of an entry.

    Its name and its counts stay. A TEXT of - is read from standard input. Without TEXT, only the day of --until
    changes; --until never lets the entry hold without an end.
    """
    until = options["until"] or ""
    if text is None and not until:
        raise BadInputError("reword", "needs a TEXT or --until", "give one of them; nothing was recorded")
    text = read_text(text or "", "the new text")
    _curate(project, Curation("reword", name, reason, text, until=until), options, as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook move kpt_003 kpt_007 mistakes")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.argument("section", type=SectionName())
@with_reason
def move(project: Project, /, *, names: tuple[str, ...], section: str, reason: str, as_json: bool, **by: Any) -> None:
    """Move entries to a section.

    SECTION is patterns, mistakes, user, project or others: a heading of the later playbook format, the beginning of
    one, or its slug.
    """
    wish = Curation("move", names[0], reason, more_names=names[1:], section=section)
    _curate(project, wish, by, as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook merge kpt_003 kpt_007 kpt_011")
@click.argument("name")
@click.argument("merged", nargs=-1, required=True)
@with_reason
def merge(project: Project, /, *, name: str, merged: tuple[str, ...], reason: str, as_json: bool, **by: Any) -> None:
    """Merge entries that say the same.

    NAME gets the counts of the merged entries, and their later ratings.
    """
    _curate(project, Curation("merge", name, reason, sources=merged), by, as_json=as_json)


@click.command(cls=Verb, rater="human", example="tallybook undo --of 5f1c2f0e --reason 'the reflector misread it'")
@click.argument("event", metavar="[ID]", required=False)
@click.option("--of", "session_of", metavar="SESSION", help="Undo every event of a session so far.")
@click.option("--writer", metavar="W", help="Undo what this machine did, in a shared book.")
@click.option("--since", metavar="WHEN", help="Undo only what --writer did after this moment.")
@click.option("--yes", is_flag=True, help="Undo what --writer did without asking.")
@with_reason
def undo(project: Project, /, **options: Any) -> None:
    """Undo the last change, an event or a session.

    The playbook is folded without the undone events; the answer has the command that redoes them. ID is the number of
    an event. For an event about one entry (a rating, a new text), that event is undone. For an update, an edit, an
    import, a measurement or an undo, its whole batch is undone. Without ID, the last change of the playbook or the
    scores is undone, but never an import, a redaction or an undo: the answer then lists the commands to choose from.
    Without ID, --session alone names the session to undo, like --of.
    """
    if options["writer"] is not None:
        _undo_writer(project, options)
        return
    if options["since"] is not None:
        raise BadInputError("--since", "goes with --writer", "give the machine; nothing was recorded")
    if options["event"] is None and options["session_of"] is None:
        # Taken as provenance, it would undo the last change, whichever session that comes from.
        options["session_of"], options["session"] = options["session"], None
    if options["event"] is not None and options["session_of"] is not None:
        raise BadInputError("undo", "takes either an ID or --of SESSION", "give one of them; nothing was recorded")
    done = curation.undo(project, options["event"], options["session_of"], options["reason"], provenance_of(options))
    _print_undone(done, as_json=options["as_json"])


def _undo_writer(project: Project, options: Mapping[str, Any]) -> None:
    """List what a machine did, ask on a terminal, and undo it.

    Raises:
        BadInputError: Another target was given, or there is no terminal to ask on.
    """
    if options["event"] is not None or options["session_of"] is not None:
        raise BadInputError("undo", "takes one of ID, --of and --writer", "give one of them; nothing was recorded")
    records = curation.find_by_writer(project, options["writer"], options["since"])
    number = format_count(len(records), "event")
    if not options["yes"]:
        _list_events([(one.seq, summary(one.event)) for one in records], "to undo")
        if options["as_json"] or not can_ask():
            hint = "give --yes to undo them; nothing was recorded"
            raise BadInputError(f"--writer {options['writer']}", f"did {number}", hint)
        ask("undo", f"Undo {number}?")
    done = curation.undo_events(project, records, options["reason"], provenance_of(options))
    _print_undone(done, as_json=options["as_json"])


def _list_events(rows: Sequence[tuple[int, str]], what: str) -> None:
    say(*(f"{what}: event {seq}, {words}" for seq, words in rows[:_MAX_EVENTS]))
    if len(rows) > _MAX_EVENTS:
        say(f"and {len(rows) - _MAX_EVENTS:,} more")


def _undone_json(done: UndoResult) -> dict[str, Any]:
    events = [{"seq": seq, "summary": what} for seq, what in done.events]
    return {"seq": done.outcome.seq_from, "events": events, "redo": done.redo}


def _print_undone(done: UndoResult, *, as_json: bool) -> None:
    """Print what was undone, and how to bring it back."""
    if as_json:
        mine = {"mine": _undone_json(done.mine)} if done.mine else {}
        answer(_undone_json(done) | mine)
        return
    _list_events(done.events, "undone")
    _list_events(done.mine.events if done.mine else (), "undone in your own playbook")
    say(f"to bring this back, run: {done.redo}")
    note(*done.outcome.notes)
