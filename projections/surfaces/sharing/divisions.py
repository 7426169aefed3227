"""What git, or a copy, did to the project's log file: recognised from its lines, and a whole log put in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
import os
from pathlib import Path
import shlex
from typing import Final

import attrs

from tallybook.ledger import clock, errors, histories
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.events import Event, EventRedacted
from tallybook.ledger.histories import Histories, Link
from tallybook.ledger.line import CHAIN_END, CHAIN_MARK, LOG_NAME, Position, RawBatch, Stamp, frame
from tallybook.ledger.search import find_all
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.head import Head
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.render import playbook_bytes, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.history import checkpoints, playbook_file
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace import git, settings
from tallybook.projections.surfaces.workspace.project import PLAYBOOK_NAME, Project

BY: Final = {"rater": "import"}
"""Who records what an imported ledger brings."""
REASON: Final = "redacted on another branch"
# Versions of the file that are searched for an event.
_MAX_VERSIONS = 100


class DividedLedgerError(errors.DamagedLedgerError):
    """The log file has events of two copies of the ledger, or of another copy.

    Attributes:
        what: What happened, without the name of the file.
        fix: What to do.
    """

    def __init__(self, what: str, fix: str) -> None:
        """Build the message from what happened and what to do."""
        super().__init__([errors.Problem(LOG_NAME, what)])
        self.what, self.fix = what, fix
        self.args = (f"{LOG_NAME}: {what}; {fix}",)


def explain(project: Project, error: errors.DamagedLedgerError) -> errors.DamagedLedgerError:
    """Return the error that says what happened to the log file; the given one where that is plain damage."""
    return error if isinstance(error, DividedLedgerError) else recognize(project) or error


def recognize(project: Project) -> DividedLedgerError | None:
    """Return what happened to the log file; None where it is whole or plainly damaged, or cannot be read."""
    with suppress(errors.CannotWriteError, errors.NewerLedgerError, *git.FAILURES):
        return _recognize(project)
    return None


def _recognize(project: Project) -> DividedLedgerError | None:
    """Return what happened to the log file, None where it is whole or plainly damaged."""
    log, own = open_log(project), Histories()
    head = log.read_head()
    is_missing = not add_own(project, own)
    paths = [own.path(chain) for chain in own.last()]
    # The acknowledged end that the file lacks.
    lost = head if head is not None and head.position.seq and head.position.chain not in own.links else None
    what = ""
    if own.marker or len(paths) > 1:
        what = _describe_merge(project, own, paths)
    elif own.stray and git.is_tracked(log.path):
        what = "has some lines of another version, which git merged into it in part"
    if what:
        return DividedLedgerError(what, _keep_both(_find_source(project, own, lost)))
    if lost is None or own.unproven or not (is_missing or (paths and git.is_tracked(log.path))):
        return None
    end, revision = lost.position.seq, find_version(project, lost.position.chain)
    if is_missing:
        what = f"is missing, and held {end:,} events: git checked out a commit without it"
        return DividedLedgerError(what, _keep_both(f"git:{revision}")) if revision else None
    fix = f"no commit here has event {end}; run {import_command(_own_file(project))} for what can be done"
    what = f"does not have event {end} as it was acknowledged: git put another version in its place"
    return DividedLedgerError(what, _keep_both(f"git:{revision}") if revision else fix)


def add_own(project: Project, every: Histories, *, sealed: bool = False) -> bool:
    """Add every history in the project's own log file, as `Histories.add_file`; return whether there is one."""
    with suppress(FileNotFoundError), disk.hold_open(project.ledger / LOG_NAME) as fd:
        every.add_file(fd, os.fstat(fd).st_size, redaction.pending_ids(project.ledger), sealed=sealed)
        return True
    return False


def repair_hint(project: Project) -> str:
    """Return how to go on with a ledger that is plainly damaged."""
    copy = "run `tallybook import --ledger BACKUP` to repair it from a copy"
    if not (project.ledger / LOG_NAME).exists():
        return copy
    return f"{copy}; without a copy, {import_command(_own_file(project))} says what is lost"


