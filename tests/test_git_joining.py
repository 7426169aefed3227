"""``import --ledger`` in real repositories: one command makes a whole ledger with every rating of both sides."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.git_ledgers import LOG, add_branches, counts, make_repository, save, switch, try_git
from helpers.git_repositories import git
from helpers.hook_calls import START, call
from helpers.real_command import run as real_run
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.histories.joining import import_ledger
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Answer

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
BOTH = {"one": (1, 1), "of main": (0, 0), "of the side": (0, 0)}
"""What both branches of ``add_branches`` add up to."""


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a tracked log file and two branches that both appended to it."""
    here = make_repository(project)
    add_branches(here)
    return here


def join(here: Project, source: str = "", *options: str, code: int = 0) -> Answer:
    """Run the real command on another ledger, by default the log file itself."""
    answer = real_run(here, "import", "--ledger", source or str(here.ledger / "events.jsonl"), *options)
    assert code == answer.code, answer.err
    return answer


def assert_whole(here: Project) -> None:
    """Check that the ledger verifies and ``playbook.json`` is what it says, without a manual edit in it."""
    assert "" == "; ".join(map(str, verify(reading.open_log(here)).problems))
    commands.check(here)
    assert [] == [event for event in commands.list_events(here) if event["kind"] == "playbook.edited"]


def assert_joined(here: Project) -> None:
    """Check that every rating of both branches is there once, and that a second run adds nothing."""
    assert BOTH == counts(here)
    assert_whole(here)
    before = (here.ledger / "events.jsonl").read_bytes()
    assert "nothing new in git:side" in join(here, "git:side").out
    assert "nothing new in git:main" in join(here, "git:main").out
    assert before == (here.ledger / "events.jsonl").read_bytes()


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_a_conflict_is_joined_in_one_command(here: Project, style: str) -> None:
    """The own events keep their numbers, the damaged file is set aside byte for byte, and its name is printed."""
    before = (here.ledger / "events.jsonl").read_bytes()
    try_git(here, "-c", f"merge.conflictStyle={style}", "merge", "side")
    damaged = (here.ledger / "events.jsonl").read_bytes()
    answer = join(here)
    (aside,) = (here.ledger / "quarantine").iterdir()
    assert f"set aside: {aside}" in answer.out
    assert damaged == aside.read_bytes()
    assert (here.ledger / "events.jsonl").read_bytes().startswith(before)
    assert_joined(here)


@pytest.mark.parametrize("sides", [("main", "side"), ("side", "main")])
def test_a_union_merge_is_joined(here: Project, sides: tuple[str, str]) -> None:
    """Whichever side came first, and without a head."""
    switch(here, sides[0])
    (here.root / ".gitattributes").write_text("events.jsonl merge=union\n")
    git(here.root, "merge", "--quiet", "--no-edit", sides[1])
    join(here)
    assert_joined(here)


def test_an_older_version_is_joined(here: Project) -> None:
    """The command of the message brings the acknowledged events back, and then the other branch."""
    git(here.root, "checkout", "--quiet", "main~1")
    division = recognition.recognize(here)
    assert division is not None
    assert "`tallybook import --ledger git:main`" in division.fix
    join(here, "git:main")
    assert {"one": (0, 1), "of main": (0, 0)} == counts(here)
    join(here, "git:side")
    assert_joined(here)


def test_another_branch_is_joined(here: Project) -> None:
    """What stands in the file and what was acknowledged here are both kept."""
    git(here.root, "checkout", "--quiet", "side")
    join(here, "git:main")
    assert_joined(here)


def test_a_merge_that_kept_one_side_loses_nothing(here: Project) -> None:
    """The events of the other side are found in the commit that had them."""
    git(here.root, "merge", "--quiet", "--no-edit", "--strategy=ours", "side")
    assert "2 ratings" not in join(here, "git:side").out
    assert_joined(here)


def test_a_merge_that_kept_the_other_side_loses_nothing(here: Project) -> None:
    """Neither does one that dropped the events of this machine."""
    git(here.root, "reset", "--quiet", "--hard", "side")
    join(here)
    assert BOTH == counts(here)
    assert_whole(here)


def test_a_file_that_git_took_away_comes_back(here: Project) -> None:
    """A commit without the ledger was checked out."""
    git(here.root, "checkout", "--quiet", "--orphan", "empty")
    git(here.root, "rm", "--quiet", "-r", "--force", ".")
    join(here, "git:side")
    assert_joined(here)


