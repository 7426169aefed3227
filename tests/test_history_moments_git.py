"""A commit as a moment: its time, or the ledger that it has, with a real git."""

from __future__ import annotations

from pathlib import Path
import shutil
from typing import Any

import pytest

from helpers.commands import Run
from helpers.events import HUMAN, list_events
from helpers.git_repositories import commit, git, keep
from helpers.reference_model import extraction
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.playbook.render import playbook_dict
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import moments, reading
from tallybook.projections.surfaces.history.playbook_file import AsOf
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, redact

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project in a repository, with one entry (events 1 to 3)."""
    git(project, "init", "--quiet")
    commands.add(Project(project), "one", HUMAN)
    return Project(project)


@pytest.fixture
def tracked(here: Project) -> Project:
    """Return the same project with a ledger that git tracks."""
    (here.ledger / ".gitignore").unlink()
    return here


def texts(then: AsOf[Playbook]) -> list[str]:
    """Return the texts of a playbook's entries."""
    return [point["text"] for point in playbook_dict(then.state)["key_points"]]


# A ledger that git does not track


def test_a_commit_is_the_last_event_before_it(here: Project) -> None:
    """If git ignores the ledger, the commit's time counts, in whatever zone it was made."""
    at = next(reading.batches(here)).at
    early = commit(here, GIT_COMMITTER_DATE="2001-01-01T12:00:00+0900")
    late = commit(here, GIT_COMMITTER_DATE="2099-01-01T00:00:00+0000")
    commands.add(here, "two", HUMAN)
    then = commands.playbook(here, f"git:{early}")
    assert [] == texts(then)
    assert (f"git:{early} is before the ledger's first event, {at[:16].replace('T', ' ')} UTC",) == then.notes
    assert ["one", "two"] == texts(commands.playbook(here, "git:HEAD"))
    assert f"the last before commit {late[:12]} of 2099-01-01 00:00 UTC" in commands.playbook(here, "git:HEAD").moment


@pytest.mark.parametrize("name", ["nope", "", "--all", "-h", "HEAD:README", "HEAD..", "a b", "\udcff"])
def test_an_unknown_commit_is_one_line(here: Project, name: str) -> None:
    """No word on the command line becomes an option of git."""
    commit(here)
    with pytest.raises(BadInputError, match=r"^[^\n]*: git names no such commit; give a time or a number$"):
        moments.find(here, f"git:{name}")


