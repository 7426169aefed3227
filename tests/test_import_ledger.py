"""``import --ledger`` of a file or a folder: what another ledger brings, what is joined, and what counts nothing."""

from __future__ import annotations

import json
import os
from random import Random
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.events import list_events
from helpers.example_secrets import GITHUB
from helpers.git_ledgers import counts
from helpers.reference_model import extraction
from helpers.shared_machines import make_machines
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories.joining import import_ledger
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing import redact, requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from helpers.command_line import Answer
    from tallybook.projections.surfaces.histories.joining import ImportedLedger


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry and one rating."""
    here = Project(project)
    commands.add(here, "one", HUMAN)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    return here


@pytest.fixture
def there(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return another project with a ledger of its own: two entries, the second with the text of the other's first."""
    there = Project(tmp_path_factory.mktemp("there"))
    commands.add(there, "two", HUMAN)
    commands.add(there, "one", HUMAN)
    commands.rate(there, "kpt_001", "helpful", HUMAN)
    commands.rate(there, "kpt_002", "harmful", HUMAN)
    return there


def bring(here: Project, there: Project | Path) -> ImportedLedger:
    """Import another project's ledger, and check that the ledger is whole afterwards and that a repeat adds nothing."""
    source = str(there.root if isinstance(there, Project) else there)
    done = import_ledger(here, source, dry_run=False, accept_loss=False)
    assert [] == list(verify(reading.open_log(here)).problems)
    commands.check(here)
    before = (here.ledger / "events.jsonl").read_bytes()
    assert [] == import_ledger(here, source, dry_run=False, accept_loss=False).arrival.batches
    assert before == (here.ledger / "events.jsonl").read_bytes()
    return done


def test_another_ledger_is_joined(here: Project, there: Project) -> None:
    """A name that is taken becomes the next free one, an equal text is one entry, and every rating counts."""
    done = bring(here, there)
    assert {"one": (1, 1), "two": (1, 0)} == counts(here)
    assert {"kpt_002": "kpt_001"} == done.arrival.joined
    assert {"kpt_001": "kpt_002"} == done.arrival.renamed
    assert (["kpt_002"], 2, []) == (done.arrival.added, done.arrival.ratings, done.arrival.ignored)


@pytest.mark.parametrize("place", [".claude", ".claude/ledger/events.jsonl"])
def test_a_ledger_is_found_in_a_folder(here: Project, there: Project, place: str) -> None:
    """The project's, the agent's or the ledger's folder, or the file itself."""
    bring(here, there.root / place)
    assert {"one": (1, 1), "two": (1, 0)} == counts(here)


def test_ids_times_and_authors_are_kept(here: Project, there: Project) -> None:
    """An event happened when it was recorded there, and was recorded here now."""
    source = {event["id"]: event for event in list_events(there)}
    bring(here, there)
    arrived = [event for event in list_events(here) if event["id"] in source]
    assert 6 <= len(arrived)
    for event in arrived:
        before = source[event["id"]]
        assert (before["by"], before["at"]) == (event["by"], event["when"])
        # The text of one entry is here already.
        kind = "point.matched" if event["body"].get("to") else before["kind"]
        assert kind == event["kind"]


