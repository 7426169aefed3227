"""Files of the idempotency cache: digests that share a bucket, and log ends without a key."""

from __future__ import annotations

import binascii
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from helpers.cache_places import make_caches
from helpers.ledger_keys import SLOTS, cache, kept, put_back, table
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


def nothing(_: Position) -> Iterator[RawBatch]:
    """Give no batch, as a log without one behind a place does."""
    return iter(())


def known(log: JsonlLog, key: str) -> bool:
    """Say whether the cache knows a key by itself."""
    with log.path.open("rb") as file:
        return bool(idempotency.find_known((key,), nothing, log.folder, file.fileno()))


def test_digests_that_share_a_file_stand_in_it_as_they_came(log: JsonlLog) -> None:
    """Each is written behind the others, the table proves them all, and whoever builds it anew comes to the same."""
    digests = b"".join(sha256(key.encode()).digest()[:16] for key in SHARING[:-1])
    slot = b"%012x%08x" % (len(digests), binascii.crc32(digests))
    end = log.head()
    slots = SLOTS[: FILE * 20] + slot + SLOTS[FILE * 20 + 20 :]
    said = b"tallybook-held 1 %d %b %d %b" % (end.seq, end.chain.encode(), end.offset, slots)
    files = {"held": table(said), "held-07": digests}
    assert files == kept(log)
    put_back(log, {})
    with log.path.open("rb") as file:
        assert idempotency.find_known(SHARING, log.read, log.folder, file.fileno()) == {*SHARING[:-1]}
    assert files == kept(log)


def test_keys_that_share_a_file_are_known_without_the_log(log: JsonlLog) -> None:
    """Every one that was appended and no other, whether they are asked for one by one or at once."""
    assert [*[True] * (len(SHARING) - 1), False] == [known(log, key) for key in SHARING]
    with log.path.open("rb") as file:
        assert idempotency.find_known(SHARING, nothing, log.folder, file.fileno()) == {*SHARING[:-1]}


@pytest.mark.parametrize("many", [1, 11])
def test_a_digest_across_two_hides_none_that_stands(log: JsonlLog, many: int) -> None:
    """Bytes that happen to be a digest where one ends and the next begins are none, before and behind a true one."""
    wanted = sha256(SHARING[0].encode()).digest()[:16]
    across = bytes(8) + wanted + bytes(8)
    for data, held in ((across * 2, set()), (across + wanted + across, {SHARING[0]})):
        slot = b"%012x%08x" % (len(data), binascii.crc32(data))
        slots = SLOTS[: FILE * 20] + slot + SLOTS[FILE * 20 + 20 :]
        end = log.head()
        said = b"tallybook-held 1 %d %b %d %b" % (end.seq, end.chain.encode(), end.offset, slots)
        put_back(log, {"held": table(said), "held-07": data})
        with log.path.open("rb") as file:
            assert held == idempotency.find_known(SHARING[:many], nothing, log.folder, file.fileno())


def test_what_was_noted_is_not_noted_again(log: JsonlLog) -> None:
    """A cache that has it already, and one that is told of nothing, stay as they are."""
    begin = log.head()
    batch = append(log, "a", key=SHARING[-1])
    assert batch is not None
    files = kept(log)
    idempotency.extend(log.folder, begin, [batch])
    idempotency.extend(log.folder, log.head(), [])
    assert files == kept(log)


def test_an_end_without_a_batch_adds_no_key(log: JsonlLog) -> None:
    """What was never finished behind the last batch leaves the cache as it is."""
    files = kept(log)
    with log.path.open("ab") as file:
        file.write(b'{"crc":"torn')
    assert [True, False] == [known(log, key) for key in SHARING[-2:]]
    assert files == kept(log)


def test_nonsense_beside_an_empty_log_is_no_key(tmp_path: Path) -> None:
    """A log that is emptied has no cache, whatever one says of it; nor has it a key."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    assert not known(log, "k0")
    make_caches(log.folder)
    cache(log).write_bytes(table(b"tallybook-held 1 0 x 0 %b" % (b"x" * len(SLOTS))))
    log.path.write_bytes(b"")
    assert not known(log, "k0")
