"""The configuration of the scores: the default, a project's own over it, and an error that names its key."""

from __future__ import annotations

from datetime import UTC
import os
from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_histories import config_of, document
from tallybook.ledger.errors import BadInputError
from tallybook.projections.scores.config import AlertLevel, Display, Grade, Metric, Sensitivity
from tallybook.projections.scores.config_file import DocumentError, read_config
from tallybook.projections.surfaces.scores.configuration import MAX_BYTES, MAX_DEPTH, PLACE, default, load
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.scores.config import Config

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


# The default


def test_the_specification_is_the_default() -> None:
    """The scoring-config.yaml of the specification, merged into the default, changes nothing."""
    assert config_of() == config_of(SPECIFIED)
    assert config_of() == config_of("components: {}")


def test_the_default_has_the_tables_of_the_specification() -> None:
    """Weights, grades, alert levels, trends and storage are those of its tables."""
    config = config_of()
    assert {"efficiency": 0.2, "effectiveness": 0.35, "improvement": 0.25, "handoff": 0.2} == config.session_weights
    grades = [
        Grade("A", 90, "Excellent", "Maintain"),
        Grade("B", 80, "Good", "Minor improvements"),
        Grade("C", 70, "Acceptable", "Review needed"),
        Grade("D", 60, "Concerning", "Improvement priority"),
        Grade("F", 0, "Critical", "Immediate attention"),
    ]
    assert grades == list(config.grades)
    levels = [
        AlertLevel("warning", 70, ("log", "dashboard")),
        AlertLevel("alert", 60, ("user",)),
        AlertLevel("critical", 50, ("block evolution",)),
    ]
    assert levels == list(config.levels)
    assert (7, 30, 70, 365) == (
        config.trends.short_term_days,
        config.trends.long_term_days,
        config.gates.least,
        config.storage.retention_days,
    )
    assert ".claude/metrics/scores/" == config.storage.path
    assert Sensitivity(5, 2, 10, 2) == config.regressions
    assert Display(True, True, True, 0.2) == config.display  # noqa: FBT003 - in the order of the document
    assert ("AGENT HEALTH SCORE", True, UTC) == (config.title, config.enabled, config.timezone)
    assert (0.25, 0.25) == (config.benchmarks.weight, config.feedback.weight)


def test_the_default_has_the_nine_components() -> None:
    """Ids, names and composites are those of "Score Types" and "Summary Format"."""
    config = config_of()
    expected = {
        "ac01": "AC-01 Self-Launch",
        "ac02": "AC-02 Wiggum Loop",
        "ac03": "AC-03 Milestone Review",
        "ac04": "AC-04 JICM",
        "ac05": "AC-05 Self-Reflection",
        "ac06": "AC-06 Self-Evolution",
        "ac07": "AC-07 R&D Cycles",
        "ac08": "AC-08 Maintenance",
        "ac09": "AC-09 Session Completion",
    }
    assert list(expected.items()) == [(one.id, one.name) for one in config.components.values()]
    assert {
        "efficiency": ("ac01", "ac04"),
        "effectiveness": ("ac02", "ac03"),
        "improvement": ("ac05", "ac06", "ac07", "ac08"),
        "handoff": ("ac09",),
    } == config.sessions


# Laid over it


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


ORDER = "thresholds are out of order: warning must be above alert, and alert above critical"


def refusal(own: str) -> str:
    """Return the error for YAML merged into the default."""
    with pytest.raises(DocumentError) as caught:
        config_of(own)
    return str(caught.value)


def refusal_of(path: tuple[str, ...], value: object) -> str:
    """Return the error for the default with a value at a path under ``scoring``."""
    with pytest.raises(DocumentError) as caught:
        read_config(changed(document(), ("scoring", *path), value))
    return str(caught.value)


