"""The verbs of the scores, and the score files: sessions, moments, gates, baselines, and bytes that are rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
import json
import os
from pathlib import Path
import re
import time
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest
from rich.cells import cell_len

from helpers.commands import Run
from helpers.documentation import examples
from helpers.score_histories import (
    AT,
    EXAMPLE,
    MEASURED,
    config,
    events,
    example,
    fold_sessions,
    noon,
    plain,
    record_events,
    record_example,
)
from helpers.screens import render_screen
from helpers.sweep import slice_of
from tallybook.ledger import events as kinds
from tallybook.ledger.errors import LockHeldError
from tallybook.ledger.storage import disk
from tallybook.projections.scores import view as score_files
from tallybook.projections.scores.view import Scores
from tallybook.projections.surfaces.scores import answers, configuration, files, screen
from tallybook.projections.surfaces.scores import screen as box
from tallybook.projections.surfaces.scores.answers import ScorePage, ScoreQuery, Table, look, markdown
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.scores.files import Written, write_files
from tallybook.projections.surfaces.workspace.project import Project

SCORES = Path(".claude/metrics/scores")
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
        assert render_screen(partial(screen.show, page=page), 40).strip()
        assert markdown(page)
    # What was brought up to date step by step lacks nothing.
    first, second = (write_files(project, state) for _ in range(2))
    assert (0, 0, 0) == (first.written, second.written, second.deleted)


def test_a_secret_in_the_reason_of_an_agents_baseline_is_masked(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason that an agent types is masked like a model's text; `tests/tape/stories/scores.txt` has its author."""
    record_events(project, "s-1", events(plain(90)), noon("2026-01-01"))
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    assert 0 == run("score", "baseline", "ac09", "--reason", f"token {'ghp_' + 'a1B2' * 9}").code
    row = json.loads(run("log", "--json").out.splitlines()[-1])
    assert "token [masked: GitHub Token]" == row["free"]["reason"]


def test_the_documents_session_is_a_file_to_the_byte() -> None:
    """Scores of 92, 88, 85, 95, 78, 82, 75, 90 and 94 are stored as in "Per-Session Scores"."""
    components = dict(zip([f"ac0{n}" for n in range(1, 10)], (92, 88, 85, 95, 78, 82, 75, 90, 94), strict=True))
    sessions = {"efficiency": 93, "effectiveness": 86, "improvement": 81, "handoff": 94, "overall": 87}
    scores = {"component_scores": components, "session_scores": sessions, "grade": "B"}
    session = {"session_id": EXAMPLE, "timestamp": "2026-01-16T22:00:00.000Z", "version": "2.0.0", **scores}
    found = dict(score_files.files(example(config())))
    assert f"{json.dumps(session, indent=2)}\n".encode() == (
        score_files.document_bytes(found[f"sessions/{EXAMPLE}.json"])
    )


def test_a_day_is_stored_as_the_document_has_it() -> None:
    """Three sessions of 80, 90 and 95: average 88.33, and 7 days before of 86 → improving; keys in the order there."""
    sessions = [(f"b{day}", noon(f"2026-01-{day:02}"), plain(86), "") for day in range(9, 16)]
    day = [(f"s{value}", noon("2026-01-16"), plain(value), "") for value in (80, 90, 95)]
    found = dict(score_files.files(fold_sessions(config(), *sessions, *day)))["daily/2026-01-16.json"]
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
def test_no_two_ids_have_one_file(id_: str, other: str) -> None:
    """Ids have different files where case is ignored too; and every name is valid, of at most 255 bytes."""
    names = [score_files.file_name(each) for each in (id_, other, id_.upper(), other.casefold())]
    assert len({id_, other, id_.upper(), other.casefold()}) == len({name.casefold() for name in names})
    assert [] == [name for name in names if not re.fullmatch(r"[a-z0-9_~-][a-z0-9._~-]{0,120}", name)]


def bring(project: Path) -> Written:
    """Bring the score files up to date."""
    place = Project(project)
    return files.write_files(place, state_of(place))


