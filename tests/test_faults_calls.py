"""A real command that is killed, or one of whose calls fails: nothing is lost, doubled or torn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import errno
import json
import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys

import pytest

from faults.at_calls import BROKEN, SceneTrial, errors, facts, go_on, kills, select_evenly, unclear
from faults.scenes import (
    CHANGING,
    PRIVATE,
    REDACTING,
    SCENES,
    SHORT,
    TOLD,
    Fault,
    Scene,
    plant_secret,
    run,
    three_entries,
    why_not,
)
from helpers.commands import CommandResult, start_together
from helpers.events import HUMAN, list_events
from helpers.sweep import slice_of
from tallybook.ledger.errors import EXIT_NOT_WRITTEN
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.writing.redact import RedactionTarget, redact

KILLS = slice_of(4, 1)
FAILURES = slice_of(6, 2)
"""How many of each are tried in a scene here; `python -m tests.faults kills-at-calls errors-at-calls` tries all."""
APPEND = SCENES["append"]
LONG = (SCENES["redaction"], SCENES["keeping quotes"])
"""Scenes whose command opens the ledger several times."""


@pytest.fixture(params=SCENES)
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> SceneTrial:
    """Return a scene that was played once without a fault."""
    if why_not():
        pytest.skip(why_not())
    return SceneTrial(request.param, tmp_path)


def test_a_command_that_ends_or_fails_at_a_call_loses_nothing(trial: SceneTrial) -> None:
    """Acknowledged events are there once, others whole or absent; a failure is one clear line and exit code 4."""
    calls = trial.staged.calls
    changing = [call for call in calls if call.name in CHANGING]
    chosen = [*select_evenly(kills(changing), KILLS), *select_evenly(errors(changing), FAILURES)]
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
    trial = SceneTrial("keeping quotes", tmp_path)
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
    trial = SceneTrial("append", tmp_path)

    def play(_: Fault) -> CommandResult:
        trial.staged.put_back()
        for rating in recorded:
            commands.rate(trial.staged.project, "kpt_001", rating, HUMAN)
        return CommandResult(0, "recorded\n", "")

    monkeypatch.setattr(trial.staged, "play", play)
    outcome = trial.suffer(Fault("close", 1, "EIO"))
    assert expected == {name: outcome.counts[name] for name in BROKEN if outcome.counts[name]}
    assert bool(expected) == bool(outcome.problems)


def limit_file_size(project: Project, room: int) -> Callable[[], None]:
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
    answer = run(project, APPEND, before=limit_file_size(project, room))
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
    answer = run(project, wide, before=limit_file_size(project, 9_000))
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
    trial = SceneTrial("replay of a changed file", tmp_path)
    calls = trial.staged.calls
    appended = max(index for index, call in enumerate(calls) if call.name == "pwrite64")
    looks = [call for call in calls[appended:] if call.name == "newfstatat"][:8]
    outcomes = [trial.suffer(Fault(*call, "ENOSPC")) for call in looks]
    assert [] == [(str(outcome.fault), outcome.problems) for outcome in outcomes if outcome.problems]
    assert EXIT_NOT_WRITTEN in {outcome.answer.code for outcome in outcomes}


# A redaction that is raced by writers, meets files that cannot change, or was not finished.


def find_secret_files(project: Project) -> list[Path]:
    """Return the files in the agent's folder that hold the secret."""
    files = (path for path in project.claude.rglob("*") if path.is_file() and not path.is_symlink())
    return [path for path in files if PRIVATE.encode() in path.read_bytes()]


def read_shown(project: Project) -> list[tuple[str, int]]:
    """Return the playbook, without texts that hold the secret or were redacted."""
    entries = commands.show(project)["key_points"]
    texts = [("" if PRIVATE in entry["text"] else entry["text"].replace("[redacted]", "")) for entry in entries]
    return [(text, entry["helpful"]) for text, entry in zip(texts, entries, strict=True)]


def assert_recovers(project: Project, what: object, before: list[tuple[str, int]], *, done: bool) -> None:
    """Check that the ledger is whole, the next writer finishes a noted redaction, and another attempt succeeds.

    Args:
        project: The project of the interrupted redaction.
        what: The fault, for the message.
        before: The playbook before it.
        done: Whether the command reported success.
    """
    verdict = commands.verify_and_fold(project)[0]
    assert () == verdict.problems, what
    assert before == read_shown(project), what
    noted = (project.ledger / "erasing").exists()
    said = any(row["kind"] == "event.redacted" for row in list_events(project))
    assert noted == any("not finished" in note for note in verdict.notes), what
    assert not noted or PRIVATE not in json.dumps(commands.show(project)), what
    commands.rate(project, "kpt_001", "neutral", HUMAN)
    if noted or said or done:
        # Only a killed process's own file may be left, where it had no name that anybody reads yet.
        assert [] == find_secret_files(project), what
    apply_again(project)
    assert [] == find_secret_files(project), what
    assert ((), ()) == (commands.verify_and_fold(project)[0].problems, redactions(project)), what
    assert before == read_shown(project), what
    commands.check(project)


def redactions(project: Project) -> tuple[str, ...]:
    """Return the redactions that verify reports: none once they are done."""
    return tuple(note for note in commands.verify_and_fold(project)[0].notes if "redact" in note)


def apply_again(project: Project) -> None:
    """Redact once more; the error that nothing holds the text is fine as well."""
    assert main.run(["--project", str(project.root), *REDACTING]) in {0, 1}


