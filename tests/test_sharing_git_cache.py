"""Our own repository of the git engine: small, private, made anew when it is damaged, and safe to kill."""

from __future__ import annotations

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
from helpers.git_repositories import git, make_remote
from helpers.repository import ROOT
from helpers.sweep import slice_of
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines import git_repository
from tallybook.ledger.sharing.engines.engine import NOTHING, End, Outcome, Run
from tallybook.ledger.sharing.engines.git import GitEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BRANCH = "tallybook/main"
FOREVER = """
import sys
sys.path.insert(0, sys.argv[1])
from helpers.books import make_run
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines.git import GitEngine

engine = GitEngine(sys.argv[2], "main", sys.argv[3])
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
def connect(remote: Path, tmp_path: Path) -> Callable[..., GitEngine]:
    """Return a function that opens an engine of a machine, by the machine's name."""
    return lambda machine="anna", **options: GitEngine(str(remote), "main", str(tmp_path / machine), **options)


def append(engine: GitEngine, *runs: Run) -> End:
    """Append runs at the engine's end, which must succeed."""
    answer = engine.append(engine.read(0).end, runs)
    assert Outcome.DONE is answer.outcome
    assert answer.end is not None
    return answer.end


def held(engine: GitEngine, after: int = 0) -> list[Run]:
    """Return the runs after an event number, without their places."""
    return [plain(run) for run in engine.read(after).runs]


def long_runs(number: int) -> list[Run]:
    """Return so many runs, each of more than half of a file."""
    runs, after = [], Position(0, NOTHING.chain, 0)
    for _ in range(number):
        run, after = make_run(after, "anna", "kpt_001", text="0123456789" * 15_000)
        runs.append(run)
    return runs


def repository(tmp_path: Path, machine: str = "anna") -> Path:
    """Return the folder of a machine's repository."""
    return tmp_path / machine / "repository.git"


def objects(folder: Path) -> dict[str, int]:
    """Return the objects of a repository by their ids, with their sizes."""
    shown = git(folder, "cat-file", "--batch-all-objects", "--batch-check")
    return {line.split()[0]: int(line.split()[2]) for line in shown.splitlines()}


# ---- What is fetched, and what is read ----


def test_a_new_machine_fetches_the_last_commit_alone(
    remote: Path, connect: Callable[..., GitEngine], tmp_path: Path
) -> None:
    """After many appends a new machine holds one commit, one tree and its files, and no earlier version of them."""
    runs = make_runs(12)
    for run in runs:
        append(connect(), run)
    assert runs == held(connect("ben"))
    assert (12, 1, 3) == (
        int(git(remote, "rev-list", "--count", BRANCH)),
        int(git(repository(tmp_path, "ben"), "rev-list", "--count", "--all")),
        len(objects(repository(tmp_path, "ben"))),
    )


