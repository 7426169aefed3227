"""What git made of a tracked log file is said in plain words, with the command that brings both sides together."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.doctor import findings_of
from helpers.git_ledgers import LOG, add_branches, make_repository, switch, try_git
from helpers.git_repositories import git
from helpers.hook_calls import START, call
from helpers.real_command import assert_refused
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories import recognition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Answer
    from tallybook.projections.surfaces.workspace.project import Project

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
VERBS = [
    ["show"],
    ["add", "two"],
    ["rate", "kpt_001", "helpful"],
    ["why", "kpt_001"],
    ["replay"],
    ["diff", "1", "7"],
    ["undo"],
]
KEEPS = "which keeps every rating of both"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a tracked log file and two branches that both appended to it."""
    here = make_repository(project)
    add_branches(here)
    return here


def what_happened(here: Project) -> str:
    """Return the line that people see, empty where nothing is recognised."""
    division = recognition.recognize(here)
    return "" if division is None else str(division)


def own_file(here: Project) -> str:
    """Return the log file as the message names it from another folder."""
    return os.path.realpath(here.ledger / "events.jsonl")


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_verb_names_a_conflict(here: Project, run: Callable[..., Answer], words: list[str]) -> None:
    """It exits with 3 and one line: the file, what git did, and the command."""
    try_git(here, "merge", "side")
    line = "has the conflict of a git merge at line 4: events were appended after event 3 on both sides"
    command = f"run `tallybook import --ledger {own_file(here)}`, {KEEPS}"
    assert_refused(run(*words), 3, f"tallybook: events.jsonl: {line}; {command}\n")


