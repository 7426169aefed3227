"""The score files on disk: only those that changed are written, and no other files are touched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
import json
import os
from pathlib import Path
import stat
from typing import Any, Final, NamedTuple

import msgspec

from tallybook.ledger.errors import BadInputError, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.ledger.events import KIND_OF
from tallybook.ledger.line import Position
from tallybook.ledger.storage import caches, disk
from tallybook.projections.scores import view
from tallybook.projections.scores.view import KINDS, Scores
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores.configuration import PLACE, as_json, state_of
from tallybook.projections.surfaces.workspace.project import Project

LOCK: Final = "scores.lock"
KEY: Final = "scoring.storage.path"
_STAMP: Final = "score-files"
# Increased when the content of score files changes, so that files of earlier versions are written again.
_FORMAT: Final = 3
_DEFAULT_PATHS: Final = (".claude/metrics/scores/",)
_FOREIGN_SHOWN: Final = 5


class Written(NamedTuple):
    """What became of the score files.

    Attributes:
        folder: Where they are.
        written: How many were written.
        deleted: How many were deleted, because they are no longer wanted.
        foreign: Files among them that are not score files, by path in the folder; they stay as they are.
        former: Folders that an earlier configuration named and that still hold score files; they stay as they are.
    """

    folder: Path
    written: int = 0
    deleted: int = 0
    foreign: tuple[str, ...] = ()
    former: tuple[Path, ...] = ()


class _Stamp(NamedTuple):
    """The state of the ledger that the files show.

    Attributes:
        position: The position in the ledger up to which they do.
        made_by: What else decides them: configuration, undos, this boot (they are not flushed), and their format.
        paths: Every ``storage.path`` under which score files were written, the latest last.
    """

    position: tuple[int, str, int]
    made_by: str
    paths: tuple[str, ...]


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
    result = write_files(project, state_of(project), anew=True)
    if result.written or result.deleted:
        yield f"{result.folder}: {format_count(result.written, 'score file')} written, {result.deleted} deleted"
    yield from _remarks(result)


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
    """Write the score files that are out of date, and yield what to report, a line each.

    A file that cannot be written is reported and is not an error: the caller asked for scores, not for files.

    Raises:
        BadInputError: The configuration names a folder that cannot be used.
    """
    try:
        yield from _remarks(write_files(project, state))
    except BadInputError:
        raise
    except (TallybookError, OSError) as error:
        # Nothing was to be recorded, so that part of the message would only confuse.
        why = disk.reason(error) if isinstance(error, OSError) else str(error).partition("; nothing was recorded")[0]
        yield f"the score files are not up to date: {why}"


def _remarks(result: Written) -> Iterator[str]:
    for place in result.foreign[:_FOREIGN_SHOWN]:
        yield f"{result.folder / place} is not a score file of Tallybook's and was left as it is"
    if len(result.foreign) > _FOREIGN_SHOWN:
        yield f"{len(result.foreign) - _FOREIGN_SHOWN} more such files"
    for former in result.former:
        yield f"{former}: score files of an earlier storage.path stay as they are; delete them if nothing reads them"


def write_files(project: Project, state: Scores, *, anew: bool = False) -> Written:
    """Compare the score files with what they should be, write those that differ, and delete those no longer wanted.

    Args:
        project: Whose files.
        state: What was scored, counted, at the end of the ledger.
        anew: Compare every file. Without it, those that what was recorded since the last time changes: outdated files
            of sessions and versions stay, and foreign files are not named.

    Raises:
        BadInputError: The folder is outside the project.
        LockHeldError: Another process writes them.
        CannotWriteError: A file cannot be written.
    """
    path = state.config.storage.path
    folder, lock = folder_of(project, path), project.ledger / LOCK
    # Where nothing was ever scored, a command makes no folder.
    if not state.config.enabled or not (state.last_at or folder.exists()) or not project.ledger.exists():
        return Written(folder)
    with disk.hold_lock(lock, disk.LOCK_WAIT_MS):
        cache = caches.find_folder(project.ledger)
        # The state that the files show; None where it is not known.
        before: _Stamp | None = None
        with suppress(OSError, CannotWriteError, msgspec.MsgspecError):
            before = msgspec.json.decode(disk.read_file(Path(cache or "", _STAMP)), type=_Stamp)
        paths = (*(former for former in (before.paths if before else _DEFAULT_PATHS) if former != path), path)
        # The files are not flushed: after a power loss, which begins another boot, each is compared again.
        # An undo or a redaction changes sessions that have no later event, so that the count of these is in it, too.
        values = [_FORMAT, disk.boot_id(), as_json(state.config), state.rewrites]
        made_by = sha256(json.dumps(values).encode()).hexdigest()
        now = _Stamp((state.seq, state.chain, state.end), made_by, paths)
        since = None if before is None or anew or not folder.exists() else _find_first_change(project, before, now)
        done = Written(folder) if since == state.seq else _write(folder, state, since)
        if cache is not None and (before is None or since is None or before.position[0] < state.seq):
            with suppress(CannotWriteError):
                caches.make_folder(cache, project.ledger)
                disk.replace_cache_file(Path(cache, _STAMP), msgspec.json.encode(now))
    if since is not None:
        return done
    former_folders = []
    for former in map(project.root.joinpath, paths[:-1]):
        files = (file for name in view.KEYS for file in _list_files(former, name))
        if os.path.realpath(former) != os.path.realpath(folder) and any(map(_document, files)):
            former_folders.append(former)
    return done._replace(former=tuple(former_folders))


def _find_first_change(project: Project, before: _Stamp, now: _Stamp) -> int | None:
    """Return the number of the last event that the files show; None where all files may have changed.

    Files that show a later moment are not set back to an earlier one.
    """
    (shown, chain, _), (seq, now_chain, _), log = before.position, now.position, open_own_log(project)
    if seq < shown <= log.head().seq:
        return seq
    if before.made_by != now.made_by or shown > seq or (shown == seq and chain != now_chain):
        return None
    with suppress(DamagedLedgerError):
        # Reading on there shows whether the files are of this history.
        next(iter(log.read(Position(*before.position))), None)
        return shown
    return None


def _write(folder: Path, state: Scores, since: int | None) -> Written:
    """Write the files that differ and delete those not wanted, of what changed since an event, or of all."""
    touched, versions = None, []
    if since is not None:
        touched = [id_ for id_, (_, last, _) in state.sessions.items() if last > since]
        documents = map(_document, _list_files(folder, view.VERSIONS))
        versions = [document["version"] for document in documents if document is not None]
    written = deleted = 0
    wanted: set[str] = set()
    foreign = [path.name for path in _list_files(folder, "") if path.name not in view.KEYS]
    for place, document in view.files(state, touched, versions):
        wanted.add(place)
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
    for name in view.KEYS:
        only = None if touched is None or name != view.SESSIONS else map(view.file_name, touched)
        for path in _list_files(folder, name, only):
            if (place := f"{name}/{path.name}") in wanted:
                continue
            if _document(path) is None:
                foreign.append(place)
            else:
                path.unlink(missing_ok=True)
                deleted += 1
    # Of what changed alone, few foreign files were seen.
    return Written(folder, written, deleted, () if since is not None else tuple(foreign))


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, empty where it is missing; None where something other than a file has its name."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _list_files(folder: Path, name: str, only: Iterable[str] | None = None) -> list[Path]:
    """Return the paths in an inner folder, or those of these names, without hidden ones; none where it is a link."""
    inner = folder / name
    if inner.is_symlink() or not inner.is_dir():
        return []
    paths = inner.iterdir() if only is None else map(inner.joinpath, only)
    return sorted(path for path in paths if not path.name.startswith("."))


def _document(path: Path) -> dict[str, Any] | None:
    """Return the content of a score file, None for a foreign file: a score file's name follows from its content."""
    data = _read(path) if path.suffix == view.SUFFIX else None
    try:
        document = json.loads(data) if data else None
    except (ValueError, RecursionError):
        return None
    return document if view.is_score_file(path.parent.name, path.name, document) else None
