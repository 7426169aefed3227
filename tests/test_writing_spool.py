"""A held lock: what was sent waits in the spool, and is taken in by the next command, in order and once."""

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
def begun(project: Path) -> Project:
    """Return a project whose ledger holds one key point."""
    begun = Project(project)
    commands.add(begun, "Use type hints", HUMAN)
    return begun


def test_a_held_lock_delays_nobody_for_long(begun: Project) -> None:
    """What is sent while another process holds the ledger is kept in the spool, and said so."""
    before = (begun.ledger / "events.jsonl").read_bytes()
    with held(begun):
        outcome = commands.rate(begun, "kpt_001", "helpful", HUMAN)
    assert (True, None, None) == (outcome.spooled, outcome.seq_from, outcome.seq_to)
    assert before == (begun.ledger / "events.jsonl").read_bytes()
    assert 1 == len(spooled(begun))


def test_the_next_command_takes_the_spool_in_first_and_in_order(begun: Project) -> None:
    """Waiting payloads are recorded before the command's own, by time, with the time they were sent."""
    with held(begun):
        commands.add(begun, "First", HUMAN)
        commands.add(begun, "Second", HUMAN)
    commands.add(begun, "Third", HUMAN)
    events = [event for batch in decode(open_log(begun).read()) for event in batch.events]
    assert ["Use type hints", "First", "Second", "Third"] == [e.text for e in events if isinstance(e, PointAdded)]
    assert [] == spooled(begun)
    taken = [record for batch in reading.batches(begun) for record in batch.records if record.when is not None]
    assert {"kpt_002", "kpt_003"} == {record.event.name for record in taken if isinstance(record.event, PointAdded)}
    assert all(record.when is not None and record.when <= record.at for record in taken)


def test_a_spool_file_that_outlives_its_taking_in_counts_once(begun: Project) -> None:
    """A crash between the append and the removal of the file doubles nothing."""
    with held(begun):
        commands.rate(begun, "kpt_001", "helpful", HUMAN)
    (waiting,) = spooled(begun)
    kept = waiting.read_bytes()
    commands.replay(begun)
    waiting.write_bytes(kept)
    state = commands.replay(begun)
    assert 1 == state.points["kpt_001"].helpful
    assert [] == spooled(begun)


def test_an_unreadable_spool_file_stays_and_is_named(begun: Project) -> None:
    """A spool file that is no payload stops nobody, and stays where it is."""
    (begun.ledger / "spool").mkdir()
    (begun.ledger / "spool" / "2026-junk.json").write_bytes(b'{"id": 1')
    outcome = commands.rate(begun, "kpt_001", "helpful", HUMAN)
    assert outcome.seq_from is not None
    assert ["spool/2026-junk.json: cannot be read: JSONDecodeError; it stays there"] == list(outcome.notes)
    assert 1 == len(spooled(begun))


def test_a_save_under_a_held_lock_keeps_its_updates_together(begun: Project) -> None:
    """A save that is spooled counts as it would have counted, with a name that another took meanwhile given anew."""
    ours = compat.load_playbook()
    compat.update_playbook_data(ours, {"new_key_points": ["Ours"], "evaluations": []})
    compat.update_playbook_data(ours, {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]})
    with held(begun):
        compat.save_playbook(ours)
    # Somebody who writes through the back end alone takes no spool in, as a hook would not.
    with open_log(begun).transaction() as tx:
        tx.append([encode(PointAdded("kpt_002", "Theirs"))], HUMAN)
    state = commands.replay(begun)
    assert ("Theirs", 0) == (state.points["kpt_002"].text, state.points["kpt_002"].helpful)
    assert ("Ours", 1) == (state.points["kpt_003"].text, state.points["kpt_003"].helpful)
    rated = [e.name for batch in reading.batches(begun) for e in batch.events if isinstance(e, PointRated)]
    assert ["kpt_003"] == rated


