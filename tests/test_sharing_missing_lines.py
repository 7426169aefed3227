"""A machine whose copy of the shared book is missing, torn or damaged: what it shows, and what waits for a sync."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
from typing import Any

import pytest

from helpers.command_line import Run
from helpers.hook_calls import call, told
from helpers.sharing_projects import Team, make_team
from tallybook import Author, Ledger, compat
from tallybook.projections.surfaces.mcp import TOOLS
from tallybook.projections.surfaces.workspace.project import Project

MISSING = "not available here: book lines 1 to"
LAST = "this is the last rendering of playbook.json"
TEST, SHORT = "Run the tests first", "Write short commits"


@pytest.fixture
def team(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book, each with an entry, and a pending rating of anna's."""
    made = make_team("memory", tmp_path, run, monkeypatch)
    for machine, text in (("anna", TEST), ("ben", SHORT)):
        made.run(machine, "add", text)
        made.share(machine)
    made.sync("anna")
    made.run("anna", "rate", "kpt_001", "helpful")
    return made


def lose(team: Team, how: str = "missing") -> None:
    """Take anna's copy of the book away, tear it, or damage it."""
    log = team.ledger("anna") / "book" / "1" / "events.jsonl"
    data = log.read_bytes()
    if how == "missing":
        shutil.rmtree(team.ledger("anna") / "book")
    else:
        log.write_bytes(data[:-20] if how == "torn" else data.replace(b"short", b"SHORT"))
    # Where the checkpoint has the end of the copy, its earlier bytes are not read.
    shutil.rmtree(team.home("anna") / ".cache", ignore_errors=True)


def tool(team: Team, called: str, **given: str) -> Any:
    """Return what a tool of anna's MCP server answers."""
    ledger = Ledger(Project(team.root("anna")), Author("agent", "s9"))
    return TOOLS[called].run(ledger, **given)


@pytest.mark.parametrize("how", ["missing", "torn", "damaged"])
def test_what_reads_the_entries_shows_the_last_rendering(team: Team, how: str) -> None:
    """Commands, library, MCP and hooks give the entries that playbook.json was rendered with last, and say so."""
    verbs = (("show", "--json"), ("review", "--list", "needs-ratings", "--json"))
    before = [team.run("anna", *words).out for words in verbs]
    lose(team, how)
    for words, out in zip(verbs, before, strict=True):
        answer = team.run("anna", *words)
        assert (out, True, True) == (answer.out, MISSING in answer.err, LAST in answer.err)
    with pytest.warns(UserWarning, match=LAST):
        assert [TEST, SHORT] == [entry.text for entry in Ledger(Project(team.root("anna"))).entries()]
    with pytest.warns(UserWarning, match=LAST):
        assert [1, 0] == [entry["helpful"] for entry in compat.load_playbook()["key_points"]]
    shown = tool(team, "playbook")
    assert ([SHORT, TEST], True) == (
        sorted(entry["text"] for entry in shown["entries"])[::-1],
        LAST in shown["notes"][0],
    )
    context = told(call({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}))
    assert TEST in context
    assert SHORT in context


def test_what_needs_the_lines_says_so_and_changes_nothing(team: Team) -> None:
    """Other verbs end with one line that names the lines and `sync`, and none of them calls it damage."""
    lose(team)
    before = (team.ledger("anna") / "events.jsonl").read_bytes()
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
        answer = team.run("anna", *words.split(), code=1)
        found = [part in answer.err for part in (MISSING, "run `tallybook sync`", "damaged")]
        assert [True, True, False] == found, answer
    assert before == (team.ledger("anna") / "events.jsonl").read_bytes()


