"""Redaction in a shared book: every copy of every machine, and what the engine keeps."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from helpers.sharing_projects import make_team
from tallybook.ledger.codec import decode
from tallybook.projections.surfaces.sharing import syncing
from tallybook.projections.surfaces.writing import redact

if TYPE_CHECKING:
    from helpers.command_line import Run
    from helpers.sharing_projects import Team

PRIVATE = "Ask Petra Zwiebel about the vault"


@pytest.fixture
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book, in memory or as a test says; each added the same private text before."""
    made = make_team(getattr(request, "param", "memory"), tmp_path, run, monkeypatch)
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


@pytest.mark.parametrize("team", ["memory", "git"], indirect=True)
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


@pytest.mark.parametrize("team", ["memory", "git"], indirect=True)
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
    # One by the machine that redacted the text that both had before, one by the machine that had a pending one.
    assert 2 == kinds.count("RedactionLinked")
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


def redact_text(team: Team, machine: str, text: str) -> None:
    """Redact a text wherever a machine has it."""
    words = ("redact", "--text", text, "--reason", "a name")
    number = len(json.loads(team.run(machine, *words, "--dry-run", "--json").out)["events"])
    team.run(machine, *words, "--yes", "--expect", str(number))


@pytest.mark.parametrize("published", [False, True])
def test_what_replaced_a_redacted_text_stays(team: Team, *, published: bool) -> None:
    """An edit of counts lands with the text that the entry has by then: only its own, former text is redacted."""
    name = next(name for name, (text, _, _) in team.entries("ben").items() if text == PRIVATE)
    playbook = team.root("ben") / ".claude" / "playbook.json"
    playbook.write_bytes(playbook.read_bytes().replace(b'"helpful": 1', b'"helpful": 4'))
    team.run("ben", "replay")
    team.run("anna", "reword", name, "Ask the owner of the vault")
    team.sync("anna", *(["ben"] if published else []))
    redact_text(team, "ben", PRIVATE)
    team.sync("ben", "anna", "ben")
    team.share("cleo")
    for machine in ("anna", "ben", "cleo"):
        assert ("Ask the owner of the vault", 4, 0) == team.entries(machine)[name]
        assert [] == holding(team, machine)
        team.run(machine, "verify")
    redact_text(team, "ben", "Ask the owner of the vault")
    team.sync("ben", "anna", "cleo", "ben")
    team.run("ben", "share", "repair", "--yes")
    team.share("dora")
    for machine in ("anna", "ben", "cleo", "dora"):
        assert ("[redacted]", 4, 0) == team.entries(machine)[name]
        assert [] == holding(team, machine, b"owner of the vault")
        team.run(machine, "verify")


@pytest.mark.parametrize("machine", ["anna", "ben", "cleo"])
def test_texts_that_were_joined_stay_joined_once_redacted(team: Team, tmp_path: Path, machine: str) -> None:
    """Whoever redacts links equal texts, so the past and the present of each machine have as many entries as before."""
    (tmp_path / "other").mkdir()
    team.run_command("--project", str(tmp_path / "other"), "add", PRIVATE)
    team.run("ben", "import", "--ledger", str(tmp_path / "other"))
    before = team.entries("ben")
    moment = str(json.loads((team.ledger("ben") / "events.jsonl").read_bytes().splitlines()[-1])["seq"])
    if machine != "ben":
        team.sync("ben", "anna")
    if machine == "cleo":
        # She redacts it before she joins the book, so she finds only then which texts there are equal.
        team.run("cleo", "add", "A rule of ben")
        team.run("cleo", "import", "--ledger", str(team.root("anna")))
    redact_text(team, machine, PRIVATE)
    if machine == "cleo":
        team.share("cleo")
    team.sync(machine, "anna", "ben")
    expected = {name: (text.replace(PRIVATE, "[redacted]"), *counts) for name, (text, *counts) in before.items()}
    assert expected == team.entries("ben") == team.entries("anna") == team.entries("ben", moment)
    assert [] == holding(team, "ben") + holding(team, "anna")


def test_a_redaction_in_an_imported_ledger_reaches_a_copy_that_comes_later(team: Team) -> None:
    """The book does not say yet that the text is redacted; the machine that joins it knows, and shows it nowhere."""
    redact_text(team, "anna", PRIVATE)
    team.run("cleo", "add", "A rule of cleo")
    team.run("cleo", "import", "--ledger", str(team.root("anna")))
    team.share("cleo")
    assert [] == holding(team, "cleo")
    team.sync("anna", "ben", "cleo", "anna")
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    assert [] == holding(team, "cleo") + holding(team, "ben")