def changed(place: dict[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Return a document with another value at a path."""
    key, *below = path
    return {**place, key: changed(place[key], tuple(below), value) if below else value}


def places(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and value of everything in a document, but for its top."""
    for key, below in value.items() if isinstance(value, dict) else ():
        yield (*path, key), below
        yield from places(below, (*path, key))


def every_place() -> list[tuple[tuple[str, ...], Any]]:
    """Return path and value of every key under ``scoring`` in the default."""
    return list(places(document()["scoring"]))


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
    """Whichever key of the default holds a list of numbers, nothing at all, or another type, one line names it."""
    rows = [(path, value) for path, was in every_place() for value in ([1], None, *WRONG[type(was)])]
    told = {(path, repr(value)): refusal_of(path, value) for path, value in rows}
    assert 4 * len(every_place()) < len(told)
    assert {} == {
        row: line
        for row, line in told.items()
        if not line.startswith(f"scoring.{'.'.join(row[0])} ") or "\n" in line or len(line) > 250
    }


def test_an_unknown_key_is_named_at_every_level() -> None:
    """At each level with fixed keys an unknown one is named, with the known ones."""
    named = {"session_weights", "sessions", "grades", "components", "metrics"}
    fixed = [path for path, was in every_place() if isinstance(was, dict) and path[-1] not in named]
    told = {path: refusal_of((*path, "colour"), 1) for path in ((), *fixed)}
    assert 50 < len(told)
    assert {} == {
        path: line
        for path, line in told.items()
        if not line.startswith(".".join(("scoring", *path, "colour is not a known key; use one of ")))
    }


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("session_weights: {handoff: 0.3}", "session_weights sum to 1.1, and have to sum to 1"),
        ("session_weights: {handoff: -0.1}", "session_weights.handoff must be from 0 to 1, not -0.1"),
        ("sessions: {luck: [ac01]}", "sessions.luck has nothing next to it in session_weights"),
        (
            "{sessions: {overall: []}, session_weights: {overall: 0}}",
            "sessions.overall is made of the others, and canno",
        ),
        (
            "sessions: {handoff: [ac10]}",
            "sessions.handoff names 'ac10', which is not a component; use ac01, ac02, ",
        ),
        ("thresholds: {alert: 70}", ORDER),
        ("thresholds: {critical: -1}", "thresholds.critical must be from 0 to 100, not -1"),
        ("thresholds: {alert: 59.5}", "thresholds.alert must be a whole number, not 59.5"),
        (
            "notifications: {critical: [Block evolution]}",
            "notifications.critical names 'Block evolution'; there are log",
        ),
        ("title: {a: 1}", "title must be a text, not keys and values"),
        (f"enabled: {'x' * 78}", f"enabled must be true or false, not '{'x' * 78}'"),
        (f"enabled: {'x' * 79}", f"enabled must be true or false, not '{'x' * 79}…"),
        ("session_weights: {handoff: 0.200000002}", "session_weights sum to 1.000000002, and have to sum to 1"),
        ("grades: {A: {least: 80}}", "grades are out of order: each begins below the one before it, and the last one"),
        ("grades: {A: false, B: false, C: false, D: false, F: false}", "grades are out of order: "),
        ("trends: {short_term_days: 30}", "trends.long_term_days must be greater than short_term_days, 30"),
        ("regressions: {z_score: -0.1}", "regressions.z_score must be at least 0.1, not -0.1"),
        ("regressions: {least_sessions: 1}", "regressions.least_sessions must be from 2 to 1,000,000, not 1"),
        ("gates: false", "gates should hold keys and values, and is false"),
        *(
            (f'storage: {{path: "{path}"}}', f"storage.path must be a folder within the project, not {told}")
            for path, told in (
                ("/x", "'/x'"),
                (".", "'.'"),
                ("a\\0b", "'a\\x00b'"),
                ("..\\\\x", "'..\\\\x'"),
            )
        ),
        *(
            (f"timezone: {zone}", "timezone is not a known time zone; use one such as Europe/Berlin")
            for zone in ("Nowhere/Land", "../UTC", '"a\\0b"', "x" * 3000)
        ),
        ("components: {AC-01: {metrics: {x: {}}}}", "components.AC-01 is called by small letters and digits alone, su"),
        ("components: {'': {metrics: {x: {}}}}", "components.'' is called by small letters and digits alone, such as"),
        ("components: {mine: {metrics: {}}}", "components.mine.metrics names none"),
        ("components: {1: false}", "components has the key 1, which is not a text; put it in quotes"),
        ('{"a\\nb": 1}', r"'a\nb' is not a known key; use one of enabled, title, "),
    ],
)
def test_contradictory_values_are_refused(own: str, expected: str) -> None:
    """Weights, orders, bounds and names are checked, and the line names the key."""
    line = refusal(own)
    assert f"scoring.{expected}" == line[: len("scoring.") + len(expected)]
    assert 1 == len(line.splitlines())


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("{form: cubic}", ".form is 'cubic', and can be linear, inverse, ratio, boolean"),
        ("{form: ratio}", ".per is missing"),
        ("{form: inverse, best: 1}", ".worst is missing"),
        ("{form: inverse, best: 5, worst: 5}", ".best must be below worst, 5, in the form inverse, not 5"),
        ("{best: 0}", ".best must be above worst, 0, in the form linear, not 0"),
        ("{weight: 0}", ".weight must be above 0; a metric that is false is left out"),
        ("{counts: [a]}", ".counts names a part and a whole"),
        ("{per: y}", ".per is not a known key; use one of form, weight, missing, of, counts, worst, best"),
        ("{best: 1" + "0" * 400 + "}", ".best must be from -2^53 to 2^53, not 1000"),
        ("{of: " + "x" * 999 + ", best: " + "y" * 999 + "}", ".best must be a number, not 'yyyy"),
        ("[1]", " should hold keys and values, and is a list"),
    ],
)
def test_an_invalid_metric_is_refused(metric: str, expected: str) -> None:
    """Each form has keys and bounds of its own; the line is short, however long the value."""
    line = refusal(f"components: {{mine: {{metrics: {{x: {metric}}}}}}}")
    assert f"scoring.components.mine.metrics.x{expected}" == line[: len("scoring.components.mine.metrics.x" + expected)]
    assert len(line) < 250


