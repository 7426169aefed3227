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

from helpers.score_examples import (
    AT,
    EXAMPLE,
    MEASURED,
    config,
    events,
    noon,
    plain,
    record_events,
    record_example,
)
from helpers.score_files import SESSION_FILE
from helpers.screens import shown
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
from tallybook.projections.surfaces.scores.configuration import load
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


def test_a_session_answers_with_its_file(scored: Path, score: Callable[..., Any]) -> None:
    """It is the latest, a named one, or one by a prefix of its id; each score has its coverage."""
    latest = json.loads(SESSION_FILE)
    named = json.loads((scored / SCORES / "sessions" / "s-3.json").read_bytes()) if score() else None
    found = [score(*words) for words in (["--session"], ["--session", "session_"], ["--session", "s-3"])]
    coverage = [one.pop("coverage") for one in found]
    assert [latest, latest, named] == found
    assert {"ac09": 1.0, "session.handoff": 1.0, "session.overall": 0.2} == coverage[2]
    assert {1.0} == set(coverage[0].values())


@pytest.mark.usefixtures("scored")
def test_the_current_session_is_the_agents(monkeypatch: pytest.MonkeyPatch, score: Callable[..., Any]) -> None:
    """If its variable names a session, that one is shown."""
    monkeypatch.setenv("CLAUDE_SESSION_ID", "s-2")
    assert "s-2" == score("--session")["session_id"]


def test_a_day_answers_with_its_file(scored: Path, score: Callable[..., Any]) -> None:
    """It is the latest day with data, or a named one, with the components and coverage of that day."""
    found = score("--daily")
    assert {1.0} == set(found.pop("coverage").values())
    assert {"ac06": 1.0} == score("--daily", "--component", "ac06")["coverage"]
    assert json.loads((scored / SCORES / "daily" / "2026-01-16.json").read_bytes()) == found
    assert {"ac06": {"avg": 82, "min": 82, "max": 82}} == score("--daily", "--component", "ac06")["component_averages"]


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


def test_a_run_has_no_composites(measured: Path, run: Run) -> None:
    """One bad component is no bad session, and a run is never the current session."""
    benchmark(run, 30, at="2026-01-17T12:00:00Z")
    state = state_of(Project(measured), load(Project(measured)))
    (own,) = (one for one in state.sessions.latest() if one.id != "s1")
    assert own.id.startswith("benchmark-")
    assert {"ac06": 60} == (own.contribution and own.contribution.scores)
    assert "s1" == json.loads(run("score", "--session", "--json").out)["session_id"]
    assert 87 == json.loads(run("score", "--json").out)["session_scores"]["overall"]