def test_only_changed_files_are_written(project: Path) -> None:
    """A session on the next day adds four files and changes the month; the others keep their time."""
    record_example(project)
    assert (5, 0, ()) == (bring(project).written, bring(project).written, bring(project).foreign)
    day = project / SCORES / "daily" / "2026-01-16.json"
    os.utime(day, (1, 1))
    record_events(project, "s2", events(plain(80), "2.0.0"), noon("2026-01-17"))
    assert 5 == bring(project).written
    assert 1 == day.stat().st_mtime


def test_of_a_long_history_the_sessions_that_changed_last_are_compared(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`score` writes the file of the session that changed last, however old it is, and `replay` those of all."""
    for name, day in (("new", 17), ("old", 16)):
        record_events(project, name, events(plain(80)), noon(f"2026-01-{day}"))
    monkeypatch.setattr(files, "MOST_COMPARED", 1)
    for verb, names in (("score", ["old.json"]), ("replay", ["new.json", "old.json"])):
        assert 0 == run(verb).code
        assert names == sorted(path.name for path in (project / SCORES / "sessions").iterdir())


def test_one_process_writes_at_a_time(project: Path, run: Run) -> None:
    """`replay` names the process that holds the lock, and `score` still answers."""
    record_example(project)
    path = project / ".claude" / "ledger" / files.LOCK
    fd = disk.open_file(path, write=True, create=True)
    try:
        assert disk.try_lock(fd)
        with pytest.raises(LockHeldError):
            bring(project)
        assert 4 == run("replay").code
        done = run("score", "--json")
        assert (0, 87) == (done.code, json.loads(done.out)["session_scores"]["overall"])
        assert "the score files are not up to date" in done.err
        assert "nothing was recorded" not in done.err
    finally:
        os.close(fd)


# Scores on a terminal: the document's box, bars, charts and tables, at any width, without colour and without UTF-8.


ASCII = """
+----------------------------------------------------------+
|                    AGENT HEALTH SCORE                    |
+----------------------------------------------------------+
|                                                          |
|  Overall: 80 (B), 20 % measured  v -10.0 from last week  |
|                                                          |
|  Component Scores:                                       |
|  +----------------------------------------------------+  |
|  |  AC-09 Session Completion ##########...  80 (B) v  |  |
|  |  Work                     ............. no data    |  |
|  +----------------------------------------------------+  |
|                                                          |
|  Focus Areas:                                            |
|  * AC-09 Session Completion: Declining trend (-10.0).    |
|    Minor improvements.                                   |
|                                                          |
+----------------------------------------------------------+
"""


def work_scores(name: str, *sessions: tuple[int, dict[str, Any]], **own: Any) -> Scores:
    """Return the scores of sessions, each of a day of January, of ac09 and a component of the project's own."""
    parts = dict.fromkeys((f"ac0{number}" for number in range(1, 9)), False)
    own |= {"components": {**parts, "work": {"name": name, "metrics": {"share": {}}}}}
    own |= {"sessions": {key: ["work"] for key in ("efficiency", "effectiveness", "improvement")}}
    days = ((f"s-{day}", noon(f"2026-01-{day:02}"), measured, "") for day, measured in sessions)
    return fold_sessions(config(**own), *days)


def small() -> Scores:
    """Return seven days of 90 and seven of 80, with another component that has no data."""
    return work_scores("Work", *((day, plain(90 if day < 8 else 80)) for day in range(1, 15)))


def page(state: Scores, *, detail: bool = False) -> ScorePage:
    """Return the summary of a state."""
    query = ScoreQuery(Project(Path()), state, None, detail, None, None)
    return look(query, "")[1]


def test_without_utf_8_the_box_is_of_plain_signs() -> None:
    """Arrows, bars and bullets too."""
    lines = render_screen(lambda console: box.show(console, page(small())), 60, "ascii").splitlines()
    assert ASCII == "\n" + "".join(f"{line.rstrip()}\n" for line in lines)


ODD = "研究 und é́\x1b[31m [bold]x[/] 👩‍👩‍👧 " + "long " * 9
PAGES = {
    "odd": lambda: page(
        work_scores(ODD, (16, {"work": {"share": 3}, **plain(100)}), title="健康\x07 " * 12), detail=True
    ),
    "table": lambda: ScorePage(
        "T" * 90,
        "x " * 90,
        tables=(Table("Of " * 40, ("one", "two"), (("y" * 50, 3), ("研" * 50, 4.5))),),
        sentences=("z" * 90,),
    ),
}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(name: str, encoding: str) -> None:
    """No line of a page is wider than 20 to 200 columns, also with names that are wide, combine, or hold controls."""
    found = PAGES[name]()
    for width in (*range(20, 90), 120, 200):
        text = render_screen(lambda console: box.show(console, found), width, encoding)
        assert [] == [line for line in text.splitlines() if name != "table" and cell_len(line) > width]
        assert not set("\x1b\x07") & set(text)
        assert encoding == "utf-8" or text.isascii()


# What the verbs of the scores answer people and programs on fixed ledgers, held against files.


TAPE = Path(__file__).parent / "tape" / "scores"
NOW_US = 1_785_000_000_000_000
DRAWN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}|(?<=:)[0-9a-f]{32}")


