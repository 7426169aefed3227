"""Recording: what a write imports first, its refusals, its files, and what waits in the spool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
import copy
import json
from pathlib import Path
import time
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
import pytest

from helpers.commands import Run
from helpers.events import HUMAN
from helpers.ledger_files import hold_ledger_lock, list_spooled
from helpers.memory_store import MemoryStore
from helpers.reference_model import extraction
from helpers.shared_machines import make_part
from tallybook import compat
from tallybook.ledger import line
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, UsedKeyError
from tallybook.ledger.events import PointAdded, PointProposed, PointRated
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.sharing.syncing import sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, record
from tallybook.projections.surfaces.writing.record import Write
from tallybook.projections.surfaces.writing.requests import Request, Update


def write(project: Project, *payloads: dict[str, Any]) -> Write:
    """Record extraction results in one go, each as its own batch."""
    return record.write(project, [Request(Update(payload), HUMAN) for payload in payloads])


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
    assert ["a", "b"] == [kp["text"] for kp in json.loads(here.playbook.read_bytes())["key_points"]]


def make_project(folder: Path) -> Project:
    """Make a project with one entry."""
    place = Project(folder)
    commands.add(place, "Use type hints", HUMAN)
    return place


@pytest.fixture
def started(project: Path) -> Project:
    """Return a project with one entry."""
    return make_project(project)


def test_an_entry_of_a_manual_edit_is_rated_while_the_lock_is_held(started: Project) -> None:
    """A rating of an entry that only playbook.json holds yet is spooled, and counts for it."""
    document = json.loads(started.playbook.read_bytes())
    document["key_points"].append({"name": "kpt_002", "text": "Test first", "helpful": 0, "harmful": 0})
    started.playbook.write_text(json.dumps(document), encoding="utf-8")
    with hold_ledger_lock(started):
        assert commands.rate(started, "kpt_002", "helpful", HUMAN).spooled
    entry = commands.replay(started)[0].entries["kpt_002"]
    assert ("Test first", 1) == (entry.text, entry.helpful)


def test_the_next_command_records_the_spool_first_and_in_order(started: Project) -> None:
    """Spooled payloads are recorded before the command's own, by time, with the time they were sent."""
    with hold_ledger_lock(started):
        commands.add(started, "First", HUMAN)
        commands.add(started, "Second", HUMAN)
    commands.add(started, "Third", HUMAN)
    events = [event for batch in decode(open_log(started).read()) for event in batch.events]
    assert ["Use type hints", "First", "Second", "Third"] == [e.text for e in events if isinstance(e, PointAdded)]
    assert [] == list_spooled(started)
    taken = [record for batch in reading.batches(started) for record in batch.records if record.when is not None]
    assert {"kpt_002", "kpt_003"} == {record.event.name for record in taken if isinstance(record.event, PointAdded)}
    assert all(record.when is not None and record.when <= record.at for record in taken)


def test_a_spooled_mark_keeps_the_time_when_it_was_written(started: Project) -> None:
    """What says when it happened happened then, not when it was put into the spool."""
    marked = Update({"evaluations": [{"name": "kpt_001", "rating": "neutral"}]}, by_marks=True)
    with hold_ledger_lock(started):
        assert record.write(started, [Request(marked, HUMAN, when=AT)]).outcomes[0].spooled
    write(started)
    records = [record for batch in reading.batches(started) for record in batch.records]
    assert [AT] == [record.when for record in records if isinstance(record.event, PointRated)]


def test_a_spool_file_that_survives_its_recording_counts_once(started: Project) -> None:
    """A crash between the append and the removal of the file doubles nothing."""
    with hold_ledger_lock(started):
        commands.rate(started, "kpt_001", "helpful", HUMAN)
    (waiting,) = list_spooled(started)
    kept = waiting.read_bytes()
    commands.replay(started)
    waiting.write_bytes(kept)
    state, _ = commands.replay(started)
    assert 1 == state.entries["kpt_001"].helpful
    assert [] == list_spooled(started)