def import_command(source: str) -> str:
    """Return the command that brings a ledger and the project's own together."""
    return f"`tallybook import --ledger {shlex.quote(source)}`"


def find_version(project: Project, chain: str) -> str:
    """Return a revision whose ledger proves a batch with this chain value; empty where git has none.

    Raises:
        OSError, SubprocessError: Git fails.
    """
    needle = CHAIN_MARK + chain.encode() + CHAIN_END
    return _find(project, needle, lambda version: chain in version.links)


def _find(project: Project, needle: bytes, is_right: Callable[[Histories], bool]) -> str:
    """Return a revision whose ledger has these bytes, and histories that are right; empty where git has none."""
    searched: set[str | None] = {None}
    for name, commit in git.revisions(project):
        blob = git.ledger_blob(commit, project)
        if blob in searched or len(searched) > _MAX_VERSIONS:
            continue
        searched.add(blob)
        with suppress(errors.NewerLedgerError), git.ledger_in(commit, project) as copy:
            if copy is not None and next(find_all(copy.fd, (needle,), 0, copy.size), None) is not None:
                version = Histories()
                version.add_file(copy.fd, copy.size, copy.pending_ids)
                if is_right(version):
                    return name
    return ""


def _own_file(project: Project) -> str:
    """Return the log file's path as a person in the current folder would type it."""
    path = os.path.realpath(project.ledger / LOG_NAME)
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _describe_merge(project: Project, own: Histories, paths: Sequence[Sequence[Link]]) -> str:
    """Return what a merge left in the file: conflict markers, or the events of both sides."""
    merge = "a git merge" if git.is_tracked(project.ledger / LOG_NAME) else "a merge"
    since = min((histories.find_fork(paths[0], path) for path in paths[1:]), default=0)
    both = f"events were appended after event {since} on both sides" if since else "it has two beginnings"
    if own.marker:
        return f"has the conflict of {merge} at line {own.marker}: {both if len(paths) > 1 else 'lines of both sides'}"
    return f"has the lines of both sides of {merge}, one after the other: {both}"


def _keep_both(source: str) -> str:
    return f"run {import_command(source)}, which keeps every rating of both"


def _find_source(project: Project, own: Histories, lost: Head | None) -> str:
    """Return what to import after a merge: ``git:REV`` with what the file lacks; the file itself without such."""
    # The merge may have been made on a version without the events of this machine.
    with suppress(*git.FAILURES):
        if lost is not None and (revision := find_version(project, lost.position.chain)):
            return f"git:{revision}"
        # Lines whose beginning is not in the file.
        if own.stray and (revision := _find(project, own.stray, lambda version: not version.unproven)):
            return f"git:{revision}"
    return _own_file(project)


def _add_version(project: Project, revision: str, histories: Histories) -> None:
    """Add every history in the ledger of a revision."""
    with git.ledger_in(git.commit_of(project.root, revision), project) as copy:
        if copy is not None:
            histories.add_file(copy.fd, copy.size, copy.pending_ids, sealed=True)


# ---- A whole log in its place ----


@attrs.frozen
class Repair:
    """A whole log for a project whose own is damaged.

    Attributes:
        data: Its bytes.
        batches: Its batches.
        lost: The last acknowledged event that no copy has; 0 where one has it.
    """

    data: bytes
    batches: tuple[RawBatch, ...]
    lost: int


def plan_repair(project: Project, every: Histories, error: errors.DamagedLedgerError, *, accept_loss: bool) -> Repair:
    """Return a whole log made of what is proven: up to the acknowledged end, if that is anywhere.

    Raises:
        DamagedLedgerError: Acknowledged events are in no copy, and that is not accepted.
    """
    head = open_log(project).read_head()
    lost, end = (0, "") if head is None else head.position[:2]
    if lost and end not in every.links:
        with suppress(*git.FAILURES):
            if revision := find_version(project, end):
                _add_version(project, revision, every)
    if not every.links:
        raise error
    if end in every.links:
        return Repair(*_assemble(project, every, end), 0)
    end = max(every.last(), key=lambda chain: every.links[chain].batch.last)
    if lost and not accept_loss:
        events, it = describe_lost(every.links[end].batch.last, lost)
        what = f"{events} acknowledged, and no copy that was found has {it}"
        raise DividedLedgerError(what, f"give a copy that has {it}, or add --accept-loss to go on without {it}")
    return Repair(*_assemble(project, every, end), lost)