def record_weeks(project: Path) -> None:
    """Record eight weeks of sessions that get worse once, with benchmarks, feedback, and changes of the playbook."""
    for number in range(56):
        day, id_ = date(2026, 1, 1) + timedelta(number), f"s-{number:02}"
        if number in {30, 31}:
            record_events(
                project, id_, (kinds.PointAdded(f"kpt_0{number}", "Skip the review."), kinds.PlaybookUpdated(0, 0, 0))
            )
        worse = 15 if number > 30 else 0
        measured: dict[str, Any] = {
            name: {key: value if key in {"orientation_done", "target"} else value - (number * 7 + worse) % 23}
            for at, (name, values) in enumerate(MEASURED.items())
            for key, value in list(values.items())[: 1 + (number + at) % len(values)]
        }
        extra = (
            kinds.BenchmarkRecorded("AC-06", "small", 9 - number % 4, 10),
            kinds.FeedbackRecorded("ac03", number, "", ""),
        )
        told = (*events(measured)[:-1], *(extra if number % 3 else ()), kinds.SessionEnded(f"2.{number // 7}"))
        record_events(project, id_, told, noon(day.isoformat()))


def record_story(project: Path) -> None:
    """Record drops after an entry was added, pruned and undone, by a clock that once ran ahead; one undo is later."""
    for hours, session, told in (
        (1, "s0", [kinds.PointAdded("kpt_000", "Run the tests.")]),
        (10, "s1", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 90}), "")]),
        (20, "s2", [kinds.PointAdded("kpt_001", "Delete the build cache.")]),
        (9000, "ahead", [kinds.PointAdded("kpt_900", "From the future.")]),
        (30, "s3", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 60}), "")]),
        (40, "s4", [kinds.PointRated("kpt_001", "harmful")] * 3),
        (45, "s5", [kinds.EventsVoided((), "s0", "")]),
        (50, "s6", [kinds.MetricsRecorded("ac03", kinds.Numbers({"accuracy": 50}), "")]),
        (90, "s7", [kinds.EventsVoided((), "s2", "")]),
    ):
        os.environ["HOURS"] = str(hours)
        end = (kinds.PlaybookUpdated(0, 0, 0),) if session in {"s0", "s2", "s4", "ahead"} else ()
        record_events(project, session, (*told, *end))


def record_days(project: Path) -> None:
    """Record the sessions of the documentation: a week of 80, and the document's session."""
    for day in range(1, 8):
        record_events(project, f"s-{day}", events(plain(80), "1.9"), noon(f"2026-01-{day:02}"))
    record_example(project)