def test_the_path_in_the_message_is_that_of_the_current_folder(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be typed as it is printed."""
    try_git(here, "merge", "side")
    monkeypatch.chdir(here.root)
    assert f"`tallybook import --ledger {LOG}`" in what_happened(here)


def test_verify_and_doctor_name_a_conflict(here: Project, run: Callable[..., Answer]) -> None:
    """`verify` adds it to the damage that it lists, in the JSON answer too, and `doctor` gives the command as a fix."""
    try_git(here, "merge", "side")
    for words in (["verify"], ["verify", "--json"]):
        answer = run(*words)
        assert 3 == answer.code
        assert f"note: {what_happened(here)}\n" in answer.err
    assert ("bad", what_happened(here).partition("; ")[0]) == findings_of(here, "ledger")[0]


def test_a_hook_ends_well_and_spools(here: Project) -> None:
    """An agent's session is not disturbed by a conflict."""
    try_git(here, "merge", "side")
    call(START | {"session_id": "s9"})
    (spooled,) = (here.ledger / "spool").glob("*.json")
    assert "s9" in spooled.read_text()


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_every_style_of_conflict_is_recognised(here: Project, style: str) -> None:
    """Git can show the common version between the two."""
    assert "Unknown" not in try_git(here, "-c", f"merge.conflictStyle={style}", "merge", "side")
    assert "has the conflict of a git merge at line 4" in what_happened(here)


def test_a_conflict_of_a_rebase_is_recognised(here: Project) -> None:
    """So is one of a stash."""
    try_git(here, "rebase", "side")
    assert "has the conflict of a git merge" in what_happened(here)


def test_a_conflict_of_a_stash_is_recognised(here: Project) -> None:
    """The stash has events that no branch has."""
    commands.add(here, "stashed", HUMAN)
    git(here.root, "stash", "--quiet")
    switch(here, "side")
    try_git(here, "stash", "pop")
    assert "has the conflict of a git merge" in what_happened(here)


@pytest.mark.parametrize("sides", [("main", "side"), ("side", "main")])
def test_a_union_merge_is_recognised(here: Project, sides: tuple[str, str]) -> None:
    """The lines of both sides follow one another, without markers."""
    switch(here, sides[0])
    commands.show(here)
    (here.root / ".gitattributes").write_text("events.jsonl merge=union\n")
    git(here.root, "merge", "--quiet", "--no-edit", sides[1])
    what = "has the lines of both sides of a git merge, one after the other: events were appended after event 3 on both"
    assert what in what_happened(here)


def test_an_older_version_is_recognised(here: Project) -> None:
    """A checkout of an older commit took events away that were acknowledged here."""
    git(here.root, "checkout", "--quiet", "main~1")
    what = "ends at event 3, and event 7 was acknowledged: git put an older version in its place"
    assert f"events.jsonl: {what}; run `tallybook import --ledger git:main`, {KEEPS}" == what_happened(here)


def test_another_branch_is_recognised(here: Project) -> None:
    """Its events are not those that were acknowledged here."""
    git(here.root, "checkout", "--quiet", "side")
    what = "differs from what was acknowledged after event 3: git put another branch's version in its place"
    assert f"events.jsonl: {what}; run `tallybook import --ledger git:main`, {KEEPS}" == what_happened(here)


def test_a_merge_that_kept_the_other_side_is_recognised(here: Project) -> None:
    """The commit with this side's events is found even if no branch has it any more."""
    kept = git(here.root, "rev-parse", "main")
    git(here.root, "reset", "--quiet", "--hard", "side")
    assert f"git put another branch's version in its place; run `tallybook import --ledger git:{kept[:12]}`" in (
        what_happened(here)
    )


def test_events_that_were_never_committed_are_said_to_be_in_no_commit(here: Project) -> None:
    """A forced checkout threw them away."""
    commands.add(here, "never committed", HUMAN)
    git(here.root, "checkout", "--quiet", "--force", "side")
    assert "; no commit here has event 9; run `tallybook import --ledger " in what_happened(here)


def test_a_file_that_git_took_away_is_recognised(here: Project) -> None:
    """A commit without the ledger was checked out."""
    git(here.root, "checkout", "--quiet", "--orphan", "empty")
    git(here.root, "rm", "--quiet", "-r", "--force", ".")
    what = "is missing, and held 7 events: git checked out a commit without it"
    assert f"events.jsonl: {what}; run `tallybook import --ledger git:main`" == what_happened(here)


def test_a_version_that_goes_on_from_the_head_is_read(here: Project) -> None:
    """Another machine appended, and git brought its lines: nothing is damaged."""
    git(here.root, "checkout", "--quiet", "-b", "more")
    head = (here.ledger / "head").read_bytes()
    commands.add(here, "more", HUMAN)
    (here.ledger / "head").write_bytes(head)
    assert "" == what_happened(here)
    assert "more" in [entry["text"] for entry in commands.show(here)["key_points"]]


def test_a_tracked_head_with_a_conflict_is_no_obstacle(project: Path) -> None:
    """Where the head is tracked as well, git writes its markers into it, too."""
    here = make_repository(project)
    git(project, "add", "--force", ".claude/ledger/head")
    git(project, "commit", "--quiet", "--message", "head")
    git(project, "branch", "--force", "side")
    for branch in ("side", "main"):
        git(project, "checkout", "--quiet", branch)
        commands.add(here, f"of {branch}", HUMAN)
        git(project, "commit", "--quiet", "--all", "--message", branch)
    try_git(here, "merge", "side")
    assert b"<<<<<<< HEAD" in (here.ledger / "head").read_bytes()
    assert "has the conflict of a git merge at line 4" in what_happened(here)


# Where git has no part in it


def test_without_a_repository_git_is_not_named(here: Project) -> None:
    """A file that a person merged is recognised by its lines alone."""
    try_git(here, "merge", "side")
    shutil.rmtree(here.root / ".git")
    assert "has the conflict of a merge at line 4" in what_happened(here)
    assert "a git merge" not in what_happened(here)


def test_a_file_that_git_does_not_track_is_plain_damage(here: Project, run: Callable[..., Answer]) -> None:
    """An end that is cut off stays what it was: damage, with the number of missing bytes."""
    git(here.root, "rm", "--quiet", "--cached", LOG)
    log = here.ledger / "events.jsonl"
    data = log.read_bytes()
    log.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1])
    assert "" == what_happened(here)
    assert "bytes before its acknowledged end at seq 7; the ledger is damaged" in run("show").err


def test_a_changed_byte_is_plain_damage(here: Project, run: Callable[..., Answer]) -> None:
    """Also in a tracked file."""
    log = here.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"rating":"harmful"', b'"rating":"helpful"', 1))
    assert "" == what_happened(here)
    assert "was changed: its bytes do not fit its checksum" in run("show").err


def test_nothing_that_the_repository_configures_runs(here: Project) -> None:
    """Neither a filter, a driver, a signature's program nor a hook runs while the file is examined."""
    git(here.root, "checkout", "--quiet", "side")
    ran = here.root / "ran"
    for key in (
        "core.fsmonitor",
        "gpg.program",
        "core.pager",
        "diff.external",
        "filter.bad.smudge",
        "filter.bad.clean",
    ):
        git(here.root, "config", key, f"touch {ran}; cat")
    git(here.root, "config", "log.showSignature", "true")
    (here.root / ".gitattributes").write_text("* filter=bad diff=bad\n")
    assert "git put another branch's version in its place" in what_happened(here)
    assert not ran.exists()


def test_names_of_branches_are_quoted(here: Project) -> None:
    """A repository can have any names."""
    git(here.root, "branch", "--move", "main", "a;b$(c)")
    git(here.root, "checkout", "--quiet", "side")
    assert "`tallybook import --ledger 'git:a;b$(c)'`" in what_happened(here)
    assert json.dumps(what_happened(here))
