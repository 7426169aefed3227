"""The verbs that look after a shared book: verify, repair, upgrade, publish; and programs of other versions."""

from __future__ import annotations

import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
from time import process_time
from typing import Any

import click
import pytest

from helpers.commands import Run, lay_out
from helpers.engines import git_engine
from helpers.example_secrets import EXAMPLES
from helpers.git_repositories import make_remote
from helpers.memory_store import make_run
from helpers.shared_machines import Team, make_team
from tallybook.ledger.codec import encode
from tallybook.ledger.events import BookRules
from tallybook.ledger.line import Stamp, frame
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.book import cut_runs
from tallybook.ledger.sharing.engine import BookLocation, Engine, ReadOnlyError
from tallybook.ledger.sharing.replica import find_redactions
from tallybook.projections.surfaces.cli import sharing
from tallybook.projections.surfaces.sharing import syncing

ON_BOTH = pytest.mark.parametrize("team", ["memory", "git"], indirect=True)


@ON_BOTH
def test_a_run_that_does_not_count_is_listed_and_repaired(duo: Team) -> None:
    """`share verify` names its place; `share repair` stores the runs that count anew, and the machines go on."""
    assert 0 == duo.run("anna", "share", "verify").code
    before = [batch.raw for batch in duo.batches()]
    foreign, _ = make_run(duo.batches()[-1].position._replace(chain="0" * 32), "stranger", "kpt_001")
    with duo.open_engine() as engine:
        engine.append(engine.read(0).end, [foreign])
    duo.run("anna", "rate", "kpt_001", "helpful")
    duo.sync("anna")
    assert 1 == len(json.loads(duo.run("ben", "sync", "--json").out)["skipped"])
    found = json.loads(duo.run("anna", "share", "verify", "--json", code=1).out)
    assert (1, 0) == (len(found["skipped"]), found["differs"])
    assert "does not count" in duo.run("anna", "share", "verify", code=1).out
    for machine in ("anna", "ben"):
        assert f"{found['skipped'][0]['place']}: does not count: " in duo.run(machine, "doctor", code=None).out
    duo.run("anna", "share", "repair", "--yes")
    duo.sync("ben")
    for machine in ("anna", "ben"):
        assert "does not count" not in duo.run(machine, "doctor", code=None).out
    assert "count" in duo.run("ben", "share", "verify").out
    assert before == [batch.raw for batch in duo.batches()][: len(before)]
    duo.run("ben", "rate", "kpt_001", "helpful")
    duo.sync("ben", "anna")
    assert ("Run the tests first", 2, 0) == duo.entries("anna")["kpt_001"]
    assert duo.entries("anna") == duo.entries("ben")
    assert "left out: 0 runs" in duo.run("ben", "share", "repair", "--yes").out


