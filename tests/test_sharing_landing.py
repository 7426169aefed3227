"""What landing makes of batches in cases that random histories found."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from helpers.memory_store import MemoryStore
from helpers.sharing_faults import ShakyEngine
from tallybook.ledger.errors import OutcomeUnknownError
from tallybook.ledger.log import JsonlLog, Transaction
from tallybook.ledger.sharing.engines.engine import Engine, ReadOnlyError
from tallybook.ledger.sharing.replica import Replica
from tallybook.ledger.storage.disk import LOCK_WAIT_MS
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories.joining import import_ledger
from tallybook.projections.surfaces.sharing.syncing import Machine, SyncResult, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.requests import Request, Undo, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from helpers.command_line import Run
    from tallybook.ledger.line import RawBatch

BY = {"rater": "human", "session": "s1"}


def _project(folder: Path, name: str) -> Project:
    (folder / name / ".claude").mkdir(parents=True)
    return Project(folder / name)


def _sync(project: Project, engine: Engine, limit_s: float = 60.0) -> SyncResult:
    return sync(Machine(str(project.ledger), project.root.name, "", "demo", limit_s=limit_s), engine)


def _shown(project: Project) -> list[tuple[str, int, int]]:
    return [(point["text"], point["helpful"], point["harmful"]) for point in commands.show(project)["key_points"]]


def _undo(project: Project, first: int, last: int) -> None:
    """Undo own events by their numbers."""
    lines = Path(project.ledger / "events.jsonl").read_bytes().splitlines()
    ids = [json.loads(line.split(b"\t")[0] + b'"":0}')["id"] for line in lines[first - 1 : last]]
    recording.write(project, [Request(Undo(tuple(ids)), BY)])


def test_a_delivery_counts_once_on_a_machine_in_a_book(tmp_path: Path) -> None:
    """A key that the own ledger has is found after a sync as well."""
    anna, engine = _project(tmp_path, "anna"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    _sync(anna, engine)
    outcomes = [commands.rate(anna, "kpt_001", "helpful", BY, "delivery") for _ in range(2)]
    assert [False, True] == [outcome.repeated for outcome in outcomes]
    assert [("Use git", 1, 0)] == _shown(anna)


def test_an_imported_delivery_counts_once_while_it_is_pending(tmp_path: Path) -> None:
    """Two pending batches of one delivery show what they count once they are published: the first alone (rule 2)."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    _sync(anna, engine)
    commands.rate(anna, "kpt_001", "helpful", BY, "delivery")
    commands.add(ben, "Be kind", BY)
    commands.rate(ben, "kpt_001", "harmful", BY, "delivery")
    done = import_ledger(anna, str(ben.root), dry_run=False, accept_loss=False)
    assert ["its delivery delivery is recorded here already"] == [part.reason for part in done.arrival.ignored]
    for _ in range(2):
        assert [("Use git", 1, 0), ("Be kind", 0, 0)] == _shown(anna)
        _sync(anna, engine)
    _sync(ben, engine)
    assert commands.show(anna) == commands.show(ben)


def test_what_an_interrupted_append_left_in_the_replica_is_not_in_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that died while it wrote the replica is finished by the next one, and shows nothing before that."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore())
    commands.add(ben, "Be kind", BY)
    _sync(ben, engine)
    commands.add(anna, "Use git", BY)
    _sync(anna, engine)

    def tear(self: Replica, batches: Sequence[RawBatch], *_: Any) -> None:
        path = Path(self.log.log_file)
        path.write_bytes(path.read_bytes() + b"".join(batch.raw for batch in batches)[:-9])
        raise OutcomeUnknownError(str(path), "killed")

    with monkeypatch.context() as patch:
        patch.setattr(Replica, "append", tear)
        try:
            _sync(ben, engine)
        except OutcomeUnknownError:
            assert [("Be kind", 0, 0)] == _shown(ben)
    assert [] == _sync(ben, engine).skipped
    assert commands.show(anna) == commands.show(ben)


