"""The files of a ledger as a writer opens them: their owners, missing ones, and open descriptors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_logs import append, names
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import START
from tallybook.ledger.log import Files, JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["events.jsonl", "head", "lock"]


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with one acknowledged rating, and no open file."""
    opened = JsonlLog(tmp_path / "ledger")
    append(opened, "first")
    opened.close()
    return opened


def open_now() -> set[int]:
    """Return the descriptors that are open, among the numbers that the tests reach."""
    found = set()
    for fd in range(4096):
        try:
            os.fstat(fd)
        except OSError:
            continue
        found.add(fd)
    return found


def test_a_file_with_the_number_of_standard_input_is_closed_too(log: JsonlLog) -> None:
    """A hook may start without standard input; then the first file that it opens is number 0."""
    kept = os.dup(0)
    os.close(0)
    try:
        files = Files(log.folder)
        assert 0 == files.lock
        files.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_cannot_be_opened_leaves_none_open(log: JsonlLog, tmp_path: Path, name: str) -> None:
    """It holds for each of the files; descriptors that were open before stay open."""
    (log.folder / name).unlink()
    (log.folder / name).symlink_to(tmp_path / "nowhere")
    before = open_now()
    with pytest.raises(CannotWriteError, match="is a symbolic link"):
        Files(log.folder)
    assert before == open_now()


def test_an_unacknowledged_missing_log_is_created(log: JsonlLog) -> None:
    """A writer that died between the head and the first line blocks no later one."""
    log.path.unlink()
    (log.folder / "head").write_bytes(heads.encode(Head(START, "")))
    append(log, "a")
    assert ["a"] == names(JsonlLog(log.folder))


@pytest.mark.parametrize("lost", ["", "head"])
def test_a_backup_by_hard_links_blocks_no_writer(log: JsonlLog, tmp_path: Path, lost: str) -> None:
    """The ledger's own files are recognised by their content, even if the head is lost."""
    for name in NAMES:
        (tmp_path / name).hardlink_to(log.folder / name)
    if lost:
        (log.folder / lost).unlink()
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))
