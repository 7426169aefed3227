"""Which keys the ledger holds: a cache beside the log, so that a second delivery is turned away without a fold.

``cache/keys`` has a digest a line and, behind each stretch of them, a line ``=SEQ CHAIN OFFSET CRC`` that says up to
where the log was read and proves everything before it. A writer reads on from there; whatever does not fit is built
anew, so the file may be deleted at any time. Standard library only.
"""

from __future__ import annotations

import binascii

from ledger import disk
from ledger.ends import fits, read_at
from ledger.errors import CannotWriteError, DamagedLedgerError
from ledger.light import os, suppress
from ledger.line import CHAIN_CHARS, START, Mark, RawBatch, digest, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

_OPENING = b"tallybook-keys 1\n"
_MARK_FIELDS = 4
# That line has less: two numbers, a chain and a checksum.
_SPEAKS_BYTES = 128
_MAX_KEY_CHARS = 200
# From so many keys on, one pass over all lines is quicker than a search for each.
_MANY = 8
_WINDOW_BYTES = 1024 * 1024
_ENTRY_BYTES = CHAIN_CHARS + 1


def plain(key: str) -> str:
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


def _load(path: Path) -> tuple[bytes, Mark]:
    """Return the part of the cache that proves itself, and the place up to which it speaks."""
    with suppress(OSError, ValueError, CannotWriteError):
        data = disk.read_file(path)
        cut = data.rfind(b"\n=") + 1
        fields = data[cut + 1 :].split()
        whole = cut and data.endswith(b"\n") and data.startswith(_OPENING) and len(fields) == _MARK_FIELDS
        if whole and fields[3] == b"%08x" % binascii.crc32(data[:cut]):
            return data, Mark(int(fields[0]), fields[1].decode(), int(fields[2]))
    return _OPENING, START


def _read_on(batches: Iterator[RawBatch], mark: Mark) -> tuple[list[bytes], Mark]:
    """Return the digests of the keys behind a place, and the place behind them."""
    fresh: list[bytes] = []
    for batch in batches:
        key = key_of(batch.data)
        if key:
            fresh.append(digest(key.encode()).encode())
        mark = Mark(batch.last, batch.chain, batch.end)
    return fresh, mark


def known(key: str, read: Callable[[Mark], Iterator[RawBatch]], folder: Path, fd: int) -> bool:
    """Say whether the ledger holds a key; as ``held``."""
    return bool(held((key,), read, folder, fd))


def held(wanted: Iterable[str], read: Callable[[Mark], Iterator[RawBatch]], folder: Path, fd: int) -> set[str]:
    """Return those of some keys that the ledger holds; to be asked under its lock.

    Args:
        wanted: Plain keys.
        read: Gives the ledger's batches behind a place.
        folder: The ledger's folder.
        fd: The log, open for reading.

    Raises:
        DamagedLedgerError: The log itself cannot be read.
    """
    path = folder / "cache" / "keys"
    data, start = _load(path)
    if not fits(fd, start):
        data, start = _OPENING, START
    try:
        # What was appended last says itself up to where it goes, so that mostly there is nothing to read.
        fresh, mark = _read_on(read(start), start) if os.fstat(fd).st_size > start.offset else ([], start)
    except DamagedLedgerError:
        if start == START:
            raise
        # The cache ends within a range that was sealed since: ask the log alone.
        data, start = _OPENING, START
        fresh, mark = _read_on(read(start), start)
    if mark != start:
        data += b"".join(entry + b"\n" for entry in fresh)
        data += _speaks_up_to(mark, binascii.crc32(data))
        _store(path, data)
    return _among(data, {digest(key.encode()).encode(): key for key in wanted})


def note(folder: Path, begin: Mark, batches: Sequence[RawBatch]) -> None:
    """Say in the cache what was written just now, so that nobody has to read it for that; to be said under the lock.

    Args:
        folder: The ledger's folder.
        begin: The place behind which it was written. A cache that speaks up to another one is left as it is.
        batches: What was written.
    """
    path = folder / "cache" / "keys"
    with suppress(OSError, ValueError, CannotWriteError):
        disk.refuse_link(folder / "cache")
        fd = disk.open_file(path, write=True, append=True)
        try:
            last = read_at(fd, _SPEAKS_BYTES, max(os.fstat(fd).st_size - _SPEAKS_BYTES, 0))
            last = last[last.rfind(b"\n=") + 1 :]
            fields = last[1:].split()
            place = b"%b %d" % (begin.chain.encode(), begin.offset)
            if len(fields) == _MARK_FIELDS and b" ".join(fields[1:3]) == place and last.endswith(b"\n"):
                fresh, mark = _read_on(iter(batches), begin)
                entries = b"".join(entry + b"\n" for entry in fresh)
                # What stands there is proven by whoever reads it, and nothing of it is read for this.
                os.write(fd, entries + _speaks_up_to(mark, binascii.crc32(last + entries, int(fields[3], 16))))
        finally:
            os.close(fd)


def _speaks_up_to(mark: Mark, crc: int) -> bytes:
    """Return the line that says up to where the log was read, and proves every byte before it."""
    return b"=%d %b %d %08x\n" % (mark.seq, mark.chain.encode(), mark.offset, crc)


def _among(data: bytes, wanted: dict[bytes, str]) -> set[str]:
    """Return the keys whose digests stand in the cache."""
    if len(wanted) < _MANY:
        return {key for entry, key in wanted.items() if b"\n" + entry + b"\n" in data}
    found: set[str] = set()
    for begin in range(0, len(data), _WINDOW_BYTES):
        # It ends a line later than the next begins, so that each stands whole in one of them.
        lines = data[begin : begin + _WINDOW_BYTES + _ENTRY_BYTES].split(b"\n")
        found.update(wanted[line] for line in lines if line in wanted)
    return found


def _store(path: Path, data: bytes) -> None:
    """Write the cache; a disk that refuses it costs time and nothing else."""
    with suppress(CannotWriteError):
        disk.make_folder(path.parent, durable=False)
        disk.store(path, data)