def test_an_incremental_read_fetches_only_what_is_new(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """One more run in the third file brings a commit, a tree and that file; the first two are not fetched again."""
    runs = long_runs(3)
    append(connect(), *runs)
    ben = connect("ben")
    held(ben)
    before = objects(repository(tmp_path, "ben"))
    more, _ = make_run(Position(runs[-1].last, runs[-1].after, 0), "anna", "kpt_002")
    append(connect(), more)
    assert [more] == held(ben, runs[-1].last)
    new = {id_: size for id_, size in objects(repository(tmp_path, "ben")).items() if id_ not in before}
    assert (3, True) == (len(new), sum(new.values()) < len(runs[-1].data) + len(more.data) + 1000)


def test_an_incremental_read_opens_only_files_that_can_hold_something_new(
    connect: Callable[..., GitEngine], tmp_path: Path
) -> None:
    """The files before the asked number are not read: they may be gone from our repository, and nobody notices."""
    runs = long_runs(3)
    append(connect(), *runs)
    engine = connect()
    assert runs == held(engine)
    folder = repository(tmp_path)
    first = git(folder, "rev-parse", "refs/tallybook/tip:000001.jsonl")
    (folder / "objects" / first[:2] / first[2:]).unlink()
    before = objects(folder)
    assert [runs[2:], []] == [held(engine, runs[1].last), held(engine, runs[2].last)]
    assert (before, runs[2].last) == (objects(folder), engine.read(runs[2].last).end.seq)


def test_a_list_of_files_that_is_damaged_is_made_again(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """What is remembered of files is only a help: without it, or with nonsense in it, all files are read."""
    append(connect(), *make_runs(2))
    append(connect("ben"), *[make_run(Position(2, make_runs(2)[-1].after, 0), "ben", "kpt_002")[0]])
    for nonsense in (b"", b"[]", b"{}", b'{"tip":"","whole":[1],"files":{}}', b"\xff"):
        (repository(tmp_path) / "files.json").write_bytes(nonsense)
        assert [1, 2, 3] == [run.first for run in held(connect())]


# ---- The repository itself ----


@pytest.mark.parametrize("damage", ["object", "no objects", "tip", "lock", "no repository", "file", "link"])
def test_a_damaged_repository_is_made_anew(connect: Callable[..., GitEngine], tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with our repository, reading and appending go on, and the book has every run once."""
    runs = make_runs(3)
    end = append(connect(), *runs[:2])
    folder = repository(tmp_path)
    if damage == "object":
        for path in folder.glob("objects/??/*"):
            path.chmod(0o600)
            path.write_bytes(b"\0" * 100)
    elif damage == "no objects":
        shutil.rmtree(folder / "objects")
    elif damage == "tip":
        (folder / "refs" / "tallybook" / "tip").write_bytes(b"\0" * 41)
    elif damage == "lock":
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


def test_a_commit_of_damaged_objects_is_never_pushed(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """A file whose bytes are not those of its id is not appended to: it is fetched again."""
    runs = make_runs(2)
    end = append(connect(), runs[0])
    folder = repository(tmp_path)
    id_ = git(folder, "rev-parse", "refs/tallybook/tip:000001.jsonl")
    other = git(folder, "hash-object", "-w", "--stdin", given="another\n")
    path = folder / "objects" / id_[:2] / id_[2:]
    path.unlink()
    shutil.copy(folder / "objects" / other[:2] / other[2:], path)
    assert Outcome.DONE is connect().append(end, runs[1:]).outcome
    assert runs == held(connect("ben"))


def test_a_large_repository_is_made_anew(
    connect: Callable[..., GitEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When own appends made it grow by more than the bound, the next sync begins with a fetch of the last commit."""
    monkeypatch.setattr(git_repository, "MAX_BYTES", 4000)
    engine = connect()
    runs = make_runs(12)
    sizes = []
    for run in runs:
        append(engine, run)
        sizes.append(len(objects(repository(tmp_path))) if repository(tmp_path).exists() else 0)
    assert (runs, True) == (held(engine), 0 in sizes)
    assert max(sizes) < 3 * len(runs)


def test_a_cache_can_be_deleted_at_any_time(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """After a redaction our repository is deleted, and fetched again by the next read."""
    append(connect(), *make_runs(2))
    connect().delete_cache()
    assert [tmp_path / "anna" / "lock"] == list((tmp_path / "anna").iterdir())
    assert make_runs(2) == held(connect())


def test_without_a_cache_folder_the_repository_is_temporary(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user has no safe cache folder, an engine works and leaves nothing."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    engine = GitEngine(str(remote), "main", None)
    append(engine, *make_runs(2))
    assert make_runs(2) == held(engine)
    engine.close()
    assert [] == list((tmp_path / "temporary").iterdir())


def test_the_cache_is_the_users_alone(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """Other users can read nothing in it."""
    append(connect(), *make_runs(1))
    assert (0o700, 0o700) == (
        (tmp_path / "anna").stat().st_mode & 0o777,
        repository(tmp_path).joinpath("objects").stat().st_mode & 0o777,
    )


# ---- Processes that are killed ----


def test_a_killed_append_leaves_a_usable_cache(remote: Path, connect: Callable[..., GitEngine], tmp_path: Path) -> None:
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


def test_a_disk_that_refuses_the_cache_is_named(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
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


def test_the_rest_of_a_deletion_that_was_killed_goes(connect: Callable[..., GitEngine], tmp_path: Path) -> None:
    """What a killed process left of a repository that it deleted is removed with the next one."""
    append(connect(), *make_runs(1))
    shutil.copytree(repository(tmp_path), tmp_path / "anna" / "repository.git.deleted")
    connect().delete_cache()
    assert ["lock"] == [path.name for path in (tmp_path / "anna").iterdir()]
