"""The idempotency keys in the ledger: a cache that lets a writer refuse a second delivery without reading the log.

Digests of keys are in 64 bucket files, ``held-00`` to ``held-63``, chosen by the digest, so that a lookup reads one of
them. The header file ``held`` has the position up to which the log was read, and size and checksum of each bucket:

    tallybook-held 1 SEQ CHAIN OFFSET (SIZE CRC)*64 CRC

A writer reads the log from that position on. Files that do not fit are rebuilt, so all may be deleted at any time.
Without a cache folder a writer searches the log for the bytes of the key, and decodes it only where they occur.
Standard library only.
"""

from __future__ import annotations

import binascii
from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.fast_stdlib import NamedTuple, sha256
from tallybook.ledger.line import START, Position, batch_key
from tallybook.ledger.storage import caches, disk
from tallybook.ledger.storage.head import contains_any, has_position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch

TABLE = "held"
BUCKETS = 64
_OPENING = b"tallybook-held 1 "
_FIELDS = 6
# Hex digits: twelve of the size, eight of the checksum.
_SIZE_CHARS, _SLOT_CHARS = 12, 20
_ENTRY_BYTES = 16
# Without a cache, more keys than these are found faster by reading every key of the log.
_MAX_SEARCHED_KEYS = 7


class _Header(NamedTuple):
    """The header of the cache.

    Attributes:
        position: The position up to which the log was read.
        slots: Valid size of each bucket file in bytes, and the CRC-32 of these bytes, in hex digits.
    """

    position: Position
    slots: bytes


_EMPTY = _Header(START, b"0" * _SLOT_CHARS * BUCKETS)
_REFUSALS = (OSError, ValueError, CannotWriteError)


class _UnprovenError(Exception):
    """A bucket file does not fit the header."""


def find_known(
    keys: Iterable[str], read: Callable[[Position], Iterator[RawBatch]], folder: StrPath, fd: int
) -> set[str]:
    """Return those of these keys that the ledger has. The caller holds the lock.

    Args:
        keys: Keys as `normalize_key` returns them.
        read: Returns the ledger's batches after a position.
        folder: The ledger's folder.
        fd: The log, open for reading.

    Raises:
        DamagedLedgerError: The log itself cannot be read.
    """
    cache, entries = caches.find_folder(folder), {_entry(key): key for key in keys}
    if cache is None and len(entries) <= _MAX_SEARCHED_KEYS:
        needles = [f',"key":"{key}",'.encode() for key in entries.values()]
        if not contains_any(fd, needles):
            return set()
    header = _EMPTY if cache is None else _load_header(cache)
    if not has_position(fd, header.position):
        header = _EMPTY
    try:
        known = set() if cache is None else _find_entries(cache, header, entries)
        added, position = list[bytes](), header.position
        # Each append extends the cache, so mostly there is nothing to read.
        if os.fstat(fd).st_size > position.offset:
            added, position = _read_entries(read(position), position)
    except (DamagedLedgerError, _UnprovenError):
        if header is _EMPTY:
            raise
        # The files do not fit, or the cache ends within a range that was sealed since: read the whole log.
        header, known = _EMPTY, set()
        added, position = _read_entries(read(START), START)
    if cache is not None and position != header.position:
        with suppress(*_REFUSALS):
            caches.make_folder(cache, folder)
            header = _append_entries(cache, header, added, position)
            disk.replace_cache_file(os.path.join(cache, TABLE), _encode_header(header))
    return {entries[entry] for entry in known.union(added) if entry in entries}


def extend(folder: StrPath, begin: Position, batches: Iterable[RawBatch]) -> None:
    """Add the keys of batches that were just written to the cache. The caller holds the lock.

    Args:
        folder: The ledger's folder.
        begin: The position before the batches. A cache with another position is left as it is.
        batches: The batches.
    """
    cache = caches.find_folder(folder)
    if cache is None:
        return
    header = _load_header(cache)
    if header is not _EMPTY and header.position[:3] == begin[:3]:
        with suppress(*_REFUSALS):
            added, position = _read_entries(iter(batches), begin)
            header = _append_entries(cache, header, added, position)
            _write(os.path.join(cache, TABLE), _encode_header(header), 0)


def _entry(key: str) -> bytes:
    return sha256(key.encode()).digest()[:_ENTRY_BYTES]


