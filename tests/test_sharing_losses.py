"""What becomes of a shared book that an engine lost, that was forced back or rewritten, and of copies and backups."""

from __future__ import annotations

from contextlib import AbstractContextManager
import json
import os
from pathlib import Path
import shutil
from typing import Any

import msgspec
import pytest

from helpers.hook_calls import call, read_context
from helpers.memory_store import make_run
from helpers.shared_machines import Team
from tallybook import Author, Ledger, compat
from tallybook.ledger.line import START, Position, RawBatch
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.replica import Replica
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.cli import sharing
from tallybook.projections.surfaces.cli.mcp import TOOLS
from tallybook.projections.surfaces.sharing import syncing
from tallybook.projections.surfaces.workspace.project import Project

ON_BOTH = pytest.mark.parametrize("team", ["memory", "git"], indirect=True)


@ON_BOTH
def test_a_branch_that_was_forced_back_and_went_on_is_rejoined(duo: Team) -> None:
    """Sync stops with what to type; --rejoin takes that history and publishes what it lacks, once, on every machine."""
    short = duo.batches()
    duo.run("anna", "rate", "kpt_001", "helpful")
    duo.run("ben", "rate", "kpt_001", "harmful")
    duo.sync("anna", "ben", "anna")
    everything, shown = set(duo.ids()), duo.entries("anna")
    duo.force(short)
    duo.run("cleo", "add", "Name things well")
    duo.share("cleo")
    refused = duo.run("anna", "sync", code=3).err
    assert "tallybook sync --rejoin" in refused
    moment = duo.run("anna", "show", "--at", "3", "--json").out
    done = json.loads(duo.run("anna", "sync", "--rejoin", "--json").out)
    assert (2, 2) == (len(done["landed"]), done["missing"]), done
    (aside,) = json.loads(duo.run("anna", "share", "status", "--json").out)["set_aside"]
    assert (done["kept"], 2) == (aside["folder"], aside["missing"])
    assert f"tallybook import --ledger {done['kept']}" in duo.run("anna", "share", "status").out
    assert moment == duo.run("anna", "show", "--at", "3", "--json").out
    duo.run("ben", "sync", code=3)
    again = json.loads(duo.run("ben", "sync", "--rejoin", "--json").out)
    assert (2, 0) == (len(again["landed"]), again["missing"])
    duo.run("anna", "sync")
    assert [] == json.loads(duo.run("anna", "share", "status", "--json").out)["set_aside"]
    duo.sync("cleo", "anna")
    assert "0 events of its history were new here" in duo.run("anna", "sync", "--rejoin").out
    ids = duo.ids()
    assert len(ids) == len(set(ids))
    assert everything < set(ids)
    assert duo.entries("anna") == duo.entries("ben") == duo.entries("cleo")
    assert shown.items() <= duo.entries("anna").items()
    for machine in ("anna", "ben", "cleo"):
        duo.run(machine, "verify")
    assert (duo.ledger("anna") / "book" / "1").exists()


def test_what_a_shorter_history_has_after_a_gap_is_published_once(duo: Team) -> None:
    """Numbers of a history that is gone do not say what the new one had when a batch was recorded."""
    for text in ("Read the docs", "Ask before deleting", "Prefer plain code"):
        duo.run("ben", "add", text)
    duo.sync("ben")
    duo.share("dora")
    duo.force(duo.batches()[:1])
    duo.share("cleo")
    duo.run("cleo", "add", "Name things well")
    duo.sync("cleo")
    # Of the entry that this rates no machine brings back the making, so what follows it is known by its ids alone.
    duo.run("dora", "rate", "kpt_102", "helpful")
    duo.run("dora", "add", "Measure first")
    duo.run("dora", "sync", "--rejoin")
    for _ in range(2):
        duo.sync("dora")
        ids = duo.ids()
        assert len(ids) == len(set(ids))
        duo.run("dora", "share", "verify")
    assert 1 == json.loads(duo.run("dora", "share", "status", "--json").out)["pending"]


