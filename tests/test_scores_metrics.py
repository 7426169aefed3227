"""The verb `score record`: each object is in the ledger once, and the answer counts them all."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from helpers.example_secrets import GITHUB
from helpers.telemetry_files import AT, TELEMETRY, bodies, rows, written
from tallybook.ledger import clock
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.command_line import Answer, Run


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project without a ledger."""
    return Project(project)


@pytest.fixture
def run(project: Path, run: Run) -> Run:
    """Return a function that runs the verb in this process, on the project."""

    def run_(*arguments: object, stdin: str = "") -> Answer:
        return run("--project", str(project), "score", "record", *map(str, arguments), stdin=stdin.encode())

    return run_


LOCAL = {"session_id": "s1", "component": "ac01", "metrics": {"startup_ms": 8000}}


def test_a_time_in_the_future_is_named(here: Project, run: Run) -> None:
    """A time six hours ahead counts for now, and the answer says so; the same time in the past is no problem."""
    ahead = clock.moment(clock.utc_now().unix_us + 6 * 3600 * clock.MICROSECONDS).at
    for at, expected in ((ahead, ["standard input:1"]), ("2026-01-16T08:00:00", [])):
        told = json.loads(run("--json", stdin=json.dumps(LOCAL | {"at": at})).out)
        assert expected == [one["source"] for one in told["problems"]]
        assert all(
            "the time is in the future, so it counts for now; --tz " in one["message"] for one in told["problems"]
        )
    assert [ahead, "2026-01-16T08:00:00.000000Z"] == [row["when"] for row in rows(here)]
    assert "the time is in the future, so it counts for now" in run(stdin=json.dumps(LOCAL | {"ts": ahead})).err


@pytest.mark.parametrize(
    ("zone", "at", "expected"),
    [
        ("Europe/Berlin", "2026-01-16T08:00:00", "2026-01-16T07:00:00.000000Z"),
        ("Europe/Berlin", "2026-07-16 08:00", "2026-07-16T06:00:00.000000Z"),
        ("+05:30", "2026-01-16T08:00:00", "2026-01-16T02:30:00.000000Z"),
        ("-03:00", "2026-01-16", "2026-01-16T03:00:00.000000Z"),
        ("utc", "2026-01-16T08:00:00", "2026-01-16T08:00:00.000000Z"),
        ("Europe/Berlin", "2026-01-16T08:00:00Z", "2026-01-16T08:00:00.000000Z"),
        ("Europe/Berlin", "2026-01-16T08:00:00-01:00", "2026-01-16T09:00:00.000000Z"),
        ("Europe/Berlin", 1768550400, "2026-01-16T08:00:00.000000Z"),
    ],
)
def test_tz_says_what_a_naive_time_means(here: Project, run: Run, zone: str, at: object, expected: str) -> None:
    """A time without a zone is of the zone of `--tz`; a time that names its zone stays what it is."""
    assert 0 == run("--tz", zone, stdin=json.dumps(LOCAL | {"timestamp": at})).code
    assert [expected] == [row["when"] for row in rows(here)]


def test_telemetry_becomes_events(here: Project, run: Run, tmp_path: Path) -> None:
    """Each has its own session, component and moment; an object without a measure is kept and counted."""
    answer = run(written(tmp_path / "events.jsonl", TELEMETRY), "--json")
    assert (0, "") == (answer.code, answer.err)
    assert {
        "recorded": {"metrics.recorded": 2, "telemetry.kept": 1, "session.ended": 1},
        "repeated": 0,
        "kept": {"coffee_made": 1},
        "problems": [],
        "more_problems": 0,
        "seq_from": 2,
        "seq_to": 5,
        "spooled": False,
        "unscored": {},
    } == json.loads(answer.out)
    found = rows(here)
    assert ["2026-01-16T08:00:00.000000Z"] * 4 == [row["when"] for row in found]
    assert [{"rater": "import", "session": "s1"}] * 4 == [row["by"] for row in found]
    assert [
        {"component": "AC-01", "metrics": {"startup_ms": 5000, "ends": 1}, "source": "component_end"},
        {"component": "AC-02", "metrics": {"total": 1, "completed": 0, "drift_events": 0}, "source": "task_start"},
        {"component": "AC-02", "type": "coffee_made", "reason": "events of this type say nothing of a score"},
        {"version": "2"},
    ] == [row["body"] for row in found]
    assert TELEMETRY[2] == json.loads(found[2]["free"]["original"])
    assert commands.verify(here).ok


def test_every_kind_that_metrics_records_has_words_for_people(run: Run) -> None:
    """The answer is a sentence in plain words, and names no kind of event."""
    events = [
        {"component": "ac01", "metrics": {"startup_ms": 1}},
        {"component": "ac01", "passed": 1, "total": 2},
        {"component": "ac01", "passed": 2, "total": 2},
        {"feedback": 80},
        {"version": "2", "event_type": "session_end"},
        {"baseline": 80, "score": "ac01"},
        {"event_type": "coffee_made"},
    ]
    answer = run(stdin=json.dumps(events))
    expected = (
        "recorded 2 benchmark results, 1 measurement, 1 feedback score, 1 end of a session, 1 baseline "
        "and 1 unscored telemetry event as events 2 to 8"
    )
    assert expected in answer.out.splitlines()


