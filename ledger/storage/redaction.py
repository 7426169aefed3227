r"""Text that must go: which values of the file it stands in, who says so, and how it is blotted out in place.

A redaction is owed from the moment its ids stand in ``erasing`` beside the log: from then on every reader takes those
texts for gone, whatever the disk still holds. ``event.redacted`` then says so for ever, the values are overwritten
with ``null`` and blanks, so that no offset moves, and ``erasing`` is removed. A text that is gone and was never owed
is damage. Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, read_up_to
from tallybook.ledger.line import BY_FIELDS, CONTINUED, FREE_MARK, SECTION, head_field
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch

PENDING_FILE = "erasing"
FINISHED_FILE = ".erased"
NULL = b"null"
ERASED_TEXT = FREE_MARK + NULL
_CONTINUES = b'"kind":"%b"' % CONTINUED.encode()
SEALS = b',\t"kind":"log.recovered","v":1,'
_BEGIN = b'"body":{"begin":'
_PIECE_BYTES = 1024 * 1024
# How long after the creation of a note its last change may come: time enough to write and rename it.
_NOTE_NS = 600 * 10**9
_REDACTED = b'"kind":"event.redacted","v":1,"body":{"id":"'


class PendingRedaction(NamedTuple):
    """A redaction that was begun and is not finished.

    Attributes:
        ids: The events whose text must go.
        texts: What must not be found in any file any more.
        reason: Why.
        by: Who says so; ``rater`` at least.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    reason: str
    by: Mapping[str, str]


class _Value(NamedTuple):
    """Where a free value stands in a batch's bytes, and whose text it is."""

    line: int
    owner: str
    begin: int
    end: int


def _values(data: bytes) -> Iterator[_Value]:
    """Yield every free value of a batch; a continued text is its first line's."""
    position, owner = 0, ""
    lines = data.split(b"\n")
    for index, line in enumerate(lines):
        head, _, rest = line.partition(SECTION)
        if not rest.startswith(_CONTINUES):
            owner = head_field(head, b"id")
        at = line.find(FREE_MARK)
        if at >= 0:
            # The brace that closes a line comes with the chain on the last.
            end = len(line) - (index < len(lines) - 1)
            yield _Value(index, owner, position + at + len(FREE_MARK), position + end)
        position += len(line) + 1


def mask(data: bytes, ids: Collection[str]) -> bytes:
    """Return a batch as it stands once the texts of these events are blotted out; no byte moves."""
    fresh = bytearray(data)
    for _, owner, begin, end in _values(data):
        if owner in ids:
            fresh[begin:end] = NULL.ljust(end - begin)
    return bytes(fresh)


def find_erased(batch: RawBatch) -> list[tuple[int, str]]:
    """Return the lines of a batch that have no text any more, as (sequence number, id of the event).

    A sealed range is the text of the line that seals it.
    """
    data = batch.data
    if batch.erased:
        return [(batch.first, head_field(data, b"id"))]
    if ERASED_TEXT not in data:
        return []
    return [(batch.first + line, owner) for line, owner, begin, _ in _values(data) if data.startswith(NULL, begin)]


def redacted_ids(batch: RawBatch) -> list[str]:
    """Return the ids of the events that a batch says are redacted."""
    if _REDACTED not in batch.data:
        return []
    return [part.partition(b'"')[0].decode("ascii", "replace") for part in batch.data.split(_REDACTED)[1:]]


def _erasures(batch: RawBatch, ids: Collection[str]) -> Iterator[tuple[int, int, bytes]]:
    """Yield what to overwrite for these events, as (offset, length, first bytes); blanks follow."""
    data = batch.data
    if (span := _sealed_range(batch, ids)) is not None:
        begin, end = span
        # Its line feed stays: the sealing line begins behind it.
        yield begin, end - 1 - begin, b""
    for _, owner, begin, end in _values(data) if FREE_MARK in data else ():
        if owner in ids:
            yield batch.offset + begin, end - begin, NULL


