"""Planted links, hard links, pipes and devices in a project and in its ledger are never followed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.command_line import Answer
from helpers.ledger_locks import IS_ROOT
from helpers.real_command import BY_HAND, assert_refused, texts
from helpers.repository import ROOT
from tallybook.projections.surfaces import commands, entry_point
from tallybook.projections.surfaces.workspace.project import Project, find_project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., Answer]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has other links")

LEGACY = str(ROOT / "tests" / "data" / "legacy-playbook.json")
WRITING = (["add", "new"], ["import", LEGACY], ["replay"])
READING = (["show"], ["log"], ["verify", "--salvage"])


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the content of a folder: the bytes of files, None for the rest."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command in a project, like the installed one."""

    def run(project: Project, *arguments: str) -> Answer:
        code = entry_point.run(["--project", str(project.root), *arguments])
        return Answer(code, *capsys.readouterr())

    return run


@pytest.fixture
def bare(tmp_path: Path) -> Project:
    """Return a project without a ``.claude`` folder."""
    root = tmp_path / "bare"
    root.mkdir()
    return Project(root)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Project:
    """Return another project, outside, with its own entry."""
    other = Project(tmp_path / "elsewhere")
    commands.add(other, BY_HAND, HUMAN)
    return other


@pytest.mark.parametrize("arguments", [*WRITING, *READING], ids=lambda words: words[0])
@pytest.mark.parametrize("place", [".claude", ".claude/ledger"])
def test_a_folder_that_leads_out_of_the_project_is_refused(
    bare: Project, run: Run, elsewhere: Project, place: str, arguments: list[str]
) -> None:
    """It is neither read nor written: one line names the link's target and the remedy, with exit code 4."""
    link = bare.root / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere.root / place)
    before = contents(elsewhere.root)
    answer = run(bare, *arguments)
    assert_refused(answer, 4, f"{link}: leads to {elsewhere.root / place}")
    assert "--project DIR" in answer.err
    assert before == contents(elsewhere.root)


@pytest.mark.parametrize("arguments", [WRITING[0], ["show"], ["replay", "--check"]], ids=" ".join)
def test_a_playbook_that_leads_out_of_the_project_is_refused(
    bare: Project, run: Run, elsewhere: Project, arguments: list[str]
) -> None:
    """An outside file is not read as the project's playbook, and not overwritten; the link stays."""
    commands.add(bare, "mine", HUMAN)
    link, before = bare.playbook, contents(elsewhere.root)
    link.unlink()
    link.symlink_to(elsewhere.playbook)
    assert_refused(run(bare, *arguments), 4, f"{link}: leads to {elsewhere.playbook}")
    assert (elsewhere.playbook, before) == (link.readlink(), contents(elsewhere.root))
    assert 0 == run(bare, "log").code


@pytest.mark.parametrize("target", [".", "loop", "../..", "/", "nowhere"])
def test_an_invalid_agent_folder_is_reported(bare: Project, run: Run, target: str) -> None:
    """A link to itself, to nothing or to a parent is refused in one line; one to the project itself is accepted."""
    (bare.root / ".claude").symlink_to(".claude" if target == "loop" else target)
    answer = run(bare, "add", "new")
    if target == ".":
        assert 0 == answer.code
        assert (bare.root / "ledger" / "events.jsonl").is_file()
    else:
        assert_refused(answer, 4, f"{bare.root / '.claude'}: leads to ")


def test_links_within_the_project_are_followed(bare: Project, run: Run, tmp_path: Path) -> None:
    """``.claude`` and playbook.json may be elsewhere in it: their targets are written, and the links stay.

    The user arranges the folders above the project, so those may be links too.
    """
    (tmp_path / "link").symlink_to(bare.root)
    linked = Project(tmp_path / "link")
    real, notes = bare.root / "settings" / "claude", bare.root / "notes"
    real.mkdir(parents=True)
    notes.mkdir()
    (bare.root / ".claude").symlink_to("settings/claude")
    (real / "playbook.json").symlink_to("../../notes/learned.json")
    for text in ("one", "two"):
        assert 0 == run(linked, "add", text).code
    learned = notes / "learned.json"
    assert ["one", "two"] == [entry["text"] for entry in json.loads(learned.read_bytes())["key_points"]]
    learned.write_text(learned.read_text().replace("one", "changed"))
    assert [0, 0] == [run(project, "replay").code for project in (linked, bare)]
    assert ["changed", "two"] == texts(bare)
    assert ["settings/claude", "../../notes/learned.json"] == [
        str(link.readlink()) for link in (bare.root / ".claude", real / "playbook.json")
    ]
    assert ["learned.json"] == [path.name for path in notes.iterdir()]


@pytest.mark.parametrize("target", ["ledger/events.jsonl", "ledger/new", "playbook.json"])
def test_a_playbook_is_never_written_over_the_ledger(bare: Project, run: Run, target: str) -> None:
    """A link to a file of the ledger, or to itself, is refused, and the ledger does not change."""
    commands.add(bare, "mine", HUMAN)
    link, before = bare.playbook, contents(bare.ledger)
    link.unlink()
    link.symlink_to(target)
    assert_refused(run(bare, "add", "new"), 4, f"{link}: leads to ")
    assert before == contents(bare.ledger)


HARD_LINK = (4, "is a hard link to a file that is not the ledger's; move it away")
NO_LEDGER = (3, "events.jsonl:1: is not a line of this ledger")


@pytest.mark.parametrize(
    ("name", "data", "refusal"),
    [
        *(("head", data, HARD_LINK) for data in (b"", b"precious\n", b'{"seq":1,"mine":true}\n')),
        ("events.jsonl", b"", HARD_LINK),
        # A log is read before it is written, so its first line is refused before its second name.
        *(("events.jsonl", data, NO_LEDGER) for data in (b"precious\n", b'{"seq":1,"mine":true}\n')),
    ],
)
def test_a_hard_link_to_someone_elses_file_is_not_written(  # noqa: PLR0913, PLR0917 - a row of the table, three fixtures
    bare: Project, run: Run, tmp_path: Path, name: str, data: bytes, refusal: tuple[int, str]
) -> None:
    """A file with another name that is no ledger's is refused; no byte of it changes."""
    victim = tmp_path / "victim"
    victim.write_bytes(data)
    bare.ledger.mkdir(parents=True)
    (bare.ledger / name).hardlink_to(victim)
    assert_refused(run(bare, "add", "new"), *refusal)
    assert data == victim.read_bytes()


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files to others")
@pytest.mark.parametrize("planted", [".claude", ".git"])
def test_someone_elses_project_above_the_work_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    """In a world-writable folder such as /tmp, another user's project is not the current one."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    (tmp_path / planted).mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    found = [find_project().root]
    tmp_path.chmod(0o1777)
    found.append(find_project().root)
    os.chown(tmp_path / planted, 65534, 65534)
    found.append(find_project().root)
    monkeypatch.chdir(tmp_path)
    assert [tmp_path, tmp_path, mine, tmp_path] == [*found, find_project().root]