def test_a_run_that_does_not_count_is_named_although_another_machine_was_quicker(tmp_path: Path) -> None:
    """Such a run is in the result of the sync that met it first, also where that sync had to try again (rule 9)."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), ShakyEngine(Random(1))  # noqa: S311 - no secret
    for project, text in ((anna, "Use git"), (ben, "Be kind")):
        commands.add(project, text, BY)
        _sync(project, engine)
    engine.disturb()
    commands.add(anna, "Run the tests", BY)
    _sync(anna, engine)
    commands.add(ben, "Sleep well", BY)
    commands.add(anna, "Name things", BY)

    def be_quicker() -> None:
        _sync(anna, engine)

    engine.before_append = be_quicker
    done = _sync(ben, engine)
    assert (True, 1) == (engine.before_append is None, len(done.skipped))


def test_a_text_that_a_person_adds_twice_stays_twice(tmp_path: Path) -> None:
    """An entry that is added by hand is joined only to an entry that its writer had not seen."""
    anna, engine = _project(tmp_path, "anna"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    document: Any = json.loads(anna.playbook.read_text())
    document["key_points"].append({"name": "again", "text": "Use git", "helpful": 1, "harmful": 0})
    anna.playbook.write_text(json.dumps(document))
    before = commands.replay(anna).seq
    _sync(anna, engine)
    assert [("Use git", 0, 0), ("Use git", 1, 0)] == _shown(anna)
    assert 2 == len(commands.show(anna, str(before))["key_points"])


def test_a_batch_that_waits_rates_the_entry_that_was_published_before_it(tmp_path: Path) -> None:
    """A provisional name leads to its entry also where a sync published the entry and not the rating."""
    anna, ben = _project(tmp_path, "anna"), _project(tmp_path, "ben")
    engine = Engine(MemoryStore(), run_bytes=1)
    commands.add(anna, "Be kind", BY)
    _sync(anna, engine)
    commands.add(ben, "Use git", BY)
    _sync(ben, engine, limit_s=0)
    assert ["kpt_001", "kpt_002"] == [point["name"] for point in commands.show(ben)["key_points"]]
    commands.rate(ben, "kpt_002", "helpful", BY)
    commands.add(ben, "Test first", BY)
    commands.rate(ben, "kpt_002", "helpful", BY)
    pending = 1
    while pending:
        pending = _sync(ben, engine, limit_s=0).pending
        assert ("Use git", 2, 0) in _shown(ben)


def test_what_a_process_appends_that_began_before_the_first_sync_means_own_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batches say no ids, and the book has other entries of these names; each counts once, whenever it lands."""
    anna, ben = _project(tmp_path, "anna"), _project(tmp_path, "ben")
    engine = Engine(MemoryStore(), run_bytes=1)
    for project, texts in ((anna, ("Be kind", "Be quick")), (ben, ("Use git", "Test first"))):
        for text in texts:
            commands.add(project, text, BY)
    _sync(anna, engine)
    begin = JsonlLog.transaction

    def begin_late(log: JsonlLog, wait_ms: int = LOCK_WAIT_MS) -> Transaction:
        monkeypatch.setattr(JsonlLog, "transaction", begin)
        _sync(ben, engine)
        return begin(log, wait_ms)

    monkeypatch.setattr(JsonlLog, "transaction", begin_late)
    given = [{"evaluations": [{"name": name, "rating": "helpful"}]} for name in ("kpt_002", "kpt_001", "kpt_002")]
    recording.write(ben, [Request(Update(one, is_typed=True), BY) for one in given])
    shown = [("Be kind", 0, 0), ("Be quick", 0, 0), ("Use git", 1, 0), ("Test first", 2, 0)]
    for pending in (2, 1, 0, 0):
        assert shown == _shown(ben)
        assert pending == _sync(ben, engine, limit_s=0).pending
    _sync(anna, engine)
    assert shown == _shown(anna)


