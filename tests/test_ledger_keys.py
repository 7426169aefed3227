"""The cache of keys: missing, torn, stale or another ledger's, it never changes which delivery counts."""

from __future__ import annotations

import binascii
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.cache_places import caches_of
from helpers.ledger_keys import SLOTS, cache, cache_files, put_back, table
from helpers.ledger_logs import BY, append, names, rated
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.line import START, normalize_key
from tallybook.ledger.storage import disk, idempotency

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tallybook.ledger.line import Position, RawBatch


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger that holds the keys k0 to k4."""
    opened = JsonlLog(tmp_path / "ledger")
    for number in range(5):
        append(opened, f"a{number}", key=f"k{number}")
    return opened


def power_cut(log: JsonlLog, log_bytes: bytes, head_bytes: bytes) -> JsonlLog:
    """Reset the ledger to what the disk held, and return it as opened after the restart; the cache stays."""
    log.close()
    log.path.write_bytes(log_bytes)
    (log.folder / "head").write_bytes(head_bytes)
    return JsonlLog(log.folder)


def assert_only_the_five_are_known(log: JsonlLog) -> None:
    """Deliver all keys again and one more: only that one is recorded."""
    known = [append(log, "again", key=f"k{number}") is None for number in range(5)]
    assert [True] * 5 == known
    assert append(log, "new", key="k5") is not None
    assert ["a0", "a1", "a2", "a3", "a4", "new"] == names(log)


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=200))
def test_a_short_plain_key_is_stored_as_it_is(key: str) -> None:
    """Letters and digits need no digest."""
    assert key == normalize_key(key)


@pytest.mark.parametrize("key", ["", "ключ", 'a "quote"', "back\\slash", "tab\t", "x" * 201, "half \ud800"])
def test_any_other_key_is_stored_as_its_digest(key: str) -> None:
    """Every version stores the first 16 bytes of SHA-256 over its UTF-8, or a key would count twice."""
    written = sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    assert (f"digest:{written}", "x" * 200) == (normalize_key(key), normalize_key("x" * 200))


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_different_keys_are_stored_differently(one: str, two: str) -> None:
    """A stored key is short printable ASCII that needs no escape, and no two keys share it."""
    assert (one == two) == (normalize_key(one) == normalize_key(two))
    for plain in (normalize_key(one), normalize_key(two)):
        assert plain.isascii()
        assert plain.isprintable() or not plain
        assert len(plain) <= 200
        assert not {'"', "\\"} & set(plain)


def test_the_cache_is_written_by_the_first_lookup(log: JsonlLog) -> None:
    """It covers the log up to the batch with that key, and each later append with a key adds to it."""
    end, said, files = log.head(), cache(log).read_bytes(), cache_files(log)
    assert said.startswith(b"tallybook-held 1 %d %b %d " % (end.seq, end.chain.encode(), end.offset))
    assert said == table(said[: said.rfind(b" ")])
    entries = {sha256(b"k%d" % number).digest()[:16] for number in range(5)}
    buckets = {name: data for name, data in files.items() if name != "held"}
    assert {f"held-{entry[0] % 64:02d}" for entry in entries} == set(buckets)
    assert sorted(entries) == sorted(data[at : at + 16] for data in buckets.values() for at in range(0, len(data), 16))


def test_the_cache_is_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be lost, so neither its folder nor its bytes are flushed; the batch is."""
    opened = JsonlLog(tmp_path / "ledger")
    append(opened, "a0")
    monkeypatch.setattr(disk, "flush_folder", None)
    append(opened, "a1", key="k1")
    assert cache(opened).read_bytes().startswith(b"tallybook-held 1 ")


def test_a_deleted_cache_is_built_anew(log: JsonlLog) -> None:
    """The keys are read from the log."""
    cache(log).unlink()
    assert_only_the_five_are_known(log)


def test_a_cache_torn_anywhere_is_built_anew(log: JsonlLog) -> None:
    """Wherever it ends, the last complete key is still known, and an unknown one is not."""
    whole = cache(log).read_bytes()
    with log.path.open("rb") as file:
        # Between its beginning and its end there is nothing but digits.
        for cut in (*range(100), *range(100, len(whole) - 40, 50), *range(len(whole) - 40, len(whole))):
            for key, known in (("k4", True), ("k5", False)):
                cache(log).write_bytes(whole[:cut])
                assert known == bool(idempotency.find_known((key,), log.read, log.folder, file.fileno())), cut


