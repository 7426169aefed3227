"""The log file and its many writers: stale state, planted files, a held lock, and a disk that refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import errno
from hashlib import sha256
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from helpers.commands import ROOT, Run
from helpers.hook_calls import call
from helpers.ledger_files import Flushes, fail, list_spooled, refuse
from helpers.ledger_logs import BY, Clock, append, lines, make_ratings, names
from tallybook.ledger import line, search
from tallybook.ledger import log as files
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, OutcomeUnknownError
from tallybook.ledger.line import Draft, normalize_key
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.search import Delivery, find_deliveries
from tallybook.ledger.storage import disk
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop the administrator's right to write everywhere, if the tests run with it."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def full_after(room: int) -> Callable[[int, bytes], int]:
    """Return a stand-in for a full disk: the log takes ``room`` more bytes in a short write, then nothing."""
    left = [room]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        taken = real(fd, data[: left[0]])
        left[0] -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    return write


def append_two(log: JsonlLog) -> None:
    """Append two batches in one transaction."""
    with log.transaction() as tx:
        tx.append(make_ratings("a"), BY)
        tx.append(make_ratings("b"), BY)


HOOK = """
import sys
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.ledger.line import Draft
with JsonlLog(Path(sys.argv[1])).transaction() as tx:
    tx.append([Draft("point.rated", 1, {"name": "a", "rating": "helpful"})], {"rater": "agent"}, "k")
slow = {"attrs", "attr", "cattrs", "cattr", "msgspec", "click", "rich", "datetime", "uuid"}
print(sorted(slow & sys.modules.keys()))
"""

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a ledger that does not exist yet."""
    return tmp_path / "ledger"


@pytest.mark.parametrize("resident", [True, False])
def test_a_deleted_log_is_damage(log: JsonlLog, *, resident: bool) -> None:
    """If there is a head, readers and writers refuse a missing log, and none is created in its place."""
    log.path.unlink()
    other = log if resident else JsonlLog(log.folder)
    for act in (lambda: list(other.read()), other.transaction().__enter__):
        with pytest.raises(DamagedLedgerError):
            act()
    assert other.exists()
    assert not log.path.exists()


def test_a_read_only_folder_can_be_read() -> None:
    """Reading needs no right to write, and a writer reports in one line that it lacks that right."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "ledger"
        append(JsonlLog(folder), "a")
        for path in (Path(name), folder):
            path.chmod(0o555)
        for path in folder.iterdir():
            path.chmod(0o444)
        log = JsonlLog(folder)
        with unprivileged():
            assert ["a"] == names(log)
            with pytest.raises(CannotWriteError):
                append(log, "b")
        assert ["a"] == names(log)
        for path in (Path(name), folder):
            path.chmod(0o755)


def test_a_hook_loads_the_standard_library_only(folder: Path) -> None:
    """Appending in a process of its own, with a key, loads no library and none of the slow modules."""
    done = subprocess.run(
        [sys.executable, "-c", HOOK, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "[]\n" == done.stdout
    assert ["a"] == names(JsonlLog(folder))


@pytest.mark.parametrize("spare", [0, 1, 100])
def test_a_disk_that_fills_between_two_batches_is_reported_as_unknown(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """If the first batch did fit, the error must not say that nothing was recorded, or it would be sent again."""
    first = append(log, "a")
    assert first is not None
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_after(len(first.raw) + spare))
        with pytest.raises((CannotWriteError, OutcomeUnknownError)) as told:
            append_two(log)
    assert told.type is OutcomeUnknownError or ["first", "a"] == names(JsonlLog(log.folder))


def test_a_duplicate_batch_is_flushed_too(log: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first delivery may not be durable yet, so the second is acknowledged after a flush of its own."""
    append(log, "a", key="k")
    flushed: list[int] = []
    monkeypatch.setattr(disk, "flush_data", flushed.append)
    assert append(log, "a", key="k") is None
    assert 1 == len(flushed)


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the files, by inode, that are flushed from now on."""
    inodes: list[int] = []
    monkeypatch.setattr(disk, "flush_data", lambda fd: inodes.append(os.fstat(fd).st_ino))
    monkeypatch.setattr(os, "fsync", lambda fd: inodes.append(os.fstat(fd).st_ino))
    return inodes


def unknown(path: Path, why: str = "Input/output error") -> str:
    """Return the message of an unknown outcome."""
    return f"{path}: could not be flushed ({why}), so it may or may not be recorded; check with `tallybook log`"


def test_a_new_ledger_is_durable_as_a_whole(tmp_path: Path, flushed: list[int]) -> None:
    """Head and names are flushed before the first event, the head again after it; later only the log."""
    log = JsonlLog(tmp_path)
    append(log, "a")
    folder, head, events = (path.stat().st_ino for path in (tmp_path, tmp_path / "head", log.path))
    assert [head, folder, events, head] == flushed
    flushed.clear()
    append(log, "b")
    assert [events] == flushed


def test_a_ledger_that_cannot_be_created_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a confirmed head there is no first event, and the error names the folder; a later try creates it."""
    log = JsonlLog(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "flush_data", refuse(errno.EIO))
        with pytest.raises(CannotWriteError) as told:
            append(log, "lost")
    assert f"{tmp_path}: Input/output error; nothing was recorded; try again" == str(told.value)
    assert b"" == log.path.read_bytes()
    append(log, "a")
    assert ["a"] == names(log)


