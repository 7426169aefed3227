"""Reading a document strictly: each kind of value by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallybook.projections.scores.configuration.document_reader import DocumentError, Reader, told

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED: dict[str, Callable[[Reader], Any]] = {
    "flag": lambda reader: reader.flag("key"),
    "text": lambda reader: reader.text("key"),
    "texts": lambda reader: reader.texts("key"),
    "number": lambda reader: reader.number("key", -1, 2.5),
    "whole": lambda reader: reader.whole("key", 1),
    "inner": lambda reader: reader.inner("key").values,
}
"""What is asked for under the key ``key``."""


@pytest.mark.parametrize(
    ("what", "value", "expected"),
    [
        ("flag", True, True),
        ("flag", False, False),
        ("text", " x ", " x "),
        ("texts", [], ()),
        ("texts", ["a", "b"], ("a", "b")),
        ("number", -1, -1),
        ("number", 2.5, 2.5),
        ("whole", 1.0, 1),
        ("whole", 1_000_000, 1_000_000),
        ("inner", {"a": 1}, {"a": 1}),
    ],
)
def test_a_value_of_its_type_is_read(what: str, value: object, expected: object) -> None:
    """Both bounds are within, and a list becomes a tuple."""
    found = ASKED[what](Reader({"key": value}))
    assert (expected, type(expected)) == (found, type(expected) if what == "number" else type(found))


@pytest.mark.parametrize(
    ("what", "value", "expected"),
    [
        ("flag", 1, "is true or false, and not 1"),
        ("text", 1, "is a text, and not 1"),
        ("text", " ", "is a text, and not ' '"),
        ("texts", "ab", "is a list of names, and not 'ab'"),
        ("texts", {"a": 1}, "is a list of names, and not keys and values"),
        ("texts", ("a",), "is a list of names, and not ('a',)"),
        ("texts", ["a", ""], "is a list of names, and not a list"),
        ("texts", [1], "is a list of names, and not a list"),
        ("number", True, "is a number, and not true"),
        ("number", "1", "is a number, and not '1'"),
        ("number", 2.6, "is from -1 to 2.5, and not 2.6"),
        ("number", float("nan"), "is from -1 to 2.5, and not nan"),
        ("number", float("inf"), "is from -1 to 2.5, and not inf"),
        ("whole", 1.5, "is a whole number, and not 1.5"),
        ("whole", 0, "is from 1 to 1,000,000, and not 0"),
        ("inner", [1], "should hold keys and values, and is a list"),
        *((what, None, "has no value") for what in ASKED),
    ],
)
def test_a_value_of_another_type_is_named(what: str, value: object, expected: str) -> None:
    """The line says where it stands, what should, and what does."""
    with pytest.raises(DocumentError) as caught:
        ASKED[what](Reader({"key": value}, ("at", "this place")))
    assert f"at.this place.key {expected}" == str(caught.value)


@pytest.mark.parametrize("what", ASKED)
def test_a_key_that_is_not_there_is_missing(what: str) -> None:
    """Without a default every key has to be there."""
    with pytest.raises(DocumentError, match=r"^top\.key is missing$"):
        ASKED[what](Reader({}, ("top",)))


def test_a_default_stands_in_for_a_key_that_is_not_there() -> None:
    """It stands in for no other value, and not for none."""
    reader = Reader({"none": None, "no": False})
    assert (True, "x", ("a",), 7) == (
        reader.flag("key", default=True),
        reader.text("key", "x"),
        reader.texts("key", ("a",)),
        reader.number("key", default=7),
    )
    assert reader.flag("no", default=True) is False
    with pytest.raises(DocumentError, match=r"^none has no value$"):
        reader.number("none", default=7)


def test_a_number_without_bounds_lies_within_what_json_can_say() -> None:
    """2 to the 53rd is the last whole number that every reader of JSON agrees on."""
    assert [2**53, -(2**53)] == [Reader({"key": value}).number("key") for value in (2**53, -(2**53))]
    with pytest.raises(DocumentError, match=r"^key is within 2\^53, and not 9007199254740993$"):
        Reader({"key": 2**53 + 1}).number("key")
    with pytest.raises(DocumentError, match=r"^key is at least 0, and not -1$"):
        Reader({"key": -1}).number("key", 0)


def test_what_is_false_is_no_part() -> None:
    """Names and parts come in their order, without those that are false; a 0 is a part, and no reader's."""
    reader = Reader({"b": {"x": 1}, "gone": False, "a": {}}, ("top",))
    assert ("b", "a") == reader.names
    assert [("b", ("top", "b")), ("a", ("top", "a"))] == [(part.name, part.keys) for part in reader.parts()]
    with pytest.raises(DocumentError, match=r"^n should hold keys and values, and is 0$"):
        list(Reader({"n": 0}).parts())


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
def test_a_value_is_told_in_one_short_line(value: object, expected: str) -> None:
    """What is long is cut, and what would break or colour a line is written out."""
    assert expected == told(value)


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
def test_a_place_is_told_by_its_keys(keys: tuple[str, ...], expected: str) -> None:
    """Keys that would not be told apart, or would break the line, stand in quotes."""
    assert f"{expected} is wrong" == str(Reader({}, keys).fault("is wrong"))
