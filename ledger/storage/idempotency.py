"""Which keys the ledger holds: a cache, so that a second delivery is turned away without a fold.

Digests of keys stand in 64 files, ``held-00`` to ``held-63``, each in the one that it begins with, so that to ask for a
key reads one of them. ``held`` says up to where the log was read, and proves what counts of each file:

    tallybook-held 1 SEQ CHAIN OFFSET (SIZE CRC)*64 CRC

A writer reads on from there; whatever does not fit is built anew, so all of it may be deleted at any time. Without a
cache folder a writer searches the log for the key itself, and reads the log only where its bytes are found. Standard
library only.
"""

from __future__ import annotations

import binascii
from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.fast_stdlib import NamedTuple, sha256
from tallybook.ledger.line import START, Position, batch_key, digest
from tallybook.ledger.storage import caches, disk
from tallybook.ledger.storage.log_ends import has_position, read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch

TABLE = "held"
BUCKETS = 64
_OPENING = b"tallybook-held 1 "
_FIELDS = 6
# Twelve digits of the size, eight of the checksum.
_SIZE_CHARS, _SLOT_CHARS = 12, 20
_ENTRY_BYTES = 16
# From so many digests on, one pass over a file is quicker than a search for each.
_MIN_SET_KEYS = 8
_MAX_KEY_CHARS = 200
_WINDOW_BYTES = 1024 * 1024


class _Header(NamedTuple):
    """What the cache says of itself.

    Attributes:
        position: The place up to which it speaks.
        slots: For each file of digests how many bytes of it count, and their CRC-32, in hex digits.
    """

    position: Position
    slots: bytes


_EMPTY = _Header(START, b"0" * _SLOT_CHARS * BUCKETS)
_REFUSALS = (OSError, ValueError, CannotWriteError)


class _UnprovenError(Exception):
    """A file of digests is not the one that the table speaks of."""


def normalize(key: str) -> str:
    """Return a key as the ledger writes it: itself if short printable ASCII without quotes, else its digest."""
    if (
        key
        and key.isascii()
        and key.isprintable()
        and len(key) <= _MAX_KEY_CHARS
        and '"' not in key
        and "\\" not in key
    ):
        return key
    return "digest:" + digest(key.encode("utf-8", "surrogatepass"))


def contains(key: str, read: Callable[[Position], Iterator[RawBatch]], folder: StrPath, fd: int) -> bool:
    """Say whether the ledger holds a key; as ``held``."""
    return bool(find_known((key,), read, folder, fd))


def find_known(
    keys: Iterable[str], read: Callable[[Position], Iterator[RawBatch]], folder: StrPath, fd: int
) -> set[str]:
    """Return those of some keys that the ledger holds; to be asked under its lock.

    Args:
        keys: Plain keys.
        read: Gives the ledger's batches behind a place.
        folder: The ledger's folder.
        fd: The log, open for reading.

    Raises:
        DamagedLedgerError: The log itself cannot be read.
    """
    cache, entries = caches.find_folder(folder), {_entry(key): key for key in keys}
    if cache is None and len(entries) < _MIN_SET_KEYS and not _log_may_contain(fd, entries.values()):
        return set()
    table = _EMPTY if cache is None else _load_header(cache)
    if not has_position(fd, table.position):
        table = _EMPTY
    try:
        found: set[bytes] = set() if cache is None else _find_entries(cache, table, entries)
        # What was appended last says itself up to where it goes, so that mostly there is nothing to read.
        fresh, mark = (
            _read_entries(read(table.position), table.position)
            if _has_unread_bytes(fd, table)
            else ([], table.position)
        )
    except (DamagedLedgerError, _UnprovenError):
        if table is _EMPTY:
            raise
        # Its files are others', or a range that it ends within was sealed since: ask the log alone.
        table, found = _EMPTY, set()
        fresh, mark = _read_entries(read(START), START)
    if cache is not None and mark != table.position:
        with suppress(*_REFUSALS):
            caches.make_folder(cache, folder)
            disk.replace_cache_file(
                os.path.join(cache, TABLE), _encode_header(_append_entries(cache, table, fresh, mark))
            )
    return {entries[entry] for entry in found.union(fresh) if entry in entries}


def extend(folder: StrPath, begin: Position, batches: Iterable[RawBatch]) -> None:
    """Say in the cache what was written just now, so that nobody has to read it for that; to be said under the lock.

    Args:
        folder: The ledger's folder.
        begin: The place behind which it was written. A cache that speaks up to another one is left as it is.
        batches: What was written.
    """
    cache = caches.find_folder(folder)
    if cache is None:
        return
    table = _load_header(cache)
    if table is not _EMPTY and table.position[:3] == begin[:3]:
        with suppress(*_REFUSALS):
            fresh, mark = _read_entries(iter(batches), begin)
            _write(os.path.join(cache, TABLE), _encode_header(_append_entries(cache, table, fresh, mark)), 0)


def _log_may_contain(fd: int, wanted: Iterable[str]) -> bool:
    """Say whether the bytes of one of these keys are anywhere in the log: far quicker than to read and prove it."""
    needles = [f',"key":"{key}",'.encode() for key in wanted]
    overlap, offset = max(map(len, needles), default=1) - 1, 0
    while window := read_at(fd, _WINDOW_BYTES + overlap, offset):
        if any(needle in window for needle in needles):
            return True
        offset += _WINDOW_BYTES
    return False