HINT = "; `tallybook score --config` shows every key with its default"
NO_YAML = f"{PLACE}: is not valid YAML: "


def write(project: Path, own: str | bytes) -> Path:
    """Write a project's own configuration; return its path."""
    path = project / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(own if isinstance(own, bytes) else own.encode())
    return path


def refusal_configuration(project: Path, own: str | bytes | None = None) -> str:
    """Return the error for a configuration, for the present content or for a new one."""
    if own is not None:
        write(project, own)
    with pytest.raises(BadInputError) as caught:
        load(Project(project))
    line = str(caught.value)
    assert 1 == len(line.splitlines())
    assert line.isprintable()
    return line


def test_the_file_is_merged_into_the_default(project: Path) -> None:
    """One key changes one thing."""
    write(project, "scoring:\n  thresholds:\n    warning: 75\n")
    assert [75, 60, 50] == [level.below for level in load(Project(project)).levels]


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        # Each of these is found in the file, before any key is asked for.
        ("scoring:\n  enabled: true\n  title: x\n  enabled: false\n", "the key 'enabled' twice, at line 4, column 3"),
        ("scoring: {components: {a: {name: x, 'name': y}}}", "the key 'name' twice, at line 1, column 37"),
        ("scoring: [", "while parsing a flow node, "),
        ("a: *nowhere", "found undefined alias"),
        ("a: 1\n---\nb: 2", "expected a single document in the stream, but found another document, at line 2, column "),
        ("{[a]: 1}", "while constructing a mapping, found unhashable key, at line 1, column 2"),
        ("a: 1" + "0" * 5000, "Exceeds the limit (4300 digits)"),
        (b"a: \xff", "unacceptable character #x00ff: invalid "),
        ("a: \x1b[31m", "unacceptable character #x001b: "),
        # What only a program would write.
        *(
            (f"a: !!{tag} ''", f"the tag tag:yaml.org,2002:{tag}, which is not supported, at line 1, column 4")
            for tag in ("int", "binary", "python/name:os.system")
        ),
        ("a: &a {b: 1}\nc: {<<: *a}", "the key <<, which is not supported, at line 2, column 5"),
        ("[" * 500, f"it is nested more than {MAX_DEPTH} deep, at line 1, column {MAX_DEPTH + 1}"),
        ("{a: " * 250_000, f"it is nested more than {MAX_DEPTH} deep, at line 1, column {4 * MAX_DEPTH + 1}"),
    ],
    ids=range(15),
)
def test_yaml_that_is_not_plain_is_refused(project: Path, own: str | bytes, expected: str) -> None:
    """Broken, repeated or excessive YAML is refused with fault and place."""
    assert NO_YAML + expected == refusal_configuration(project, own)[: len(NO_YAML + expected)]


def test_a_file_that_is_too_big_is_refused(project: Path) -> None:
    """A configuration of more than a mebibyte is refused; one of exactly that size is read."""
    write(project, b"#" * MAX_BYTES)
    assert read_config(default()) == load(Project(project))
    assert refusal_configuration(project, b"#" * (MAX_BYTES + 1)).startswith(f"{PLACE}: ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no pipes in folders")
def test_a_link_is_not_followed_and_a_pipe_not_waited_for(project: Path, tmp_path: Path) -> None:
    """A link in a cloned repository makes no other file of the user a configuration, and a pipe is refused at once."""
    path = write(project, "")
    path.unlink()
    target = tmp_path / "elsewhere.yaml"
    target.write_text("scoring: {}")
    path.symlink_to(target)
    assert f"{PLACE}: cannot be read: is a symbolic link" == refusal_configuration(project)
    path.unlink()
    os.mkfifo(path)
    assert f"{PLACE}: cannot be read: is not a regular file" == refusal_configuration(project)
