"""Log files that git, an editor or a copy has changed: each is named or read as before, and none is sealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
import gzip
import json
import os
from pathlib import Path
import resource
import shutil
import socket
import stat
import subprocess
import sys

import pytest

from faults import scenes
from faults.at_calls import facts
from helpers.commands import CommandResult, assert_refused
from helpers.commands import run as real_run
from helpers.events import HUMAN
from helpers.git_repositories import counts, git, make_repository, save, switch
from helpers.hook_calls import HOOK, START, call, read_context
from tallybook.ledger import damage
from tallybook.ledger.errors import EXIT_DAMAGED, EXIT_NO, EXIT_NOT_WRITTEN
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

VERBS = [
    ["show"],
    ["add", "two"],
    ["verify"],
    ["check"],
    ["rate", "kpt_001", "helpful"],
    ["why", "kpt_001"],
    ["log"],
    ["replay"],
]
READERS = {"show", "verify", "check", "why", "log"}
has_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def files_of(here: Project) -> dict[Path, bytes]:
    """Return the log file, its head and what is in quarantine."""
    files = [here.ledger / "events.jsonl", here.ledger / "head", *here.ledger.glob("quarantine/*")]
    return {path: path.read_bytes() for path in files if path.exists() and path.stat().st_size}


def assert_refused_everywhere(here: Project, run: Callable[..., CommandResult], says: str, verbs: int = 3) -> None:
    """Check that verbs name what is wrong and exit with 3, and that neither they nor a hook change the log."""
    before = files_of(here)
    rendered = here.playbook.read_bytes()
    for words in VERBS[:verbs]:
        answer = run(*words)
        assert 3 == answer.code, words
        assert says in answer.out + answer.err, (words, answer)
    call(START | {"session_id": "s9"})
    assert (before, rendered) == (files_of(here), here.playbook.read_bytes())


# Two histories in one file


@pytest.fixture
def merged(project: Path) -> Project:
    """Return a project whose tracked log was merged by `merge=union`: 2 harmful ratings there, 1 helpful one here."""
    here = make_repository(project)
    switch(here, "side")
    for _ in range(2):
        commands.rate(here, "kpt_001", "harmful", HUMAN)
    save(here, "side")
    switch(here, "main")
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    commands.replay(here)
    save(here, "main")
    (here.root / ".gitattributes").write_text("events.jsonl merge=union\n")
    git(here.root, "merge", "--quiet", "--no-edit", "side")
    assert (here.ledger / "head").exists()
    return here


@has_git
def test_a_union_merge_is_refused_and_never_sealed(merged: Project, run: Callable[..., CommandResult]) -> None:
    """The other side of a merge is no torn tail, although it follows the head: every verb names it."""
    what = "lines were moved, repeated, removed or added"
    assert_refused_everywhere(merged, run, what, len(VERBS))


@has_git
def test_a_union_merge_is_joined_with_a_head(merged: Project) -> None:
    """The command that the message names brings the ratings of both sides."""
    assert 0 == real_run(merged, "import", "--ledger", str(merged.ledger / "events.jsonl")).code
    assert {"one": (1, 2)} == counts(merged)
    assert 0 == real_run(merged, "verify").code


@has_git
def test_a_side_that_an_earlier_version_sealed_is_found(merged: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of the file itself brings the events in a sealed range that follow an event before it."""
    with monkeypatch.context() as patch:
        patch.setattr(damage, "is_torn_tail", lambda *_: True)
        with reading.open_log(merged).transaction():
            pass
    assert {"one": (1, 0)} == counts(merged)
    assert [] == [*verify(reading.open_log(merged)).problems]
    source = str(merged.ledger / "events.jsonl")
    assert "2 ratings and 0 entries from" in real_run(merged, "import", "--ledger", source).out
    assert {"one": (1, 2)} == counts(merged)
    assert "nothing new in" in real_run(merged, "import", "--ledger", source).out
    assert 0 == real_run(merged, "verify").code


