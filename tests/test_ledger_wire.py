"""Why fields do not fit: cattrs takes what the table takes, makes nothing of a value but itself, and says where."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from ledger import wire
from ledger.events import EVENT_TYPES
from ledger.exact import UnfitError
from ledger.recorded import By
from test_ledger_codec import WRONG, sample


def fields_of(kind: str) -> dict[str, Any]:
    """Return the fields of a sample of a kind."""
    return attrs.asdict(sample(kind), recurse=False)


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_fields_that_fit_make_their_event(kind: str) -> None:
    """A value of the type that its field names comes through as it is."""
    assert sample(kind) == wire.structured(fields_of(kind), EVENT_TYPES[kind][0])


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_value_that_does_not_fit_is_told_with_its_field(kind: str, field: str, value: Any) -> None:
    """None, a number or a text of another type, or one beyond its bounds, becomes no value that would fit."""
    with pytest.raises(UnfitError, match=rf"@ \$\.{field}"):
        wire.structured(fields_of(kind) | {field: value}, EVENT_TYPES[kind][0])


def test_a_field_too_few_or_too_many_is_named() -> None:
    """What a kind does not have is no more taken than what it lacks."""
    cls = EVENT_TYPES["point.rated"][0]
    with pytest.raises(UnfitError, match="rating"):
        wire.structured({"name": "a"}, cls)
    with pytest.raises(UnfitError, match=r"extra fields found .*stars"):
        wire.structured({"name": "a", "rating": "helpful", "stars": 5}, cls)
    assert By("r") == wire.structured({"rater": "r"}, By)


def test_an_error_tells_the_field_below_the_path_that_it_is_given() -> None:
    """The same error is told of an event's fields and of a line's body."""
    with pytest.raises(UnfitError) as caught:
        wire.structured({"name": 1, "rating": "x"}, EVENT_TYPES["point.rated"][0])
    assert str(caught.value).endswith("expected str @ $.name")
    assert caught.value.told("$.body").endswith("expected str @ $.body.name")
