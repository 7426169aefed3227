"""Redaction in a shared book: every copy of every machine, and what the engine keeps."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import Any

import pytest

from helpers.command_line import Run
from helpers.sharing_projects import Team, make_team
from tallybook.projections.surfaces.sharing import syncing
from tallybook.projections.surfaces.writing import redact

PRIVATE = "Ask Petra Zwiebel about the vault"


@pytest.fixture
def team(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book; each added the same private text before."""
    made = make_team("memory", tmp_path, run, monkeypatch)
    for machine in ("anna", "ben"):
        made.run(machine, "add", f"A rule of {machine}")
        made.run(machine, "add", PRIVATE)
        made.share(machine)
    made.run("ben", "rate", "kpt_002", "helpful")
    made.sync("ben", "anna")
    return made


def holding(team: Team, machine: str, part: bytes = b"Zwiebel") -> list[str]:
    """Return the files of a machine, caches included, that hold the private text."""
    places = (team.root(machine), team.home(machine))
    files = (path for place in places for path in place.rglob("*") if path.is_file())
    return [str(path.relative_to(team.folder)) for path in files if part in path.read_bytes()]


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
        verified = team.run(machine, "verify")
        assert "still in the log" not in verified.out + verified.err
        team.run(machine, "rate", "kpt_001", "helpful")
    team.sync("anna", "ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    assert "[redacted]" in [text for text, _, _ in team.entries("anna").values()]
    assert [] == holding(team, "ben") + holding(team, "anna")


def test_an_imported_edit_changes_the_entry_whose_equal_text_its_machine_had_redacted(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ratings and the edit come to the entry that has the text here, although it is not redacted here yet."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    for machine in ("anna", "ben"):
        team.run(machine, "add", PRIVATE)
    team.share("anna")
    team.run("ben", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    for _ in range(2):
        team.run("ben", "rate", "kpt_001", "harmful")
    team.share("ben", "--read-only")
    playbook = team.root("ben") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace('"harmful": 2', '"harmful": 1'), encoding="utf-8")
    team.run("ben", "replay")
    team.run("anna", "import", "--ledger", str(team.root("ben")))
    assert {"kpt_001": ("[redacted]", 0, 1)} == team.entries("anna")


def test_an_edit_whose_text_was_redacted_before_a_sync_gives_its_entry_no_text(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry keeps its text, and nobody's equal text is joined to it, also after that text was redacted as well."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    team.run("anna", "add", "A rule of anna")
    for machine in ("anna", "ben", "cleo"):
        team.share(machine)
    team.sync("anna", "ben", "cleo")
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace("A rule of anna", PRIVATE), encoding="utf-8")
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    team.sync("anna", "ben", "cleo")
    assert ["A rule of anna"] == [text for text, _, _ in team.entries("ben").values()]
    team.run("anna", "redact", "--text", "A rule of anna", "--yes", "--expect", "1", "--reason", "a name")
    for machine in ("ben", "cleo"):
        team.run(machine, "add", PRIVATE)
        team.run(machine, "rate", [*team.entries(machine)][-1], "helpful")
        team.sync(machine, "anna")
    team.sync("ben", "cleo", "anna", "ben")
    assert [] == holding(team, "anna") + holding(team, "ben") + holding(team, "cleo")
    assert [("[redacted]", 0, 0), ("[redacted]", 2, 0)] == [*team.entries("anna").values()]
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")


def test_a_past_moment_keeps_an_edit_whose_text_was_redacted_later(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry had the new text then, so another one that got its former text was not joined to it."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    team.run("anna", "add", "A rule of anna")
    team.share("anna")
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_text(playbook.read_text(encoding="utf-8").replace("A rule of anna", PRIVATE), encoding="utf-8")
    team.run("anna", "add", "A rule of anna")
    team.run("anna", "retire", [*team.entries("anna")][-1])
    then = len((team.ledger("anna") / "events.jsonl").read_bytes().splitlines())
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "1", "--reason", "a name")
    assert {"kpt_001": ("[redacted]", 0, 0)} == team.entries("anna", str(then))


def test_a_redaction_killed_before_its_emptied_list_was_removed_leaves_the_copy_readable(team: Team) -> None:
    """The next command removes the emptied list, and no command after it is refused."""
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    emptied = team.ledger("anna") / ".erased"
    emptied.write_bytes(b"  ")
    for words in (("add", "One more rule"), ("show",), ("verify",), ("sync",)):
        assert 0 == team.run("anna", *words).code
    assert not emptied.exists()


def test_a_redaction_that_came_in_is_not_published_again(team: Team) -> None:
    """The others erase the text, publish nothing for it, and their doctor finds nothing to mend."""
    team.run("anna", "add", "Call Petra Zwiebel's deputy")
    team.sync("anna", "ben")
    team.run("anna", "redact", "--text", "deputy", "--yes", "--expect", "1", "--reason", "a name")
    team.sync("anna")
    before = len(team.batches())
    team.sync("ben", "anna", "ben")
    assert before == len(team.batches())
    assert [] == holding(team, "ben", b"deputy")
    for machine in ("anna", "ben"):
        assert "redaction" not in team.run(machine, "doctor").out


def test_what_the_engine_keeps_is_removed_by_the_command_that_is_named(team: Team) -> None:
    """The answer names the command; after it no reader of the engine finds the text, and the machines go on."""
    out = team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name").out
    assert "share repair" in out
    team.sync("anna", "ben", "anna")
    assert any(b"Zwiebel" in batch.raw for batch in team.batches())
    team.run("anna", "share", "verify", code=1)
    team.run("anna", "share", "repair", "--yes")
    assert not any(b"Zwiebel" in batch.raw for batch in team.batches())
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    team.share("cleo")
    assert team.entries("anna") == team.entries("cleo")
    assert [] == holding(team, "cleo")
    refused = team.run("ben", "add", PRIVATE, code=1).err
    assert "redacted" in refused


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
    """Ledger, copy, spool, and copies that were set aside lose the text, whatever comes next."""
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
    take_in(team, "ben", monkeypatch)
    assert {"events.jsonl"} <= {Path(place).name for place in holding(team, "ben")}
    (team.ledger("ben") / "spool").mkdir()
    (team.ledger("ben") / "spool" / "2026-11-01T000000.000000Z-a.json").write_text(json.dumps(waiting))
    team.sync("ben")
    assert [] == holding(team, "ben")
    for _ in range(2):
        team.sync("anna", "ben")
    assert team.entries("anna") == team.entries("ben")
    team.run("ben", "verify")


def test_an_imported_redaction_erases_what_a_killed_first_sync_took_in(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its ledger says that it is in a book, a machine has a copy of the book all the same."""
    with monkeypatch.context() as patch:
        patch.setattr(syncing.Sync, "_append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            team.share("cleo")
    assert holding(team, "cleo")
    team.run("ben", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    team.run("cleo", "import", "--ledger", str(team.root("ben")))
    team.share("cleo")
    assert [] == holding(team, "cleo")
    team.sync("ben", "cleo", "anna")
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    assert [] == holding(team, "anna") + holding(team, "ben") + holding(team, "cleo")


def test_a_lost_copy_brings_no_redacted_text_back(team: Team) -> None:
    """The engine holds the text still: a copy that is fetched again is erased again, at its first sync."""
    team.run("anna", "redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    team.sync("anna", "ben")
    for machine in ("anna", "ben"):
        shutil.rmtree(team.ledger(machine) / "book" / "1")
        team.sync(machine)
        assert [] == holding(team, machine)
    assert any(b"Zwiebel" in batch.raw for batch in team.batches())


def test_a_link_in_place_of_a_copy_is_not_followed(team: Team, tmp_path: Path) -> None:
    """A project can bring one along: what it leads to stays as it is, and each command says which one it is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "events.jsonl").write_bytes(b"no line of a ledger")
    link = team.ledger("anna") / "book" / "2.aside-1"
    link.symlink_to(elsewhere)
    assert "2.aside-1: is a symbolic link" in team.run("anna", "sync", code=4).err
    words = ("redact", "--text", PRIVATE, "--yes", "--expect", "2", "--reason", "a name")
    answer = team.run("anna", *words, code=4)
    assert "2.aside-1: is a symbolic link" in answer.out + answer.err
    link.unlink()
    (team.ledger("anna") / "book" / "3.aside-1").mkdir()
    (team.ledger("anna") / "book" / "3.aside-1" / "events.jsonl").hardlink_to(elsewhere / "events.jsonl")
    assert "is a hard link to a file that is not the ledger's" in team.run("anna", "sync", code=4).err
    assert b"no line of a ledger" == (elsewhere / "events.jsonl").read_bytes()