def test_a_save_under_a_held_lock_keeps_its_updates_together(started: Project) -> None:
    """A spooled save counts as if it had been recorded at once, with a new name for one that was taken meanwhile."""
    ours = compat.load_playbook()
    compat.update_playbook_data(ours, {"new_key_points": ["Ours"], "evaluations": []})
    compat.update_playbook_data(ours, {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]})
    with hold_ledger_lock(started):
        compat.save_playbook(ours)
    # Somebody who writes through the back end alone takes no spool in, as a hook would not.
    with open_log(started).transaction() as tx:
        tx.append([encode(PointAdded("kpt_002", "Theirs"))], HUMAN)
    state, _ = commands.replay(started)
    assert ("Theirs", 0) == (state.entries["kpt_002"].text, state.entries["kpt_002"].helpful)
    assert ("Ours", 1) == (state.entries["kpt_003"].text, state.entries["kpt_003"].helpful)
    rated = [e.name for batch in reading.batches(started) for e in batch.events if isinstance(e, PointRated)]
    assert ["kpt_003"] == rated


def test_an_import_is_not_spooled(started: Project) -> None:
    """Its file is still there when the lock is free again, so the person is asked to try again."""
    with hold_ledger_lock(started), pytest.raises(LockHeldError):
        commands.import_file(started, b'{"key_points": ["Other"]}', "other.json")


def test_a_payload_that_can_never_be_recorded_is_refused_under_a_held_lock_too(
    started: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload that no batch holds is refused with the same line and exit code, and nothing is spooled."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 10_000)
    payload = json.dumps({"evaluations": [{"name": "kpt_001", "rating": "helpful"}] * 100}).encode()
    free = run("record", "-", stdin=payload)
    with hold_ledger_lock(started):
        refused = run("record", "-", stdin=payload)
    assert (2, "tallybook: batch: would need more than 10,000 bytes; send it in parts\n") == (free.code, free.err)
    assert free == refused
    assert [] == list_spooled(started)


AT = "2026-01-01T00:00:00.000000Z"
ADDS = {"new_key_points": ["waited"], "evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
UPDATE = {"by": HUMAN, "key": None, "update": {"extraction": ADDS, "names": {"waited": "kpt_002"}}}
RATES = {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]}
LATER = {"by": HUMAN, "key": "save 1", "update": {"extraction": RATES}}
FILE: dict[str, Any] = {"id": "a", "at": AT, "requests": [UPDATE, LATER]}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\ud800", "", "kpt_001", "kpt_" + "9" * 20, AT, "a\nb", '{"a":1}', "{", "rater"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3),
    max_leaves=4,
)


@st.composite
def spoil_file(draw: DrawFn) -> dict[str, Any]:
    """Put any value into any one place of a spool file."""
    whole = copy.deepcopy(FILE)
    place: Any = whole
    while True:
        key = draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        child = place[key]
        if not child or not isinstance(child, dict | list) or draw(st.integers(0, 3)) == 0:
            place[key] = draw(VALUES)
            return whole
        place = child


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(content=rb'{"id": "a", "at": "2026-01-01T00:00:00.000000Z", "requests": "\ud800"}')
@given(content=spoil_file().map(lambda whole: json.dumps(whole).encode()))
def test_no_spool_file_blocks_a_write(new_project: Callable[[], Path], content: bytes) -> None:
    """Any spool file is recorded or stays with a note, and the ledger is whole afterwards."""
    project = make_project(new_project())
    waiting = project.ledger / "spool" / "2026-01-01T000000.000000Z-a.json"
    waiting.parent.mkdir()
    waiting.write_bytes(content)
    outcome = commands.rate(project, "kpt_001", "neutral", HUMAN)
    assert outcome.seq_to == commands.verify_and_fold(project)[0].head.seq
    assert waiting.exists() == any(note.startswith(f"spool/{waiting.name}: ") for note in outcome.notes)
    assert not waiting.exists() or content == waiting.read_bytes()
    assert () == commands.verify_and_fold(project)[0].problems
    commands.check(project)


def spool_updates(project: Project, *updates: dict[str, Any]) -> Path:
    """Put a file of updates into the spool, as another program could."""
    waiting = project.ledger / "spool" / "2026-01-01T000000.000000Z-a.json"
    waiting.parent.mkdir()
    requests = [{"by": HUMAN, "update": update} for update in updates]
    waiting.write_text(json.dumps(FILE | {"requests": requests}), encoding="utf-8")
    return waiting


def test_a_spool_file_gives_itself_no_rights(started: Project) -> None:
    """An update from the spool is not typed by a person and not one addition, and unknown terms only propose."""
    new = {"new_key_points": ["First", "Second"], "evaluations": [{"name": "kpt_901", "rating": "helpful"}]}
    removal = {"operations": [{"type": "DELETE", "target_id": "kpt_001"}]}
    spool_updates(
        started,
        {"extraction": new, "is_typed": True, "is_addition": True},
        {"extraction": removal, "may": "always"},
    )
    report = write(started)
    assert report.state is not None
    assert ["Use type hints", "First", "Second"] == [entry.text for entry in report.state.entries.values()]
    recorded = [event for batch in reading.batches(started) for event in batch.events]
    assert ["kpt_001"] == [event.name for event in recorded if isinstance(event, PointProposed)]
    assert ([], []) == (report.problems, list_spooled(started))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"plain_events": [{"name": "kpt_001", "note": "no event"}]}, "Expected `Event`, got `dict`"),
        ({"is_typed": "yes"}, "Expected `bool`, got `str`"),
        ({"may": ["apply"]}, "Expected `str`, got `array`"),
    ],
    ids=["plain_events", "is_typed", "may"],
)
def test_a_spool_file_of_other_types_stays_with_a_note(started: Project, fields: dict[str, Any], reason: str) -> None:
    """Where a field of an update has another type, nothing of the file is recorded, and one line says why."""
    waiting = spool_updates(started, {"extraction": ADDS, **fields})
    (problem,) = write(started).problems
    assert str(problem).startswith(f"spool/{waiting.name}: requests: {reason} - at `$[0].update.")
    assert "\n" not in str(problem)
    assert [waiting] == list_spooled(started)


