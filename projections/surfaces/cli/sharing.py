"""The verbs of a shared book: `share`, which joins, leaves and looks after one, and `sync`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
import getpass
from pathlib import Path
import platform
from typing import Any, Final

import click

from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, BadInputError, CannotWriteError, TallybookError
from tallybook.ledger.sharing import replica
from tallybook.ledger.sharing.engine import Engine, UnreachableError
from tallybook.projections.surfaces.cli.parameters import Number, Verb
from tallybook.projections.surfaces.console.output import can_ask, format_count, note, reply, require_consent, say
from tallybook.projections.surfaces.history.shared_log import SharedLog
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.install import plan
from tallybook.projections.surfaces.sharing import membership, operations, syncing
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.workspace.project import Project

Answer = tuple[Any, list[str], int]
"""Of an action: its value as JSON, its lines for people, and its exit code."""
DEFAULT_REMOTE: Final = "origin"
_OFF_WAIT_MS: Final = 10_000
_NO_OPTIONS: Final[dict[str, Any]] = dict.fromkeys(("name", "label", "read_only", "yes", "dry_run"))


@click.command(cls=Verb, example="tallybook share git; tallybook share objects s3://bucket/path")
@click.argument("action", metavar="ACTION")
@click.argument("address", metavar="[ADDRESS]", required=False)
@click.option("--book", "name", help="Name the book; the default is the name of the project.")
@click.option("--as", "label", help="Name this machine; the default is user and host.")
@click.option("--token-env", metavar="NAME", help="Log in to git with the token in this variable.")
@click.option("--password-file", metavar="FILE", help="Log in to PostgreSQL with the password in this file.")
@click.option("--profile", metavar="NAME", help="Log in by this AWS profile; `instance`: by the cloud's role.")
@click.option("--read-only", is_flag=True, help="Read the book, and never publish anything.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--without", metavar="RUN", help="Repair: leave out this run, whose rules no version knows.")
@click.option("--dry-run", is_flag=True, help="Show what joining would publish and bring.")
def share(project: Project, /, *, action: str, address: str | None, as_json: bool, **options: Any) -> int | None:
    """Share the playbook with other machines.

    The machines exchange events through a book, which git, PostgreSQL or an object store holds. With git, postgres or
    objects as ACTION, this project joins the book there, makes it if there is none, or moves the book that it already
    shares to that place. `status` and `members` show the book. `verify`, `repair` and `upgrade` maintain it. `publish`
    publishes the unmasked text of one of your own events, given as ADDRESS. `off` stops sharing. For git, ADDRESS is
    the name or address of a remote, by default origin. Joining, repair, upgrade and publish ask first. Without a
    terminal they need --yes; inside an agent they are refused.

    --json answers a preview, the result of a sync, the state or a check
    """
    if action not in {**membership.ENGINES, **ACTIONS}:
        raise BadInputError(action, "is not an action", f"use one of {', '.join((*membership.ENGINES, *ACTIONS))}")
    taken = _TAKEN.get(action, set()) if action in ACTIONS else {*_NO_OPTIONS, membership.LOGINS.get(action)}
    for option in (name for name, value in options.items() if value and name not in taken):
        flag = {"name": "book", "label": "as"}.get(option, option.replace("_", "-"))
        raise BadInputError(f"--{flag}", f"is not for `share {action}`", "leave it out; nothing was changed")
    if action in membership.ENGINES:
        return _join(project, action, address, options, as_json=as_json)
    if action == "publish":
        options["event"] = address
    elif address is not None:
        raise BadInputError(address, f"`share {action}` takes nothing more", "leave it out")
    value, lines, code = ACTIONS[action](project, options, as_json)
    reply(value, lines, as_json=as_json)
    return code


def _join(project: Project, engine_name: str, address: str | None, options: Mapping[str, Any], *, as_json: bool) -> int:
    part = _membership(project, engine_name, address, options, as_json=as_json)
    # A person is asked with what would leave in sight, so the book is read first, and what came stays with the engine.
    with closing(membership.open_engine(part, project.ledger)) as engine:
        shown = operations.preview(project, engine, part)
        if part.read_only and not shown["book"]:
            hint = "check the address and the name, or leave out --read-only to make it; nothing was changed"
            raise BadInputError(part.address, f"holds no book {part.name}", hint)
        if not as_json:
            say(*_preview_lines(shown, read_only=part.read_only))
        what, question = _purpose(project, part, shown)
        if options["dry_run"]:
            reply(shown, ["Nothing was changed: this was a dry run."], as_json=as_json)
            return 0
        require_consent(f"share {engine_name}", what, question, yes=options["yes"], as_json=as_json)
        before = operations.own_end(project)
        result = operations.join(project, part, engine)
    operations.store(project, before, result.problems, taken=result.taken)
    # Each machine renders the file for itself, and git stops where it would overwrite or stash it.
    for step in plan.exclusions(project):
        plan.take(step)
    code = _print_result(project, result, as_json=as_json)
    if not as_json:
        say(*operations.describe_renamings(project, before, operations.own_end(project)))
    return code


def _purpose(project: Project, part: Membership, shown: Mapping[str, Any]) -> tuple[str, str]:
    """Return what joining does and the question about it, and note what a person may not expect."""
    former = membership.last_known(project)
    if former is not None and shown["former"]:
        place = operations.examine(project, former)["moved"]
        if place is None:
            note(f"This moves the book {former.name} of {former.shown_address} to {part.address}, the same bytes")
            return "moves the book that this project shares", "Move it?"
        note(f"The book {former.name} of {former.shown_address} moved to {place['address']}")
        return "goes on in the place of the book that this project shares", "Go on there?"
    # Two projects that name one book would mix their playbooks.
    if shown["project"] and (own := _project_name(project)) and own != shown["project"]:
        note(f"The book was made for the project {shown['project']}, and this one is {own}")
        return f"joins the book of another project at {part.address}", "Share it nevertheless?"
    if part.read_only:
        return f"takes the entries of the book at {part.address} into the playbook", "Join it?"
    return f"publishes the playbook at {part.address}", "Share it?"


def offer(project: Project) -> None:
    """Say how to share through git where the project's repository has a remote."""
    if membership.load(project) is None and _project_name(project):
        say(f"`tallybook share git` shares the playbook with other machines through the remote {DEFAULT_REMOTE}.")