def test_a_machine_that_does_not_know_the_rules_stops_there(duo: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes in what was before them, appends nothing, and says that it must be upgraded; then it goes on."""
    duo.run("anna", "rate", "kpt_001", "helpful")
    assert "rules 1, before 1;" in duo.run("anna", "share", "upgrade", "--yes").out
    with monkeypatch.context() as later:
        later.setattr(book, "NEWEST", 2)
        assert "rules 2" in duo.run("anna", "share", "upgrade", "--yes").out
        duo.run("anna", "rate", "kpt_001", "helpful")
        duo.sync("anna")
    duo.run("ben", "rate", "kpt_002", "helpful")
    size = len(duo.ids())
    for _ in range(2):
        assert "upgrade to go on" in duo.run("ben", "sync").err
    assert size == len(duo.ids())
    assert ("Run the tests first", 1, 0) == duo.entries("ben")["kpt_001"]
    assert ("Write short commits", 1, 0) == duo.entries("ben")["kpt_002"]
    monkeypatch.setattr(book, "NEWEST", 2)
    duo.sync("ben", "anna")
    assert duo.entries("anna") == duo.entries("ben")
    assert ("Run the tests first", 2, 0) == duo.entries("ben")["kpt_001"]


def test_rules_that_no_version_has_are_taken_out_by_a_person(duo: Team) -> None:
    """Until then machines take in what was before and say what to type; `share repair` alone changes nothing."""
    duo.run("ben", "add", "Name units")
    end = duo.batches()[-1].position
    by = {"rater": "tallybook", "writer": "mallory-0a1b2c3d"}
    forged = frame([encode(BookRules(2))], Stamp(end, end.at, by, lambda: "forged", lambda: "salt"))
    with duo.open_engine() as engine:
        engine.append(engine.read(0).end, cut_runs([forged], end, 1))
    told = duo.run("ben", "sync").err
    number = told.partition("--without ")[2].partition("`")[0]
    assert f"run {number}, by 'mallory-0a1b2c3d', as it says: it changes the book to rules 2" in told
    assert f"--without {number}" in duo.run("anna", "share", "verify", code=1).out
    before = duo.batches()
    for code, words in ((4, ()), (2, ("--without", "1"))):
        assert "run" in duo.run("anna", "share", "repair", "--yes", *words, code=code).err
    assert before == duo.batches()
    duo.run("anna", "share", "repair", "--without", number, "--yes")
    duo.sync("ben", "anna")
    assert "Name units" in {text for text, _, _ in duo.entries("anna").values()}
    assert duo.entries("anna") == duo.entries("ben")


def test_a_writer_learns_who_redacted_a_text(team: Team) -> None:
    """The next sync says so, on a terminal or not, and `share verify` counts the redactions of each machine."""
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


def test_a_masked_text_is_published_on_demand(duo: Team) -> None:
    """A secret lands masked while its ratings flow; `share publish` appends the text as it is, and nothing else."""
    secret = EXAMPLES[0].text
    duo.run("anna", "add", f"Use {secret} in tests only")
    duo.run("anna", "rate", "kpt_003", "helpful")
    duo.sync("anna", "ben")
    text, helpful, _ = next(row for row in duo.entries("ben").values() if row[1])
    assert 1 == helpful
    assert secret not in text
    assert all(secret.encode() not in batch.raw for batch in duo.batches())
    assert "published as it is" in duo.run("anna", "share", "publish", "2", "--yes", code=2).err
    assert "EVENT" in duo.run("anna", "share", "publish", "--yes", code=2).err
    number = next(
        row["seq"]
        for row in map(json.loads, (duo.ledger("anna") / "events.jsonl").read_text().splitlines())
        if secret in json.dumps(row)
    )
    duo.run("anna", "share", "publish", str(number), "--yes")
    duo.sync("ben")
    assert f"Use {secret} in tests only" in [row[0] for row in duo.entries("ben").values()]
    assert duo.entries("anna") == duo.entries("ben")


def test_a_dry_run_shows_what_then_leaves(duo: Team) -> None:
    """Ids, kinds, bodies and texts are those that the engine gets afterwards, a masked secret included."""
    secret = EXAMPLES[0].text
    duo.run("anna", "add", f"Use {secret} in tests only")
    duo.run("anna", "rate", "kpt_001", "helpful", "--session", "s1")
    duo.run("anna", "retire", "kpt_002", "--reason", "for my eyes")
    size = len(duo.batches())
    answer = duo.run("anna", "sync", "--dry-run", "--json").out
    assert secret not in answer
    assert size == len(duo.batches())
    shown = [(row["id"], row["kind"], row["body"]) for row in json.loads(answer)["pending"]]
    duo.sync("anna")
    left = [json.loads(line) for batch in duo.batches()[size:] for line in batch.raw.decode().splitlines()]
    texts = [{key: value for key, value in row.get("free", {}).items() if key != "salt"} for row in left]
    assert shown == [(row["id"], row["kind"], row["body"] | text) for row, text in zip(left, texts, strict=True)]
    assert "for my eyes" not in json.dumps(left)


def test_a_program_from_before_sharing_stops(duo: Team) -> None:
    """It says that it must be upgraded, takes nothing for a manual edit, and changes no byte."""
    root = duo.folder / "earlier"
    lay_out(root)
    with (root / "tallybook" / "ledger" / "storage" / "head.py").open("a", encoding="utf-8") as code:
        code.write('\n_VERSIONS = {b"1": False}\n')
    log = duo.ledger("anna") / "events.jsonl"
    before = log.read_bytes()
    main = "from tallybook.__main__ import main; main()"
    for words in (["show"], ["rate", "kpt_001", "helpful"], ["replay"]):
        command = [sys.executable, "-B", "-c", main, "--project", str(duo.root("anna")), *words]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        assert (4, True) == (done.returncode, "upgrade" in done.stderr), done
    assert before == log.read_bytes()


def test_the_state_says_that_this_machine_may_only_read(duo: Team) -> None:
    """`share status` has the engine's reason as of the last sync, until a sync could publish again."""
    duo.run("ben", "rate", "kpt_001", "helpful")

    def refuse(*_: object) -> None:
        raise ReadOnlyError(duo.address, "Ask an owner.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duo.memory, "put", refuse)
        duo.run("ben", "sync")
        assert "Ask an owner." in json.loads(duo.run("ben", "share", "status", "--json").out)["read_only"]
        assert "\nRead-only: " in duo.run("ben", "share", "status").out
    duo.run("ben", "sync")
    found = json.loads(duo.run("ben", "share", "status", "--json").out)
    assert ("", 0, [], []) == tuple(found[key] for key in ("read_only", "pending", "notes", "set_aside"))


def test_the_state_lists_what_was_set_aside(duo: Team) -> None:
    """`share status` names each copy of the book that was set aside, and says whether it is readable."""
    folder = duo.ledger("anna") / "book"
    log = folder / "1" / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"short", b"SHORT"))
    duo.sync("anna")
    shutil.copytree(folder / "1", folder / "1.aside-2")
    rows = json.loads(duo.run("anna", "share", "status", "--json").out)["set_aside"]
    assert [("1.aside-1", False), ("1.aside-2", True)] == [(Path(row["folder"]).name, row["readable"]) for row in rows]
    told = duo.run("anna", "share", "status").out
    end = rows[1]["end"]
    assert f"Set aside: {folder}/1.aside-2, readable, up to event {end} of its book" in told
    assert f"Set aside: {folder}/1.aside-1, damaged" in told


