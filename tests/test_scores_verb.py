"""`score`: what it answers to people and programs, and what it leaves out."""

from __future__ import annotations

from functools import partial
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest
import yaml

from helpers.documentation import examples
from helpers.score_examples import (
    AT,
    EXAMPLE,
    MEASURED,
    config,
    events,
    folded,
    noon,
    plain,
    record_events,
    record_example,
)
from helpers.score_files import SESSION_FILE
from helpers.screens import shown, words
from helpers.sweep import slice_of
from tallybook.ledger.events import (
    BenchmarkRecorded,
    FeedbackRecorded,
    MetricsRecorded,
    Numbers,
    SessionEnded,
    TelemetryKept,
)
from tallybook.projections.scores.summary import current_scores
from tallybook.projections.surfaces.scores import answers as score_answers
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores import screen as box
from tallybook.projections.surfaces.scores.configuration import load
from tallybook.projections.surfaces.scores.files import write_files
from tallybook.projections.surfaces.scores.pages import alert_lines, markdown
from tallybook.projections.surfaces.scores.state import state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Run

SCORES = Path(".claude/metrics/scores")


@pytest.fixture
def score(run: Run) -> Callable[..., Any]:
    """Return a function that runs `score --json` with further arguments."""

    def score_(*words: str) -> Any:
        done = run("score", *words, "--json")
        assert ("", 0) == (done.err, done.code)
        return json.loads(done.out)

    return score_


@pytest.fixture
def printed(run: Run) -> Callable[..., str]:
    """Return a function that returns the text of `score` for people."""

    def printed_(*words: str) -> str:
        done = run("score", *words)
        assert ("", 0) == (done.err, done.code)
        return done.out

    return printed_


