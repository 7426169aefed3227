"""``init`` and ``uninstall`` on real folders and clones: what they write, show, leave alone and refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
import pty
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
import pytest

from helpers.agent_settings import BACKUP, CLAUDE, OURS, THEIRS, claude, on_path, tree
from helpers.authors import HUMAN
from helpers.doctor import examine, findings_of
from helpers.git_repositories import git
from helpers.hook_calls import START, call, told
from helpers.real_command import MAIN
from helpers.settings_files import files, odd, parsed
from helpers.sweep import slice_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.install import hook_entries, places
from tallybook.projections.surfaces.install.hook_entries import hook_command
from tallybook.projections.surfaces.workspace.installation import tool_command
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Answer

__all__ = ["claude", "on_path"]


HOOK_START = "import sys; sys.path.append(sys.argv[1]); import hook_start; hook_start.main()"
EARLIER = [
    "tallybook hook",
    "'/my bin/tallybook' hook",
    f"/x/python3 -I -S -X utf8 -c '{HOOK_START}' '/my lib' || tallybook hook || :",
]
"""Command lines that earlier versions of `init` wrote."""
pytestmark = pytest.mark.usefixtures("_installed")


def test_an_empty_project_is_ready_for_the_next_session(claude: Path, run: Callable[..., Answer]) -> None:
    """Hooks for every event, the slash command, commented settings, a ledger; one entry later a session is told it."""
    answer = run("init")
    assert (0, "") == (answer.code, answer.err)
    assert OURS == list(tree(claude))
    group = {"hooks": [{"type": "command", "command": hook_command(), "timeout": 10}]}
    assert {"hooks": {event: [group] for event in CLAUDE.events}} == json.loads((claude / "settings.json").read_bytes())
    assert [] == commands.show(Project(claude.parent))["key_points"]
    assert 0 == run("add", "Use type hints").code
    assert "Use type hints" in told(call(START))
    toml = (claude / "config" / "tallybook.toml").read_text().splitlines()
    assert ["[playbook]", "[reflection]", "[mcp]", "[ledger]", "[curation]", "[lift]"] == [
        line for line in toml if line and not line.startswith("#")
    ]


def test_an_old_playbook_begins_the_ledger(
    claude: Path, run: Callable[..., Answer], write_playbook: Callable[[object], Path]
) -> None:
    """Its entries are seed events at once; one that cannot be read is set aside, and that is said."""
    write_playbook({"key_points": ["old advice", {"text": "more", "score": 2}]})
    assert f"created {claude / 'ledger' / 'events.jsonl'}: from {claude / 'playbook.json'}\n" in run("init").out
    assert ["old advice", "more"] == [point["text"] for point in commands.show(Project(claude.parent))["key_points"]]


def test_the_answer_is_a_summary_and_a_dry_run_shows_the_change(claude: Path, run: Callable[..., Answer]) -> None:
    """`init` and `uninstall` print a line for each file, and the difference of the settings with --dry-run only."""
    path = claude / "settings.json"
    for verb, result in (("init", f"created {path}: calls Tallybook at 8 events of Claude Code"), ("uninstall", "")):
        dry, done = run(verb, "--dry-run").out.splitlines(), run(verb).out.splitlines()
        assert "@@" in "".join(dry)
        files = [line for line in done if line.startswith(("created ", "changed ", "deleted "))]
        assert files == done[: len(files)] == dry[-len(files) - 1 : -1]
        assert not result or result in files
        assert ("lines such as `[kpt_001 helpful]`" in done[-1]) == (verb == "init")


def test_without_settings_before_there_are_none_afterwards(claude: Path, run: Callable[..., Answer]) -> None:
    """The files and folders that came go; the ledger and playbook.json stay; a second time there is nothing to do."""
    run("init")
    run("add", "stays")
    ledger = (claude / "ledger" / "events.jsonl").read_bytes()
    answer = run("uninstall", "--json")
    assert OURS == sorted(
        Path(step["path"]).relative_to(claude).as_posix() for step in json.loads(answer.out)["changed"]
    )
    assert {"ledger", "playbook.json"} == {path.name for path in claude.iterdir()}
    assert ledger == (claude / "ledger" / "events.jsonl").read_bytes()
    again = run("uninstall")
    assert (0, f"Nothing to remove: Tallybook has nothing in {claude.parent}.\n", "") == again


@profile(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=slice_of(40, 25))
@given(data=files(odd))
def test_settings_of_any_layout_come_back(new_project: Callable[[], Path], data: bytes) -> None:
    """Byte for byte, also where they had empty lists; hooks of ours that somebody wrote by hand go as well."""
    claude = new_project() / ".claude"
    (claude / "settings.json").write_bytes(data)
    assert [0, 0] == [main.run(["init", "--json"]), main.run(["init", "--json"])]
    assert 0 == main.run(["uninstall", "--json"])
    if data == hook_entries.remove(data, CLAUDE, "settings.json"):
        assert {"settings.json": data} == tree(claude)
    else:
        # Settings that held nothing but such hooks are deleted.
        assert [] == hook_entries.own_commands(tree(claude).get("settings.json", b"{}"), CLAUDE, "settings.json")


@pytest.mark.parametrize("before", [None, THEIRS])
@pytest.mark.parametrize("line", EARLIER)
def test_an_older_installation_is_brought_up_to_date(
    claude: Path, run: Callable[..., Answer], before: bytes | None, line: str
) -> None:
    """Its command line is replaced and shown, no backup of it is made, and it is taken back as ever."""
    if before is not None:
        (claude / "settings.json").write_bytes(before)
    run("init")
    now = (claude / "settings.json").read_bytes()
    old = now.replace(json.dumps(hook_command()).encode(), json.dumps(line).encode())
    (claude / "settings.json").write_bytes(old)
    assert json.dumps(line) in run("init", "--dry-run").out
    assert 0 == run("init").code
    assert now == (claude / "settings.json").read_bytes()
    assert (before is not None) == (claude / BACKUP).exists()
    assert "Nothing to change" in run("init").out
    run("uninstall")
    assert ({} if before is None else {"settings.json": before}) == tree(claude)


def test_what_a_person_made_ones_own_is_left(claude: Path, run: Callable[..., Answer]) -> None:
    """A command of the same name and settings that were changed are neither written over nor taken away."""
    names = ("commands/playbook.md", "config/tallybook.toml")
    for name in names:
        (claude / name).parent.mkdir()
        (claude / name).write_text("mine")
    left = [f"left {claude / name}: differs from what this version writes, so it is yours\n" for name in names]
    for verb in ("init", "uninstall"):
        out = run(verb).out
        assert [True, True] == [line in out for line in left]
    assert {"commands/playbook.md": b"mine", "config/tallybook.toml": b"mine"} == tree(claude)


def test_a_hook_behind_somebody_elses_command_is_left(claude: Path, run: Callable[..., Answer]) -> None:
    """Which command line it is, is said."""
    mixed = {"hooks": {event: [CLAUDE.item("mine && tallybook hook", 10)] for event in CLAUDE.events}}
    (claude / "settings.json").write_text(json.dumps(mixed))
    assert "has the hooks already" in run("init").out
    assert "`mine && tallybook hook` does more than call Tallybook; remove it yourself" in run("uninstall").out
    assert mixed == parsed((claude / "settings.json").read_bytes())


def test_without_the_command_on_path_its_own_path_is_written(
    claude: Path, run: Callable[..., Answer], on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quoted, with a note; the same hooks count as ours afterwards, and where the program is gone that is said."""
    program = on_path.parent / "my tools" / "tallybook"
    program.parent.mkdir()
    on_path.rename(program)
    monkeypatch.setattr(sys, "argv", [str(program), "init"])
    answer = run("init")
    works = f"slash commands work once `{tool_command()}` has put it there for every shell"
    assert f"note: `tallybook` is not on PATH: {works}\n" == answer.err
    installed = (claude / "settings.json").read_bytes()
    (line,) = set(hook_entries.own_commands(installed, CLAUDE, ""))
    assert line.endswith(f" || {shlex.quote(str(program))} hook || :")
    program.rename(on_path)
    assert "changed" in run("init").out
    (line,) = set(hook_entries.own_commands((claude / "settings.json").read_bytes(), CLAUDE, ""))
    assert line.endswith(" || tallybook hook || :")
    run("uninstall")
    assert {} == tree(claude)


