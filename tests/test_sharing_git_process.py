"""How the git engine runs git: its limits, its version, ssh, and what a message says of a failure."""

from __future__ import annotations

import os
from pathlib import Path
import signal
import subprocess
import sys
import time

import pytest

from helpers.books import make_runs
from helpers.command_line import Run
from helpers.engines import git_engine
from helpers.git_repositories import make_remote
from helpers.git_servers import make_ssh
from tallybook.ledger.sharing import git_remote
from tallybook.ledger.sharing.engine import Engine, UnreachableError


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Return a new bare repository, as a server has it."""
    return make_remote(tmp_path / "remote.git")


def share(engine: Engine) -> None:
    """Append a run, which must succeed."""
    assert engine.append(engine.read(0).end, make_runs(1)) is not None


def test_a_remote_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the time limit git and what it started are ended, and the message says how long it took."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nwhile :; do echo >> {tmp_path}/calls; sleep 0.05; done\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    engine = git_engine("me@server:book", "main", str(tmp_path / "cache"), limit_s=1)
    with pytest.raises(UnreachableError, match=r"me@server:book: cannot be reached: git did not end within 1 s; "):
        engine.read(0)
    lines = (tmp_path / "calls").stat().st_size
    time.sleep(0.3)
    assert (True, lines) == (lines > 0, (tmp_path / "calls").stat().st_size)


def test_an_interrupt_ends_git_as_well(tmp_path: Path) -> None:
    """After Ctrl-C nothing that git started runs on, although the terminal's signal does not reach it."""
    calls = tmp_path / "calls"
    (tmp_path / "ssh").write_text(f"#!/bin/sh\nwhile :; do echo >> {calls}; sleep 0.05; done\n")
    (tmp_path / "ssh").chmod(0o755)
    program = "import sys; from tallybook.ledger.sharing.git import GitStore; GitStore(*sys.argv[1:]).list(0)"
    command = [sys.executable, "-c", program, "me@server:book", "main", str(tmp_path / "cache")]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(command, env=os.environ | {"PATH": path}, stderr=subprocess.PIPE) as process:
        # By the tenth line git has run for a while: Python has noted, on a busy machine too, which process it started.
        while not calls.exists() or calls.stat().st_size < 10:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
    lines = calls.stat().st_size
    time.sleep(0.3)
    assert (True, lines) == (errors.endswith(b"KeyboardInterrupt\n"), calls.stat().st_size)


def test_a_connection_that_ssh_keeps_is_not_waited_for(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh that stays in the background with its output open, for later connections, does not delay a sync."""
    folder = make_ssh(tmp_path / "bin", "sleep 8 &")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    begin = time.monotonic()
    share(git_engine(f"me@server:{remote}", "main", str(tmp_path / "cache")))
    assert time.monotonic() - begin < 8


def test_git_that_cannot_be_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name that is missing, or that the system does not start, is reported in one line."""
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = git_engine("me@server:book", "main", str(tmp_path / "cache"))
    with pytest.raises(UnreachableError, match=r"cannot be reached: git is not installed; install git 2.30 or later; "):
        engine.read(0)
    (tmp_path / "git").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "git").chmod(0o755)
    with pytest.raises(UnreachableError, match=r"cannot be reached: git cannot be run: Exec format error; "):
        engine.read(0)


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (b"", "git ended with 128"),
        (b"warning: x\nhint: y\nfatal: repository 'z' not found\n", "repository 'z' not found"),
        (
            b"git@host: Permission denied (publickey).\nfatal: Could not read\n",
            "git@host: Permission denied (publickey).",
        ),
        (b"remote: \x1b[1;31mno\x1b[0m, \x07never  \nremote:\nremote: ask Anna\nTo /x\n", "no ,  never ask Anna"),
        (b"fatal: unable to access 'https://me:secret@host/x/': 403\n", "unable to access 'https://host/x/': 403"),
        (b"x" * 400, "x" * 300 + "…"),
    ],
)
def test_a_reason_is_one_clean_line(errors: bytes, reason: str) -> None:
    """The server's words come first, then git's own; without passwords, controls, and warnings, and not too long."""
    assert reason == git_remote.Done(128, b"", errors).reason


def test_share_names_a_git_that_does_not_start(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remote of the user's repository is asked of git before there is an engine."""
    (tmp_path / "git").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("share", "git", "--yes")
    assert (4, "tallybook: git cannot be run: Exec format error\n") == (done.code, done.err)