def test_a_dict_whose_save_was_spooled_goes_on_rating_its_own(begun: Project) -> None:
    """A rating for an entry that lost its name while it waited counts for that entry, and once."""
    ours = compat.load_playbook()
    compat.update_playbook_data(ours, {"new_key_points": ["Ours"], "evaluations": []})
    with held(begun):
        compat.save_playbook(ours)
    with open_log(begun).transaction() as tx:
        tx.append([encode(PointAdded("kpt_002", "Theirs"))], HUMAN)
    compat.update_playbook_data(ours, {"evaluations": [{"name": "kpt_002", "rating": "helpful"}]})
    compat.save_playbook(ours)
    counts = {point.text: (name, point.helpful) for name, point in commands.playbook(begun).state.points.items()}
    assert {"Use type hints": ("kpt_001", 0), "Theirs": ("kpt_002", 0), "Ours": ("kpt_003", 1)} == counts
    assert ["kpt_001", "kpt_003"] == [entry["name"] for entry in ours["key_points"]]


def test_an_import_is_not_spooled(begun: Project) -> None:
    """A file is still there when the lock is free again, so the person is told to try again."""
    with held(begun), pytest.raises(LockHeldError):
        commands.import_file(begun, b'{"key_points": ["Other"]}', "other.json")


def test_what_can_never_be_recorded_is_refused_under_a_held_lock_as_well(
    begun: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload that no batch holds is refused with the same line and exit code, and nothing waits in the spool."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 10_000)
    payload = json.dumps({"evaluations": [{"name": "kpt_001", "rating": "helpful"}] * 100}).encode()
    free = run("record", "-", stdin=payload)
    with held(begun):
        refused = run("record", "-", stdin=payload)
    assert (2, "tallybook: batch: would need more than 10,000 bytes; send it in parts\n") == (free.code, free.err)
    assert free == refused
    assert [] == spooled(begun)


def test_metrics_that_can_never_be_recorded_are_refused_under_a_held_lock_as_well(
    begun: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object that no batch holds is refused with the same line and exit code, and nothing waits in the spool."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 1_000)
    payload = json.dumps(
        {"component": "ac01", "metrics": {f"metric_{number}": number for number in range(300)}}
    ).encode()
    free = run("metrics", "-", stdin=payload)
    with held(begun):
        refused = run("metrics", "-", stdin=payload)
    assert (2, "tallybook: batch: would need more than 1,000 bytes; send it in parts\n") == (free.code, free.err)
    assert free == refused
    assert [] == spooled(begun)


def test_a_hook_does_not_spool_what_can_never_be_recorded(begun: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact that no batch holds raises the same error whether the lock is held or not."""
    monkeypatch.setattr(line, "MAX_BATCH_BYTES", 100)
    fact = ledger_access.draft("point.cited", name="kpt_001", where="message")
    with pytest.raises(BadInputError, match="batch: would need more than 100 bytes"):
        ledger_access.append(begun, [fact], HUMAN, "cited:s1")
    with held(begun), pytest.raises(BadInputError, match="batch: would need more than 100 bytes"):
        ledger_access.append(begun, [fact], HUMAN, "cited:s1")
    assert [] == spooled(begun)


@pytest.mark.parametrize("odd", [float("nan"), b"bytes", "\ud800"], ids=["nan", "bytes", "surrogate"])
def test_what_is_no_json_in_an_update_of_a_program_is_ignored_also_while_it_waits(begun: Project, odd: object) -> None:
    """The rest of the update is spooled and counts, as it does where the ledger is free."""
    extraction = {
        "new_key_points": ["Name things", odd],
        "evaluations": [{"name": "kpt_001", "rating": "helpful"}, {"name": "kpt_001", "rating": odd}],
    }
    playbook = compat.load_playbook()
    compat.update_playbook_data(playbook, extraction)
    with held(begun):
        compat.save_playbook(playbook)
    assert 1 == len(spooled(begun))
    commands.replay(begun)
    assert [("Use type hints", 1), ("Name things", 0)] == [
        (kp["text"], kp["helpful"]) for kp in commands.show(begun)["key_points"]
    ]