@has_git
def test_a_long_other_side_is_refused(merged: Project, run: Callable[..., CommandResult]) -> None:
    """Also more than 256 KiB of it, which many writers at once could leave as well."""
    switch(merged, "side", "--force")
    for number in range(40):
        commands.add(merged, f"{number} {'long ' * 1_500}", HUMAN)
    save(merged, "long")
    switch(merged, "main")
    git(merged.root, "reset", "--quiet", "--hard", "main~1")
    commands.replay(merged)
    commands.rate(merged, "kpt_001", "neutral", HUMAN)
    save(merged, "short")
    (merged.root / ".gitattributes").write_text("events.jsonl merge=union\n")
    git(merged.root, "merge", "--quiet", "--no-edit", "side")
    assert 256 * 1024 < (merged.ledger / "events.jsonl").stat().st_size
    assert_refused_everywhere(merged, run, "lines were moved, repeated, removed or added")


@has_git
def test_a_merge_of_two_sides_after_the_head_is_refused(merged: Project, run: Callable[..., CommandResult]) -> None:
    """The head is where both sides began: two batches have one event number, so neither is a torn tail."""
    data = (merged.ledger / "events.jsonl").read_bytes()
    for name in ("events.jsonl", "head"):
        (merged.ledger / name).unlink()
    (merged.ledger / "events.jsonl").write_bytes(b"".join(data.splitlines(keepends=True)[:3]))
    with reading.open_log(merged).transaction() as tx:
        tx._needs_flush = True
    (merged.ledger / "events.jsonl").write_bytes(data)
    head = reading.open_log(merged).head()
    assert 3 == head.seq
    assert_refused_everywhere(merged, run, "lines were moved, repeated, removed or added")


@pytest.mark.parametrize("head", [True, False])
def test_a_log_that_was_appended_to_itself_is_refused(
    project: Path, here: Project, run: Callable[..., CommandResult], *, head: bool
) -> None:
    """`cat copy >> events.jsonl` brings no torn tail, and the import of the file makes it whole again."""
    assert project == here.root
    log = here.ledger / "events.jsonl"
    data = log.read_bytes()
    log.write_bytes(data * 2)
    if not head:
        (here.ledger / "head").unlink()
    assert_refused_everywhere(here, run, "has seq 1 where")
    assert 0 == real_run(here, "import", "--ledger", str(log)).code
    assert log.read_bytes().startswith(data)
    assert {"one": (1, 0)} == counts(here)


# Conversions


@pytest.fixture
def here(project: Path, run: Callable[..., CommandResult]) -> Project:
    """Return a project with one entry, rated helpful once."""
    assert 0 == run("add", "one").code
    assert 0 == run("rate", "kpt_001", "helpful").code
    return Project(project)


CONVERSIONS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "CRLF": (
        lambda data: data.replace(b"\n", b"\r\n"),
        'events.jsonl:1: ends in CRLF: put "events.jsonl -text" into .gitattributes and check the file out again',
    ),
    "BOM": (lambda data: b"\xef\xbb\xbf" + data, "begins with a byte order mark"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), "is UTF-16, not UTF-8"),
    "UTF-16-LE": (lambda data: data.decode().encode("utf-16-le"), "is UTF-16, not UTF-8"),
    "UTF-16-BE": (lambda data: data.decode().encode("utf-16-be"), "is UTF-16, not UTF-8"),
    "gzip": (gzip.compress, "is compressed with gzip; unpack it"),
    "Git LFS": (lambda _: b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
    "git-crypt": (lambda data: b"\0GITCRYPT\0" + data[::-1], "is encrypted by git-crypt"),
    "text": (lambda _: b"hello\n", "events.jsonl:1: is not a line of this ledger"),
    "a short text": (lambda _: b"hello", "events.jsonl:1: is not a line of this ledger"),
}


