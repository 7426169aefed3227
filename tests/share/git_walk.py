"""Random commands of git among clones that share: none is stopped, nothing of ours shows, nothing is lost.

Three clones with branches, a worktree and a shallow clone merge, rebase, squash, revert, force pushes, check out and
stash, while their users rate and sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
import subprocess
import sys

from helpers.shared_clones import Machine, make_clones, share_all

USUAL = 200
NAMES = ("anna", "ben", "cleo")
OURS = (".claude", "tallybook/")
EVERY = 4
"""So many commands of git lie between two commands of Tallybook."""


class Walk:
    """Clones and the commands that ran in them.

    Attributes:
        remote: The bare repository.
        machines: Its users; the last one's clone is shallow.
        done: Kind of command → how often it ran.
        given: How many ratings were acknowledged.
        problems: What was stopped, shown or lost.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        """Make the clones, share the playbook, and give one clone a worktree."""
        self._draw = Random(seed)  # noqa: S311 - the same seed is to draw the same commands
        self.remote, self.machines = make_clones(folder, *NAMES)
        self._make_shallow(self.machines[-1])
        share_all(self.machines)
        self.done: Counter[str] = Counter()
        self.given = 0
        self.problems: list[str] = []
        self._number = 0
        for machine in self.machines:
            # As the documentation says: otherwise a fetch brings the book's branch as a remote-tracking one.
            self.git(machine, "checkout", "-q", "-b", "topic")
        self._worktree = Machine(self.machines[0].home, self.machines[0].home / "worktree")
        self.git(self.machines[0], "worktree", "add", "-q", "-b", "side", str(self._worktree.root))

    def _make_shallow(self, machine: Machine) -> None:
        self._must(machine.home, "rm", "-rf", str(machine.root))
        words = ("clone", "-q", "--depth", "1", "--no-single-branch", f"file://{self.remote}", str(machine.root))
        self._must(machine.home, "git", *words)
        for key in ("name", "email"):
            self._must(machine.root, "git", "config", f"user.{key}", "cleo")

    def _must(self, folder: Path, *words: str) -> None:
        subprocess.run(words, cwd=folder, check=True, capture_output=True)

    def git(self, machine: Machine, *words: str) -> str:
        """Run git; what our files stopped is a problem, another conflict is a part of life and is given up."""
        done = subprocess.run(
            ["git", *words], cwd=machine.root, env=machine.environment, capture_output=True, text=True, check=False
        )
        said = f"git {' '.join(words)}: {done.stdout}{done.stderr}"
        if done.returncode and any(ours in done.stdout + done.stderr for ours in OURS):
            self.problems.append(said)
        return done.stdout

    def step(self) -> None:
        """Run one command of git in one clone, and sometimes rate and sync there."""
        machine = self._draw.choice([*self.machines, self._worktree])
        name = self._draw.choice(sorted(STEPS))
        self._number += 1
        for command in STEPS[name]:
            if isinstance(command, str):
                self.git(machine, *command.format(number=self._number).split())
            else:
                command(self, machine)
        self.done[name] += 1
        # Where it met a conflict in the code.
        for verb in ("merge", "rebase", "revert", "cherry-pick"):
            self.git(machine, verb, "--abort")
        self._look(machine)
        if self._number % EVERY == 0:
            self._rate(machine)

    def _look(self, machine: Machine) -> None:
        shown = {
            "status": self.git(machine, "status", "--porcelain"),
            "branch -a": self.git(machine, "branch", "-a"),
            "stash list": self.git(machine, "stash", "list"),
            "log": self.git(machine, "log", "-3", "--all", "--name-only"),
        }
        for what, text in shown.items():
            if any(ours in text for ours in OURS):
                self.problems.append(f"git {what} shows: {text}")

    def _rate(self, machine: Machine) -> None:
        words = (("rate", "kpt_001", "helpful"), ("sync",))
        for command in words:
            answer = machine.run(*command)
            if answer.code:
                self.problems.append(f"tallybook {' '.join(command)}: {answer.err}")
            elif command[0] == "rate":
                self.given += 1

    def commit(self, machine: Machine) -> None:
        """Change a file and commit it."""
        (machine.root / f"file-{self._number}").write_text(f"{self._number}\n")
        self.git(machine, "add", "--all")
        self.git(machine, "commit", "-q", "-m", f"Change {self._number}")

    def change(self, machine: Machine) -> None:
        """Leave a file that is not committed."""
        (machine.root / f"new-{self._number}").write_text("new\n")

    def list_pushed(self, machine: Machine) -> None:
        """List what a push of every branch would push, as it would be without Tallybook."""
        out = self.git(machine, "push", "--force", "--porcelain", "--all", "--dry-run", "origin")
        if any(ours in out for ours in OURS):
            self.problems.append(f"git push --all pushes: {out}")

    def finish(self) -> None:
        """Sync every machine, and compare what they have."""
        for machine in [*self.machines, *self.machines]:
            machine.do("sync")
        replicas = {machine.replica() for machine in self.machines}
        playbooks = [machine.entries() for machine in self.machines]
        if len(replicas) != 1 or any(playbook != playbooks[0] for playbook in playbooks):
            self.problems.append(f"the machines differ: {playbooks}")
        counted = playbooks[0]["kpt_001"][1]
        if counted != self.given:
            self.problems.append(f"{self.given} ratings were acknowledged, and {counted} count")


STEPS: dict[str, tuple[str | Callable[[Walk, Machine], None], ...]] = {
    "branch": ("checkout -q -b b{number}", Walk.commit, "checkout -q -"),
    "checkout": ("fetch -q origin", "checkout -q --detach origin/main"),
    "clean and reset": (Walk.change, "clean -f -d -q", "reset -q --hard HEAD~1"),
    "commit": (Walk.commit,),
    "force push": (Walk.commit, Walk.list_pushed, "push -q --force origin HEAD:refs/heads/main"),
    "merge": ("fetch -q origin", "merge -q --no-edit --allow-unrelated-histories origin/main"),
    "pull": ("fetch -q origin", "pull -q --rebase origin main"),
    "rebase": ("fetch -q origin", "rebase -q origin/main"),
    "revert": (Walk.commit, "revert --no-edit HEAD"),
    "squash": ("fetch -q origin", "merge -q --squash origin/main", Walk.commit),
    "stash": (
        Walk.change,
        "stash -q --include-untracked",
        "checkout -q --detach HEAD~1",
        "checkout -q -",
        "stash pop -q",
        Walk.commit,
    ),
}
"""Name of a kind of command → the commands of git, and what else is done between them."""


def run(folder: Path, count: int, seed: int) -> Walk:
    """Run so many commands, compare the machines, and return what came of it."""
    walk = Walk(folder, seed)
    for _ in range(count):
        walk.step()
    walk.finish()
    return walk


def report(folder: Path, count: int, seed: int) -> int:
    """Run the walk and print what came of it; 1 where something was stopped, shown or lost."""
    walk = run(folder, count, seed)
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(walk.done.items()))
    lines = [
        f"{walk.done.total()} commands in {len(walk.machines)} clones and a worktree: {kinds}",
        f"{walk.given} ratings acknowledged; problems: {len(walk.problems)}",
        *walk.problems,
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(walk.problems))