def test_a_nested_transaction_is_refused(log: JsonlLog) -> None:
    """It would wait for its own lock, so it raises, and the outer one continues."""
    with log.transaction() as tx:
        with pytest.raises(RuntimeError, match=r"^a transaction of this log is open; .* one at a time$"):
            log.transaction().__enter__()
        tx.append(make_ratings("a"), BY)
    append(log, "b")
    assert ["first", "a", "b"] == names(log)


@pytest.mark.parametrize("step", [lambda: None, fail], ids=["flushed", "failed"])
def test_a_held_head_lock_is_given_up_after_some_tries(
    log: JsonlLog, monkeypatch: pytest.MonkeyPatch, step: Callable[[], None]
) -> None:
    """A writer retries the head's lock a number of times while its holder is stopped; then the outcome is unknown."""
    asked: list[int] = []

    def hold() -> None:
        monkeypatch.setattr(disk, "try_lock", asked.append)
        step()

    monkeypatch.setattr(files, "HEAD_TRIES", 3)
    monkeypatch.setattr(files, "REPORT_TRIES", 5)
    monkeypatch.setattr(disk, "pause", lambda: None)
    monkeypatch.setattr(disk, "flush_data", Flushes(hold))
    with pytest.raises(OutcomeUnknownError) as told:
        append(log, "a")
    assert unknown(log.folder / "head", "held by another process") == str(told.value)
    assert (5 if step is fail else 3) == len(asked)


NAMES = ["events.jsonl", "head", "lock"]


@pytest.mark.parametrize("lost", ["", "head"])
def test_a_backup_by_hard_links_blocks_no_writer(log: JsonlLog, tmp_path: Path, lost: str) -> None:
    """The ledger's own files are recognised by their content, even if the head is lost."""
    log.close()
    for name in NAMES:
        (tmp_path / name).hardlink_to(log.folder / name)
    if lost:
        (log.folder / lost).unlink()
    append(log, "a")
    assert ["first", "a"] == names(JsonlLog(log.folder))


@pytest.mark.parametrize(("seconds", "is_kept"), [(-1, True), (-3600, True), (-3601, False), (1, False)])
def test_time_runs_back_only_by_more_than_an_hour(tmp_path: Path, seconds: float, is_kept: bool) -> None:
    """An event of a clock up to an hour behind has the last one's time; a clock further behind is believed."""
    clock = Clock()
    log = JsonlLog(tmp_path, clock)
    append(log, "a")
    before = clock().at
    later = clock.move(seconds)
    append(log, "b")
    assert (before if is_kept else later) == lines(log)[-1]["at"]


# Idempotency keys: a writer finds them by their bytes in the log, and only where a batch that counts has them.


@pytest.fixture
def keyed(tmp_path: Path) -> JsonlLog:
    """Return a ledger that holds the keys k0 to k4."""
    opened = JsonlLog(tmp_path / "ledger")
    for number in range(5):
        append(opened, f"a{number}", key=f"k{number}")
    return opened


@contextmanager
def opened(keyed: JsonlLog) -> Iterator[int]:
    """Open the log for reading."""
    with keyed.path.open("rb") as file:
        yield file.fileno()


def find(keyed: JsonlLog, *keys: str) -> dict[str, Delivery]:
    """Return the batches of these keys."""
    with opened(keyed) as fd:
        return find_deliveries(fd, keys, os.fstat(fd).st_size)


@pytest.mark.parametrize("window_bytes", [1, 2, 13, 97, 600, 10_000])
@pytest.mark.parametrize("number", [1, 7, 8, 40])
def test_exactly_the_keys_of_the_log_are_found(
    keyed: JsonlLog, monkeypatch: pytest.MonkeyPatch, window_bytes: int, number: int
) -> None:
    """Looked up alone or together, wherever a window of the search begins, and however a key continues another."""
    for key in ("k", "k11", "x k1", "k1 x", "a key that is a little longer than the others"):
        append(keyed, key, key=key)
    monkeypatch.setattr(search, "WINDOW_BYTES", window_bytes)
    wanted = ["k", "k1 ", *(f"k{index}" for index in range(number))]
    stored = {"k", "k11", *(f"k{index}" for index in range(5))}
    assert stored.intersection(wanted) == find(keyed, *wanted).keys()


