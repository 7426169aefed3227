"""Payloads in the spool: written whole or not at all, read in order, and never an obstacle."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallybook.ledger.errors import CannotWriteError, Problem
from tallybook.ledger.storage import spool

REQUESTS = [{"payload": {"new_key_points": ["ü\u2028 \"'{"]}, "by": {"rater": "agent"}, "key": None}]
AT = "2026-11-21T20:17:03.123456Z"


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