@pytest.fixture
def scored(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with seven days of 80, the first week of the year, and the document's session on the 16th."""
    monkeypatch.delenv("CLAUDE_SESSION_ID", raising=False)
    monkeypatch.chdir(project)
    for day in range(1, 8):
        record_events(project, f"s-{day}", events(plain(80), "1.9"), noon(f"2026-01-{day:02}"))
    record_example(project)
    return project


def test_the_summary_shows_every_score(scored: Path, score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """JSON has the keys of a session's file, the trend and the focus areas; people see a box."""
    found = score()
    assert ["date", "component_scores", "session_scores", "grade", "coverage", "days", "trend", "focus"] == list(found)
    assert ("2026-01-16", "B", 92) == (found["date"], found["grade"], found["component_scores"]["ac01"])
    assert {"direction", "delta", "delta_percent", "current_avg", "previous_avg"} == set(found["trend"]["trend"])
    assert "Overall: 87 (B)  ↑ +1.0 from last week" in printed()
    assert scored.exists()


@pytest.mark.usefixtures("scored")
def test_the_documentation_shows_the_summary(printed: Callable[..., str]) -> None:
    """The printed summary of these sessions equals the documented one, to the character."""
    (answer,) = [block.code for block in examples("text") if block.code.startswith("$ tallybook score\n")]
    assert answer == f"$ tallybook score\n{printed()}"


def test_a_session_answers_with_its_file(scored: Path, score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """It is the latest, a named one, or one by a prefix of its id; each score has its coverage."""
    latest = json.loads(SESSION_FILE)
    named = json.loads((scored / SCORES / "sessions" / "s-3.json").read_bytes()) if score() else None
    found = [score(*words) for words in (["--session"], ["--session", "session_"], ["--session", "s-3"])]
    coverage = [one.pop("coverage") for one in found]
    assert [latest, latest, named] == found
    assert {"ac09": 1.0, "session.handoff": 1.0, "session.overall": 0.2} == coverage[2]
    assert {1.0} == set(coverage[0].values())
    assert "SESSION s-3\nOverall: 80 (B), 20 % measured, 2026-01-03 12:00 UTC, version 1.9\n" in printed(
        "--session", "s-3"
    )


@pytest.mark.usefixtures("scored")
def test_the_current_session_is_the_agents(monkeypatch: pytest.MonkeyPatch, score: Callable[..., Any]) -> None:
    """If its variable names a session, that one is shown."""
    monkeypatch.setenv("CLAUDE_SESSION_ID", "s-2")
    assert "s-2" == score("--session")["session_id"]


@pytest.mark.usefixtures("scored")
def test_details_of_a_session_are_the_parts_of_its_scores(
    score: Callable[..., Any], printed: Callable[..., str]
) -> None:
    """Each measured component has its evidence."""
    found = score("--session", "s-3", "--detail")
    assert ("s-3", ["ac09"], 80) == (found["session_id"], list(found["parts"]), found["parts"]["ac09"]["score"])
    told = "AC-09 Session Completion: 80 (B), 100% of its weight measured"
    assert told in printed("--session", "s-3", "--detail")


def test_a_day_answers_with_its_file(scored: Path, score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """It is the latest day with data, or a named one, with the components and coverage of that day."""
    found = score("--daily")
    assert {1.0} == set(found.pop("coverage").values())
    assert {"ac06": 1.0} == score("--daily", "--component", "ac06")["coverage"]
    assert json.loads((scored / SCORES / "daily" / "2026-01-16.json").read_bytes()) == found
    assert {"ac06": {"avg": 82, "min": 82, "max": 82}} == score("--daily", "--component", "ac06")["component_averages"]
    assert printed("--daily").startswith("DAY 2026-01-16\n1 session, Overall: 87 (B)  ↑ +1.0 from last week\n")


@pytest.mark.usefixtures("scored")
def test_a_week_is_the_trend_of_seven_days(score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """The JSON follows "Trend Output", and names the span: seven days with data at 81, the one before them at 80."""
    assert {
        "metric": "score.session.overall",
        "period": "7_days",
        "data": [80, 80, 80, 80, 80, 80, 87],
        "trend": {
            "direction": "improving",
            "delta": 1.0,
            "delta_percent": 1.3,
            "current_avg": 81.0,
            "previous_avg": 80.0,
        },
        "forecast": None,
        "from": "2026-01-02",
        "to": "2026-01-16",
    } == score("--weekly")
    text = words(printed("--weekly"))
    assert "OVERALL, 7 DAYS Overall: 87 (B) ↑ +1.0 from last week" in text
    assert "Improving: 81.0 on average of the last 7 days with data, 80.0 of those before, +1.3 %." in text


@pytest.mark.parametrize("words", [(), ("--session",), ("--weekly",), ("--component", "ac06"), ("--blame",)])
def test_where_scoring_is_off_the_answer_says_so(scored: Path, run: Run, words: tuple[str, ...]) -> None:
    """With `enabled: false` no old score is shown, and JSON says the same; the configuration can still be read."""
    (scored / ".claude" / "config").mkdir()
    (scored / ".claude" / "config" / "scoring-config.yaml").write_text("scoring: {enabled: false}", encoding="utf-8")
    done = run("score", *words)
    assert (0, "scoring is off: scoring-config.yaml has `enabled: false`\n", "") == (done.code, done.out, done.err)
    assert (
        {"enabled": False} == json.loads(run("score", *words, "--json").out) == json.loads(run("score", "--feed").out)
    )
    assert "enabled: false" in run("score", "--config").out


@pytest.mark.usefixtures("scored")
def test_details_of_a_component_give_its_evidence(score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """Metrics have points, weights and events, and its greatest changes: 94 after 80, all parts alike."""
    found = score("--component", "ac09", "--detail")
    assert (EXAMPLE, 94, 1.0) == tuple(found["why"][key] for key in ("session_id", "score", "coverage"))
    (event,) = found["why"]["events"]
    assert [[event["seq"]]] * 3 == [part["events"] for part in found["why"]["parts"]]
    assert (7, 82.0, 80.0, 0.67) == (
        *(found["changes"][key] for key in ("days", "now", "before")),
        found["changes"]["parts"][0]["delta"],
    )
    text = words(printed("--component", "ac09", "--detail"))
    assert "From 80.0 to 82.0 since the 7 days with data before: completeness +0.7" in text
    assert f"In session {EXAMPLE}, 2026-01-16 22:00 UTC: 94 (A), 100% of its weight measured" in text
    assert (
        f"{event['seq']} 2026-01-16 22:00 UTC metrics state_preservation 94, handoff_quality 94, completeness 94"
        in text
    )


@pytest.mark.usefixtures("scored")
def test_the_feed_is_json_for_a_dashboard(score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """It is printed with or without --json."""
    found = score("--feed")
    assert json.loads(printed("--feed")) == found
    assert ["current", "trend", "alerts"] == list(found)


def test_a_moment_shows_its_scores(scored: Path, printed: Callable[..., str], run: Run) -> None:
    """Before the last session the score differs; an export names the moment, and no file follows it."""
    printed()
    before = {path: path.read_bytes() for path in (scored / SCORES).rglob("*.json")}
    then = ("--at", f"session:{EXAMPLE}")
    found = json.loads(run("score", *then, "--json").out)
    assert ("2026-01-07", 80) == (found["date"], found["session_scores"]["overall"])
    assert "80 (B) on 2026-01-07" in run("score", "--component", "ac09", "--detail", *then).out
    assert f"before session {EXAMPLE} began.".replace("_", "\\_") in run("score", *then, "--export", "-").out
    assert before == {path: path.read_bytes() for path in (scored / SCORES).rglob("*.json")}


def test_an_export_is_a_markdown_file(scored: Path, score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """It goes to a given file, to the day's file, or to standard output."""
    assert "health.md written\n" == printed("--weekly", "--export", "health.md")
    assert {"path": "scores-2026-01-16.md", "result": "written"} == score("--export")
    assert (scored / "health.md").read_text(encoding="utf-8").startswith("# OVERALL, 7 DAYS\n\nOverall: 87 (B)  ↑ +1.0")
    text = (scored / "scores-2026-01-16.md").read_text(encoding="utf-8")
    assert "| AC-07 R&D Cycles | 75 | C |  | 100 % |\n" in text
    assert text == printed("--export", "-")


def test_the_effective_configuration_is_yaml(
    scored: Path, score: Callable[..., Any], printed: Callable[..., str]
) -> None:
    """It is the packaged one with its comments, or merged with the project's own."""
    assert configuration.PACKAGED.read_text(encoding="utf-8") == printed("--config")
    path = scored / configuration.PLACE
    path.parent.mkdir()
    path.write_text("scoring: {title: MINE, components: {ac09: {name: Mine}}}", encoding="utf-8")
    document = yaml.safe_load(printed("--config"))
    assert ("MINE", "Mine") == (document["scoring"]["title"], document["scoring"]["components"]["ac09"]["name"])
    assert document == score("--config")


def test_a_configuration_with_a_mistake_names_its_key(scored: Path, run: Run) -> None:
    """The error is one line; --config shows the default instead, as the line says."""
    path = scored / configuration.PLACE
    path.parent.mkdir()
    path.write_text("scoring: {titel: MINE}", encoding="utf-8")
    done = run("score")
    assert (2, 1) == (done.code, done.err.count("\n"))
    assert "scoring.titel" in done.err
    shown = run("score", "--config")
    assert (2, configuration.PACKAGED.read_text(encoding="utf-8")) == (shown.code, shown.out)
    assert "scoring.titel" in shown.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--daily", "--weekly"], 2, "--daily and --weekly: exclude each other"),
        (["--session", "x", "--config"], 2, "--session and --config: exclude each other"),
        (["--feed", "--export", "x.md"], 2, "--feed and --export: exclude each other"),
        (["--blame", "--detail"], 2, "--blame and --detail: exclude each other"),
        (["--config", "--at", "1"], 2, "--config and --at: exclude each other"),
        (["--component", "ac99"], 2, "--component ac99: is not a component; there are ac01, ac02"),
        (["--session", "nobody"], 1, "session nobody: has no scored event"),
        (["--session", "s-"], 2, "several ids begin with it: 's-7', 's-6', 's-5', 's-4', 's-3' and 2 more"),
        (["--at", "never"], 2, "is not a moment"),
        (["--blame", "mood"], 2, "--blame mood: is not a score"),
        (["--export", ".claude/playbook.json"], 2, "give another file"),
    ],
)
@pytest.mark.usefixtures("scored")
def test_an_invalid_question_is_answered_in_a_line(words: list[str], code: int, told: str, run: Run) -> None:
    """The exit code is 2 for a bad question, and 1 for a negative answer."""
    done = run("score", *words)
    assert (code, 1, "") == (done.code, done.err.count("\n"), done.out)
    assert told in done.err


IDS = st.sampled_from(["s1", "S1", "../s1", "s 1", "ü\u202e", "x" * 200])
VALUES = st.one_of(st.integers(-3, 2**53), st.floats(-9e15, 9e15), st.booleans())
COMPONENTS = st.sampled_from(["ac01", "AC-02", "score.ac06", "ac08", "ac09", "", "ac99"])
NAMES = st.sampled_from(
    ["startup_ms", "completed", "total", "implemented", "successful", "rollbacks", "freshness", "completeness"]
)
EVENTS = st.one_of(
    st.builds(MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, VALUES, max_size=3).map(Numbers), st.just("")),
    st.builds(BenchmarkRecorded, COMPONENTS, st.just(""), st.integers(0, 9), st.integers(9, 20)),
    st.builds(FeedbackRecorded, COMPONENTS, st.floats(0, 100), st.just(""), st.none()),
    st.builds(SessionEnded, st.sampled_from(["", "1.0", "V/2", "..", "9" * 5000])),
    st.builds(TelemetryKept, COMPONENTS, st.just("odd"), st.just(""), st.none()),
)
TIMES = st.sampled_from([None, AT, noon("2024-02-29"), "2026-01-16T23:59:59.999999Z", noon("2026-12-31")])
ASKED = [
    *(("", component, detail) for component in (None, "ac06") for detail in (False, True)),
    *((period, None, True) for period in ("session", "daily", "weekly", "monthly")),
]


@settings(max_examples=slice_of(25, 8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(IDS, st.lists(EVENTS, min_size=1, max_size=4), TIMES), max_size=8))
def test_any_history_answers_every_question(
    new_project: Callable[[], Path], told: list[tuple[str, list[Any], str | None]]
) -> None:
    """JSON, screen and markdown are printed; and the files equal a rebuild."""
    folder = new_project()
    project = Project(folder)
    own = config()
    for id_, batch, when in told:
        record_events(folder, id_, tuple(batch), when)
        write_files(project, state_of(project, own))
    state = state_of(project, own)
    for period, name, detail in ASKED:
        component = None if name is None else own.components[name]
        answer, page = score_answers.look(
            score_answers.ScoreQuery(project, state, None, detail, component, None), period
        )
        json.dumps(answer, allow_nan=False)
        assert shown(partial(box.show, page=page), 40).strip()
        assert markdown(page)
    # What was brought up to date step by step lacks nothing.
    first, second = (write_files(project, state, anew=True) for _ in range(2))
    assert (0, 0, 0) == (first.written, second.written, second.deleted)


LOGGED = "note: low scores: "


def channels(run: Run) -> tuple[bool, bool, bool, bool]:
    """Return whether ac09 is in the log, in the feed, at the top of the summary, and closes another's gate."""
    summary, gate = run("score"), run("score", "gate", "--component", "ac01")
    feed = json.loads(run("score", "--feed").out)
    top = summary.out.partition("Overall")[0]
    assert (LOGGED in gate.err) == (LOGGED in summary.err)
    return (
        LOGGED in gate.err,
        "ac09" in {one["score"] for one in feed["alerts"]},
        "! AC-09" in top,
        "closed" in gate.out,
    )


@pytest.mark.parametrize(
    ("value", "own", "expected"),
    [
        (70, "", (False, False, False, False)),
        (69, "", (True, True, False, False)),
        (59, "", (True, True, True, False)),
        (49, "", (True, True, True, True)),
        (49, "notifications: {warning: [], alert: [], critical: []}", (False, False, False, False)),
        (69, "notifications: {warning: [user]}", (False, False, True, False)),
        (69, "notifications: {warning: [dashboard]}", (False, True, False, False)),
        (69, "notifications: {warning: [log]}", (True, False, False, False)),
        (69, "notifications: {warning: [block evolution]}", (False, False, False, True)),
        (49, "notifications: {alert: []}", (True, True, False, True)),
    ],
)
def test_each_level_notifies_its_channels(
    value: int, own: str, expected: tuple[bool, bool, bool, bool], project: Path, run: Run
) -> None:
    """A warning goes to log and dashboard, an alert also to the user, a critical score also to every gate."""
    if own:
        file = project / ".claude/config/scoring-config.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(f"scoring: {{{own}}}\n", encoding="utf-8")
    measured: dict[str, Any] = {**MEASURED, **plain(value)}
    record_events(project, "s1", events(measured), noon("2026-01-16"))
    assert expected == channels(run)


def test_the_user_sees_the_worst_first() -> None:
    """The summary has five of them, and the number of others; a mere warning is none of them."""
    low = folded(config(), ("s1", noon("2026-01-16"), plain(69) | plain(59, "ac03") | plain(49, "ac05"), ""))
    assert [
        "AC-05 Self-Reflection is 49 on 2026-01-16, below 50 (critical).",
        "Improvement is 49 on 2026-01-16, below 50 (critical).",
        "Overall is 58 on 2026-01-16, below 60 (alert).",
        "AC-03 Milestone Review is 59 on 2026-01-16, below 60 (alert).",
        "Effectiveness is 59 on 2026-01-16, below 60 (alert).",
    ] == list(alert_lines(current_scores(low), low.config))
    all_low = {f"ac0{n}": plain(10, f"ac0{n}")[f"ac0{n}"] for n in (3, 4, 5, 7, 8, 9)}
    state = folded(config(), ("s1", noon("2026-01-16"), all_low, ""))
    assert "and 6 more." == list(alert_lines(current_scores(state), state.config))[-1]


def test_an_alert_of_the_past_is_not_logged_again(project: Path, run: Run) -> None:
    """A moment of the past is shown with its alerts for the user, and logs nothing."""
    record_events(project, "s1", events(plain(40)), noon("2026-01-16"))
    done = run("score", "--at", "3")
    assert "! AC-09" in done.out
    assert LOGGED not in done.err + run("score", "gate", "--at", "3").err


@pytest.fixture
def barely_measured(project: Path) -> None:
    """Record a session of which 3 % of the overall score's weight was measured, and which scores 20."""
    record_events(project, "s1", events({"ac01": {"startup_ms": 25000}}), noon("2026-01-16"))


@pytest.mark.usefixtures("barely_measured")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "Overall: not enough measured (3 %)"),
        (("--detail",), "Overall: not enough measured (3 %)"),
        (("--session",), "Overall: not enough measured (3 %), 2026-01-16 12:00 UTC"),
        (("--daily",), "1 session, Overall: not enough measured (3 %)"),
        (("--weekly",), "Overall: not enough measured (3 %)"),
        (("--monthly", "--detail"), "Overall: not enough measured (3 %)"),
        (("--export", "-"), "Overall: not enough measured (3 %)"),
    ],
)
def test_an_overall_score_measured_too_little_is_shown_as_such(run: Run, words: tuple[str, ...], line: str) -> None:
    """People see the coverage in place of the number, in every answer; no alert names the number."""
    done = run("score", *words)
    shown_lines = [one.strip("│ ") for one in done.out.splitlines()]
    assert line in shown_lines
    assert [] == [one for one in shown_lines if one.startswith(("Overall", "! Overall")) and " 20 " in one]
    assert "note: low scores: ac01 is 20 on 2026-01-16 (critical)\n" == done.err


@pytest.mark.usefixtures("barely_measured")
def test_a_drop_of_a_barely_measured_score_is_no_answer(project: Path, run: Run) -> None:
    """`--blame` asks people to name a component instead; JSON has the drop and its coverage."""
    record_events(project, "s2", events({"ac01": {"startup_ms": 29000}}), noon("2026-01-17"))
    assert (
        "session.overall: not enough measured (3 %) to explain the drop; `tallybook score --blame COMPONENT` explains "
        "one component, such as ac06\n"
    ) == run("score", "--blame").out
    assert "ac01 dropped by 16 points" in run("score", "--blame", "ac01").out
    told = json.loads(run("score", "--blame", "--json").out)
    assert (0.03, 20) == (told["coverage"], told["drop"]["before"]["score"])


@pytest.fixture
def lines(project: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs `score --session` and other commands in a project without scores."""
    del project
    monkeypatch.delenv("CLAUDE_SESSION_ID", raising=False)
    return run


def test_nothing_recorded_is_answered_with_the_command_that_records(lines: Run) -> None:
    """Without any recording the answer names `score record`."""
    assert ["No scores yet: `tallybook score record` records what they are made of."] == (
        lines("score", "--session").out.splitlines()[1:]
    )


def test_unscored_telemetry_is_counted_by_its_type(lines: Run) -> None:
    """103 events of telemetry without a row are reported as recorded, and as no measurement."""
    moments = (f"2026-01-16T00:{number // 60:02}:{number % 60:02}Z" for number in range(103))
    sent = [{"event_type": "coffee_made", "component": "ac02", "session_id": "s1", "at": at} for at in moments]
    lines("score", "record", stdin="".join(f"{json.dumps(one)}\n" for one in sent).encode())
    assert [
        "No scores yet: what was recorded is in no score.",
        "Recorded, and no measurement: telemetry of type coffee_made (103).",
    ] == lines("score", "--session").out.splitlines()[1:]


def test_metrics_without_a_session_are_counted(lines: Run) -> None:
    """The answer names the option that sets a session."""
    lines("score", "record", "--component", "ac01", "startup_ms=8000")
    assert [
        "No scores yet: what was recorded is in no score.",
        "Measured, and in no score: no session (1).",
        "For no session: `tallybook score record --session ID` names the session.",
    ] == lines("score", "--session").out.splitlines()[1:]


def test_a_session_without_a_score_names_what_is_missing(lines: Run) -> None:
    """A value that makes no metric by itself is named with the missing one; an end measures nothing."""
    lines("score", "record", "--component", "ac06", "--session", "s1", "successful=3")
    lines("score", "record", stdin=b'{"session_id": "s2", "session_ended": true, "at": "2026-01-16T00:00:00Z"}')
    text = " ".join(lines("score", "--session").out.split())
    needs = "successful and implemented; or validated and total; or rollbacks and implemented; or processed and target"
    assert f"Session s1 has successful of ac06, whose score needs {needs}." in text
    assert "Session s2 has nothing measured of a component." in text


ASK = ("score", "gate", "--component", "ac06")


def benchmark(run: Run, passed: int, **named: Any) -> None:
    """Record the result of a benchmark of fifty cases, by default of ac06 and without a session."""
    said = {"component": "AC-06", "benchmark": "small", "passed": passed, "total": 50} | named
    done = run("score", "record", stdin=json.dumps(said).encode())
    assert (0, "") == (done.code, done.err)


@pytest.fixture
def measured(project: Path) -> Path:
    """Return a project with a session of all nine components: ac06 has 82, and the overall score is 87."""
    record_events(project, "s1", events(MEASURED), noon("2026-01-16"))
    return project


@pytest.mark.usefixtures("measured")
def test_the_gate_uses_the_latest_run(run: Run) -> None:
    """30 of 50 is a score of 60, whatever earlier sessions scored; 45 of 50 is 90, and opens the gate again."""
    assert 0 == run(*ASK).code
    benchmark(run, 30)
    assert (1, True) == ((done := run(*ASK)).code, "ac06 is 60, below 70" in done.out)
    benchmark(run, 45)
    assert 0 == run(*ASK).code


def test_a_late_older_run_is_not_the_latest(measured: Path, run: Run) -> None:
    """It counts for the day on which it was run."""
    benchmark(run, 45, at="2026-01-18T12:00:00Z")
    benchmark(run, 30, at="2026-01-17T12:00:00Z")
    assert 0 == run(*ASK).code
    days = state_of(Project(measured), load(Project(measured))).days
    assert {"2026-01-16": {82: 1}, "2026-01-17": {60: 1}, "2026-01-18": {90: 1}} == {
        day: tally.scores["ac06"] for day, tally in days.items()
    }


def test_a_run_has_no_composites(measured: Path, run: Run) -> None:
    """One bad component is no bad session, and a run is never the current session."""
    benchmark(run, 30, at="2026-01-17T12:00:00Z")
    state = state_of(Project(measured), load(Project(measured)))
    (own,) = (one for one in state.sessions.latest() if one.id != "s1")
    assert own.id.startswith("benchmark-")
    assert {"ac06": 60} == (own.contribution and own.contribution.scores)
    assert "s1" == json.loads(run("score", "--session", "--json").out)["session_id"]
    assert 87 == json.loads(run("score", "--json").out)["session_scores"]["overall"]


@pytest.mark.usefixtures("measured")
def test_an_undone_run_does_not_count(run: Run) -> None:
    """The gate uses the run before it again."""
    benchmark(run, 30)
    assert 1 == run(*ASK).code
    assert 0 == run("undo").code
    assert 0 == run(*ASK).code