def _sealed_range(batch: RawBatch, ids: Collection[str]) -> tuple[int, int] | None:
    """Return the range that a batch seals, as (begin, end) offsets, where it is one of these events."""
    if SEALS not in batch.data or head_field(batch.data, b"id") not in ids:
        return None
    begin, _, rest = batch.data.partition(SEALS + _BEGIN)[2].partition(b',"end":')
    end = rest.partition(b",")[0]
    return (int(begin), int(end)) if begin.isdigit() and end.isdigit() else None


def _fill(fd: int, length: int, first: bytes, path: StrPath) -> None:
    """Write some bytes and blanks behind them, from where the file stands."""
    while length > 0:
        piece = first.ljust(min(length, _PIECE_BYTES))
        disk.write_all(fd, piece, path)
        length -= len(piece)
        first = b""


def find_unexplained(lost: Iterable[tuple[int, str]], explained: Collection[str], source: str) -> list[Problem]:
    """Return a problem for each text that is gone although no redaction took it."""
    message = "its text was blotted out, and no event.redacted says so"
    return [Problem(f"{source}: seq {seq}", message, seq) for seq, id_ in lost if id_ not in explained]


def read_pending(folder: StrPath) -> PendingRedaction | None:
    """Return the redaction that is not finished, None where there is none.

    A note that was not written on this machine, as one that came with an archive or a clone, is none. Where all is
    done but the note itself stands under its second name, that is one of nothing.

    Raises:
        CannotWriteError: What stands in its place is no note of ours, so nobody knows which texts must not be read.
    """
    path = os.path.join(folder, PENDING_FILE)
    try:
        disk.refuse_link(folder)
        fd = disk.open_file(path, write=False)
        try:
            found, proof = _parse_pending(read_up_to(fd))
            if _is_proven(proof, fd):
                return found
        finally:
            os.close(fd)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "it names texts that must go: put it back, or delete it and redact again"
        raise CannotWriteError(path, f"cannot be read: {type(error).__name__}", hint) from error
    return PendingRedaction((), (), "", {}) if os.path.lexists(os.path.join(folder, FINISHED_FILE)) else None


def is_foreign(folder: StrPath) -> bool:
    """Say whether a note stands in the ledger's folder that was not written on this machine; nothing follows it."""
    if not os.path.lexists(os.path.join(folder, PENDING_FILE)):
        return False
    found = read_pending(folder)
    return found is None or not found.by


def _parse_pending(data: bytes) -> tuple[PendingRedaction, object]:
    import json  # noqa: PLC0415 - slow to load, and there is hardly ever a note

    value: Any = json.loads(data)
    found = PendingRedaction(tuple(value["ids"]), tuple(value["texts"]), value["reason"], value["by"])
    said: list[object] = [found.reason, *found.ids, *found.texts, *found.by.values()]
    if not all(isinstance(one, str) and one for one in said):
        raise TypeError("expected texts")
    # Who cannot be written in an event would keep it unfinished for ever.
    if not {"rater"} <= found.by.keys() <= {*BY_FIELDS} or {type(value["ids"]), type(value["texts"])} != {list}:
        raise TypeError("expected who says so, and two lists")
    return found, value.get("proof")


def _proof(fd: int) -> dict[str, Any]:
    """Return what only this machine knows of a file that it just created: its boot, the file's number and its time."""
    made = os.fstat(fd)
    return {"boot": disk.boot_id(), "file": made.st_ino, "made": made.st_ctime_ns}


def _is_proven(proof: object, fd: int) -> bool:
    """Say whether a note was written on this machine: since it was last started, or as this very file.

    Nobody elsewhere knows the name of a boot, and no archive sets a file's number and the time of its last change.
    """
    if not isinstance(proof, dict):
        return False
    if proof.get("boot") and proof.get("boot") == disk.boot_id():
        return True
    now, made = os.fstat(fd), proof.get("made")
    return proof.get("file") == now.st_ino and type(made) is int and 0 <= now.st_ctime_ns - made < _NOTE_NS