def _project_name(project: Project, remote: str = DEFAULT_REMOTE) -> str:
    """Return the name of the project's book by default; empty where its repository has no such remote."""
    from tallybook.ledger.sharing import git_remote

    with suppress(TallybookError):
        return git_remote.default_book(str(project.root), remote)
    return ""


def _membership(
    project: Project, engine: str, address: str | None, options: Mapping[str, Any], *, as_json: bool
) -> Membership:
    remote = DEFAULT_REMOTE
    if engine == "git":
        from tallybook.ledger.sharing import git_remote

        given = address or DEFAULT_REMOTE
        if given.startswith("."):
            address = str(Path(given).resolve())
        elif ":" not in given and "/" not in given:
            address, remote = git_remote.read_remote(str(project.root), given), given
    if address is None:
        raise BadInputError("ADDRESS", "is missing", f"say where: tallybook share {engine} ADDRESS")
    # A book keeps its name in another place.
    former = membership.last_known(project)
    name = options["name"] or (former.name if former else _project_name(project, remote))
    if not name and (as_json or not can_ask()):
        # No name is made up: two projects without a remote would share one book unnoticed.
        why = "is needed: this project has no remote, so its book has no name by default"
        raise BadInputError("--book NAME", why, "name the book; other machines give the same name")
    login: str = options.get(membership.LOGINS.get(engine, "")) or ""
    # The user comes first, because log and undo take that name alone for all machines of a person.
    label = options["label"] or f"{getpass.getuser()}-{platform.node()}"
    return Membership(
        name=name or click.prompt("Name of the book, the same on each machine"),
        engine=engine,
        address=address,
        writer=membership.new_writer(label),
        read_only=bool(options["read_only"]),
        # A later sync starts in another folder.
        login=str(Path(login).absolute()) if login and engine == "postgres" else login,
    )


def _preview_lines(shown: Mapping[str, Any], *, read_only: bool) -> list[str]:
    verb, events = "Joins" if shown["book"] else "Makes", format_count(shown["events"], "event")
    first = f"{verb} the book {shown['name']} at {shown['address']}: {events}."
    if read_only:
        return [first, "Publishes nothing: this machine only reads the book."]
    outgoing = ", ".join(f"{number:,} {kind}" for kind, number in sorted(shown["outgoing"].items()))
    entries = format_count(shown["own_entries"], "entry", "entries")
    return [
        first,
        # A copy of a ledger that shares the book has events that are there already.
        f"Publishes what the book lacks of the texts and ratings of {entries}: {outgoing or 'nothing yet'}.",
        "Quotes, reasons, sessions' transcripts, injections, citations and scores stay on this machine.",
    ]