@pytest.mark.parametrize("owner", [float("nan"), float("inf"), 2**60, "\ud800", ["\udfff"]], ids=repr)
def test_a_save_that_no_file_could_hold_is_refused(started: Project, owner: object) -> None:
    """A top-level key that playbook.json could never show is refused, and nothing is recorded."""
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction(new=["new"]))
    playbook["owner"] = owner
    before = (started.ledger / "events.jsonl").read_bytes()
    with pytest.raises(BadInputError, match=r"^top: "):
        compat.save_playbook(playbook)
    assert before == (started.ledger / "events.jsonl").read_bytes()


HELPFUL = {"evaluations": [{"name": "kpt_001", "rating": "helpful"}]}
UNKNOWN = {"evaluations": [{"name": "kpt_901", "rating": "helpful"}]}


def helpful(project: Project) -> int:
    """Return how often the first entry was helpful."""
    return commands.playbook(project).state.entries["kpt_001"].helpful


def test_a_spooled_delivery_keeps_its_key_and_its_digest(started: Project) -> None:
    """Once it is recorded, the same delivery is a repeat, and another payload under its key is refused."""
    with hold_ledger_lock(started):
        assert commands.record(started, HELPFUL, HUMAN, "k").spooled
        assert commands.record(started, HELPFUL, HUMAN, "k").spooled
        with pytest.raises(UsedKeyError, match="was used for another payload, in the spool"):
            commands.record(started, UNKNOWN, HUMAN, "k")
    assert 2 == len(list_spooled(started))
    assert commands.record(started, HELPFUL, HUMAN, "k").repeated
    with pytest.raises(UsedKeyError):
        commands.record(started, UNKNOWN, HUMAN, "k")
    with hold_ledger_lock(started), pytest.raises(UsedKeyError, match="recorded as events"):
        commands.record(started, UNKNOWN, HUMAN, "k")
    assert (1, []) == (helpful(started), list_spooled(started))


