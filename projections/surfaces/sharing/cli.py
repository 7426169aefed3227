"""The verbs of a shared book: `share`, which joins, leaves and looks after one, and `sync`."""

from __future__ import annotations

from contextlib import closing, suppress
import getpass
from pathlib import Path
import platform
import sys
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from tallybook.ledger.errors import EXIT_NO, BadInputError, TallybookError
from tallybook.projections.surfaces.console.options import Verb
from tallybook.projections.surfaces.console.output import answer, format_count, note, say
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.install import plan
from tallybook.projections.surfaces.install.steps import take
from tallybook.projections.surfaces.sharing import engines, joining, membership, results, status
from tallybook.projections.surfaces.sharing.membership import Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.ledger.sharing.engines.engine import Engine
    from tallybook.projections.surfaces.sharing.joining import Preview
    from tallybook.projections.surfaces.sharing.syncing import SyncResult
    from tallybook.projections.surfaces.workspace.project import Project

DEFAULT_REMOTE: Final = "origin"
DEFAULT_BOOK: Final = "playbook"


class NotConfirmedError(TallybookError):
    """A person saw what joining would do and declined."""

    exit_code = EXIT_NO


@click.command(cls=Verb, example="tallybook share git; tallybook share nats nats://events.example:4222 --ca ca.pem")
@click.argument("action", metavar="ACTION")
@click.argument("address", metavar="[ADDRESS]", required=False)
@click.option("--book", "name", help="Name the book; by default by the project's path.")
@click.option("--as", "label", help="Name this machine; by default by user and host.")
@click.option("--yes", is_flag=True, help="Join without asking.")
@click.option("--dry-run", is_flag=True, help="Show what joining would publish and bring.")
@click.option("--user", help="Give the user's name to NATS.")
@click.option("--password-file", help="Read the password for NATS from a file.")
@click.option("--creds", help="Use this credentials file of NATS.")
@click.option("--ca", help="Trust these certificates of NATS servers.")
@click.option("--client-cert", "cert", help="Show this certificate to NATS.")
@click.option("--client-key", "key", help="Use this key of the certificate.")
def share(project: Project, /, *, action: str, address: str | None, as_json: bool, **options: Any) -> int | None:
    """Share the playbook with other machines.

    The machines meet in a book that git, NATS or PostgreSQL holds. ACTION is git, nats or postgres to join the book
    there or make it; status; or off to stop sharing. For git, ADDRESS is the name or address of a remote, by default
    origin.
    """
    if action in engines.ENGINES:
        return _join(project, action, address, options, as_json=as_json)
    if action not in ACTIONS:
        raise BadInputError(action, "is not an action", f"use one of {', '.join((*engines.ENGINES, *ACTIONS))}")
    if address is not None:
        raise BadInputError(address, f"`share {action}` takes nothing more", "leave it out")
    return ACTIONS[action](project, as_json)


def _join(project: Project, engine_name: str, address: str | None, options: Mapping[str, Any], *, as_json: bool) -> int:
    part = _membership(project, engine_name, address, options)
    with closing(engines.open_engine(engine_name, part.address, part.name, part.options)) as engine:
        shown = joining.preview(project, engine, part.name)
    if not as_json:
        say(*_preview_lines(shown))
    if options["dry_run"]:
        if as_json:
            answer(attrs.asdict(shown))
        else:
            say("Nothing was changed: this was a dry run.")
        return 0
    if not options["yes"] and sys.stdin.isatty() and not click.confirm("Share it?", default=True):
        raise NotConfirmedError("share: not confirmed; nothing was changed")
    before = status.own_end(project)
    result = joining.join(project, part)
    results.store(project, before, result)
    for step in plan.exclusions(project):
        take(step)
    return _print_result(project, result, as_json=as_json)


def offer(project: Project) -> None:
    """Say how to share through git where the project's repository has a remote; on a terminal, ask and do it.

    Raises:
        TallybookError: The person wants it, and it cannot be done.
    """
    from tallybook.ledger.sharing.engines import git_address

    if membership.load(project) is not None:
        return
    try:
        git_address.read_remote(str(project.root), DEFAULT_REMOTE)
    except TallybookError:
        return
    say(f"`tallybook share git` shares the playbook with other machines through the remote {DEFAULT_REMOTE}.")
    if sys.stdin.isatty() and sys.stdout.isatty() and click.confirm("Share it now?", default=False):
        options: dict[str, Any] = dict.fromkeys(("name", "label", *engines.OPTIONS["nats"]))
        with suppress(NotConfirmedError):
            _join(project, "git", None, {**options, "yes": False, "dry_run": False}, as_json=False)