def _read_entries(batches: Iterator[RawBatch], position: Position) -> tuple[list[bytes], Position]:
    """Return the digests of the keys of these batches, and the position after them."""
    added: list[bytes] = []
    for batch in batches:
        key = batch_key(batch.data)
        if key:
            added.append(_entry(key))
        position = Position(batch.last, batch.chain, batch.end)
    return added, position


def _load_header(cache: str) -> _Header:
    """Return the header of the cache; an empty one where it is missing or damaged."""
    with suppress(*_REFUSALS):
        data = disk.read_file(os.path.join(cache, TABLE))
        text, _, crc = data.rpartition(b" ")
        fields = text.split(b" ")
        is_intact = text.startswith(_OPENING) and len(fields) == _FIELDS and crc == b"%08x\n" % binascii.crc32(text)
        if is_intact and len(fields[5]) == len(_EMPTY.slots):
            return _Header(Position(int(fields[2]), fields[3].decode(), int(fields[4])), fields[5])
    return _EMPTY


def _encode_header(header: _Header) -> bytes:
    """Return a header as its file has it."""
    seq, chain, offset, _ = header.position
    text = b"%b%d %b %d %b" % (_OPENING, seq, chain.encode(), offset, header.slots)
    return b"%b %08x\n" % (text, binascii.crc32(text))


def _slot(header: _Header, bucket: int) -> tuple[int, int]:
    """Return the valid size of a bucket file in bytes, and the checksum of these bytes."""
    slot = header.slots[bucket * _SLOT_CHARS : (bucket + 1) * _SLOT_CHARS]
    return int(slot[:_SIZE_CHARS], 16), int(slot[_SIZE_CHARS:], 16)


def _bucket_file(cache: str, bucket: int) -> str:
    return os.path.join(cache, f"{TABLE}-{bucket:02d}")


def _read_bucket(cache: str, header: _Header, bucket: int) -> bytes:
    """Return the valid bytes of a bucket file.

    Raises:
        _UnprovenError: They do not fit the header.
    """
    with suppress(*_REFUSALS):
        size, crc = _slot(header, bucket)
        if not size:
            return b""
        data = disk.read_file(_bucket_file(cache, bucket))[:size]
        if len(data) == size and binascii.crc32(data) == crc:
            return data
    raise _UnprovenError


def _find_entries(cache: str, header: _Header, entries: Iterable[bytes]) -> set[bytes]:
    """Return those of these digests that are in the cache.

    Raises:
        _UnprovenError: A bucket file does not fit the header.
    """
    known: set[bytes] = set()
    for bucket, wanted in _group_by_bucket(entries).items():
        data = _read_bucket(cache, header, bucket)
        known |= {data[begin : begin + _ENTRY_BYTES] for begin in range(0, len(data), _ENTRY_BYTES)} & {*wanted}
    return known


def _group_by_bucket(entries: Iterable[bytes]) -> dict[int, list[bytes]]:
    """Return digests by the number of their bucket."""
    buckets: dict[int, list[bytes]] = {}
    for entry in entries:
        buckets.setdefault(entry[0] % BUCKETS, []).append(entry)
    return buckets


def _append_entries(cache: str, header: _Header, added: Iterable[bytes], position: Position) -> _Header:
    """Append digests to their buckets, after the valid bytes, and return the new header.

    Raises:
        OSError, CannotWriteError: A file could not be written.
    """
    slots = header.slots
    for bucket, entries in _group_by_bucket(added).items():
        data, (size, crc) = b"".join(entries), _slot(header, bucket)
        if size:
            _write(_bucket_file(cache, bucket), data, size)
        else:
            disk.replace_cache_file(_bucket_file(cache, bucket), data)
        slot = b"%012x%08x" % (size + len(data), binascii.crc32(data, crc))
        slots = slots[: bucket * _SLOT_CHARS] + slot + slots[(bucket + 1) * _SLOT_CHARS :]
    return _Header(position, slots)


def _write(path: str, data: bytes, begin: int) -> None:
    """Write into a file of the cache at an offset.

    Raises:
        OSError, CannotWriteError: It could not be written.
    """
    fd = disk.open_file(path, write=True)
    try:
        os.lseek(fd, begin, os.SEEK_SET)
        disk.write_all(fd, data, path)
    finally:
        os.close(fd)