def test_a_book_knows_the_deliveries_of_every_machine(tmp_path: Path) -> None:
    """After a sync the same delivery on another machine is a repeat of an event of the book; others are refused."""
    anna, ben, engine = Project(tmp_path / "anna"), Project(tmp_path / "ben"), Engine(MemoryStore())

    def publish(project: Project) -> None:
        sync(project, make_part(project, project.root.name), engine, 60.0)

    for project in (anna, ben):
        project.claude.mkdir(parents=True)
    commands.add(anna, "Use type hints", HUMAN)
    publish(anna)
    commands.add(ben, "Write tests", HUMAN)
    publish(ben)
    assert not commands.record(anna, HELPFUL, HUMAN, "ci:7").repeated
    publish(anna)
    publish(ben)
    again = commands.record(ben, HELPFUL, HUMAN, "ci:7")
    assert (True, True) == (again.repeated, str(again.seq_from).startswith("book:"))
    with pytest.raises(UsedKeyError, match="recorded as events book:"):
        commands.record(ben, {"new_key_points": ["Other"]}, HUMAN, "ci:7")
    for project in (ben, anna):
        publish(project)
        assert 1 == helpful(project)


# A system clock that no event can hold: nothing is recorded, and everything can still be read.


YEAR_10000_S = 253_402_300_800
YEAR_1_S = -62_135_596_800
READING = (["show"], ["show", "--at", "2d"], ["verify"], ["log"], ["why", "kpt_001"], ["score"], ["doctor"], ["replay"])


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Set the system's clock to a moment in seconds since 1970."""
    monkeypatch.setattr(time, "time_ns", lambda: seconds * 1_000_000_000)


@pytest.mark.parametrize(
    "seconds",
    [YEAR_10000_S, YEAR_10000_S * 3, YEAR_1_S - 1, YEAR_1_S - 3 * 366 * 86_400],
    ids=["10000", "26059", "0", "-3"],
)
@pytest.mark.parametrize("locked", [False, True], ids=["free", "locked"])
def test_a_clock_outside_of_the_years_1_to_9999_records_nothing(
    started: Project, run: Run, monkeypatch: pytest.MonkeyPatch, seconds: int, *, locked: bool
) -> None:
    """A verb that writes exits with 4 and names the clock, and the ledger does not change."""
    before = (started.ledger / "events.jsonl").read_bytes()
    with monkeypatch.context() as patch, hold_ledger_lock(started) if locked else nullcontext():
        set_clock(patch, seconds)
        answer = run("rate", "kpt_001", "helpful")
        assert (4, "") == (answer.code, answer.out)
        assert answer.err.startswith("tallybook: clock: is at ")
        assert answer.err.endswith("; set it to a year from 1 to 9999; nothing was recorded\n")
    assert (before, []) == ((started.ledger / "events.jsonl").read_bytes(), list_spooled(started))
    assert 0 == run("rate", "kpt_001", "helpful").code


@pytest.mark.parametrize("seconds", [YEAR_10000_S - 1, YEAR_1_S], ids=["9999", "1"])
def test_the_first_and_the_last_possible_second_are_recorded(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """A ledger that begins in the year 1 or ends in the year 9999 verifies, and is read at any time of the clock."""
    set_clock(monkeypatch, seconds)
    assert [0, 0] == [run("add", "Quote ids.").code, run("verify").code]
    assert (project / ".claude" / "playbook.json").is_file()
    for other in (YEAR_10000_S, YEAR_1_S - 1):
        set_clock(monkeypatch, other)
        assert dict.fromkeys(map(" ".join, READING), 0) == {" ".join(words): run(*words).code for words in READING}