def test_a_conflict_of_a_rebase_is_joined(here: Project) -> None:
    """In the middle of a rebase the file has both sides as well."""
    try_git(here, "rebase", "side")
    join(here)
    assert_joined(here)


def test_a_squashed_branch_counts_once(here: Project) -> None:
    """A squash and a later merge of the same branch bring the same events."""
    try_git(here, "merge", "--squash", "side")
    join(here)
    git(here.root, "add", "--force", LOG)
    git(here.root, "commit", "--quiet", "--message", "squashed")
    try_git(here, "merge", "side")
    join(here)
    assert_joined(here)


def test_what_hooks_spooled_is_recorded(here: Project) -> None:
    """A session that began during the conflict is in the ledger afterwards."""
    try_git(here, "merge", "side")
    call(START | {"session_id": "s9"})
    join(here)
    assert "s9" in {event["by"].get("session") for event in commands.list_events(here)}
    assert [] == list((here.ledger / "spool").glob("*.json"))
    assert_joined(here)


def test_a_dry_run_shows_the_same_and_changes_nothing(here: Project) -> None:
    """Every file stays as it is."""
    try_git(here, "merge", "side")
    before = {path: path.read_bytes() for path in here.claude.rglob("*") if path.is_file()}
    answer = join(here, "", "--dry-run")
    assert before == {path: path.read_bytes() for path in here.claude.rglob("*") if path.is_file()}
    assert "events.jsonl would be whole up to event 7" in answer.out
    assert "would bring 1 rating and 1 entry; nothing was recorded" in answer.out
    assert "kpt_002 there is kpt_003 here\n" in answer.out
    assert "1 rating and 1 entry from" in join(here).out


def test_the_answer_in_json(here: Project) -> None:
    """It has what was added, joined, renamed, counted and left out."""
    try_git(here, "merge", "side")
    value = json.loads(join(here, "", "--json").out)
    (aside,) = (here.ledger / "quarantine").iterdir()
    assert {
        "seq_from": 8,
        "seq_to": 11,
        "added": ["kpt_003"],
        "joined": {},
        "renamed": {"kpt_002": "kpt_003"},
        "ratings": 1,
        "batches": 2,
        "known": 2,
        "ignored": [],
        "masked": 0,
        "redacted": 0,
        "unproven": 0,
        "repaired": 7,
        "aside": [str(aside)],
        "lost": 0,
        "dry_run": False,
    } == value


def test_a_playbook_of_the_other_branch_is_no_manual_edit(here: Project) -> None:
    """Where git tracks ``playbook.json`` too, the checked-out one shows the other branch."""
    for branch in ("side", "main"):
        switch(here, branch)
        commands.replay(here)
        git(here.root, "add", "--force", ".claude/playbook.json")
        git(here.root, "commit", "--quiet", "--message", "playbook")
    git(here.root, "checkout", "--quiet", "side")
    join(here, "git:main")
    assert_joined(here)
    assert [] == list(here.claude.glob("playbook.json.unreadable-*"))


def test_an_edited_playbook_of_the_other_branch_is_set_aside(here: Project) -> None:
    """It cannot be told what its writer changed here, and it is kept and named."""
    switch(here, "side")
    commands.replay(here)
    here.playbook.write_text(here.playbook.read_text().replace('"one"', '"edited"'))
    edited = here.playbook.read_bytes()
    git(here.root, "checkout", "--quiet", "main")
    git(here.root, "merge", "--quiet", "--strategy=ours", "--no-edit", "side")
    try_git(here, "reset", "--quiet", "--hard", "main~1")
    try_git(here, "merge", "side")
    (here.ledger / "head").unlink(missing_ok=True)
    answer = join(here)
    (aside,) = here.claude.glob("playbook.json.unreadable-*")
    assert edited == aside.read_bytes()
    assert f"set aside: {aside}" in answer.out
    assert_whole(here)


# What was lost, and what was redacted


