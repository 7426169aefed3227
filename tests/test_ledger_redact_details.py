"""Erasing texts in detail: the event of each line, overwritten bytes, the pending file, and refusals."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.ledger_redaction import (
    TORN,
    begin_redaction,
    events,
    id_of,
    ledger_with_secret,
    put,
    strike,
)
from tallybook.ledger.errors import CannotWriteError, OutcomeUnknownError
from tallybook.ledger.events import LogRecovered, PointAdded, PointRated
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.redaction import (
    FINISHED_FILE,
    find_erased,
)
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.log import JsonlLog


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with a secret in it."""
    return ledger_with_secret(tmp_path / "ledger")


def sealed(log: JsonlLog, torn: bytes) -> str:
    """Make a writer seal a torn end; return the id of the seal."""
    known = {id_ for id_, event in events(log).items() if isinstance(event, LogRecovered)}
    log.close()
    with log.path.open("ab") as file:
        file.write(torn)
    put(log, PointRated("kpt_002", "helpful"))
    (found,) = {id_ for id_, event in events(log).items() if isinstance(event, LogRecovered)} - known
    return found


def test_only_the_redacted_sealed_range_is_erased(log: JsonlLog) -> None:
    """Of several sealed ranges only the redacted one is overwritten, with its copies alone."""
    ids = [sealed(log, TORN), sealed(log, b"another end\n"), sealed(log, b"and one more")]
    strike(log, ids[1])
    kept = [log.path.read_bytes(), *(path.read_bytes() for path in (log.folder / "quarantine").iterdir())]
    for torn, left in ((TORN, 2), (b"another end\n", 0), (b"and one more", 2)):
        assert left == sum(torn in data for data in kept)
    assert 4 == len(kept)
    assert ((), [ids[1]]) == (verify(log).problems, [id_ for batch in log.read() for _, id_ in find_erased(batch)])


def test_a_pending_file_that_cannot_be_removed_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays, the error has the system's reason, and the next writer tries again."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    begin_redaction(log, "a")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(CannotWriteError) as refused:
            redaction.remove_pending(log.folder)
    cure = "it is mounted read-only, so mount it for writing first"
    expected = f"{log.folder / FINISHED_FILE}: Read-only file system; nothing was recorded; {cure}"
    assert expected == str(refused.value)
    assert {"a"} == redaction.pending_ids(log.folder)


def failing(error: int) -> Callable[..., Any]:
    """Return a function that fails like the disk, whatever its arguments."""

    def fail(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


def test_a_pending_file_that_cannot_be_overwritten_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file that refused the blanks, or their flush."""
    path = log.folder / FINISHED_FILE
    begin_redaction(log, "a")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing(errno.ENOSPC))
        with pytest.raises(CannotWriteError) as refused:
            redaction.remove_pending(log.folder)
    assert f"{path}: No space left on device; nothing was recorded; try again" == str(refused.value)
    with monkeypatch.context() as patched:
        patched.setattr(disk, "flush_data", failing(errno.EIO))
        with pytest.raises(OutcomeUnknownError) as unknown:
            redaction.remove_pending(log.folder)
    assert str(unknown.value).startswith(f"{path}: could not be flushed (Input/output error)")


def test_a_log_that_cannot_be_overwritten_is_reported(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has file, reason and state; the text is still there, and readers hide it."""
    secret = id_of(log, PointAdded, "hunter2")
    batches = [*log.read()]
    begin_redaction(log, secret)

    def refuse(path: Path, **_: object) -> int:
        raise CannotWriteError(path, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "open_file", refuse)
        with pytest.raises(CannotWriteError) as refused:
            redaction.erase(log.path, batches, {secret})
    hint = "readers treat the text as erased; the next command that can overwrite the file erases it"
    assert f"{log.path}: Operation not permitted; {hint}" == str(refused.value)
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing(errno.EIO))
        with pytest.raises(CannotWriteError) as refused:
            redaction.erase(log.path, batches, {secret})
    assert f"{log.path}: Input/output error; nothing was recorded; try again" == str(refused.value)
    with monkeypatch.context() as patched:
        patched.setattr(disk, "flush_data", failing(errno.EIO))
        with pytest.raises(OutcomeUnknownError) as unknown:
            redaction.erase(log.path, batches, {secret})
    assert str(unknown.value).startswith(f"{log.path}: could not be flushed (Input/output error)")
    assert [None, "Write tests"] == [event.text for event in events(log).values() if isinstance(event, PointAdded)]


@pytest.mark.skipif(os.name != "posix", reason="links are made on POSIX")
def test_a_linked_quarantine_is_left_alone(log: JsonlLog, tmp_path: Path) -> None:
    """Nothing is overwritten at a link's target."""
    seal = sealed(log, TORN)
    elsewhere = tmp_path / "elsewhere"
    (log.folder / "quarantine").rename(elsewhere)
    (log.folder / "quarantine").symlink_to(elsewhere)
    with pytest.raises(CannotWriteError, match="quarantine: is a symbolic link"):
        redaction.erase(log.path, log.read(), {seal})
    assert [TORN] == [path.read_bytes() for path in elsewhere.iterdir()]