def test_a_curation_is_answered_with_the_number_of_its_event(tmp_path: Path, run: Run) -> None:
    """Where a batch begins with the entries that its names mean, the answer has the number after that, as `log` has."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore(), run_bytes=1)
    commands.add(anna, "Be kind", BY)
    _sync(anna, engine)
    commands.add(ben, "Use git", BY)
    _sync(ben, engine, limit_s=0)
    here = ("--project", str(ben.root))
    made = json.loads(run("retire", "kpt_002", "--json", *here).out)
    logged = [json.loads(line) for line in run("log", "--json", *here).out.splitlines()]
    (seq,) = [one["seq"] for one in logged if one["kind"] == "point.retired"]
    assert [seq, seq] == [made["seq"], *(event["seq"] for event in made["events"])]


def test_an_edit_of_an_old_rendering_is_merged_with_what_came_since(tmp_path: Path) -> None:
    """An edit of a file that a sync has not rendered anew keeps the ratings and entries that came in."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore())
    commands.add(anna, "Be kind", BY)
    _sync(anna, engine)
    commands.add(ben, "Use git", BY)
    _sync(ben, engine)
    document: Any = json.loads(ben.playbook.read_text())
    assert [("Be kind", 0, 0), ("Use git", 0, 0)] == _shown(ben)
    _sync(anna, engine)
    commands.rate(anna, "kpt_002", "helpful", BY)
    commands.add(anna, "Test first", BY)
    _sync(anna, engine)
    _sync(ben, engine)
    assert "Use git" == document["key_points"][-1]["text"]
    document["key_points"][-1]["helpful"] += 3
    ben.playbook.write_text(json.dumps(document))
    commands.replay(ben)
    assert [("Be kind", 0, 0), ("Use git", 4, 0), ("Test first", 0, 0)] == _shown(ben)


def test_a_rating_of_a_joined_entry_stays_with_it_when_the_other_one_is_undone(tmp_path: Path) -> None:
    """A rating is recorded in the book under the entry that its rater had, not under the one that stands for it."""
    anna, ben = _project(tmp_path, "anna"), _project(tmp_path, "ben")
    engine = Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    _sync(anna, engine)
    commands.add(ben, "Use git", BY)
    commands.rate(ben, "kpt_001", "helpful", BY)
    _sync(ben, engine)
    _undo(anna, 2, 3)
    _sync(anna, engine)
    _sync(ben, engine)
    assert [("Use git", 1, 0)] == _shown(ben) == _shown(anna)


def test_an_undo_of_nothing_is_a_moment_of_its_own(tmp_path: Path) -> None:
    """A past moment keeps its date after the ledger is shared, also where its batch undid nothing."""
    anna, engine = _project(tmp_path, "anna"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    recording.write(anna, [Request(Undo((), "nobody"), BY)])
    before = commands.show(anna)
    _sync(anna, engine)
    assert before == commands.show(anna, "4")


def test_names_that_the_book_gave_to_another_machine_are_not_used(tmp_path: Path) -> None:
    """A machine has the block of names that the book gave it, not one that it asked for in vain (rule 3)."""
    anna, ben, cleo = (_project(tmp_path, name) for name in ("anna", "ben", "cleo"))
    engine = ShakyEngine(Random(1))  # noqa: S311 - no secret
    for project in (anna, ben, cleo):
        commands.add(project, f"by {project.root.name}", BY)
    _sync(anna, engine)

    engine.refusal = ReadOnlyError(engine.address, "denied")
    assert 1 == _sync(ben, engine).pending
    engine.calm()

    def be_quicker() -> None:
        _sync(cleo, engine)

    engine.before_append = be_quicker
    assert 1 == _sync(ben, engine).tries
    commands.add(ben, "Test first", BY)
    names = {point["text"]: point["name"] for point in commands.show(ben)["key_points"]}
    assert ("kpt_002", "kpt_201") == (names["by cleo"], names["Test first"])
