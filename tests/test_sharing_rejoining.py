"""What lands again in another history of a book, in cases that random histories found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from helpers.memory_store import MemoryStore
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.codec import encode
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.events import PointAdded
from tallybook.ledger.line import START, Stamp, frame
from tallybook.ledger.sharing.book import count, cut_runs
from tallybook.ledger.sharing.engines.engine import NOTHING, Engine
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.sharing.syncing import Machine, Sync, rejoin, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing.requests import Request

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run
    from tallybook.ledger.line import RawBatch

HUMAN = {"rater": "human"}


@pytest.fixture
def team(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return machines of a book in memory."""
    return make_team("memory", tmp_path, run, monkeypatch)


def stranger_batch(after: RawBatch, text: str = "Be brief") -> RawBatch:
    """Return a batch of somebody else, as it follows another one."""
    by = {"rater": "human", "writer": "stranger"}
    stamp = Stamp(after.position, after.position.at, by, lambda: "stranger-1", lambda: "salt")
    return frame([encode(PointAdded("kpt_300", text))], stamp)


def test_a_joined_text_stands_by_itself_where_the_other_was_reworded(team: Team, tmp_path: Path) -> None:
    """A text was joined in the old history; in the new one that entry has another text, so it rates nothing there."""
    team.run("anna", "add", "Use git")
    team.share("anna")
    team.share("ben")
    short = team.batches()
    team.run("anna", "add", "Be kind")
    team.sync("anna", "ben")
    (tmp_path / "other").mkdir()
    team.run_command("--project", str(tmp_path / "other"), "add", "Use git")
    team.run_command("--project", str(tmp_path / "other"), "rate", "kpt_001", "helpful")
    team.run("ben", "import", "--ledger", str(tmp_path / "other"))
    assert ("Use git", 1, 0) == team.entries("ben")["kpt_001"]
    team.force(short)
    team.share("cleo")
    team.run("cleo", "reword", "kpt_001", "Use git and tags")
    team.sync("cleo")
    team.run("ben", "sync", code=3)
    for machine in ("ben", "anna"):
        team.run(machine, "sync", "--rejoin")
    team.sync("ben")
    shown = sorted(team.entries("ben").values())
    assert [("Be kind", 0, 0), ("Use git", 1, 0), ("Use git and tags", 0, 0)] == shown
    team.sync("cleo")
    assert team.entries("ben") == team.entries("cleo")


def test_a_joined_text_stays_with_the_entry_that_it_was_joined_to(team: Team) -> None:
    """Another entry of the same text comes first in the new history; each rating counts for one of the two, once."""
    team.share("anna")
    team.share("ben")
    short = team.batches()
    team.run("anna", "add", "Use tags")
    team.run("anna", "reword", "kpt_001", "Use git")
    team.run("ben", "add", "Use git")
    (name,) = team.entries("ben")
    team.run("ben", "rate", name, "helpful")
    team.sync("anna", "ben", "anna")
    team.run("anna", "rate", "kpt_001", "harmful")
    team.sync("anna")
    before = team.entries("anna")
    assert {"kpt_001": ("Use git", 1, 1)} == before
    team.force([*short, stranger_batch(short[-1], "Use git")])
    team.run("anna", "sync", code=3)
    for machine in ("anna", "ben"):
        team.run(machine, "sync", "--rejoin")
    team.sync("anna")
    assert {"kpt_001": ("Use git", 0, 1), "kpt_300": ("Use git", 1, 0)} == team.entries("anna")


def test_a_pending_change_of_an_entry_that_the_new_history_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still means the own entry, although it was recorded before the machine knew that the book had that."""
    (tmp_path / "ben" / ".claude").mkdir(parents=True)
    ben, store = Project(tmp_path / "ben"), MemoryStore()
    engine = Engine(store)
    machine = Machine(str(ben.ledger), "ben", "", "demo")
    commands.add(ben, "Use git", HUMAN)
    sync(machine, engine)
    commands.add(ben, "Be kind", HUMAN)
    (name,) = (point["name"] for point in commands.show(ben)["key_points"] if point["text"] == "Be kind")

    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sync, "_note_frontier", kill)
        with pytest.raises(KeyboardInterrupt):
            sync(machine, engine)
    commands.record_request(ben, Request(Curation("retire", name), HUMAN))
    # The time ends after what the book has already.
    engine.run_bytes = 1
    assert 1 == sync(attrs.evolve(machine, limit_s=0.0), engine).pending
    kept = [batch for batch in count(engine.read(0).runs, START, set()).batches if b"Be kind" not in batch.raw]
    store.runs.clear()
    assert engine.append(NOTHING, cut_runs([*kept, stranger_batch(kept[-1])], START, 1)) is not None
    rejoin(machine, engine)
    assert ["Use git", "Be brief"] == [point["text"] for point in commands.show(ben)["key_points"]]


def test_an_erased_text_whose_redaction_the_new_history_lost(team: Team) -> None:
    """The machine that redacted it knows that, takes the history, and lands the redaction again."""
    team.run("anna", "add", "Ask Petra Zwiebel")
    team.share("anna")
    team.share("ben")
    number = len(team.batches())
    team.run("anna", "redact", "--text", "Ask Petra Zwiebel", "--reason", "a name", "--yes", "--expect", "1")
    team.sync("anna", "ben")
    team.empty()
    team.sync("anna")
    kept = team.batches()[:number]
    team.force([*kept, stranger_batch(kept[-1])])
    for machine in ("anna", "ben"):
        team.run(machine, "sync", code=3)
        team.run(machine, "sync", "--rejoin")
        assert {"kpt_001": ("[redacted]", 0, 0), "kpt_300": ("Be brief", 0, 0)} == team.entries(machine)
        team.run(machine, "verify")
    team.share("cleo")
    assert team.entries("anna") == team.entries("cleo")
