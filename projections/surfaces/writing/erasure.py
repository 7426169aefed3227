"""Erasure of redacted texts: find a text in the project's files in every spelling, and overwrite it in place.

A pending redaction is finished in this order: append its event, overwrite the files, then the log. Any command that
writes finishes one that was interrupted.
"""

from __future__ import annotations

from contextlib import suppress
import json
import os
from pathlib import Path
import re
import stat
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.encoding import codec
from tallybook.ledger.errors import (
    CannotWriteError,
    DamagedLedgerError,
    LockHeldError,
    OutcomeUnknownError,
    TallybookError,
)
from tallybook.ledger.events import EventRedacted
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.sharing import replica
from tallybook.ledger.sharing.equal_texts import own_texts
from tallybook.ledger.storage import caches, disk, redacted_digests, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.writing.text_search import TextSearch, find_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.storage.redaction import PendingRedaction
    from tallybook.projections.surfaces.workspace.project import Project

_WINDOW_BYTES = 1024 * 1024
# Larger files are not JSON of Tallybook, and are only searched byte by byte.
_MAX_JSON_BYTES = 16 * 1024 * 1024
# The ledger overwrites its log itself; the other files hold no text, or are rendered again.
_DIGESTS = f"ledger/{redacted_digests.FOLDER}/{redacted_digests.NAME}"
_APART = frozenset({"ledger/events.jsonl", "ledger/head", "ledger/lock", "ledger/erasing", "playbook.json", _DIGESTS})
# Copies of a shared book are erased like the log.
_COPY = re.compile(rf"ledger/{replica.FOLDER}/[^/]+/({LOG_NAME}|head|{redaction.PENDING_FILE})")
# Where the agent keeps whole checkouts of the repository: copies like any other.
_CHECKOUTS = "worktrees"
# The files that Tallybook writes in the agent's folder besides its score files; other files there are foreign.
_OWN = re.compile(
    r"ledger/.+|playbook\.json\.unreadable-[^/]+|\.playbook\.json\.\d+\.tmp|diagnostic/\d{8}T\d{12}Z_[^/]+\.txt",
    re.DOTALL,
)
_SCORES = "metrics/scores"
_FOLDERS = ("ledger", "diagnostic", _SCORES)
# Files that Tallybook reads again; it reads no diagnostics, nor what it set aside.
_READ = ("ledger/", "metrics/")


def files(project: Project) -> Iterator[tuple[Path, bool]]:
    """Yield every file in the agent's folder but the log and the playbook, and whether it is Tallybook's.

    Folders that cannot be listed and links that lead out of the folder are among them: they cannot be searched.
    Checkouts are left out: what is Tallybook's in them belongs to another folder.
    """
    claude = project.claude
    closed: list[Path] = []
    for folder, folders, names in os.walk(claude, onerror=lambda error: closed.append(Path(error.filename))):
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        if Path(folder) == claude:
            folders[:] = [name for name in folders if name != _CHECKOUTS]
        for name in sorted((*names, *linked)):
            path = Path(folder, name)
            place = path.relative_to(claude).as_posix()
            if place not in _APART and not _COPY.fullmatch(place) and _may_hold(path, claude):
                yield path, _is_own(path, place) and not path.is_symlink()
    # What cannot be listed may hold files of ours.
    yield from ((path, path.relative_to(claude).as_posix().startswith(_FOLDERS)) for path in closed)


def _is_own(path: Path, place: str) -> bool:
    """Return whether Tallybook writes files of this name, and of this content where others use such names too."""
    if not place.startswith(f"{_SCORES}/"):
        return _OWN.fullmatch(place) is not None
    # Slow to load, and only a project that is scored has such files.
    from tallybook.projections.scores import files as score_files

    try:
        document = json.loads(disk.read_file(path))
    except (OSError, ValueError, RecursionError, TallybookError):
        return False
    return score_files.is_score_file(path.parent.name, path.name, document)


