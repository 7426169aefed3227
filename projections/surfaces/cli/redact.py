"""The verb `redact`: it asks a person, erases a text, and prints the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from tallybook.ledger.errors import EXIT_NOT_WRITTEN, BadInputError
from tallybook.projections.event_rows import kind_of, summary
from tallybook.projections.surfaces.console.consent import ask
from tallybook.projections.surfaces.console.options import Verb, WholeNumber, provenance_of, read_text
from tallybook.projections.surfaces.console.output import answer, can_ask, format_count, say
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.sharing.targets import find_event
from tallybook.projections.surfaces.writing import proposals
from tallybook.projections.surfaces.writing import redact as redaction
from tallybook.projections.surfaces.writing.redact import NOTHING, RedactionTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.redact import RedactionResult

OUT_OF_REACH = "git history, checkouts, backups, other copies and other users' caches are out of reach"


@click.command(
    cls=Verb,
    rater="human",
    example="tallybook redact --text - --reason 'a name' --yes < name.txt; tallybook redact 12 --reason typo",
)
@click.argument("event", metavar="[ID]", required=False)
@click.option("--text", help="Redact every event and file with this text; - reads it.")
@click.option("--reason", help="State why; stored in the ledger.")
@click.option("--dry-run", is_flag=True, help="List what holds the text and change nothing.")
@click.option("--yes", is_flag=True, help="Redact --text without asking.")
@click.option("--expect", type=WholeNumber(0), metavar="N", help="Redact only if N events hold it, as --dry-run said.")
def redact(project: Project, /, *, event: str | None, as_json: bool, **options: Any) -> int:
    """Erase a text from the ledger and its files.

    The proof of the ledger stays intact. ID is an event's id or number, as `log` shows them: its whole text is erased
    wherever it occurs.
    """
    event = None if event is None else find_event(open_log(project), event)
    target = RedactionTarget(event, None if options["text"] is None else read_text(options["text"]))
    if (target.event is None) is (target.text is None):
        raise BadInputError("redact", "takes either the ID of an event or --text", f"give one of them; {NOTHING}")
    if options["dry_run"]:
        return _print(project, redaction.find_text(project, target), "would be redacted", as_json=as_json)
    if not (options["reason"] or "").strip():
        raise BadInputError("--reason", "is missing", f"say why the text must go; {NOTHING}")
    by = provenance_of(options)
    proposals.propose_redaction(project, target, options["reason"], by)
    is_counted = options["expect"] is not None or can_ask()
    if target.text is not None and not (options["yes"] and is_counted):
        _confirm(redaction.find_text(project, target), as_json=as_json)
    done = redaction.redact(project, target, options["reason"], by, options["expect"])
    return _print(project, done, "redacted", as_json=as_json)


def _confirm(preview: RedactionResult, *, as_json: bool) -> None:
    """Show which events and files hold a text, and ask whether to redact it; only on a terminal.

    Raises:
        UnexpectedNumberError: There is no terminal to ask on, so the number of events is needed.
        NotConfirmedError: The answer is no.
    """
    if as_json or not can_ask():
        raise redaction.UnexpectedNumberError(len(preview.events))
    number = format_count(len(preview.events), "event")
    say(*(f"event {record.seq}: {summary(record.event)}" for record in preview.events))
    say(*_lines(attrs.evolve(preview, events=()), "would be redacted"))
    ask("redact", f"Redact the whole text of {number}? It cannot be restored.")


def _print(project: Project, done: RedactionResult, result: str, *, as_json: bool) -> int:
    """Print the result and return the exit code: 4 where a file of Tallybook's still holds the text."""
    from tallybook.projections.surfaces.page.document import find_pages

    erased, pages = done.erased, find_pages(project)
    if as_json:
        events = [{"seq": one.seq, "id": one.id, "kind": kind_of(one.event)[0]} for one in done.events]
        files, foreign = [str(path) for path in erased.files], [str(path) for path in erased.foreign]
        answer(
            {
                "events": events,
                "files": files,
                "stands": list(erased.remaining),
                "bodies": list(done.bodies),
                "alike": done.alike,
                "unrecorded": done.unrecorded,
                "mine": done.mine and str(done.mine),
                "foreign": foreign,
                "unsearched": list(erased.unsearched),
                "pages": [str(path) for path in pages],
                "beyond": OUT_OF_REACH,
            }
        )
    else:
        what = "is a page, which may hold it; delete it, or write it again with `tallybook page`"
        say(*_lines(done, result), *(f"out of reach: {path} {what}" for path in pages))
    if result == "redacted" and not as_json:
        say(*_engine_lines(project, done))
    elif result != "redacted" and not as_json:
        number = len(done.events)
        waiting = f", {done.unrecorded} of them not recorded yet" if done.unrecorded else ""
        need = f"off a terminal, --text needs --yes --expect {number}"
        say(f"note: {format_count(number, 'event')} in all{waiting}; {need}")
    return EXIT_NOT_WRITTEN if erased.remaining else 0


def _engine_lines(project: Project, done: RedactionResult) -> list[str]:
    """Return what removes the texts from the engine of a shared book."""
    from tallybook.projections.surfaces.sharing import membership

    part = membership.load(project)
    if part is None or not done.events:
        return []
    commands = ("tallybook sync", "tallybook share repair")
    return [f"the book {part.name} at {part.address} still holds it; run: {command}" for command in commands]


def _lines(done: RedactionResult, result: str) -> Iterator[str]:
    """Yield the result as lines for people."""
    for one in done.events:
        name = getattr(one.event, "name", "")
        yield f"{result}: event {one.seq}, {kind_of(one.event)[0]}{f' {name}' if name else ''}"
    if done.alike:
        yield f"note: {format_count(done.alike, 'event')} of these only in what looks the same"
    for path in done.erased.files:
        yield f"{result}: {path}"
    for line in done.erased.remaining:
        yield f"not erased: {line}"
    for seq in done.bodies:
        why = "these cannot be erased without breaking the chain"
        yield f"not redacted: event {seq} has the text in a name, a rating or its author; {why}"
    for path in done.erased.foreign:
        yield f"not redacted: {path} holds it and is not a file of Tallybook's"
    if done.mine is not None:
        yield f"not redacted: your own playbook, {done.mine}, holds it as well; run the same command with --mine"
    for line in done.erased.unsearched:
        yield f"not searched: {line}"
    yield f"note: {OUT_OF_REACH}"