@pytest.mark.parametrize(
    "spoil",
    [
        *(bytes.upper, bytes.swapcase, lambda data: data[:-1], lambda data: b"\0" * len(data), lambda data: data[1:]),
        *(lambda data: bytes([data[0] ^ 1]) + data[1:], lambda _: b""),
    ],
)
def test_a_changed_cache_is_built_anew(log: JsonlLog, spoil: Callable[[bytes], bytes]) -> None:
    """A cache file with a wrong checksum is not used, whichever of its files it is."""
    whole = cache_files(log)
    with log.path.open("rb") as file:
        for name, data in whole.items():
            put_back(log, whole | {name: spoil(data)})
            told = [
                bool(idempotency.find_known((f"k{number}",), log.read, log.folder, file.fileno()))
                for number in range(6)
            ]
            assert ([True] * 5 + [False], whole) == (told, cache_files(log)), name
            put_back(log, {one: data for one, data in whole.items() if one != name})
            told = [
                bool(idempotency.find_known((f"k{number}",), log.read, log.folder, file.fileno()))
                for number in range(6)
            ]
            assert ([True] * 5 + [False], whole) == (told, cache_files(log)), name
    assert_only_the_five_are_known(log)


def test_a_digest_after_the_counted_ones_is_ignored(log: JsonlLog) -> None:
    """A writer that was killed before it counted its digest left it there; the next one replaces it."""
    lost = sha256(b"k9").digest()[:16]
    path = caches_of(log.folder) / f"held-{lost[0] % 64:02d}"
    said = path.read_bytes() if path.exists() else b""
    path.write_bytes(said + lost + b"torn")
    with log.path.open("rb") as file:
        assert not bool(idempotency.find_known(("k9",), log.read, log.folder, file.fileno()))
    assert append(log, "a9", key="k9") is not None
    assert append(log, "a9", key="k9") is None
    assert said + lost == path.read_bytes()[: len(said) + 16]


def test_a_digest_across_two_others_is_not_found(log: JsonlLog) -> None:
    """A key is known if its whole digest is an entry, even if its bytes also occur across two others."""
    wanted = sha256(b"k9").digest()[:16]
    across = bytes(8) + wanted + bytes(8)
    end = log.head()
    for data, known in ((across, False), (across + wanted, True), (wanted + across, True)):
        bucket = wanted[0] % 64
        (caches_of(log.folder) / f"held-{bucket:02d}").write_bytes(data)
        slot = b"%012x%08x" % (len(data), binascii.crc32(data))
        slots = SLOTS[: bucket * 20] + slot + SLOTS[bucket * 20 + 20 :]
        said = b"tallybook-held 1 %d %b %d %b" % (end.seq, end.chain.encode(), end.offset, slots)
        cache(log).write_bytes(table(said))
        with log.path.open("rb") as file:
            assert known == bool(idempotency.find_known(("k9",), log.read, log.folder, file.fileno()))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\0" * 4096, b" ", b"tallybook-held 1 9 x y z\n", b"tallybook-held 1 \xff \xff \xff \xff\n"),
        *(table(b"tallybook-held 1 %b %b" % (mark, SLOTS)) for mark in (b"9 x y", b"x y 9", b"9 \xff 9", b"9 9")),
        *(table(b"tallybook-held 1 0 x 0 %b" % slots) for slots in (SLOTS, SLOTS[1:], SLOTS + b"0", b"x" * len(SLOTS))),
        table(b"tallybook-held 2 0 x 0 %b" % SLOTS),
    ],
)
def test_nonsense_in_place_of_the_cache_is_built_anew(log: JsonlLog, data: bytes) -> None:
    """Whatever its content, and even with a right checksum, the log is read instead."""
    cache(log).write_bytes(data)
    assert_only_the_five_are_known(log)


def test_an_old_cache_is_extended(log: JsonlLog) -> None:
    """An earlier copy of it has the keys up to its position, and the log has the rest."""
    old = cache_files(log)
    append(log, "a5", key="k5")
    append(log, "a6", key="k6")
    put_back(log, old)
    assert [True, True, False] == [append(log, "x", key=f"k{number}") is None for number in (5, 6, 7)]


