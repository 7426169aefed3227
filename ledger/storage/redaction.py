r"""Erasing the free text of events in place, in steps that survive a crash. Standard library only.

1. The file ``erasing`` next to the log lists the events. From then on the redaction is pending, and readers treat
   these texts as erased, whatever is still on disk.
2. ``event.redacted`` is appended for each.
3. The values are overwritten with ``null`` and blanks, so that no offset moves.
4. ``erasing`` is overwritten, its first byte before the others, and removed.

A text that is missing without a pending or recorded redaction is damage.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, dumps
from tallybook.ledger.line import (
    BY_FIELDS,
    CONTINUED,
    FREE_MARK,
    LINE_END,
    LOG_NAME,
    SECTION,
    head_field,
    is_erased,
    parse_sealed_range,
)
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch

PENDING_FILE = "erasing"
NULL = b"null"
REPLACED_TEXT = b'"text":"[redacted]"}}\n'
"""The end of a line whose text was erased elsewhere, before the event came in."""
_CONTINUES = b'"kind":"%b"' % CONTINUED.encode()
_PIECE_BYTES = 1024 * 1024
# More time than a process needs between creating the pending file and renaming it.
_NOTE_NS = 600 * 10**9
# No character takes more than four bytes.
_MAX_PENDING_CHARS = disk.SMALL_BYTES // 4 - 1024
REDACTION = b'"kind":"event.redacted","v":1,"body":{"id":"'


class PendingRedaction(NamedTuple):
    """A redaction that has started and is not finished.

    Attributes:
        ids: The events whose text is erased.
        texts: The texts that must not remain in any file.
        reason: Why.
        by: Who redacts; at least ``rater``.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    reason: str
    by: Mapping[str, str]


NOTHING_PENDING = PendingRedaction((), (), "", {})


def _find_texts(lines: Iterable[bytes]) -> Iterator[tuple[int, str, int, bytes]]:
    """Yield every free value of a batch, as (index of its line, id of its event, where it begins in the batch, bytes).

    A continued text belongs to the event of its first line.
    """
    begin, owner = 0, ""
    for index, line in enumerate(lines):
        head, _, what = line.partition(SECTION)
        if not what.startswith(_CONTINUES):
            owner = head_field(head, b"id")
        core, mark, rest = line.partition(FREE_MARK)
        if mark:
            yield index, owner, begin + len(core) + len(mark), rest[: -len(LINE_END)]
        begin += len(line)


def mask(lines: Sequence[bytes], ids: Collection[str]) -> list[bytes]:
    """Return the lines of a batch as they will be when the texts of these events are erased; no byte moves."""
    masked = list(lines)
    for index, owner, _, text in _find_texts(lines):
        if owner in ids:
            core, mark, rest = lines[index].partition(FREE_MARK)
            masked[index] = core + mark + NULL.ljust(len(text)) + rest[len(text) :]
    return masked


def find_erased(batch: RawBatch) -> list[tuple[int, str]]:
    """Return the lines of a batch whose text is erased, as (event number, event id).

    A sealed range counts as the text of the line that seals it.
    """
    if not batch.lacks_text:
        return []
    if parse_sealed_range(batch.lines[0]) is not None:
        return [(batch.first, head_field(batch.lines[0], b"id"))]
    return [(batch.first + index, owner) for index, owner, _, text in _find_texts(batch.lines) if is_erased(text)]


def read_redacted_ids(batch: RawBatch) -> list[str]:
    """Return the ids that the ``event.redacted`` events of a batch name."""
    return [part.partition(b'"')[0].decode("ascii", "replace") for part in batch.data.split(REDACTION)[1:]]


def _fill(fd: int, offset: int, length: int, first: bytes, path: StrPath) -> None:
    """Write ``first`` and then blanks, ``length`` bytes in all, from an offset on."""
    os.lseek(fd, offset, os.SEEK_SET)
    while length > 0:
        piece = first.ljust(min(length, _PIECE_BYTES))
        disk.write_all(fd, piece, path)
        length -= len(piece)
        first = b""


def find_unexplained(erased: Iterable[tuple[int, str]], explained: Collection[str]) -> list[Problem]:
    """Return a problem for each text that is erased without a redaction."""
    message = "its text was erased without an event.redacted"
    return [Problem(f"{LOG_NAME}: seq {seq}", message, seq) for seq, id_ in erased if id_ not in explained]


def read_pending(folder: StrPath) -> PendingRedaction | None:
    """Return the pending redaction; None without one.

    A pending file that was not written on this machine, such as one from an archive or a clone, is ignored. Where only
    the file itself remains to be removed, the redaction has no ids and no texts.

    Raises:
        CannotWriteError: The file cannot be read, so it is unknown which texts must not be read.
    """
    path = os.path.join(folder, PENDING_FILE)
    try:
        with disk.hold_open(path) as fd:
            disk.refuse_link(folder)
            data = disk.read_at(fd, disk.SMALL_BYTES + 1, 0)
            # Tallybook writes no larger one.
            if len(data) > disk.SMALL_BYTES:
                return None
            # The process that finishes the redaction overwrites the first byte before all others.
            return NOTHING_PENDING if disk.read_at(fd, 1, 0) == b" " else _parse_pending(data, fd)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "it lists texts that must be erased: put it back, or delete it and redact again"
        raise CannotWriteError(path, f"cannot be read: {type(error).__name__}", hint) from error


def is_foreign(folder: StrPath) -> bool:
    """Return whether the ledger's folder has a pending file that was not written on this machine, so is ignored."""
    return os.path.lexists(os.path.join(folder, PENDING_FILE)) and read_pending(folder) is None


