"""Redaction in a shared book: every copy of every machine, and what the engine keeps."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from helpers.sharing_projects import make_team
from tallybook.ledger.encoding.codec import decode
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from helpers.command_line import Run
    from helpers.sharing_projects import Team

PRIVATE = "Ask Petra Zwiebel about the vault"


@pytest.fixture(params=["memory", "git"])
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book; each added the same private text before."""
    made = make_team(request.param, tmp_path, run, monkeypatch)
    for machine in ("anna", "ben"):
        made.run(machine, "add", f"A rule of {machine}")
        made.run(machine, "add", PRIVATE)
        made.share(machine)
    made.run("ben", "rate", "kpt_002", "helpful")
    made.sync("ben", "anna")
    return made


def holding(team: Team, machine: str) -> list[str]:
    """Return the files of a machine, caches included, that hold the private text."""
    places = (team.root(machine), team.home(machine))
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return [str(path.relative_to(team.folder)) for path in files if b"Zwiebel" in path.read_bytes()]


@pytest.mark.parametrize("words", [("--text", PRIVATE, "--yes", "--expect", "2"), ("event",)], ids=["text", "event"])
def test_a_redaction_reaches_every_machine(team: Team, words: tuple[str, ...]) -> None:
    """It erases ledger, copies and caches here, then on the others, their own equal texts too; the proof stays."""
    assert holding(team, "anna")
    assert holding(team, "ben")
    if words == ("event",):
        lines = (team.ledger("anna") / "events.jsonl").read_text(encoding="utf-8").splitlines()
        words = (next(json.loads(line)["id"] for line in lines if PRIVATE in line),)
    team.run("anna", "redact", *words, "--reason", "a name")
    assert [] == holding(team, "anna")
    for _ in range(2):
        team.sync("anna", "ben")
    assert [] == holding(team, "ben")
    for machine in ("anna", "ben"):
        team.run(machine, "verify")
        team.run(machine, "rate", "kpt_001", "helpful")
    team.sync("anna", "ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    assert "[redacted]" in [text for text, _, _ in team.entries("anna").values()]
    assert [] == holding(team, "ben") + holding(team, "anna")


def test_what_the_engine_keeps_is_removed_by_the_command_that_is_named(team: Team) -> None:
    """The answer names the command; after it no reader of the engine finds the text, and the machines go on."""
    out = team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name").out
    assert "share repair" in out
    team.sync("anna", "ben", "anna")
    assert any(b"Zwiebel" in batch.raw for batch in team.batches())
    team.run("anna", "share", "verify", code=1)
    team.run("anna", "share", "repair")
    assert not any(b"Zwiebel" in batch.raw for batch in team.batches())
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    team.share("cleo")
    assert team.entries("anna") == team.entries("cleo")
    assert [] == holding(team, "cleo")
    refused = team.run("ben", "add", PRIVATE, code=1).err
    assert "redacted" in refused


@pytest.mark.parametrize("undone", [False, True])
def test_a_pending_text_that_was_redacted_elsewhere_is_joined(team: Team, *, undone: bool) -> None:
    """An own text that equals one redacted elsewhere is linked to it before it is erased; others stay apart."""
    other = "Petra Zwiebel has the keys"
    team.run("ben", "add", other)
    team.run("ben", "add", "Petra Zwiebel knows it")
    name = next(name for name, (text, _, _) in team.entries("ben").items() if text == other)
    team.run("ben", "rate", name, "helpful")
    for text in (other, "Petra Zwiebel is away"):
        team.run("anna", "add", text)
    if undone:
        team.run("ben", "undo")
        team.run("ben", "rate", name, "harmful")
    team.sync("anna")
    team.run("ben", "redact", "--text", "Petra Zwiebel knows", "--yes", "--expect", "1", "--reason", "a name")
    team.run("anna", "redact", "--text", "Petra Zwiebel", "--yes", "--expect", "4", "--reason", "a name")
    team.sync("anna", "ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    rating = [0, 1] if undone else [1, 0]
    redacted = [counts for text, *counts in team.entries("anna").values() if text == "[redacted]"]
    # The text that both had before, the one that both had just now, and one that each machine alone had.
    assert sorted([[1, 0], rating, [0, 0], [0, 0]]) == sorted(redacted)
    kinds = [type(record.event).__name__ for batch in decode(team.batches()) for record in batch.records]
    assert 1 == kinds.count("RedactionLinked")
    assert 2 == kinds.count("PointMatched")
    before = team.entries("ben")
    team.sync("ben", "anna")
    assert before == team.entries("ben")
    for machine in ("anna", "ben"):
        team.run(machine, "verify")
    assert [] == holding(team, "ben")


def take_in(team: Team, machine: str, patch: pytest.MonkeyPatch) -> None:
    """Sync a machine, and end it as a kill does between taking a redaction in and erasing its text."""

    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with patch.context() as context:
        context.setattr(redact, "redact_linked", kill)
        team.run(machine, "sync", code=130)


def test_a_redaction_that_a_killed_sync_took_in_is_erased_by_the_next(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ledger, copy, spool, copies that were set aside and git's cache lose the text, whatever comes next."""
    aside = team.ledger("ben") / "book" / "1.aside-1"
    shutil.copytree(team.ledger("ben") / "book" / "1", aside)
    damaged = team.ledger("ben") / "book" / "1.aside-2"
    shutil.copytree(aside, damaged)
    log = damaged / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"rule of", b"RULE OF"))
    request = {"by": {"rater": "human"}, "update": {"new_key_points": [PRIVATE]}}
    waiting = {"id": "a", "at": "2026-11-01T00:00:00.000000Z", "requests": [request]}
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    team.sync("anna")
    caches = [path for path in team.home("ben").rglob("repository.git") if path.is_dir()]
    before = [path.stat().st_ino for path in caches]
    take_in(team, "ben", monkeypatch)
    assert {"events.jsonl"} <= {Path(place).name for place in holding(team, "ben")}
    (team.ledger("ben") / "spool").mkdir()
    (team.ledger("ben") / "spool" / "2026-11-01T000000.000000Z-a.json").write_text(json.dumps(waiting))
    team.sync("ben")
    assert [] == holding(team, "ben")
    assert [] == [path for path, inode in zip(caches, before, strict=True) if path.stat().st_ino == inode]
    assert team.engine == "memory" or caches
    for _ in range(2):
        team.sync("anna", "ben")
    assert team.entries("anna") == team.entries("ben")
    team.run("ben", "verify")


def test_a_lost_copy_brings_no_redacted_text_back(team: Team) -> None:
    """The engine holds the text still: a copy that is fetched again is erased again, at its first sync."""
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    team.sync("anna", "ben")
    for machine in ("anna", "ben"):
        shutil.rmtree(team.ledger(machine) / "book" / "1")
        team.sync(machine)
        assert [] == holding(team, machine)
    assert any(b"Zwiebel" in batch.raw for batch in team.batches())


def test_another_history_brings_no_redacted_text_back(team: Team) -> None:
    """A machine that rejoins a history in which others redacted a text erases its own."""
    short = team.batches()
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben")
    team.force(short)
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    team.sync("anna")
    team.run("ben", "sync", code=3)
    team.run("ben", "sync", "--rejoin")
    assert [] == holding(team, "ben")
    team.sync("anna", "ben")
    assert team.entries("anna") == team.entries("ben")
