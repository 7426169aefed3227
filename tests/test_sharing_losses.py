"""What becomes of a shared book that an engine lost, that was forced back or rewritten, and of copies and backups."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from helpers.sharing_projects import make_team

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from helpers.sharing_projects import Team


@pytest.fixture(params=["memory", "git"])
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book, each with an entry."""
    made = make_team(request.param, tmp_path, run, monkeypatch)
    for machine, text in (("anna", "Run the tests first"), ("ben", "Write short commits")):
        made.run(machine, "add", text)
        made.share(machine)
    made.sync("anna")
    assert made.entries("anna") == made.entries("ben")
    return made


def test_a_branch_that_was_forced_back_and_went_on_is_rejoined(team: Team) -> None:
    """Sync stops with what to type; --rejoin takes that history and publishes what it lacks, once, on every machine."""
    short = team.batches()
    team.run("anna", "rate", "kpt_001", "helpful")
    team.run("ben", "rate", "kpt_001", "harmful")
    team.sync("anna", "ben", "anna")
    everything, shown = set(team.ids()), team.entries("anna")
    team.force(short)
    team.run("cleo", "add", "Name things well")
    team.share("cleo")
    refused = team.run("anna", "sync", code=3).err
    assert "tallybook sync --rejoin" in refused
    moment = team.run("anna", "show", "--at", "3", "--json").out
    done = json.loads(team.run("anna", "sync", "--rejoin", "--json").out)
    assert 4 == len(done["landed"]), done
    assert [] == done["left"]
    assert moment == team.run("anna", "show", "--at", "3", "--json").out
    team.run("ben", "sync", code=3)
    again = json.loads(team.run("ben", "sync", "--rejoin", "--json").out)
    assert [] == again["landed"]
    team.sync("cleo", "anna")
    ids = team.ids()
    assert len(ids) == len(set(ids))
    assert everything < set(ids)
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    assert shown.items() <= team.entries("anna").items()
    for machine in ("anna", "ben", "cleo"):
        team.run(machine, "verify")
    assert (team.ledger("anna") / "book" / "1").exists()


def test_own_batches_that_never_left_land_when_rejoining(team: Team) -> None:
    """What was recorded offline before the history changed is in the book once, and counts for its entry."""
    short = team.batches()
    team.run("ben", "rate", "kpt_002", "helpful")
    team.sync("ben", "anna")
    team.run("anna", "rate", "kpt_002", "helpful")
    team.run("anna", "add", "Measure before you optimise")
    team.force(short)
    team.run("cleo", "add", "Name things well")
    team.share("cleo")
    team.run("anna", "sync", code=3)
    team.run("anna", "sync", "--rejoin")
    team.sync("cleo")
    assert team.entries("anna") == team.entries("cleo")
    assert ("Write short commits", 2, 0) == team.entries("anna")["kpt_002"]
    assert 4 == len(team.entries("anna"))
    team.run("anna", "sync")
    assert len(team.ids()) == len(set(team.ids()))


@pytest.mark.parametrize("first", ["anna", "ben"])
@pytest.mark.parametrize("kept", [0, 1, 3])
def test_an_engine_that_was_emptied_or_rolled_back_gets_its_lines_back(team: Team, first: str, kept: int) -> None:
    """Whichever machine comes first gives back the same bytes; a run that was never published goes out as well."""
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    team.run(first, "rate", "kpt_002", "helpful")
    before = team.batches()
    team.force(before[:kept])
    team.run(first, "sync")
    after = team.batches()
    assert [batch.raw for batch in before] == [batch.raw for batch in after[: len(before)]]
    assert len(before) < len(after)
    team.sync("anna", "ben")
    assert team.entries("anna") == team.entries("ben")
    assert [1, 1] == [helpful for _, helpful, _ in team.entries("anna").values()]


def test_another_book_is_refused(team: Team) -> None:
    """Nothing is sent to an address that holds another book; the message says what to type."""
    own = team.batches()
    team.empty()
    team.run("cleo", "add", "Another playbook")
    team.share("cleo")
    other = [batch.raw for batch in team.batches()]
    for words in (("sync",), ("sync", "--rejoin")):
        refused = team.run("anna", *words, code=3).err
        assert "holds another book" in refused
        assert "tallybook share" in refused
    assert other == [batch.raw for batch in team.batches()]
    assert own[0].raw != other[0]
