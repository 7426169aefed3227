"""What fields take: the table that makes nearly every event, and cattrs, which says why not, come to one answer."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from ledger import exact, wire
from ledger.events import EVENT_TYPES
from ledger.exact import UnfitError, made
from ledger.recorded import By
from test_ledger_codec import BAD, GOOD, sample

CLASSES = [cls for cls, _ in EVENT_TYPES.values()]
# All that JSON can say, and what only a program can hand over.
NUMBERS = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 2**70, 0.0, -0.5, 2.0**54, True, False])
ODD = st.sampled_from([float("nan"), float("inf"), b"x", (), ("x",), ("x", 1), {1: 2}, "\ud800"])
VALUES = st.recursive(
    st.none() | st.text(max_size=3) | NUMBERS | ODD,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


def fields_of(kind: str) -> dict[str, Any]:
    """Return the fields of a sample of a kind."""
    return attrs.asdict(sample(kind), recurse=False)


def agree(fields: dict[str, Any], cls: type[Any]) -> None:
    """Check that the table and cattrs make the same of these fields, or neither makes anything."""
    taken = made(fields, cls)
    if taken is None:
        with pytest.raises(UnfitError, match=r"\$"):
            wire.structured(fields, cls)
    else:
        assert typed(wire.structured(fields, cls)) == typed(taken)


def typed(event: Any) -> list[Any]:
    """Return an event's class and fields, each with its type: True is no 1 here."""
    return [type(event), *((type(value), repr(value)) for value in attrs.astuple(event, recurse=False))]


@given(st.sampled_from(sorted(EVENT_TYPES)), st.data())
def test_the_table_takes_what_cattrs_takes(kind: str, data: st.DataObject) -> None:
    """Whatever stands in a kind's fields, or is missing, or beside them, both make the same event of it or none."""
    fields = fields_of(kind)
    for name in data.draw(st.lists(st.sampled_from([*fields, "more"]), min_size=1, max_size=3)):
        if data.draw(st.booleans()):
            fields.pop(name, None)
        else:
            fields[name] = data.draw(VALUES)
    agree(fields, EVENT_TYPES[kind][0])


@given(st.dictionaries(st.sampled_from(["rater", "session", "agent", "model", "place", "more"]), VALUES))
def test_who_says_so_is_taken_likewise(fields: dict[str, Any]) -> None:
    """Fields that have a default may be missing, and no others."""
    agree(fields, By)


@pytest.mark.parametrize("cls", [*CLASSES, By])
def test_every_type_of_a_field_has_its_row(cls: type[Any]) -> None:
    """No kind is left to cattrs as a whole, which takes longer to load than a short ledger to fold."""
    types = {field.type for field in attrs.fields(attrs.resolve_types(cls))}
    assert set() == types - exact.TAKERS.keys()


@pytest.mark.parametrize("leaf", list(BAD))
def test_a_taker_takes_nothing_else(leaf: Any) -> None:
    """No value becomes another, and none of a wrong type or beyond its bounds is taken."""
    for value in BAD[leaf]:
        with pytest.raises((TypeError, ValueError)):
            exact.TAKERS[leaf](value)


@pytest.mark.parametrize("leaf", list(exact.LEAVES))
def test_a_field_that_may_be_none_takes_none(leaf: Any) -> None:
    """It takes None beside what its type names, and a field that has to be there does not."""
    assert exact.TAKERS[leaf | None](None) is None
    assert GOOD[leaf] == exact.TAKERS[leaf](GOOD[leaf]) == exact.TAKERS[leaf | None](GOOD[leaf])
    with pytest.raises(TypeError):
        exact.TAKERS[leaf](None)


@pytest.mark.parametrize("most", [2**53, -(2**53), 2.0**53, -(2.0**53)])
def test_the_outermost_numbers_are_taken(most: float) -> None:
    """Up to 2^53 every reader of JSON agrees which number is meant, and that one still counts among them."""
    assert most == exact.number(most)
    if type(most) is int:
        assert most == exact.whole(most)


def test_what_is_no_text_is_told() -> None:
    """The codec hands on what is said of a salt and of a text."""
    with pytest.raises(TypeError, match=r"^expected str, got bool$"):
        exact.text(True)  # noqa: FBT003 - the value under test