def _parse_pending(data: bytes, fd: int) -> PendingRedaction | None:
    """Return what an open pending file says, None where it was not written on this machine."""
    import json  # noqa: PLC0415 - slow to load, and rarely needed

    value: Any = json.loads(data)
    redaction = PendingRedaction(tuple(value["ids"]), tuple(value["texts"]), value["reason"], value["by"])
    texts: list[object] = [redaction.reason, *redaction.ids, *redaction.texts, *redaction.by.values()]
    if not all(isinstance(text, str) and text for text in texts):
        raise TypeError("expected texts")
    # An author that no event can have would keep the redaction pending for ever.
    if not {"rater"} <= redaction.by.keys() <= {*BY_FIELDS} or {type(value["ids"]), type(value["texts"])} != {list}:
        raise TypeError("expected an author, and two lists")
    return redaction if _is_proven(value.get("proof"), fd) else None


def _proof(fd: int) -> dict[str, Any]:
    """Return facts that only this machine knows about a file that it has just created: boot id, inode, time."""
    file = os.fstat(fd)
    return {"boot": disk.boot_id(), "file": file.st_ino, "made": file.st_ctime_ns}


def _is_proven(proof: object, fd: int) -> bool:
    """Return whether a pending file was written on this machine: in the present boot, or as this very inode.

    A file from elsewhere cannot know the boot id, and an archive cannot set the inode and its change time.
    """
    if not isinstance(proof, dict):
        return False
    if proof.get("boot") and proof.get("boot") == disk.boot_id():
        return True
    now, made = os.fstat(fd), proof.get("made")
    return proof.get("file") == now.st_ino and type(made) is int and 0 <= now.st_ctime_ns - made < _NOTE_NS


def read_pending_ids(folder: StrPath) -> frozenset[str]:
    """Return the events whose text readers must treat as erased although it may still be on disk."""
    return frozenset((read_pending(folder) or NOTHING_PENDING).ids)


def add_pending(folder: StrPath, ids: Iterable[str], texts: Iterable[str], reason: str, by: Mapping[str, str]) -> None:
    """Add events and texts to the pending redaction, or begin one with them, durably, before anything is erased.

    Raises:
        CannotWriteError: It cannot be written; nothing was redacted.
        OutcomeUnknownError: The disk did not confirm its name.
    """
    path, before = os.path.join(folder, PENDING_FILE), read_pending(folder) or NOTHING_PENDING
    every, erased = (list(dict.fromkeys(values)) for values in ((*before.ids, *ids), (*before.texts, *texts)))
    value = {"ids": every, "texts": erased, "reason": reason, "by": dict(by)}
    if len(dumps(value)) > _MAX_PENDING_CHARS:
        raise CannotWriteError(path, f"would hold more than {_MAX_PENDING_CHARS:,} characters", "nothing was redacted")
    try:
        disk.replace_file(path, lambda fd: dumps(value | {"proof": _proof(fd)}).encode())
    except CannotWriteError as error:
        raise CannotWriteError(path, error.reason, "nothing was redacted") from error
    # Readers ignore a file that proves nothing, and texts erased without a redaction that they know are damage.
    if read_pending(folder) != (tuple(every), tuple(erased), reason, by):
        raise CannotWriteError(path, "may be a file from elsewhere", "nothing was redacted")


def remove_pending(folder: StrPath) -> None:
    """Overwrite and remove the pending file, once its texts are erased.

    Raises:
        CannotWriteError: It cannot be removed; the next writer tries again.
    """
    path = os.path.join(folder, PENDING_FILE)
    try:
        with suppress(FileNotFoundError):
            _overwrite(path)
            os.unlink(path)
        disk.flush_folder(folder)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error)) from error


def _overwrite(path: StrPath) -> None:
    """Overwrite a file with blanks, durably; one with a second name is removed, as that may be another program's."""
    with disk.hold_open(path, write=True) as fd:
        if os.fstat(fd).st_nlink > 1:
            os.unlink(path)
            return
        # A pending file that is overwritten in part could not be read, so its first byte says that it is finished.
        _fill(fd, 0, 1, b"", path)
        disk.flush(fd, path)
        _fill(fd, 0, os.fstat(fd).st_size, b"", path)
        disk.flush(fd, path)


def erase(path: StrPath, batches: Iterable[RawBatch], ids: Collection[str]) -> None:
    """Erase the texts of these events from the log, in place and durably. The caller holds the lock.

    A sealed range is erased with its copies in quarantine.

    Args:
        path: The log.
        batches: Its batches.
        ids: The events whose text is erased.

    Raises:
        CannotWriteError: It cannot be overwritten, for example because the file is append-only.
        OutcomeUnknownError: The disk did not confirm it.
    """
    try:
        fd = disk.open_file(path, write=True)
    except CannotWriteError as error:
        hint = "readers treat the text as erased; the next command that can overwrite the file erases it"
        raise CannotWriteError(path, error.reason, hint) from error
    with disk.closing(fd):
        for batch in batches:
            span = parse_sealed_range(batch.lines[0])
            if span is not None and head_field(batch.lines[0], b"id") in ids:
                # A seal copied the range to quarantine, with the text in it.
                _erase_copies(os.path.join(os.path.dirname(path), "quarantine"), span[0])
                # The line feed at its end stays: the sealing line begins after it.
                _fill(fd, span[0], span[1] - 1 - span[0], b"", path)
            for _, owner, begin, text in _find_texts(batch.lines):
                if owner in ids:
                    _fill(fd, batch.offset + begin, len(text), NULL, path)
        disk.flush(fd, path)


def _erase_copies(folder: StrPath, begin: int) -> None:
    """Overwrite the copies of the range that begins here; an interrupted seal may have left more than one."""
    disk.refuse_link(folder)
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(f"{begin}-") and name.endswith(".bin"):
                _overwrite(os.path.join(folder, name))
