"""``import --ledger`` of a file or a folder: what another ledger brings, what is joined, and what has no effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
import shutil

import pytest

from helpers.events import HUMAN
from helpers.example_secrets import GITHUB
from helpers.git_repositories import counts
from helpers.shared_machines import make_machines
from tallybook.ledger import histories
from tallybook.ledger.errors import CannotWriteError, LockHeldError
from tallybook.ledger.histories import Histories, write_history
from tallybook.ledger.line import LOG_NAME, START
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.sharing.ledger_copies import ImportedLedger, import_ledger
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, redact


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
    assert [] == import_ledger(here, source, dry_run=False, accept_loss=False).batches
    assert before == (here.ledger / "events.jsonl").read_bytes()
    return done


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


def test_ratings_given_here_protect_a_seeded_entry(here: Project, tmp_path: Path) -> None:
    """Harmful ratings that a ledger brings prune no entry that has more helpful ones here."""
    there = Project(tmp_path / "there")
    shutil.copytree(here.claude, there.claude)
    commands.add(there, "two", HUMAN)
    for project in (here, there):
        # The next one begins with the counts of playbook.json.
        shutil.rmtree(project.ledger)
    for _ in range(3):
        commands.rate(here, "kpt_001", "helpful", HUMAN)
        commands.record(there, {"evaluations": [{"name": "kpt_001", "rating": "harmful"}]}, HUMAN)
    bring(here, there)
    assert {"one": (4, 3), "two": (0, 0)} == counts(here)


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
    assert ["point.rated kpt_001 helpful"] == [part["item"] for part in done.ignored]


# Texts


def test_a_text_that_was_redacted_there_is_erased_here(here: Project, tmp_path: Path) -> None:
    """It was recorded before the two copies parted, in two events."""
    commands.add(here, "the name of a customer", HUMAN)
    playbook = json.loads(here.playbook.read_bytes())
    playbook["key_points"].append({**playbook["key_points"][-1], "name": "again"})
    here.playbook.write_text(json.dumps(playbook), encoding="utf-8")
    commands.replay(here)
    copy = Project(tmp_path / "copy")
    shutil.copytree(here.claude, copy.claude)
    redact.redact(copy, redact.RedactionTarget(text="the name of a customer"), "not ours", HUMAN)
    assert 2 == bring(here, copy).redacted
    assert {"one": (1, 0), "[redacted]": (0, 0)} == counts(here)


def test_a_secret_is_masked(here: Project, there: Project) -> None:
    """Also one that a person typed there, and its entry's ratings count."""
    secret = GITHUB.secret
    commands.add(there, f"use {secret}", HUMAN)
    commands.rate(there, "kpt_003", "helpful", HUMAN)
    done = bring(here, there)
    assert 1 == done.masked
    assert secret not in json.dumps(commands.show(here))
    assert (1, 0) in [count for text, count in counts(here).items() if "[masked: " in text]


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


# Histories in files of lines: found by their chains in any order, and written as a log again.


AT = "2026-11-23T12:00:00.000000Z"


@pytest.fixture
def sealed(project: Path) -> Project:
    """Return a project with three entries and a sealed tail between the last two (events 1 to 8)."""
    sealed = Project(project)
    commands.add(sealed, "one", HUMAN)
    commands.add(sealed, "two", HUMAN)
    log = sealed.ledger / LOG_NAME
    log.write_bytes(log.read_bytes() + b'{"crc":"torn')
    commands.add(sealed, "three", HUMAN)
    return sealed


def read(path: Path, *lines: bytes) -> Histories:
    """Return the histories in a file of these lines."""
    path.write_bytes(b"".join(lines))
    histories = Histories()
    fd = os.open(path, os.O_RDONLY)
    try:
        histories.add_file(fd, path.stat().st_size)
    finally:
        os.close(fd)
    return histories


def lines_of(sealed: Project) -> list[bytes]:
    """Return the lines of the log as they are in the file."""
    return (sealed.ledger / LOG_NAME).read_bytes().splitlines(keepends=True)


def write_log(histories: Histories, chain: str) -> bytes:
    """Return the log that has the history up to a chain value."""
    return b"".join(data for _, data in write_history(histories.trace_path(chain)))


