"""The configuration of the scores: the default, a project's own over it, and an error that names its key.

`tests/tape/scoring-config.jsonl` has a project's own file and the error about it on each line. `TAPE=answers` before
pytest writes the errors anew; a commit that changes one says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
import gzip
import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
import pytest

from helpers.commands import ROOT, CommandResult, Run
from helpers.events import list_events
from helpers.example_secrets import GITHUB
from helpers.ledger_files import hold_ledger_lock, list_spooled
from helpers.reference_model import JSON
from helpers.score_histories import config_of, document
from tallybook.ledger.errors import BadInputError, Problem
from tallybook.projections.scores.config import Config, DocumentError, Metric, read_config
from tallybook.projections.surfaces.scores.configuration import MAX_BYTES, MAX_DEPTH, PACKAGED, PLACE, default, load
from tallybook.projections.surfaces.scores.read import IngestReport, SentItem, feed, items
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

SPECIFIED = """
enabled: true
session_weights:
  efficiency: 0.20
  effectiveness: 0.35
  improvement: 0.25
  handoff: 0.20
thresholds:
  warning: 70
  alert: 60
  critical: 50
trends:
  short_term_days: 7
  long_term_days: 30
storage:
  path: .claude/metrics/scores/
  retention_days: 365
display:
  show_grades: true
  show_trends: true
  show_recommendations: true
"""
"""Every key under ``scoring`` of the specification's scoring-config.yaml."""


def metrics_of(config: Config, component: str) -> dict[str, Metric]:
    """Return the metrics of a component by name."""
    return {metric.name: metric for metric in config.components[component].metrics}


def test_the_specification_is_the_default() -> None:
    """The scoring-config.yaml of the specification, merged into the default, changes nothing."""
    assert config_of() == config_of(SPECIFIED)
    assert config_of() == config_of("components: {}")


def test_a_whole_number_may_have_a_point(project: Path) -> None:
    """A whole number may be written with a decimal point, as JSON and YAML allow it."""
    write(project, "scoring: {gates: {least: 60.0}, storage: {retention_days: 3.0}}")
    config = load(Project(project))
    assert (60, 3) == (config.gates.least, config.storage.retention_days)


def test_a_false_value_is_left_out() -> None:
    """A component, also one that is only switched off, is out of the composites too; a metric and a grade are out."""
    own = """
    components: {ac03: false, ac08: {enabled: false}, ac09: {metrics: {completeness: false}}, nobody: false}
    grades: {A: false}
    """
    config = config_of(own)
    assert "ac03" not in config.components
    assert "ac08" not in config.components
    assert [("ac02",), ("ac05", "ac06", "ac07")] == [config.sessions[name] for name in ("effectiveness", "improvement")]
    assert ["state_preservation", "handoff_quality"] == list(metrics_of(config, "ac09"))
    assert ["B", "C", "D", "F"] == [grade.name for grade in config.grades]


FILE = Path(__file__).parent / "tape" / "scoring-config.jsonl"


def write(project: Path, own: str | bytes) -> Path:
    """Write a project's own configuration; return its path."""
    path = project / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(own if isinstance(own, bytes) else own.encode())
    return path


def refusal(project: Path, own: str | bytes | None = None) -> str:
    """Return the error for a configuration, for the present content or for a new one."""
    if own is not None:
        write(project, own)
    with pytest.raises(BadInputError) as caught:
        load(Project(project))
    line = str(caught.value)
    assert (1, True) == (len(line.splitlines()), line.isprintable())
    return line


def test_each_mistake_is_refused_as_on_the_tape(project: Path) -> None:
    """Contradictory values, unknown keys, wrong types and broken YAML are refused in a line with place and remedy."""
    rows = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    if os.environ.get("TAPE"):
        rows = [[own, refusal(project, own)] for own, *_ in rows]
        FILE.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert [] == [(own, error) for own, error in rows if refusal(project, own) != error]


def test_the_packaged_configuration_is_printed_also_where_the_own_one_is_invalid(project: Path, run: Run) -> None:
    """Each mistake tells people to run this command, which therefore answers in spite of it, and names the key."""
    assert PACKAGED.read_text(encoding="utf-8") == run("score", "--config").out
    write(project, "scoring: {titel: MINE}")
    done = run("score", "--config")
    assert (PACKAGED.read_text(encoding="utf-8"), 2, 1) == (done.out, done.code, done.err.count("\n"))
    assert "scoring.titel" in done.err