@pytest.mark.parametrize("head", [True, False], ids=["head", "no head"])
@pytest.mark.parametrize(("convert", "says"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_a_log_that_does_not_begin_as_one_is_damage(
    here: Project, run: Callable[..., CommandResult], convert: Callable[[bytes], bytes], says: str, *, head: bool
) -> None:
    """A log whose first line is none of a ledger is neither read as empty nor sealed, and a conversion is named."""
    log = here.ledger / "events.jsonl"
    data = log.read_bytes()
    log.write_bytes(convert(data))
    if not head:
        (here.ledger / "head").unlink()
    assert_refused_everywhere(here, run, says)
    log.write_bytes(data)
    assert {"one": (1, 0)} == counts(here)


@pytest.mark.parametrize("lost", [(0, 1), (0, 512), (1, 512), (200, 512), (512, 1024), (0, 1024)])
def test_the_torn_beginning_of_a_new_ledger_is_sealed(
    here: Project, run: Callable[..., CommandResult], lost: tuple[int, int]
) -> None:
    """What a power loss leaves of a ledger of which nothing was acknowledged goes on as a new one."""
    log, begin, end = here.ledger / "events.jsonl", *lost
    data = log.read_bytes()
    (here.ledger / "head").unlink()
    log.write_bytes(data[:begin] + bytes(min(end, 512 * (begin // 512 + 1)) - begin) if begin else bytes(end))
    assert 0 == run("show").code
    assert 0 == run("add", "again").code
    assert {"again": (0, 0)} == counts(here)
    assert 0 == run("verify").code


# A missing last line break


def test_a_missing_last_line_break_is_no_loss(here: Project, run: Callable[..., CommandResult]) -> None:
    """Where exactly it is missing, every reader reads on, a hook too, and the next writer completes the line."""
    log = here.ledger / "events.jsonl"
    data = log.read_bytes()
    for words in VERBS:
        log.write_bytes(data[:-1])
        answer = run(*words)
        assert 0 == answer.code, (words, answer.err)
        assert log.read_bytes().startswith(data[: -1 if words[0] in READERS else None])
        data = log.read_bytes().removesuffix(b"\n") + b"\n"
    log.write_bytes(data[:-1])
    call(START | {"session_id": "s9"})
    assert log.read_bytes().startswith(data)
    assert 0 == run("verify").code
    assert not (here.ledger / "quarantine").exists()


def test_two_missing_bytes_are_a_loss(here: Project, run: Callable[..., CommandResult]) -> None:
    """More than the line break is acknowledged data."""
    log = here.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes()[:-2])
    assert_refused(run("show"), 3, "ends 2 bytes before its acknowledged end")


def test_the_last_line_of_a_copy_may_lack_its_line_break(here: Project, tmp_path: Path) -> None:
    """A ledger that is imported from a file is proven up to its last line."""
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes((here.ledger / "events.jsonl").read_bytes()[:-1])
    shutil.rmtree(here.ledger)
    here.playbook.unlink()
    answer = real_run(here, "import", "--ledger", str(copy))
    assert 0 == answer.code
    assert "left out" not in answer.err
    assert {"one": (1, 0)} == counts(here)


# Small files that are large


HOLE_BYTES = 3 * 1024**3
MEMORY_BYTES = 1024**3
LITTLE_BYTES = 160 * 1024**2
SMALL_FILES = [
    "erasing",
    "redacted/digests.json",
    "hook-error",
    "rendered",
    "spool/2026-11-21T201703.123456Z-a.json",
    "book/current",
    "book/results.json",
    "marks/question",
    ".gitignore",
]


def limit_memory() -> None:
    """Let this process have no more memory than a fraction of the hole."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


# Without the digests nothing is recorded, so the other files are planted apart from them.
@pytest.mark.parametrize(
    "planted", [SMALL_FILES[:1], SMALL_FILES[1:2], SMALL_FILES[2:]], ids=["erasing", "digests", "others"]
)
def test_a_hole_in_a_small_file_costs_no_memory(here: Project, planted: list[str]) -> None:
    """Whichever file of the ledger holds 3 GiB, hooks give the playbook, and commands answer in little memory."""
    paths = [here.ledger / name for name in planted]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.truncate(path, HOLE_BYTES)
    payload = json.dumps({"session_id": "s9", **START}).encode()
    hook = subprocess.run(HOOK, input=payload, capture_output=True, check=False, preexec_fn=limit_memory)
    assert (0, b"") == (hook.returncode, hook.stderr)
    assert "one" in read_context(hook.stdout.decode())
    for words in (["show"], ["verify"], ["doctor"], ["rate", "kpt_001", "helpful"]):
        answer = real_run(here, *words, before=limit_memory)
        assert answer.code in {0, 1, 4}, (words, answer)
        assert "MemoryError" not in answer.err
        assert 1 >= len(answer.err.splitlines()) or "note: " in answer.err
    assert all(not path.exists() or path.stat().st_blocks * 512 < 1024**2 for path in paths)


def test_a_hole_after_the_log_takes_no_memory(here: Project) -> None:
    """A log followed by a hole of 320 MiB is read, verified and sealed in half of that memory."""
    log = here.ledger / "events.jsonl"
    os.truncate(log, log.stat().st_size + 2 * LITTLE_BYTES)
    for words in (["show"], ["verify"], ["rate", "kpt_001", "helpful"]):
        answer = real_run(
            here, *words, before=lambda: resource.setrlimit(resource.RLIMIT_AS, (LITTLE_BYTES, LITTLE_BYTES))
        )
        assert 0 == answer.code, (words, answer)
    assert {"one": (2, 0)} == counts(here)
    assert log.stat().st_blocks * 512 < 1024**2


def test_a_pending_redaction_that_is_too_large_is_ignored_and_named(here: Project) -> None:
    """Tallybook writes none of that size, so it is another machine's; `verify` says that it can be deleted."""
    path = here.ledger / "erasing"
    path.touch()
    os.truncate(path, HOLE_BYTES)
    assert {"one": (1, 0)} == counts(here)
    assert "erasing was not written on this machine and is ignored; delete it" in real_run(here, "verify").out
    assert 0 == real_run(here, "rate", "kpt_001", "helpful").code


# Pipes, devices, folders and links in place of the ledger's files: no process waits for, follows or writes to them.


LOG = "ledger/events.jsonl"
KEPT = (LOG, "ledger/head", "ledger/lock")
WRITING = (("add", "more"), ("rate", "kpt_001", "helpful"), ("replay",))
READING = (("show",), ("log",), ("why", "kpt_001"), ("verify",), ("replay", "--check"))


def pipe(path: Path) -> None:
    """Plant a pipe without a process at its other end."""
    os.mkfifo(path)


def listener(path: Path) -> None:
    """Plant a socket."""
    # The name of a socket may have no more than about a hundred characters.
    here_was = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here_was)


def endless(path: Path) -> None:
    """Plant a device that returns NUL bytes without end."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device")


def full(path: Path) -> None:
    """Plant a device that returns NUL bytes without end and takes none."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root can make a device")


def folder(path: Path) -> None:
    """Plant a folder."""
    path.mkdir()


def loop(path: Path) -> None:
    """Plant a link to itself."""
    path.symlink_to(path)


PLANTS = (pipe, listener, endless, full, folder, loop)


@pytest.fixture
def planted_project(tmp_path: Path) -> Project:
    """Return a project with three entries."""
    return scenes.three_entries(tmp_path)


def plant_file(project: Project, name: str, plant: Callable[[Path], None]) -> os.stat_result:
    """Plant something in place of a file, and return its stat line."""
    path = project.claude / name
    path.unlink()
    plant(path)
    return path.lstat()


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_written_to_a_planted_file(
    planted_project: Project, plant: Callable[[Path], None], name: str, words: tuple[str, ...]
) -> None:
    """A writer that finds something else in place of its file prints one line, exits 4, and leaves it."""
    was = plant_file(planted_project, name, plant)
    log = planted_project.claude / LOG
    before = log.read_bytes() if name != LOG else b""
    answer = scenes.here(planted_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert name.rpartition("/")[2] in answer.err
    now = (planted_project.claude / name).lstat()
    assert (was.st_ino, was.st_mode) == (now.st_ino, now.st_mode)
    assert before == (log.read_bytes() if name != LOG else b"")


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("plant", PLANTS)
def test_nothing_is_read_from_a_planted_file(
    planted_project: Project, plant: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    """A reader that finds something else in place of the log prints one line, and waits for nothing."""
    plant_file(planted_project, LOG, plant)
    answer = scenes.here(planted_project, *words)
    assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
    assert "events.jsonl" in answer.err


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder])
def test_a_planted_playbook_loses_no_rating(planted_project: Project, plant: Callable[[Path], None]) -> None:
    """No command waits for something else in place of playbook.json; the rating is recorded, or refused with exit 4."""
    plant_file(planted_project, "playbook.json", plant)
    answer = scenes.here(planted_project, "rate", "kpt_001", "helpful")
    assert answer.code in {0, EXIT_NOT_WRITTEN}
    assert "Traceback" not in answer.err
    shown = scenes.here(planted_project, "log", "kpt_001")
    assert 0 == shown.code
    assert (2 if answer.code == 0 else 1) == shown.out.count("rated helpful")


@pytest.mark.parametrize("plant", [pipe, listener, endless, full, folder, loop])
def test_a_planted_payload_is_reported_and_left(planted_project: Project, plant: Callable[[Path], None]) -> None:
    """Something else in the spool is reported and left, and the sent rating is recorded."""
    spool = planted_project.ledger / "spool"
    spool.mkdir()
    plant(spool / "2026-01-01T000000.000000Z-x.json")
    answer = scenes.here(planted_project, "rate", "kpt_001", "helpful")
    assert 0 == answer.code
    assert (spool / "2026-01-01T000000.000000Z-x.json").lstat()
    assert "spool" in scenes.here(planted_project, "show").err


# A log that can only be appended to (`chattr +a`): every command works by appending.


@pytest.fixture
def protected(tmp_path: Path) -> Iterator[Callable[[Callable[[Path], Project]], Project]]:
    """Return a function that makes a project and protects its log against all but appends."""
    logs: list[Path] = []

    def make(scene: Callable[[Path], Project]) -> Project:
        if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("chattr") is None:
            pytest.skip("only root on Linux can make a file append-only, by chattr")
        project = scene(tmp_path)
        log = project.ledger / "events.jsonl"
        done = subprocess.run(["chattr", "+a", str(log)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this file system knows no append-only file: {done.stderr.strip()}")
        logs.append(log)
        with pytest.raises(PermissionError):
            os.truncate(log, 0)
        return project

    yield make
    for log in logs:
        subprocess.run(["chattr", "-a", str(log)], check=True)


APPENDING = [("show",), ("verify",), ("add", "more"), ("rate", "kpt_001", "helpful"), ("replay",)]


@pytest.mark.parametrize(
    "make", [scenes.three_entries, scenes.tear_log, scenes.spool_payload, scenes.edit_playbook, scenes.remove_rendering]
)
def test_every_command_works(
    protected: Callable[[Callable[[Path], Project]], Project], make: Callable[[Path], Project]
) -> None:
    """Append, seal, import the spool and manual edits, render and read need nothing but appends."""
    project = protected(make)
    for words in APPENDING:
        before, stood = (project.ledger / "events.jsonl").read_bytes(), facts(project)
        answer = scenes.here(project, *words)
        # `verify` reports a file that is changed or missing; the ledger is not damaged by it.
        assert answer.code == 0 or (words == ("verify",) and answer.code == EXIT_NO), words
        assert [] == [line for line in answer.err.splitlines() if not line.startswith("note: ")]
        assert (project.ledger / "events.jsonl").read_bytes().startswith(before)
        assert stood == facts(project)[: len(stood)]
    for check in (("verify",), ("replay", "--check")):
        assert 0 == scenes.here(project, *check).code


def test_bytes_of_a_failed_flush_are_not_written_again(
    protected: Callable[[Callable[[Path], Project]], Project],
) -> None:
    """While writing in place is refused, a writer prints one clear line, exits 4 and leaves the log unchanged."""
    if scenes.why_not():
        pytest.skip(scenes.why_not())
    project = protected(scenes.suspect)
    log = project.ledger / "events.jsonl"
    before = log.read_bytes()
    for _ in range(2):
        answer = scenes.here(project, "add", "more")
        assert (EXIT_NOT_WRITTEN, "", 1) == (answer.code, answer.out, len(answer.err.splitlines()))
        assert str(log) in answer.err
        assert os.strerror(1) in answer.err
    assert before == log.read_bytes()
    assert 0 == scenes.here(project, "show").code
    subprocess.run(["chattr", "-a", str(log)], check=True)
    assert 0 == scenes.here(project, "add", "more").code
    assert 0 == scenes.here(project, "verify").code


def test_damage_is_found_and_the_log_not_changed(protected: Callable[[Callable[[Path], Project]], Project]) -> None:
    """Acknowledged bytes that changed before the protection are named and kept, and salvage skips them."""

    def damaged(root: Path) -> Project:
        project = scenes.three_entries(root)
        log = project.ledger / "events.jsonl"
        log.write_bytes(log.read_bytes().replace(b"Name things well", b"Name things w3ll"))
        return project

    project = protected(damaged)
    before = (project.ledger / "events.jsonl").read_bytes()
    assert EXIT_DAMAGED == scenes.here(project, "verify").code
    assert EXIT_DAMAGED == scenes.here(project, "add", "more").code
    salvaged = scenes.here(project, "verify", "--salvage")
    assert "Use type hints" in salvaged.out
    assert before == (project.ledger / "events.jsonl").read_bytes()