def test_an_interrupted_append_leaves_no_redacted_text(team: Team) -> None:
    """What follows the end of a copy is removed, also from a copy that was set aside; the copy goes on."""
    copy = team.ledger("anna") / "book" / "1"
    shutil.copytree(copy, aside := copy.with_name("1.aside-1"))
    line = next(batch.raw for batch in team.batches() if PRIVATE.encode() in batch.raw)
    for folder in (copy, aside):
        with (folder / "events.jsonl").open("ab") as log:
            log.write(line[: line.index(b"Zwiebel") + 9])
    redact_text(team, "anna", PRIVATE)
    assert [] == holding(team, "anna")
    team.sync("anna", "ben")
    assert team.entries("anna") == team.entries("ben")
    team.run("anna", "verify")


def test_a_text_that_comes_in_erased_is_redacted(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine gave the engine its book back and was killed before it published its redaction: others go on."""
    before = team.entries("anna")
    redact_text(team, "anna", PRIVATE)
    team.empty()

    def kill(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(syncing.Sync, "_append", kill)
        team.run("anna", "sync", code=130)
    team.share("cleo")
    expected = {name: (text.replace(PRIVATE, "[redacted]"), *counts) for name, (text, *counts) in before.items()}
    assert expected == team.entries("cleo")
    team.run("cleo", "verify")
    team.sync("cleo", "ben", "anna", "ben", "cleo")
    assert expected == team.entries("anna") == team.entries("ben") == team.entries("cleo")
    assert [] == holding(team, "ben")


def test_a_redacted_text_that_was_added_by_hand_stays_redacted(team: Team) -> None:
    """The book has it in the clear still; a machine that imported the redaction erases it, and publishes that."""
    playbook = team.root("anna") / ".claude" / "playbook.json"
    document = json.loads(playbook.read_bytes())
    document["key_points"].append({"name": "mine", "text": "Zwiebel has the keys", "helpful": 1, "harmful": 0})
    playbook.write_text(json.dumps(document))
    team.run("anna", "replay")
    document["key_points"][-1]["helpful"] = 2
    playbook.write_text(json.dumps(document))
    team.run("anna", "replay")
    team.sync("anna")
    redact_text(team, "anna", "Zwiebel has the keys")
    team.run("cleo", "add", "A rule of cleo")
    team.run("cleo", "import", "--ledger", str(team.root("anna")))
    team.share("cleo")
    assert ("[redacted]", 2, 0) == team.entries("cleo")["mine"]
    assert [] == holding(team, "cleo", b"has the keys")
    team.sync("ben")
    assert ("[redacted]", 2, 0) == team.entries("ben")["mine"]
    assert [] == holding(team, "ben", b"has the keys")


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


def test_a_new_text_by_hand_that_is_redacted_leaves_what_others_wrote_meanwhile(team: Team) -> None:
    """Both texts of the edit are redacted by then, so the entry keeps the text that it has in the book."""
    name = next(name for name, (text, _, _) in team.entries("ben").items() if text == PRIVATE)
    team.run("ben", "reword", name, "Ask the owner of the vault")
    team.sync("ben")
    redact_text(team, "anna", PRIVATE)
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_bytes(playbook.read_bytes().replace(b"[redacted]", b"Petra Zwiebel has left"))
    team.run("anna", "replay")
    redact_text(team, "anna", "Petra Zwiebel has left")
    team.sync("anna", "ben")
    assert ("Ask the owner of the vault", 1, 0) == team.entries("anna")[name] == team.entries("ben")[name]
    assert [] == holding(team, "anna") + holding(team, "ben")


def test_a_text_that_only_its_writer_had_is_redacted_elsewhere_once_he_sees_it(team: Team) -> None:
    """An edit whose text was redacted before it was published says nothing of it, so an equal text is found later."""
    text, former = "Petra has left", "A rule of anna"
    playbook = team.root("anna") / ".claude" / "playbook.json"
    playbook.write_bytes(playbook.read_bytes().replace(former.encode(), text.encode()))
    team.run("anna", "replay")
    moment = str(json.loads((team.ledger("anna") / "events.jsonl").read_bytes().splitlines()[-1])["seq"])
    team.run("ben", "add", text)
    redact_text(team, "anna", text)
    team.sync("anna", "ben")
    assert {text, former} <= {shown for shown, _, _ in team.entries("ben").values()}
    # The moment before the redaction has what the edit left as well.
    assert former in {shown for shown, _, _ in team.entries("anna", moment).values()}
    team.sync("anna", "ben")
    for machine in ("anna", "ben"):
        shown = {shown for shown, _, _ in team.entries(machine).values()}
        assert {"[redacted]", former} <= shown
        assert text not in shown
        assert [] == holding(team, machine, text.encode())