@pytest.mark.parametrize("how", ["missing", "torn", "damaged"])
def test_writes_wait_in_the_spool_until_a_sync_brings_the_lines(team: Team, how: str) -> None:
    """`add`, `rate`, `record`, MCP and a save are acknowledged, and each counts once for everyone after one sync."""
    lose(team, how)
    for words in (("add", "Name units"), ("rate", "KPT_1", "helpful", "--reason", "it was")):
        answer = team.run("anna", *words)
        assert "lines of the shared book are missing here; spooled, `tallybook sync` fetches them" in answer.out
    payload = {"new_key_points": ["Be kind"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    assert json.loads(team.run("anna", "record", "--json", stdin=json.dumps(payload).encode()).out)["spooled"]
    assert tool(team, "add", text="Quote ids")["waiting"]
    assert tool(team, "rate", name="kpt_002", rating="harmful")["waiting"]
    with pytest.warns(UserWarning, match=LAST):
        playbook = compat.load_playbook()
    rating = {"name": "kpt_002", "rating": "helpful"}
    compat.save_playbook(compat.update_playbook_data(playbook, {"new_key_points": [], "evaluations": [rating]}))
    unknown = team.run("anna", "rate", "kpt_900", "helpful", code=2).err
    assert "is not in the last rendering of playbook.json" in unknown
    assert 6 == len(list((team.ledger("anna") / "spool").iterdir()))
    team.sync("anna", "ben")
    texts = {text: (helpful, harmful) for text, helpful, harmful in team.entries("anna").values()}
    assert {TEST: (3, 0), SHORT: (1, 1), "Name units": (0, 0), "Be kind": (0, 0), "Quote ids": (0, 0)} == texts
    assert team.entries("anna") == team.entries("ben")
    assert [] == list((team.ledger("anna") / "spool").iterdir())
    assert len(team.ids()) == len(set(team.ids()))
    team.run("anna", "verify")


def test_what_hooks_record_does_not_wait_for_the_lines(team: Team) -> None:
    """An injection and a citation, which nobody shares, are in the own ledger at once."""
    lose(team)
    call({"hook_event_name": "UserPromptSubmit", "prompt": "go on"})
    call({"hook_event_name": "Stop", "last_assistant_message": "As [kpt_002] says."})
    ledger = (team.ledger("anna") / "events.jsonl").read_text(encoding="utf-8")
    assert [1, 1] == [ledger.count(f'"kind":"{kind}"') for kind in ("playbook.injected", "point.cited")]
    team.sync("anna")
    assert "kpt_002" in team.run("anna", "why", "kpt_002", "--trail").out


def test_a_spooled_rating_means_the_entry_that_its_rater_saw(team: Team) -> None:
    """A name that a sync gives another entry before the spool is recorded counts for the entry that had it."""
    shutil.copytree(team.root("anna"), team.folder / "anna.copy")
    team.share("anna.copy")
    for machine, text in (("anna", "Mine"), ("anna.copy", "Theirs")):
        team.run(machine, "add", text)
    team.sync("anna.copy")
    (name,) = [name for name, (text, _, _) in team.entries("anna").items() if text == "Mine"]
    assert "Theirs" == team.entries("anna.copy")[name][0]
    lose(team)
    team.run("anna", "rate", name, "helpful", "--reason", "it was")
    team.sync("anna", "anna.copy")
    counts = {text: (helpful, harmful) for text, helpful, harmful in team.entries("anna.copy").values()}
    assert ((1, 0), (0, 0)) == (counts["Mine"], counts["Theirs"])
    assert team.entries("anna") == team.entries("anna.copy")
    rows = map(json.loads, team.run("anna", "log", "--json").out.splitlines())
    (noted,) = [row for row in rows if row["kind"] == "point.noted"]
    assert "Mine" == team.entries("anna")[noted["body"]["name"]][0]


def test_the_spool_of_before_sharing_means_own_entries(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waited in the spool is recorded before the book of others comes in, and published with it."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    for machine, text in (("anna", TEST), ("ben", SHORT)):
        team.run(machine, "add", text)
    team.share("anna")
    update = {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
    request = {"by": {"rater": "human"}, "key": "k", "update": update}
    waiting = {"id": "a", "at": "2026-11-01T00:00:00.000000Z", "requests": [request]}
    (team.ledger("ben") / "spool").mkdir()
    (team.ledger("ben") / "spool" / "2026-11-01T000000.000000Z-a.json").write_text(json.dumps(waiting))
    team.share("ben")
    assert {(TEST, 0, 0), (SHORT, 1, 0)} == set(team.entries("ben").values())


def test_an_old_moment_whose_lines_are_gone_says_so(team: Team) -> None:
    """Without the copy that a former history is in, its moments name the missing lines; the present goes on."""
    short = team.batches()[:-1]
    team.sync("anna")
    shown = team.run("anna", "show", "--at", "8", "--json").out
    team.run("ben", "rate", "kpt_001", "harmful")
    team.force(short)
    team.run("cleo", "add", "Name things well")
    team.share("cleo")
    team.run("anna", "sync", "--rejoin")
    assert shown == team.run("anna", "show", "--at", "8", "--json").out
    shutil.rmtree(team.ledger("anna") / "book" / "1")
    for words in (("show", "--at", "8"), ("why", "kpt_001", "--at", "8"), ("diff", "8"), ("replay", "--at", "8")):
        answer = team.run("anna", *words, code=1)
        assert MISSING in answer.err
        assert "they are in no copy of the book on this machine" in answer.err
    for line in ("verify", "log", "why kpt_001", "replay --check", "rate kpt_001 helpful"):
        team.run("anna", *line.split())
    # An older rendering that somebody edited cannot be compared any more.
    document = json.loads((team.root("anna") / ".claude" / "playbook.json").read_bytes())
    events = [json.loads(line) for line in (team.ledger("anna") / "events.jsonl").read_text().splitlines()]
    document |= {"ledger": f"8:{next(event['chain'] for event in events if event['seq'] == 8 and 'chain' in event)}"}
    document["key_points"].pop()
    (team.root("anna") / ".claude" / "playbook.json").write_text(json.dumps(document))
    before = len(team.entries("anna"))
    answer = team.run("anna", "rate", "kpt_001", "helpful")
    assert "nor an edit of what is here, and is set aside" in answer.err
    assert before == len(team.entries("anna"))
