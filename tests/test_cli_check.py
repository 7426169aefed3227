"""The verb `check`: what `verify`, `replay --check` and `score gate` find, in one answer and one exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.score_examples import events, noon, plain, record_events
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.check import page
from tallybook.projections.surfaces.doctor.finding import Finding
from tallybook.projections.surfaces.scores.pages import markdown
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

DAY = noon("2026-01-01")
TRACK = "run `git add -f .claude/ledger/events.jsonl .claude/ledger/head` where the ledger is, and commit"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project whose ledger holds one entry."""
    here = Project(project)
    commands.add(here, "Use type hints", HUMAN)
    return here


def found(run: Run, *options: str) -> tuple[int, dict[str, str]]:
    """Return the exit code of `check`, and the worst level of each check that is not fine."""
    done = run("check", "--json", *options)
    answer: dict[str, Any] = json.loads(done.out)
    rows = sorted(answer["findings"], key=lambda row: row["level"], reverse=True)
    assert answer["ok"] is (done.code == 0)
    return done.code, {row["check"]: row["level"] for row in rows if row["level"] != "ok"}


def test_a_ledger_without_measurements_passes_and_the_gate_says_nothing(here: Project, run: Run) -> None:
    """The ledger verifies, the files are its replay, and a note says that there is no score."""
    done = run("check")
    gate, passed = done.out.splitlines()
    assert (0, "") == (done.code, done.err)
    assert "5 checks passed" == passed
    head = f"3 events verified; head 3:{commands.verify(here).head.chain}"
    assert head in [row["message"] for row in json.loads(run("check", "--json").out)["findings"]]
    assert "note  gate: nothing was measured, so there is no score to judge" == gate


def test_without_a_ledger_it_fails_and_says_how_to_track_it(project: Path, run: Run) -> None:
    """A project with a playbook alone exits with 1 and one line; nothing is created."""
    (project / ".claude" / "playbook.json").write_text('{"key_points": []}', encoding="utf-8")
    done = run("check")
    assert (1, "") == (done.code, done.err)
    assert f"bad   ledger: no ledger in this checkout: track it; {TRACK}\n" == done.out
    assert ["playbook.json"] == [path.name for path in (project / ".claude").iterdir()]


def test_if_present_passes_without_a_ledger(project: Path, run: Run) -> None:
    """With `--if-present` a note says that there is no ledger, the exit code is 0, and nothing is created."""
    (project / ".claude" / "playbook.json").write_text('{"key_points": []}', encoding="utf-8")
    done = run("check", "--if-present")
    assert (0, "note  ledger: no ledger here, so nothing is checked\n", "") == (done.code, done.out, done.err)
    assert ["playbook.json"] == [path.name for path in (project / ".claude").iterdir()]


def test_a_damaged_ledger_exits_with_3(here: Project, run: Run) -> None:
    """The damage is named; what depends on the ledger is not checked."""
    path = here.ledger / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"type", b"Type", 1))
    assert (3, {"ledger": "bad", "playbook.json": "note", "gate": "note"}) == found(run)


@pytest.mark.parametrize("change", ["edited", "older", "missing", "unreadable"])
def test_a_playbook_that_differs_exits_with_1(here: Project, run: Run, change: str) -> None:
    """An edit that is not recorded, an older file, none, and one that is no playbook; the file is left as it is."""
    before = here.playbook.read_bytes()
    if change == "older":
        commands.add(here, "Write tests", HUMAN)
    contents = {"edited": before.replace(b"type hints", b"types"), "older": before, "unreadable": b"{"}
    if change in contents:
        here.playbook.write_bytes(contents[change])
    else:
        here.playbook.unlink()
    assert (1, {"playbook.json": "bad", "gate": "note"}) == found(run)
    assert contents.get(change) == (here.playbook.read_bytes() if here.playbook.exists() else None)
    assert "; run `tallybook replay`, which keeps manual edits; then commit the file\n" in run("check").out


def test_options_reach_the_gate(here: Project, run: Run) -> None:
    """80 points open it, `--min 85` closes it, and so does a component without data, unless that is allowed."""
    record_events(here.root, "s1", events(plain(80, "ac09")), DAY)
    run("replay")
    assert "ok    gate: open; " in run("check").out
    done = run("check", "--min", "85")
    assert 1 == done.code
    assert "bad   gate: ac09 is 80, below 85, the minimum that was asked for (2026-01-01)\n" in done.out
    assert (1, {"gate": "bad"}) == found(run, "--component", "ac06")
    assert (0, {"gate": "note"}) == found(run, "--component", "ac06", "--allow-no-data")


@pytest.mark.parametrize("options", [("--component", "ac99"), ("--min", "101"), ("--no-drop", "nan")])
def test_wrong_options_are_refused_before_anything_is_checked(
    here: Project, run: Run, options: tuple[str, ...]
) -> None:
    """One line says what is wrong, with exit code 2."""
    assert here.ledger.exists()
    done = run("check", *options)
    assert (2, "", 1) == (done.code, done.out, len(done.err.splitlines()))
    assert options[0] in done.err


def test_markdown_takes_no_markup_from_texts() -> None:
    """A ledger from a pull request adds no row, link, picture or heading to the summary of a job."""
    finding = Finding("bad", "a|b <img src=x> [x](y) `c`\n# d", check="gate")
    *_, row = markdown(page([finding], "failed")).splitlines()
    assert r"| gate | bad | a\|b \<img src=x\> \[x\](y) \`c\`\\n\# d |  |" == row
