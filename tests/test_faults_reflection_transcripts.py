"""Reflection on damaged transcripts: cut, shortened, moved, written late, or replaced by something else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.transcripts import Client, Script, answer, asked_for, kept, run, said
from tallybook.ledger.codec import decode
from tallybook.ledger.events import PointRated, ReflectionFailed, TranscriptRead
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.reflection import worker
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.workspace.settings import Settings

CLAUDE = worker.Plan(Settings(rater="claude", tokens_per_day=10**9))
HELPFUL = answer(kpt_001="helpful")


@pytest.fixture
def script(project: Path) -> Script:
    """Return a transcript with nothing in it."""
    return Script(kept(project) / "s1.jsonl")


def events(project: Project, kind: type[Any]) -> list[Any]:
    """Return the events of a kind, in order."""
    return [event for batch in decode(open_log(project).read()) for event in batch.events if isinstance(event, kind)]


def age(*paths: Path, seconds: int = 3_600) -> None:
    """Let files have been written to so long ago."""
    for path in paths:
        found = path.stat()
        os.utime(path, (found.st_atime - seconds, found.st_mtime - seconds))


def test_a_session_without_an_id_owes_nothing(project: Path, script: Script, client: Client) -> None:
    """Nobody could say whose it was; those that have one are judged."""
    place = asked_for(project, script.user("Hello"))
    client.plans(HELPFUL)
    before = len(list(open_log(place).read()))
    run(["hook"], {"hook_event_name": "SessionEnd", "transcript_path": str(script.path)})
    assert before == len(list(open_log(place).read()))
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(events(place, PointRated))


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_half_a_character_is_no_obstacle(project: Path, script: Script, client: Client, rater: str) -> None:
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
        said(
            json.dumps(
                {"new_key_points": [], "evaluations": [{"name": "kpt_001", "rating": "helpful", "quote": "\ud83d"}]}
            )
        ),
        said(json.dumps({"new_key_points": ["half \ud83d"], "evaluations": []})),
        said(HELPFUL, usage={"input_tokens": 2**60, "output_tokens": -5}),
        said(HELPFUL, modelUsage={"m\ud83d": {}}),
        {"stdout": "\\ud83d sk-ant-api03-" + "A1b2" * 60, "code": 1},
    ],
    ids=["quote", "point", "usage", "model", "error"],
)
def test_whatever_a_rater_says_is_recorded_somehow(
    project: Path, script: Script, client: Client, step: dict[str, Any]
) -> None:
    """As an answer or as a failure, and never paid for again without a trace; half a secret is stored nowhere."""
    place = asked_for(project, script.user("Hello"))
    client.plans(step)
    assert worker.DONE == worker.work(place, CLAUDE)
    assert 1 == len(events(place, TranscriptRead)) + len(events(place, ReflectionFailed))
    assert "A1b2" not in place.ledger.joinpath("events.jsonl").read_text(encoding="utf-8")


def test_what_is_written_behind_the_end_of_a_session_is_read_later(
    project: Path, script: Script, client: Client
) -> None:
    """The agent writes late: half a line is finished, one more follows, and a subagent's transcript appears."""
    script.user("one")
    whole = script.path.read_bytes()
    script.user("late")
    late = script.path.read_bytes()
    script.path.write_bytes(whole + late[len(whole) : -20])
    place = asked_for(project, script)
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


def test_a_transcript_that_comes_back_is_judged(project: Path, script: Script, client: Client) -> None:
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
