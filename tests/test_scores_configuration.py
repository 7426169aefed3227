"""The configuration of the scores: the default, a project's own over it, and an error that names its key.

`tests/tape/scoring-config.jsonl` has a project's own file and the error about it on each line. `TAPE=answers` before
pytest writes the errors anew; a commit that changes one says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from helpers.command_line import Run
from helpers.score_histories import config_of, document
from tallybook.ledger.errors import BadInputError
from tallybook.projections.scores.config import (
    Config,
    DocumentError,
    Metric,
    read_config,
)
from tallybook.projections.surfaces.scores.configuration import MAX_BYTES, MAX_DEPTH, PACKAGED, PLACE, default, load
from tallybook.projections.surfaces.workspace.project import Project

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


def placed(path: tuple[str, ...], value: object) -> dict[str, Any]:
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
                read_config(placed(path, value))
            line = str(caught.value)
            assert line.startswith(f"scoring.{'.'.join(path)} ")
            assert (1, True) == (len(line.splitlines()), len(line) < 250)
        if isinstance(was, dict) and path[-1] not in {"session_weights", "sessions", "grades", "components", "metrics"}:
            with pytest.raises(DocumentError, match=rf"{path[-1]}\.colour is not a known key"):
                read_config(placed((*path, "colour"), 1))


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
