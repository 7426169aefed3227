"""A held lock: payloads are spooled, and recorded by the next command, in order and once."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.spool_files import held, spooled
from tallybook import compat
from tallybook.ledger import line
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.errors import BadInputError, LockHeldError
from tallybook.ledger.events import PointAdded, PointRated
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="holds the lock with flock")


@pytest.fixture
def locked_project(project: Path) -> Project:
    """Return a project whose ledger holds one entry."""
    locked_project = Project(project)
    commands.add(locked_project, "Use type hints", HUMAN)
    return locked_project


def test_a_held_lock_delays_no_command(locked_project: Project) -> None:
    """A payload sent while another process holds the ledger is spooled, and the answer says so."""
    before = (locked_project.ledger / "events.jsonl").read_bytes()
    with held(locked_project):
        outcome = commands.rate(locked_project, "kpt_001", "helpful", HUMAN)
    assert (True, None, None) == (outcome.spooled, outcome.seq_from, outcome.seq_to)
    assert before == (locked_project.ledger / "events.jsonl").read_bytes()
    assert 1 == len(spooled(locked_project))


def test_an_entry_of_a_manual_edit_is_rated_while_the_lock_is_held(locked_project: Project) -> None:
    """A rating of an entry that only playbook.json holds yet is spooled, and counts for it."""
    document = json.loads(locked_project.playbook.read_bytes())
    document["key_points"].append({"name": "kpt_002", "text": "Test first", "helpful": 0, "harmful": 0})
    locked_project.playbook.write_text(json.dumps(document), encoding="utf-8")
    with held(locked_project):
        assert commands.rate(locked_project, "kpt_002", "helpful", HUMAN).spooled
    entry = commands.replay(locked_project).entries["kpt_002"]
    assert ("Test first", 1) == (entry.text, entry.helpful)


def test_the_next_command_records_the_spool_first_and_in_order(locked_project: Project) -> None:
    """Spooled payloads are recorded before the command's own, by time, with the time they were sent."""
    with held(locked_project):
        commands.add(locked_project, "First", HUMAN)
        commands.add(locked_project, "Second", HUMAN)
    commands.add(locked_project, "Third", HUMAN)
    events = [event for batch in decode(open_log(locked_project).read()) for event in batch.events]
    assert ["Use type hints", "First", "Second", "Third"] == [e.text for e in events if isinstance(e, PointAdded)]
    assert [] == spooled(locked_project)
    taken = [record for batch in reading.batches(locked_project) for record in batch.records if record.when is not None]
    assert {"kpt_002", "kpt_003"} == {record.event.name for record in taken if isinstance(record.event, PointAdded)}
    assert all(record.when is not None and record.when <= record.at for record in taken)


def test_a_spool_file_that_survives_its_recording_counts_once(locked_project: Project) -> None:
    """A crash between the append and the removal of the file doubles nothing."""
    with held(locked_project):
        commands.rate(locked_project, "kpt_001", "helpful", HUMAN)
    (waiting,) = spooled(locked_project)
    kept = waiting.read_bytes()
    commands.replay(locked_project)
    waiting.write_bytes(kept)
    state = commands.replay(locked_project)
    assert 1 == state.entries["kpt_001"].helpful
    assert [] == spooled(locked_project)


def test_an_unreadable_spool_file_stays_and_is_named(locked_project: Project) -> None:
    """An invalid spool file blocks no command, and stays in place."""
    (locked_project.ledger / "spool").mkdir()
    (locked_project.ledger / "spool" / "2026-junk.json").write_bytes(b'{"id": 1')
    outcome = commands.rate(locked_project, "kpt_001", "helpful", HUMAN)
    assert outcome.seq_from is not None
    assert ["spool/2026-junk.json: cannot be read: JSONDecodeError; it stays there"] == list(outcome.notes)
    assert 1 == len(spooled(locked_project))


def test_a_save_under_a_held_lock_keeps_its_updates_together(locked_project: Project) -> None:
    """A spooled save counts as if it had been recorded at once, with a new name for one that was taken meanwhile."""
    ours = compat.load_playbook()
    compat.update_playbook_data(ours, {"new_key_points": ["Ours"], "evaluations": []})
    compat.update_playbook_data(ours, {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]})
    with held(locked_project):
        compat.save_playbook(ours)
    # Somebody who writes through the back end alone takes no spool in, as a hook would not.
    with open_log(locked_project).transaction() as tx:
        tx.append([encode(PointAdded("kpt_002", "Theirs"))], HUMAN)
    state = commands.replay(locked_project)
    assert ("Theirs", 0) == (state.entries["kpt_002"].text, state.entries["kpt_002"].helpful)
    assert ("Ours", 1) == (state.entries["kpt_003"].text, state.entries["kpt_003"].helpful)
    rated = [e.name for batch in reading.batches(locked_project) for e in batch.events if isinstance(e, PointRated)]
    assert ["kpt_003"] == rated