@click.command(cls=Verb, example="tallybook sync")
@click.option("--dry-run", is_flag=True, help="Show what would be published, and change nothing.")
@click.option(
    *("--limit", "limit_s"),
    type=Number(0),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Stop after so many seconds.",
)
@click.option("--rejoin", is_flag=True, help="Take another history of the book.")
@click.option("--unattended", is_flag=True, hidden=True)
def sync(project: Project, /, *, limit_s: float, as_json: bool, **options: bool) -> int:
    """Exchange events with the shared book.

    `sync` takes in the events of other machines and publishes those of this one. What is not published within the limit
    waits for the next sync. If the book has another history than this machine's copy, --rejoin takes that history, sets
    the old copy aside, and publishes the events that the new history lacks. If the book has moved, `sync` names the new
    place and, on a terminal, asks whether to go on there; otherwise it exits with 1.

    --json answers {taken, published, pending, tries, end, restored, skipped, refusal, set_aside, moved, unsealed};
    --rejoin: {copy, kept, taken, landed, end, missing, pending}
    """
    if options["unattended"]:
        return operations.sync_unattended(project, limit_s)
    part = membership.require(project)
    if options["dry_run"]:
        return _print_pending(project, part, as_json=as_json)
    if options["rejoin"]:
        return _rejoin(project, part, as_json=as_json)
    before = operations.own_end(project)
    result = operations.sync(project, part, limit_s)
    return _print_result(project, result, as_json=as_json, before=before)


def _rejoin(project: Project, part: Membership, *, as_json: bool) -> int:
    before = operations.own_end(project)
    with _open_book(project) as (_, engine):
        done = operations.rejoin(project, part, engine)
    operations.store(project, before, [], taken=done["taken"])
    refusal = done.pop("refusal")
    note(*([refusal] if refusal and done["pending"] else []))
    reply(done, operations.describe_rejoin(done), as_json=as_json)
    if not as_json:
        say(*operations.change_lines(project, before, operations.own_end(project)))
    return 0


def _print_pending(project: Project, part: Membership, *, as_json: bool) -> int:
    rows = operations.list_outgoing(project, part)
    verb = "wait, and this machine publishes nothing" if part.read_only else "would be published"
    total = f"{format_count(len(rows), 'event')} {verb}. Nothing was changed: this was a dry run."
    reply({"pending": rows}, [*(f"event {row['seq']}  {row['summary']}" for row in rows), total], as_json=as_json)
    return 0


def _print_result(project: Project, result: syncing.SyncResult, *, as_json: bool, before: int | None = None) -> int:
    part = membership.require(project)
    lines = operations.result_lines(result, read_only=part.read_only)
    reply(operations.to_json(result), lines, as_json=as_json)
    if not as_json and before is not None and result.taken:
        say(*operations.change_lines(project, before, operations.own_end(project)))
    note(*map(str, result.skipped))
    if result.refusal and (result.pending or result.moved):
        note(result.refusal)
    if result.unsealed:
        note(f"the other machines are not told ({result.unsealed}); type the same `tallybook share` on each of them")
    # An address is never followed by itself: every writer of the engine can name one.
    if result.moved and not as_json and can_ask() and click.confirm("Go on there?", default=False):
        engine_name, address, name = result.moved
        options = {"name": name, "yes": True, "read_only": part.read_only}
        return _join(project, engine_name, address, _NO_OPTIONS | options, as_json=False)
    # A job that runs only this must not go on for ever without what the others write.
    return EXIT_NO if result.moved else 0


