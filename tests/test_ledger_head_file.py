"""The head file: its exact bytes, a newer version, concurrent writers, and systems without pwrite."""

from __future__ import annotations

import binascii
import errno
import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_logs import append, names
from tallybook.ledger.errors import NewerLedgerError
from tallybook.ledger.line import Position
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head
from tallybook.ledger.storage.head import HEAD_BYTES, Head, decode, encode
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHAIN = "0123456789abcdef" * 2
AT = "2026-11-21T20:17:03.123456Z"
FULL = Head(Position(812, CHAIN, 4096, AT), "boot-1", 1024, 3)
BARE = Head(Position(812, CHAIN, 4096), "")


def sealed(said: bytes) -> bytes:
    """Return a head with these fields and the right checksum."""
    return (said + b"%08x" % binascii.crc32(said)).ljust(HEAD_BYTES - 1) + b"\n"


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """Return an empty open file."""
    opened = os.open(tmp_path / "head", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (FULL, f"tallybook-head 1 812 {CHAIN} 4096 {AT} boot-1 1024 3 "),
        (BARE, f"tallybook-head 1 812 {CHAIN} 4096 - - -1 0 "),
    ],
    ids=["full", "bare"],
)
def test_a_head_is_one_line_of_these_bytes(told: Head, said: str) -> None:
    """Its fields have this order, a dash for a missing one, then the checksum over all of it, then blanks."""
    assert sealed(said.encode()) == encode(told)
    assert told == decode(sealed(said.encode()))


def test_a_head_of_a_later_version_is_refused() -> None:
    """Whatever follows the later version number, the error suggests an upgrade."""
    with pytest.raises(NewerLedgerError) as refused:
        decode(sealed(b"tallybook-head 3 something else "))
    assert "head: written in ledger format 3, this Tallybook reads up to 2; upgrade Tallybook" == str(refused.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" " * HEAD_BYTES,
        b"\0" * HEAD_BYTES,
        sealed(b"other-head 1 812 x 4096 - - -1 0 "),
        sealed(f"tallybook-head 1 812 {CHAIN} 4096 - - -1 ".encode()),
        sealed(f"tallybook-head 1 812 {CHAIN} 4096 - - -1 0 0 ".encode()),
        encode(FULL).replace(b"812", b"813"),
    ],
    ids=["empty", "blanks", "NUL", "another's", "a field less", "a field more", "changed"],
)
def test_an_invalid_head_is_none(data: bytes) -> None:
    """Nothing is read from it, and nothing is raised."""
    assert decode(data) is None


@pytest.mark.parametrize("call", ["pwrite", "write"])
def test_a_partly_written_head_is_an_error(fd: int, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A short write is reported as the disk's error."""
    if call == "write":
        monkeypatch.delattr(os, "pwrite")
    monkeypatch.setattr(os, call, lambda *_: HEAD_BYTES - 1)
    with pytest.raises(OSError, match=r"^\[Errno \d+\] the head was written in part$") as caught:
        head.write(fd, encode(FULL))
    assert errno.EIO == caught.value.errno


def test_a_ledger_with_a_head_without_a_number_is_read_and_gets_a_new_one(tmp_path: Path) -> None:
    """Reading and appending work as without a head, and the next writer replaces it."""
    log = JsonlLog(tmp_path / "ledger")
    append(log, "a")
    log.close()
    parts = (log.folder / "head").read_bytes().split()[:-1]
    parts[2] = b"many"
    (log.folder / "head").write_bytes(sealed(b" ".join([*parts, b""])))
    assert (["a"], True) == (names(log), verify(log).ok)
    append(log, "b")
    log.close()
    assert (["a", "b"], log.head().seq) == (names(log), 3)