def test_two_that_adopted_the_same_file_count_it_once(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The file's 3 and the 5 ratings of each make 13, neither 8 nor 16."""
    entry = {"name": "kpt_001", "text": "one", "helpful": 3, "harmful": 0}
    projects = [Project(tmp_path), Project(tmp_path_factory.mktemp("other"))]
    for project in projects:
        project.claude.mkdir(exist_ok=True)
        project.playbook.write_text(json.dumps({"key_points": [entry]}))
        for _ in range(5):
            commands.rate(project, "kpt_001", "helpful", HUMAN)
    bring(*projects)
    assert {"one": (13, 0)} == counts(projects[0])


@pytest.mark.parametrize("sources", [["whole"], ["half"], ["half", "whole"]])
def test_a_lost_ledger_comes_back_with_each_rating_once(here: Project, tmp_path: Path, sources: list[str]) -> None:
    """A ledger that began with the counts of a lost one takes these off for the ratings that a copy brings."""
    for copy in ("half", "whole"):
        for name in ("kpt_001", "kpt_001", commands.add(here, copy, HUMAN).added[0]):
            commands.rate(here, name, "helpful", HUMAN)
        shutil.copytree(here.ledger, tmp_path / copy)
    shutil.rmtree(here.ledger)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    for source in sources:
        bring(here, tmp_path / source)
        assert {"one": (6, 0), "half": (1, 0), "whole": (1, 0)} == counts(here)


def test_names_of_a_ledger_that_shared_a_book_mean_what_they_meant_there(here: Project, tmp_path: Path) -> None:
    """After a sync its kpt_002 is what it made as kpt_001, and its kpt_001 another machine's, which is not here."""
    anna, ben = make_machines(tmp_path, "anna", "ben")
    commands.add(anna.project, "From Anna", HUMAN)
    commands.add(ben.project, "First of Ben", HUMAN)
    commands.add(ben.project, "Second of Ben", HUMAN)
    for machine in (anna, ben):
        machine.sync()
    assert {"kpt_001": ("From Anna", 0, 0), "kpt_002": ("First of Ben", 0, 0)}.items() <= ben.entries().items()
    for name in ("kpt_001", "kpt_002"):
        assert 0 == ben.run("rate", name, "helpful").code
    done = import_ledger(here, str(ben.project.root), dry_run=False, accept_loss=False)
    assert {"First of Ben": (1, 0), "Second of Ben": (0, 0)}.items() <= counts(here).items()
    assert "From Anna" not in counts(here)
    assert ["point.rated kpt_001 helpful"] == [part.item for part in done.arrival.ignored]


def test_a_delivery_under_one_key_counts_once(here: Project, there: Project) -> None:
    """Two machines were sent the same delivery: its entries are here, and its ratings count nothing."""
    for project in (here, there):
        commands.record(project, extraction(("kpt_001", "helpful"), new=["of the delivery"]), HUMAN, "k1")
    done = bring(here, there)
    assert {"one": (2, 1), "of the delivery": (0, 0), "two": (1, 0)} == counts(here)
    assert ["its delivery k1 is recorded here already"] == [part.reason for part in done.arrival.ignored]


def test_ratings_of_a_pruned_entry_are_named(here: Project, tmp_path: Path) -> None:
    """They count nothing, as in any ledger, and the answer names `restore`."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    for _ in range(5):
        commands.rate(here, "kpt_001", "harmful", HUMAN)
    assert {} == counts(here)
    commands.rate(copy, "kpt_001", "helpful", HUMAN)
    done = bring(here, copy)
    assert 0 == done.arrival.ratings
    assert ["kpt_001 is not in the playbook any more; `tallybook restore kpt_001` brings it back"] == [
        part.reason for part in done.arrival.ignored
    ]


def test_a_manual_edit_lands_as_its_difference(here: Project, tmp_path: Path) -> None:
    """Two more that a person typed there are two more here."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    copy.playbook.write_text(copy.playbook.read_text().replace('"helpful": 1', '"helpful": 3'))
    commands.replay(copy)
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    bring(here, copy)
    assert {"one": (4, 0)} == counts(here)


def test_curation_of_a_joined_entry_means_the_standing_one(
    here: Project, there: Project, run: Callable[..., Answer]
) -> None:
    """Also in a later import than the one that joined the two."""
    bring(here, there)
    assert 0 == run("--project", str(there.root), "reword", "kpt_002", "one, said better").code
    assert 0 == run("--project", str(there.root), "pin", "kpt_002").code
    bring(here, there)
    assert {"one, said better": (1, 1), "two": (1, 0)} == counts(here)
    assert ["kpt_001"] == sorted(reading.current(reading.open_log(here)).pinned)


def test_an_undo_lands(here: Project, tmp_path: Path) -> None:
    """What was undone there is undone here, a rating of the common beginning too; undone ratings do not count."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    rated = [event["id"] for event in list_events(copy) if event["kind"] == "point.rated"]
    recording.write(copy, [requests.Request(requests.make_undo(tuple(rated)), HUMAN)])
    assert {"one": (0, 0)} == counts(copy)
    commands.rate(here, "kpt_001", "harmful", HUMAN)
    bring(here, copy)
    assert {"one": (0, 1)} == counts(here)


# Texts


def test_a_text_that_was_redacted_here_does_not_come_back(here: Project, there: Project) -> None:
    """Its entry is left out, the ratings of it count nothing, and the answer names the redaction."""
    commands.add(here, "the name of a customer", HUMAN)
    redact.redact(here, redact.RedactionTarget(text="the name of a customer"), "not ours", HUMAN)
    commands.add(there, "call the name of a customer", HUMAN)
    commands.rate(there, "kpt_003", "helpful", HUMAN)
    done = bring(here, there)
    assert {"one": (1, 1), "[redacted]": (0, 0), "two": (1, 0)} == counts(here)
    first, second = done.arrival.ignored
    assert "point.added kpt_003" == first.item
    assert "the text was redacted by event" in first.reason
    assert ("point.rated kpt_003 helpful", "the entry that it rates is not here") == (second.item, second.reason)


def test_a_text_that_was_redacted_there_is_erased_here(here: Project, tmp_path: Path) -> None:
    """It was recorded before the two copies parted."""
    commands.add(here, "the name of a customer", HUMAN)
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    redact.redact(copy, redact.RedactionTarget(text="the name of a customer"), "not ours", HUMAN)
    done = bring(here, copy)
    assert 1 == done.redacted
    assert {"one": (1, 0), "[redacted]": (0, 0)} == counts(here)
    assert [] == [
        path for path in here.claude.rglob("*") if path.is_file() and b"name of a customer" in path.read_bytes()
    ]


def test_a_secret_is_masked(here: Project, there: Project) -> None:
    """Also one that a person typed there, and its entry's ratings count."""
    secret = GITHUB.secret
    commands.add(there, f"use {secret}", HUMAN)
    commands.rate(there, "kpt_003", "helpful", HUMAN)
    done = bring(here, there)
    assert 1 == done.arrival.masked
    assert secret not in json.dumps(commands.show(here))
    assert (1, 0) in [count for text, count in counts(here).items() if "[masked: " in text]


# Refusals


def test_an_empty_path_is_refused(here: Project, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty path, as an unset variable gives it, does not mean the working directory."""
    monkeypatch.chdir(here.root)
    answer = run("import", "--ledger", "")
    assert (2, "") == (answer.code, answer.out)
    assert answer.err.startswith("tallybook: --ledger: its path is empty; ")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nowhere", "cannot be read: No such file or directory"),
        ("empty", "is a folder without a ledger"),
        ("notes.txt", "has no event that its chain proves"),
        ("pipe", "cannot be read: is not a regular file"),
        ("git:HEAD", "not a git repository"),
    ],
)
def test_what_is_no_ledger_is_refused(
    here: Project, run: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    """One line, exit code 2, and nothing is recorded."""
    monkeypatch.chdir(here.root)
    (here.root / "empty").mkdir()
    (here.root / "notes.txt").write_text("nothing\n")
    os.mkfifo(here.root / "pipe")
    before = (here.ledger / "events.jsonl").read_bytes()
    answer = run("import", "--ledger", source)
    assert 2 == answer.code
    assert f"tallybook: --ledger {source}: " in answer.err
    assert says in answer.err
    assert 1 == len(answer.err.splitlines())
    assert before == (here.ledger / "events.jsonl").read_bytes()


@pytest.mark.usefixtures("here")
def test_a_ledger_from_the_future_is_refused(there: Project, run: Callable[..., Answer]) -> None:
    """It asks for an upgrade, with exit code 4."""
    log = there.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"format":1', b'"format":9', 1))
    answer = run("import", "--ledger", str(there.root))
    assert 4 == answer.code
    assert "upgrade Tallybook" in answer.err


def test_changed_lines_are_left_out_and_counted(here: Project, there: Project, run: Callable[..., Answer]) -> None:
    """What no chain proves brings nothing."""
    log = there.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"rating":"harmful"', b'"rating":"helpful"', 1))
    answer = run("import", "--ledger", str(there.root))
    assert 0 == answer.code
    assert "note: 2 lines left out: no chain from a first line proves them" in answer.err
    assert {"one": (1, 0), "two": (1, 0)} == counts(here)


def test_a_damaged_ledger_is_made_whole_from_a_copy(here: Project, tmp_path: Path) -> None:
    """Plain damage too, if a copy has the acknowledged end; what the copy has more lands as well."""
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    commands.rate(copy, "kpt_001", "helpful", HUMAN)
    log = here.ledger / "events.jsonl"
    log.write_bytes(log.read_bytes()[:-300])
    with pytest.raises(DamagedLedgerError):
        commands.show(here)
    done = bring(here, copy)
    assert 5 == done.kept
    assert {"one": (2, 0)} == counts(here)


# Histories at random


@pytest.mark.parametrize("seed", range(6))
def test_any_histories_add_up(tmp_path: Path, seed: int) -> None:
    """Copies that part, go on and import each other in any order end with the same counts, each rating once."""
    chance = Random(seed)  # noqa: S311 - the same histories in every run
    copies = [Project(tmp_path / "0")]
    copies[0].root.mkdir()
    given: dict[str, int] = {}
    for _ in range(25):
        project = chance.choice(copies)
        texts = list(counts(project))
        what = chance.random()
        if what < 0.15 and len(copies) < 3:
            copy = Project(tmp_path / str(len(copies)))
            shutil.copytree(project.root, copy.root) if project.claude.exists() else copy.root.mkdir()
            copies.append(copy)
        elif what < 0.4 or not texts:
            text = f"text {chance.randrange(12)}"
            given.setdefault(text, 0)
            # A report may repeat a text, which `add` refuses.
            commands.record(project, {"new_key_points": [text]}, HUMAN)
        elif what < 0.8:
            names = {entry["text"]: entry["name"] for entry in commands.show(project)["key_points"]}
            text = chance.choice(texts)
            given[text] += 1
            commands.rate(project, names[text], "helpful", HUMAN)
        elif (other := chance.choice(copies)) is not project and other.claude.exists():
            bring(project, other)
    copies = [copy for copy in copies if copy.claude.exists()]
    for _ in range(2):
        for project in copies:
            for other in copies:
                if project is not other:
                    bring(project, other)
    expected = {text: (number, 0) for text, number in given.items()}
    assert [expected] * len(copies) == [counts(copy) for copy in copies]
