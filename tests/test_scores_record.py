"""`score record`: objects of files and pipes become events, once, whatever else reads or writes.

`tests/tape/stories/scores.txt` has its times, raters, repetitions and bad lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import gzip
import json
from pathlib import Path
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.command_line import Answer, Run
from helpers.events import list_events
from helpers.example_secrets import GITHUB
from helpers.json_values import JSON
from helpers.repository import ROOT
from helpers.spool_files import held, spooled
from tallybook.ledger.errors import Problem
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.scores.read import IngestReport, SentItem, defaults, feed, items
from tallybook.projections.surfaces.workspace.project import Project

AT = "2026-01-16T08:00:00.000Z"


def event(component: str, event_type: str, **fields: Any) -> dict[str, Any]:
    """Return an event of telemetry."""
    return {"timestamp": AT, "component": component, "event_type": event_type, "session_id": "s1", **fields}


TELEMETRY = [
    event("AC-01", "component_end", data={"duration_ms": 5000}),
    event("AC-02", "task_start", data={}),
    event("AC-02", "coffee_made", data={}),
    event("AC-09", "session_end", metadata={"version": "2"}),
]


def written(path: Path, objects: Sequence[object]) -> Path:
    """Return a file of JSON Lines."""
    path.write_text("".join(f"{json.dumps(object_)}\n" for object_ in objects), encoding="utf-8")
    return path


def rows(project: Project) -> list[dict[str, Any]]:
    """Return the recorded events, without the one that opens the ledger."""
    return list(list_events(project))[1:] if project.ledger.exists() else []


def bodies(project: Project) -> list[str]:
    """Return author, content and moment of the events, in an order of its own."""
    return sorted(json.dumps([row["by"], row["kind"], row["body"], row.get("when")]) for row in rows(project))


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


SECRET = GITHUB.secret


@pytest.mark.parametrize(
    "said",
    [
        {"event_type": "coffee_made", "session_id": "s1", "component": "ac02", "data": {"deep": [SECRET]}, "at": AT},
        {"event_type": "coffee_made", "session_id": "s1", "component": "ac02", "data": {SECRET: "x"}, "at": AT},
        {"feedback": "harmful", "note": f"it printed {SECRET}"},
        {"baseline": 50, "score": "ac06", "reason": SECRET},
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


OBJECTS: list[dict[str, Any]] = [{"n": number, "text": 'a "{[]}", \u2028 line\nü'} for number in range(3)]

FORMS: list[Callable[[list[dict[str, Any]]], str]] = [
    lambda objects: "\n".join(map(json.dumps, objects)),
    lambda objects: "".join(f"{json.dumps(object_)}\r\n" for object_ in objects),
    lambda objects: "\n\n  ".join(json.dumps(object_, ensure_ascii=False) for object_ in objects) + "\n\n",
    json.dumps,
    lambda objects: json.dumps(objects, indent=2),
    lambda objects: "[\n" + ",\n".join(map(json.dumps, objects)) + "\n]\n",
    lambda objects: "\n".join(json.dumps([object_]) for object_ in objects),
    lambda objects: "\ufeff" + "\n".join(json.dumps(object_, indent=4) for object_ in objects),
]
"""Lines, lines of another system, lines far apart, an array, one over lines, one with a line each, arrays, objects."""


def found(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a valid file."""
    read = list(items(str(file)))
    assert [] == [part for part in read if isinstance(part, Problem)]
    return [part.value for part in read if isinstance(part, SentItem)]


@pytest.mark.parametrize("form", FORMS)
def test_objects_have_many_forms(tmp_path: Path, form: Callable[[list[dict[str, Any]]], str]) -> None:
    """Objects are one a line, in an array or one after another, packed or not, whatever the file's name."""
    file, data = tmp_path / "events.txt", form(OBJECTS).encode()
    for packed in (data, gzip.compress(data), gzip.compress(data[:9]) + gzip.compress(data[9:])):
        file.write_bytes(packed)
        assert OBJECTS == found(file)


LINES = JSON.map(json.dumps).map(str.encode) | st.binary(max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, max_size=6), packed=st.booleans())
def test_any_file_can_be_read(tmp_path: Path, lines: list[bytes], packed: bool) -> None:
    """Nothing raises; every object and every problem has its place."""
    data = b"\n".join(lines)
    file = tmp_path / "f"
    file.write_bytes(gzip.compress(data) if packed else data)
    read = list(items(str(file)))
    assert read
    for part in read:
        assert (part.source if isinstance(part, Problem) else part.place).startswith(str(file))
        assert isinstance(part, Problem) or json.dumps(part.value)


posix_alone = pytest.mark.skipif(sys.platform == "win32", reason="holds the lock with flock")


@pytest.fixture
def crowd(project: Path) -> Project:
    """Return a project whose ledger exists."""
    begun = Project(project)
    feed_file(begun, written(project / "first.jsonl", [TELEMETRY[0]]))
    return begun


def feed_file(project: Project, file: Path) -> IngestReport:
    """Record a file in this process."""
    return feed(project, [items(str(file))], defaults(), lambda _: None)


def expected(project: Path, objects: Sequence[Any]) -> list[str]:
    """Return the events of a ledger that recorded these objects at once, without its first event."""
    other = Project(project / "other")
    feed_file(other, written(project / "first.jsonl", [TELEMETRY[0]]))
    feed_file(other, written(project / "events.jsonl", objects))
    return bodies(other)


@posix_alone
def test_a_held_lock_delays_no_call(crowd: Project, tmp_path: Path) -> None:
    """A small call is spooled; the next command that writes records it, once, each object unchanged at its moment."""
    timed: list[dict[str, Any]] = [
        *TELEMETRY,
        {"feedback": 80, "note": "quick", "at": "2026-01-17"},
        {"baseline": 80, "score": "ac06", "reason": "x" * 9_000, "at": "2026-01-17"},
    ]
    file = written(tmp_path / "events.jsonl", [*timed, {"passed": 1, "total": 2}])
    with held(crowd):
        for number in (1, 2):
            fed = feed_file(crowd, file)
            assert (7, 7, {}, number) == (fed.spooled, fed.read_count, fed.recorded, len(spooled(crowd)))
    commands.replay(crowd)
    assert [] == spooled(crowd)
    found = rows(crowd)
    # An object without a time has the time of its call.
    (benchmark,) = (row for row in found if row["kind"] == "benchmark.recorded")
    assert benchmark["when"] <= benchmark["at"]
    assert expected(tmp_path, timed) == [row for row in bodies(crowd) if json.loads(row)[1] != "benchmark.recorded"]
    assert {"quick", "x" * 9_000} <= {text for row in found for text in row.get("free", {}).values()}


def test_processes_that_record_the_same_file_record_it_once(crowd: Project, tmp_path: Path) -> None:
    """Of several processes the first one with an object records it; objects without a time count as often as sent."""
    objects = [event("AC-02", "task_start", data={"n": n}) for n in range(60)]
    objects += [{"metrics": {"errors": n % 3}, "component": "ac02", "session_id": "s1"} for n in range(60)]
    file = written(tmp_path / "events.jsonl", objects)
    script = "from tallybook.projections.surfaces.entry_point import main; main()"
    command = [sys.executable, "-c", script, "--project", str(crowd.root), "score", "record", str(file)]
    workers = [subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) for _ in range(3)]
    assert [0] * 3 == [worker.wait() for worker in workers]
    commands.replay(crowd)
    assert expected(tmp_path, objects) == bodies(crowd)