def test_a_cached_range_is_not_read_again(tmp_path: Path) -> None:
    """A writer reads on from the cache's position, and leaves the cache unchanged if nothing follows."""
    log = JsonlLog(tmp_path / "ledger")
    asked: list[Position] = []

    def read(after: Position) -> Iterator[RawBatch]:
        asked.append(after)
        return log.read(after)

    for number in range(5):
        append(log, "a", key=f"k{number}")
        written: list[int] = []
        with log.path.open("rb") as file:
            for key in (f"k{number}", "k0", "other"):
                assert (key != "other") == bool(idempotency.find_known((key,), read, log.folder, file.fileno()))
                written.append(cache(log).stat().st_mtime_ns)
        assert 1 == len(set(written))
    # What is appended under a key says so itself, but for the first: there was no cache yet.
    assert [START] == asked
    said = log.head()._replace(at="")
    append(log, "b")
    with log.path.open("rb") as file:
        assert [True, False] == [
            bool(idempotency.find_known((key,), read, log.folder, file.fileno())) for key in ("k4", "other")
        ]
    assert [START, said] == asked


def test_a_new_key_is_added_only_to_a_current_cache(log: JsonlLog) -> None:
    """A cache with another position is left for the next reader to extend; a torn one is not completed."""
    whole, end = cache_files(log), log.head()
    batch = append(log, "a5", key="k5")
    assert batch is not None
    noted = cache_files(log)
    assert whole["held"] != noted["held"]
    for data in (whole["held"][:-1], whole["held"] + b"x", whole["held"].replace(b"1", b"2", 1), b"", noted["held"]):
        put_back(log, whole | {"held": data})
        idempotency.extend(log.folder, end, [batch])
        assert whole | {"held": data} == cache_files(log)
    put_back(log, whole)
    idempotency.extend(log.folder, end, [batch])
    assert noted == cache_files(log)
    put_back(log, {})
    idempotency.extend(log.folder, end, [batch])
    assert {} == cache_files(log)


@pytest.mark.parametrize("files", [1, 2, 64])
@pytest.mark.parametrize("many", [1, 7, 8, 40])
def test_many_keys_are_looked_up_at_once(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, files: int, many: int) -> None:
    """Of any number of keys, even in one file of the cache, exactly those in the log are found."""
    monkeypatch.setattr(idempotency, "BUCKETS", files)
    put_back(log, {})
    wanted = [f"k{number}" for number in range(many)]
    with log.path.open("rb") as file:
        assert set(wanted[:5]) == idempotency.find_known(wanted, log.read, log.folder, file.fileno())
        assert set() == idempotency.find_known([], log.read, log.folder, file.fileno())