def _require_consent(action: str, what: str, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Return if a person consents to an action that changes the book for everyone, as ``require_consent``."""
    require_consent(f"share {action}", what, f"This {what}. Do it?", yes=options["yes"], as_json=as_json)


@contextmanager
def _open_book(project: Project) -> Iterator[tuple[Membership, Engine]]:
    """Give the project's part in a book, and the engine."""
    part = membership.require(project)
    with closing(membership.open_engine(part, project.ledger)) as engine:
        yield part, engine


def _status(project: Project, *_options: Any) -> Answer:
    state = operations.examine(project, membership.require(project))
    with suppress(TallybookError):
        operations.store(project)
    # Who reads the state has seen all results, so no later command tells them.
    with sync_results.new_results(project):
        state["results"] = sync_results.read(project)
    results = (line for result in state["results"] for line in operations.lines(result))
    return state, [*operations.status_lines(state), *results], 0


def _verify(project: Project, *_options: Any) -> Answer:
    with _open_book(project) as (_, engine):
        check = operations.verify(project, engine)[0]
    is_faulty = check.skipped or check.redacted or check.newer
    code = EXIT_DAMAGED if check.differs else EXIT_NO if is_faulty else 0
    return operations.to_json(check), operations.check_lines(check, engine.address), code


def _repair(project: Project, options: Mapping[str, Any], as_json: bool) -> Answer:  # noqa: FBT001 - as the table calls it
    with _open_book(project) as (part, engine):
        without = options["without"] or ""
        out = f", run {without} and what follows it" if without else ""
        what = f"stores the book {part.name} anew, without what does not count{out}"
        # Who may not go on because of it must know before it begins.
        remains = engine.store.describe_remains()
        what = f"{what} ({remains})" if remains else what
        _require_consent("repair", what, options, as_json=as_json)
        check, left = operations.repair(project, engine, without)
    syncing.drop_skipped(project)
    if left:
        note(left)
    value = {"skipped": len(check.skipped), "redacted": len(check.redacted), "events": check.events}
    runs = f"{format_count(value['skipped'], 'run')} that did not count"
    texts = f"texts of {format_count(value['redacted'], 'redacted batch', 'redacted batches')}"
    return value, [f"{engine.address}: {format_count(check.events, 'event')}; left out: {runs}, {texts}"], 0


def _upgrade(project: Project, options: Mapping[str, Any], as_json: bool) -> Answer:  # noqa: FBT001 - as the table calls it
    with _open_book(project) as (part, engine):
        what = f"keeps machines with an older version out of the book {part.name} until they upgrade"
        _require_consent("upgrade", what, options, as_json=as_json)
        before, after = operations.upgrade(project, part, engine)
    done = f"The book follows rules {after}, before {before}; machines with an older version must upgrade to go on"
    return {"before": before, "after": after}, [done], 0


def _publish(project: Project, options: Mapping[str, Any], as_json: bool) -> Answer:  # noqa: FBT001 - as the table calls it
    with _open_book(project) as (part, engine):
        what = f"publishes a text that was masked in the book {part.name}, as it is"
        _require_consent("publish", what, options, as_json=as_json)
        name, result = operations.publish(project, part, engine, options["event"] or "")
    lines = [f"The text of {name} was published as it is", *operations.result_lines(result)]
    return operations.to_json(result), lines, 0


def _turn_off(project: Project, *_options: Any) -> Answer:
    part = membership.load(project)
    was_shared = part is not None
    with ExitStack() as stack:
        # A sync that runs would note its end, and turn sharing on again; where nothing can be written, none runs.
        with suppress(CannotWriteError):
            stack.enter_context(replica.lock(project.ledger, _OFF_WAIT_MS) if was_shared else nullcontext())
        was_shared |= membership.forget(project)
    done = "Sharing is off. The playbook keeps what it has"
    if part is not None:
        done += f"; to turn it on again, run: {membership.command_of(part)}"
    return {"shared": False, "was_shared": was_shared}, [done], 0


def _members(project: Project, *_options: Any) -> Answer:
    with _open_book(project) as (part, engine):
        copy = SharedLog(project.ledger).copy
        try:
            found = operations.find_members(copy, part.writer, engine)
        except UnreachableError as error:
            note(str(error))
            found = operations.find_members(copy, part.writer, None)
    return found, operations.member_lines(found), 0


ACTIONS: Final[dict[str, Callable[[Project, Mapping[str, Any], bool], Answer]]] = {
    "status": _status,
    "members": _members,
    "verify": _verify,
    "repair": _repair,
    "upgrade": _upgrade,
    "publish": _publish,
    "off": _turn_off,
}
"""Word after `share` → the function that does it."""
_TAKEN: Final = {"repair": {"yes", "without"}, "upgrade": {"yes"}, "publish": {"yes"}, "off": {"yes"}}
"""Action → the options that it takes. Joining takes `_NO_OPTIONS`, and how it logs in."""
