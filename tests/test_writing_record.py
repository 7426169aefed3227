"""Recording: what a write imports first, its refusals, and the files that it leaves."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.authors import HUMAN
from helpers.reference_model import book, extraction, point
from tallybook import compat
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.opened import Opened
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import Import, Request, Update

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.projections.surfaces.writing.record import Outcome, WriteResult


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project without a ledger."""
    return Project(project)


def write(project: Project, *payloads: dict[str, Any]) -> WriteResult:
    """Record extraction results in one go, each as its own batch."""
    return record.write(project, [Request(Update(payload), HUMAN) for payload in payloads])


def read(project: Project) -> Any:
    """Return playbook.json from the disk."""
    return json.loads(project.playbook.read_bytes())


def kinds(project: Project) -> list[str]:
    """Return the kinds of all events."""
    return [row["kind"] for row in commands.list_events(project)]


def outcome(project: Project, what: Update | Import) -> Outcome:
    """Record one request and return its outcome."""
    (came,) = record.write(project, [Request(what, HUMAN)]).outcomes
    return came


def test_a_first_write_creates_the_ledger(here: Project) -> None:
    """A write without requests, if asked to, creates it, hides it from git and renders an empty playbook."""
    report = record.write(here, [], begin=True)
    assert (["ledger.opened"], []) == (kinds(here), read(here)["key_points"])
    assert ((), (), None) == (report.outcomes, report.problems, report.unrendered)
    assert "*\n" == (here.ledger / ".gitignore").read_text()


def test_an_existing_playbook_is_imported_first(here: Project) -> None:
    """The first write of a project with an old playbook records it unchanged, then its own requests."""
    here.playbook.write_text(json.dumps(book("bare", point("kpt_005", "full", 1, 2), 7)))
    came = outcome(here, Update(extraction(("kpt_005", "helpful"), new=["new"])))
    seeds = ["playbook.adopted", "point.seeded", "point.seeded", "item.skipped"]
    assert ["ledger.opened", *seeds, "point.added", "point.rated", "playbook.updated"] == kinds(here)
    assert (6, 8, ("kpt_006",)) == (came.seq_from, came.seq_to, came.added)
    assert [point("kpt_001", "bare"), point("kpt_005", "full", 2, 2), point("kpt_006", "new")] == read(here)[
        "key_points"
    ]


def test_each_request_is_a_batch_of_its_own(here: Project) -> None:
    """Requests of one write are in order, each closed and pruned by itself."""
    first, second = write(
        here, extraction(*[("kpt_001", "harmful")] * 3, new=["a"]), extraction(("kpt_001", "helpful"), new=["b"])
    ).outcomes
    assert ((2, 6), (7, 9)) == ((first.seq_from, first.seq_to), (second.seq_from, second.seq_to))
    # It came and went within its own update, so neither list names it.
    assert ((), ()) == (first.added, first.pruned)
    assert (("kpt_002",), ["no such entry in the playbook"]) == (second.added, [one.reason for one in second.ignored])


@pytest.mark.parametrize("bad", [{}, {"evaluations": 7}, {"points": []}])
def test_a_write_with_a_bad_request_records_none(here: Project, bad: dict[str, Any]) -> None:
    """Requests are checked before anything is opened, so a bad one leaves no trace, not even a ledger."""
    with pytest.raises(BadInputError):
        write(here, extraction(new=["good"]), bad)
    assert [] == list(here.claude.iterdir())


@pytest.mark.parametrize("by", [{}, {"rater": 5}, {"rater": None}, {"rater": "x", "host": "y"}, {"session": "s1"}])
def test_the_author_is_checked_before_it_is_written(here: Project, by: dict[str, Any]) -> None:
    """A rater that no reader could read is refused, instead of damaging the ledger for ever."""
    write(here, extraction(new=["a"]))
    before = (here.ledger / "events.jsonl").read_bytes()
    with pytest.raises(BadInputError):
        record.write(here, [Request(Update(extraction(new=["b"])), by)])
    assert before == (here.ledger / "events.jsonl").read_bytes()


def test_one_key_counts_once_within_a_write(here: Project) -> None:
    """Two requests with one key, in one write or in two, are one delivery."""
    request = Request(Update(extraction(new=["a"])), HUMAN, "delivery 7")
    first, second = record.write(here, [request, request]).outcomes
    (third,) = record.write(here, [request]).outcomes
    assert [False, True, True] == [first.repeated, second.repeated, third.repeated]
    assert 1 == kinds(here).count("point.added")


def test_a_key_may_be_any_text(here: Project) -> None:
    """A key of any length and alphabet names one delivery, and two that differ name two."""
    keys = [" ", "ключ", 'quo"te', "back\\slash", "x" * 10_000, "x" * 10_001, "new\nline"]
    for _ in range(2):
        for key in keys:
            record.write(here, [Request(Update({"evaluations": []}), HUMAN, key)])
    assert len(keys) == kinds(here).count("playbook.updated")
    assert () == commands.verify(here).problems


