"""One function per verb: the values that it returns, and the errors that it raises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.reference_model import book, extraction, point
from tallybook.ledger.errors import BadInputError, UnknownEntryError
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli.main import run
from tallybook.projections.surfaces.commands import DriftError
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

HUMAN = {"rater": "human", "session": "s1"}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry that was pruned at event 7, and an active one."""
    place = Project(project)
    commands.record(place, extraction(new=["bad advice", "good advice"]), HUMAN)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), HUMAN)
    return place


def test_import_counts_entries_skips_and_oddities(here: Project) -> None:
    """Imported entries, skipped ones and oddities are counted apart; a second import of the same file reports that."""
    data = json.dumps(book("new", "good advice", 7, {"text": "x", "extra": 1})).encode()
    done = commands.import_file(here, data, "old.json")
    assert (2, 2, False) == (done.imported, done.skipped, done.repeated)
    assert ["old.json: key_points[2]", "old.json: key_points[3]"] == [one["source"] for one in done.problems]
    again = commands.import_file(here, data, "copy.json")
    assert (0, 4, True) == (again.imported, again.skipped, again.repeated)


def test_a_first_import_takes_the_file_as_it_is(project: Path) -> None:
    """The first import keeps the file's own names, counts, version and date."""
    place = Project(project)
    doc = book(point("kpt_007", "a", 2, 5), version="0.9", last_updated="2025-01-02", owner="me")
    commands.import_file(place, json.dumps(doc).encode(), "old.json")
    assert doc == commands.show(place)


def test_rate_accepts_present_and_former_entries(here: Project) -> None:
    """An active or a former entry can be rated; an unknown one is an error, and nothing changes."""
    assert [] == list(commands.rate(here, "kpt_002", "helpful", HUMAN).ignored)
    assert ["kpt_001"] == [one.name for one in commands.rate(here, "kpt_001", "helpful", HUMAN).ignored]
    before = commands.verify(here).events
    with pytest.raises(UnknownEntryError, match="kpt_003: no entry ever had this name"):
        commands.rate(here, "kpt_003", "helpful", HUMAN)
    assert before == commands.verify(here).events


@pytest.mark.parametrize("rating", ["", "Helpfull", "+1", "helpful "])
def test_rate_accepts_three_ratings(here: Project, rating: str) -> None:
    """A misspelt rating by a person is refused, not recorded and ignored like a reflector's."""
    with pytest.raises(BadInputError):
        commands.rate(here, "kpt_002", rating, HUMAN)


def test_an_entry_of_a_manual_edit_can_be_rated_at_once(here: Project) -> None:
    """An entry that is in playbook.json, but in no event yet, is shown and can be rated."""
    doc = json.loads(here.playbook.read_bytes())
    here.playbook.write_text(json.dumps(doc | {"key_points": [*doc["key_points"], point("mine", "by hand")]}))
    assert point("mine", "by hand") == commands.show(here)["key_points"][-1]
    commands.rate(here, "mine", "helpful", HUMAN)
    assert point("mine", "by hand", 1) == commands.show(here)["key_points"][-1]


def test_show_takes_a_moment(here: Project) -> None:
    """`show` at a moment shows the playbook after the last whole batch up to it."""
    texts = {seq: [kp["text"] for kp in commands.show(here, str(seq))["key_points"]] for seq in (0, 1, 3, 4, 7, 8)}
    both, one = ["bad advice", "good advice"], ["good advice"]
    assert {0: [], 1: [], 3: [], 4: both, 7: both, 8: one} == texts


def test_why_takes_a_moment(here: Project) -> None:
    """A story as of a moment leaves out all later events."""
    assert ["unknown", "kept", "pruned"] == [
        commands.why(here, "kpt_001", when)[0]["status"] for when in ("1", "7", None)
    ]


def test_replay_returns_the_bytes_of_the_file(here: Project) -> None:
    """A replay gives the exact bytes of playbook.json, and at a moment those that it had then."""
    now = here.playbook.read_bytes()
    commands.add(here, "later", HUMAN)
    assert now == playbook_bytes(commands.playbook(here, "8").state)
    assert here.playbook.read_bytes() == commands.replay_bytes(here)