def place_value(path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Return the default with a value at a path under ``scoring``."""
    changed: dict[str, Any] = deepcopy(document())
    inner = changed["scoring"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and value of everything in a document, but for its top."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, key), inner
        yield from places(inner, (*path, key))


WRONG = {
    bool: [1, "yes", {}],
    int: ["7", True, {}, float("nan"), float("inf")],
    float: ["0.2", True, {}, float("nan"), float("-inf")],
    str: [7, True, {}, "", "  "],
    list: ["ac01", [7], [""], {}, True],
    dict: ["ac01", 7, True],
}
"""Type of a value → what cannot stand in its place."""


def test_every_key_of_a_wrong_type_is_named() -> None:
    """Whatever stands in the place of a value, nothing at all or an unknown key too, one short line names the key."""
    for path, was in list(places(document()["scoring"])):
        # Points that may be left out may be nothing, too.
        nothing = [] if path[-1] in {"empty", "missing"} else [None]
        for value in ([1], *nothing, *WRONG[type(was)]):
            with pytest.raises(DocumentError) as caught:
                read_config(place_value(path, value))
            line = str(caught.value)
            assert line.startswith(f"scoring.{'.'.join(path)} ")
            assert (1, True) == (len(line.splitlines()), len(line) < 250)
        if isinstance(was, dict) and path[-1] not in {"session_weights", "sessions", "grades", "components", "metrics"}:
            with pytest.raises(DocumentError, match=rf"{path[-1]}\.colour is not a known key"):
                read_config(place_value((*path, "colour"), 1))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        # What the library says: its versions word it differently after this.
        ("scoring: [", "is not valid YAML: while parsing a flow node, "),
        (b"a: \xff", "is not valid YAML: unacceptable character #x00ff: invalid "),
        ("a: 1" + "0" * 5000, "is not valid YAML: Exceeds the limit (4300 digits)"),
        ("{a: " * 250_000, f"is not valid YAML: it is nested more than {MAX_DEPTH} deep, at line 1, column "),
        ("scoring: {timezone: " + "x" * 3000 + "}", "scoring.timezone is not valid: not a known time zone; use "),
        (b"#" * (MAX_BYTES + 1), ""),
    ],
    ids=range(6),
)
def test_a_hostile_file_is_refused(project: Path, own: str | bytes, expected: str) -> None:
    """A file of any size and depth is refused in a line; one of exactly a mebibyte is read."""
    assert refusal(project, own).startswith(f"{PLACE}: {expected}")
    write(project, b"#" * MAX_BYTES)
    assert read_config(default()) == load(Project(project))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_a_link_is_not_followed_and_a_pipe_not_waited_for(project: Path, tmp_path: Path) -> None:
    """A link in a cloned repository makes no other file of the user a configuration, and a pipe is refused at once."""
    path = write(project, "")
    path.unlink()
    target = tmp_path / "elsewhere.yaml"
    target.write_text("scoring: {}")
    path.symlink_to(target)
    assert f"{PLACE}: cannot be read: is a symbolic link" == refusal(project)
    path.unlink()
    os.mkfifo(path)
    assert f"{PLACE}: cannot be read: is not a regular file" == refusal(project)


# `score record`: objects of files and pipes become events, once, whatever else reads or writes.


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


def write_lines(path: Path, objects: Sequence[object]) -> Path:
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
def record_scores(project: Path, run: Run) -> Run:
    """Return a function that runs the verb in this process, on the project."""

    def run_(*arguments: object, stdin: str = "") -> CommandResult:
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
def test_a_secret_in_a_file_is_masked(here: Project, record_scores: Run, tmp_path: Path, said: object) -> None:
    """Free text of a program is masked; the note names its place, and the same file adds nothing."""
    file = write_lines(tmp_path / "a.jsonl", [said])
    answer = json.loads(record_scores(file, "--json").out)
    assert {"source": f"{file}:1", "message": "a secret was masked (GitHub Token)"} in answer["problems"]
    assert SECRET not in here.ledger.joinpath("events.jsonl").read_text(encoding="utf-8")
    assert "[masked: GitHub Token]" in json.dumps(rows(here))
    assert 1 == json.loads(record_scores(file, "--json").out)["repeated"]


OBJECTS: list[dict[str, Any]] = [{"n": number, "text": 'a "{[]}", \u2028 line\nü'} for number in range(3)]

FORMS: list[Callable[[list[dict[str, Any]]], str]] = [
    lambda objects: "\n".join(map(json.dumps, objects)),
    lambda objects: "".join(f"{json.dumps(object_)}\r\n" for object_ in objects),
    lambda objects: "\n\n  ".join(json.dumps(object_, ensure_ascii=False) for object_ in objects) + "\n\n",
    json.dumps,
    lambda objects: json.dumps(objects, indent=2),
    lambda objects: "[\n" + ",\n".join(map(json.dumps, objects)) + "\n]\n",
    lambda objects: "[\n" + "".join(f"{json.dumps(object_)},\n" for object_ in objects),
    lambda objects: "\n".join(json.dumps([object_]) for object_ in objects),
    lambda objects: "\ufeff" + "\n".join(json.dumps(object_, indent=4) for object_ in objects),
]
"""Lines, of another system, far apart; an array, over lines, with a line each, and cut off; arrays; objects."""


def list_objects(file: Path) -> list[dict[str, Any]]:
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
        assert OBJECTS == list_objects(file)


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


@pytest.fixture
def crowd(project: Path) -> Project:
    """Return a project whose ledger exists."""
    begun = Project(project)
    feed_file(begun, write_lines(project / "first.jsonl", [TELEMETRY[0]]))
    return begun


def feed_file(project: Project, file: Path) -> IngestReport:
    """Record a file in this process."""
    return feed(project, [items(str(file))], lambda _: None)


def record_expected(project: Path, objects: Sequence[Any]) -> list[str]:
    """Return the events of a ledger that recorded these objects at once, without its first event."""
    other = Project(project / "other")
    feed_file(other, write_lines(project / "first.jsonl", [TELEMETRY[0]]))
    feed_file(other, write_lines(project / "events.jsonl", objects))
    return bodies(other)


def test_a_held_lock_delays_no_call(crowd: Project, tmp_path: Path) -> None:
    """A small call is spooled; the next command that writes records it, once, each object unchanged at its moment."""
    timed: list[dict[str, Any]] = [
        *TELEMETRY,
        {"feedback": 80, "note": "quick", "at": "2026-01-17"},
        {"baseline": 80, "score": "ac06", "reason": "x" * 9_000, "at": "2026-01-17"},
    ]
    file = write_lines(tmp_path / "events.jsonl", [*timed, {"passed": 1, "total": 2}])
    with hold_ledger_lock(crowd):
        for number in (1, 2):
            fed = feed_file(crowd, file)
            assert (7, 7, {}, number) == (fed.spooled, fed.read_count, fed.recorded, len(list_spooled(crowd)))
    commands.replay(crowd)
    assert [] == list_spooled(crowd)
    found = rows(crowd)
    # An object without a time has the time of its call.
    (benchmark,) = (row for row in found if row["kind"] == "benchmark.recorded")
    assert benchmark["when"] <= benchmark["at"]
    assert record_expected(tmp_path, timed) == [
        row for row in bodies(crowd) if json.loads(row)[1] != "benchmark.recorded"
    ]
    assert {"quick", "x" * 9_000} <= {text for row in found for text in row.get("free", {}).values()}


def test_a_long_call_waits_in_the_spool_as_well(
    crowd: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk of a call is a file of the spool while the lock is held, and the next command records all of them."""
    monkeypatch.setattr("tallybook.projections.surfaces.scores.read.CHUNK_OBJECTS", 2)
    with hold_ledger_lock(crowd):
        fed = feed_file(crowd, write_lines(tmp_path / "events.jsonl", TELEMETRY))
        assert (4, 2) == (fed.spooled, len(list_spooled(crowd)))
    commands.replay(crowd)
    assert record_expected(tmp_path, TELEMETRY) == bodies(crowd)


def test_processes_that_record_the_same_file_record_it_once(crowd: Project, tmp_path: Path) -> None:
    """Of several processes the first one with an object records it; objects without a time count as often as sent."""
    objects = [event("AC-02", "task_start", data={"n": n}) for n in range(60)]
    objects += [{"metrics": {"errors": n % 3}, "component": "ac02", "session_id": "s1"} for n in range(60)]
    file = write_lines(tmp_path / "events.jsonl", objects)
    script = "from tallybook.__main__ import main; main()"
    command = [sys.executable, "-c", script, "--project", str(crowd.root), "score", "record", str(file)]
    workers = [subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) for _ in range(3)]
    assert [0] * 3 == [worker.wait() for worker in workers]
    commands.replay(crowd)
    assert record_expected(tmp_path, objects) == bodies(crowd)
