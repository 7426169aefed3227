"""Files of the idempotency cache: digests that share a bucket, and log ends without a key."""

from __future__ import annotations

import binascii
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from helpers.cache_places import make_caches
from helpers.ledger_keys import SLOTS, cache, cache_files, put_back, table
from helpers.ledger_logs import append
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.storage import idempotency

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.line import Position, RawBatch

FILE = 7
# Of all keys every 64th belongs to one file; a thousand give enough of them.
SHARING = [key for key in map("k{}".format, range(1_000)) if sha256(key.encode()).digest()[0] % 64 == FILE][:12]


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger whose keys all belong to one file of the cache."""
    opened = JsonlLog(tmp_path / "ledger")
    for key in SHARING[:-1]:
        append(opened, "a", key=key)
    return opened


def no_batches(_: Position) -> Iterator[RawBatch]:
    """Return no batch, like a log without one after a position."""
    return iter(())


def is_cached(log: JsonlLog, key: str) -> bool:
    """Return whether the cache alone knows a key."""
    with log.path.open("rb") as file:
        return bool(idempotency.find_known((key,), no_batches, log.folder, file.fileno()))


def test_digests_of_one_file_are_in_order_of_arrival(log: JsonlLog) -> None:
    """Each is written after the others, one checksum covers them all, and a rebuild writes the same bytes."""
    digests = b"".join(sha256(key.encode()).digest()[:16] for key in SHARING[:-1])
    slot = b"%012x%08x" % (len(digests), binascii.crc32(digests))
    end = log.head()
    slots = SLOTS[: FILE * 20] + slot + SLOTS[FILE * 20 + 20 :]
    said = b"tallybook-held 1 %d %b %d %b" % (end.seq, end.chain.encode(), end.offset, slots)
    files = {"held": table(said), "held-07": digests}
    assert files == cache_files(log)
    put_back(log, {})
    with log.path.open("rb") as file:
        assert idempotency.find_known(SHARING, log.read, log.folder, file.fileno()) == {*SHARING[:-1]}
    assert files == cache_files(log)


def test_keys_of_one_file_are_known_without_the_log(log: JsonlLog) -> None:
    """Every appended key is known and no other, whether looked up one by one or at once."""
    assert [*[True] * (len(SHARING) - 1), False] == [is_cached(log, key) for key in SHARING]
    with log.path.open("rb") as file:
        assert idempotency.find_known(SHARING, no_batches, log.folder, file.fileno()) == {*SHARING[:-1]}


@pytest.mark.parametrize("many", [1, 11])
def test_a_digest_across_two_others_hides_none(log: JsonlLog, many: int) -> None:
    """Bytes that equal a digest across an entry's end are no entry, before and after a true one."""
    wanted = sha256(SHARING[0].encode()).digest()[:16]
    across = bytes(8) + wanted + bytes(8)
    for data, held in ((across * 2, set()), (across + wanted + across, {SHARING[0]})):
        slot = b"%012x%08x" % (len(data), binascii.crc32(data))
        slots = SLOTS[: FILE * 20] + slot + SLOTS[FILE * 20 + 20 :]
        end = log.head()
        said = b"tallybook-held 1 %d %b %d %b" % (end.seq, end.chain.encode(), end.offset, slots)
        put_back(log, {"held": table(said), "held-07": data})
        with log.path.open("rb") as file:
            assert held == idempotency.find_known(SHARING[:many], no_batches, log.folder, file.fileno())


def test_a_cached_key_is_not_added_again(log: JsonlLog) -> None:
    """A cache that already has the key, or gets none, does not change."""
    begin = log.head()
    batch = append(log, "a", key=SHARING[-1])
    assert batch is not None
    files = cache_files(log)
    idempotency.extend(log.folder, begin, [batch])
    idempotency.extend(log.folder, log.head(), [])
    assert files == cache_files(log)


def test_an_end_without_a_batch_adds_no_key(log: JsonlLog) -> None:
    """Torn bytes after the last batch leave the cache unchanged."""
    files = cache_files(log)
    with log.path.open("ab") as file:
        file.write(b'{"crc":"torn')
    assert [True, False] == [is_cached(log, key) for key in SHARING[-2:]]
    assert files == cache_files(log)


def test_an_invalid_cache_of_an_empty_log_has_no_key(tmp_path: Path) -> None:
    """An emptied log has no keys, whatever its cache holds."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    assert not is_cached(log, "k0")
    make_caches(log.folder)
    cache(log).write_bytes(table(b"tallybook-held 1 0 x 0 %b" % (b"x" * len(SLOTS))))
    log.path.write_bytes(b"")
    assert not is_cached(log, "k0")
