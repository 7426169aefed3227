"""The git engine on real bare repositories: races, refusals, strangers, damage, redaction, and our own repository."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
import os
from pathlib import Path
import resource
import shutil
import subprocess

import pytest

from helpers.documentation import PAGES
from helpers.engines import append, git_engine, read_runs
from helpers.git_repositories import delete_damage, git, push_files
from helpers.memory_store import make_run, make_runs, plain
from helpers.shared_machines import Team
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engine import (
    NOTHING,
    Contents,
    End,
    Engine,
    FormerLayoutError,
    ReadOnlyError,
    Run,
    UnreachableError,
)
from tallybook.ledger.sharing.git import GitStore, path_of

REFERENCE = "refs/tallybook/main"


@pytest.fixture
def connect(remote: Path, tmp_path: Path) -> Callable[..., Engine]:
    """Return a function that opens an engine of a machine, by the machine's name."""
    return lambda machine="anna", **options: git_engine(str(remote), "main", str(tmp_path / machine), **options)


def log(remote: Path, format_: str) -> list[str]:
    """Return a line for each commit of the branch, the last one first."""
    return git(remote, "log", f"--format={format_}", REFERENCE).splitlines()


def position(end: End) -> Position:
    """Return the position after an end."""
    return Position(end.seq, end.chain, 0)


def hook(remote: Path, name: str, script: str) -> None:
    """Give the remote a hook."""
    path = remote / "hooks" / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


# ---- Races ----


