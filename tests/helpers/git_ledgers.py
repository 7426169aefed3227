"""Real repositories whose ledger is tracked, and what branches, merges and checkouts make of its log file."""

from __future__ import annotations

from pathlib import Path
import subprocess

from helpers.authors import HUMAN
from helpers.git_repositories import git
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

LOG = ".claude/ledger/events.jsonl"


def make_repository(folder: Path) -> Project:
    """Return a project whose log file alone git tracks, with one entry (events 1 to 3) on ``main`` and ``side``."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    here = Project(folder)
    commands.add(here, "one", HUMAN)
    git(folder, "add", "--force", LOG)
    save(here, "one")
    git(folder, "branch", "side")
    return here


def save(here: Project, message: str) -> str:
    """Commit the ledger as it is, and return the commit's id."""
    git(here.root, "commit", "--quiet", "--message", message, "--", LOG)
    return git(here.root, "rev-parse", "HEAD")


def switch(here: Project, branch: str, *options: str) -> None:
    """Check out a branch as another machine has it: the head, which git does not track, is of that version too."""
    git(here.root, "checkout", "--quiet", *options, branch)
    for name in ("head", "rendered"):
        (here.ledger / name).unlink(missing_ok=True)
    here.playbook.unlink(missing_ok=True)
    git(here.root, "clean", "--quiet", "-dffx", "--", ".claude")


def add_branches(here: Project) -> None:
    """Append on both branches, as two machines do: ``main`` gets an entry, ``side`` another and a rating of the first.

    The project is on ``main`` at the end, with the head of that branch.
    """
    switch(here, "side")
    commands.add(here, "of the side", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    save(here, "side")
    switch(here, "main")
    commands.add(here, "of main", HUMAN)
    commands.rate(here, "kpt_001", "harmful", HUMAN)
    save(here, "main")


def try_git(here: Project, *words: str) -> str:
    """Run a command of git that stops at a conflict, and return what it says."""
    try:
        return git(here.root, *words)
    except subprocess.CalledProcessError as error:
        return f"{error.stdout}{error.stderr}"


def counts(here: Project) -> dict[str, tuple[int, int]]:
    """Return the counts of each text in the playbook."""
    return {point["text"]: (point["helpful"], point["harmful"]) for point in commands.show(here)["key_points"]}
