"""A team moves its book to another engine: by one command of one person, and a yes of each of the others."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import Any

import click
import pytest

from helpers.command_line import Run
from helpers.engines import git_engine
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.sharing.engine import Engine, Place
from tallybook.projections.surfaces.sharing import cli, syncing

pytest.importorskip("obstore")


@pytest.fixture
def team(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return three machines that share a book through git."""
    made = make_team("git", tmp_path, run, monkeypatch)
    for machine in ("anna", "ben", "cleo"):
        made.run(machine, "add", f"Advice of {machine}")
        made.share(machine)
    made.sync("anna", "ben")
    (tmp_path / "store").mkdir()
    return made


def address_of(team: Team) -> str:
    """Return the address of the object store that the team moves to."""
    return f"file://{team.folder}/store"


def move(team: Team, machine: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Move the book, or follow it, and return the answer."""
    done = team.run(machine, "share", "objects", address_of(team), "--yes", "--json", *words, code=code)
    answer: dict[str, Any] = json.loads(done.out) if done.out else {}
    return answer


def test_a_team_moves_from_git_to_an_object_store(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine moves, one was away, one wrote meanwhile: each says yes once, and every rating counts once."""
    before = team.entries("anna")
    team.run("ben", "rate", "kpt_001", "helpful")
    dry = team.run("anna", "share", "objects", address_of(team), "--dry-run", "--json")
    assert (team.address, "") == (json.loads(dry.out)["former"], json.loads(dry.out)["book"])
    assert before == team.entries("anna")
    done = move(team, "anna")
    assert (None, "", 0) == (done["moved"], done["unsealed"], done["restored"])
    team.run("anna", "rate", "kpt_001", "helpful")
    team.sync("anna")
    # Ben is told, and nothing of his leaves before he says yes.
    told = json.loads(team.run("ben", "sync", "--json", code=1).out)
    assert {"engine": "objects", "address": address_of(team), "name": "main"} == told["moved"]
    assert (1, 0) == (told["pending"], told["published"])
    command = f"tallybook share objects {address_of(team)} --book main"
    for words, code in ((("sync",), 1), (("share", "status"), 0), (("doctor",), None)):
        answer = team.run("ben", *words, code=code)
        assert command in answer.out + answer.err
    assert address_of(team) == json.loads(team.run("ben", "share", "status", "--json").out)["moved"]["address"]
    monkeypatch.setattr(cli, "can_ask", lambda: True)
    asked: list[str] = []

    def say_yes(text: str, **_: bool) -> bool:
        asked.append(text)
        return True

    monkeypatch.setattr(click, "confirm", say_yes)
    for machine in ("ben", "cleo"):
        team.run(machine, "sync")
        team.run(machine, "sync")
    assert ["Go on there?"] * 2 == asked
    team.sync("anna")
    assert {"Advice of anna": 2, "Advice of ben": 0, "Advice of cleo": 0} == {
        text: helpful for text, helpful, _ in team.entries("anna").values()
    }
    for machine in ("ben", "cleo"):
        assert team.entries("anna") == team.entries(machine)
        team.run(machine, "share", "verify")


def test_who_appends_while_the_book_moves_loses_nothing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that comes in between the copy and the seal takes the seal's number, and is copied before the next one."""
    carry, turns = syncing.carry, [0]

    def carry_and_be_late(*words: Any) -> int:
        copied = carry(*words)
        turns[0] += 1
        if turns[0] == 1:
            team.run("ben", "rate", "kpt_001", "helpful")
            team.sync("ben")
            team.run("anna", "show")
        return copied

    monkeypatch.setattr(syncing, "carry", carry_and_be_late)
    move(team, "anna")
    assert 2 == turns[0]
    assert ("Advice of anna", 1, 0) == team.entries("anna")["kpt_001"]
    move(team, "ben")
    assert team.entries("anna") == team.entries("ben")


def test_a_move_that_dies_goes_on(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the seal nothing has changed for anyone; killed after it the machine follows like the others."""
    seal = Engine.seal
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "seal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move(team, "anna")
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    assert ("Advice of anna", 1, 0) == team.entries("anna")["kpt_001"]
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "seal", lambda *words: 1 / (seal(*words) is None))
        with pytest.raises(ZeroDivisionError):
            move(team, "anna")
    assert json.loads(team.run("anna", "sync", "--json", code=1).out)["moved"]
    for machine in ("anna", "ben"):
        move(team, machine)
    assert team.entries("anna") == team.entries("ben")


def test_a_book_moves_back_and_a_false_seal_is_lifted(team: Team) -> None:
    """Fresh runs after a seal bring the book back; `share repair` lifts a seal that somebody forged."""
    move(team, "anna")
    team.run("anna", "rate", "kpt_001", "helpful")
    team.share("anna")
    assert json.loads(team.run("ben", "sync", "--json").out)["moved"] is None
    assert team.entries("anna") == team.entries("ben")
    with team.open_engine() as engine:
        engine.seal(engine.read(0).end, Place("git", "https://example.com/evil", "main"))
    team.run("ben", "rate", "kpt_001", "helpful")
    assert 1 == json.loads(team.run("ben", "sync", "--json", code=1).out)["pending"]
    assert "moved to" in team.run("ben", "share", "objects", address_of(team), "--yes", code=2).err
    team.run("ben", "share", "repair", "--yes")
    team.sync("ben", "anna")
    assert ("Advice of anna", 2, 0) == team.entries("anna")["kpt_001"]


def test_a_project_that_shares_again_elsewhere_moves_the_book(team: Team) -> None:
    """Who turned sharing off and types another address moves the book; no engine is said to have lost it."""
    team.run("anna", "share", "off")
    assert 0 == move(team, "anna")["restored"]
    assert json.loads(team.run("ben", "sync", "--json", code=1).out)["moved"]["address"] == address_of(team)


def test_a_team_leaves_a_host_that_is_gone(team: Team) -> None:
    """Nobody can be told, so the answer says what to type on the other machines."""
    shutil.rmtree(team.address)
    assert "cannot be reached" in move(team, "anna")["unsealed"]
    assert "" == move(team, "ben")["unsealed"]
    assert team.entries("anna") == team.entries("ben")


def test_a_book_is_not_moved_onto_another_one(team: Team, tmp_path: Path) -> None:
    """A place that has another book is refused before anything is sealed."""
    team.run("dora", "add", "Another team's advice")
    team.run("dora", "share", "objects", address_of(team), "--book", "main", "--yes")
    move(team, "anna", code=3)
    engine = git_engine(team.address, "main", str(tmp_path / "reader"))
    assert engine.read(0).moved is None