def _may_hold(path: Path, claude: Path) -> bool:
    """Return whether a path in the agent's folder is a file, or a link to something elsewhere."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if stat.S_ISLNK(mode):
        return path.exists() and not path.resolve().is_relative_to(claude.resolve())
    return stat.S_ISREG(mode)


def holds(
    path: Path,
    wanted: TextSearch,
    span: tuple[int, int] | None = None,
    *,
    is_read: bool = False,
    is_cut: bool = False,
) -> bool:
    """Return whether a file holds one of the texts.

    Args:
        path: The file.
        wanted: The texts.
        span: The range of bytes to search; None for the whole file.
        is_read: As for `TextSearch.find`.
        is_cut: As for `TextSearch.find`.

    Raises:
        OSError: It cannot be read.
        CannotWriteError: It is not a regular file.
    """
    fd = disk.open_file(path, write=False)
    try:
        begin, end = span or (0, os.fstat(fd).st_size)
        if end - begin > _MAX_JSON_BYTES:
            return next(_places(fd, (begin, end), wanted.needles), None) is not None
        return wanted.holds(read_at(fd, end - begin, begin), is_read=is_read, is_cut=is_cut)
    finally:
        os.close(fd)


def overwrite(path: Path, wanted: TextSearch, *, is_read: bool = False, is_cut: bool = False) -> bool:
    """Overwrite the texts in a file with as many asterisks, durably; arguments as for `holds`.

    Returns:
        Whether there was one.

    Raises:
        CannotWriteError: It cannot be overwritten.
        OutcomeUnknownError: The disk would not confirm it.
    """
    try:
        fd = disk.open_file(path, write=True)
        try:
            size = os.fstat(fd).st_size
            if size > _MAX_JSON_BYTES:
                places = list(_places(fd, (0, size), wanted.needles))
            else:
                places = list(wanted.find(read_at(fd, size, 0), is_read=is_read, is_cut=is_cut))
            for begin, end in places:
                os.lseek(fd, begin, os.SEEK_SET)
                disk.write_all(fd, b"*" * (end - begin), path)
            if places:
                disk.flush(fd, path)
        finally:
            os.close(fd)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the text is still in it") from error
    return bool(places)


def _places(fd: int, span: tuple[int, int], needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the place of each of these spellings in a range of a file, as (begin, end) offsets."""
    overlap = max(map(len, needles), default=1) - 1
    for position in range(*span, _WINDOW_BYTES):
        window = read_at(fd, min(_WINDOW_BYTES + overlap, span[1] - position), position)
        yield from ((position + begin, position + end) for begin, end in find_bytes(window, needles))


@attrs.frozen
class Erasure:
    """What a redaction erased on disk.

    Attributes:
        files: Files in which the text was overwritten.
        remaining: Where the text still is, and why, a line each.
        foreign: Files in the agent's folder that hold it and are not Tallybook's.
        unsearched: Other people's files that could not be searched, such as a link out of the folder, a line each.
    """

    files: tuple[Path, ...] = ()
    remaining: tuple[str, ...] = ()
    foreign: tuple[Path, ...] = ()
    unsearched: tuple[str, ...] = ()


def finish(project: Project, log: JsonlLog) -> Erasure:
    """Finish the pending redaction: append its events, overwrite the texts in the files, and last in the log.

    If it is killed at any point, the next writer begins it again; readers leave the texts out all the while.

    Raises:
        TallybookError: The ledger is held, damaged, or could not be written.
    """
    pending = redaction.read_pending(log.folder)
    if pending is None:
        return Erasure()
    # Of a shared project: event numbers and offsets are those of the own ledger alone.
    log = JsonlLog(log.folder, log.now)
    _note_in_copies(log.folder, pending)
    _append_events(log, pending)
    _await_rendering(project)
    uncleared = cache_files.clear(log.folder)
    done = search(project, pending.texts, overwriting=True)
    remaining = (*done.remaining, *uncleared, *_erase_in_copies(log.folder, pending))
    done = attrs.evolve(done, remaining=remaining)
    try:
        with log.transaction() as tx:
            redaction.erase(log.path, tx.read(), frozenset(pending.ids))
            # Another process may have finished it, and a third may have requested more since.
            if not done.remaining and redaction.read_pending(log.folder) == pending:
                redaction.remove_pending(log.folder)
    except (CannotWriteError, OutcomeUnknownError) as error:
        return attrs.evolve(done, remaining=(*done.remaining, str(error)))
    finally:
        log.close()
    return done


def copies(ledger: Path) -> list[Path]:
    """Return the folders of every copy of a shared book, those that were set aside included."""
    return sorted(path.parent for path in ledger.glob(f"{replica.FOLDER}/*/{LOG_NAME}"))


def _note_in_copies(ledger: Path, pending: PendingRedaction) -> None:
    """List the events in each copy of a shared book, so that nobody reads their texts there from now on.

    The list stays, because the book may not say yet that they are redacted.
    """
    for folder in copies(ledger):
        with suppress(TallybookError):
            before = redaction.read_pending(folder)
            ids = dict.fromkeys((*(before.ids if before else ()), *_ids_in_copy(folder, pending.ids)))
            # Without the texts: the file stays.
            note = redaction.PendingRedaction(tuple(ids), (), pending.reason or "redacted", pending.by)
            redaction.write_pending(folder, note)
            cache_files.clear(folder)


