"""Erasing texts in detail: the event of each line, overwritten bytes, the pending file, and refusals."""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.ledger_lines import forge
from helpers.ledger_redaction import (
    LONG,
    NOTE,
    TORN,
    begin_redaction,
    events,
    id_of,
    ledger_with_secret,
    put,
    strike,
    value_of,
)
from tallybook.ledger.errors import CannotWriteError, OutcomeUnknownError
from tallybook.ledger.events import LogRecovered, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import BY_FIELDS
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.redaction import (
    FINISHED_FILE,
    PENDING_FILE,
    PendingRedaction,
    find_erased,
    mask,
)
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.log import JsonlLog

ADDED = '"kind":"point.added","v":1,"body":{"name":"kpt_001"}'
CONTINUED = '"kind":"text.continued","v":1,"body":{}'
HINT = "it lists texts that must be erased: put it back, or delete it and redact again"


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with a secret in it."""
    return ledger_with_secret(tmp_path / "ledger")


def test_a_continued_text_belongs_to_its_first_line() -> None:
    """An erased text belongs to the event on the last line that is no continuation; before the first, to none."""
    batch = forge((CONTINUED, "null"), (ADDED, "null"), (CONTINUED, "null "), (ADDED, '{"text":"a"}'), (ADDED, "null"))
    assert [(1, ""), (2, "id-2"), (3, "id-2"), (5, "id-5")] == find_erased(batch)
    assert [] == find_erased(forge((ADDED, '{"text":"null"}')))
    assert [] == find_erased(forge((ADDED, None)))


def test_only_the_text_is_masked() -> None:
    """Each text of the named events becomes null and blanks; all else stays, and no byte moves."""
    texts = ['{"salt":"5a17","text":"a"}', '{"salt":"5a17","text":"two"}', '{"salt":"5a17"}']
    data = forge(*((ADDED, text) for text in texts), (ADDED, None)).data
    for ids in ({"id-1"}, {"id-2"}, {"id-3"}, {"id-1", "id-3", "id-4", "id-9"}, set[str]()):
        expected = data.decode()
        for number, text in enumerate(texts, 1):
            if f"id-{number}" in ids:
                expected = expected.replace(text, "null".ljust(len(text)))
        assert expected.encode() == mask(data, ids)


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


def test_a_quoted_seal_is_a_text(log: JsonlLog) -> None:
    """A text that quotes a seal names no range, and is erased like any other."""
    quoted = ',\\t"kind":"log.recovered","v":1,"body":{"begin":0,"end":300,"digest": hunter2'
    put(log, PointAdded("kpt_003", quoted), PlaybookUpdated(1, 0, 0))
    before = log.path.read_bytes()
    secret = id_of(log, PointAdded, "log.recovered")
    value = value_of(log, b"log.recovered")
    strike(log, secret)
    assert before.replace(value, b"null".ljust(len(value))) == log.path.read_bytes()[: len(before)]


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 1 << 20])
def test_the_size_of_writes_changes_nothing(log: JsonlLog, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """However few bytes are written at a time, the same bytes are overwritten."""
    put(log, PointAdded("kpt_003", LONG[9_900:10_100]), PlaybookUpdated(1, 0, 0))
    monkeypatch.setattr(redaction, "_PIECE_BYTES", piece)
    secret = id_of(log, PointAdded, "hunter2y")
    before, value = log.path.read_bytes(), value_of(log, b"hunter2y")
    strike(log, secret)
    assert before.replace(value, b"null".ljust(len(value))) == log.path.read_bytes()[: len(before)]


def test_a_pending_file_survives_a_round_trip(log: JsonlLog) -> None:
    """Every id and text, the reason, and all of the author are read again."""
    by = {field: f"{field} \u00fc" for field in BY_FIELDS}
    note = PendingRedaction(("a", "b"), ("hunter2", "caf\u00e9"), "why not", by)
    redaction.write_pending(log.folder, note)
    assert (note, frozenset({"a", "b"})) == (redaction.read_pending(log.folder), redaction.pending_ids(log.folder))
    value = {"ids": ["a", "b"], "texts": ["hunter2", "caf\u00e9"], "reason": "why not", "by": by}
    written = json.loads((log.folder / PENDING_FILE).read_bytes())
    assert {"boot", "file", "made"} == written.pop("proof").keys()
    assert value == written


@pytest.mark.parametrize(
    ("changed", "fault", "cause"),
    [
        ({"ids": [1]}, "TypeError", "expected texts"),
        ({"reason": ""}, "TypeError", "expected texts"),
        ({"by": {"rater": ""}}, "TypeError", "expected texts"),
        ({"by": {"session": "s"}}, "TypeError", "expected an author, and two lists"),
        ({"by": {"rater": "a", "mood": "b"}}, "TypeError", "expected an author, and two lists"),
        ({"ids": "a"}, "TypeError", "expected an author, and two lists"),
        ({"texts": {"a": 1}}, "TypeError", "expected an author, and two lists"),
        ({"by": ["rater"]}, "AttributeError", "'list' object has no attribute 'values'"),
    ],
)
def test_an_invalid_pending_file_is_one_line(log: JsonlLog, changed: dict[str, Any], fault: str, cause: str) -> None:
    """The line has the file, the fault and the remedy; the cause has details."""
    path = log.folder / PENDING_FILE
    path.write_text(json.dumps(NOTE | changed))
    with pytest.raises(CannotWriteError) as refused:
        redaction.read_pending(log.folder)
    assert f"{path}: cannot be read: {fault}; {HINT}" == str(refused.value)
    assert cause == str(refused.value.__cause__)


def test_a_removed_pending_file_is_flushed(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It leaves no second name, and the folder is flushed after each step."""
    steps: list[tuple[bool, bool]] = []
    flush = disk.flush_folder

    def watched(path: Path) -> None:
        steps.append(((path / PENDING_FILE).exists(), (path / FINISHED_FILE).exists()))
        flush(path)

    begin_redaction(log, "a")
    monkeypatch.setattr(disk, "flush_folder", watched)
    redaction.remove_pending(log.folder)
    assert [(False, True), (False, False)] == steps


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
