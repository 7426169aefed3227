"""A real git repository around a project, its commits, and its ledger as it was."""

from __future__ import annotations

from collections.abc import Mapping
import os
from pathlib import Path
import subprocess
import tempfile

from helpers.documentation import PAGES
from helpers.events import HUMAN
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands


def git(folder: Path, *words: str, given: str = "", **environment: str) -> str:
    """Run git in a folder."""
    who = {f"GIT_{who}_{field}": "me@here" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        input=given,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull} | environment,
    )
    return done.stdout.strip()


def make_remote(folder: Path) -> Path:
    """Make a bare repository, as a server has it, and return its folder."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare")
    return folder


def delete_locks(remote: Path) -> None:
    """Delete the lock files of a bare repository as the page of engines says."""
    _run_documented(1, remote)


def delete_damage(remote: Path, book: str) -> None:
    """Delete the empty objects of a bare repository and the branch of a book as the page of engines says."""
    _run_documented(2, remote, book)


def _run_documented(number: int, remote: Path, book: str = "") -> None:
    section = PAGES["ledger/sharing/ENGINES.md"].split("\n### Power failures of the server\n")[1].split("\n##")[0]
    script = section.split("```sh\n")[number + 1].split("```")[0]
    script = script.replace("REPOSITORY", f"'{remote}'").replace("BOOK", book)
    subprocess.run(["sh", "-eu", "-c", script], check=True, capture_output=True)


def push_files(remote: Path, reference: str, files: Mapping[str, bytes], *, parent: str = "") -> str:
    """Put a commit of a stranger on a reference by force: a commit's files with these changed; return its id."""
    folder = Path(tempfile.mkdtemp(dir=remote.parent))
    git(folder, "init", "--quiet")
    if parent:
        git(folder, "fetch", "--quiet", str(remote), parent)
        git(folder, "checkout", "--quiet", "FETCH_HEAD")
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "by hand")
    git(folder, "push", "--quiet", "--force", str(remote), f"HEAD:{reference}")
    return git(folder, "rev-parse", "HEAD")


def commit(here: Project, **environment: str) -> str:
    """Commit everything that is not ignored, and return the commit's id."""
    git(here.root, "add", "--all")
    git(here.root, "commit", "--quiet", "--allow-empty", "--message", "one", **environment)
    return git(here.root, "rev-parse", "HEAD")


def plant_traps(root: Path, mark: Path) -> None:
    """Let a repository's configuration and hooks touch a file wherever git would fetch, refresh, page or sign."""
    touch = f"touch {mark}"
    for key in ("fsmonitor", "pager", "editor", "sshCommand"):
        git(root, "config", f"core.{key}", touch)
    for key in ("gpg.program", "diff.external", "remote.origin.uploadpack", "remote.origin.receivepack"):
        git(root, "config", key, touch)
    for key in ("credential.helper", "alias.rev-parse", "alias.rev-list", "alias.fetch"):
        git(root, "config", key, f"!{touch}")
    for key in ("log.showSignature", "protocol.ext.allow", "protocol.file.allow"):
        git(root, "config", key, "always" if key.endswith("allow") else "true")
    names = ("pre-push", "pre-commit", "pre-auto-gc", "post-checkout", "post-index-change", "post-merge")
    for name in (*names, "reference-transaction", "update"):
        hook = root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\nexit 1\n")
        hook.chmod(0o755)


# Real repositories whose ledger is tracked, and what branches, merges and checkouts make of its log file.


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