def test_what_slash_commands_run_exists() -> None:
    """Each one in the package names verbs of the command line in its front matter, and runs no others."""
    for path in (places.PACKAGED / "commands").glob("*.md"):
        verbs = places.verbs_of(path.read_text(encoding="utf-8"))
        assert verbs
        assert verbs <= set(main.tallybook.list_commands(click.Context(main.tallybook)))


COMMENT = "# Tallybook: each machine has its own\n"
LINE = "/.claude/playbook.json\n"


@pytest.fixture
def clone(project: Path) -> Path:
    """Return the project as a repository with one commit."""
    git(project, "init", "--quiet", "--initial-branch=main")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "first")
    return project


def status(folder: Path) -> list[str]:
    """Return what git shows as new or changed."""
    return [line for line in git(folder, "status", "--porcelain", "-uall").split("\n") if "playbook.json" in line]


def test_init_keeps_the_playbook_out_of_git(clone: Path, run: Callable[..., Answer]) -> None:
    """The clone's own exclude file names it, what was in that file stays, and a second run changes nothing."""
    exclude = clone / ".git" / "info" / "exclude"
    before = exclude.read_text()
    answer = run("init")
    assert f"changed {exclude}: git ignores playbook.json in this clone" in answer.out
    assert before + COMMENT + LINE == exclude.read_text()
    assert 0 == run("add", "one").code
    assert [] == status(clone)
    assert "Nothing to change" in run("init").out
    assert before + COMMENT + LINE == exclude.read_text()
    ((level, message),) = findings_of(Project(clone), "git")
    assert ("ok", True) == (level, message.startswith("git does not track the ledger, and `git clean -fdX` deletes"))