def test_a_dict_with_a_spooled_save_still_rates_its_own_entries(locked_project: Project) -> None:
    """A rating for an entry that lost its name in the spool counts for that entry, and once."""
    ours = compat.load_playbook()
    compat.update_playbook_data(ours, {"new_key_points": ["Ours"], "evaluations": []})
    with held(locked_project):
        compat.save_playbook(ours)
    with open_log(locked_project).transaction() as tx:
        tx.append([encode(PointAdded("kpt_002", "Theirs"))], HUMAN)
    compat.update_playbook_data(ours, {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]})
    compat.save_playbook(ours)
    counts = {
        point.text: (name, point.helpful) for name, point in commands.playbook(locked_project).state.entries.items()
    }
    assert {"Use type hints": ("kpt_001", 0), "Theirs": ("kpt_002", 0), "Ours": ("kpt_003", 1)} == counts
    assert ["kpt_001", "kpt_003"] == [entry["name"] for entry in ours["key_points"]]


def test_an_import_is_not_spooled(locked_project: Project) -> None:
    """Its file is still there when the lock is free again, so the person is asked to try again."""
    with held(locked_project), pytest.raises(LockHeldError):
        commands.import_file(locked_project, b'{"key_points": ["Other"]}', "other.json")


def test_a_payload_that_can_never_be_recorded_is_refused_under_a_held_lock_too(
    locked_project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload that no batch holds is refused with the same line and exit code, and nothing is spooled."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 10_000)
    payload = json.dumps({"evaluations": [{"name": "kpt_001", "rating": "helpful"}] * 100}).encode()
    free = run("record", "-", stdin=payload)
    with held(locked_project):
        refused = run("record", "-", stdin=payload)
    assert (2, "tallybook: batch: would need more than 10,000 bytes; send it in parts\n") == (free.code, free.err)
    assert free == refused
    assert [] == spooled(locked_project)


def test_metrics_that_can_never_be_recorded_are_refused_under_a_held_lock_too(
    locked_project: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that no batch holds is refused with the same line and exit code, and nothing is spooled."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 1_000)
    payload = json.dumps(
        {"component": "ac01", "metrics": {f"metric_{number}": number for number in range(300)}}
    ).encode()
    free = run("score", "record", "-", stdin=payload)
    with held(locked_project):
        refused = run("score", "record", "-", stdin=payload)
    assert (2, "tallybook: batch: would need more than 1,000 bytes; send it in parts\n") == (free.code, free.err)
    assert free == refused
    assert [] == spooled(locked_project)


def test_a_hook_does_not_spool_what_can_never_be_recorded(
    locked_project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fact that no batch holds raises the same error whether the lock is held or not."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 100)
    fact = ledger_access.draft("point.cited", name="kpt_001", where="message")
    with pytest.raises(BadInputError, match="batch: would need more than 100 bytes"):
        ledger_access.append(locked_project, [fact], HUMAN, "cited:s1")
    with held(locked_project), pytest.raises(BadInputError, match="batch: would need more than 100 bytes"):
        ledger_access.append(locked_project, [fact], HUMAN, "cited:s1")
    assert [] == spooled(locked_project)


@pytest.mark.parametrize("odd", [float("nan"), b"bytes", "\ud800"], ids=["nan", "bytes", "surrogate"])
def test_values_that_are_not_json_are_ignored_in_a_spooled_update(locked_project: Project, odd: object) -> None:
    """The rest of the update is spooled and counts, as with a free lock."""
    extraction = {
        "new_key_points": ["Name things", odd],
        "evaluations": [{"name": "kpt_001", "rating": "helpful"}, {"name": "kpt_001", "rating": odd}],
    }
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction)
    with held(locked_project):
        compat.save_playbook(playbook)
    assert 1 == len(spooled(locked_project))
    commands.replay(locked_project)
    assert [("Use type hints", 1), ("Name things", 0)] == [
        (kp["text"], kp["helpful"]) for kp in commands.show(locked_project)["key_points"]
    ]