@pytest.mark.parametrize(
    ("said", "piped"),
    [
        ({"component": "ac01", "metrics": {"startup_ms": 8000}}, "agent"),
        ({"component": "ac06", "passed": 41, "total": 50}, "agent"),
        ({"feedback": "helpful", "note": "quick"}, "human"),
        ({"baseline": 82, "score": "ac06"}, "human"),
        ({"session_ended": True}, "agent"),
        (TELEMETRY[0], "import"),
    ],
)
def test_a_file_is_an_import(here: Project, run: Run, tmp_path: Path, said: dict[str, Any], piped: str) -> None:
    """The objects of a file have the rater import; piped ones the agent, except for people's feedback."""
    run(written(tmp_path / "a.json", [said | {"at": AT, "session_id": "s1"}]))
    run("-", stdin=json.dumps(said | {"session_id": "s2"}))
    expected = [{"rater": "import", "session": "s1"}, {"rater": piped, "session": "s2"}]
    assert expected == [row["by"] for row in rows(here)]


def test_the_same_file_twice_adds_nothing(here: Project, run: Run, tmp_path: Path) -> None:
    """This holds for a packed or moved copy too; equal objects without a time count as often as they occur."""
    untimed = [{"component": "ac01", "session_id": "s1", "metrics": {"errors": 1}}] * 3
    file = written(tmp_path / "events.jsonl", [*TELEMETRY, *untimed])
    (tmp_path / "archive").mkdir()
    packed = tmp_path / "archive" / "events.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert 0 == run(file, file).code
    before = bodies(here)
    assert 7 == len(before)
    for again in (file, packed):
        answer = json.loads(run(again, "--json").out)
        assert ({}, 7, None) == (answer["recorded"], answer["repeated"], answer["seq_from"])
    assert before == bodies(here)


def test_piped_objects_without_a_time_count_each_time(here: Project, run: Run) -> None:
    """Sent twice, they happened twice; with a time it is a repetition."""
    untimed = json.dumps({"component": "ac01", "session_id": "s1", "metrics": {"errors": 1}})
    for said in (untimed, untimed, json.dumps(TELEMETRY[0]), json.dumps(TELEMETRY[0])):
        assert 0 == run("-", stdin=said).code
    assert 3 == len(rows(here))


def test_metrics_may_be_typed(here: Project, run: Run, tmp_path: Path) -> None:
    """Names and values in arguments are one event; a file of such a name is a file."""
    odd = written(tmp_path / "a=b.jsonl", [TELEMETRY[0]])
    typed = ("startup_ms=8000", "context_percent=12.5%", "orientation_done=true")
    assert (0, "") == run("--component", "ac01", "--session", "s1", *typed, odd)[::2]
    assert {"startup_ms": 8000, "context_percent": 12.5, "orientation_done": True} == rows(here)[0]["body"]["metrics"]
    assert [{"rater": "agent", "session": "s1"}, {"rater": "import", "session": "s1"}] == [r["by"] for r in rows(here)]
    assert '"startup_ms":8000,"context_percent":12.5,"orientation_done":true' in here.ledger.joinpath(
        "events.jsonl"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (
            ["startup_ms=soon"],
            "",
            "startup_ms=soon: is not a metric; give NAME=NUMBER, or true or false; there is no file",
        ),
        (["=5"], "", "=5: is not a metric; "),
        (["--session", ""], "{}", "--session: needs 1 to 200 printable characters; nothing was recorded"),
        (["--component", "\n"], "{}", "--component: needs 1 to 200 printable characters; nothing was recorded"),
        (["--component", "x" * 201], "{}", "--component: needs 1 to 200 printable characters; nothing was recorded"),
        ([], "", "nothing could be read; standard input: is empty"),
        (["-"], "no json\n[]", "nothing could be read; standard input:1: is not JSON: Expecting value (character 1);"),
        (["nowhere.jsonl", "gone.jsonl"], "", "nothing could be read; nowhere.jsonl: cannot be read: No such file"),
    ],
)
def test_unreadable_input_is_refused(here: Project, run: Run, arguments: list[str], stdin: str, message: str) -> None:
    """One line gives the reason, with exit code 2, and no ledger is created."""
    answer = run(*arguments, stdin=stdin)
    assert (2, "") == (answer.code, answer.out)
    assert answer.err.startswith(f"tallybook: {message}")
    assert 1 == answer.err.count("\n")
    assert not here.ledger.exists()


SECRET = GITHUB.secret


@pytest.mark.parametrize(
    "said",
    [
        {"event_type": "coffee_made", "session_id": "s1", "component": "ac02", "data": {"deep": [SECRET]}, "at": AT},
        {"event_type": "coffee_made", "session_id": "s1", "component": "ac02", "data": {SECRET: "x"}, "at": AT},
        {"feedback": "harmful", "note": f"it printed {SECRET}"},
        {"baseline": 50, "score": "ac06", "reason": SECRET},
        {"metrics": {}, "why": SECRET},
    ],
)
def test_a_secret_in_a_file_is_masked(here: Project, run: Run, tmp_path: Path, said: object) -> None:
    """Free text of a program is masked; the note names its place, and the same file adds nothing."""
    file = written(tmp_path / "a.jsonl", [said])
    answer = json.loads(run(file, "--json").out)
    assert {"source": f"{file}:1", "message": "a secret was masked (GitHub Token)"} in answer["problems"]
    assert SECRET not in here.ledger.joinpath("events.jsonl").read_text(encoding="utf-8")
    assert "[masked: GitHub Token]" in json.dumps(rows(here))
    assert 1 == json.loads(run(file, "--json").out)["repeated"]
