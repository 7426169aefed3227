"""Helpers of tests: machines that share a playbook, each with a home and a clone of its own, and the real command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
import json
import os
from pathlib import Path
import pty
import subprocess
import sys
import time
from typing import Any

from helpers.commands import MAIN, CommandResult
from helpers.git_repositories import git, make_remote
from tallybook.projections.surfaces.workspace.project import Project

WAIT_S = 60


class Machine:
    """A home and a project in it."""

    def __init__(self, home: Path, root: Path | None = None, **environment: str) -> None:
        """Make the home; the project's folder is ``work`` in it by default."""
        self.home = home
        self.root = root or home / "work"
        home.mkdir(parents=True, exist_ok=True)
        left_out = ("GIT_", "TALLYBOOK_", "CLAUDE_", "XDG_", "PG")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        # A pager that moves the cursor would write into the lines that a terminal shows.
        fixed = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "PGSSLMODE": "prefer", "PAGER": "cat"}
        self.environment |= fixed | environment

    @property
    def project(self) -> Project:
        """The project."""
        return Project(self.root)

    def start(self, *words: str, wrapper: Sequence[str] = (), **options: Any) -> subprocess.Popen[bytes]:
        """Start a command of Tallybook in the project, by another command if one is given."""
        command = [*wrapper, sys.executable, "-P", "-c", MAIN, *words]
        return subprocess.Popen(command, cwd=self.root, env=self.environment, **options)

    def run(self, *words: str, given: str = "") -> CommandResult:
        """Run a command of Tallybook in the project."""
        pipe = subprocess.PIPE
        process = self.start(*words, stdin=pipe, stdout=pipe, stderr=pipe)
        out, err = process.communicate(given.encode(), timeout=10 * WAIT_S)
        return CommandResult(process.returncode, out.decode(), err.decode())

    def do(self, *words: str, given: str = "") -> str:
        """Run a command that must succeed, and return its output."""
        answer = self.run(*words, given=given)
        assert 0 == answer.code, answer
        return answer.out

    def at_terminal(self, *words: str, typed: str = "") -> list[str]:
        """Run a command whose output and errors are a terminal, with an answer typed, and return its lines."""
        leader, follower = pty.openpty()
        process = self.start(*words, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        os.write(leader, typed.encode())
        data = b""
        while True:
            piece = b""
            # Linux answers with an error once the process has ended.
            with suppress(OSError):
                piece = os.read(leader, 65_536)
            if not piece:
                break
            data += piece
        os.close(leader)
        process.wait(WAIT_S)
        return data.decode().replace("\r\n", "\n").splitlines()

    def hook(self, event: str, session: str = "s1", **fields: str) -> CommandResult:
        """Let an agent call the hook."""
        payload = {"hook_event_name": event, "session_id": session, "cwd": str(self.root), **fields}
        return self.run("hook", given=json.dumps(payload))

    def entries(self) -> dict[str, tuple[str, int, int]]:
        """Return the playbook that the machine shows, as name → text and counts."""
        shown = json.loads(self.do("show", "--json"))["key_points"]
        return {entry["name"]: (entry["text"], entry["helpful"], entry["harmful"]) for entry in shown}

    def replica(self) -> bytes:
        """Return the bytes of the copy of the book."""
        current: str = json.loads((self.root / ".claude/ledger/book/current").read_bytes())["copy"]
        return (self.root / ".claude/ledger/book" / current / "events.jsonl").read_bytes()

    def results(self) -> list[Mapping[str, Any]]:
        """Return the stored results of syncs."""
        found: list[Mapping[str, Any]] = []
        with suppress(FileNotFoundError):
            found = json.loads((self.root / ".claude/ledger/book/results.json").read_bytes())
        return found


def wait_until(is_done: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """Wait until something is so, and fail if it is not in that time."""
    until = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < until, "it did not come to that in time"
        time.sleep(0.05)


def make_clones(folder: Path, *names: str) -> tuple[Path, list[Machine]]:
    """Make a remote with one commit, and a machine with a clone of it for each name; return both."""
    remote = make_remote(folder / "remote.git")
    machines: list[Machine] = []
    for name in names:
        machine = Machine(folder / name)
        git(folder, "clone", "--quiet", str(remote), str(machine.root))
        for key in ("name", "email"):
            git(machine.root, "config", f"user.{key}", name)
        if not machines:
            (machine.root / "code").write_text("one\n")
            git(machine.root, "add", "--all")
            git(machine.root, "commit", "--quiet", "--message", "Begin")
            git(machine.root, "push", "--quiet", "origin", "HEAD:refs/heads/main")
            git(remote, "symbolic-ref", "HEAD", "refs/heads/main")
        git(machine.root, "fetch", "--quiet")
        git(machine.root, "checkout", "--quiet", "-B", "main", "origin/main")
        machines.append(machine)
    return remote, machines


def share_all(machines: Sequence[Machine], *words: str) -> None:
    """Join one book on each machine, the first with an entry; each has then all of it."""
    machines[0].do("add", "Use type hints")
    for machine in machines:
        machine.do("share", *(words or ("git",)), "--yes")
