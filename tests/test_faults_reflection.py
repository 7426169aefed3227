"""The process that reflects, killed at its calls and between its steps: each evaluation lands once."""

from __future__ import annotations

import json
import os
from pathlib import Path
import signal
from typing import Any

import pytest

from faults.at_calls import kills, select_evenly
from faults.scenes import CHANGING, Scene, Staged, cite_entry, here, why_not
from helpers.events import give
from helpers.hook_calls import events
from helpers.ledger_files import hold_ledger_lock
from helpers.transcripts import Script, ScriptedClient, answer, asked_for, find_transcripts, run, say
from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.events import (
    PointAdded,
    PointNoted,
    PointRated,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionStarted,
    TranscriptRead,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import raters, worker
from tallybook.projections.surfaces.workspace.project import MARKS, Project
from tallybook.projections.surfaces.workspace.settings import Settings
from tallybook.projections.surfaces.writing import commands

KILLS = int(os.environ.get("TALLYBOOK_TEST_KILLS", "8"))
"""How many of the calls are killed at, evenly spread; the variable says otherwise."""
TEXT = answer("Run the tests first.", kpt_001="helpful", kpt_002="harmful")


def count_kinds(project: Project) -> dict[str, int]:
    """Return how often each thing that a reflection says was recorded."""
    events = [
        record.event
        for batch in decode(open_log(project).read())
        for record in batch.records
        if record.by.session == "s1" and record.by.rater == "reflector"
    ]
    kinds = (PointAdded, PointRated, PointNoted, TranscriptRead, ReflectionCompleted)
    return {kind.__name__: sum(isinstance(event, kind) for event in events) for kind in kinds}


ONCE = {"PointAdded": 1, "PointRated": 2, "PointNoted": 2, "TranscriptRead": 1, "ReflectionCompleted": 1}


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_reflection_that_is_killed_at_any_call_lands_once(
    tmp_path: Path, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before, between and behind its appends: the next one goes on where this one stopped."""
    client.plans(TEXT)
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    staged = Staged(Scene(cite_entry, ("reflect", "--rater", "claude"), ""), tmp_path)
    assert ONCE == count_kinds(staged.project)
    chosen = select_evenly(kills([call for call in staged.calls if call.name in CHANGING]), KILLS)
    for fault in chosen:
        assert -signal.SIGKILL == staged.play(fault).code, fault
        again = here(staged.project, "reflect", "--rater", "claude")
        assert (0, fault, ONCE) == (again.code, fault, count_kinds(staged.project)), again
        assert 0 == here(staged.project, "verify").code, fault
        assert 0 == here(staged.project, "replay", "--check").code, fault


def test_a_worker_that_dies_while_a_model_thinks_is_followed_by_another(project: Path, client: ScriptedClient) -> None:
    """What it had begun is known to have been broken off, is asked again, and counts once."""
    script = Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    place = asked_for(project, script)
    commands.add(place, "Name things well", {"rater": "human"})
    client.plans(say(TEXT) | {"dies": True}, TEXT)
    assert -signal.SIGKILL == run(["reflect", "--rater", "claude"]).returncode
    assert dict.fromkeys(ONCE, 0) == count_kinds(place)
    assert 0 == run(["reflect", "--rater", "claude"]).returncode
    assert ONCE == count_kinds(place)
    started = [e for batch in decode(open_log(place).read()) for e in batch.events if isinstance(e, ReflectionStarted)]
    assert (2, 2) == (len(started), len(client.asked))


def test_what_keeps_failing_is_tried_less_and_less(
    project: Path, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of a hook waits twice as long after each failure, and gives up after some; a person need not wait."""
    place = asked_for(project, Script(find_transcripts(project) / "s1.jsonl").user("Fix it"))
    client.plans("no", "no", "no", "no", "no", "no", "no", TEXT)
    now = clock.utc_now().unix_us
    monkeypatch.setattr(clock, "utc_now", lambda: clock.moment(now))
    monkeypatch.setattr(reading, "open_log", lambda project: JsonlLog(project.ledger, lambda: clock.moment(now)))
    plan = worker.Plan(Settings(rater="claude", tokens_per_day=10**9), patient=True)
    asked = []
    for _ in range(2 * 24 * 60):
        assert worker.DONE == worker.work(place, plan)
        asked.append(len(client.asked))
        if asked[-1] == worker.MAX_TRIES:
            break
        now += 60 * clock.MICROSECONDS
    waits = [asked.index(number + 1) - asked.index(number) for number in range(1, worker.MAX_TRIES)]
    assert [5, 10, 20, 40, 80] == waits
    now += 30 * 24 * 3600 * clock.MICROSECONDS
    worker.work(place, plan)
    assert worker.MAX_TRIES == len(client.asked)
    worker.work(place, worker.Plan(Settings(rater="claude", tokens_per_day=10**9)))
    worker.work(place, worker.Plan(Settings(rater="claude", tokens_per_day=10**9)))
    assert [worker.MAX_TRIES + 2, 1] == [len(client.asked), count_kinds(place)["ReflectionCompleted"]]


def test_only_one_reflects_at_a_time(project: Path, client: ScriptedClient) -> None:
    """Another one that finds it at work leaves it alone, and says so to a person."""
    place = asked_for(project, Script(find_transcripts(project) / "s1.jsonl").user("Fix it"))
    client.plans(TEXT)
    with disk.hold_lock(place.ledger / worker.LOCK, 0):
        done = run(["reflect", "--rater", "claude"])
    assert (1, "note: another process reflects already; the rest stays pending\n") == (done.returncode, done.stderr)
    assert [] == client.asked


def test_a_ledger_that_is_held_loses_no_answer(
    project: Path, client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model said waits in the spool with the stretch that it was read from, and nobody is asked twice."""
    place = asked_for(
        project, Script(find_transcripts(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")
    )
    commands.add(place, "Name things well", {"rater": "human"})
    client.plans(TEXT)
    judge = raters.ask_rater
    locks: list[Any] = []

    def hold(*asked: Any) -> Any:
        answered = judge(*asked)
        locks.append(hold_ledger_lock(place))
        locks[0].__enter__()
        return answered

    monkeypatch.setattr(raters, "ask_rater", hold)
    assert worker.HELD == worker.work(place, worker.Plan(Settings(rater="claude")))
    locks[0].__exit__(None, None, None)
    assert worker.DONE == worker.work(place, worker.Plan(Settings(rater="claude")))
    assert (ONCE, 1) == (count_kinds(place), len(client.asked))
    assert Project(project).ledger.exists()


def test_another_rater_need_not_wait_for_what_one_failed_at(project: Path, client: ScriptedClient) -> None:
    """Whoever chose another has changed what it failed for: the transcript is read although the client is not there."""
    place = asked_for(project, Script(find_transcripts(project) / "s1.jsonl").agent("As [kpt_001] says."))
    client.plans("no")
    assert worker.DONE == worker.work(place, worker.Plan(Settings(rater="claude"), patient=True))
    assert worker.DONE == worker.work(place, worker.Plan(Settings(rater="claude"), patient=True))
    assert 1 == len(client.asked)
    worker.work(place, worker.Plan(patient=True))
    assert 1 == count_kinds(place)["TranscriptRead"]


def test_what_hooks_noted_of_old_sessions_is_removed(project: Path) -> None:
    """Their marks go after 30 days, where nothing is owed; later ones stay."""
    place = asked_for(project, Script(find_transcripts(project) / "s1.jsonl").user("Hello"))
    marks = place.ledger / MARKS
    marks.mkdir(exist_ok=True)
    for name, days in (("told-old", 31), ("told-new", 29)):
        (marks / name).touch()
        when = clock.utc_now().unix_us / clock.MICROSECONDS - days * 24 * 3600
        os.utime(marks / name, (when, when))
    worker.work(place, worker.Plan())
    assert ["told-new"] == [path.name for path in marks.glob("told-*")]


# Reflection on damaged transcripts: cut, shortened, moved, written late, or replaced by something else.


CLAUDE = worker.Plan(Settings(rater="claude", tokens_per_day=10**9))
HELPFUL = answer(kpt_001="helpful")


@pytest.fixture
def script(project: Path) -> Script:
    """Return a transcript with nothing in it."""
    return Script(find_transcripts(project) / "s1.jsonl")


def age(*paths: Path, seconds: int = 3_600) -> None:
    """Let files have been written to so long ago."""
    for path in paths:
        found = path.stat()
        os.utime(path, (found.st_atime - seconds, found.st_mtime - seconds))


def test_a_session_without_an_id_owes_nothing(project: Path, script: Script, client: ScriptedClient) -> None:
    """Nobody could say whose it was; those that have one are judged."""
    place = asked_for(project, script.user("Hello"))
    client.plans(HELPFUL)
    before = len(list(open_log(place).read()))
    run(["hook"], {"hook_event_name": "SessionEnd", "transcript_path": str(script.path)})
    assert before == len(list(open_log(place).read()))
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(events(place, PointRated))


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_half_a_character_is_no_obstacle(project: Path, script: Script, client: ScriptedClient, rater: str) -> None:
    """Agents cut emoji in two; what is around it is read, judged and quoted."""
    script.agent("using \ud83d [kpt_001] now", uuid="u\udc00").tool("Bash\ud83d", {"command": "x\ud83d"}, "y\udc00")
    place = asked_for(project, script)
    client.plans(HELPFUL)
    assert worker.DONE == worker.work(place, worker.Plan(Settings(rater=rater, tokens_per_day=10**9)))
    assert (rater == "claude") == ("using ? [kpt_001] now" in "".join(map(str, client.asked)))
    assert 1 == len(events(place, TranscriptRead))


@pytest.mark.parametrize(
    "step",
    [
        say(
            json.dumps(
                {"new_key_points": [], "evaluations": [{"name": "kpt_001", "rating": "helpful", "quote": "\ud83d"}]}
            )
        ),
        say(json.dumps({"new_key_points": ["half \ud83d"], "evaluations": []})),
        say(HELPFUL, usage={"input_tokens": 2**60, "output_tokens": -5}),
        say(HELPFUL, modelUsage={"m\ud83d": {}}),
        {"stdout": "\\ud83d sk-ant-api03-" + "A1b2" * 60, "code": 1},
    ],
    ids=["quote", "point", "usage", "model", "error"],
)
def test_whatever_a_rater_says_is_recorded_somehow(
    project: Path, script: Script, client: ScriptedClient, step: dict[str, Any]
) -> None:
    """As an answer or as a failure, and never paid for again without a trace; half a secret is stored nowhere."""
    place = asked_for(project, script.user("Hello"))
    client.plans(step)
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(events(place, TranscriptRead)) + len(events(place, ReflectionFailed))
    assert "A1b2" not in place.ledger.joinpath("events.jsonl").read_text(encoding="utf-8")


def test_what_is_written_after_the_end_of_a_session_is_read_later(
    project: Path, script: Script, client: ScriptedClient
) -> None:
    """The agent writes late: half a line is finished, one more follows, and a subagent's transcript appears."""
    script.user("one")
    whole = script.path.read_bytes()
    script.user("late")
    late = script.path.read_bytes()
    script.path.write_bytes(whole + late[len(whole) : -20])
    place = asked_for(project, script)
    give(place, "s1", "kpt_001")
    client.plans(answer())
    assert worker.DONE == worker.work(place, CLAUDE)
    script.path.write_bytes(late)
    sub = Script(script.path.with_suffix("") / "subagents" / "agent-1.jsonl", "a1", sidechain=True).agent("found it")
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(client.asked)
    age(script.path, sub.path)
    for _ in range(2):
        assert worker.DONE == worker.work(place, CLAUDE)
    assert ["User: late" in asked["prompt"] for asked in client.asked] == [False, True]
    assert "Subagent: Agent: found it" in client.asked[1]["prompt"]


def test_a_transcript_that_comes_back_is_judged(project: Path, script: Script, client: ScriptedClient) -> None:
    """A home folder that was not there, a backup that is put back."""
    place = asked_for(project, script.user("Hello"))
    client.plans(HELPFUL)
    away = script.path.rename(script.path.with_suffix(".away"))
    for _ in range(2):
        assert worker.DONE == worker.work(place, CLAUDE)
    assert ([], 1) == (client.asked, len(events(place, ReflectionFailed)))
    away.rename(script.path)
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(events(place, PointRated))
