"""The vocabulary as a table: every class has its row, every row can be written, read and upcast."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tallybook.ledger import events
from tallybook.ledger.encoding.event_json import UPCASTS
from tallybook.ledger.events import (
    EVENT_TYPES,
    FREE,
    KIND_OF,
    BenchmarkRecorded,
    Event,
    EventRedacted,
    Numbers,
    PlaybookAdopted,
    PlaybookEdited,
    PointSeeded,
    SessionMeasured,
    UnknownEvent,
)
from tallybook.ledger.line import CONTINUED

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = [cls for cls, _ in EVENT_TYPES.values()]


def test_every_event_has_one_row() -> None:
    """The table names every class of an event, except the one for unknown kinds."""
    classes = {one for one in vars(events).values() if isinstance(one, type) and issubclass(one, Event)}
    bases = {base for cls in classes for base in cls.__bases__}
    assert {*CLASSES, UnknownEvent} == classes - bases
    assert len(CLASSES) == len(set(CLASSES))
    assert {cls: kind for kind, (cls, _) in EVENT_TYPES.items()} == KIND_OF
    assert CONTINUED not in EVENT_TYPES


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_kind_is_a_plain_literal(kind: str) -> None:
    """A kind is a noun and a participle, and needs no quoting or escaping in a log file."""
    assert re.fullmatch(r"[a-z]+\.[a-z]+", kind)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_old_version_can_be_upcast(kind: str) -> None:
    """Versions count from 1, and each one before the current has its upcast."""
    _, today = EVENT_TYPES[kind]
    assert today >= 1
    assert [] == [version for version in range(1, today) if (kind, version) not in UPCASTS]


@pytest.mark.parametrize("cls", CLASSES)
def test_a_free_text_may_be_none(cls: type[Any]) -> None:
    """Every free field is a text or, once redacted, None; the class, or its base, documents each field."""
    said = "".join(inspect.getdoc(base) or "" for base in cls.__mro__)
    for field in attrs.fields(attrs.resolve_types(cls)):
        assert (str | None) == field.type or FREE not in field.metadata
        assert f"\n    {field.name}: " in said


def test_texts_by_people_and_models_are_free_text() -> None:
    """A field that may have to be redacted is marked as free text."""
    marked = {cls: [field.name for field in attrs.fields(cls) if FREE in field.metadata] for cls in CLASSES}
    assert (["text", "original"], ["top"], ["reason"]) == (
        marked[PointSeeded],
        marked[PlaybookEdited],
        marked[EventRedacted],
    )


@pytest.mark.parametrize("cls", [*CLASSES, UnknownEvent])
def test_an_event_is_immutable(cls: type[Any]) -> None:
    """Events are frozen, hashable, and compare by their fields."""
    names = [field.name for field in attrs.fields(cls)]
    with attrs.validators.disabled():
        event, same = (cls(**dict.fromkeys(names, "x")) for _ in range(2))
        other = attrs.evolve(event, **{names[-1]: "y"})
    assert {event} == {same}
    assert event != other
    said = ", ".join(f"{name}='x'" for name in names)
    assert f"{cls.__name__}({said})" == repr(event)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(event, names[0], "y")


@pytest.mark.parametrize("top", ["", "{}", '{"owner":{"name":"ü"},"tags":[1,null]}', None])
def test_the_top_of_a_file_is_an_object(top: str | None) -> None:
    """Top-level keys are a JSON object, an empty text if there are none, and None once redacted."""
    assert top == PlaybookAdopted("ab12", 1, top).top
    assert top == PlaybookEdited(1, "ab12", top).top


@pytest.mark.parametrize(
    ("top", "what"),
    [
        ("{", r"^top is not JSON: Expecting property name"),
        ("[" * 200_000, r"^top is not JSON: "),
        (r'{"a":"\ud800"}', r"^top is not JSON: .*surrogates not allowed"),
        ("[]", r"^top is not a JSON object$"),
        ('"owner"', r"^top is not a JSON object$"),
    ],
    ids=["torn", "deep", "half a pair", "list", "text"],
)
def test_an_invalid_top_is_refused(top: str, what: str) -> None:
    """A text that cannot be read again, or is no object, never becomes an event."""
    with pytest.raises((TypeError, ValueError), match=what):
        PlaybookAdopted("ab12", 1, top)


def test_numbers_are_distinguished_as_written() -> None:
    """Equal numbers are one key, in any order; 1, 1.0 and true are three, and so is another name."""
    same = Numbers({"a": 1, "b": 2.5}), Numbers({"b": 2.5, "a": 1})
    others = [Numbers({"a": value, "b": 2.5}) for value in (1.0, True, 2)] + [Numbers({"a": 1}), Numbers({})]
    assert 1 == len(set(same))
    assert 6 == len({*same, *others})
    assert same[0] != {"a": 1, "b": 2.5}


@pytest.mark.parametrize(
    "change",
    [
        lambda numbers: numbers.update(a=2),
        lambda numbers: numbers.pop("a"),
        lambda numbers: numbers.clear(),
        lambda numbers: numbers.setdefault("b", 1),
        lambda numbers: numbers.popitem(),
        lambda numbers: numbers.__setitem__("a", 2),
        lambda numbers: numbers.__delitem__("a"),
        lambda numbers: numbers.__ior__({"b": 2}),
    ],
)
def test_numbers_are_immutable(change: Callable[[Numbers], object]) -> None:
    """The key by which an event is remembered cannot change."""
    numbers = Numbers({"a": 1})
    with pytest.raises(TypeError, match=r"^numbers of an event are immutable$"):
        change(numbers)
    assert Numbers({"a": 1}) == numbers


@pytest.mark.parametrize("passed", [0, 40, 50])
def test_passed_cases_are_at_most_all_cases(passed: int) -> None:
    """All of them may pass, and one more may not."""
    assert passed == BenchmarkRecorded("ac06", "", passed, 50).passed
    with pytest.raises(ValueError, match=r"^51 of 50 cases cannot have passed$"):
        BenchmarkRecorded("ac06", "", 51, 50)


@pytest.mark.parametrize("numbers", [{"calls": 2, "failed": 3}, {"tests_failed": 1}, {"seconds": -1}])
def test_an_impossible_measurement_of_a_session_is_refused(numbers: dict[str, float]) -> None:
    """No number is below 0, and no more calls or tests failed than there were; numbers may be missing."""
    assert Numbers({}) == SessionMeasured(Numbers({})).numbers
    with pytest.raises(ValueError, match=r"^numbers must be from 0, and no more can fail than there are: "):
        SessionMeasured(Numbers(numbers))