def test_sharing_through_git_keeps_the_playbook_out_of_git(clone: Path, run: Callable[..., Answer]) -> None:
    """`share git` does for that file what `init` does."""
    git(clone, "init", "--quiet", "--bare", "../hub.git")
    assert 0 == run("share", "git", str(clone.parent / "hub.git"), "--book", "b", "--yes").code
    assert LINE in (clone / ".git" / "info" / "exclude").read_text()


@pytest.mark.parametrize("before", ["", "*.log", "*.log\n", f"{LINE}x\n"])
def test_uninstall_takes_its_own_lines_out(clone: Path, run: Callable[..., Answer], before: str) -> None:
    """The file is as it was, and so is a line that the user wrote, whether or not it ended its last line."""
    exclude = clone / ".git" / "info" / "exclude"
    exclude.write_text(before)
    run("init")
    run("uninstall")
    assert before.rstrip("\n") == exclude.read_text().rstrip("\n")


def test_a_linked_worktree_uses_the_file_of_its_repository(clone: Path, run: Callable[..., Answer]) -> None:
    """Git reads it from there in every working tree."""
    git(clone, "worktree", "add", "--quiet", "../side", "-b", "side")
    side = clone.parent / "side"
    (side / ".claude").mkdir()
    assert 0 == run("--project", str(side), "init").code
    assert LINE in (clone / ".git" / "info" / "exclude").read_text()
    commands.add(Project(side), "one", HUMAN)
    assert [] == status(side)


def test_a_project_below_the_top_is_named_from_the_top(clone: Path, run: Callable[..., Answer]) -> None:
    """Characters that have a meaning in the file are escaped."""
    below = clone / "a[b]* c"
    (below / ".claude").mkdir(parents=True)
    assert 0 == run("--project", str(below), "init").code
    assert "/a\\[b]\\*\\ c/.claude/playbook.json\n" in (clone / ".git" / "info" / "exclude").read_text()
    commands.add(Project(below), "one", HUMAN)
    assert [] == status(clone)


