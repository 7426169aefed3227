"""Our own repository of the git engine: small, private, made anew when it is damaged, and safe to kill."""

from __future__ import annotations

from contextlib import closing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_run, make_runs, plain
from helpers.engines import git_engine
from helpers.git_repositories import git, make_remote
from helpers.repository import ROOT
from helpers.sweep import slice_of
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines import git_process
from tallybook.ledger.sharing.engines.engine import NOTHING, End, Outcome, Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tallybook.ledger.sharing.engines.engine import Engine

FOREVER = """
import sys
sys.path.insert(0, sys.argv[1])
from helpers.books import make_run
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from helpers.engines import git_engine

engine = git_engine(sys.argv[2], "main", sys.argv[3])
print("ready", flush=True)
while True:
    end = engine.read(0).end
    run, _ = make_run(Position(end.seq, end.chain, 0), "killed", "kpt_001", text="x" * 20000)
    if engine.append(end, [run]).end:
        print(end.seq + 1, flush=True)
"""
"""A process that appends until it is killed, and prints the number of each run that is in."""


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return a new bare repository, as a server has it."""
    return make_remote(tmp_path / "remote.git")


@pytest.fixture
def connect(remote: Path, tmp_path: Path) -> Callable[..., Engine]:
    """Return a function that opens an engine of a machine, by the machine's name."""
    return lambda machine="anna", **options: git_engine(str(remote), "main", str(tmp_path / machine), **options)


def append(engine: Engine, *runs: Run) -> End:
    """Append runs at the engine's end, which must succeed."""
    answer = engine.append(engine.read(0).end, runs)
    assert Outcome.DONE is answer.outcome
    assert answer.end is not None
    return answer.end


def held(engine: Engine, after: int = 0) -> list[Run]:
    """Return the runs after an event number, without their places."""
    return [plain(run) for run in engine.read(after).runs]


def repository(tmp_path: Path, machine: str = "anna") -> Path:
    """Return the folder of a machine's repository."""
    return tmp_path / machine / "repository.git"


def count_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git before the real one that notes its words, and return the file in which it does."""
    real = git_process.find_git(os.environ["PATH"])
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "calls"


def size_of(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# ---- What is fetched, and what is read ----


def test_a_machine_that_read_before_fetches_no_text_again(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a remote that can leave texts out, a later read takes in one more run by two fetches."""
    git(remote, "config", "uploadpack.allowFilter", "true")
    calls = count_git(tmp_path, monkeypatch)
    runs, after = [], Position(0, NOTHING.chain, 0)
    for _ in range(4):
        run, after = make_run(after, "anna", "kpt_001", text="0123456789" * 15_000)
        runs.append(run)
    end = append(git_engine(str(remote), "main", str(tmp_path / "anna")), *runs[:3])
    with closing(git_engine(str(remote), "main", str(tmp_path / "ben"))) as ben:
        assert runs[:3] == held(ben)
        ben_end = ben.read(0).end
    append(git_engine(str(remote), "main", str(tmp_path / "anna")), runs[3])
    calls.unlink()
    with closing(git_engine(str(remote), "main", str(tmp_path / "ben"))) as ben:
        found = ben.read(end.seq, since=ben_end)
    words = calls.read_text().split()
    assert (end, runs[3:], [1, 2]) == (
        ben_end,
        [plain(run) for run in found.runs],
        [words.count("ls-remote"), words.count("fetch")],
    )
    assert size_of(repository(tmp_path, "ben")) < 20_000


