"""The git engine on real bare repositories: races, refusals, what strangers put on the branch, and its files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_run, make_runs, plain
from helpers.git_repositories import git, make_remote, push_files
from helpers.repository import ROOT
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines.engine import (
    NOTHING,
    End,
    Outcome,
    ReadOnlyError,
    Run,
    UnreachableError,
)
from tallybook.ledger.sharing.engines.git import GitEngine
from tallybook.ledger.sharing.engines.git_files import MAX_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BRANCH = "tallybook/main"
WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from helpers.books import make_run
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engines.engine import Outcome
from tallybook.ledger.sharing.engines.git import GitEngine

engine = GitEngine(sys.argv[2], "main", sys.argv[3])
landed = 0
while landed < int(sys.argv[5]):
    end = engine.read(0).end
    run, _ = make_run(Position(end.seq, end.chain, 0), sys.argv[4], f"kpt_{landed:03d}")
    landed += engine.append(end, [run]).outcome is Outcome.DONE
"""
"""A process that appends so many runs: tests' folder, remote, cache folder, writer, runs."""


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


def log(remote: Path, format_: str) -> list[str]:
    """Return a line for each commit of the branch, the last one first."""
    return git(remote, "log", f"--format={format_}", BRANCH).splitlines()


def position(end: End) -> Position:
    """Return the position after an end."""
    return Position(end.seq, end.chain, 0)


def hook(remote: Path, name: str, script: str) -> None:
    """Give the remote a hook."""
    path = remote / "hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


# ---- Races ----


@pytest.mark.parametrize("caches", ["one cache", "a cache each"])
def test_eight_writers_at_once_all_land_once(remote: Path, tmp_path: Path, caches: str) -> None:
    """Eight processes that append at the same time all succeed, and every run is in the book once, in one chain."""
    command = [sys.executable, "-c", WRITER, str(ROOT / "tests"), str(remote)]
    folders = [str(tmp_path / ("cache" if caches == "one cache" else f"cache-{writer}")) for writer in range(8)]
    writers = [
        subprocess.Popen([*command, folder, f"writer-{number}", "3"], stderr=subprocess.PIPE)
        for number, folder in enumerate(folders)
    ]
    ended = [(writer.communicate()[1], writer.returncode) for writer in writers]
    assert [(b"", 0)] * 8 == ended
    runs = held(GitEngine(str(remote), "main", str(tmp_path / "reader")))
    names = [(number, landed) for number in range(8) for landed in range(3)]
    found = [
        (number, landed)
        for number, landed in names
        for run in runs
        if b"writer-%d-" % number in run.data and b"kpt_%03d" % landed in run.data
    ]
    assert (names, [*range(1, 25)]) == (found, [run.first for run in runs])
    assert [NOTHING.chain, *(run.after for run in runs[:-1])] == [run.before for run in runs]


