"""The laws of sharing, over random histories of up to five machines, against a plain model of one ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.engines import ENGINES
from helpers.memory_store import MemoryStore
from helpers.shared_machines import make_part
from helpers.sharing_histories import memory_folder, run_history
from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.log import JsonlLog, Transaction
from tallybook.ledger.sharing.engine import Engine
from tallybook.projections.surfaces.sharing.ledger_copies import import_ledger
from tallybook.projections.surfaces.sharing.syncing import SyncResult, rejoin, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, curation, redact
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.requests import Request, Update

HISTORIES = 16
"""`python -m tests.sweeps laws` runs 20,000 of them."""
PIECES = 4
STEPS_ON_SERVERS = 15
"""`python -m tests.sharing_laws 50 --engine git` runs more and longer ones."""


@pytest.mark.parametrize("piece", range(PIECES))
def test_laws_hold_in_random_histories(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines show the same key points, keep every past view, and have every batch in the book once."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    with memory_folder() as folder:
        for seed in range(piece, HISTORIES, PIECES):
            run_history(seed, folder)


@pytest.mark.parametrize("name", ["git by path", "postgres", "s3"])
def test_laws_hold_on_real_engines(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same laws hold where a git repository, PostgreSQL or an object store has the book."""
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    with memory_folder() as folder, ENGINES[name](request) as connect:
        run_history(1, folder, STEPS_ON_SERVERS, lambda _: connect())


# What landing makes of batches in cases that random histories found.

BY = {"rater": "human", "session": "s1"}


def _project(folder: Path, name: str) -> Project:
    (folder / name / ".claude").mkdir(parents=True)
    return Project(folder / name)


def _sync(project: Project, engine: Engine, limit_s: float = 60.0) -> SyncResult:
    return sync(project, make_part(project, project.root.name), engine, limit_s)


def _show(project: Project, when: str | None = None) -> list[tuple[str, int, int]]:
    return [(row["text"], row["helpful"], row["harmful"]) for row in commands.show(project, when)["key_points"]]


def test_an_imported_delivery_counts_once_while_it_is_pending(tmp_path: Path) -> None:
    """Two pending batches of one delivery show what they count once they are published: the first alone (rule 2)."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    _sync(anna, engine)
    commands.rate(anna, "kpt_001", "helpful", BY, "delivery")
    commands.add(ben, "Be kind", BY)
    commands.rate(ben, "kpt_001", "harmful", BY, "delivery")
    done = import_ledger(anna, str(ben.root), dry_run=False, accept_loss=False)
    assert ["its delivery delivery is recorded here already"] == [part["reason"] for part in done.ignored]
    for _ in range(2):
        assert [("Use git", 1, 0), ("Be kind", 0, 0)] == _show(anna)
        _sync(anna, engine)
    _sync(ben, engine)
    assert commands.show(anna) == commands.show(ben)


def test_a_redacted_text_joins_no_entry_that_had_it_only_until_an_undo(tmp_path: Path) -> None:
    """Equal texts are linked before they are redacted, but an entry whose last text was undone has another one."""
    anna, ben, engine = _project(tmp_path, "anna"), _project(tmp_path, "ben"), Engine(MemoryStore())
    commands.add(anna, "Use git", BY)
    curation.curate(anna, Curation("reword", "kpt_001", text="Be kind"), BY)
    curation.undo(anna, None, None, "", BY)
    _sync(anna, engine)
    commands.add(ben, "Be kind", BY)
    redact.redact(ben, redact.RedactionTarget(text="Be kind"), "a name", BY)
    _sync(ben, engine)
    _sync(anna, engine)
    assert [("Use git", 0, 0), ("[redacted]", 0, 0)] == _show(ben) == _show(anna)


def test_a_redacted_text_of_an_edit_stays_away_through_every_ledger_that_it_passes(tmp_path: Path) -> None:
    """Only the counts of such an edit are left, so where the entry itself is undone every machine shows no text."""
    anna, ben, cleo = (_project(tmp_path, name) for name in ("anna", "ben", "cleo"))
    engine = Engine(MemoryStore())
    commands.add(ben, "Use git", BY)
    _sync(anna, engine)
    import_ledger(anna, str(ben.root), dry_run=False, accept_loss=False)
    anna.playbook.write_text(anna.playbook.read_text().replace("Use git", "Be kind"))
    redact.redact(anna, redact.RedactionTarget(text="Be kind"), "a name", BY)
    import_ledger(cleo, str(anna.root), dry_run=False, accept_loss=False)
    curation.undo(ben, None, None, "", BY)
    for project in (cleo, ben, anna, cleo):
        _sync(project, engine)
    assert [("[redacted]", 0, 0)] == _show(anna) == _show(ben) == _show(cleo)


def test_a_past_moment_stays_where_another_history_redacts_its_texts(tmp_path: Path) -> None:
    """Two equal texts that were joined then are joined still, though only the later history links them."""
    anna, ben, cleo = (_project(tmp_path, name) for name in ("anna", "ben", "cleo"))
    engine = Engine(store := MemoryStore(), run_bytes=1)
    commands.add(ben, "Be kind", BY)
    _sync(ben, engine)
    commands.add(anna, "Be kind", BY)
    assert (1, [("Be kind", 0, 0)]) == (_sync(anna, engine, limit_s=0).pending, _show(anna))
    moment = str(JsonlLog(anna.ledger).head().seq)
    store.runs = {1: store.runs[1]}
    commands.add(cleo, "Test first", BY)
    _sync(cleo, engine)
    redact.redact(ben, redact.RedactionTarget(text="Be kind"), "a name", BY)
    for project in (anna, ben):
        rejoin(project, make_part(project, project.root.name), engine)
        _sync(project, engine)
    _sync(anna, engine)
    assert [("[redacted]", 0, 0)] == _show(anna, moment)


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

    def begin_late(log: JsonlLog) -> Transaction:
        monkeypatch.setattr(JsonlLog, "transaction", begin)
        _sync(ben, engine)
        return begin(log)

    monkeypatch.setattr(JsonlLog, "transaction", begin_late)
    given = [{"evaluations": [{"name": name, "rating": "helpful"}]} for name in ("kpt_002", "kpt_001", "kpt_002")]
    recording.write(ben, [Request(Update(update, is_typed=True), BY) for update in given])
    shown = [("Be kind", 0, 0), ("Be quick", 0, 0), ("Use git", 1, 0), ("Test first", 2, 0)]
    for pending in (2, 1, 0, 0):
        assert shown == _show(ben)
        assert pending == _sync(ben, engine, limit_s=0).pending
    _sync(anna, engine)
    assert shown == _show(anna)