def _membership(project: Project, engine: str, address: str | None, options: Mapping[str, Any]) -> Membership:
    name = options["name"]
    if engine == "git":
        from tallybook.ledger.sharing.engines import git_address

        given = address or DEFAULT_REMOTE
        if given.startswith("."):
            address = str(Path(given).resolve())
        elif ":" not in given and "/" not in given:
            address = git_address.read_remote(str(project.root), given)
        name = name or git_address.default_book(str(project.root))
    if address is None:
        raise BadInputError("ADDRESS", "is missing", f"say where: tallybook share {engine} ADDRESS")
    given_options = {field: options[field] for field in engines.OPTIONS["nats"] if options[field] is not None}
    label = options["label"] or f"{getpass.getuser()}-{platform.node()}"
    return Membership("", "", "", name or DEFAULT_BOOK, engine, address, membership.new_writer(label), given_options)


def _preview_lines(shown: Preview) -> list[str]:
    place = f"{shown.name} at {shown.address}"
    if not shown.book:
        first = f"Makes the book {place}."
    else:
        what = f"{format_count(shown.events, 'event')}, {format_count(shown.entries, 'entry', 'entries')}"
        first = f"Joins the book {place}: {what}."
    outgoing = ", ".join(f"{number:,} {kind}" for kind, number in sorted(shown.outgoing.items()))
    entries = format_count(shown.own_entries, "entry", "entries")
    return [
        first,
        f"Publishes the texts and ratings of {entries}: {outgoing}." if outgoing else "Publishes nothing yet.",
        "Quotes, reasons, sessions' transcripts, injections, citations and scores stay on this machine.",
    ]


@click.command(cls=Verb, example="tallybook sync")
@click.option("--dry-run", is_flag=True, help="Show what would be published, and change nothing.")
@click.option("--limit", "limit_s", default=60.0, show_default=True, help="Stop after so many seconds.")
@click.option("--rejoin", is_flag=True, help="Take another history of the book.")
@click.option("--unattended", is_flag=True, hidden=True)
def sync(project: Project, /, *, limit_s: float, as_json: bool, **options: bool) -> int:
    """Exchange events with the shared book.

    It takes in others' events and publishes own ones. What is not published within the limit waits for the next sync.
    --rejoin takes a history of the book that differs from this machine's, sets the old copy aside, and publishes what
    the new history lacks.
    """
    if options["unattended"]:
        return results.sync_unattended(project, limit_s)
    part = membership.require(project)
    if options["dry_run"]:
        return _print_pending(project, as_json=as_json)
    if options["rejoin"]:
        return _rejoin(project, part, as_json=as_json)
    before = status.own_end(project)
    result = results.sync(project, part, limit_s)
    return _print_result(project, result, as_json=as_json, before=before)


def _rejoin(project: Project, part: Membership, *, as_json: bool) -> int:
    before = status.own_end(project)
    with closing(engines.open_engine(part.engine, part.address, part.name, part.options)) as engine:
        done = joining.rejoin(project, part, engine)
    if as_json:
        answer(status.rejoined_json(done))
    else:
        say(*status.rejoined_lines(done))
        status.print_changes(project, before)
    return 0


def _print_pending(project: Project, *, as_json: bool) -> int:
    rows = status.outgoing(project)
    if as_json:
        answer({"pending": rows})
        return 0
    say(*(f"event {row['seq']}  {row['summary']}" for row in rows))
    say(f"{format_count(len(rows), 'event')} would be published. Nothing was changed: this was a dry run.")
    return 0


def _print_result(project: Project, result: SyncResult, *, as_json: bool, before: int | None = None) -> int:
    if as_json:
        answer(attrs.asdict(result))
    else:
        say(*status.result_lines(result))
        if before is not None and result.taken:
            status.print_changes(project, before)
    note(*(f"{run.place}: does not count: {run.why}" for run in result.skipped))
    if result.refusal and result.pending:
        note(result.refusal)
    return 0


def _status(project: Project, as_json: bool) -> int:  # noqa: FBT001 - as the table calls it
    part = membership.require(project)

    def open_engine() -> Engine:
        return engines.open_engine(part.engine, part.address, part.name, part.options)

    found = status.examine(project, part, open_engine)
    with sync_results.new_results(project):
        stored = sync_results.read(project)
    if as_json:
        answer(attrs.asdict(found) | {"results": stored})
    else:
        say(*status.status_lines(found), *(line for one in stored for line in results.lines(one)))
    return 0


def _off(project: Project, as_json: bool) -> int:  # noqa: FBT001 - as the table calls it
    was_shared = joining.leave(project)
    if as_json:
        answer({"shared": False, "was_shared": was_shared})
    elif was_shared:
        say("Sharing is off. The playbook keeps what it has; `tallybook share` turns it on again.")
    else:
        say("This project shares no book.")
    return 0


ACTIONS: Final[dict[str, Callable[[Project, bool], int]]] = {"status": _status, "off": _off}
"""Word after `share` → the function that does it."""