def test_a_replay_of_the_past_never_replaces_the_playbook(here: Project, tmp_path: Path) -> None:
    """An earlier moment is never written over playbook.json, whatever path names it."""
    before = here.playbook.read_bytes()
    (tmp_path / "link.json").symlink_to(here.playbook)
    for way in (here.playbook, here.claude / ".." / ".claude" / "playbook.json", tmp_path / "link.json"):
        with pytest.raises(BadInputError, match="is the project's own playbook"):
            commands.write_copy(here, way, bytes)
        assert before == here.playbook.read_bytes()
    commands.write_copy(here, tmp_path / "other.json", lambda: b"{}")
    assert b"{}" == (tmp_path / "other.json").read_bytes()
    assert before == here.playbook.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda _: None, "is missing"),
        (lambda _: b"", "is not a playbook"),
        (lambda good: good.replace(b"good advice", b"better advice"), "has a manual edit"),
        (lambda good: good.replace(b"\n", b"\r\n"), "is older than the ledger"),
    ],
)
def test_check_names_the_difference_of_the_file(here: Project, spoil: Any, says: str) -> None:
    """The check reports a file that differs from the replay as missing, unreadable, changed or stale."""
    commands.check(here)
    spoiled = spoil(here.playbook.read_bytes())
    here.playbook.unlink()
    if spoiled is not None:
        here.playbook.write_bytes(spoiled)
    with pytest.raises(DriftError, match=says):
        commands.check(here)
    commands.replay(here)
    commands.check(here)


def test_log_of_a_name_lists_its_events(here: Project) -> None:
    """With a name, `log` lists the events of that entry, with who recorded each."""
    rows = list(commands.list_events(here, "kpt_001"))
    assert ["point.added", *["point.rated"] * 3] == [row["kind"] for row in rows]
    assert all(HUMAN == row["by"] for row in rows)
    with pytest.raises(UnknownEntryError):
        list(commands.list_events(here, "kpt_404"))


def test_verify_reports_its_progress(here: Project) -> None:
    """Progress counts up to the size of the file."""
    told: list[tuple[int, int]] = []
    commands.verify(here, lambda done, size: told.append((done, size)))
    size = (here.ledger / "events.jsonl").stat().st_size
    assert (size, size) == told[-1]
    assert sorted(told) == told


def test_several_entries_are_rated_at_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several entries are one batch, each name once, with the reason in each event and the session as its rater."""
    for text in ("Use type hints", "Name things well"):
        run(["add", text])
    words = ["kpt_001", "kpt_002", "kpt_001", "harmful", "--reason", "both broke the build", "--session", "s1"]
    assert 0 == run(["rate", *words])
    capsys.readouterr()
    found = commands.show(Project(project))["key_points"]
    assert [(0, 1), (0, 1)] == [(point["helpful"], point["harmful"]) for point in found]
    story, _ = commands.why(Project(project), "kpt_002")
    assert [("point.noted", "s1"), ("point.rated", "s1")] == [
        (step["kind"], step["by"]["session"]) for step in story["trail"][1:]
    ]
    assert 0 == run(["log", "kpt_002"])
    assert 'kpt_002 noted: "harmful: both broke the build"' in capsys.readouterr().out
    assert 0 == run(["undo", "--of", "s1"])
    assert [0, 0] == [point["harmful"] for point in commands.show(Project(project))["key_points"]]


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["kpt_001", "kpt_404", "helpful"], 1, "kpt_404: no entry ever had this name"),
        (["kpt_001", "helpful", "--reason", "x" * 1_001], 2, "reason: the reason has 1,001 characters"),
        (["kpt_001", "kpt_001"], 2, "rating: 'kpt_001' is not a rating; use helpful, harmful or neutral"),
        (["helpful"], 2, "Missing argument 'NAME...'"),
    ],
)
def test_one_bad_name_or_reason_rates_nothing(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, what: str
) -> None:
    """If one name or reason is invalid, nothing is recorded, and one line gives the reason."""
    run(["add", "Use type hints"])
    before = Project(project).ledger.joinpath("events.jsonl").read_bytes()
    assert code == run(["rate", *words])
    assert what in capsys.readouterr().err
    assert before == Project(project).ledger.joinpath("events.jsonl").read_bytes()
