"""What git, or a copy, did to the project's log file: recognised from its lines, the head and the repository."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
import os
import shlex

import attrs

from tallybook.ledger import histories
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, NewerLedgerError, Problem
from tallybook.ledger.histories import Histories, Link
from tallybook.ledger.line import CHAIN_END, CHAIN_MARK, LOG_NAME
from tallybook.ledger.search import find_all
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.head import Head
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import Project

# Versions of the file that are searched for an event.
_MAX_VERSIONS = 100


@attrs.frozen
class Division:
    """Why the log file is not the ledger that was acknowledged, where that is not plain damage.

    Attributes:
        what: What happened, without the name of the file.
        fix: What to do.
    """

    what: str
    fix: str

    def __str__(self) -> str:
        """Return the line that people see."""
        return f"{LOG_NAME}: {self.what}; {self.fix}"


class DividedLedgerError(DamagedLedgerError):
    """The log file has events of two copies of the ledger, or of another copy."""

    def __init__(self, division: Division) -> None:
        """Build the message from what happened and what to do."""
        super().__init__([Problem(LOG_NAME, division.what)])
        self.args = (str(division),)


def explain(project: Project, error: DamagedLedgerError) -> DamagedLedgerError:
    """Return the error that says what happened to the log file; the given one where that is plain damage."""
    division = None if isinstance(error, DividedLedgerError) else recognize(project)
    return error if division is None else DividedLedgerError(division)


def recognize(project: Project) -> Division | None:
    """Return what happened to the log file; None where it is whole or plainly damaged, or cannot be read."""
    with suppress(CannotWriteError, NewerLedgerError, *git.FAILURES):
        return _recognize(project)
    return None


def _recognize(project: Project) -> Division | None:
    """Return what happened to the log file, None where it is whole or plainly damaged."""
    log = open_log(project)
    head = log.read_head()
    own = Histories()
    try:
        fd = disk.open_file(log.path, write=False)
    except FileNotFoundError:
        return _recognize_missing(project, head)
    try:
        own.add_file(fd, os.fstat(fd).st_size, redaction.pending_ids(project.ledger))
    finally:
        os.close(fd)
    paths = [own.path(chain) for chain in own.last()]
    # The acknowledged end that the file lacks.
    lost = head if head is not None and head.position.seq and head.position.chain not in own.links else None
    if own.marker or len(paths) > 1:
        what = _describe_merge(project, own, paths)
    elif own.stray and git.is_tracked(project, log.path):
        what = "has some lines of another version, which git merged into it in part"
    else:
        is_whole = paths and not own.unproven
        return _recognize_other(project, paths[0], lost) if is_whole and lost is not None else None
    return Division(what, _keep_both(_find_source(project, own, lost)))


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
        with suppress(NewerLedgerError), git.ledger_in(commit, project) as copy:
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
    merge = "a git merge" if git.is_tracked(project, project.ledger / LOG_NAME) else "a merge"
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
    if lost is not None and (revision := _revision_of(project, lost)):
        return revision
    with suppress(*git.FAILURES):
        # Lines whose beginning is not in the file.
        if own.stray and (revision := _find(project, own.stray, lambda version: not version.unproven)):
            return f"git:{revision}"
    return _own_file(project)


def _recognize_other(project: Project, path: Sequence[Link], head: Head) -> Division | None:
    """Return what happened if a whole ledger lacks the acknowledged end; None if git has no part in it."""
    if not git.is_tracked(project, project.ledger / LOG_NAME):
        return None
    last, acknowledged = path[-1].batch.last, head.position.seq
    revision = find_version(project, head.position.chain)
    if not revision:
        what = f"ends at event {last}, and event {acknowledged} was acknowledged: git put another version in its place"
        fix = f"no commit here has event {acknowledged}; run {import_command(_own_file(project))} for what can be done"
        return Division(what, fix)
    since = histories.find_fork(path, _path_in(project, revision, head))
    if since == last:
        what = f"ends at event {last}, and event {acknowledged} was acknowledged: git put an older version in its place"
    else:
        what = f"differs from what was acknowledged after event {since}: git put another branch's version in its place"
    return Division(what, _keep_both(f"git:{revision}"))


def _path_in(project: Project, revision: str, head: Head) -> Sequence[Link]:
    """Return the batches up to the acknowledged one in the ledger of a revision."""
    version = Histories()
    with git.ledger_in(git.commit_of(project.root, revision), project) as copy:
        if copy is not None:
            version.add_file(copy.fd, copy.size, copy.pending_ids)
    return version.path(head.position.chain) if head.position.chain in version.links else ()


def _recognize_missing(project: Project, head: Head | None) -> Division | None:
    """Return what happened if git took the file away."""
    if head is not None and head.position.seq and (revision := _revision_of(project, head)):
        what = f"is missing, and held {head.position.seq:,} events: git checked out a commit without it"
        return Division(what, f"run {import_command(revision)}")
    return None


def _revision_of(project: Project, head: Head) -> str:
    """Return ``git:REV`` with the acknowledged end, empty where git has none or does not answer."""
    with suppress(*git.FAILURES):
        if revision := find_version(project, head.position.chain):
            return f"git:{revision}"
    return ""
