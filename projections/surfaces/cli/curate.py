"""The verbs of a person's own hand: retire, restore, pin, unpin, reword, merge, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from tallybook.ledger.decisions.curation import Wish
from tallybook.ledger.errors import BadInputError
from tallybook.projections.event_rows import summary
from tallybook.projections.surfaces.console.options import as_json, reasoned, said
from tallybook.projections.surfaces.console.output import answer, note, said_by, say
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.record import Outcome


# An import can have thousands.
_SHOWN_EVENTS: Final = 20


def _told(outcome: Outcome, *, as_json: bool) -> None:
    """Print what was recorded, in the words of ``log``."""
    for line in outcome.notes:
        note(line)
    rows = [{"seq": seq, "summary": summary(event)} for seq, event in enumerate(outcome.events, outcome.seq_from or 0)]
    if as_json:
        answer(rows[0] | {"events": rows})
        return
    for row in rows:
        say(f"recorded as event {row['seq']}: {row['summary']}")


def _about_each(verb: str, about: str, example: str) -> click.Command:
    """Return a verb that says one thing about each of some entries, all in one batch."""

    @click.command(verb, help=about, epilog=f"Example: tallybook {example}")
    @click.argument("names", metavar="NAME...", nargs=-1, required=True)
    @reasoned
    @said("human")
    @as_json
    @click.pass_obj
    def command(project: Project, /, *, names: tuple[str, ...], reason: str, as_json: bool, **options: Any) -> None:
        wish = Wish(verb, names[0], reason, others=names[1:])
        _told(curation.wish(project, wish, said_by(options)), as_json=as_json)

    return command


@click.command(epilog='Example: tallybook reword kpt_003 "Quote ids as strings in JSON."')
@click.argument("name")
@click.argument("text")
@reasoned
@said("human")
@as_json
@click.pass_obj
def reword(project: Project, /, *, name: str, text: str, reason: str, as_json: bool, **options: Any) -> None:
    """Give an entry another text; its name and its counts stay."""
    _told(curation.wish(project, Wish("reword", name, reason, text), said_by(options)), as_json=as_json)


@click.command(epilog="Example: tallybook merge kpt_003 kpt_007 kpt_011")
@click.argument("name")
@click.argument("merged", nargs=-1, required=True)
@reasoned
@said("human")
@as_json
@click.pass_obj
def merge(project: Project, /, *, name: str, merged: tuple[str, ...], reason: str, as_json: bool, **by: Any) -> None:
    """Let entries that say the same go into NAME, with their counts and whatever they are rated later."""
    _told(curation.wish(project, Wish("merge", name, reason, merged=merged), said_by(by)), as_json=as_json)


@click.command(epilog="Example: tallybook undo --of 5f1c2f0e --reason 'the reflector misread it'")
@click.argument("event", metavar="[ID]", required=False)
@click.option("--of", "session_of", metavar="SESSION", help="Undo everything of a session so far.")
@reasoned
@said("human")
@as_json
@click.pass_obj
def undo(project: Project, /, **options: Any) -> None:
    """Undo the last change, an event by its number, or a session.

    The playbook is folded without the undone events; the answer names the command that brings them back. The number of
    an event about one entry (a rating, a new text) undoes that event; the number of an update, an edit, an import, a
    measurement or an undo undoes all of it. Without ID, `undo` takes the last change of the playbook or the scores,
    but never an import, a redaction or another undo: it then changes nothing, and names the commands to choose from.
    """
    if options["event"] is not None and options["session_of"] is not None:
        raise BadInputError("undo", "takes either an ID or --of SESSION", "nothing was recorded")
    done = curation.undo(project, options["event"], options["session_of"], options["reason"], said_by(options))
    if options["as_json"]:
        events = [{"seq": seq, "summary": what} for seq, what in done.events]
        answer({"seq": done.outcome.seq_from, "events": events, "redo": done.redo})
        return
    for seq, what in done.events[:_SHOWN_EVENTS]:
        say(f"undone: event {seq}, {what}")
    if len(done.events) > _SHOWN_EVENTS:
        say(f"and {len(done.events) - _SHOWN_EVENTS:,} more")
    say(f"to bring this back, run: {done.redo}")
    for line in done.outcome.notes:
        note(line)


VERBS: Final = (
    _about_each("retire", "Take entries out of the playbook; `restore` brings them back.", "retire kpt_003 kpt_007"),
    _about_each("restore", "Bring back entries that were retired, removed or pruned.", "restore kpt_003"),
    _about_each("pin", "Keep entries from being pruned.", "pin kpt_003 --reason 'house rule'"),
    _about_each("unpin", "Let pinned entries be pruned again.", "unpin kpt_003 kpt_007"),
    reword,
    merge,
    undo,
)
