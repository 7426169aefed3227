"""The verbs that look after a shared book: verify, repair, upgrade, publish; and programs of other versions."""

from __future__ import annotations

import json
from pathlib import Path
import shutil
import subprocess
import sys
from time import process_time

import pytest

from helpers.books import make_run
from helpers.command_line import Run
from helpers.example_secrets import EXAMPLES
from helpers.installation import lay_out
from helpers.sharing_projects import Team, make_team
from tallybook.ledger.codec import encode
from tallybook.ledger.events import BookRules
from tallybook.ledger.line import Stamp, frame
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.engine import ReadOnlyError
from tallybook.ledger.sharing.replica import find_redactions

ON_BOTH = pytest.mark.parametrize("team", ["memory", "git"], indirect=True)


@pytest.fixture
def team(request: pytest.FixtureRequest, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two machines that share a book, each with an entry."""
    made = make_team(getattr(request, "param", "memory"), tmp_path, run, monkeypatch)
    for machine, text in (("anna", "Run the tests first"), ("ben", "Write short commits")):
        made.run(machine, "add", text)
        made.share(machine)
    made.sync("anna")
    return made


@ON_BOTH
def test_a_run_that_does_not_count_is_listed_and_repaired(team: Team) -> None:
    """`share verify` names its place; `share repair` stores the runs that count anew, and the machines go on."""
    assert 0 == team.run("anna", "share", "verify").code
    before = [batch.raw for batch in team.batches()]
    foreign, _ = make_run(team.batches()[-1].position._replace(chain="0" * 32), "stranger", "kpt_001")
    with team.open_engine() as engine:
        engine.append(engine.read(0).end, [foreign])
    team.run("anna", "rate", "kpt_001", "helpful")
    team.sync("anna")
    assert 1 == len(json.loads(team.run("ben", "sync", "--json").out)["skipped"])
    found = json.loads(team.run("anna", "share", "verify", "--json", code=1).out)
    assert (1, 0) == (len(found["skipped"]), found["differs"])
    assert "does not count" in team.run("anna", "share", "verify", code=1).out
    for machine in ("anna", "ben"):
        assert f"{found['skipped'][0]['place']}: does not count: " in team.run(machine, "doctor", code=None).out
    team.run("anna", "share", "repair", "--yes")
    team.sync("ben")
    for machine in ("anna", "ben"):
        assert "does not count" not in team.run(machine, "doctor", code=None).out
    assert "count" in team.run("ben", "share", "verify").out
    assert before == [batch.raw for batch in team.batches()][: len(before)]
    team.run("ben", "rate", "kpt_001", "helpful")
    team.sync("ben", "anna")
    assert ("Run the tests first", 2, 0) == team.entries("anna")["kpt_001"]
    assert team.entries("anna") == team.entries("ben")
    assert "nothing to repair" in team.run("ben", "share", "repair", "--yes").out


def test_a_machine_that_does_not_know_the_rules_stops_there(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes in what was before them, appends nothing, and says that it must be upgraded; then it goes on."""
    team.run("anna", "rate", "kpt_001", "helpful")
    assert "already" in team.run("anna", "share", "upgrade", "--yes").out
    with monkeypatch.context() as later:
        later.setattr(book, "NEWEST", 2)
        assert "rules 2" in team.run("anna", "share", "upgrade", "--yes").out
        team.run("anna", "rate", "kpt_001", "helpful")
        team.sync("anna")
    team.run("ben", "rate", "kpt_002", "helpful")
    size = len(team.ids())
    for _ in range(2):
        assert "upgrade to go on" in team.run("ben", "sync").err
    assert size == len(team.ids())
    assert ("Run the tests first", 1, 0) == team.entries("ben")["kpt_001"]
    assert ("Write short commits", 1, 0) == team.entries("ben")["kpt_002"]
    monkeypatch.setattr(book, "NEWEST", 2)
    team.sync("ben", "anna")
    assert team.entries("anna") == team.entries("ben")
    assert ("Run the tests first", 2, 0) == team.entries("ben")["kpt_001"]


def test_rules_that_no_version_has_are_taken_out_by_a_person(team: Team) -> None:
    """Until then machines take in what was before and say what to type; `share repair` alone changes nothing."""
    team.run("ben", "add", "Name units")
    end = team.batches()[-1].position
    by = {"rater": "tallybook", "writer": "mallory-0a1b2c3d"}
    forged = frame([encode(BookRules(2))], Stamp(end, end.at, by, lambda: "forged", lambda: "salt"))
    with team.open_engine() as engine:
        engine.append(engine.read(0).end, cut_runs([forged], end, 1))
    told = team.run("ben", "sync").err
    number = told.partition("--without ")[2].partition("`")[0]
    assert f"run {number}, by 'mallory-0a1b2c3d', as it says: it changes the book to rules 2" in told
    assert f"--without {number}" in team.run("anna", "share", "verify", code=1).out
    before = team.batches()
    for code, words in ((4, ()), (2, ("--without", "1"))):
        assert "run" in team.run("anna", "share", "repair", "--yes", *words, code=code).err
    assert before == team.batches()
    team.run("anna", "share", "repair", "--without", number, "--yes")
    team.sync("ben", "anna")
    assert "Name units" in {text for text, _, _ in team.entries("anna").values()}
    assert team.entries("anna") == team.entries("ben")


def test_a_writer_learns_who_redacted_a_text(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next sync says so, on a terminal or not, and `share verify` counts the redactions of each machine."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    team.share("ben")
    team.run("anna", "add", "Ask Petra Zwiebel")
    team.share("anna", "--as", "anna")
    team.sync("ben")
    team.run("ben", "redact", "--text", "Ask Petra Zwiebel", "--yes", "--expect", "1", "--reason", "a name")
    team.sync("ben")
    found = json.loads(team.run("anna", "share", "verify", "--json", code=None).out)["redactions"]
    assert 1 == len(found)
    told = f"! {found[0]['writer']} redacted your text of {found[0]['name']}: book:{found[0]['seq']}"
    assert told in team.run("anna", "sync").out
    assert told in json.loads(team.run("anna", "share", "status", "--json").out)["results"][-1]["changes"]
    assert "!" not in team.run("ben", "sync").out
    assert (
        f"{found[0]['writer']} redacted 1 text of {found[0]['of']}" in team.run("ben", "share", "verify", code=None).out
    )
    assert found[0]["of"].startswith("anna-")


def test_redactions_are_found_in_one_pass() -> None:
    """A search that began at each byte of a line anew took most of the time of every sync in a long book."""
    line = b'{"crc":"00000000","seq":1,"id":"1","by":"%s",\t"kind":"point.rated"}\n' % (b"x" * 100_000)
    begin = process_time()
    assert [] == find_redactions(lambda: [line])
    assert process_time() - begin < 1


def test_a_masked_text_is_published_on_demand(team: Team) -> None:
    """A secret lands masked while its ratings flow; `share publish` appends the text as it is, and nothing else."""
    secret = EXAMPLES[0].text
    team.run("anna", "add", f"Use {secret} in tests only")
    team.run("anna", "rate", "kpt_003", "helpful")
    team.sync("anna", "ben")
    text, helpful, _ = next(row for row in team.entries("ben").values() if row[1])
    assert 1 == helpful
    assert secret not in text
    assert all(secret.encode() not in batch.raw for batch in team.batches())
    assert "published as it is" in team.run("anna", "share", "publish", "2", "--yes", code=2).err
    assert "EVENT" in team.run("anna", "share", "publish", "--yes", code=2).err
    number = next(
        row["seq"]
        for row in map(json.loads, (team.ledger("anna") / "events.jsonl").read_text().splitlines())
        if secret in json.dumps(row)
    )
    team.run("anna", "share", "publish", str(number), "--yes")
    team.sync("ben")
    assert f"Use {secret} in tests only" in [row[0] for row in team.entries("ben").values()]
    assert team.entries("anna") == team.entries("ben")


def test_a_dry_run_shows_what_then_leaves(team: Team) -> None:
    """Ids, kinds, bodies and texts are those that the engine gets afterwards, a masked secret included."""
    secret = EXAMPLES[0].text
    team.run("anna", "add", f"Use {secret} in tests only")
    team.run("anna", "rate", "kpt_001", "helpful", "--session", "s1")
    team.run("anna", "retire", "kpt_002", "--reason", "for my eyes")
    size = len(team.batches())
    answer = team.run("anna", "sync", "--dry-run", "--json").out
    assert secret not in answer
    assert size == len(team.batches())
    shown = [(row["id"], row["kind"], row["body"]) for row in json.loads(answer)["pending"]]
    team.sync("anna")
    left = [json.loads(line) for batch in team.batches()[size:] for line in batch.raw.decode().splitlines()]
    texts = [{key: value for key, value in row.get("free", {}).items() if key != "salt"} for row in left]
    assert shown == [(row["id"], row["kind"], row["body"] | text) for row, text in zip(left, texts, strict=True)]
    assert "for my eyes" not in json.dumps(left)


def test_a_program_from_before_sharing_stops(team: Team) -> None:
    """It says that it must be upgraded, takes nothing for a manual edit, and changes no byte."""
    root = team.folder / "earlier"
    lay_out(root)
    with (root / "tallybook" / "ledger" / "storage" / "head.py").open("a", encoding="utf-8") as code:
        code.write('\n_VERSIONS = {b"1": False}\n')
    log = team.ledger("anna") / "events.jsonl"
    before = log.read_bytes()
    main = "from tallybook.projections.surfaces.entry_point import main; main()"
    for words in (["show"], ["rate", "kpt_001", "helpful"], ["replay"]):
        command = [sys.executable, "-B", "-c", main, "--project", str(team.root("anna")), *words]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert (4, True) == (done.returncode, "upgrade" in done.stderr), done
    assert before == log.read_bytes()


def test_the_state_says_that_this_machine_may_only_read(team: Team) -> None:
    """`share status` has the engine's reason as of the last sync, until a sync could publish again."""
    team.run("ben", "rate", "kpt_001", "helpful")

    def refuse(*_: object) -> None:
        raise ReadOnlyError(team.address, "Ask an owner.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team.memory, "put", refuse)
        team.run("ben", "sync")
        assert "Ask an owner." in json.loads(team.run("ben", "share", "status", "--json").out)["read_only"]
        assert "\nRead-only: " in team.run("ben", "share", "status").out
    team.run("ben", "sync")
    found = json.loads(team.run("ben", "share", "status", "--json").out)
    assert ("", 0, [], []) == tuple(found[key] for key in ("read_only", "pending", "notes", "set_aside"))


def test_the_state_lists_what_was_set_aside(team: Team) -> None:
    """`share status` names each copy of the book that was set aside, and says whether it is readable."""
    folder = team.ledger("anna") / "book"
    log = folder / "1" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"short", b"SHORT"))
    team.sync("anna")
    shutil.copytree(folder / "1", folder / "1.aside-2")
    rows = json.loads(team.run("anna", "share", "status", "--json").out)["set_aside"]
    assert [("1.aside-1", False), ("1.aside-2", True)] == [(Path(row["folder"]).name, row["readable"]) for row in rows]
    told = team.run("anna", "share", "status").out
    end = rows[1]["end"]
    assert f"Set aside: {folder}/1.aside-2, readable, up to event {end} of its book" in told
    assert f"Set aside: {folder}/1.aside-1, damaged" in told