@pytest.mark.parametrize("number", [1, 8])
def test_only_the_head_of_an_intact_line_has_a_key(keyed: JsonlLog, number: int) -> None:
    """A field of a body, a free text, and a line that was changed have none."""
    with keyed.transaction() as tx:
        tx.append([Draft("x.y", 1, {"a": 1, "key": "b1"})], BY, "c1")
        tx.append([Draft("x.y", 1, {}, {"text": ',"key":"f1","at":"'})], BY)
        tx.append([Draft("x.y", 1, {}, {"a": "", "key": "f2"})], BY)
        tx.append(make_ratings("changed"), BY, "t1")
    data = keyed.path.read_bytes()
    keyed.path.write_bytes(data.replace(b"changed", b"CHANGED"))
    others = [f"unknown {index}" for index in range(number)]
    assert {"c1"} == find(keyed, "b1", "c1", "f1", "f2", "t1", *others).keys()


def test_a_repeat_is_found_from_the_end(keyed: JsonlLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that comes again soon costs a few reads, however long the log is."""
    for number in range(300):
        append(keyed, f"filler {number}")
    append(keyed, "last", key="k5")
    offsets: list[int] = []
    read_at = disk.read_at

    def note(fd: int, size: int, offset: int) -> bytes:
        offsets.append(offset)
        return read_at(fd, size, offset)

    monkeypatch.setattr(search, "read_at", note)
    monkeypatch.setattr(search, "WINDOW_BYTES", 1_000)
    monkeypatch.setattr(line, "MAX_LINE_BYTES", 1_000)
    assert {"k5"} == find(keyed, "k5").keys()
    assert len(offsets) < 5
    assert min(offsets) > keyed.path.stat().st_size - 3_000


@pytest.mark.parametrize("key", ["", "ключ", 'a "quote"', "back\\slash", "tab\t", "x" * 201, "half \ud800"])
def test_any_other_key_is_stored_as_its_digest(key: str) -> None:
    """Every version stores the first 16 bytes of SHA-256 over its UTF-8, or a key would count twice."""
    written = sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    assert (f"digest:{written}", "x" * 200) == (normalize_key(key), normalize_key("x" * 200))


# A log that was replaced by a copy of it: no writer seals it, appends to it or acknowledges it.


OURS, THEIRS = "kpt_a", "kpt_b"


def diverge(folder: Path, count: int) -> tuple[JsonlLog, bytes]:
    """Return a ledger, and the log of a copy of it that has ``count`` other ratings in place of its last."""
    copied = folder.with_name("copy")
    log, other = JsonlLog(folder), JsonlLog(copied)
    append(log, "kpt_s")
    shutil.copytree(folder, copied)
    append(log, OURS)
    append(other, *[THEIRS] * count)
    other.close()
    return log, other.path.read_bytes()


def move_in(log: JsonlLog, data: bytes) -> None:
    """Rename another file over a log."""
    fresh = log.path.with_name("fresh")
    fresh.write_bytes(data)
    fresh.replace(log.path)


def overwrite(log: JsonlLog, data: bytes) -> None:
    """Overwrite the file of a log, which a writer may have open."""
    log.path.write_bytes(data)


@pytest.mark.parametrize("replace", [move_in, overwrite])
@pytest.mark.parametrize("count", [1, 4, 2_000], ids=["as long", "longer", "longer than the tail that is read"])
def test_a_replaced_log_is_damage_to_a_writer(
    tmp_path: Path, count: int, replace: Callable[[JsonlLog, bytes], None]
) -> None:
    """Whether the copy is as long or longer, a transaction refuses it and changes neither log nor head."""
    log, data = diverge(tmp_path / "ledger", count)
    head = (log.folder / "head").read_bytes()
    replace(log, data)
    with pytest.raises(DamagedLedgerError, match=r"does not have the chain .* that was acknowledged"):
        append(log, "late")
    log.close()
    assert (data, head) == (log.path.read_bytes(), (log.folder / "head").read_bytes())
    assert not (log.folder / "quarantine").exists()
    assert not verify(JsonlLog(log.folder)).ok


def test_a_hook_changes_nothing_in_a_damaged_ledger(project: Path, run: Run) -> None:
    """With a copy in place of the project's log, the hook spools its payload and seals nothing."""
    here, copy = Project(project), Project(project / "copy")
    commands.add(here, "Quote ids as strings.", {"rater": "human"})
    shutil.copytree(here.claude, copy.claude)
    commands.rate(here, "kpt_001", "helpful", {"rater": "human"})
    for _ in range(4):
        commands.rate(copy, "kpt_001", "harmful", {"rater": "human"})
    shutil.copyfile(copy.ledger / "events.jsonl", here.ledger / "events.jsonl")
    data = (here.ledger / "events.jsonl").read_bytes()
    assert 3 == run("verify").code
    transcript = project / "transcript.jsonl"
    transcript.write_text("{}\n")
    payload = {"hook_event_name": "SessionEnd", "cwd": str(project), "transcript_path": str(transcript)}
    call(payload)
    assert data == (here.ledger / "events.jsonl").read_bytes()
    assert 3 == run("verify").code
    assert 1 == len(list_spooled(here))
