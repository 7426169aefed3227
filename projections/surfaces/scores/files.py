"""The score files on disk: those that differ from the ledger are written, and no other files are touched."""

from __future__ import annotations

from collections.abc import Iterator
import os
from pathlib import Path
import stat
from typing import Final, NamedTuple

from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.storage import disk
from tallybook.projections.scores import view
from tallybook.projections.scores.view import KINDS, Scores
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores.configuration import PLACE, state_of
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

LOCK: Final = "scores.lock"
KEY: Final = "scoring.storage.path"
_FOREIGN_SHOWN: Final = 5
MOST_COMPARED: Final = 2_000
"""`score` compares the files of so many sessions, those that changed last, and `replay` those of all."""


class Written(NamedTuple):
    """What became of the score files.

    Attributes:
        folder: Where they are.
        written: How many were written.
        deleted: How many were deleted, because they are no longer wanted.
        foreign: Files among them that are not score files, by path in the folder; they stay as they are.
    """

    folder: Path
    written: int = 0
    deleted: int = 0
    foreign: tuple[str, ...] = ()


def folder_of(project: Project, path: str) -> Path:
    """Return the folder of the score files.

    Raises:
        BadInputError: It is outside of the project, in the ledger's folder, or contains that folder.
    """
    folder = project.root / path
    # Files in the folder are deleted, so that neither the ledger nor anything outside the project may lie there.
    real, root, ledger = (Path(os.path.realpath(path)) for path in (folder, project.root, project.ledger))
    for is_wrong, problem, hint in (
        (not real.is_relative_to(root), "is outside the project", "name a folder in it"),
        (real.is_relative_to(ledger), "is in the ledger's folder", "name another"),
        (ledger.is_relative_to(real), "has the ledger and playbook.json in it", "name another"),
    ):
        if is_wrong:
            raise BadInputError(PLACE, f"{KEY} {path!r} {problem}", hint)
    return folder


def has_scores(project: Project) -> bool:
    """Return whether anything may be scored, without decoding the ledger.

    With a configuration of the project's own, events of the playbook may be scored as well.
    """
    log = open_own_log(project)
    # The replay of a ledger without scores loads nothing of them.
    has_scored_events = any(log.may_contain(f'"kind":"{KIND_OF[kind]}"'.encode()) for kind in KINDS)
    return has_scored_events or (project.root / PLACE).exists()


def rebuild(project: Project) -> Iterator[str]:
    """Write every score file that differs from the ledger, and yield what to report, a line each.

    Raises:
        TallybookError: The configuration is invalid, or a file cannot be written.
    """
    if not has_scores(project):
        return
    result = write_files(project, state_of(project), every=True)
    if result.written or result.deleted:
        yield f"{result.folder}: {format_count(result.written, 'score file')} written, {result.deleted} deleted"
    for place in result.foreign[:_FOREIGN_SHOWN]:
        yield f"{result.folder / place} is not a score file of Tallybook's and was left as it is"
    if len(result.foreign) > _FOREIGN_SHOWN:
        yield f"{len(result.foreign) - _FOREIGN_SHOWN} more such files"


def check(project: Project) -> None:
    """Compare the score files with the ledger; expired files and files of other programs are ignored.

    Raises:
        DriftError: Some are missing, or differ.
    """
    if not has_scores(project):
        return
    state = state_of(project)
    folder = folder_of(project, state.config.storage.path)
    places = [
        place
        for place, document in (view.files(state) if state.config.enabled else ())
        # Something other than a file under this name is not Tallybook's, and replay names it.
        if _read(folder / place) not in {None, view.document_bytes(document)}
    ]
    if places:
        others = f", and {format_count(len(places) - 1, 'more such file')}" if len(places) > 1 else ""
        raise commands.DriftError(folder / places[0], f"is missing or differs from the ledger{others}")


def refresh(project: Project, state: Scores) -> Iterator[str]:
    """Write the score files that are out of date, and yield a line where that is not possible.

    A file that cannot be written is no error: the caller asked for scores, not for files.

    Raises:
        BadInputError: The configuration names a folder that cannot be used.
    """
    try:
        write_files(project, state)
    except BadInputError:
        raise
    except (TallybookError, OSError) as error:
        # Nothing was to be recorded, so that part of the message would only confuse.
        why = disk.reason(error) if isinstance(error, OSError) else str(error).partition("; nothing was recorded")[0]
        yield f"the score files are not up to date: {why}"


def write_files(project: Project, state: Scores, *, every: bool = False) -> Written:
    """Compare the score files with what they should be, write those that differ, and delete those no longer wanted.

    Args:
        project: Whose files.
        state: What was scored, counted, at the end of the ledger.
        every: Compare all files. Otherwise a longer history is looked at as far as MOST_COMPARED says, and none is
            deleted there.

    Raises:
        BadInputError: The folder is outside the project.
        LockHeldError: Another process writes them.
        CannotWriteError: A file cannot be written.
    """
    folder = folder_of(project, state.config.storage.path)
    # Where nothing was ever scored, a command makes no folder.
    if not state.config.enabled or not (state.last_at or folder.exists()) or not project.ledger.exists():
        return Written(folder)
    with disk.hold_lock(project.ledger / LOCK, disk.LOCK_WAIT_MS):
        # Files that show what was appended meanwhile are not set back.
        if open_own_log(project).head().seq > state.seq:
            return Written(folder)
        most = None if every or len(state.scored) <= MOST_COMPARED else MOST_COMPARED
        wanted = dict(view.files(state, most))
        foreign = [path.name for path in _list_files(folder, "") if path.name not in view.KEYS]
        written = deleted = 0
        for place, document in wanted.items():
            path, data = folder / place, view.document_bytes(document)
            present = _read(path)
            if present is None:
                foreign.append(place)
            elif present != data:
                # A link is refused: the file would be written outside the folder.
                disk.make_folder(path.parent, durable=False)
                # Not flushed: there may be very many, and each can be written again.
                disk.replace_file(path, data, durable=False)
                written += 1
        for path in (path for name in view.KEYS if most is None for path in _list_files(folder, name)):
            place = f"{path.parent.name}/{path.name}"
            if place in wanted:
                continue
            if path.suffix == view.SUFFIX and view.is_score_file(path.parent.name, path.name, _read(path) or b""):
                path.unlink(missing_ok=True)
                deleted += 1
            else:
                foreign.append(place)
        return Written(folder, written, deleted, tuple(foreign))


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, empty where it is missing; None where something other than a file has its name."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _list_files(folder: Path, name: str) -> list[Path]:
    """Return the paths in an inner folder without hidden ones; none where it is a link."""
    inner = folder / name
    if inner.is_symlink() or not inner.is_dir():
        return []
    return sorted(path for path in inner.iterdir() if not path.name.startswith("."))
