"""Log files that git, an editor or a copy has changed: each is named or read as before, and none is sealed."""

from __future__ import annotations

from collections.abc import Callable
import gzip
import json
import os
from pathlib import Path
import resource
import shutil
import subprocess

import pytest

from helpers.commands import Answer, assert_refused
from helpers.commands import run as real_run
from helpers.events import HUMAN
from helpers.git_repositories import counts, git, make_repository, save, switch
from helpers.hook_calls import HOOK, START, call, told
from tallybook.ledger import damage
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


def assert_refused_everywhere(here: Project, run: Callable[..., Answer], says: str, verbs: int = 3) -> None:
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
def test_a_union_merge_is_refused_and_never_sealed(merged: Project, run: Callable[..., Answer]) -> None:
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
        patch.setattr(damage, "is_unclean", lambda *_: True)
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
def test_a_long_other_side_is_refused(merged: Project, run: Callable[..., Answer]) -> None:
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
def test_a_merge_of_two_sides_after_the_head_is_refused(merged: Project, run: Callable[..., Answer]) -> None:
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
    project: Path, here: Project, run: Callable[..., Answer], *, head: bool
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
def here(project: Path, run: Callable[..., Answer]) -> Project:
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
    here: Project, run: Callable[..., Answer], convert: Callable[[bytes], bytes], says: str, *, head: bool
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
    here: Project, run: Callable[..., Answer], lost: tuple[int, int]
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


def test_a_missing_last_line_break_is_no_loss(here: Project, run: Callable[..., Answer]) -> None:
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


def test_two_missing_bytes_are_a_loss(here: Project, run: Callable[..., Answer]) -> None:
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
    assert "one" in told(hook.stdout.decode())
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
