"""A real command that is killed, or one of whose calls fails: nothing is lost, doubled or torn."""

from __future__ import annotations

from collections.abc import Callable
import errno
import json
import os
from pathlib import Path
import signal

import pytest

from faults.at_calls import BROKEN, Trial, errors, facts, go_on, kills, some, unclear
from faults.scenes import CHANGING, SCENES, SHORT, Answer, Fault, Scene, run, three_entries, why_not
from helpers.events import HUMAN
from helpers.sweep import slice_of
from tallybook.ledger.errors import EXIT_NOT_WRITTEN
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

KILLS = slice_of(4, 1)
FAILURES = slice_of(6, 2)
"""How many of each are tried in a scene here; `python -m tests.faults kills-at-calls errors-at-calls` tries all."""
APPEND = SCENES["append"]
LONG = (SCENES["redaction"], SCENES["keeping quotes"])
"""Scenes whose command opens the ledger several times."""


@pytest.fixture(params=SCENES)
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    """Return a scene that was played once without a fault."""
    if why_not():
        pytest.skip(why_not())
    return Trial(request.param, tmp_path)


def test_a_command_that_ends_or_fails_at_a_call_loses_nothing(trial: Trial) -> None:
    """Acknowledged events are there once, others whole or absent; a failure is one clear line and exit code 4."""
    calls = trial.staged.calls
    changing = [call for call in calls if call.name in CHANGING]
    chosen = [*some(kills(changing), KILLS), *some(errors(changing), FAILURES)]
    outcomes = [trial.suffer(fault) for fault in chosen]
    assert [] == [(str(outcome.fault), outcome.problems) for outcome in outcomes if outcome.problems]
    assert {-signal.SIGKILL} == {outcome.answer.code for outcome in outcomes[:KILLS]}
    # What does not touch the project is not counted, what does is.
    names = {call.name for call in calls}
    assert {"openat", "flock", "write", "close"} <= names
    assert {"fsync", "fdatasync"} & names
    assert len(calls) < (1_000 if trial.scene in LONG else 400)


def test_a_reflection_that_cannot_release_its_lock_reports_what_is_recorded(tmp_path: Path) -> None:
    """One session is printed as quoted before the one-line error, which lists the recorded rating."""
    if why_not():
        pytest.skip(why_not())
    trial = Trial("keeping quotes", tmp_path)
    locks = [call for call in trial.staged.calls if call.name == "flock"][-4:]
    outcomes = [trial.suffer(Fault(*call, "EIO")) for call in locks]
    assert [] == [(str(outcome.fault), outcome.problems) for outcome in outcomes if outcome.problems]
    assert any("what was printed so far is recorded" in outcome.answer.err for outcome in outcomes)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ([], {"lost": 1}),
        (["helpful"], {}),
        (["helpful", "helpful"], {"doubled": 1}),
        (["harmful"], {"lost": 1, "believed": 1}),
    ],
    ids=str,
)
def test_lost_doubled_or_changed_events_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: list[str], expected: dict[str, int]
) -> None:
    """A stand-in answers yes and records nothing, an event twice or another one: each is counted."""
    if why_not():
        pytest.skip(why_not())
    trial = Trial("append", tmp_path)

    def play(_: Fault) -> Answer:
        trial.staged.put_back()
        for rating in recorded:
            commands.rate(trial.staged.project, "kpt_001", rating, HUMAN)
        return Answer(0, "recorded\n", "")

    monkeypatch.setattr(trial.staged, "play", play)
    outcome = trial.suffer(Fault("close", 1, "EIO"))
    assert expected == {name: outcome.counts[name] for name in BROKEN if outcome.counts[name]}
    assert bool(expected) == bool(outcome.problems)


def limited(project: Project, room: int) -> Callable[[], None]:
    """Return a function that limits a process's files to the log's present size and so many bytes."""
    resource = pytest.importorskip("resource", reason="a process's files can be limited on POSIX alone")
    size = (project.ledger / "events.jsonl").stat().st_size + room
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("room", [0, 1, 5, 100, 250, 300, 400])
def test_a_write_that_is_cut_short_is_sealed(tmp_path: Path, room: int) -> None:
    """If the system takes only part of a batch, nothing is recorded, and the next command seals the part."""
    project = three_entries(tmp_path)
    before = facts(project)
    size = (project.ledger / "events.jsonl").stat().st_size
    answer = run(project, APPEND, before=limited(project, room))
    assert (4, size + room) == (answer.code, (project.ledger / "events.jsonl").stat().st_size)
    assert os.strerror(errno.EFBIG) in answer.err
    assert [] == unclear(Fault("write", 1, SHORT), answer)
    assert before == facts(project)
    assert [] == go_on(project)
    assert before == facts(project)[:-1]


def test_a_batch_on_a_full_disk_is_whole_or_absent(tmp_path: Path) -> None:
    """If the disk fills in the middle of a batch, none of it is read, and with room again it is recorded."""
    project = three_entries(tmp_path)
    before = facts(project)
    wide = Scene(three_entries, given=json.dumps({"new_key_points": [f"{n} " + "x" * 3_000 for n in range(4)]}))
    answer = run(project, wide, before=limited(project, 9_000))
    assert 4 == answer.code
    assert [] == unclear(Fault("write", 1, SHORT), answer)
    assert before == facts(project)
    assert 0 == run(project, wide).code
    assert len(before) + 1 == len(facts(project))
    assert [] == go_on(project)


def test_a_replay_that_cannot_write_its_file_is_a_failure(tmp_path: Path) -> None:
    """Although a manual edit is recorded, `replay` exits 0 only if the file is written."""
    if why_not():
        pytest.skip(why_not())
    trial = Trial("replay of a changed file", tmp_path)
    calls = trial.staged.calls
    appended = max(index for index, call in enumerate(calls) if call.name == "pwrite64")
    looks = [call for call in calls[appended:] if call.name == "newfstatat"][:8]
    outcomes = [trial.suffer(Fault(*call, "ENOSPC")) for call in looks]
    assert [] == [(str(outcome.fault), outcome.problems) for outcome in outcomes if outcome.problems]
    assert EXIT_NOT_WRITTEN in {outcome.answer.code for outcome in outcomes}
