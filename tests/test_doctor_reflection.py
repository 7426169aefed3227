"""The doctor on reflection: what is owed and failed, what the rater lacks, and what it has cost."""

from __future__ import annotations

from pathlib import Path
import re
from typing import TYPE_CHECKING

import pytest

from helpers.doctor import file_states, findings_of
from helpers.reflection_settings import choose
from helpers.transcripts import Script, answer, ask_again, asked_for, kept
from tallybook.ledger import clock
from tallybook.ledger.events import ReflectionCompleted, ReflectionFailed, ReflectionStarted
from tallybook.projections.surfaces.cli.main import run as run_here
from tallybook.projections.surfaces.doctor import checks, reflection
from tallybook.projections.surfaces.doctor.finding import Context
from tallybook.projections.surfaces.reflection import schedule
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.installation import install_command
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import record
from tallybook.projections.surfaces.writing.requests import Facts, Request

if TYPE_CHECKING:
    from helpers.transcripts import Client
    from tallybook.ledger.events import Event

TEXT = answer("Run the tests first.", kpt_001="helpful")
HOUR_US = 3600 * clock.MICROSECONDS
KEYS = reflection.KEYS


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
        record.write(project, [Request(Facts((event,)), {"rater": "reflector", "session": session, "model": model})])


def found(project: Project, later_us: int = 0) -> list[tuple[str, str, str]]:
    """Return level, message and hint of what the check finds, so long after the last event of the ledger."""
    latest = schedule.load_reflections(project).latest_batch
    now = clock.moment(clock.to_unix_us(latest.at if latest else "2026-11-21T12:00:00.000000Z") + later_us)
    return [(one.level, one.message, one.fix) for one in reflection.check_reflection(Context(project, now))]


# What is owed


def test_without_a_rater_it_is_one_line_that_nags_nobody(owed: Project) -> None:
    """How many sessions were not judged, and what would choose who does."""
    ((level, message, hint),) = found(owed)
    assert ("ok", "1 session not reflected on, as no rater is chosen") == (level, message)
    assert f"`rater` in the section `[reflection]` of {settings.users_file()} chooses one" == hint


def test_where_nothing_is_owed_nothing_is_to_be_done(owed: Project, client: Client) -> None:
    """Once a session was judged the same is said with a rater and without."""
    client.plans(TEXT)
    assert 0 == run_here(["reflect", "--rater", "claude"])
    assert ("ok", "no session awaits reflection, as no rater is chosen", "") == found(owed)[0]
    choose(rater="claude")
    assert ("ok", "no session awaits reflection", "") == found(owed)[0]


@pytest.mark.usefixtures("client")
def test_what_is_owed_is_told_with_its_age(owed: Project, project: Path) -> None:
    """The oldest counts; the command that judges is named."""
    choose(rater="claude")
    first, *_ = found(owed, 2 * HOUR_US)
    assert ("note", "1 session awaiting reflection, for 2 h") == first[:2]
    assert first[2].startswith("run `tallybook reflect`, or wait until ")
    ask_again(owed, Script(kept(project) / "s2.jsonl", "s2").user("And this"))
    assert "2 sessions awaiting reflection, the oldest for 3 h" == found(owed, 3 * HOUR_US)[0][1]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("tries", "later_us", "says"),
    [
        (1, 0, "once, last 0 s ago: unavailable: no login; next automatic attempt in 5 min at the earliest"),
        (
            1,
            HOUR_US,
            "once, last 1 h ago: unavailable: no login; next automatic attempt when a session starts or ends",
        ),
        (6, HOUR_US, "6 times, last 1 h ago: unavailable: no login; no further automatic attempt"),
    ],
)
def test_what_failed_is_told_with_its_cause_and_what_follows(
    owed: Project, tries: int, later_us: int, says: str
) -> None:
    """Session, tries, cause, reason, and when it is tried again."""
    choose(rater="claude")
    written(owed, *[ReflectionFailed("claude", "unavailable", 0, 0, "no login")] * tries)
    first, *_ = found(owed, later_us)
    assert ("note", f"session s1: reflection failed {says}", "run `tallybook reflect` to try now") == first