def test_lost_events_are_named_and_need_a_word(here: Project) -> None:
    """Events that were never committed, and thrown away, are in no copy; the rest is joined if a person says so."""
    commands.add(here, "never committed", HUMAN)
    git(here.root, "checkout", "--quiet", "--force", "side")
    before = (here.ledger / "events.jsonl").read_bytes()
    answer = join(here, "git:main", code=3)
    assert "events.jsonl: event 9 was acknowledged, and no copy that was found has it; give a copy that has it" in (
        answer.err
    )
    assert before == (here.ledger / "events.jsonl").read_bytes()
    answer = join(here, "git:main", "--accept-loss")
    assert "note: event 9 was acknowledged and is in no copy; what only it had is lost" in answer.err
    assert BOTH == counts(here)
    assert_whole(here)


def test_a_text_that_was_redacted_on_the_other_branch_is_erased_here(here: Project) -> None:
    """Also from the file that is set aside."""
    commands.add(here, "the secret name of a customer", HUMAN)
    save(here, "customer")
    git(here.root, "branch", "--force", "side")
    commands.rate(here, "kpt_001", "harmful", HUMAN)
    save(here, "rated")
    switch(here, "side")
    redact.redact(here, redact.RedactionTarget(text="the secret name of a customer"), "not ours", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    save(here, "redacted")
    git(here.root, "checkout", "--quiet", "main")
    switch(here, "main")
    try_git(here, "merge", "side")
    join(here)
    assert (1, 2) == counts(here)["one"]
    assert "[redacted]" in counts(here)
    assert_whole(here)
    held = [path for path in here.claude.rglob("*") if path.is_file() and b"the secret name" in path.read_bytes()]
    assert [] == held


def test_a_sealed_tail_survives(here: Project) -> None:
    """The bytes that a crash left, and the line that seals them, are where that line says they are."""
    log = here.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes() + b'{"crc":"torn')
    commands.add(here, "after the crash", HUMAN)
    save(here, "sealed")
    before = log.read_bytes()
    try_git(here, "merge", "side")
    join(here)
    assert log.read_bytes().startswith(before)
    assert {**BOTH, "after the crash": (0, 0)} == counts(here)
    assert_whole(here)


def test_a_crash_after_any_step_of_the_repair_loses_nothing(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command goes on, from the file as it was or as it is."""
    try_git(here, "merge", "side")
    damaged = (here.ledger / "events.jsonl").read_bytes()
    for step in ("tallybook.ledger.storage.disk.replace_file", "tallybook.ledger.reading.repair._write_head"):
        with monkeypatch.context() as patch:
            patch.setattr(step, _crash)
            with pytest.raises(KeyboardInterrupt):
                import_ledger(here, str(here.ledger / "events.jsonl"), dry_run=False, accept_loss=False)
        assert damaged in {path.read_bytes() for path in (here.ledger / "quarantine").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("tallybook.projections.surfaces.histories.joining._land", _crash)
        with pytest.raises(KeyboardInterrupt):
            import_ledger(here, "git:side", dry_run=False, accept_loss=False)
    join(here, "git:side")
    assert_joined(here)


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_ledger_in_a_shared_book_takes_the_other_copy_in(here: Project, tmp_path: Path) -> None:
    """Its own events are back, and what the other copy has more is pending here until a sync publishes it."""
    hub = tmp_path / "hub.git"
    git(here.root, "init", "--quiet", "--bare", str(hub))
    assert 0 == real_run(here, "share", "git", str(hub), "--book", "b", "--yes").code
    save(here, "shared")
    try_git(here, "merge", "side")
    join(here)
    expected = BOTH
    assert expected == counts(here)
    assert "nothing new in git:side" in real_run(here, "import", "--ledger", "git:side").out
    assert 0 == real_run(here, "sync").code
    assert expected == counts(here)
    assert_whole(here)


def test_the_conflict_ends_as_the_answer_says(here: Project, tmp_path: Path) -> None:
    """Git takes the whole version as the merge, and a clone has every rating."""
    try_git(here, "merge", "side")
    answer = join(here)
    command = f"git add --force {here.ledger / 'events.jsonl'}"
    assert f"`{command}` and a commit keep this version" in answer.err
    git(here.root, *command.split()[1:])
    git(here.root, "commit", "--quiet", "--message", "merged")
    assert "" == git(here.root, "status", "--porcelain", "--", LOG)
    assert_joined(here)
    clone = Project(tmp_path / "clone")
    git(tmp_path, "clone", "--quiet", str(here.root), str(clone.root))
    assert BOTH == counts(clone)