def pending_ids(folder: StrPath) -> frozenset[str]:
    """Return the events whose text readers must take for gone although it may stand."""
    found = read_pending(folder)
    return frozenset() if found is None else frozenset(found.ids)


def write_pending(folder: StrPath, what: PendingRedaction) -> None:
    """Note a redaction durably, before anything is blotted out.

    Raises:
        CannotWriteError: It cannot be noted; nothing was redacted.
    """
    path = os.path.join(folder, PENDING_FILE)
    fresh = os.path.join(folder, f".{PENDING_FILE}.{os.getpid()}.tmp")
    try:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        fd = disk.create_file(fresh)
        try:
            value = {"ids": list(what.ids), "texts": list(what.texts), "reason": what.reason, "by": dict(what.by)}
            disk.write_all(fd, dumps(value | {"proof": _proof(fd)}).encode(), path)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(fresh, path)
        disk.flush_folder(folder)
    except OSError as error:
        with suppress(OSError):
            os.unlink(fresh)
        raise CannotWriteError(path, disk.reason(error), "nothing was redacted") from error
    if read_pending(folder) != what:
        raise CannotWriteError(path, "may be a file from elsewhere", "nothing was redacted")


def remove_pending(folder: StrPath) -> None:
    """Take the note back and blot it out in its turn: what it names is gone from disk.

    Raises:
        CannotWriteError: It cannot be taken back; the next writer tries again.
    """
    path = os.path.join(folder, FINISHED_FILE)
    try:
        # What a kill left of an earlier one would go with all its bytes as this one takes its name.
        _overwrite_and_remove(path)
        with suppress(FileNotFoundError):
            # Under another name first, and durably so: half a note would be none that can be read.
            os.replace(os.path.join(folder, PENDING_FILE), path)
            disk.flush_folder(folder)
        _overwrite_and_remove(path)
        disk.flush_folder(folder)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error)) from error


def _overwrite_and_remove(path: StrPath) -> None:
    """Blot a file out and remove it, if it is there."""
    with suppress(FileNotFoundError):
        _overwrite(path)
        with suppress(FileNotFoundError):
            os.unlink(path)


def _overwrite(path: StrPath) -> None:
    """Leave nothing but blanks of a file, durably; one with a second name, which may be another's, is removed."""
    fd = disk.open_file(path, write=True)
    try:
        if os.fstat(fd).st_nlink > 1:
            os.unlink(path)
            return
        _fill(fd, os.fstat(fd).st_size, b"", path)
        disk.flush(fd, path)
    finally:
        os.close(fd)


def erase(path: StrPath, batches: Iterable[RawBatch], ids: Collection[str]) -> None:
    """Blot the texts of these events out of the log, in place, durably; to be done under its lock.

    With a sealed range goes every copy of it in quarantine.

    Args:
        path: The log.
        batches: Its batches.
        ids: The events whose text must go.

    Raises:
        CannotWriteError: It cannot be overwritten; a log that may only be appended to never can.
        OutcomeUnknownError: The disk would not confirm it.
    """
    try:
        fd = disk.open_file(path, write=True)
    except CannotWriteError as error:
        hint = "readers take the text for gone; once it can be overwritten, the next command that writes does that"
        raise CannotWriteError(path, error.reason, hint) from error
    try:
        for batch in batches:
            if (span := _sealed_range(batch, ids)) is not None:
                _erase_copies(os.path.join(os.path.dirname(path), "quarantine"), span[0])
            for begin, length, blank in _erasures(batch, ids):
                os.lseek(fd, begin, os.SEEK_SET)
                _fill(fd, length, blank, path)
        disk.flush(fd, path)
    finally:
        os.close(fd)


def _erase_copies(folder: StrPath, begin: int) -> None:
    """Blot out what quarantine holds of the range that begins here; a seal that was cut short left a copy, too."""
    disk.refuse_link(folder)
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if name.startswith(f"{begin}-") and name.endswith(".bin"):
                _overwrite(os.path.join(folder, name))
