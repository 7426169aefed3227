"""Idempotency keys: a writer finds them by their bytes in the log, and only where a batch that counts has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
import os
from pathlib import Path

import pytest

from helpers.ledger_logs import BY, append, rated
from tallybook.ledger import line, search
from tallybook.ledger.line import Draft, normalize_key
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.search import Delivery, find_deliveries
from tallybook.ledger.storage import disk


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger that holds the keys k0 to k4."""
    opened = JsonlLog(tmp_path / "ledger")
    for number in range(5):
        append(opened, f"a{number}", key=f"k{number}")
    return opened


@contextmanager
def opened(log: JsonlLog) -> Iterator[int]:
    """Open the log for reading."""
    with log.path.open("rb") as file:
        yield file.fileno()


def find(log: JsonlLog, *keys: str) -> dict[str, Delivery]:
    """Return the batches of these keys."""
    with opened(log) as fd:
        return find_deliveries(fd, keys, os.fstat(fd).st_size)


@pytest.mark.parametrize("window_bytes", [1, 2, 13, 97, 600, 10_000])
@pytest.mark.parametrize("number", [1, 7, 8, 40])
def test_exactly_the_keys_of_the_log_are_found(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, window_bytes: int, number: int
) -> None:
    """Looked up alone or together, wherever a window of the search begins, and however a key continues another."""
    for key in ("k", "k11", "x k1", "k1 x", "a key that is a little longer than the others"):
        append(log, key, key=key)
    monkeypatch.setattr(search, "WINDOW_BYTES", window_bytes)
    wanted = ["k", "k1 ", *(f"k{index}" for index in range(number))]
    stored = {"k", "k11", *(f"k{index}" for index in range(5))}
    assert stored.intersection(wanted) == find(log, *wanted).keys()


@pytest.mark.parametrize("number", [1, 8])
def test_only_the_head_of_an_intact_line_has_a_key(log: JsonlLog, number: int) -> None:
    """A field of a body, a free text, and a line that was changed have none."""
    with log.transaction() as tx:
        tx.append([Draft("x.y", 1, {"a": 1, "key": "b1"})], BY, "c1")
        tx.append([Draft("x.y", 1, {}, {"text": ',"key":"f1","at":"'})], BY)
        tx.append([Draft("x.y", 1, {}, {"a": "", "key": "f2"})], BY)
        tx.append(rated("changed"), BY, "t1")
    data = log.path.read_bytes()
    log.path.write_bytes(data.replace(b"changed", b"CHANGED"))
    others = [f"unknown {index}" for index in range(number)]
    assert {"c1"} == find(log, "b1", "c1", "f1", "f2", "t1", *others).keys()


def test_a_repeat_is_found_from_the_end(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that comes again soon costs a few reads, however long the log is."""
    for number in range(300):
        append(log, f"filler {number}")
    append(log, "last", key="k5")
    offsets: list[int] = []
    read_at = disk.read_at

    def note(fd: int, size: int, offset: int) -> bytes:
        offsets.append(offset)
        return read_at(fd, size, offset)

    monkeypatch.setattr(search, "read_at", note)
    monkeypatch.setattr(search, "WINDOW_BYTES", 1_000)
    monkeypatch.setattr(line, "MAX_LINE_BYTES", 1_000)
    assert {"k5"} == find(log, "k5").keys()
    assert len(offsets) < 5
    assert min(offsets) > log.path.stat().st_size - 3_000


@pytest.mark.parametrize("key", ["", "ключ", 'a "quote"', "back\\slash", "tab\t", "x" * 201, "half \ud800"])
def test_any_other_key_is_stored_as_its_digest(key: str) -> None:
    """Every version stores the first 16 bytes of SHA-256 over its UTF-8, or a key would count twice."""
    written = sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    assert (f"digest:{written}", "x" * 200) == (normalize_key(key), normalize_key("x" * 200))
