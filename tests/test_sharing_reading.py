"""Who only reads a book writes nothing to it, and a sync that was killed keeps what it had fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import Run
from helpers.documentation import FILES, section
from helpers.memory_store import MemoryStore
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.sharing.replica import Replica


@pytest.fixture
def team(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return a team whose first machine has shared an entry."""
    made = make_team("memory", tmp_path, run, monkeypatch)
    made.run("anna", "add", "Run the tests first")
    made.share("anna")
    return made


def test_joining_and_reading_append_nothing_to_the_book(team: Team) -> None:
    """A machine gets its block of names with its first own batch, and has given the first name of it before."""
    before = dict(team.memory.runs)
    team.share("ben")
    team.sync("ben", "ben")
    assert before == team.memory.runs
    team.run("ben", "add", "Write short commits")
    assert "kpt_101" in team.entries("ben")
    team.sync("ben")
    team.run("ben", "add", "Use type hints")
    team.sync("ben", "anna")
    assert {"kpt_001", "kpt_101", "kpt_102"} == {*team.entries("anna")}
    assert team.entries("anna") == team.entries("ben")


def test_names_of_two_newcomers_part_when_they_land(team: Team) -> None:
    """Both expect the same block; the later one's entry is renamed, and its next names are of its own block."""
    for machine in ("ben", "cleo"):
        team.share(machine)
        team.run(machine, "add", f"Advice of {machine}")
        assert "kpt_101" in team.entries(machine)
    team.sync("ben")
    done = team.run("cleo", "sync").out
    # The other's entry under that name is new, and nothing was reworded.
    assert "~ kpt_101 is kpt_102 in the book" in done
    assert "Advice of ben" in done
    assert "now: " not in done
    team.sync("ben")
    team.run("cleo", "add", "Use type hints")
    assert {"Advice of ben", "Advice of cleo"} <= {text for text, _, _ in team.entries("ben").values()}
    assert "kpt_201" in team.entries("cleo")


def test_a_reader_never_publishes(team: Team) -> None:
    """With --read-only the book comes in, own events stay, and what would write is refused."""
    before = dict(team.memory.runs)
    team.run("ben", "add", "Own advice")
    assert json.loads(team.share("ben", "--read-only", "--dry-run", "--json").out)["book"]
    team.share("ben", "--read-only")
    assert "publishes nothing" in team.run("ben", "sync").out
    assert {"Run the tests first", "Own advice"} == {text for text, _, _ in team.entries("ben").values()}
    assert "--read-only" in json.loads(team.run("ben", "share", "status", "--json").out)["read_only"]
    for action in ("repair", "upgrade"):
        team.run("ben", "share", action, "--yes")
    assert before == team.memory.runs
    # An engine that lost its end is not given back by a reader.
    team.empty()
    team.sync("ben")
    assert {} == team.memory.runs
    team.sync("anna")
    # Without the option the machine publishes from then on.
    team.share("ben")
    team.sync("anna")
    assert "Own advice" in {text for text, _, _ in team.entries("anna").values()}


def test_a_job_reads_a_book_that_it_may_not_write_to(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the recipe for CI joins through a remote that refuses every push, and a later sync goes on."""
    team = make_team("git", tmp_path, run, monkeypatch)
    team.run("anna", "add", "Run the tests first")
    team.share("anna")
    hook = Path(team.address) / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    command = "tallybook share git --read-only --yes"
    assert f"`{command}`" in section(FILES, "CI and git hooks")
    words = command.split()[1:]
    team.run("job", *words[:2], team.address, "--book", "main", *words[2:])
    assert ["Run the tests first"] == [text for text, _, _ in team.entries("job").values()]
    hook.unlink()
    team.run("anna", "rate", "kpt_001", "helpful")
    team.sync("anna", "job")
    assert ("Run the tests first", 1, 0) == team.entries("job")["kpt_001"]


def test_a_reader_makes_no_book(team: Team) -> None:
    """There is nothing to read under a name that no book has."""
    team.book = "other"
    team.memory = MemoryStore()
    assert "holds no book" in team.share("ben", "--read-only", code=2).err


@pytest.mark.parametrize("step", ["pull", "push"])
def test_a_killed_sync_keeps_its_copy(team: Team, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its copy grew and before anything says so, the next sync goes on with that copy."""
    team.share("ben")
    if step == "pull":
        team.run("anna", "rate", "kpt_001", "helpful")
        team.sync("anna")
    else:
        team.run("ben", "rate", "kpt_001", "helpful")

    append = Replica.append

    def append_and_die(*words: Any) -> None:
        append(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "append", append_and_die)
        team.run("ben", "sync", code=130)
    done = json.loads(team.run("ben", "sync", "--json").out)
    assert "" == done["set_aside"]
    team.sync("anna")
    assert ("Run the tests first", 1, 0) == team.entries("ben")["kpt_001"] == team.entries("anna")["kpt_001"]