@pytest.mark.parametrize("place", ["info/exclude", "info", ""])
def test_a_link_is_not_followed(clone: Path, tmp_path: Path, run: Callable[..., Answer], place: str) -> None:
    """What it leads to may be another's file."""
    path = (clone / ".git" / place) if place else clone / ".git"
    moved = tmp_path / "elsewhere"
    path.rename(moved)
    path.symlink_to(moved)
    exclude = clone / ".git" / "info" / "exclude"
    before = exclude.read_text()
    answer = run("init")
    assert (0, before) == (answer.code, exclude.read_text())
    assert str(exclude) not in answer.out


def test_a_pointer_to_a_foreign_repository_is_not_followed(
    clone: Path, tmp_path: Path, run: Callable[..., Answer]
) -> None:
    """An archive can bring a ``.git`` file that leads to any repository of this machine."""
    planted = tmp_path / "planted"
    (planted / ".claude").mkdir(parents=True)
    (planted / ".git").write_text(f"gitdir: {clone / '.git'}\n")
    before = (clone / ".git" / "info" / "exclude").read_text()
    assert 0 == run("--project", str(planted), "init").code
    assert before == (clone / ".git" / "info" / "exclude").read_text()


@pytest.fixture
def tracked(clone: Path) -> Path:
    """Return the repository with a ``playbook.json`` that git tracks."""
    commands.add(Project(clone), "one", HUMAN)
    git(clone, "add", ".claude/playbook.json")
    git(clone, "commit", "--quiet", "--message", "playbook")
    return clone


def test_init_says_how_to_stop_tracking_the_playbook(tracked: Path, run: Callable[..., Answer]) -> None:
    """Without a terminal it prints the command, which works as printed, and changes nothing in git."""
    answer = run("init")
    command = f"git rm --cached {tracked / '.claude' / 'playbook.json'}"
    assert f"`{command}`" in answer.err
    assert ".claude/playbook.json" == git(tracked, "ls-files", ".claude/playbook.json")
    assert ("note", f"run `{command}`, which keeps the file") in [
        (level, fix) for level, _, fix in findings_with_fix(tracked)
    ]
    git(tracked, *command.split()[1:])
    assert "" == git(tracked, "ls-files", ".claude/playbook.json")
    assert (tracked / ".claude" / "playbook.json").exists()


def findings_with_fix(folder: Path) -> list[tuple[str, str, str]]:
    """Return level, message and fix of the findings about git."""
    findings = [finding for finding in examine(Project(folder)) if finding.check == "git"]
    return [(finding.level, finding.message, finding.fix) for finding in findings]


@pytest.mark.parametrize(("word", "left"), [("y", ""), ("n", ".claude/playbook.json")])
def test_on_a_terminal_init_asks(tracked: Path, word: str, left: str) -> None:
    """Git forgets the file, and it stays in the working tree; no filter of the repository runs."""
    ran = tracked / "ran"
    git(tracked, "config", "filter.bad.clean", f"touch {ran}; cat")
    (tracked / ".gitattributes").write_text("playbook.json filter=bad\n")
    here, there = pty.openpty()
    command = [sys.executable, "-c", MAIN, "--project", str(tracked), "init"]
    process = subprocess.Popen(command, stdin=there, stdout=there, stderr=there, cwd=tracked)
    os.close(there)
    said = b""
    deadline = time.monotonic() + 60
    while b"now?" not in said and time.monotonic() < deadline:
        said += os.read(here, 4096)
        if b"Install them now?" in said:
            os.write(here, b"n\n")
            said = b""
    os.write(here, f"{word}\n".encode())
    while True:
        try:
            if not os.read(here, 4096):
                break
        except OSError:
            break
    assert 0 == process.wait(60)
    os.close(here)
    assert left == git(tracked, "ls-files", ".claude/playbook.json")
    assert (tracked / ".claude" / "playbook.json").exists()
    assert not ran.exists()
