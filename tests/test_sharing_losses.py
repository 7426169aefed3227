"""What becomes of a shared book that an engine lost, that was forced back or rewritten, and of copies and backups."""

from __future__ import annotations

from contextlib import AbstractContextManager
import json
import os
from pathlib import Path
import shutil

import pytest

from helpers.books import make_run
from helpers.command_line import Run
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.replica import Replica
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.sharing import syncing

ON_BOTH = pytest.mark.parametrize("team", ["memory", "git"], indirect=True)


@pytest.fixture
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book, each with an entry."""
    made = make_team(getattr(request, "param", "memory"), tmp_path, run, monkeypatch)
    for machine, text in (("anna", "Run the tests first"), ("ben", "Write short commits")):
        made.run(machine, "add", text)
        made.share(machine)
    made.sync("anna")
    assert made.entries("anna") == made.entries("ben")
    return made


@ON_BOTH
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
    assert (2, 2) == (len(done["landed"]), done["missing"]), done
    (aside,) = json.loads(team.run("anna", "share", "status", "--json").out)["set_aside"]
    assert (done["kept"], 2) == (aside["folder"], aside["missing"])
    assert f"tallybook import --ledger {done['kept']}" in team.run("anna", "share", "status").out
    assert moment == team.run("anna", "show", "--at", "3", "--json").out
    team.run("ben", "sync", code=3)
    again = json.loads(team.run("ben", "sync", "--rejoin", "--json").out)
    assert (2, 0) == (len(again["landed"]), again["missing"])
    team.run("anna", "sync")
    assert [] == json.loads(team.run("anna", "share", "status", "--json").out)["set_aside"]
    team.sync("cleo", "anna")
    assert "The engine has the history that this machine has\n" in team.run("anna", "sync", "--rejoin").out
    ids = team.ids()
    assert len(ids) == len(set(ids))
    assert everything < set(ids)
    assert team.entries("anna") == team.entries("ben") == team.entries("cleo")
    assert shown.items() <= team.entries("anna").items()
    for machine in ("anna", "ben", "cleo"):
        team.run(machine, "verify")
    assert (team.ledger("anna") / "book" / "1").exists()


def test_what_a_shorter_history_has_after_a_gap_is_published_once(team: Team) -> None:
    """Numbers of a history that is gone do not say what the new one had when a batch was recorded."""
    for text in ("Read the docs", "Ask before deleting", "Prefer plain code"):
        team.run("ben", "add", text)
    team.sync("ben")
    team.share("dora")
    team.force(team.batches()[:1])
    team.share("cleo")
    team.run("cleo", "add", "Name things well")
    team.sync("cleo")
    # Of the entry that this rates no machine brings back the making, so what follows it is known by its ids alone.
    team.run("dora", "rate", "kpt_102", "helpful")
    team.run("dora", "add", "Measure first")
    team.run("dora", "sync", "--rejoin")
    for _ in range(2):
        team.sync("dora")
        ids = team.ids()
        assert len(ids) == len(set(ids))
        team.run("dora", "share", "verify")
    assert 1 == json.loads(team.run("dora", "share", "status", "--json").out)["pending"]


def test_fresh_runs_of_another_history_count_where_a_piece_ends_before_them(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that reads a long book in pieces takes what was before for the book, stops, and rejoins."""
    with team.open_engine() as engine:
        end = engine.replace(engine.read(0).end, cut_runs(team.batches()[:2], START, engine.run_bytes))
        assert end is not None
        stranger, _ = make_run(Position(end.seq, end.chain, 0), "stranger", "kpt_300", text="Be brief")
        assert engine.append(end, [stranger]) is not None
    monkeypatch.setattr(syncing, "PIECE_BYTES", 1)
    assert "tallybook sync --rejoin" in team.share("cleo", code=3).err
    team.run("cleo", "sync", "--rejoin")
    assert stranger.after in {batch.chain for batch in team.batches()}
    team.run("cleo", "share", "verify")
    assert [("Be brief", 0, 0)] == list(team.entries("cleo").values())


