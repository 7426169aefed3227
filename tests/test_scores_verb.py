"""The verb `score`, option by option: the shapes of its JSON, the text for people, and its errors."""

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
from helpers.score_examples import AT, EXAMPLE, config, events, noon, plain, record_events, record_example
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
from tallybook.projections.surfaces.scores import answers as score_answers
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.scores import screen as box
from tallybook.projections.surfaces.scores.files import write_files
from tallybook.projections.surfaces.scores.pages import markdown
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
def test_a_component_is_shown_by_itself(score: Callable[..., Any], printed: Callable[..., str]) -> None:
    """The answer has its score, its grade with status and action, and its trend."""
    found = score("--component", "ac09")
    assert ["component", "name", "date", "score", "grade", "coverage", "trend"] == list(found)
    assert ("ac09", "2026-01-16", 94, "A") == tuple(found[key] for key in ("component", "date", "score", "grade"))
    assert "94 (A) on 2026-01-16: Excellent. Maintain." in printed("--component", "ac09")


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


@pytest.mark.parametrize(
    "words", [[], ["--session"], ["--daily"], ["--weekly", "--detail"], ["--component", "ac06", "--detail"]]
)
@pytest.mark.usefixtures("project")
def test_without_any_score_nothing_fails(
    words: list[str], monkeypatch: pytest.MonkeyPatch, score: Callable[..., Any], printed: Callable[..., str]
) -> None:
    """Without scores the answer says that there are none yet."""
    monkeypatch.delenv("CLAUDE_SESSION_ID", raising=False)
    text = printed(*words)
    assert "No scores yet" in text or "no data" in text
    score(*words)


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
