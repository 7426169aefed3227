"""Another ledger to read: a file of lines, a folder, or the ledger in a commit, with every history in it."""

from __future__ import annotations

from contextlib import contextmanager
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.head import check_format
from tallybook.projections.surfaces.workspace import git
from tallybook.projections.surfaces.workspace.project import CLAUDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.reading.histories import Histories
    from tallybook.projections.surfaces.workspace.project import Project

_GIT: Final = "git:"
_PLACES: Final = ("", "ledger", f"{CLAUDE}/ledger")
_HINT: Final = "give a file of events, a ledger's or a project's folder, or git:REV; nothing was recorded"


def add_source(project: Project, source: str, histories: Histories) -> None:
    """Add every history in a ledger.

    Args:
        project: The project, in whose repository a revision is looked up.
        source: What a person typed: a file, a folder, or ``git:REV``.
        histories: Gets them.

    Raises:
        BadInputError: There is no such ledger.
        NewerLedgerError: Its format is from the future.
    """
    with _open(project, source) as copy:
        if not histories.add_file(copy.fd, copy.size, copy.pending_ids, sealed=True):
            raise BadInputError(f"--ledger {source}", "has no event that its chain proves", _HINT)


@contextmanager
def _open(project: Project, source: str) -> Iterator[git.Copy]:
    if source.startswith(_GIT):
        with _open_revision(project, source) as copy:
            yield copy
        return
    path = _find_file(source)
    try:
        fd = disk.open_file(path, write=False)
    except (CannotWriteError, OSError) as error:
        why = error.reason if isinstance(error, CannotWriteError) else disk.reason(error)
        raise BadInputError(f"--ledger {source}", f"cannot be read: {why}", _HINT) from error
    try:
        check_format(fd, path)
        yield git.Copy(fd, os.fstat(fd).st_size, redaction.pending_ids(path.parent))
    finally:
        os.close(fd)


@contextmanager
def _open_revision(project: Project, source: str) -> Iterator[git.Copy]:
    try:
        commit = git.commit_of(project.root, source.removeprefix(_GIT))
    except git.FAILURES as error:
        raise BadInputError(f"--ledger {source}", git.no_commit(error), _HINT) from error
    try:
        with git.ledger_in(commit, project) as copy:
            if copy is None:
                raise BadInputError(f"--ledger {source}", f"commit {commit.name} has no ledger in its place", _HINT)
            yield copy
    except git.FAILURES as error:
        raise BadInputError(f"--ledger {source}", git.failure_reason(error), _HINT) from error


def _find_file(source: str) -> Path:
    """Return the file of events that a person means, without links on the way."""
    given = Path(os.path.realpath(source))
    if given.is_dir():
        for place in _PLACES:
            if (given / place / LOG_NAME).is_file():
                return Path(os.path.realpath(given / place / LOG_NAME))
        raise BadInputError(f"--ledger {source}", "is a folder without a ledger", _HINT)
    return given