def test_an_import_adds_missing_entries(here: Project) -> None:
    """A file imported into a later playbook gets new names for used ones, and each text is added once."""
    write(here, extraction(new=["a", "b"]))
    file = json.dumps(book(point("kpt_001", "mine", 3, 1), point("kpt_009", "b"), "c")).encode()
    came = outcome(here, Import(read_legacy(file)))
    points = {kp["text"]: kp for kp in read(here)["key_points"]}
    assert ["a", "b", "mine", "c"] == list(points)
    assert (3, 1) == (points["mine"]["helpful"], points["mine"]["harmful"])
    assert 4 == len({kp["name"] for kp in points.values()})
    assert 2 == len(came.added)


def test_importing_the_projects_own_playbook_adds_it_once(here: Project) -> None:
    """The file that the first write imports anyway is not imported twice."""
    here.playbook.write_text(json.dumps(book("a", "b")))
    came = outcome(here, Import(read_legacy(here.playbook.read_bytes())))
    assert (("kpt_001", "kpt_002"), 1) == (came.added, kinds(here).count("playbook.adopted"))
    assert ["a", "b"] == [kp["text"] for kp in read(here)["key_points"]]


def test_sessions_that_name_the_same_keep_both_texts(here: Project) -> None:
    """Of two sessions that gave one name, the later save renames its entry, and its later ratings follow it."""
    first, second = compat.load_playbook(), compat.load_playbook()
    compat.save_playbook(compat.update_playbook_data(first, extraction(new=["theirs"])))
    compat.update_playbook_data(second, extraction(new=["mine"]))
    compat.update_playbook_data(second, extraction(("kpt_001", "helpful")))
    compat.save_playbook(second)
    assert [point("kpt_001", "theirs"), point("kpt_002", "mine", 1)] == read(here)["key_points"]
    assert [point("kpt_002", "mine", 1)] == second["key_points"]


def test_an_event_is_recorded_although_the_file_cannot_be_rendered(
    here: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook.json that cannot be written loses no event: the report says so, and the next write renders both."""
    write(here, extraction(new=["a"]))
    before = here.playbook.read_bytes()

    def refuse(path: Path, *_: object, **_options: object) -> bool:
        raise CannotWriteError(path, "No space left on device", "the file is unchanged")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "replace_file", refuse)
        report = write(here, extraction(new=["b"]))
    assert report.unrendered is not None
    assert "No space left on device" in str(report.unrendered)
    assert (4, 5) == (report.outcomes[0].seq_from, report.outcomes[0].seq_to)
    assert before == here.playbook.read_bytes()
    write(here)
    assert ["a", "b"] == [kp["text"] for kp in read(here)["key_points"]]


def test_a_rendering_never_goes_back(here: Project) -> None:
    """A slow writer leaves the later rendering of another in place."""
    write(here, extraction(new=["a"]))
    opened = Opened(here)
    slow = opened.playbook()
    write(here, extraction(new=["b"]))
    late = here.playbook.read_bytes()
    assert playbook_file.render(opened, slow, playbook_file.ExaminedFile())
    assert late == here.playbook.read_bytes()


def test_a_rendering_shows_later_events(here: Project) -> None:
    """The renderer reads the ledger once more, for writers that could not render themselves."""
    write(here, extraction(new=["a"]))
    log = reading.open_log(here)
    state = reading.current(log)
    with log.transaction() as tx:
        under_lock = reading.current(log)
        record.record_all(tx, under_lock, [Request(Update(extraction(new=["b"])), HUMAN)])
    log.close()
    record.write(here, [])
    assert state.seq < reading.current(reading.open_log(here)).seq
    assert ["a", "b"] == [kp["text"] for kp in read(here)["key_points"]]


def test_a_state_reads_on_from_its_position(here: Project) -> None:
    """Reading continues at the position after a state; at the start it is the beginning."""
    log = reading.open_log(here)
    assert [] == list(log.read(reading.position_of(reading.current(log))))
    write(here, extraction(new=["a"]))
    before = reading.current(log)
    write(here, extraction(new=["b"]))
    assert [5] == [batch.last for batch in decode(log.read(reading.position_of(before)))]


def test_a_folder_in_the_place_of_the_file_is_set_aside(here: Project) -> None:
    """Anything in place of playbook.json that is no file is moved away whole."""
    here.playbook.mkdir()
    (here.playbook / "mine.txt").write_text("mine")
    write(here, extraction(new=["a"]))
    assert ["a"] == [kp["text"] for kp in read(here)["key_points"]]
    assert ["mine"] == [path.read_text() for path in here.claude.glob("playbook.json.*/mine.txt")]
