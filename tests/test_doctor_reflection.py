"""The doctor on reflection: what is owed and failed, what the rater lacks, and what it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.reflection_settings import choose
from helpers.transcripts import Script, ask_again, asked_for, kept
from tallybook.ledger import clock
from tallybook.ledger.events import ReflectionCompleted, ReflectionFailed
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.doctor import agents
from tallybook.projections.surfaces.doctor.finding import Context
from tallybook.projections.surfaces.reflection import raters, schedule
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.transcripts import Client
    from tallybook.ledger.events import Event
    from tallybook.projections.surfaces.workspace.project import Project

HOUR_US = 3600 * clock.MICROSECONDS


@pytest.fixture
def script(project: Path) -> Script:
    """Return the transcript of a session that cited an entry."""
    return Script(kept(project) / "s1.jsonl").user("Fix it").agent("Done as [kpt_001] says.")


@pytest.fixture
def owed(project: Path, script: Script) -> Project:
    """Return a project in which that session is to be reflected on."""
    return asked_for(project, script)


def written(project: Project, *events: Event, model: str = "haiku", session: str = "s1") -> None:
    """Record events of reflection, each in a batch of its own."""
    for event in events:
        record.write(
            project, [Request(PlainEvents((event,)), {"rater": "reflector", "session": session, "model": model})]
        )


def found(project: Project, later_us: int = 0) -> list[tuple[str, str, str]]:
    """Return level, message and hint of what the check finds, so long after the last event of the ledger."""
    latest = schedule.load_reflections(project).latest_batch
    now = clock.moment(clock.to_unix_us(latest.at if latest else "2026-11-21T12:00:00.000000Z") + later_us)
    return [(finding.level, finding.message, finding.fix) for finding in agents.check_reflection(Context(project, now))]


# What is owed


@pytest.mark.usefixtures("client")
def test_pending_sessions_are_counted(owed: Project, project: Path) -> None:
    """The command that reflects on them is named."""
    choose(rater="claude")
    assert ("note", "1 session awaiting reflection", "run `tallybook reflect`") == found(owed)[0]
    ask_again(owed, Script(kept(project) / "s2.jsonl", "s2").user("And this"))
    assert "2 sessions awaiting reflection" == found(owed)[0][1]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("tries", "says"), [(1, "once"), (6, "6 times")])
def test_a_failed_reflection_is_reported_with_its_cause(owed: Project, tries: int, says: str) -> None:
    """The finding gives session, tries, cause and reason; a failure of another rater is none of this one."""
    choose(rater="claude")
    written(owed, *[ReflectionFailed("claude", "unavailable", 0, 0, "no login")] * tries)
    message = f"session s1: reflection failed {says}: unavailable: no login"
    assert ("note", message, "run `tallybook reflect` to try now") == found(owed)[1]
    choose(rater="codex")
    assert message not in [finding[1] for finding in found(owed)]


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_a_transcript_outside_the_agents_folder_is_named(project: Path, client: Client, rater: str) -> None:
    """The finding names the command that reads it anyway, also without a rater, and no other failure."""
    place = asked_for(project, Script(project / "s1.jsonl").user("Fix it").agent("As [kpt_001] says."))
    choose(rater=rater)
    assert 0 == run_here(["reflect"])
    told = [one for one in found(place) if "s1.jsonl" in one[1]]
    message = f"1 transcript outside the agents' folders not read: {project / 's1.jsonl'}"
    assert [("note", message, f"run `tallybook reflect --from {project}` to read those of that folder")] == told
    assert [] == client.asked


# What it costs


@pytest.mark.usefixtures("client")
def test_a_spent_budget_is_reported_if_sessions_are_pending(owed: Project) -> None:
    """The finding says what goes on today; without pending sessions it is no problem."""
    choose(rater="claude", tokens_per_day=1000)
    written(owed, ReflectionCompleted("claude", 900, 200))
    spent = "the day's tokens are spent, 1,100 of 1,000, so pending sessions wait until tomorrow"
    (told,) = [one for one in found(owed) if one[1] == spent]
    assert ("note", "run `tallybook reflect --tokens N`") == (told[0], told[2])
    assert spent not in [message for _, message, _ in found(owed, 24 * HOUR_US)]


# What the rater lacks


@pytest.mark.parametrize("rater", raters.CLIENTS)
def test_a_missing_client_is_a_problem(owed: Project, monkeypatch: pytest.MonkeyPatch, rater: str) -> None:
    """Someone who chose it learns of it before a session does."""
    choose(rater=rater)
    monkeypatch.setenv("PATH", "/nowhere")
    level, message, hint = found(owed)[0]
    assert ("bad", f"the rater is {rater}, and `{rater}` is not on PATH") == (level, message)
    assert hint.startswith(f"install `{rater}`, or choose another `rater`, in the settings ")


def test_an_address_needs_a_model_and_the_key_that_it_names(owed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is missing is one line; an address that names no key needs none."""

    def bad() -> list[str]:
        return [message for level, message, _ in found(owed) if level == "bad"]

    choose(rater="openai")
    assert ["the rater is openai, and no address is set", "the rater is openai, and no model is set"] == bad()
    choose(rater="openai", address="http://127.0.0.1:11434/v1", model="m-1")
    assert [] == bad()
    choose(rater="openai", address="https://api.example.com/v1", model="m-1", key_variable="KEY_OF_A_TEST")
    assert ["the rater is openai, and KEY_OF_A_TEST, which `key_variable` names, is not set"] == bad()
    monkeypatch.setenv("KEY_OF_A_TEST", "k")
    assert [] == bad()
