"""The vocabulary as a table: every class has its row, every row can be written, read and upcast."""

from __future__ import annotations

import pytest

from tallybook.ledger import events
from tallybook.ledger.events import (
    EVENT_TYPES,
    KIND_OF,
    BenchmarkRecorded,
    Event,
    Numbers,
    PlaybookAdopted,
    SessionMeasured,
    UnknownEvent,
)
from tallybook.ledger.line import CONTINUED

CLASSES = [cls for cls, _ in EVENT_TYPES.values()]


def test_every_event_has_one_row() -> None:
    """The table names every class of an event, except the one for unknown kinds."""
    classes = {var for var in vars(events).values() if isinstance(var, type) and issubclass(var, Event)}
    bases = {base for cls in classes for base in cls.__bases__}
    assert {*CLASSES, UnknownEvent} == classes - bases
    assert len(CLASSES) == len(set(CLASSES))
    assert {cls: kind for kind, (cls, _) in EVENT_TYPES.items()} == KIND_OF
    assert CONTINUED not in EVENT_TYPES


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
