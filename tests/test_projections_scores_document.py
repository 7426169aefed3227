"""Reading the document of the scores' configuration strictly: each type of value by itself."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest

from helpers.score_histories import config_of, document
from tallybook.projections.scores.configuration.parser import (
    DocumentError,
    describe,
    describe_path,
    overlaid,
    read_config,
)

PLACES = {
    "flag": "display.show_grades",
    "text": "title",
    "texts": "notifications.warning",
    "number": "benchmarks.weight",
    "whole": "regressions.least_sessions",
    "inner": "gates",
}
"""Type of a value → a place in the document that has one."""
WORST = "components: {{mine: {{metrics: {{x: {{worst: {}, best: 2}}}}}}}}"


def document_with(place: str, value: object) -> dict[str, Any]:
    """Return the default document with another value at a place."""
    *keys, last = place.split(".")
    own: Any = {last: value}
    for key in reversed(keys):
        own = {key: own}
    return overlaid(document(), {"scoring": own})


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("flag", True, True),
        ("flag", False, False),
        ("text", " x ", " x "),
        ("texts", [], ()),
        ("texts", ["log", "user"], ("log", "user")),
        ("number", 0, 0.0),
        ("number", 2.5, 2.5),
        ("number", 100, 100.0),
        ("whole", 2.0, 2),
        ("whole", 1_000_000, 1_000_000),
    ],
)
def test_a_value_of_its_type_is_read(type_: str, value: object, expected: object) -> None:
    """Both bounds are within, and a list becomes a tuple."""
    found = attrgetter(PLACES[type_])(read_config(document_with(PLACES[type_], value)))
    assert (expected, type(expected)) == (found, type(found))


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("flag", 1, "must be true or false, not 1"),
        ("text", 1, "must be a text, not 1"),
        ("text", " ", "must be a text, not ' '"),
        ("texts", "ab", "must be a list of names, not 'ab'"),
        ("texts", {"a": 1}, "must be a list of names, not keys and values"),
        ("texts", ("a",), "must be a list of names, not ('a',)"),
        ("texts", ["a", ""], "must be a list of names, not a list"),
        ("texts", [1], "must be a list of names, not a list"),
        ("number", True, "must be a number, not true"),
        ("number", "1", "must be a number, not '1'"),
        ("number", 100.1, "must be from 0 to 100, not 100.1"),
        ("number", float("nan"), "must be from 0 to 100, not nan"),
        ("number", float("inf"), "must be from 0 to 100, not inf"),
        ("whole", 2.5, "must be a whole number, not 2.5"),
        ("whole", 1, "must be from 2 to 1,000,000, not 1"),
        ("inner", [1], "should hold keys and values, and is a list"),
        ("inner", 0, "should hold keys and values, and is 0"),
        *((type_, None, "has no value") for type_ in PLACES),
    ],
)
def test_a_value_of_another_type_is_named(type_: str, value: object, expected: str) -> None:
    """The line has its place, the expected type, and the actual value."""
    with pytest.raises(DocumentError) as caught:
        read_config(document_with(PLACES[type_], value))
    assert f"scoring.{PLACES[type_]} {expected}" == str(caught.value)


@pytest.mark.parametrize("place", PLACES.values())
def test_a_missing_key_is_named(place: str) -> None:
    """A key without a default is required."""
    own = document_with(place, 1)
    *keys, last = ("scoring", *place.split("."))
    below = own
    for key in keys:
        below = below[key]
    del below[last]
    with pytest.raises(DocumentError, match=rf"^scoring\.{place} is missing$"):
        read_config(own)


def test_an_unbounded_number_is_within_what_json_can_hold() -> None:
    """2 to the 53rd is the last whole number that every reader of JSON reads exactly."""
    metric = config_of(WORST.format(-(2**53))).components["mine"].metrics[0]
    assert -(2**53) == metric.worst
    with pytest.raises(DocumentError, match=r"\.worst must be from -2\^53 to 2\^53, not -9007199254740993$"):
        config_of(WORST.format(-(2**53) - 1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x" * 78, f"'{'x' * 78}'"),
        ("x" * 79, f"'{'x' * 79}…"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        ("Größe", "'Größe'"),
        (False, "false"),
        (None, "None"),
        (10**90, f"1{'0' * 79}…"),
    ],
)
def test_a_value_is_described_in_one_short_line(value: object, expected: str) -> None:
    """A long value is cut, and characters that would break or colour a line are escaped."""
    assert expected == describe(value)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("a", "b-c", "d_e", "f g", "größe", "1"), "a.b-c.d_e.f g.größe.1"),
        (("a.b", "c"), "'a.b'.c"),
        (("", "a"), "''.a"),
        (("a\nb",), r"'a\nb'"),
        (("x" * 81,), "x" * 80 + "…"),
    ],
)
def test_a_place_is_described_by_its_keys(keys: tuple[str, ...], expected: str) -> None:
    """Keys that would be ambiguous, or would break the line, are quoted."""
    assert expected == describe_path(keys)