def test_an_append_whose_answer_is_lost_is_done(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the connection breaks after the remote took the commit, the branch shows that it is there."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor last; do :; done\nsh -c "$last"\ncase $last in *receive*) exit 1;; esac\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    engine = git_engine(f"me@server:{remote}", "main", str(tmp_path / "cache"))
    end = append(engine, *make_runs(2))
    assert (2, 2, 2) == (end.number, len(log(remote, "%H")), len(read_runs(engine)))


def test_a_push_without_an_answer_is_of_unknown_outcome(remote: Path, connect: Callable[..., Engine]) -> None:
    """A remote that does not answer in time may have the commit or not, and the next read shows it."""
    hook(remote, "pre-receive", "sleep 60")
    engine = connect(limit_s=3)
    assert engine.append(engine.read(0).end, make_runs(1)) is None
    assert [] == read_runs(engine)


# ---- Refusals ----


def test_a_refusal_by_the_remote_is_told_in_its_words(remote: Path, connect: Callable[..., Engine]) -> None:
    """A hook of the remote that refuses the push makes the book read-only, with the reason that the hook gives."""
    first = append(connect(), *make_runs(1))
    hook(remote, "pre-receive", "echo 'GH006: Protected branch update failed.'; echo Ask an owner.; exit 1")
    run, _ = make_run(position(first), "anna", "kpt_002")
    with pytest.raises(ReadOnlyError) as caught:
        connect().append(first, [run])
    why = "GH006: Protected branch update failed. Ask an owner."
    assert f"{remote}: is read-only here: {why}; events wait in the own ledger" == str(caught.value)
    assert make_runs(1) == read_runs(connect())


def test_a_refused_push_to_a_branch_that_moved_is_a_lost_race(remote: Path, connect: Callable[..., Engine]) -> None:
    """Whatever the remote says, an append after which the branch is elsewhere has moved."""
    first = append(connect(), *make_runs(1))
    run, _ = make_run(position(first), "ben", "kpt_002")
    append(connect("ben"), run)
    hook(remote, "pre-receive", "echo no; exit 1")
    other, _ = make_run(position(first), "anna", "kpt_002")
    assert connect().append(first, [other]) is None


def test_a_lock_that_the_remote_does_not_release_is_told(remote: Path, connect: Callable[..., Engine]) -> None:
    """A push that finds the branch locked is tried again; if it stays locked, the remote's words say so."""
    end = append(connect(), *make_runs(1))
    (remote / "refs" / "tallybook" / "main.lock").touch()
    run, _ = make_run(position(end), "anna", "kpt_002")
    with pytest.raises(ReadOnlyError, match=r"is read-only here: .*main\.lock.*File exists"):
        connect().append(end, [run])


# ---- Files and commits ----


def test_a_book_of_an_earlier_version_is_refused(remote: Path, connect: Callable[..., Engine]) -> None:
    """A book of an earlier version was a branch; the message says what to do."""
    push_files(remote, "refs/heads/tallybook/main", {"events.jsonl": b"{}\n"})
    with pytest.raises(FormerLayoutError, match="the branch tallybook/main; every own ledger has all of its events"):
        connect().read(0)


def test_a_reference_of_other_files_is_an_empty_book(remote: Path, connect: Callable[..., Engine]) -> None:
    """Files that are not the book's, and links with the name of one, are neither read nor counted."""
    push_files(remote, REFERENCE, {"README.md": b"what this is\n", "000000/0/01.jsonl": b"{}\n", "1.jsonl": b"{}\n"})
    assert ([], NOTHING) == connect().read(0)[:2]
    append(connect(), *make_runs(1))
    assert make_runs(1) == read_runs(connect("ben"))
    assert "what this is" == git(remote, "cat-file", "blob", f"{REFERENCE}:README.md")


def test_what_is_no_run_holds_its_number_and_is_named(remote: Path, connect: Callable[..., Engine]) -> None:
    """A stranger's bytes under the next number are returned as no run, with their place; the next run follows."""
    runs = make_runs(2)
    append(connect(), runs[0])
    tip = git(remote, "rev-parse", REFERENCE)
    push_files(remote, REFERENCE, {path_of(2): b"anything\n"}, parent=tip)
    garbage = Run(0, 0, "", "", b"anything\n", "run 2")
    assert [runs[0].data, b"anything\n"] == [run.data for run in connect().read(0).runs]
    assert garbage == connect().read(1).runs[0]
    append(connect(), runs[1])
    assert [1, 0, 2] == [run.first for run in connect("ben").read(0).runs]


def test_every_commit_is_ours_alone(remote: Path, connect: Callable[..., Engine]) -> None:
    """Without any identity configured, author and committer are fixed, CI is told to skip, and parents are single."""
    runs = make_runs(2)
    append(connect(), runs[0])
    append(connect("ben"), runs[1])
    last, first = log(remote, "%H")
    ours = "Tallybook <noreply@tallybook.invalid>"
    assert [f"{ours}|{ours}|Append run {number}|{parent}" for number, parent in ((2, first), (1, ""))] == log(
        remote, "%an <%ae>|%cn <%ce>|%s|%P"
    )
    messages = [git(remote, "log", "-1", "--format=%B", id_) for id_ in (first, last)]
    assert [True, True] == [message.endswith(" [skip ci]") for message in messages]


def test_a_remote_that_takes_no_forced_push_refuses_to_erase(remote: Path, connect: Callable[..., Engine]) -> None:
    """A remote that denies forced pushes takes appends and fresh runs, and says why it erases nothing."""
    forced = (
        "while read old new name; do git merge-base --is-ancestor $old $new || { echo no forced push; exit 1; }; done"
    )
    hook(remote, "pre-receive", f"case $(git rev-parse -q --verify {REFERENCE}) in '') exit 0;; esac; {forced}")
    end = append(connect(), *make_runs(1))
    assert connect().replace(end, make_runs(1, "repaired")) is not None
    with pytest.raises(ReadOnlyError, match=r"is read-only here: no forced push"):
        connect().erase_former()
    assert make_runs(1, "repaired") == read_runs(connect())


@pytest.mark.parametrize("filters", ["true", "false"])
def test_no_text_stays_in_the_folder_of_a_machine(
    remote: Path, connect: Callable[..., Engine], tmp_path: Path, filters: str
) -> None:
    """After reads and appends our folder has commits and trees at most, whether the remote can leave texts out."""
    git(remote, "config", "uploadpack.allowFilter", filters)
    run, after = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", text="the text of an entry")
    append(connect(), run)
    for machine in ("ben", "anna", "ben"):
        engine = connect(machine)
        run, after = make_run(after, machine, "kpt_002")
        append(engine, run)
        assert 3 <= len(read_runs(engine)) + 1
        engine.close()
    folders = [tmp_path / machine for machine in ("anna", "ben")]
    for folder in folders:
        git(folder, "init", "--quiet", "--bare")
    kinds = [
        kind
        for folder in folders
        for kind in git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split()
    ]
    assert {"commit", "tree"} == {*kinds}


# ---- A remote whose objects are damaged ----


@pytest.mark.parametrize("name", ["main", "main^{tree}", "main:000000/00/01.jsonl"])
def test_a_damaged_remote_is_named_and_made_again(remote: Path, connect: Callable[..., Engine], name: str) -> None:
    """A remote with an empty object is named in one line; once its operator has repaired it, the book goes on."""
    connect("anna").append(NOTHING, make_runs(2))
    id_ = git(remote, "rev-parse", f"refs/tallybook/{name}")
    path = remote / "objects" / id_[:2] / id_[2:]
    path.unlink()
    path.touch()
    with pytest.raises(UnreachableError, match=r"object file \S+ is empty.*; events wait in the own ledger") as caught:
        connect("ben").read(0)
    assert "\n" not in str(caught.value)
    repair(remote, connect)


@pytest.mark.parametrize("content", [b"", bytes(41)], ids=["empty", "zeros"])
def test_a_reference_that_lost_its_content_is_named_and_made_again(
    remote: Path, connect: Callable[..., Engine], content: bytes
) -> None:
    """A power failure can leave such a file; git refuses to delete it as a reference."""
    connect("anna").append(NOTHING, make_runs(2))
    (remote / "refs" / "tallybook" / "main").write_bytes(content)
    with pytest.raises(UnreachableError, match=r"not our ref 0{40}; "):
        connect("ben").read(0)
    repair(remote, connect)


def repair(remote: Path, connect: Callable[..., Engine]) -> None:
    """Do what the page of engines says, and let a machine that has the lines append them again."""
    delete_damage(remote, "main")
    assert [] == connect("ben").read(0).runs
    append(connect("anna"), *make_runs(2))
    assert make_runs(2) == [plain(run) for run in connect("ben").read(0).runs]


# ---- Redaction ----


@pytest.mark.parametrize("team", ["git"], indirect=True)
@pytest.mark.parametrize("filters", ["true", "false"])
def test_a_repair_and_the_documented_command_erase_a_text_everywhere(
    team: Team, monkeypatch: pytest.MonkeyPatch, filters: str
) -> None:
    """No object of the remote and no file of a machine has the text; all machines go on, a new one too."""
    remote = Path(team.address)
    git(remote, "config", "uploadpack.allowFilter", filters)
    for machine in ("anna", "ben"):
        team.run(machine, "add", f"Ask Petra Zwiebel, says {machine}")
        team.share(machine)
    team.sync("anna")
    said = team.run("anna", "redact", "--text", "Petra Zwiebel", "--yes", "--expect", "2", "--reason", "a name").out
    assert ["tallybook sync", "tallybook share repair"] == [
        line.partition("; run: ")[2] for line in said.splitlines() if "still holds it" in line
    ]
    team.sync("anna", "ben")
    keeps = "the server keeps erased runs until git collects them"
    assert keeps in team.run("anna", "share", "repair", code=2).err

    def break_off(*_: object) -> None:
        raise UnreachableError("remote", "cut off")

    with monkeypatch.context() as patch:
        patch.setattr(GitStore, "erase", break_off)
        team.run("anna", "share", "repair", "--yes", code=4)
    # The next one erases what an interrupted one left.
    assert keeps in team.run("anna", "share", "repair", "--yes").err
    section = PAGES["ledger/sharing/ENGINES.md"].split("### Redaction in git")[1].split("\n### ")[0]
    script = section.split("```sh\n")[1].split("```")[0].replace("REPOSITORY", f"'{remote}'")
    subprocess.run(["sh", "-eu", "-c", script], check=True, capture_output=True)
    every = git(remote, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)").splitlines()
    blobs = [line.split()[0] for line in every if line.endswith("blob")]
    assert blobs
    assert [] == [id_ for id_ in blobs if "Zwiebel" in git(remote, "cat-file", "blob", id_)]
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    team.share("cleo")
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    for machine in ("anna", "ben"):
        files = [path for path in team.root(machine).parent.rglob("*") if path.is_file()]
        assert [] == [path for path in files if b"Zwiebel" in path.read_bytes()]


# ---- What is kept ----


def count_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a git before the real one that notes its words, and return the file in which it does."""
    real = shutil.which("git")
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
        assert runs[:3] == read_runs(ben)
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
    assert size_of(tmp_path / "ben") < 20_000


def test_a_read_with_nothing_new_asks_once(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that knows where the last one ended makes one round trip, and fetches nothing."""
    calls = count_git(tmp_path, monkeypatch)
    end = append(git_engine(str(remote), "main", str(tmp_path / "anna")), *make_runs(3))
    calls.unlink()
    engine = git_engine(str(remote), "main", str(tmp_path / "anna"))
    assert Contents([], end, after_seal=end) == engine.read(3, since=end)
    words = calls.read_text().split()
    assert (1, 0) == (words.count("ls-remote"), words.count("fetch"))


def test_two_projects_of_one_user_keep_what_both_need(connect: Callable[..., Engine]) -> None:
    """What one of them keeps is not what the other, which is at an earlier commit, misses."""
    first, second = connect(), connect()
    runs = make_runs(3)
    end = append(first, runs[0])
    second.read(0)
    first.append(end, runs[1:])
    assert isinstance(second.store, GitStore)
    number = len(second.store._list_runs(second.store._tip or ""))
    assert (1, 3) == (number, len(read_runs(second)))


# ---- Damage to what is kept ----


@pytest.mark.parametrize("filters", ["true", "false"])
@pytest.mark.parametrize("damage", ["object", "no objects", "tip", "other tip", "nothing"])
def test_what_is_kept_and_damaged_is_fetched_anew(
    remote: Path, connect: Callable[..., Engine], tmp_path: Path, damage: str, filters: str
) -> None:
    """Whatever is wrong with what is kept, reading and appending go on, and the book has every run once."""
    git(remote, "config", "uploadpack.allowFilter", filters)
    runs = make_runs(3)
    append(connect("ben"), runs[0])
    assert runs[:1] == read_runs(connect())
    end = append(connect(), runs[1])
    folder = tmp_path / "anna"
    if damage == "object":
        for path in [*folder.glob("objects/??/*"), *folder.glob("objects/pack/*")]:
            path.chmod(0o600)
            path.write_bytes(b"\0" * 100)
    elif damage == "no objects":
        shutil.rmtree(folder / "objects")
    elif damage == "tip":
        (folder / "tip").write_bytes(b"\0" * 41)
    elif damage == "other tip":
        (folder / "tip").write_text(f"{'1' * 40}\n")
    else:
        shutil.rmtree(folder)
    assert connect().append(end, runs[2:]) is not None
    assert (runs, runs) == (read_runs(connect()), read_runs(connect("ben")))


def test_without_a_cache_folder_nothing_is_kept(remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user has no safe cache folder, an engine works and leaves nothing."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    engine = git_engine(str(remote), "main", None)
    append(engine, *make_runs(2))
    assert make_runs(2) == read_runs(engine)
    engine.close()
    assert [] == list((tmp_path / "temporary").iterdir())


def test_the_cache_is_the_users_alone(connect: Callable[..., Engine], tmp_path: Path) -> None:
    """Other users can read nothing in it."""
    append(connect(), *make_runs(1))
    assert (0o700, 0o700) == (
        (tmp_path / "anna").stat().st_mode & 0o777,
        (tmp_path / "anna" / "objects").stat().st_mode & 0o777,
    )


def test_a_disk_that_refuses_the_cache_is_named(connect: Callable[..., Engine], tmp_path: Path) -> None:
    """Where the repository cannot be made, the message names the folder and the system's reason."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    engine = connect()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with pytest.raises(CannotWriteError) as caught:
            engine.read(0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert f"{tmp_path / 'anna'}: File too large; nothing was recorded; try again" == str(caught.value)
    append(engine, *make_runs(1))
