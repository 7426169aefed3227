"""Finish a pending redaction: append the event, overwrite the files, then the log.

Any command that writes finishes one that was interrupted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.encoding import codec
from tallybook.ledger.errors import CannotWriteError, OutcomeUnknownError, TallybookError
from tallybook.ledger.events import EventRedacted
from tallybook.ledger.storage import caches, disk, redacted_digests, redaction
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.writing import overwrite_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.storage.redaction import PendingRedaction
    from tallybook.projections.surfaces.workspace.project import Project


@attrs.frozen
class Erasure:
    """What a redaction erased on disk.

    Attributes:
        files: Files in which the text was overwritten.
        stands: Where the text still is, and why, a line each.
        foreign: Files in the agent's folder that hold it and are not Tallybook's.
        unsearched: Other people's files that could not be searched, such as a link out of the folder, a line each.
    """

    files: tuple[Path, ...] = ()
    stands: tuple[str, ...] = ()
    foreign: tuple[Path, ...] = ()
    unsearched: tuple[str, ...] = ()


def finish(project: Project, log: JsonlLog) -> Erasure:
    """Finish the pending redaction: append its events, overwrite the texts in the files, and last in the log.

    If it is killed at any point, the next writer begins it again; readers leave the texts out all the while.

    Raises:
        TallybookError: The ledger is held, damaged, or could not be written.
    """
    owed = redaction.read_pending(log.folder)
    if owed is None:
        return Erasure()
    _say(log, owed)
    _await_rendering(project)
    uncleared = cache_files.clear(log.folder)
    done = search(project, owed.texts, overwriting=True)
    done = attrs.evolve(done, stands=(*done.stands, *uncleared))
    try:
        with log.transaction() as tx:
            redaction.erase(log.path, tx.read(), frozenset(owed.ids))
            # Another process may have finished it, and a third may have requested more since.
            if not done.stands and redaction.read_pending(log.folder) == owed:
                redaction.remove_pending(log.folder)
    except (CannotWriteError, OutcomeUnknownError) as error:
        return attrs.evolve(done, stands=(*done.stands, str(error)))
    return done


def _say(log: JsonlLog, owed: PendingRedaction) -> None:
    """Append ``event.redacted`` for each event that has none yet."""
    with log.transaction() as tx:
        said = _said(batch for batch in tx.read() if redaction.redacted_ids(batch))
        drafts = [codec.encode(EventRedacted(id_, owed.reason)) for id_ in owed.ids if id_ not in said]
        if drafts and (batch := tx.append(drafts, owed.by)) is not None:
            said |= _said([batch])
        redacted_digests.name_events(log.folder, said)


def _said(batches: Iterable[RawBatch]) -> dict[str, int]:
    """Return id of a redacted event → number of the event that records its redaction."""
    records = (record for batch in codec.decode(batches) for record in batch.records)
    return {record.event.id: record.seq for record in records if isinstance(record.event, EventRedacted)}


def _await_rendering(project: Project) -> None:
    """Wait for a rendering or a checkpoint that may have begun before the event; later ones hold no such text.

    A temporary file that still holds it belongs to a killed process, and is never renamed.

    Raises:
        LockHeldError: It takes too long.
    """
    ledger = project.ledger
    cache = caches.find_folder(ledger)
    stored = [path for path in (Path(cache, cache_files.LOCK),) if path.exists()] if cache is not None else []
    for path in (ledger / "render.lock", *stored):
        fd = disk.open_file(path, write=True, create=True)
        try:
            disk.lock(fd, path, disk.LOCK_WAIT_MS)
        finally:
            os.close(fd)


def search(project: Project, texts: Collection[str], *, overwriting: bool) -> Erasure:
    """Find every file that holds one of these texts, and overwrite it in Tallybook's own files if asked to."""
    found: dict[str, list[Any]] = {"files": [], "stands": [], "foreign": [], "unsearched": []}
    forms, cut = overwrite_text.spellings(texts), overwrite_text.cut_spellings(texts)
    for path, own in overwrite_text.files(project) if texts else ():
        wanted = (*forms, *cut) if path.parent.name == "diagnostic" else forms
        try:
            if own and (overwrite_text.overwrite if overwriting else overwrite_text.holds)(path, wanted):
                found["files"].append(path)
            if not own and overwrite_text.holds(path, wanted):
                found["foreign"].append(path)
            elif own and overwriting and overwrite_text.holds(path, wanted):
                found["stands"].append(f"{path}: contains it in a spelling that cannot be overwritten; delete the file")
        except (TallybookError, OSError) as error:
            # A file that was deleted in the meantime holds nothing; one that cannot be read may.
            if path.exists():
                found["stands" if own else "unsearched"].append(f"{path}: could not be searched: {error}")
    return Erasure(**{what: tuple(those) for what, those in found.items()})