def test_a_log_is_written_as_it_was(sealed: Project, tmp_path: Path) -> None:
    """With the bytes that a line seals, so that each offset in it stays right."""
    histories = read(tmp_path / "log", *lines_of(sealed))
    (chain,) = histories.find_ends()
    assert (sealed.ledger / LOG_NAME).read_bytes() == write_log(histories, chain)
    assert 0 == len(histories.unproven)


def test_batches_are_found_in_any_order(sealed: Project, tmp_path: Path) -> None:
    """A batch that comes before the one that it follows waits for it; the sealed bytes stay where they were."""
    first, *rest = lines_of(sealed)
    second, third = rest[:2], rest[2:4]
    histories = read(tmp_path / "log", *third, *second, first)
    assert [5] == [histories.links[chain].batch.last for chain in histories.find_ends()]
    assert b"".join([first, *second, *third]) == write_log(histories, histories.find_ends()[0])


def test_long_batches_of_both_sides_of_a_merge_are_found(sealed: Project, tmp_path: Path) -> None:
    """Batches of the same events' numbers and length have more mixtures than are tried."""
    before, sides = lines_of(sealed), []
    for side in ("left", "right"):
        copy = Project(Path(shutil.copytree(sealed.root, tmp_path / side)))
        commands.record(copy, {"new_key_points": [{"text": f"{side} {number}"} for number in range(9)]}, HUMAN)
        sides += lines_of(copy)[len(before) :]
    histories = read(tmp_path / "log", *before, *sides)
    assert [18, 18] == [histories.links[chain].batch.last for chain in histories.find_ends()]
    assert not histories.unproven


def test_a_log_ends_before_a_seal_that_would_be_elsewhere(sealed: Project, tmp_path: Path) -> None:
    """Otherwise a redaction of the sealing line would erase other bytes."""
    lines = lines_of(sealed)
    torn = next(index for index, line in enumerate(lines) if b"log.recovered" in line) - 1
    without = read(tmp_path / "log", *lines[:torn], *lines[torn + 1 :])
    (chain,) = without.find_ends()
    assert 8 == without.links[chain].batch.last
    assert b"".join(lines[:torn]) == write_log(without, chain)


def test_a_redacted_version_wins(sealed: Project, tmp_path: Path) -> None:
    """Whichever version of a line comes first, its text does not come back."""
    lines = lines_of(sealed)
    index = next(number for number, line in enumerate(lines) if b'"text":"two"' in line)
    begin = lines[index].index(b'"free":') + len(b'"free":')
    redacted = lines[index][:begin] + b"null".ljust(len(lines[index]) - begin - 2) + lines[index][-2:]
    for versions in ([lines[index], redacted], [redacted, lines[index]]):
        histories = read(tmp_path / "log", *lines[:index], *versions, *lines[index + 1 : index + 2])
        assert b'"text":"two"' not in write_log(histories, histories.find_ends()[0])


# A log in place of another


def test_the_replaced_log_is_kept_each_time(sealed: Project) -> None:
    """Two in the same second get two names; the new log is acknowledged to its end."""
    data = (sealed.ledger / LOG_NAME).read_bytes()
    end = reading.open_log(sealed).head()
    for _ in range(2):
        histories.replace_log(sealed.ledger, data, end, AT, histories.identify_log(sealed.ledger))
    names = {path.name for path in (sealed.ledger / "quarantine").glob("*.jsonl")}
    assert {"events-20261123T120000.jsonl", "events-20261123T120000-2.jsonl"} == names
    assert end[:3] == reading.open_log(sealed).head()[:3]
    assert verify(reading.open_log(sealed)).ok


def test_a_log_that_changed_meanwhile_stays(sealed: Project) -> None:
    """So does one whose lock another process holds."""
    seen = histories.identify_log(sealed.ledger)
    commands.add(sealed, "four", HUMAN)
    data = (sealed.ledger / LOG_NAME).read_bytes()
    with pytest.raises(CannotWriteError, match="was changed by another program"):
        histories.replace_log(sealed.ledger, b"", START, AT, seen)
    with JsonlLog(sealed.ledger).transaction(), pytest.raises(LockHeldError):
        histories.replace_log(sealed.ledger, b"", START, AT, histories.identify_log(sealed.ledger))
    assert data == (sealed.ledger / LOG_NAME).read_bytes()
