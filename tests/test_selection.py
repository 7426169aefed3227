"""What a session is given for a task by `show --as-agent`, and in a file that agents read by `export agents-md`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.command_line import Run
from helpers.hook_calls import here
from tallybook.ledger.events import PointProposed
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks import blocks
from tallybook.projections.surfaces.selection import MAX_CHARS, SENTENCE
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

__all__ = ["here"]
BEGIN, END = blocks.BEGIN.decode(), blocks.END.decode()
BLOCK = f"{BEGIN}\n{SENTENCE}\n\n- Use type hints [kpt_001]\n- Write tests [kpt_002]\n{END}"
CRLF_BLOCK = BLOCK.replace("\n", "\r\n")
OLD = f"{BEGIN}\nanything\n{END}"


@pytest.fixture(name="folder")
def _folder(here: Project) -> Path:
    return here.root


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, f"{BLOCK}\n"),
        ("# Rules\n", f"# Rules\n\n{BLOCK}\n"),
        ("\ufeff# Rules\r\nBe kind.\r\n", f"\ufeff# Rules\r\nBe kind.\r\n\r\n{CRLF_BLOCK}\r\n"),
        (f"a\n\n{OLD}\n\nb", f"a\n\n{BLOCK}\n\nb"),
        (f"a\r\n{BEGIN}\r\n{END}\r\nb\n", f"a\r\n{CRLF_BLOCK}\r\nb\n"),
        (f"```\n{BEGIN}\n```\nb\n", f"```\n{BEGIN}\n```\nb\n\n{BLOCK}\n"),
        (f"~~~~ text\n```\n{OLD}\n~~~~\n{OLD}\n", f"~~~~ text\n```\n{OLD}\n~~~~\n{BLOCK}\n"),
        (f"Write `{BEGIN}` first.\n", f"Write `{BEGIN}` first.\n\n{BLOCK}\n"),
    ],
)
def test_a_block_is_written_and_the_rest_stays(folder: Path, run: Run, before: str | None, after: str) -> None:
    """Every byte outside of the markers stays, and the same command again writes nothing."""
    path = folder / "AGENTS.md"
    if before is not None:
        path.write_bytes(before.encode())
    done = run("export", "agents-md")
    assert (0, "AGENTS.md written: 2 entries\n") == (done.code, done.out)
    assert after.encode() == path.read_bytes()
    inode = path.stat().st_ino
    assert (0, "AGENTS.md has them already: 2 entries\n") == run("export", "agents-md")[:2]
    assert inode == path.stat().st_ino


def test_a_block_has_what_a_person_approved(here: Project, folder: Path, run: Run) -> None:
    """An agent's entry is in it once a person pinned, reworded or accepted it; a comment and a past day are not."""
    for text in ("By an agent", "Pinned", "Reworded"):
        assert 0 == run("add", text, "--rater", "agent").code
    run("pin", "kpt_004")
    run("reword", "kpt_005", "By a person, see @src/app.py")
    run("add", "Hidden <!-- here")
    run("add", "Old")
    run("reword", "kpt_007", "--until", "2020-01-01")
    run("add", "x" * MAX_CHARS)
    lesson = PlainEvents((PointProposed("add", "", (), "lesson", "", "Seed the database", ""),))
    [number] = commands.record_request(here, Request(lesson, {"rater": "agent"})).numbers
    assert 0 == run("proposals", "accept", str(number)).code
    document = json.loads(here.playbook.read_bytes())
    document["key_points"].append({"name": "house", "text": "By hand", "helpful": 0, "harmful": 0})
    here.playbook.write_text(json.dumps(document))
    done = run("export", "agents-md", "--json")
    assert {"kpt_006", "kpt_008"} == json.loads(done.out)["left_out"].keys()
    assert "kpt_006 is left out" in done.err
    lines = (folder / "AGENTS.md").read_text().splitlines()[3:-1]
    assert [
        "- By hand [house]",
        "- Use type hints [kpt_001]",
        "- Write tests [kpt_002]",
        "- Pinned [kpt_004]",
        r"- By a person, see \@src/app.py [kpt_005]",
        "- Seed the database [kpt_009]",
    ] == lines
    assert len((folder / "AGENTS.md").read_text()) <= MAX_CHARS