def test_a_program_that_writes_to_the_copy_during_an_append_is_named(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy says so instead of taking its bytes for those of the book; the next sync has every event once."""
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben")
    write_all = disk.write_all

    def write_after_another(fd: int, data: bytes, path: str | os.PathLike[str]) -> None:
        if "book" in Path(path).parts:
            with Path(path).open("ab") as other:
                other.write(b"another program\n")
        write_all(fd, data, path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", write_after_another)
        assert "another program wrote to it meanwhile" in team.run("anna", "sync", code=4).err
    team.sync("anna")
    assert team.entries("anna") == team.entries("ben")
    team.run("anna", "share", "verify")


def lose(team: Team, how: str) -> None:
    """Take anna's copy of the book away, tear it, damage it, or plant a longer one."""
    folder = team.ledger("anna") / "book" / "1"
    log = folder / "events.jsonl"
    data = log.read_bytes()
    if how == "missing":
        shutil.rmtree(folder)
    elif how == "torn":
        log.write_bytes(data[:-20])
    elif how == "damaged":
        log.write_bytes(data.replace(b"short", b"SHORT"))
    else:
        copy = Replica(team.ledger("anna"), "1")
        copy.append([batch_after(copy.end())])


def batch_after(position: Position) -> RawBatch:
    """Return a batch that a stranger made up."""
    run, _ = make_run(position, "planted", "kpt_001")
    return verify_run(run.data, Position(position.seq, position.chain, 0), (), choose_digest(len(run.data))).batches[0]


@pytest.mark.parametrize("how", ["missing", "torn", "damaged", "planted"])
def test_a_copy_of_the_book_that_is_lost_or_planted_is_fetched_anew(team: Team, how: str) -> None:
    """Sync sets it aside and reads the engine; nothing that somebody planted reaches the engine, no rating is lost."""
    team.run("ben", "rate", "kpt_002", "helpful")
    team.sync("ben", "anna")
    before = [batch.raw for batch in team.batches()]
    lose(team, how)
    if how == "planted":
        team.force(team.batches()[:3])
        team.sync("ben")
    team.run("anna", "sync")
    assert before == [batch.raw for batch in team.batches()]
    assert team.entries("anna") == team.entries("ben")
    assert ("Write short commits", 1, 0) == team.entries("anna")["kpt_002"]
    aside = [path.name for path in (team.ledger("anna") / "book").iterdir() if "aside" in path.name]
    assert ([] if how == "missing" else ["1.aside-1"]) == aside
    assert (team.ledger("anna") / "book" / "1" / "events.jsonl").read_bytes() == b"".join(before)


def test_sharing_is_turned_off_and_on_again(team: Team) -> None:
    """What was recorded meanwhile goes out afterwards, and what others did comes in."""
    team.run("anna", "share", "off")
    team.run("anna", "rate", "kpt_002", "helpful")
    team.run("anna", "sync", code=1)
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben")
    team.share("anna")
    team.sync("ben")
    assert [1, 1] == [helpful for _, helpful, _ in team.entries("anna").values()]
    assert team.entries("anna") == team.entries("ben")


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


def test_what_to_type_in_a_moved_or_copied_folder(team: Team) -> None:
    """`share status` and `doctor` name the command that shares the same book; until then nothing is sent or fetched."""
    command = f"tallybook share {team.engine} {team.address} --book main"
    shutil.copytree(team.root("anna"), team.folder / "anna.copy")
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben")
    size = len(team.ids())
    team.run("anna.copy", "rate", "kpt_001", "helpful")
    for machine in ("anna.copy", "anna.moved"):
        if machine == "anna.moved":
            team.root("anna").rename(team.folder / machine)
        for words in (("share", "status"), ("sync",), ("sync", "--rejoin"), ("share", "verify")):
            assert f"run: {command}" in team.run(machine, *words, code=1).err
        doctor = team.run(machine, "doctor").out
        assert f"nothing is sent or fetched here: {team.ledger('anna')} shares the book main; run: {command}" in doctor
        assert int(machine == "anna.copy") == team.entries(machine)["kpt_001"][1]
    assert size == len(team.ids())
    team.run("anna.moved", *command.split()[1:], "--yes")
    assert 1 == team.entries("anna.moved")["kpt_001"][1]


def test_what_to_type_where_another_ledger_is_in_the_place_of_a_shared_one(team: Team) -> None:
    """The settings are of the former ledger: nothing is sent of the new one, and the command shares it."""
    shutil.rmtree(team.ledger("anna"))
    team.run("anna", "add", "Begin anew")
    size = len(team.ids())
    command = f"tallybook share {team.engine} {team.address} --book main"
    why = "another ledger in this place shared the book main"
    assert f"{why}; run: {command}" in team.run("anna", "sync", code=1).err
    assert f"{why}; run: {command}" in team.run("anna", "doctor").out
    assert size == len(team.ids())


@pytest.mark.parametrize("team", ["git"], indirect=True)
def test_an_address_that_cannot_be_reached_shares_nothing(team: Team) -> None:
    """`share` says so, and what to do; `sync` in a project that shares says that its events wait."""
    team.run("cleo", "add", "Name things well")
    words = ("share", "git", "file:///nowhere/remote.git", "--book", "main", "--yes")
    refused = team.run("cleo", *words, code=4).err
    assert "cannot be reached" in refused
    assert refused.endswith("; nothing is shared; check the address and the network, and run it again\n")
    assert "shares no book" in team.run("cleo", "share", "status", code=1).err
    Path(team.address).rename(team.folder / "away.git")
    assert "events wait in the own ledger; run `tallybook sync` later" in team.run("anna", "sync", code=4).err


def test_a_sync_that_waited_for_another_one_keeps_the_copy(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that waits until another one of its project ends reads the end that this one noted."""
    team.run("anna", "rate", "kpt_001", "helpful")
    team.sync("anna")
    lock = replicas.lock

    def wait(ledger: str | os.PathLike[str]) -> AbstractContextManager[None]:
        monkeypatch.setattr(replicas, "lock", lock)
        team.sync("ben")
        return lock(ledger)

    monkeypatch.setattr(replicas, "lock", wait)
    assert "" == json.loads(team.run("ben", "sync", "--json").out)["set_aside"]