@contextmanager
def flag_files(flag: str, *places: Path) -> Iterator[None]:
    """Give files an attribute of the file system for the duration of a block."""
    named = list(map(str, places))
    tried = subprocess.run(["chattr", f"+{flag}", *named], capture_output=True, check=False)
    try:
        if tried.returncode:
            pytest.skip("this user or file system cannot set file attributes")
        yield
    finally:
        subprocess.run(["chattr", f"-{flag}", *named], capture_output=True, check=False)


needs_chattr = pytest.mark.skipif(shutil.which("chattr") is None, reason="chattr is not installed")


@needs_chattr
def test_an_append_only_log_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The event is recorded, no reader shows the text, the answer lists the log; a writer finishes it later."""
    project = plant_secret(tmp_path)
    before = read_shown(project)
    log = project.ledger / "events.jsonl"
    with flag_files("a", log):
        for _ in range(2):
            assert 4 == main.run(["--project", str(project.root), *REDACTING])
            assert f"not erased: {log}" in capsys.readouterr().out
        commands.rate(project, "kpt_001", "neutral", HUMAN)
        assert [log, project.ledger / "erasing"] == sorted(find_secret_files(project), reverse=True)
        # One of the texts has two lines, and one is a sealed range.
        assert 4 == len(commands.verify_and_fold(project)[0].redacted)
        assert () == commands.verify_and_fold(project)[0].problems
        assert PRIVATE not in json.dumps([*list_events(project), commands.show(project)])
        commands.check(project)
    assert_recovers(project, "append-only", before, done=True)
    assert 3 == sum(row["kind"] == "event.redacted" for row in list_events(project))


@needs_chattr
def test_a_read_only_project_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a read-only project the dry run finds the text, and the redaction is refused with exit code 4."""
    project = plant_secret(tmp_path)
    files = {path: path.read_bytes() for path in project.claude.rglob("*") if path.is_file()}
    with flag_files("i", *files, project.ledger, project.claude):
        assert 0 == main.run(["--project", str(project.root), "redact", "--text", PRIVATE, "--dry-run"])
        assert 4 == main.run(["--project", str(project.root), *REDACTING])
    out, err = capsys.readouterr()
    assert ("would be redacted: event" in out, 1) == (True, err.count("\n"))
    assert files == {path: path.read_bytes() for path in project.claude.rglob("*") if path.is_file()}


WRITER = """
import sys
from pathlib import Path
from tallybook.projections.surfaces.writing import commands
from tallybook.projections.surfaces.workspace.project import Project

project, worker = Project(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    payload = {"new_key_points": [f"{worker} learned {number}"]}
    payload["evaluations"] = [{"name": "kpt_001", "rating": "helpful"}]
    commands.record(project, payload, {"rater": "reflector", "session": worker})
"""
WRITERS = 8
ROUNDS = 4


def test_a_redacted_text_does_not_return(tmp_path: Path) -> None:
    """Eight processes add while one redacts repeatedly: no text returns, nothing is lost, and all verifies."""
    project = three_entries(tmp_path)
    secrets = [f"{TOLD} number {number} of them" for number in range(ROUNDS)]
    commands.record(project, {"new_key_points": [*secrets, *("x" * 9_000 + str(n) for n in range(20))]}, HUMAN)
    script = [sys.executable, "-B", "-c", WRITER, str(project.root)]
    workers = start_together([[*script, f"w{worker}", str(ROUNDS)] for worker in range(WRITERS)])
    for secret in secrets:
        attempt(project, secret)
    ended = [(worker.communicate()[1], worker.returncode) for worker in workers]
    assert [("", 0)] * WRITERS == ended
    commands.replay(project)
    attempt(project, PRIVATE)
    assert [] == find_secret_files(project)
    verdict = commands.verify_and_fold(project)[0]
    assert ((), ROUNDS) == (verdict.problems, len(verdict.redacted))
    assert () == redactions(project)
    commands.check(project)
    shown_texts = [entry["text"] for entry in commands.show(project)["key_points"]]
    learned = {f"w{worker} learned {number}" for worker in range(WRITERS) for number in range(ROUNDS)}
    assert learned <= {*shown_texts}
    assert (ROUNDS, 1 + WRITERS * ROUNDS) == (shown_texts.count("[redacted]"), read_shown(project)[0][1])


def attempt(project: Project, secret: str) -> None:
    """Redact until the ledger is not locked; a writer may have erased the text in the meantime."""
    for _ in range(50):
        words = ["redact", "--text", secret, "--reason", "it was private", "--yes", "--expect", "1"]
        if main.run(["--project", str(project.root), *words]) != 4:
            return
    pytest.fail("the ledger was held all the while")


def test_a_second_redaction_finishes_an_unfinished_one(tmp_path: Path) -> None:
    """The next redaction erases what an earlier one could not, each with its own reason."""
    project = plant_secret(tmp_path)
    stuck = project.ledger / "odd.txt"
    stuck.write_text("\\u0068unter2-of-the-customer")
    assert 1 == len(redact(project, RedactionTarget(text=PRIVATE), "first", HUMAN).remaining)
    done = redact(project, RedactionTarget(text="Use type"), "second", HUMAN)
    assert any(str(stuck) in line for line in done.remaining)
    stuck.unlink()
    commands.rate(project, "kpt_001", "neutral", HUMAN)
    assert ([], ()) == (find_secret_files(project), redactions(project))
    reasons = [row["free"]["reason"] for row in list_events(project) if row["kind"] == "event.redacted"]
    assert ["first", "first", "first", "second"] == reasons