def describe_lost(kept: int, lost: int) -> tuple[str, str]:
    """Return which acknowledged events are in no copy, as the subject of a sentence, and the pronoun for them."""
    return (f"events {kept + 1} to {lost} were", "them") if kept + 1 < lost else (f"event {lost} was", "it")


def _assemble(project: Project, every: Histories, end: str) -> tuple[bytes, tuple[RawBatch, ...]]:
    """Return the log that has the history up to a chain value, and its batches.

    Raises:
        DamagedLedgerError: A text in it is missing without a redaction.
    """
    data = bytearray()
    batches: list[RawBatch] = []
    for link, piece in histories.write_history(every.path(end)):
        batches.append(link.batch._replace(offset=len(data) + len(link.sealed)))
        data += piece
    redacted = {id_ for batch in batches for id_ in redaction.redacted_ids(batch)}
    redacted |= {*redaction.pending_ids(project.ledger)}
    elsewhere = {id_ for link in every.links.values() for id_ in redaction.redacted_ids(link.batch)}
    erased = [one for batch in batches for one in redaction.find_erased(batch) if one[1] not in redacted]
    if problems := redaction.find_unexplained(erased, elsewhere):
        raise errors.DamagedLedgerError(problems)
    if missing := dict.fromkeys(id_ for _, id_ in erased):
        # The redaction is an event of another history; without one here, the text would count as damaged.
        batches.append(frame_import([EventRedacted(id_, REASON) for id_ in missing], batches[-1].position))
        data += batches[-1].raw
    return bytes(data), tuple(batches)


def frame_import(events: Iterable[Event], end: Position) -> RawBatch:
    """Return events of the import as the batch after a position."""
    at = clock.clamp_time(clock.utc_now().at, end.at)
    return frame([encode(event) for event in events], Stamp(end, at, BY, new_id, clock.new_salt))


def put_back(project: Project, repair: Repair, seen: tuple[int, int, int] | None, every: Histories) -> list[str]:
    """Put the whole log in place of the damaged one, which ``identify_log`` saw; return what was set aside."""
    at = clock.utc_now().at
    checkpoints.clear(project.ledger)
    aside = histories.replace_log(project.ledger, repair.data, repair.batches[-1].position, at, seen)
    checkpoints.clear(project.ledger)
    foreign = _set_foreign_playbook_aside(project, repair, every, at)
    return [str(path) for path in (aside, foreign) if path is not None]


def _set_foreign_playbook_aside(project: Project, repair: Repair, every: Histories, at: str) -> Path | None:
    """Take away a ``playbook.json`` that shows another history: it would pass for a manual edit of this one.

    Returns:
        Its new name; None where nothing had to be kept, because it is exactly what its history says.
    """
    data = playbook_file.read_bytes(project.playbook)
    try:
        stamp = read_stamp(read_legacy(data or b"", PLAYBOOK_NAME).stamp)
    except errors.BadInputError:
        return None
    if stamp is None or any(stamp == (batch.last, batch.chain) for batch in repair.batches):
        return None
    if stamp[1] in every.links:
        batches = [link.batch for link in every.path(stamp[1])]
        state = fold_history(PLAYBOOK, lambda: decode(batches))
        if data in {playbook_bytes(state, form) for form in settings.FORMATS}:
            project.playbook.unlink()
            return None
    aside = playbook_file.set_aside(project, at)
    project.playbook.unlink(missing_ok=True)
    return aside


def new_id() -> str:
    """Return a new id of an event."""
    return clock.new_id(clock.utc_now().unix_us)