def test_looked_up_keys_are_not_looked_up_again(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass over the cache serves a whole transaction, and the keys that it appends are known as well."""
    asked: list[list[str]] = []
    held = idempotency.find_known

    def count(wanted: Iterable[str], *rest: Any) -> set[str]:
        asked.append(sorted(wanted))
        return held(asked[-1], *rest)

    monkeypatch.setattr(idempotency, "find_known", count)
    with log.transaction() as tx:
        tx.look_up(["k4", "k5", "k6"])
        tx.look_up(["k5"])
        told = [tx.append(rated("x"), BY, key) is None for key in ("k4", "k5", "k5", "k6", "k7", "k7")]
    assert [True, False, True, False, False, True] == told
    assert [["k4", "k5", "k6"], ["k7"]] == asked


def test_a_folder_in_place_of_the_cache_costs_only_time(log: JsonlLog) -> None:
    """A cache that can be neither read nor written blocks no writer."""
    cache(log).unlink()
    cache(log).mkdir()
    assert_only_the_five_are_known(log)


def test_a_linked_cache_folder_is_neither_read_nor_written(log: JsonlLog, tmp_path: Path) -> None:
    """A link in place of its folder costs only time, and its target does not change."""
    whole = cache_files(log)
    cache(log).parent.rename(tmp_path / "outside")
    cache(log).parent.symlink_to(tmp_path / "outside")
    (tmp_path / "outside" / "held").write_bytes(b"somebody else's")
    assert_only_the_five_are_known(log)
    (tmp_path / "outside" / "held").write_bytes(whole["held"])
    append(log, "a", key="k6")
    assert whole == {path.name: path.read_bytes() for path in (tmp_path / "outside").glob("held*")}


def test_a_linked_cache_file_is_replaced(log: JsonlLog, tmp_path: Path) -> None:
    """The link's target stays, and a cache file replaces the link."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in cache_files(log):
        path = caches_of(log.folder) / name
        path.unlink()
        path.symlink_to(victim)
    assert_only_the_five_are_known(log)
    assert "precious" == victim.read_text()
    for name in cache_files(log):
        path = caches_of(log.folder) / name
        assert (False, 0o600) == (path.is_symlink(), path.stat().st_mode & 0o777)


@pytest.mark.parametrize("batches", range(1, 8))
def test_another_ledgers_cache_is_not_used(log: JsonlLog, tmp_path: Path, batches: int) -> None:
    """Copied from a ledger that is shorter, as long or longer, it neither adds a key nor hides one."""
    foreign = JsonlLog(tmp_path / "foreign")
    for number in range(batches + 1):
        append(foreign, f"b{number}", key=f"f{number}")
    put_back(log, cache_files(foreign))
    turned_away = [append(log, "new", key=f"f{number}") is None for number in range(batches)]
    assert [False] * batches == turned_away
    known = [append(log, "again", key=f"k{number}") is None for number in range(5)]
    assert [True] * 5 == known


def test_a_key_that_the_disk_lost_counts_when_sent_again(log: JsonlLog) -> None:
    """A power loss loses an unacknowledged batch and leaves the cache, which already had its key."""
    stood = log.path.read_bytes(), (log.folder / "head").read_bytes()
    append(log, "lost", key="k5")
    append(log, "lost", key="k6")
    after = power_cut(log, *stood)
    assert append(after, "came again", key="k5") is not None
    assert ["a0", "a1", "a2", "a3", "a4", "came again"] == names(after)


def test_a_key_in_a_sealed_range_counts_when_sent_again(log: JsonlLog) -> None:
    """The same holds if the lost batch is a hole that the redelivering writer itself seals."""
    stood, head = log.path.read_bytes(), (log.folder / "head").read_bytes()
    append(log, "lost", key="k5")
    hole = b"\0" * (log.path.stat().st_size - len(stood))
    append(log, "lost", key="k6")
    after = power_cut(log, stood + hole, head)
    assert append(after, "came again", key="k5") is not None
    assert ["a0", "a1", "a2", "a3", "a4", "came again"] == names(after)


def test_a_cache_that_ends_within_a_sealed_range_is_built_anew(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restored cache that names a batch after a hole, in a range that was sealed, is not used."""
    stood, head = log.path.read_bytes(), (log.folder / "head").read_bytes()
    lost, behind = append(log, "lost", key="k5"), append(log, "behind the hole", key="k6")
    assert lost is not None
    assert behind is not None
    append(log, "cut off", key="k7")
    old = cache_files(log)
    monkeypatch.setattr(disk, "boot_id", lambda: "another-boot")
    after = power_cut(log, stood + b"\0" * len(lost.raw) + behind.raw, head)
    append(after, "sealed")
    put_back(log, old)
    assert append(after, "came again", key="k5") is not None
    assert ["sealed", "came again"] == names(after)[5:]


def test_a_key_of_an_aborted_transaction_is_free(log: JsonlLog) -> None:
    """The keys of a transaction that ended with an exception are not in the cache either."""

    def break_off() -> None:
        with log.transaction() as tx:
            tx.append(rated("lost"), BY, "k5")
            tx.append(rated("lost"), BY, "k6")
            (log.folder / "nowhere").stat()

    with pytest.raises(FileNotFoundError):
        break_off()
    assert [True, True] == [append(log, "x", key=key) is not None for key in ("k5", "k6")]


def test_damage_of_the_log_is_reported(log: JsonlLog) -> None:
    """If the log itself is unreadable, whether it holds a key is unknown, and the error is the log's."""
    data = bytearray(log.path.read_bytes())
    data[len(data) // 2] ^= 1
    log.path.write_bytes(data)
    cache(log).unlink()
    with pytest.raises(DamagedLedgerError):
        append(JsonlLog(log.folder), "x", key="k5")