def test_an_append_whose_answer_is_lost_is_done(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the connection breaks after the remote took the commit, the branch shows that it is there."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nsh -c "$last"\ncase $last in *receive*) exit 1;; esac\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    engine = GitEngine(f"me@server:{remote}", "main", str(tmp_path / "cache"))
    end = append(engine, *make_runs(2))
    assert ([end.token], 2) == (log(remote, "%H"), len(held(engine)))


def test_a_push_without_an_answer_is_of_unknown_outcome(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A remote that does not answer in time may have the commit or not, and the next read shows it."""
    hook(remote, "pre-receive", "sleep 60")
    engine = connect(limit_s=3)
    assert Outcome.UNKNOWN is engine.append(engine.read(0).end, make_runs(1)).outcome
    assert [] == held(engine)


# ---- Refusals ----


def test_a_refusal_by_the_remote_is_told_in_its_words(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A hook of the remote that refuses the push makes the book read-only, with the reason that the hook gives."""
    first = append(connect(), *make_runs(1))
    hook(remote, "pre-receive", "echo 'GH006: Protected branch update failed.'; echo Ask an owner.; exit 1")
    run, _ = make_run(position(first), "anna", "kpt_002")
    with pytest.raises(ReadOnlyError) as caught:
        connect().append(first, [run])
    why = "GH006: Protected branch update failed. Ask an owner."
    assert f"{remote}: is read-only here: {why}; events wait in the own ledger" == str(caught.value)
    assert make_runs(1) == held(connect())


def test_a_refused_push_to_a_branch_that_moved_is_a_lost_race(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Whatever the remote says, an append after which the branch is elsewhere has moved."""
    first = append(connect(), *make_runs(1))
    run, _ = make_run(position(first), "ben", "kpt_002")
    append(connect("ben"), run)
    hook(remote, "pre-receive", "echo no; exit 1")
    assert Outcome.MOVED is connect().append(first, [run]).outcome


def test_a_branch_that_must_not_be_forced_refuses_a_replacement(
    remote: Path, connect: Callable[..., GitEngine]
) -> None:
    """A remote that denies forced pushes takes appends, and says why it takes no new root commit."""
    git(remote, "config", "receive.denyNonFastForwards", "true")
    append(connect(), *make_runs(1))
    end = connect().read(0).end
    with pytest.raises(ReadOnlyError, match=r"is read-only here: .*non-fast-forward"):
        connect().replace(end, make_runs(1, "repaired"))
    assert make_runs(1) == held(connect())


def test_a_lock_that_the_remote_does_not_release_is_told(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A push that finds the branch locked is tried again; if it stays locked, the remote's words say so."""
    end = append(connect(), *make_runs(1))
    (remote / "refs" / "heads" / "tallybook" / "main.lock").touch()
    run, _ = make_run(position(end), "anna", "kpt_002")
    with pytest.raises(ReadOnlyError, match=r"is read-only here: .*main\.lock.*File exists"):
        connect().append(end, [run])


def test_a_remote_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    """Git's own reason is in the message; a later sync may succeed."""
    engine = GitEngine(str(tmp_path / "nowhere.git"), "main", str(tmp_path / "cache"))
    with pytest.raises(UnreachableError, match=r"cannot be reached: .*nowhere.git' does not appear to be a git repo"):
        engine.read(0)


# ---- A branch that others changed ----


def test_a_branch_that_was_forced_back_is_read_as_it_is(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """An earlier commit on the branch is the book's end from then on, and who expected the later one has moved."""
    runs = make_runs(3)
    engine = connect()
    append(engine, runs[0])
    end = append(engine, *runs[1:])
    git(remote, "update-ref", f"refs/heads/{BRANCH}", f"{BRANCH}~1")
    run, _ = make_run(position(end), "anna", "kpt_002")
    assert Outcome.MOVED is engine.append(end, [run]).outcome
    assert (runs[:1], 1) == (held(engine), engine.read(0).end.seq)


def test_a_branch_that_was_rewritten_is_read_as_it_is(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Another history in the same place is returned, whatever number the reader asks after."""
    engine = connect()
    append(engine, *make_runs(3))
    assert 3 == len(held(engine))
    other = make_runs(4, "mallory")
    push_files(remote, BRANCH, {"000001.jsonl": b"".join(run.data for run in other)})
    assert (other, other[3:]) == (held(engine), held(engine, 3))


def test_a_deleted_branch_holds_nothing_until_it_is_made_again(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Nothing is read of a branch that is gone; an append at its end has moved, and one at nothing makes it."""
    engine = connect()
    end = append(engine, *make_runs(2))
    git(remote, "update-ref", "-d", f"refs/heads/{BRANCH}")
    run, _ = make_run(position(end), "anna", "kpt_002")
    assert ([], NOTHING, Outcome.MOVED) == (held(engine), engine.read(0).end, engine.append(end, [run]).outcome)
    append(engine, *make_runs(2))
    assert make_runs(2) == held(connect("ben"))


def test_a_branch_of_other_files_is_an_empty_book(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Files that are not the book's are neither read nor changed."""
    push_files(remote, BRANCH, {"README.md": b"what this branch is\n", "1.jsonl": b"{}\n"})
    assert ([], 0, 0) == (held(connect()), connect().read(0).first, connect().read(0).end.seq)
    append(connect(), *make_runs(1))
    assert (make_runs(1), "000001.jsonl\n1.jsonl\nREADME.md") == (
        held(connect("ben")),
        git(remote, "ls-tree", "--name-only", BRANCH),
    )


def test_bytes_that_are_no_batch_are_returned_with_their_place(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A stranger's bytes are a run without numbers, whose place names file, commit and line; later batches count."""
    runs = make_runs(2)
    end = append(connect(), runs[0])
    push_files(remote, BRANCH, {"000001.jsonl": runs[0].data + b"anything\n{}\n" + runs[1].data}, parent=end.token)
    short = git(remote, "rev-parse", BRANCH)[:8]
    stranger = "me@here <me@here>"
    rest = Run(0, 0, "", "", b"anything\n{}\n", f"000001.jsonl in commit {short}, line 2", stranger)
    found = connect().read(0)
    assert [runs[0], rest, runs[1]] == [run if run == rest else plain(run) for run in found.runs]
    assert [rest, runs[1]] == [run if run == rest else plain(run) for run in connect().read(1).runs]
    assert (f"000001.jsonl in commit {short}, line 4", stranger, 2) == (*found.runs[2][-2:], found.end.seq)


def test_runs_that_come_again_hide_nothing(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A file of earlier runs at the end of the branch changes nothing of what is read after a number."""
    runs = make_runs(6)
    end = append(connect(), *runs)
    push_files(remote, BRANCH, {"000002.jsonl": b"".join(run.data for run in runs[1:3])}, parent=end.token)
    engine = connect()
    everything = [*runs, *runs[1:3]]
    for after in (0, 2, 4, 6, 4, 0):
        assert [run for run in everything if run.last > after] == held(engine, after)
    after_third, _ = make_run(Position(3, runs[2].after, 0), "anna", "kpt_002")
    append(engine, after_third)
    assert [*runs[3:], after_third] == held(engine, 3)


def test_what_follows_an_older_file_is_linked_to_it(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A run that continues what is inside a file that was read long ago states the chain value of that place."""
    runs = make_runs(4)
    end = append(connect(), *runs)
    engine = connect()
    assert runs == held(engine)
    other, _ = make_run(Position(2, runs[1].after, 0), "mallory", "kpt_002")
    push_files(remote, BRANCH, {"000002.jsonl": other.data}, parent=end.token)
    assert [runs[3], other] == [*held(engine, 3), *[plain(run) for run in engine.read(2).runs if run.place[5] == "2"]]
    assert [runs[1].after] == [run.before for run in engine.read(0).runs if run.place[5] == "2"]
    longer, _ = make_run(Position(2, runs[1].after, 0), "mallory", "kpt_001", "kpt_002", "kpt_003")
    push_files(remote, BRANCH, {"000002.jsonl": longer.data}, parent=end.token)
    assert [longer] == held(engine, 4)


def test_bytes_after_the_end_are_returned_to_who_has_read_all(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A file that is not the book's after the last batch is returned to a reader at the end, and not to one beyond."""
    runs = make_runs(2)
    end = append(connect(), *runs)
    assert runs == held(connect())
    push_files(remote, BRANCH, {"000002.jsonl": b"anything\n", "000003.jsonl": b""}, parent=end.token)
    for _ in range(2):
        found = [[run.data for run in connect().read(after).runs] for after in (1, 2, 3)]
        assert [[runs[1].data, b"anything\n"], [b"anything\n"], []] == found


def test_a_torn_file_is_not_continued(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """After a file without a line feed at its end the next batch begins a file of its own."""
    push_files(remote, BRANCH, {"000001.jsonl": make_runs(1)[0].data + b'{"crc":"0000'})
    run = make_runs(2)[1]
    append(connect(), run)
    assert ([1, 0, 2], "000001.jsonl\n000002.jsonl") == (
        [run.first for run in connect("ben").read(0).runs],
        git(remote, "ls-tree", "--name-only", BRANCH),
    )


def test_a_link_in_place_of_a_file_is_not_read(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A symbolic link with the name of a file of the book is not the book's, and its name is not used again."""
    folder = remote.parent / "links"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "000001.jsonl").symlink_to("/etc/passwd")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "link")
    git(folder, "push", "--quiet", str(remote), f"HEAD:refs/heads/{BRANCH}")
    append(connect(), *make_runs(1))
    assert (make_runs(1), "000001.jsonl\n000002.jsonl") == (
        held(connect()),
        git(remote, "ls-tree", "--name-only", BRANCH),
    )


# ---- Files and commits ----


def test_files_are_filled_up_to_their_bound(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """A file has at most 256 KiB of whole batches; a longer batch is alone; the parts are the log, byte for byte."""
    runs, after = [], Position(0, NOTHING.chain, 0)
    for size in (100_000, 100_000, 100_000, 600_000, 1_000, 1_000):
        run, after = make_run(after, "anna", "kpt_001", text="x" * size)
        runs.append(run)
    append(connect(), *runs[:2])
    append(connect(), *runs[2:])
    lines = git(remote, "ls-tree", "--long", BRANCH).splitlines()
    sizes = [int(line.split()[3]) for line in lines]
    lengths = [len(run.data) for run in runs]
    assert [sum(lengths[:2]), lengths[2], lengths[3], sum(lengths[4:])] == sizes
    assert [True, True, False, True] == [size <= MAX_FILE_BYTES for size in sizes]
    data = b"".join(
        subprocess.check_output(["git", "-C", str(remote), "cat-file", "blob", line.split()[2]]) for line in lines
    )
    assert b"".join(run.data for run in runs) == data


def test_every_commit_is_ours_alone(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Without any identity configured, author and committer are fixed, CI is told to skip, and parents are single."""
    runs = make_runs(4)
    append(connect(), *runs[:2])
    append(connect("ben"), *runs[2:])
    last, first = log(remote, "%H")
    ours = "Tallybook <noreply@tallybook.invalid>"
    assert [
        f"{ours}|{ours}|Append events {numbers}|{parent}" for numbers, parent in (("3 to 4", first), ("1 to 2", ""))
    ] == log(remote, "%an <%ae>|%cn <%ce>|%s|%P")
    messages = [git(remote, "log", "-1", "--format=%B", id_) for id_ in (first, last)]
    assert [True, True] == [message.endswith(" [skip ci]") for message in messages]


def test_a_replacement_is_a_new_root(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """The commit that replaces all has no parent, and no file that the book does not need."""
    append(connect(), *make_runs(3))
    connect().replace(connect().read(0).end, make_runs(1, "repaired"))
    assert (["|"], "000001.jsonl") == (log(remote, "%P|"), git(remote, "ls-tree", "--name-only", BRANCH))


def test_an_honest_run_follows_the_chain_that_it_continues(remote: Path, connect: Callable[..., GitEngine]) -> None:
    """Between runs of a foreign chain each run states the chain value that its own bytes prove."""
    first, second, third = make_runs(3)
    foreign = make_runs(2, "mallory")
    data = b"".join(run.data for run in (first, foreign[0], foreign[1], second, third))
    push_files(remote, BRANCH, {"000001.jsonl": data})
    engine = connect()
    before = [NOTHING.chain, NOTHING.chain, foreign[0].after, first.after, second.after]
    assert before == [run.before for run in engine.read(0).runs]
    run, _ = make_run(Position(3, third.after, 0), "anna", "kpt_002")
    append(engine, run)
    assert [*before[-1:], third.after] == [run.before for run in connect("ben").read(2).runs]


def test_a_repository_with_long_ids_holds_a_book(tmp_path: Path) -> None:
    """A remote whose object ids are SHA-256 is found out and served, once it has the branch."""
    remote = tmp_path / "sha256.git"
    remote.mkdir()
    git(remote, "init", "--quiet", "--bare", "--object-format=sha256")
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "--quiet", "--object-format=sha256")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    git(folder, "push", "--quiet", str(remote), f"HEAD:refs/heads/{BRANCH}")
    engine = GitEngine(str(remote), "main", str(tmp_path / "cache"))
    end = append(engine, *make_runs(2))
    assert (len(hashlib.sha256().hexdigest()), make_runs(2)) == (len(end.token), held(engine))
