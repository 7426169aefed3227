"""Invalid configurations of the scores: each is refused in one line that names the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.score_histories import config_of, document
from tallybook.projections.scores.config_file import DocumentError, read_config

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = (*(f"ac0{n}" for n in range(1, 10)), "playbook")
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
        ("session_weights: {handoff: 0.19999}", "session_weights sum to 0.99999, and have to sum to 1"),
        ("session_weights: {handoff: -0.1}", "session_weights.handoff must be from 0 to 1, not -0.1"),
        ("session_weights: {handoff: 1.1}", "session_weights.handoff must be from 0 to 1, not 1.1"),
        ("session_weights: {luck: 0}", "session_weights.luck has nothing next to it in sessions"),
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
        ("thresholds: {critical: 65}", "thresholds are out of order: "),
        ("thresholds: {warning: 101}", "thresholds.warning must be from 0 to 100, not 101"),
        ("thresholds: {critical: -1}", "thresholds.critical must be from 0 to 100, not -1"),
        ("thresholds: {alert: 59.5}", "thresholds.alert must be a whole number, not 59.5"),
        ("thresholds: {alert: false}", "thresholds.alert must be a number, not false"),
        (
            "notifications: {critical: [Block evolution]}",
            "notifications.critical names 'Block evolution'; there are log",
        ),
        ("grades: {A: {least: 101}}", "grades.A.least must be from 0 to 100, not 101"),
        ("title: {a: 1}", "title must be a text, not keys and values"),
        (f"enabled: {'x' * 78}", f"enabled must be true or false, not '{'x' * 78}'"),
        (f"enabled: {'x' * 79}", f"enabled must be true or false, not '{'x' * 79}…"),
        ("session_weights: {handoff: 0.200000002}", "session_weights sum to 1.000000002, and have to sum to 1"),
        ("grades: {A: {least: 80}}", "grades are out of order: each begins below the one before it, and the last one"),
        ("grades: {C: {least: 85}}", "grades are out of order: "),
        ("grades: {F: {least: 1}}", "grades are out of order: "),
        ("grades: {G: {least: 5, status: Odd, action: Look}}", "grades are out of order: "),
        ("grades: {A: false, B: false, C: false, D: false, F: false}", "grades are out of order: "),
        ("trends: {short_term_days: 30}", "trends.long_term_days must be greater than short_term_days, 30"),
        ("trends: {long_term_days: 0}", "trends.long_term_days must be from 1 to 1,000,000, not 0"),
        ("trends: {short_term_days: 0}", "trends.short_term_days must be from 1 to 1,000,000, not 0"),
        ("regressions: {points: -1}", "regressions.points must be from 0 to 100, not -1"),
        ("regressions: {z_score: -0.1}", "regressions.z_score must be at least 0.1, not -0.1"),
        ("regressions: {turn: 101}", "regressions.turn must be from 0 to 100, not 101"),
        ("regressions: {least_sessions: 1}", "regressions.least_sessions must be from 2 to 1,000,000, not 1"),
        ("gates: {least: 101}", "gates.least must be from 0 to 100, not 101"),
        ("gates: false", "gates should hold keys and values, and is false"),
        ("benchmarks: {weight: -1}", "benchmarks.weight must be from 0 to 100, not -1"),
        ("feedback: {weight: 101}", "feedback.weight must be from 0 to 100, not 101"),
        ("storage: {retention_days: 0}", "storage.retention_days must be from 1 to 1,000,000, not 0"),
        *(
            (f'storage: {{path: "{path}"}}', f"storage.path must be a folder within the project, not {told}")
            for path, told in (
                ("/x", "'/x'"),
                ("../x", "'../x'"),
                ("a/../../x", "'a/../../x'"),
                (".", "'.'"),
                ("C:x", "'C:x'"),
                ("a\\0b", "'a\\x00b'"),
                ("..\\\\x", "'..\\\\x'"),
            )
        ),
        *(
            (f"timezone: {zone}", "timezone is not a known time zone; use one such as Europe/Berlin")
            for zone in ("Nowhere/Land", "Europe", "../UTC", '"a\\0b"', "x" * 3000)
        ),
        ("components: {AC-01: {metrics: {x: {}}}}", "components.AC-01 is called by small letters and digits alone, su"),
        ("components: {x.ac01: {metrics: {x: {}}}}", "components.'x.ac01' is called by small letters and digits alone"),
        (
            "components: {'--': {metrics: {x: {}}}}",
            "components.-- is called by small letters and digits alone, such as",
        ),
        ("components: {'': {metrics: {x: {}}}}", "components.'' is called by small letters and digits alone, such as"),
        ("components: {mine: {}}", "components.mine.metrics is missing"),
        ("components: {mine: {metrics: {}}}", "components.mine.metrics names none"),
        ("components: {mine: {metrics: {x: false}}}", "components.mine.metrics names none"),
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
    ("own", "expected"),
    [
        (
            "thresholds: {critical: 65}",
            f"{ORDER} (warning 70, alert 60, critical 65)",
        ),
        (
            "notifications: {critical: [Block evolution]}",
            "notifications.critical names 'Block evolution'; there are log, dashboard, user, block evolution",
        ),
        (
            "sessions: {handoff: [ac09, AC-01]}",
            f"sessions.handoff names 'AC-01', which is not a component; use {', '.join(ALL)}",
        ),
        (
            "components: {AC-10: {metrics: {x: {}}}}",
            "components.AC-10 is called by small letters and digits alone, such as ac10",
        ),
        (
            "components: {'--': {metrics: {x: {}}}}",
            "components.-- is called by small letters and digits alone, such as ac01",
        ),
        ("storage: {colour: 1}", "storage.colour is not a known key; use one of path, retention_days"),
    ],
)
def test_a_line_names_the_valid_values(own: str, expected: str) -> None:
    """The line lists the values that are valid there."""
    assert f"scoring.{expected}" == refusal(own)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("{form: cubic}", ".form is 'cubic', and can be linear, inverse, ratio, boolean"),
        ("{form: ratio}", ".per is missing"),
        ("{form: inverse, best: 1}", ".worst is missing"),
        ("{form: inverse, worst: 1}", ".best is missing"),
        ("{form: inverse, best: 5, worst: 5}", ".best must be below worst, 5, in the form inverse, not 5"),
        ("{form: inverse, best: 6, worst: 5}", ".best must be below worst, 5, in the form inverse, not 6"),
        ("{best: 0}", ".best must be above worst, 0, in the form linear, not 0"),
        ("{worst: 101}", ".best must be above worst, 101, in the form linear, not 100"),
        ("{weight: 0}", ".weight must be above 0; a metric that is false is left out"),
        ("{weight: -1}", ".weight must be at least 0, not -1"),
        ("{missing: 101}", ".missing must be from 0 to 100, not 101"),
        ("{form: ratio, per: y, empty: -1}", ".empty must be from 0 to 100, not -1"),
        ("{form: ratio, per: y, rest: 1}", ".rest must be true or false, not 1"),
        ("{counts: [a]}", ".counts names a part and a whole"),
        ("{counts: [a, b, c]}", ".counts names a part and a whole"),
        ("{per: y}", ".per is not a known key; use one of form, weight, missing, of, counts, worst, best"),
        ("{form: boolean, best: 1}", ".best is not a known key; use one of form, weight, missing, of"),
        (
            "{form: ratio, per: y, worst: 1}",
            ".worst is not a known key; use one of form, weight, missing, of, per,",
        ),
        ("{best: 1" + "0" * 400 + "}", ".best must be from -2^53 to 2^53, not 1000"),
        ("{of: ''}", ".of must be a text, not ''"),
        ("{of: " + "x" * 999 + ", best: " + "y" * 999 + "}", ".best must be a number, not 'yyyy"),
        ("[1]", " should hold keys and values, and is a list"),
    ],
)
def test_an_invalid_metric_is_refused(metric: str, expected: str) -> None:
    """Each form has keys and bounds of its own; the line is short, however long the value."""
    line = refusal(f"components: {{mine: {{metrics: {{x: {metric}}}}}}}")
    assert f"scoring.components.mine.metrics.x{expected}" == line[: len("scoring.components.mine.metrics.x" + expected)]
    assert len(line) < 250