def test_a_read_with_nothing_new_asks_once(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that knows where the last one ended makes one round trip, and fetches nothing."""
    calls = count_git(tmp_path, monkeypatch)
    end = append(git_engine(str(remote), "main", str(tmp_path / "anna")), *make_runs(3))
    calls.unlink()
    engine = git_engine(str(remote), "main", str(tmp_path / "anna"))
    assert ([], end, False) == engine.read(3, since=end)
    words = calls.read_text().split()
    assert (1, 0) == (words.count("ls-remote"), words.count("fetch"))


@pytest.mark.parametrize("nonsense", [b"", b"[]", b"{}", b'["", true, [[1]]]', b"\xff"])
def test_what_is_noted_of_runs_is_only_a_help(connect: Callable[..., Engine], tmp_path: Path, nonsense: bytes) -> None:
    """Without it, or with nonsense in it, all is read."""
    append(connect(), *make_runs(2))
    (tmp_path / "anna" / "runs.json").write_bytes(nonsense)
    assert make_runs(2) == held(connect())


# ---- The repository itself ----


@pytest.mark.parametrize("filters", ["true", "false"])
@pytest.mark.parametrize("damage", ["object", "no objects", "tip", "lock", "no repository", "file", "link"])
def test_a_damaged_repository_is_made_anew(
    remote: Path, connect: Callable[..., Engine], tmp_path: Path, damage: str, filters: str
) -> None:
    """Whatever is wrong with our repository, reading and appending go on, and the book has every run once."""
    git(remote, "config", "uploadpack.allowFilter", filters)
    runs = make_runs(3)
    append(connect("ben"), runs[0])
    assert runs[:1] == held(connect())
    end = append(connect(), runs[1])
    folder = repository(tmp_path)
    if damage == "object":
        for path in folder.glob("objects/??/*"):
            path.chmod(0o600)
            path.write_bytes(b"\0" * 100)
    elif damage == "no objects":
        shutil.rmtree(folder / "objects")
    elif damage == "tip":
        (folder / "refs" / "tallybook").mkdir(parents=True, exist_ok=True)
        (folder / "refs" / "tallybook" / "tip").write_bytes(b"\0" * 41)
    elif damage == "lock":
        (folder / "refs" / "tallybook").mkdir(parents=True, exist_ok=True)
        (folder / "shallow.lock").touch()
        (folder / "refs" / "tallybook" / "tip.lock").touch()
    else:
        shutil.rmtree(folder)
        if damage == "file":
            folder.write_bytes(b"")
        elif damage == "link":
            folder.symlink_to(tmp_path)
    answer = connect().append(end, runs[2:])
    assert (Outcome.DONE, runs, runs) == (answer.outcome, held(connect()), held(connect("ben")))


def test_without_a_cache_folder_the_repository_is_temporary(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user has no safe cache folder, an engine works and leaves nothing."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    engine = git_engine(str(remote), "main", None)
    append(engine, *make_runs(2))
    assert make_runs(2) == held(engine)
    engine.close()
    assert [] == list((tmp_path / "temporary").iterdir())


def test_the_cache_is_the_users_alone(connect: Callable[..., Engine], tmp_path: Path) -> None:
    """Other users can read nothing in it."""
    append(connect(), *make_runs(1))
    assert (0o700, 0o700) == (
        (tmp_path / "anna").stat().st_mode & 0o777,
        repository(tmp_path).joinpath("objects").stat().st_mode & 0o777,
    )


# ---- Processes that are killed ----


def test_a_killed_append_leaves_a_usable_cache(remote: Path, connect: Callable[..., Engine], tmp_path: Path) -> None:
    """After kill -9 at random moments the same cache folder serves the next process; what was acknowledged is there."""
    chance = random.Random(21)  # noqa: S311 - the same moments in every run
    command = [sys.executable, "-c", FOREVER, str(ROOT / "tests"), str(remote), str(tmp_path / "anna")]
    acknowledged = 0
    for _ in range(slice_of(40, 6)):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
            time.sleep(chance.random() * 0.6)
            process.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, process.stdout.read().split())])
        end = connect().read(0).end
        assert end.seq >= acknowledged
    runs = held(connect("ben"))
    assert [1, *(run.last + 1 for run in runs[:-1])] == [run.first for run in runs]
    assert [NOTHING.chain, *(run.after for run in runs[:-1])] == [run.before for run in runs]
    run, _ = make_run(Position(runs[-1].last, runs[-1].after, 0), "after", "kpt_002")
    append(connect(), run)


def test_a_disk_that_refuses_the_cache_is_named(connect: Callable[..., Engine], tmp_path: Path) -> None:
    """Where our repository cannot be made, the message names it and the system's reason."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    engine = connect()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with pytest.raises(CannotWriteError) as caught:
            engine.read(0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert f"{repository(tmp_path)}: File too large; nothing was recorded; try again" == str(caught.value)
    append(engine, *make_runs(1))