def test_fresh_runs_of_another_history_count_where_a_piece_ends_before_them(
    duo: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that reads a long book in pieces takes what was before for the book, stops, and rejoins."""
    with duo.open_engine() as engine:
        end = engine.replace(engine.read(0).end, cut_runs(duo.batches()[:2], START, engine.run_bytes))
        assert end is not None
        stranger, _ = make_run(Position(end.seq, end.chain, 0), "stranger", "kpt_300", text="Be brief")
        assert engine.append(end, [stranger]) is not None
    monkeypatch.setattr(syncing, "PIECE_BYTES", 1)
    assert "tallybook sync --rejoin" in duo.share("cleo", code=3).err
    duo.run("cleo", "sync", "--rejoin")
    assert stranger.after in {batch.chain for batch in duo.batches()}
    duo.run("cleo", "share", "verify")
    assert [("Be brief", 0, 0)] == list(duo.entries("cleo").values())


def test_a_program_that_writes_to_the_copy_during_an_append_is_named(
    duo: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy says so instead of taking its bytes for those of the book; the next sync has every event once."""
    duo.run("ben", "rate", "kpt_001", "helpful")
    duo.sync("ben")
    write_all = disk.write_all

    def write_after_another(fd: int, data: bytes, path: str | os.PathLike[str]) -> None:
        if "book" in Path(path).parts:
            with Path(path).open("ab") as other:
                other.write(b"another program\n")
        write_all(fd, data, path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_all", write_after_another)
        assert "another program wrote to it meanwhile" in duo.run("anna", "sync", code=4).err
    duo.sync("anna")
    assert duo.entries("anna") == duo.entries("ben")
    duo.run("anna", "share", "verify")


def lose(duo: Team, how: str) -> None:
    """Take anna's copy of the book away, tear it, damage it, or plant a longer one."""
    log = duo.ledger("anna") / "book" / "1" / "events.jsonl"
    data = log.read_bytes()
    if how == "missing":
        shutil.rmtree(log.parent)
    elif how == "planted":
        copy = Replica(duo.ledger("anna"), "1")
        copy.append([batch_after(copy.end())])
    else:
        log.write_bytes(data[:-20] if how == "torn" else data.replace(b"short", b"SHORT"))


def batch_after(position: Position) -> RawBatch:
    """Return a batch that a stranger made up."""
    run, _ = make_run(position, "planted", "kpt_001")
    return verify_run(run.data, Position(position.seq, position.chain, 0), (), choose_digest(len(run.data)))[0]


@pytest.mark.parametrize("how", ["missing", "torn", "damaged", "planted"])
def test_a_copy_of_the_book_that_is_lost_or_planted_is_fetched_anew(duo: Team, how: str) -> None:
    """Sync sets it aside and reads the engine; nothing that somebody planted reaches the engine, no rating is lost."""
    duo.run("ben", "rate", "kpt_002", "helpful")
    duo.sync("ben", "anna")
    before = [batch.raw for batch in duo.batches()]
    lose(duo, how)
    if how == "planted":
        duo.force(duo.batches()[:3])
        duo.sync("ben")
    duo.run("anna", "sync")
    assert before == [batch.raw for batch in duo.batches()]
    assert duo.entries("anna") == duo.entries("ben")
    assert ("Write short commits", 1, 0) == duo.entries("anna")["kpt_002"]
    aside = [path.name for path in (duo.ledger("anna") / "book").iterdir() if "aside" in path.name]
    assert ([] if how == "missing" else ["1.aside-1"]) == aside
    assert (duo.ledger("anna") / "book" / "1" / "events.jsonl").read_bytes() == b"".join(before)


def test_sharing_is_turned_off_and_on_again(duo: Team) -> None:
    """What was recorded meanwhile goes out afterwards, and what others did comes in."""
    duo.run("anna", "share", "off")
    duo.run("anna", "rate", "kpt_002", "helpful")
    duo.run("anna", "sync", code=1)
    duo.run("ben", "rate", "kpt_001", "helpful")
    duo.sync("ben")
    duo.share("anna")
    duo.sync("ben")
    assert [1, 1] == [helpful for _, helpful, _ in duo.entries("anna").values()]
    assert duo.entries("anna") == duo.entries("ben")


def test_sharing_is_not_turned_off_while_a_sync_runs(duo: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync would note its end in the settings, and so turn sharing on again."""
    monkeypatch.setattr(sharing, "_OFF_WAIT_MS", 50)
    with replicas.lock(duo.ledger("anna")):
        assert "held by another process" in duo.run("anna", "share", "off", code=4).err
    duo.run("anna", "share", "off")
    duo.run("anna", "sync", code=1)


def test_another_book_is_refused(duo: Team) -> None:
    """Nothing is sent to an address that holds another book; the message says what to type."""
    own = duo.batches()
    duo.empty()
    duo.run("cleo", "add", "Another playbook")
    duo.share("cleo")
    other = [batch.raw for batch in duo.batches()]
    for words in (("sync",), ("sync", "--rejoin")):
        refused = duo.run("anna", *words, code=3).err
        assert "holds another book" in refused
        assert "tallybook share" in refused
    assert other == [batch.raw for batch in duo.batches()]
    assert own[0].raw != other[0]


def test_what_to_type_in_a_moved_or_copied_folder(duo: Team) -> None:
    """`share status` and `doctor` name the command that shares the same book; until then nothing is sent or fetched."""
    command = f"tallybook share {duo.engine} {duo.address} --book main"
    shutil.copytree(duo.root("anna"), duo.folder / "anna.copy")
    duo.run("ben", "rate", "kpt_001", "helpful")
    duo.sync("ben")
    size = len(duo.ids())
    duo.run("anna.copy", "rate", "kpt_001", "helpful")
    for machine in ("anna.copy", "anna.moved"):
        if machine == "anna.moved":
            duo.root("anna").rename(duo.folder / machine)
        for words in (("share", "status"), ("sync",), ("sync", "--rejoin"), ("share", "verify")):
            assert f"run: {command}" in duo.run(machine, *words, code=1).err
        doctor = duo.run(machine, "doctor").out
        assert f"nothing is sent or fetched here: {duo.ledger('anna')} shares the book main; run: {command}" in doctor
        assert int(machine == "anna.copy") == duo.entries(machine)["kpt_001"][1]
    assert size == len(duo.ids())
    duo.run("anna.moved", *command.split()[1:], "--yes")
    assert 1 == duo.entries("anna.moved")["kpt_001"][1]


def test_what_to_type_where_another_ledger_is_in_the_place_of_a_shared_one(duo: Team) -> None:
    """The settings are of the former ledger: nothing is sent of the new one, and the command shares it."""
    shutil.rmtree(duo.ledger("anna"))
    duo.run("anna", "add", "Begin anew")
    size = len(duo.ids())
    command = f"tallybook share {duo.engine} {duo.address} --book main"
    why = "another ledger in this place shared the book main"
    assert f"{why}; run: {command}" in duo.run("anna", "sync", code=1).err
    assert f"{why}; run: {command}" in duo.run("anna", "doctor").out
    assert size == len(duo.ids())


@pytest.mark.parametrize("team", ["git"], indirect=True)
def test_an_address_that_cannot_be_reached_shares_nothing(duo: Team) -> None:
    """`share` and `sync` say so, and what to do, and that events wait."""
    duo.run("cleo", "add", "Name things well")
    words = ("share", "git", "file:///nowhere/remote.git", "--book", "main", "--yes")
    hint = "check the address and the network, and run it again; events wait in the own ledger"
    refused = duo.run("cleo", *words, code=4).err
    assert "cannot be reached" in refused
    assert refused.endswith(f"; {hint}\n")
    assert "shares no book" in duo.run("cleo", "share", "status", code=1).err
    Path(duo.address).rename(duo.folder / "away.git")
    assert hint in duo.run("anna", "sync", code=4).err


def test_a_sync_that_waited_for_another_one_keeps_the_copy(duo: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that waits until another one of its project ends reads the end that this one noted."""
    duo.run("anna", "rate", "kpt_001", "helpful")
    duo.sync("anna")
    lock = replicas.lock

    def wait(ledger: str | os.PathLike[str]) -> AbstractContextManager[None]:
        monkeypatch.setattr(replicas, "lock", lock)
        duo.sync("ben")
        return lock(ledger)

    monkeypatch.setattr(replicas, "lock", wait)
    assert "" == json.loads(duo.run("ben", "sync", "--json").out)["set_aside"]


# A machine whose copy of the shared book is missing, torn or damaged: what it shows, and what waits for a sync.


MISSING = "not available here: book lines 1 to"
LAST = "this is the last rendering of playbook.json"
TEST, SHORT = "Run the tests first", "Write short commits"


@pytest.fixture
def pending(duo: Team) -> Team:
    """Return two machines that share a book, each with an entry, and a pending rating of anna's."""
    duo.run("anna", "rate", "kpt_001", "helpful")
    return duo


def lose_lines(pending: Team, how: str = "missing") -> None:
    """Take anna's copy of the book away, tear it, or damage it."""
    lose(pending, how)
    # Where the checkpoint has the end of the copy, its earlier bytes are not read.
    shutil.rmtree(pending.home("anna") / ".cache", ignore_errors=True)


def tool(pending: Team, called: str, **given: str) -> Any:
    """Return what a tool of anna's MCP server answers."""
    ledger = Ledger(Project(pending.root("anna")), Author("agent", "s9"))
    return msgspec.convert(given, TOOLS[called]).run(ledger)


@pytest.mark.parametrize("how", ["missing", "torn", "damaged"])
def test_what_reads_the_entries_shows_the_last_rendering(pending: Team, how: str) -> None:
    """Commands, library, MCP and hooks give the entries that playbook.json was rendered with last, and say so."""
    verbs = (("show", "--json"), ("review", "--list", "needs-ratings", "--json"))
    before = [pending.run("anna", *words).out for words in verbs]
    lose_lines(pending, how)
    for words, out in zip(verbs, before, strict=True):
        answer = pending.run("anna", *words)
        assert (out, True, True) == (answer.out, MISSING in answer.err, LAST in answer.err)
    with pytest.warns(UserWarning, match=LAST):
        assert [TEST, SHORT] == [entry.text for entry in Ledger(Project(pending.root("anna"))).entries()]
    with pytest.warns(UserWarning, match=LAST):
        assert [1, 0] == [entry["helpful"] for entry in compat.load_playbook()["key_points"]]
    shown = tool(pending, "playbook")
    assert ([SHORT, TEST], True) == (
        sorted(entry["text"] for entry in shown["entries"])[::-1],
        LAST in shown["notes"][0],
    )
    context = read_context(call({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}))
    assert TEST in context
    assert SHORT in context


def test_what_needs_the_lines_says_so_and_changes_nothing(pending: Team) -> None:
    """Other verbs end with one line that names the lines and `sync`, and none of them calls it damage."""
    lose_lines(pending)
    before = (pending.ledger("anna") / "events.jsonl").read_bytes()
    verbs = (
        "why kpt_001",
        "log",
        "diff 2",
        "undo",
        "retire kpt_001",
        "replay",
        "verify",
        "sync --dry-run",
        "show --last-change",
    )
    for words in verbs:
        answer = pending.run("anna", *words.split(), code=1)
        found = [part in answer.err for part in (MISSING, "run `tallybook sync`", "damaged")]
        assert [True, True, False] == found, answer
    assert before == (pending.ledger("anna") / "events.jsonl").read_bytes()


@pytest.mark.parametrize("how", ["missing", "torn", "damaged"])
def test_writes_wait_in_the_spool_until_a_sync_brings_the_lines(pending: Team, how: str) -> None:
    """`add`, `rate`, `record`, MCP and a save are acknowledged, and each counts once for everyone after one sync."""
    lose_lines(pending, how)
    for words in (("add", "Name units"), ("rate", "KPT_1", "helpful", "--reason", "it was")):
        answer = pending.run("anna", *words)
        assert "lines of the shared book are missing here; spooled, `tallybook sync` fetches them" in answer.out
    payload = {"new_key_points": ["Be kind"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    assert json.loads(pending.run("anna", "record", "--json", stdin=json.dumps(payload).encode()).out)["spooled"]
    assert tool(pending, "add", text="Quote ids")["spooled"]
    assert tool(pending, "rate", name="kpt_002", rating="harmful")["spooled"]
    with pytest.warns(UserWarning, match=LAST):
        playbook = compat.load_playbook()
    rating = {"name": "kpt_002", "rating": "helpful"}
    compat.save_playbook(compat.update_playbook_data(playbook, {"new_key_points": [], "evaluations": [rating]}))
    unknown = pending.run("anna", "rate", "kpt_900", "helpful", code=2).err
    assert "is not in the last rendering of playbook.json" in unknown
    assert 6 == len(list((pending.ledger("anna") / "spool").iterdir()))
    pending.sync("anna", "ben")
    texts = {text: (helpful, harmful) for text, helpful, harmful in pending.entries("anna").values()}
    assert {TEST: (3, 0), SHORT: (1, 1), "Name units": (0, 0), "Be kind": (0, 0), "Quote ids": (0, 0)} == texts
    assert pending.entries("anna") == pending.entries("ben")
    assert [] == list((pending.ledger("anna") / "spool").iterdir())
    assert len(pending.ids()) == len(set(pending.ids()))
    pending.run("anna", "verify")


def test_what_hooks_record_does_not_wait_for_the_lines(pending: Team) -> None:
    """An injection and a citation, which nobody shares, are in the own ledger at once."""
    lose_lines(pending)
    call({"hook_event_name": "UserPromptSubmit", "prompt": "go on"})
    call({"hook_event_name": "Stop", "last_assistant_message": "As [kpt_002] says."})
    ledger = (pending.ledger("anna") / "events.jsonl").read_text(encoding="utf-8")
    assert [1, 1] == [ledger.count(f'"kind":"{kind}"') for kind in ("playbook.injected", "point.cited")]
    pending.sync("anna")
    assert "kpt_002" in pending.run("anna", "why", "kpt_002", "--trail").out


def test_a_spooled_rating_means_the_entry_that_its_rater_saw(pending: Team) -> None:
    """A name that a sync gives another entry before the spool is recorded counts for the entry that had it."""
    shutil.copytree(pending.root("anna"), pending.folder / "anna.copy")
    pending.share("anna.copy")
    for machine, text in (("anna", "Mine"), ("anna.copy", "Theirs")):
        pending.run(machine, "add", text)
    pending.sync("anna.copy")
    (name,) = [name for name, (text, _, _) in pending.entries("anna").items() if text == "Mine"]
    assert "Theirs" == pending.entries("anna.copy")[name][0]
    lose_lines(pending)
    pending.run("anna", "rate", name, "helpful", "--reason", "it was")
    pending.sync("anna", "anna.copy")
    counts = {text: (helpful, harmful) for text, helpful, harmful in pending.entries("anna.copy").values()}
    assert ((1, 0), (0, 0)) == (counts["Mine"], counts["Theirs"])
    assert pending.entries("anna") == pending.entries("anna.copy")
    rows = map(json.loads, pending.run("anna", "log", "--json").out.splitlines())
    (noted,) = [row for row in rows if row["kind"] == "point.noted"]
    assert "Mine" == pending.entries("anna")[noted["body"]["name"]][0]


def test_the_spool_of_before_sharing_means_own_entries(team: Team) -> None:
    """What waited in the spool is recorded before the book of others comes in, and published with it."""
    for machine, text in (("anna", TEST), ("ben", SHORT)):
        team.run(machine, "add", text)
    team.share("anna")
    update = {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    request = {"by": {"rater": "human"}, "key": "k", "update": {"extraction": update}}
    waiting = {"id": "a", "at": "2026-11-01T00:00:00.000000Z", "requests": [request]}
    (team.ledger("ben") / "spool").mkdir()
    (team.ledger("ben") / "spool" / "2026-11-01T000000.000000Z-a.json").write_text(json.dumps(waiting))
    team.share("ben")
    assert {(TEST, 0, 0), (SHORT, 1, 0)} == set(team.entries("ben").values())


def test_an_old_moment_whose_lines_are_gone_says_so(pending: Team) -> None:
    """Without the copy that a former history is in, its moments name the missing lines; the present goes on."""
    short = pending.batches()[:-1]
    pending.sync("anna")
    shown = pending.run("anna", "show", "--at", "8", "--json").out
    pending.run("ben", "rate", "kpt_001", "harmful")
    pending.force(short)
    pending.run("cleo", "add", "Name things well")
    pending.share("cleo")
    pending.run("anna", "sync", "--rejoin")
    assert shown == pending.run("anna", "show", "--at", "8", "--json").out
    shutil.rmtree(pending.ledger("anna") / "book" / "1")
    for words in (("show", "--at", "8"), ("why", "kpt_001", "--at", "8"), ("diff", "8"), ("replay", "--at", "8")):
        answer = pending.run("anna", *words, code=1)
        assert MISSING in answer.err
        assert "they are in no copy of the book on this machine" in answer.err
    for line in ("verify", "log", "why kpt_001", "replay --check", "rate kpt_001 helpful"):
        pending.run("anna", *line.split())
    # An older rendering that somebody edited cannot be compared any more.
    document = json.loads((pending.root("anna") / ".claude" / "playbook.json").read_bytes())
    events = [json.loads(line) for line in (pending.ledger("anna") / "events.jsonl").read_text().splitlines()]
    document |= {"ledger": f"8:{next(event['chain'] for event in events if event['seq'] == 8 and 'chain' in event)}"}
    document["key_points"].pop()
    (pending.root("anna") / ".claude" / "playbook.json").write_text(json.dumps(document))
    before = len(pending.entries("anna"))
    answer = pending.run("anna", "rate", "kpt_001", "helpful")
    assert "nor an edit of what is here, and is set aside" in answer.err
    assert before == len(pending.entries("anna"))