@pytest.mark.usefixtures("client")
def test_a_try_that_was_broken_off_is_told_once_it_cannot_be_under_way(owed: Project) -> None:
    """A try has five minutes; then whoever made it is gone."""
    choose(rater="claude")
    written(owed, ReflectionStarted("claude", 900))
    assert found(owed)[0][1].startswith("1 session awaiting reflection")
    broken = "session s1: reflection failed once, last 5 min ago: it was interrupted; "
    assert found(owed, HOUR_US // 12)[0][1].startswith(broken)


@pytest.mark.usefixtures("client")
def test_a_try_that_may_have_been_killed_promises_no_more_than_happens(owed: Project) -> None:
    """For five minutes no session takes it up, so that is what is said of it; a person need not wait."""
    choose(rater="claude")
    written(owed, ReflectionStarted("claude", 900))
    _, message, hint = found(owed, 60 * clock.MICROSECONDS)[0]
    assert message.endswith("; a process started 1 min ago; if it was killed, the retry is in 4 min at the earliest")
    assert "run `tallybook reflect` to try now" == hint
    assert [] == list(schedule.due(schedule.load_reflections(owed), schedule.Plan("claude", patient=True), ()))


@pytest.mark.parametrize("rater", ["none", "claude"])
def test_a_transcript_outside_the_agents_folder_is_named(project: Path, client: Client, rater: str) -> None:
    """With what reads it all the same, also where no rater is chosen; nothing else is said of its failure."""
    place = asked_for(project, Script(project / "s1.jsonl").user("Fix it").agent("As [kpt_001] says."))
    choose(rater=rater)
    assert 0 == run_here(["reflect"])
    told = [one for one in found(place) if "s1.jsonl" in one[1]]
    folder = Path.home() / ".claude" / "projects"
    message = f"1 transcript outside {folder} not read: {project / 's1.jsonl'}"
    assert [("note", message, f"run `tallybook reflect --from {project}` to read those of that folder")] == told
    assert [] == client.asked


@pytest.mark.usefixtures("client")
def test_a_reason_that_was_redacted_is_said(owed: Project) -> None:
    """What went stays gone, and the cause is still told."""
    choose(rater="claude")
    written(owed, ReflectionFailed("claude", "refused", 0, 0, "about Mallory"))
    assert 0 == run_here(["redact", "--text", "about Mallory", "--reason", "a name", "--yes"])
    assert "refused: its reason was redacted; " in found(owed)[0][1]


def test_transcripts_that_are_gone_are_counted_for_a_month(owed: Project, script: Script, client: Client) -> None:
    """Before anybody looked and behind it; what lies long back is told no more."""
    choose(rater="claude")
    script.path.unlink()
    gone = ("note", "1 transcript deleted before reflection")
    assert [("ok", "no session awaits reflection"), gone] == [one[:2] for one in found(owed)]
    client.plans(TEXT)
    assert 0 == run_here(["reflect"])
    assert gone == found(owed)[1][:2]
    assert '`"cleanupPeriodDays"` in the agent\'s settings keeps them longer' in found(owed)[1][2]
    assert [("ok", "no session awaits reflection", "")] == found(owed, 31 * 24 * HOUR_US)


# What it costs


@pytest.mark.usefixtures("client")
def test_the_days_tokens_that_are_spent_are_said_where_something_is_owed(owed: Project) -> None:
    """With what goes on today; where no session awaits reflection they are a fact and no fault."""
    choose(rater="claude", tokens_per_day=1000)
    written(owed, ReflectionCompleted("claude", 900, 200))
    spent = "the day's tokens are spent, 1,100 of 1,000, so pending sessions wait until tomorrow (UTC)"
    (told,) = [one for one in found(owed) if one[1] == spent]
    assert ("note", True) == (told[0], told[2].startswith("run `tallybook reflect --tokens N`, or raise "))
    assert spent not in [message for _, message, _ in found(owed, 24 * HOUR_US)]


def test_what_was_spent_is_told_by_day_month_and_model(owed: Project) -> None:
    """A person sees it although nothing is wrong; who has chosen no rater has no budget."""
    written(owed, ReflectionCompleted("claude", 900, 100), ReflectionFailed("claude", "unusable", 50, 0, "prose"))
    written(owed, ReflectionCompleted("anthropic", 2000, 0), model="opus")
    cost = ("ok", "3,050 tokens today, 3,050 in 30 days; in all opus 2,000, haiku 1,050", "")
    assert cost == found(owed)[-1]
    assert "0 tokens today, 3,050 in 30 days; in all opus 2,000, haiku 1,050" == found(owed, 29 * 24 * HOUR_US)[-1][1]
    assert "0 tokens today, 0 in 30 days; in all opus 2,000, haiku 1,050" == found(owed, 30 * 24 * HOUR_US)[-1][1]
    choose(rater="claude")
    assert found(owed)[-1][1].startswith("3,050 of 500,000 tokens today, ")
    assert 1 == sum("3,050 in 30 days" in line for line in checks.format_findings(checks.run_checks(owed)))


def test_what_is_under_way_counts_as_it_is_expected(owed: Project) -> None:
    """It is spent already, and by no model yet."""
    written(owed, ReflectionStarted("claude", 900))
    assert ("ok", "900 tokens today, 900 in 30 days", "") == found(owed)[-1]


# What the rater lacks


def test_a_client_that_is_not_there_is_bad(owed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever chose it is told before a session is."""
    choose(rater="claude")
    monkeypatch.setenv("PATH", "/nowhere")
    level, message, hint = found(owed)[0]
    assert ("bad", "the rater is claude, and `claude` is not on PATH") == (level, message)
    assert hint.startswith("install Claude Code, or put the folder of `claude` on PATH; or choose another `rater` in ")


@pytest.mark.parametrize("key", [None, *KEYS])
def test_the_sdk_asks_for_a_key(owed: Project, monkeypatch: pytest.MonkeyPatch, key: str | None) -> None:
    """Any of those that it takes is enough; an SDK that is missing is said by itself."""
    choose(rater="anthropic")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    if key is not None:
        monkeypatch.setenv(key, "k")
    monkeypatch.setattr(reflection, "find_spec", lambda name: name)
    bad = [message for level, message, _ in found(owed) if level == "bad"]
    names = "AGENTIC_CONTEXT_API_KEY, ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN"
    assert ([] if key else [f"the rater is anthropic, and none of {names} is set"]) == bad
    monkeypatch.setattr(reflection, "find_spec", lambda _: None)
    assert ("bad", "the rater is anthropic, and the package anthropic is not installed") == found(owed)[0][:2]
    assert found(owed)[0][2].startswith(f"run: {install_command('anthropic')}; or ")


# The rest


def test_a_folder_without_a_ledger_owes_nothing(project: Path) -> None:
    """Not a word of reflection is said where nothing was ever recorded."""
    choose(rater="claude")
    assert [] == list(reflection.check_reflection(Context(Project(project), clock.moment(0))))


def test_damage_is_told_by_the_check_of_the_ledger(owed: Project) -> None:
    """This one says that it did not look."""
    path = owed.ledger / "events.jsonl"
    path.write_bytes(re.sub(rb'"end":\d', b'"end":x', path.read_bytes(), count=1))
    assert [("note", "not checked, because the ledger is damaged")] == findings_of(owed, "reflection")


def test_looking_changes_nothing(owed: Project) -> None:
    """Not even the settings that were read are kept."""
    choose(rater="claude")
    before = file_states(owed.root) | file_states(Path.home())
    assert 1 <= len(findings_of(owed, "reflection"))
    assert before == file_states(owed.root) | file_states(Path.home())
