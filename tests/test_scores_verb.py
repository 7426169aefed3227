"""The verbs of the scores, and the score files: sessions, moments, gates, baselines, and bytes that are rebuilt."""

from __future__ import annotations

from functools import partial
import json
import os
from pathlib import Path
import re
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
    example,
    folded,
    noon,
    plain,
    record_events,
    record_example,
)
from helpers.screens import shown
from helpers.sweep import slice_of
from tallybook.ledger import events as kinds
from tallybook.ledger.errors import EXIT_BAD_INPUT, EXIT_NO, BadInputError, LockHeldError
from tallybook.ledger.storage import disk
from tallybook.projections.scores import view as score_files
from tallybook.projections.surfaces.scores import answers, configuration, files, screen
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.scores.files import write_files
from tallybook.projections.surfaces.scores.pages import markdown
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.command_line import Run
    from tallybook.projections.surfaces.scores.files import Written


SESSION_FILE = """{
  "session_id": "session_2026-01-16_001",
  "timestamp": "2026-01-16T22:00:00.000Z",
  "version": "2.0.0",
  "component_scores": {
    "ac01": 92,
    "ac02": 88,
    "ac03": 85,
    "ac04": 95,
    "ac05": 78,
    "ac06": 82,
    "ac07": 75,
    "ac08": 90,
    "ac09": 94
  },
  "session_scores": {
    "efficiency": 93,
    "effectiveness": 86,
    "improvement": 81,
    "handoff": 94,
    "overall": 87
  },
  "grade": "B"
}
"""


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
def scored(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project with seven days of 80, the first week of the year, and the document's session on the 16th."""
    monkeypatch.delenv("CLAUDE_SESSION_ID", raising=False)
    monkeypatch.chdir(project)
    for day in range(1, 8):
        record_events(project, f"s-{day}", events(plain(80), "1.9"), noon(f"2026-01-{day:02}"))
    record_example(project)
    return project


def configure(project: Path, text: str) -> None:
    """Write the project's own configuration."""
    path = project / configuration.PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_answers_are_the_files_with_their_coverage(
    scored: Path, score: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is the latest, a named one, one by its beginning or the agent's; a day is the latest with data."""
    score()
    named, day = (json.loads((scored / SCORES / name).read_bytes()) for name in ("sessions/s-3.json", DAY_FILE))
    sessions = [score(*words) for words in (["--session"], ["--session", "session_"], ["--session", "s-3"])]
    coverage = [answer.pop("coverage") for answer in sessions]
    assert [json.loads(SESSION_FILE), json.loads(SESSION_FILE), named] == sessions
    assert {"ac09": 1.0, "session.handoff": 1.0, "session.overall": 0.2} == coverage[2]
    found = score("--daily")
    assert ({1.0}, day) == (set(found.pop("coverage").values()), found)
    monkeypatch.setenv("CLAUDE_SESSION_ID", "s-2")
    assert "s-2" == score("--session")["session_id"]


DAY_FILE = "daily/2026-01-16.json"


def test_an_export_is_a_markdown_file(scored: Path, score: Callable[..., Any], run: Run) -> None:
    """An export goes to a given file, to the day's file, or to standard output."""
    assert "health.md written\n" == run("score", "--weekly", "--export", "health.md").out
    assert {"path": "scores-2026-01-16.md", "result": "written"} == score("--export")
    assert (scored / "health.md").read_text(encoding="utf-8").startswith("# OVERALL, 7 DAYS\n\nOverall: 87 (B)")
    assert (scored / "scores-2026-01-16.md").read_text(encoding="utf-8") == run("score", "--export", "-").out


def test_the_configuration_in_force_is_yaml(scored: Path, score: Callable[..., Any], run: Run) -> None:
    """The packaged configuration has its comments, is merged with the project's own, and a mistake names its key."""
    packaged = configuration.PACKAGED.read_text(encoding="utf-8")
    assert packaged == run("score", "--config").out
    configure(scored, "scoring: {title: MINE, components: {ac09: {name: Mine}}}")
    document = yaml.safe_load(run("score", "--config").out)
    assert ("MINE", "Mine") == (document["scoring"]["title"], document["scoring"]["components"]["ac09"]["name"])
    assert document == score("--config")
    configure(scored, "scoring: {titel: MINE}")
    for words, out in (((), ""), (("--config",), packaged)):
        done = run("score", *words)
        assert (EXIT_BAD_INPUT, out, 1) == (done.code, done.out, done.err.count("\n"))
        assert "scoring.titel" in done.err


IDS = st.sampled_from(["s1", "S1", "../s1", "s 1", "ü\u202e", "x" * 200])
VALUES = st.one_of(st.integers(-3, 2**53), st.floats(-9e15, 9e15), st.booleans())
COMPONENTS = st.sampled_from(["ac01", "AC-02", "score.ac06", "ac08", "ac09", "", "ac99"])
NAMES = st.sampled_from(
    ["startup_ms", "completed", "total", "implemented", "successful", "rollbacks", "freshness", "completeness"]
)
EVENTS = st.one_of(
    st.builds(
        kinds.MetricsRecorded, COMPONENTS, st.dictionaries(NAMES, VALUES, max_size=3).map(kinds.Numbers), st.just("")
    ),
    st.builds(kinds.BenchmarkRecorded, COMPONENTS, st.just(""), st.integers(0, 9), st.integers(9, 20)),
    st.builds(kinds.FeedbackRecorded, COMPONENTS, st.floats(0, 100), st.just(""), st.none()),
    st.builds(kinds.SessionEnded, st.sampled_from(["", "1.0", "V/2", "..", "9" * 5000])),
    st.builds(kinds.TelemetryKept, COMPONENTS, st.just("odd"), st.just(""), st.none()),
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
    project, own = Project(folder), config()
    for id_, batch, when in told:
        record_events(folder, id_, tuple(batch), when)
        write_files(project, state_of(project, own))
    state = state_of(project, own)
    for period, name, detail in ASKED:
        component = None if name is None else own.components[name]
        answer, page = answers.look(answers.ScoreQuery(project, state, None, detail, component, None), period)
        json.dumps(answer, allow_nan=False)
        assert shown(partial(screen.show, page=page), 40).strip()
        assert markdown(page)
    # What was brought up to date step by step lacks nothing.
    first, second = (write_files(project, state, anew=True) for _ in range(2))
    assert (0, 0, 0) == (first.written, second.written, second.deleted)


@pytest.mark.parametrize(
    ("value", "own", "expected"),
    [
        (70, "", (False, False, False, False)),
        (69, "", (True, True, False, False)),
        (59, "", (True, True, True, False)),
        (49, "", (True, True, True, True)),
        (49, "notifications: {warning: [], alert: [], critical: []}", (False, False, False, False)),
        (69, "notifications: {warning: [user, block evolution]}", (False, False, True, True)),
        (49, "notifications: {alert: []}", (True, True, False, True)),
    ],
)
def test_each_level_notifies_its_channels(
    value: int, own: str, expected: tuple[bool, bool, bool, bool], project: Path, run: Run
) -> None:
    """A warning goes to log and dashboard, an alert also to the user, a critical score also to every gate."""
    if own:
        configure(project, f"scoring: {{{own}}}\n")
    record_events(project, "s1", events({**MEASURED, **plain(value)}), noon("2026-01-16"))
    summary, gate = run("score"), run("score", "gate", "--component", "ac01")
    feed = json.loads(run("score", "--feed").out)
    is_logged = "note: low scores: " in gate.err
    assert is_logged == ("note: low scores: " in summary.err)
    in_feed = "ac09" in {alert["score"] for alert in feed["alerts"]}
    assert expected == (is_logged, in_feed, "! AC-09" in summary.out.partition("Overall")[0], "closed" in gate.out)


def ask_gate(run: Run, *options: str) -> tuple[int, list[str]]:
    """Return the exit code of a gate, and rule and score of the reasons that close it."""
    done = run("score", "gate", *options, "--json")
    told: dict[str, Any] = json.loads(done.out)
    assert told["open"] is (done.code == 0)
    return done.code, [
        f"{reason['rule']} {reason['score_id']}".strip() for reason in told["reasons"] if reason["closes"]
    ]


def test_a_critical_score_blocks_all(project: Path, run: Run) -> None:
    """49 of one component closes every gate, its own for being below 70 as well; 69 its own alone, and 70 none."""
    for day, value, expected in ((1, 70, []), (2, 69, ["own score ac09"])):
        record_events(project, f"s-{day}", events(plain(value)), noon(f"2026-01-{day:02}"))
        assert (expected, []) == (ask_gate(run, "--component", "ac09")[1], ask_gate(run)[1])
    record_events(project, "s-3", events(plain(49) | plain(95, "ac03")), noon("2026-01-03"))
    assert [["critical ac09", "own score ac09"], ["critical ac09"]] == [
        [reason for reason in ask_gate(run, "--component", name)[1] if "session" not in reason]
        for name in ("ac09", "ac03")
    ]


def test_a_regression_blocks_until_it_is_acknowledged(project: Path, run: Run) -> None:
    """84 is more than 5 below the baseline of 90; a baseline of 84 acknowledges that, and 78 is a drop again."""
    own = ("--component", "ac09")
    for day, value, expected in ((1, 90, []), (2, 85, []), (3, 84, ["baseline ac09"]), (4, 78, ["baseline ac09"])):
        record_events(project, f"s-{day}", events(plain(value)), noon(f"2026-01-{day:02}"))
        assert expected == ask_gate(run, *own)[1]
        if day in {1, 3}:
            assert f"baseline of ac09 set to {value}\n" == run("score", "baseline", "AC-09", "--reason", "x").out
            assert (0, []) == ask_gate(run, *own)


def test_a_baseline_that_an_agent_types_is_recorded_as_the_agents(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside an agent the rater is that agent with its session, secrets in the reason are masked, no one is human."""
    record_events(project, "s-1", events(plain(90)), noon("2026-01-01"))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    assert 0 == run("score", "baseline", "ac09", "--reason", f"token {'ghp_' + 'a1B2' * 9}").code
    row = json.loads(run("log", "--json").out.splitlines()[-1])
    assert {"rater": "agent", "agent": "claude", "session": "s7"} == row["by"]
    assert "token [masked: GitHub Token]" == row["free"]["reason"]
    assert EXIT_BAD_INPUT == run("score", "baseline", "ac09", "--rater", "human").code


def test_the_gate_uses_the_latest_run_of_a_benchmark(scored: Path, run: Run) -> None:
    """30 of 50 is a score of 60, whatever sessions scored; a run has no composites and is nobody's session."""
    run_of = {"component": "AC-06", "benchmark": "small", "total": 50}
    for passed, more, code in ((30, {}, EXIT_NO), (45, {}, 0), (30, {"at": "2026-01-17T12:00:00Z"}, 0)):
        sent = json.dumps(run_of | {"passed": passed} | more).encode()
        assert (0, "") == (run("score", "record", stdin=sent).code, run("score", "record", stdin=b"").out)
        assert code == run("score", "gate", "--component", "ac06").code
    assert 0 == run("undo").code
    state = state_of(Project(scored))
    own = [session for session in state.sessions.latest() if session.id.startswith("benchmark-")]
    assert [{"ac06": 90}, {"ac06": 60}] == [dict(session.scores) for session in own]
    assert EXAMPLE == json.loads(run("score", "--session", "--json").out)["session_id"]


def test_the_documents_session_is_a_file_to_the_byte() -> None:
    """Scores of 92, 88, 85, 95, 78, 82, 75, 90 and 94 are stored as in "Per-Session Scores"."""
    found = dict(score_files.files(example(config())))
    assert SESSION_FILE.encode() == score_files.document_bytes(found[f"sessions/{EXAMPLE}.json"])


def test_a_day_is_stored_as_the_document_has_it() -> None:
    """Three sessions of 80, 90 and 95: average 88.33, and 7 days before of 86 → improving; keys in the order there."""
    sessions = [(f"b{day}", noon(f"2026-01-{day:02}"), plain(86), "") for day in range(9, 16)]
    day = [(f"s{value}", noon("2026-01-16"), plain(value), "") for value in (80, 90, 95)]
    found = dict(score_files.files(folded(config(), *sessions, *day)))["daily/2026-01-16.json"]
    assert {
        "date": "2026-01-16",
        "sessions_count": 3,
        "component_averages": {"ac09": {"avg": 88, "min": 80, "max": 95}},
        "session_averages": {"handoff": 88, "overall": 88},
        "session_ranges": {"handoff": {"min": 80, "max": 95}, "overall": {"min": 80, "max": 95}},
        "trend": {"direction": "improving", "delta": 0.3},
    } == found
    order = ["date", "sessions_count", "component_averages", "session_averages", "session_ranges", "trend"]
    assert order == list(found)


@given(st.text(max_size=150), st.text(max_size=150))
def test_no_two_ids_have_one_file(one: str, other: str) -> None:
    """Ids have different files where case is ignored too; and every name is valid, of at most 255 bytes."""
    names = [score_files.file_name(id_) for id_ in (one, other, one.upper(), other.casefold())]
    assert len({one, other, one.upper(), other.casefold()}) == len({name.casefold() for name in names})
    assert [] == [name for name in names if not re.fullmatch(r"[a-z0-9_~-][a-z0-9._~-]{0,120}", name)]


def bring(project: Path, *, anew: bool = False) -> Written:
    """Bring the score files up to date, or write all of them anew."""
    place = Project(project)
    return files.write_files(place, state_of(place), anew=anew)


def there(project: Path) -> dict[str, bytes]:
    """Return every file in the folder of the scores, by its path."""
    folder = project / SCORES
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_deleted_files_are_rebuilt_identically(project: Path, run: Run) -> None:
    """Every score file is deleted, and `replay` writes the same bytes."""
    record_example(project)
    record_events(project, "../Odd\n", events(plain(40), "V 2"), noon("2026-01-03"))
    assert 0 == run("replay").code
    before = there(project)
    assert 9 == len(before)
    for name in before:
        (project / SCORES / name).unlink()
    assert 0 == run("replay").code
    assert before == there(project)


def test_a_check_names_a_score_file_that_is_missing_or_changed(project: Path, run: Run) -> None:
    """The check counts the others, names no edit as kept, writes nothing, and ignores foreign files."""
    record_example(project)
    done = run("replay", "--check")
    drift = "is missing or differs from the ledger, and 4 more such files; run `tallybook replay`"
    assert (1, "", {}) == (done.code, done.out, there(project))
    assert f"tallybook: {project / SCORES / 'sessions' / f'{EXAMPLE}.json'}: {drift}" in done.err
    run("replay")
    assert 0 == run("replay", "--check").code
    day = project / SCORES / "daily" / "2026-01-16.json"
    day.write_text("{}", encoding="utf-8")
    (project / SCORES / "daily" / "note.json").write_text("{}", encoding="utf-8")
    done = run("replay", "--check")
    assert (1, True) == (
        done.code,
        done.err.endswith(f"{day}: is missing or differs from the ledger; run `tallybook replay`\n"),
    )
    assert "{}" == day.read_text(encoding="utf-8")
    configure(project, "scoring: {enabled: false}")
    assert 0 == run("replay", "--check").code


def test_only_changed_files_are_written(project: Path) -> None:
    """A session on the next day adds four files and changes the month; the others keep their time."""
    record_example(project)
    assert (5, 0, ()) == (bring(project).written, bring(project).written, bring(project).foreign)
    day = project / SCORES / "daily" / "2026-01-16.json"
    os.utime(day, (1, 1))
    record_events(project, "s2", events(plain(80), "2.0.0"), noon("2026-01-17"))
    assert 5 == bring(project).written
    assert 1 == day.stat().st_mtime


@pytest.mark.parametrize("change", ["undo", "retention", "zone"])
def test_an_unwanted_file_is_deleted(project: Path, change: str) -> None:
    """An undo, a shorter time or another zone deletes files, and the wanted ones are written."""
    record_example(project)
    record_events(project, "s2", events(plain(80)), noon("2026-02-16"))
    bring(project)
    if change == "undo":
        curation.undo(Project(project), None, EXAMPLE, "", {"rater": "human"})
    elif change == "retention":
        configure(project, "scoring: {storage: {retention_days: 7}}")
    else:
        configure(project, "scoring: {timezone: Asia/Tokyo}")
    done = bring(project)
    gone = {"undo": 5, "retention": 5, "zone": 1}[change]
    assert (gone, {"undo": 0, "retention": 0, "zone": 1}[change]) == (done.deleted, done.written)
    assert "daily/2026-01-16.json" not in there(project)


def test_a_foreign_file_stays_and_is_named(project: Path, run: Run) -> None:
    """A note, a copy, a torn file and a folder are named; a hidden file is skipped."""
    record_example(project)
    bring(project)
    folder = project / SCORES / "sessions"
    copied = (folder / f"{EXAMPLE}.json").read_bytes()
    others = {"note.json": b"{}", "copy.json": copied, "torn.json": copied[:9], "README.md": b"x", ".hidden": b"x"}
    for name, data in others.items():
        (folder / name).write_bytes(data)
    (folder / "inner.json").mkdir()
    assert tuple(f"sessions/{name}" for name in ("README.md", "copy.json", "inner.json", "note.json", "torn.json")) == (
        bring(project, anew=True).foreign
    )
    assert list(others.items()) == [(name, (folder / name).read_bytes()) for name in others]
    (folder.parent / "notes.txt").write_bytes(b"x")
    told = run("replay").err
    assert f"{folder.parent / 'notes.txt'} is not a score file of Tallybook's and was left as it is" in told
    assert f"{folder / 'copy.json'} is not a score file of Tallybook's and was left as it is" in told


@pytest.mark.parametrize("path", ["../elsewhere", ".claude/ledger/scores", "out/s", ".claude", "in"])
def test_a_folder_outside_of_the_project_is_refused(
    project: Path, path: str, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    """A path, a link on the way to it, the ledger's own folder and its parents are refused in a line."""
    record_example(project)
    (project / "out").symlink_to(tmp_path_factory.mktemp("out"))
    (project / "in").symlink_to(project / ".claude")
    configure(project, f'scoring: {{storage: {{path: "{path}"}}}}')
    with pytest.raises(BadInputError, match=r"scoring\.storage\.path"):
        bring(project, anew=True)
    done = run("score")
    assert (2, 1, "") == (done.code, done.err.count("\n"), done.out)


def test_a_link_in_place_of_an_inner_folder_is_refused(
    project: Path, tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    """Nothing is written to where it leads, and one line names it."""
    record_example(project)
    away = tmp_path_factory.mktemp("away")
    (project / SCORES).mkdir(parents=True)
    (project / SCORES / "sessions").symlink_to(away)
    done = run("replay")
    assert (4, True, []) == (done.code, "sessions: is a symbolic link" in done.err, list(away.iterdir()))


def test_one_process_writes_at_a_time(project: Path, run: Run) -> None:
    """`replay` names the process that holds the lock, and `score` still answers."""
    record_example(project)
    path = project / ".claude" / "ledger" / files.LOCK
    fd = disk.open_file(path, write=True, create=True)
    try:
        assert disk.try_lock(fd)
        with pytest.raises(LockHeldError):
            bring(project, anew=True)
        assert 4 == run("replay").code
        done = run("score", "--json")
        assert (0, 87) == (done.code, json.loads(done.out)["session_scores"]["overall"])
        assert "the score files are not up to date" in done.err
        assert "nothing was recorded" not in done.err
    finally:
        os.close(fd)