OWN = """scoring: {timezone: Asia/Tokyo, title: "MY *SCORES*", thresholds: {warning: 90, alert: 85, critical: 80},
 display: {show_trends: false, show_grades: false, min_coverage: 0.6}, storage: {path: other, retention_days: 20},
 components: {ac09: {name: "Mine | [x]"}, playbook: {enabled: true}}}"""

LEDGERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "days": (record_days, ""),
    "weeks": (record_weeks, ""),
    "weeks-own": (record_weeks, OWN),
    "story": (record_story, ""),
}
"""Name → what was recorded, and the project's own configuration."""

SHOWN: tuple[str, ...] = (
    *("", "--detail", "--session", "--session s-0", "--session s-05 --detail", "--daily", "--daily --component ac06"),
    *("--weekly", "--weekly --detail", "--monthly --component ac03", "--component AC-06", "--component ac03"),
    *("--component ac06 --detail", "--component playbook --detail", "--at 20", "--session s-3"),
)
GATED: tuple[str, ...] = (
    *("", "--component ac06", "--component effectiveness --min 95 --no-drop 1", "--min 99", "--no-drop 0"),
    *("--allow-no-data", "--component ac9", "--component mood", "--min nan", "--no-drop -1", "--at 20"),
)
REFUSED: tuple[str, ...] = ("--daily --weekly", "--session x --config", "--feed --export x.md", "--config --at 1")
REFUSED += ("--component ac99", "--session nobody", "--session s-", "--at never")
COMMANDS = [
    *(f"score {words}" for words in SHOWN),
    *(f"score {words} --json" for words in SHOWN),
    *(f"score {words} --export -" for words in SHOWN[1::4]),
    *(f"score {words}" for words in ("--feed", "--export .claude/playbook.json", *REFUSED)),
    *("score baseline", "score baseline ac09", "score baseline overall --value 87.5 --json", "score baseline ac77"),
    *("score baseline --json", "score baseline ac09 --value nan"),
    *(f"score gate {words}" for words in GATED),
    *(f"score gate {words} --json" for words in GATED[:5]),
    "score --export",
]


def answers_of(project: Path, run: Run) -> str:
    """Return what each command prints, with standard error and the exit code after it."""
    told = []
    for line in COMMANDS:
        done = run(*line.split())
        error = "".join(f"! {text}\n" for text in done.err.splitlines())
        told.append(f"$ tallybook {line}\n{done.out}{error}" + (f"[exit {done.code}]\n" if done.code else ""))
    return DRAWN.sub("<drawn>", "".join(told).replace(str(project), "PROJECT"))


@pytest.fixture
def still(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project in which it is always the same time, or so many hours after the fifteenth of January began."""

    def now() -> int:
        hours = os.environ.get("HOURS")
        return 1000 * NOW_US if hours is None else (1_768_435_200 + 3600 * int(hours)) * 10**9

    monkeypatch.setattr(time, "time_ns", now)
    for name in ("HOURS", "CLAUDE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return project


@pytest.mark.parametrize("name", LEDGERS)
def test_the_answers_are_those_of_the_tape(name: str, still: Path, run: Run) -> None:
    """On a fixed ledger each question prints, answers as JSON and as Markdown, and exits as the file says."""
    fill, own = LEDGERS[name]
    fill(still)
    os.environ.pop("HOURS", None)
    if own:
        (still / configuration.PLACE).parent.mkdir()
        (still / configuration.PLACE).write_text(own, encoding="utf-8")
    tape, told = TAPE / f"{name}.txt", answers_of(still, run)
    if os.environ.get("TAPE"):
        tape.write_text(told, encoding="utf-8")
    assert tape.read_text(encoding="utf-8") == told


def test_the_documentation_shows_the_summary(still: Path, run: Run) -> None:
    """The printed summary of a week of 80 and the document's session equals the documented one, to the character."""
    record_days(still)
    (answer,) = [block.code for block in examples("text") if block.code.startswith("$ tallybook score\n")]
    assert answer == f"$ tallybook score\n{run('score').out}"