def _entry(key: str) -> bytes:
    return sha256(key.encode()).digest()[:_ENTRY_BYTES]


def _read_entries(batches: Iterator[RawBatch], mark: Position) -> tuple[list[bytes], Position]:
    """Return the digests of the keys behind a place, and the place behind them."""
    fresh: list[bytes] = []
    for batch in batches:
        key = batch_key(batch.data)
        if key:
            fresh.append(_entry(key))
        mark = Position(batch.last, batch.chain, batch.end)
    return fresh, mark


def _load_header(cache: str) -> _Header:
    """Return what the cache says of itself, nothing where it does not prove itself."""
    with suppress(*_REFUSALS):
        data = disk.read_file(os.path.join(cache, TABLE))
        said, _, crc = data.rpartition(b" ")
        fields = said.split(b" ")
        whole = said.startswith(_OPENING) and len(fields) == _FIELDS and crc == b"%08x\n" % binascii.crc32(said)
        if whole and len(fields[5]) == len(_EMPTY.slots):
            return _Header(Position(int(fields[2]), fields[3].decode(), int(fields[4])), fields[5])
    return _EMPTY


def _encode_header(table: _Header) -> bytes:
    """Return a table as its file has it."""
    mark = table.position
    said = b"%b%d %b %d %b" % (_OPENING, mark.seq, mark.chain.encode(), mark.offset, table.slots)
    return b"%b %08x\n" % (said, binascii.crc32(said))


def _slot(table: _Header, bucket: int) -> tuple[int, int]:
    """Return how many bytes of a file of digests count, and their checksum."""
    slot = table.slots[bucket * _SLOT_CHARS : (bucket + 1) * _SLOT_CHARS]
    return int(slot[:_SIZE_CHARS], 16), int(slot[_SIZE_CHARS:], 16)


def _bucket_file(cache: str, bucket: int) -> str:
    return os.path.join(cache, f"{TABLE}-{bucket:02d}")


def _read_bucket(cache: str, table: _Header, bucket: int) -> bytes:
    """Return the digests of a file that count.

    Raises:
        _UnprovenError: They are not the ones that the table speaks of.
    """
    with suppress(*_REFUSALS):
        size, crc = _slot(table, bucket)
        if not size:
            return b""
        data = disk.read_file(_bucket_file(cache, bucket))[:size]
        if len(data) == size and binascii.crc32(data) == crc:
            return data
    raise _UnprovenError


def _find_entries(cache: str, table: _Header, entries: Collection[bytes]) -> set[bytes]:
    """Return those digests that stand in the files that a table speaks of.

    Raises:
        _UnprovenError: They are not there.
    """
    found: set[bytes] = set()
    for bucket, wanted in _group_by_bucket(entries).items():
        data = _read_bucket(cache, table, bucket)
        if len(wanted) < _MIN_SET_KEYS:
            found.update(entry for entry in wanted if _has_entry(entry, data))
        else:
            stand = {data[begin : begin + _ENTRY_BYTES] for begin in range(0, len(data), _ENTRY_BYTES)}
            found.update(stand.intersection(wanted))
    return found


def _has_entry(entry: bytes, data: bytes) -> bool:
    """Say whether a digest is one of many."""
    place = data.find(entry)
    # It may seem to stand where one ends and the next begins.
    while place % _ENTRY_BYTES and place >= 0:
        place = data.find(entry, place + 1)
    return place >= 0


def _group_by_bucket(entries: Iterable[bytes]) -> dict[int, list[bytes]]:
    """Return digests by the number of the file that each belongs to."""
    buckets: dict[int, list[bytes]] = {}
    for entry in entries:
        buckets.setdefault(entry[0] % BUCKETS, []).append(entry)
    return buckets


def _append_entries(cache: str, table: _Header, fresh: Iterable[bytes], mark: Position) -> _Header:
    """Write digests behind those that count, and return the table that speaks of them too, up to a place.

    Raises:
        OSError, CannotWriteError: A file did not take them all.
    """
    slots = table.slots
    for bucket, entries in _group_by_bucket(fresh).items():
        data, (size, crc) = b"".join(entries), _slot(table, bucket)
        if size:
            _write(_bucket_file(cache, bucket), data, size)
        else:
            disk.replace_cache_file(_bucket_file(cache, bucket), data)
        slot = b"%012x%08x" % (size + len(data), binascii.crc32(data, crc))
        slots = slots[: bucket * _SLOT_CHARS] + slot + slots[(bucket + 1) * _SLOT_CHARS :]
    return _Header(mark, slots)


def _write(path: str, data: bytes, begin: int) -> None:
    """Write into a file of the cache, in place.

    Raises:
        OSError, CannotWriteError: It did not take it.
    """
    fd = disk.open_file(path, write=True)
    try:
        os.lseek(fd, begin, os.SEEK_SET)
        disk.write_all(fd, data, path)
    finally:
        os.close(fd)


def _has_unread_bytes(fd: int, table: _Header) -> bool:
    """Say whether there is more of the log than a table speaks of."""
    return os.fstat(fd).st_size > table.position.offset