def test_without_git_the_error_names_it(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error also lists the moments that need no git."""
    monkeypatch.setenv("PATH", str(here.claude))
    with pytest.raises(
        BadInputError, match=r"^--at git:HEAD: .*: git is not installed; install .*; give a time or a number$"
    ):
        moments.find(here, "git:HEAD")


def test_a_repository_in_a_git_hooks_environment_is_not_used(
    here: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository is the one around the project, whatever the environment names."""
    name = commit(here)
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert name[:12] in moments.find(here, "git:HEAD").named


# A ledger that git tracks


def test_a_commit_with_the_ledger_is_its_end(tracked: Project) -> None:
    """Later events do not belong to it, even those of the same second."""
    name = commit(tracked)
    commands.add(tracked, "two", HUMAN)
    then = commands.playbook(tracked, "git:HEAD")
    assert ["one"] == texts(then)
    assert then.moment.endswith(f", the end of the ledger in commit {name[:12]}")
    assert ["kpt_002"] == [row["body"]["name"] for row in since(tracked, "git:HEAD") if row["kind"] == "point.added"]


def since(here: Project, moment: str) -> list[dict[str, Any]]:
    """Return the events after a moment of the project's own ledger."""
    seq = moments.find_here(here, moment, "--since").seq
    return [row for row in list_events(here) if row["seq"] > seq]


def test_a_commit_of_another_history_is_folded_by_itself(tracked: Project) -> None:
    """When two branches diverge, each commit shows its own ledger."""
    put_back = keep(tracked)
    commands.add(tracked, "their second", HUMAN)
    commands.record(tracked, extraction(("kpt_001", "helpful")), {"rater": "reflector"})
    name = commit(tracked)
    put_back()
    commands.add(tracked, "our second", HUMAN)
    then = commands.playbook(tracked, "git:HEAD")
    assert ["one", "their second"] == texts(then)
    assert f"event 7, {then.state.last_updated[:16].replace('T', ' ')} UTC" == then.moment.partition(", the")[0]
    assert then.moment.endswith(f"the end of the ledger in commit {name[:12]}, which has another history than this one")
    story = commands.why(tracked, "kpt_001", moments.find(tracked, "git:HEAD"))
    assert (1, 0) == (story["helpful"], story["harmful"])
    assert ["one", "our second"] == [point["text"] for point in commands.show(tracked)["key_points"]]
    with pytest.raises(BadInputError, match="has another history than this one; give the commit's date and time"):
        moments.find_here(tracked, "git:HEAD", "--since")


def test_a_redacted_text_is_hidden_in_a_commits_ledger(tracked: Project) -> None:
    """Git keeps the bytes, but no answer shows them."""
    put_back = keep(tracked)
    commands.add(tracked, "two", HUMAN)
    commit(tracked)
    put_back()
    redact.redact(tracked, redact.RedactionTarget("2", None), "private", HUMAN)
    assert [REDACTED, "two"] == texts(commands.playbook(tracked, "git:HEAD"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"version https://git-lfs.example/v1\n", "is damaged: events.jsonl:1: is a pointer of Git LFS"),
        (b"version 1\n", "is damaged: events.jsonl:1"),
        (b"<<<<<<< ours\n", "is damaged: events.jsonl:1"),
    ],
)
def test_a_file_that_is_no_ledger_is_refused_in_a_commit(tracked: Project, data: bytes, message: str) -> None:
    """For a pointer to a large file, or a failed merge, the error names the commit and its time."""
    put_back = keep(tracked)
    path = tracked.ledger / "events.jsonl"
    path.write_bytes(data if b"version" in data else data + path.read_bytes())
    name = commit(tracked, GIT_COMMITTER_DATE="2026-11-22T00:00:00+0000")
    put_back()
    expected = f"the ledger in commit {name[:12]} {message}.*; give the time it was committed at, 2026-11-22T00:00:00"
    with pytest.raises(BadInputError, match=expected):
        moments.find(tracked, "git:HEAD")


def test_a_linked_worktree_resolves_its_own_branch(tracked: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """HEAD is that of the current folder, and the ledger the one that all worktrees share."""
    commit(tracked)
    linked = tmp_path_factory.mktemp("linked") / "tree"
    git(tracked.root, "worktree", "add", "--quiet", "--detach", str(linked))
    commands.add(tracked, "two", HUMAN)
    commit(tracked)
    assert ["one"] == texts(commands.playbook(Project(tracked.root, linked), "git:HEAD"))
    assert ["one", "two"] == texts(commands.playbook(tracked, "git:HEAD"))


# A repository whose configuration somebody else wrote


def plant(here: Project, mark: Path) -> None:
    """Give a repository a configuration that runs a command whenever git would fetch, refresh, page or run a hook."""
    touch = f"touch {mark}"
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{touch}",
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": touch,
        "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
        "core.fsmonitor": touch,
        "core.pager": touch,
        "core.sshCommand": touch,
        "credential.helper": f"!{touch}",
        "diff.external": touch,
        "alias.rev-parse": f"!{touch}",
    }.items():
        git(here.root, "config", key, value)
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        hook = here.root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\n")
        hook.chmod(0o755)


@pytest.mark.parametrize("url", ["ext::touch {mark}", "file:///{mark}", "/{mark}", "ssh://host/x"])
@pytest.mark.parametrize("question", ["a commit that is not there", "a ledger that is not there"])
def test_no_command_that_a_repository_configures_runs(
    tracked: Project, run: Run, tmp_path_factory: pytest.TempPathFactory, question: str, url: str
) -> None:
    """Missing objects are not fetched, whatever the remote is; the answer is one line."""
    mark = tmp_path_factory.mktemp("mark") / "planted"
    commit(tracked)
    blob = git(tracked.root, "rev-parse", "HEAD:.claude/ledger/events.jsonl")
    plant(tracked, mark)
    (tracked.root / ".git" / "config").write_text(
        (tracked.root / ".git" / "config").read_text().replace(f"ext::touch {mark}", url.format(mark=mark))
    )
    (tracked.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    words = ("diff", f"git:{'0123456789' * 4}") if "commit" in question else ("show", "--at", "git:HEAD")
    answer = run(*words)
    assert (False, 1) == (mark.exists(), len(answer.err.splitlines()))
    assert answer.code != 0