def _ids_in_copy(folder: Path, ids: Collection[str]) -> Collection[str]:
    """Return the events of a copy of a shared book that are to be redacted in it."""
    try:
        return own_texts(JsonlLog(folder).read(), ids)
    except DamagedLedgerError:
        # A copy that was set aside.
        return ids


def _erase_in_copies(ledger: Path, pending: PendingRedaction) -> list[str]:
    """Erase the texts of events in the copies of a shared book; return what could not be erased, a line each."""
    _note_in_copies(ledger, pending)
    remaining: list[str] = []
    folders = copies(ledger)
    if not folders:
        return remaining
    try:
        # Who takes the lock of syncs removes what an interrupted append left; a sync that runs has done it.
        with suppress(LockHeldError), replica.lock(ledger, 0):
            pass
    except TallybookError as error:
        remaining.append(str(error))
    for folder in folders:
        copy = JsonlLog(folder)
        try:
            listed = redaction.read_pending(folder)
            ids = (*(listed.ids if listed else ()), *_ids_in_copy(folder, pending.ids))
            redaction.erase(copy.path, copy.read(), frozenset(ids))
        except DamagedLedgerError:
            # One that was set aside: its bytes prove nothing, and are searched like those of any file.
            overwrite(copy.path, TextSearch(pending.texts))
        except TallybookError as error:
            remaining.append(f"{copy.path}: not erased: {error}")
    return remaining


def _append_events(log: JsonlLog, pending: PendingRedaction) -> None:
    """Append ``event.redacted`` for each event that has none yet."""
    with log.transaction() as tx:
        redacted = _redacted_by(batch for batch in tx.read() if redaction.redacted_ids(batch))
        drafts = [codec.encode(EventRedacted(id_, pending.reason)) for id_ in pending.ids if id_ not in redacted]
        if drafts and (batch := tx.append(drafts, pending.by)) is not None:
            redacted |= _redacted_by([batch])
        redacted_digests.name_events(log.folder, redacted)


def _redacted_by(batches: Iterable[RawBatch]) -> dict[str, int]:
    """Return id of a redacted event → number of the event that records its redaction."""
    records = (record for batch in codec.decode(batches) for record in batch.records)
    return {record.event.id: record.seq for record in records if isinstance(record.event, EventRedacted)}


def _await_rendering(project: Project) -> None:
    """Wait for a rendering or a checkpoint that may have begun before the event; later ones hold no such text.

    A temporary file that still holds it belongs to a killed process, and is never renamed.

    Raises:
        LockHeldError: It takes too long.
    """
    locks = {project.ledger / "render.lock": True}
    cache = caches.find_folder(project.ledger)
    if cache is not None:
        locks[Path(cache, cache_files.LOCK)] = False
    for path, create in locks.items():
        try:
            fd = disk.open_file(path, write=True, create=create)
        except FileNotFoundError:
            # Nobody stored a checkpoint yet, or another redaction removed the cache just now.
            continue
        try:
            disk.lock(fd, path, disk.LOCK_WAIT_MS)
        finally:
            os.close(fd)


def search(project: Project, texts: Collection[str], *, overwriting: bool) -> Erasure:
    """Find every file that holds one of these texts, and overwrite it in Tallybook's own files if ``overwriting``."""
    done: dict[str, list[Any]] = {"files": [], "remaining": [], "foreign": [], "unsearched": []}
    wanted = TextSearch(texts)
    for path, own in files(project) if texts else ():
        is_cut = path.parent.name == "diagnostic"
        is_read = own and path.relative_to(project.claude).as_posix().startswith(_READ)
        try:
            if own and (overwrite if overwriting else holds)(path, wanted, is_read=is_read, is_cut=is_cut):
                done["files"].append(path)
            if not own and holds(path, wanted, is_cut=is_cut):
                done["foreign"].append(path)
            elif own and overwriting and holds(path, wanted, is_read=is_read, is_cut=is_cut):
                done["remaining"].append(
                    f"{path}: contains it in a spelling that cannot be overwritten; delete the file"
                )
        except (TallybookError, OSError) as error:
            # A file that was deleted in the meantime holds nothing; one that cannot be read may.
            if path.exists():
                done["remaining" if own else "unsearched"].append(f"{path}: could not be searched: {error}")
    return Erasure(**{field: tuple(paths) for field, paths in done.items()})