# A team moves its book to another engine: by one command of one person, and a yes of each of the others.


pytest.importorskip("obstore")


@pytest.fixture
def trio(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return three machines that share a book through git."""
    team = make_team("git", tmp_path, run, monkeypatch)
    for machine in ("anna", "ben", "cleo"):
        team.run(machine, "add", f"Advice of {machine}")
        team.share(machine)
    team.sync("anna", "ben")
    (tmp_path / "store").mkdir()
    return team


def address_of(trio: Team) -> str:
    """Return the address of the object store that the trio moves to."""
    return f"file://{trio.folder}/store"


def move(trio: Team, machine: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Move the book, or follow it, and return the answer."""
    done = trio.run(machine, "share", "objects", address_of(trio), "--yes", "--json", *words, code=code)
    answer: dict[str, Any] = json.loads(done.out) if done.out else {}
    return answer


def test_a_team_moves_from_git_to_an_object_store(trio: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine moves, one was away, one wrote meanwhile: each says yes once, and every rating counts once."""
    before = trio.entries("anna")
    trio.run("ben", "rate", "kpt_001", "helpful")
    dry = trio.run("anna", "share", "objects", address_of(trio), "--dry-run", "--json")
    assert (trio.address, "") == (json.loads(dry.out)["former"], json.loads(dry.out)["book"])
    assert before == trio.entries("anna")
    done = move(trio, "anna")
    assert (None, "", 0) == (done["moved"], done["unsealed"], done["restored"])
    trio.run("anna", "rate", "kpt_001", "helpful")
    trio.sync("anna")
    # Ben's sync names the new place, and nothing of his leaves before he says yes.
    told = json.loads(trio.run("ben", "sync", "--json", code=1).out)
    assert {"engine": "objects", "address": address_of(trio), "name": "main"} == told["moved"]
    assert (1, 0) == (told["pending"], told["published"])
    command = f"tallybook share objects {address_of(trio)} --book main"
    for words, code in ((("sync",), 1), (("share", "status"), 0), (("doctor",), None)):
        answer = trio.run("ben", *words, code=code)
        assert command in answer.out + answer.err
    assert address_of(trio) == json.loads(trio.run("ben", "share", "status", "--json").out)["moved"]["address"]
    monkeypatch.setattr(sharing, "can_ask", lambda: True)
    asked: list[str] = []

    def say_yes(text: str, **_: bool) -> bool:
        asked.append(text)
        return True

    monkeypatch.setattr(click, "confirm", say_yes)
    for machine in ("ben", "cleo"):
        trio.run(machine, "sync")
        trio.run(machine, "sync")
    assert ["Go on there?"] * 2 == asked
    trio.sync("anna")
    assert {"Advice of anna": 2, "Advice of ben": 0, "Advice of cleo": 0} == {
        text: helpful for text, helpful, _ in trio.entries("anna").values()
    }
    for machine in ("ben", "cleo"):
        assert trio.entries("anna") == trio.entries(machine)
        trio.run(machine, "share", "verify")


def test_who_appends_while_the_book_moves_loses_nothing(trio: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that comes in between the copy and the seal takes the seal's number, and is copied before the next one."""
    put_missing, turns = syncing.put_missing, [0]

    def copy_and_be_late(*words: Any, **options: Any) -> int:
        copied = put_missing(*words, **options)
        turns[0] += 1
        if turns[0] == 1:
            trio.run("ben", "rate", "kpt_001", "helpful")
            trio.sync("ben")
            trio.run("anna", "show")
        return copied

    monkeypatch.setattr(syncing, "put_missing", copy_and_be_late)
    move(trio, "anna")
    assert 2 == turns[0]
    assert ("Advice of anna", 1, 0) == trio.entries("anna")["kpt_001"]
    move(trio, "ben")
    assert trio.entries("anna") == trio.entries("ben")


def test_a_move_that_dies_goes_on(trio: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the seal nothing has changed for anyone; killed after it the machine follows like the others."""
    seal = Engine.seal
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "seal", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            move(trio, "anna")
    trio.run("ben", "rate", "kpt_001", "helpful")
    trio.sync("ben", "anna")
    assert ("Advice of anna", 1, 0) == trio.entries("anna")["kpt_001"]
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "seal", lambda *words: 1 / (seal(*words) is None))
        with pytest.raises(ZeroDivisionError):
            move(trio, "anna")
    assert json.loads(trio.run("anna", "sync", "--json", code=1).out)["moved"]
    for machine in ("anna", "ben"):
        move(trio, machine)
    assert trio.entries("anna") == trio.entries("ben")


def test_a_book_moves_back_and_a_false_seal_is_lifted(trio: Team) -> None:
    """Fresh runs after a seal bring the book back; `share repair` lifts a seal that somebody forged."""
    move(trio, "anna")
    trio.run("anna", "rate", "kpt_001", "helpful")
    trio.share("anna")
    assert json.loads(trio.run("ben", "sync", "--json").out)["moved"] is None
    assert trio.entries("anna") == trio.entries("ben")
    with trio.open_engine() as engine:
        engine.seal(engine.read(0).end, BookLocation("git", "https://example.com/evil", "main"))
    trio.run("ben", "rate", "kpt_001", "helpful")
    assert 1 == json.loads(trio.run("ben", "sync", "--json", code=1).out)["pending"]
    assert "moved to" in trio.run("ben", "share", "objects", address_of(trio), "--yes", code=2).err
    trio.run("ben", "share", "repair", "--yes")
    trio.sync("ben", "anna")
    assert ("Advice of anna", 2, 0) == trio.entries("anna")["kpt_001"]


def test_a_reader_follows_a_book_as_a_reader(trio: Team) -> None:
    """The command that its answers name for the new place keeps the machine from publishing."""
    trio.share("ben", "--read-only")
    move(trio, "anna")
    command = f"tallybook share objects {address_of(trio)} --book main --read-only"
    for words, code in ((("sync",), 1), (("share", "status"), 0)):
        answer = trio.run("ben", *words, code=code)
        assert command in answer.out + answer.err


def test_a_project_that_shares_again_elsewhere_moves_the_book(trio: Team) -> None:
    """Who turned sharing off and types another address moves the book; no engine is said to have lost it."""
    trio.run("anna", "share", "off")
    assert 0 == move(trio, "anna")["restored"]
    assert json.loads(trio.run("ben", "sync", "--json", code=1).out)["moved"]["address"] == address_of(trio)


def test_a_team_leaves_a_host_that_is_gone(trio: Team) -> None:
    """The old place cannot say where the book is, so the answer says what to type on the other machines."""
    shutil.rmtree(trio.address)
    assert "cannot be reached" in move(trio, "anna")["unsealed"]
    assert "" == move(trio, "ben")["unsealed"]
    assert trio.entries("anna") == trio.entries("ben")


def test_a_book_is_not_moved_onto_another_one(trio: Team, tmp_path: Path) -> None:
    """A place that has another book is refused before anything is sealed."""
    trio.run("dora", "add", "Another trio's advice")
    trio.run("dora", "share", "objects", address_of(trio), "--book", "main", "--yes")
    move(trio, "anna", code=3)
    engine = git_engine(trio.address, "main", str(tmp_path / "reader"))
    assert engine.read(0).moved is None


def test_a_folder_whose_name_is_not_utf_8_has_a_page_and_shares(project: Path, run: Run) -> None:
    """The page shows another character for each such byte, and sharing finds the folder again."""
    folder = project / os.fsdecode(b"\xff\xfe")
    (folder / ".claude").mkdir(parents=True)
    here = ("--project", str(folder))
    assert 0 == run(*here, "add", "Use type hints").code
    assert 0 == run(*here, "page", "--output", str(project / "page.html")).code
    assert "??" in (project / "page.html").read_text(encoding="utf-8")
    remote = str(make_remote(project / "remote.git"))
    assert 0 == run(*here, "share", "git", remote, "--book", "team", "--yes").code
    assert 0 == run(*here, "sync").code
    off = run(*here, "share", "off").out
    assert f"run: tallybook share git {remote} --book team\n" in off
