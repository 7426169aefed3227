"""Payloads in the spool: written whole or not at all, read in order, and never an obstacle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.storage import spool

REQUESTS = [{"payload": {"new_key_points": ["ü\u2028 \"'{"]}, "by": {"rater": "agent"}, "key": None}]
AT = "2026-11-21T20:17:03.123456Z"


def test_a_spooled_payload_is_read(tmp_path: Path) -> None:
    """It has its content, time and id."""
    path = spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert ([spool.SpoolFile(str(path), "id-1", AT, REQUESTS)], []) == spool.read_files(tmp_path)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"7", b"{}", b"\xff", b'{"id":"x","at":"y"}', b"[" * 200_000, b'{"id":"x"}'],
    ids=["empty", "half", "list", "null", "number", "object", "bytes", "no-requests", "deep", "id-only"],
)
def test_an_unreadable_payload_is_named_and_stays(tmp_path: Path, data: bytes) -> None:
    """An invalid file is reported next to the valid payloads, and is not removed."""
    good = spool.put(tmp_path, AT, "good", REQUESTS)
    bad = tmp_path / "spool" / "bad.json"
    bad.write_bytes(data)
    waiting, problems = spool.read_files(tmp_path)
    assert ([good], ["spool/bad.json"]) == ([file.path for file in waiting], [problem.source for problem in problems])
    assert data == bad.read_bytes()


def test_a_spool_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    """A file in place of the folder raises an error of Tallybook, and nothing else changes."""
    (tmp_path / "spool").write_text("in the way")
    with pytest.raises(CannotWriteError):
        spool.put(tmp_path, AT, "id-1", REQUESTS)
    assert "in the way" == (tmp_path / "spool").read_text()


def test_a_linked_spool_is_neither_filled_nor_read(tmp_path: Path) -> None:
    """Payloads at its target are another ledger's; the link is a problem, and nothing is written there."""
    spool.put(tmp_path / "other", AT, "id-1", REQUESTS)
    (tmp_path / "spool").symlink_to(tmp_path / "other" / "spool")
    waiting, problems = spool.read_files(tmp_path)
    told = f"{tmp_path / 'spool'}: is a symbolic link; replace it by what it points to"
    assert ([], [Problem("spool", told)]) == (waiting, problems)
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        spool.put(tmp_path, AT, "id-2", REQUESTS)
    assert 1 == len(list((tmp_path / "other" / "spool").iterdir()))


def test_a_spooled_payload_is_private_and_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other user can read it, and its bytes and its name are durable before the call returns."""
    (tmp_path / "spool").mkdir()
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    path = Path(spool.put(tmp_path, AT, "id-1", REQUESTS))
    assert [path.stat().st_ino, path.parent.stat().st_ino] == flushed
    assert 0o600 == path.stat().st_mode & 0o777
