"""Conditions: any text is one, or a one-line error; `tests/tape/stories/comparisons.txt` has their meaning."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.ledger.errors import BadInputError
from tallybook.projections.conditions import MAX_CHARS, MAX_DEPTH, parse
from tallybook.projections.playbook.view import Playbook


@given(
    st.text(st.sampled_from("ab\"'.-_ \u00e9()"), min_size=1, max_size=6) | st.sampled_from(["not", "or", "count", "1"])
)
def test_every_name_can_be_a_term(name: str) -> None:
    """A name may be in either quotes, its own quotes doubled; and a listed term is a condition again."""
    for quote in "\"'":
        text = f"{quote}{name.replace(quote, quote * 2)}{quote}"
        condition = parse(f"exists({text}) or {text}.helpful > 1")
        assert {name} == condition.names
        exists, helpful = condition.terms
        assert {name} == parse(f"{exists} and {helpful} > 1").names


WORDS = st.sampled_from(
    [*'()."', "'", "and", "or", "not", "count", "kpt_001", ">", "<=", "exists", "text", "1", "contains", " "]
)


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join))
def test_any_text_is_a_condition_or_one_line(text: str) -> None:
    """Any input is true or false, or refused with one printable line."""
    try:
        condition = parse(text)
        answer: Any = condition.holds(condition.values(Playbook()))
    except BadInputError as error:
        answer = str(error).isprintable()
        assert answer
    assert isinstance(answer, bool)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (" " * MAX_CHARS + "1", f"CONDITION, character {MAX_CHARS + 1}: 2,001 characters, more than 2,000"),
        ("(" * (MAX_DEPTH + 1) + "1<2" + ")" * (MAX_DEPTH + 1), f"character {MAX_DEPTH + 1}: nested deeper than 40"),
        ("not " * (MAX_DEPTH + 1) + "1<2", f"character {4 * MAX_DEPTH + 1}: nested deeper than 40"),
        ("count > 1 \x1b[2J", "character 11: '\\x1b' has no meaning here"),
    ],
)
def test_a_condition_has_bounds(text: str, refusal: str) -> None:
    """A long or deep text and a control character are refused with their place in one printable line."""
    with pytest.raises(BadInputError) as refused:
        parse(text)
    assert refusal in str(refused.value)
    assert str(refused.value).isprintable()
