"""Conditions: any text is one, or a one-line error; bisect finds the same as a linear scan over `show --at`.

`tests/tape/stories/comparisons.txt` has the meaning of conditions, and the event that bisect names.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.view_histories import KNOWN, folded, history
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    PlaybookUpdated,
    PointAdded,
    PointPinned,
    PointRated,
    PointRestored,
    PointRetired,
    PointUnpinned,
)
from tallybook.projections.history.conditions import MAX_CHARS, parse, search
from tallybook.projections.playbook.view import Playbook


@given(
    st.text(st.sampled_from("ab\"'.-_ \u00e9()"), min_size=1, max_size=6) | st.sampled_from(["not", "or", "count", "1"])
)
def test_every_name_can_be_a_term(name: str) -> None:
    """A name may be in quotes of either kind; and a listed term is a condition again."""
    for text in (repr(name), json.dumps(name)):
        condition = parse(f"exists({text}) or {text}.helpful > 1")
        assert {name} == condition.names
        exists, helpful = condition.evaluate(Playbook())[1]
        assert {name} == parse(f"{exists} and {helpful} > 1").names


WORDS = st.sampled_from(
    [
        *'()."',
        "'",
        "and",
        "or",
        "not",
        "count",
        "kpt_001",
        ">",
        "<=",
        "exists",
        "text",
        "1",
        "in",
        " ",
        ".helpful",
        "\\",
    ]
)


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join))
def test_any_text_is_a_condition_or_one_line(text: str) -> None:
    """Any input is true or false, or refused with one printable line."""
    try:
        condition = parse(text)
        answer: Any = condition.evaluate(Playbook())[0]
    except BadInputError as error:
        answer = str(error).isprintable()
        assert answer
    assert isinstance(answer, bool)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (" " * MAX_CHARS + "1", f"CONDITION, character {MAX_CHARS + 1}: 1,001 characters, more than 1,000"),
        ("(" * 250 + "1<2" + ")" * 250, "character 201: the condition cannot be read from here on"),
        ("-" * (MAX_CHARS - 1) + "1", "CONDITION, character 1: expected a comparison"),
        ("count > 1 \x1b[2J", "character 11: '\\x1b' has no meaning here"),
        ("'ßß' in kpt_001.text and 2", "character 26: expected a comparison"),
    ],
)
def test_a_condition_has_bounds(text: str, refusal: str) -> None:
    """A long or deep text and a control character are refused with their place in one printable line."""
    deepest = "not " * ((MAX_CHARS - 3) // 4) + "1<2"
    assert isinstance(parse(deepest).evaluate(Playbook())[0], bool)
    with pytest.raises(BadInputError) as refused:
        parse(text)
    assert refusal in str(refused.value)
    assert str(refused.value).isprintable()


CLOSE = PlaybookUpdated(0, 0, 0)
A, B = PointAdded("kpt_001", "a"), PointAdded("kpt_002", "b")
NAMES = ["kpt_001", "kpt_002", "pat-001"]
FEW, WRITTEN = st.sampled_from(NAMES), st.sampled_from(list(map(repr, NAMES)))
RATED = st.builds(PointRated, FEW, st.sampled_from(["helpful", "harmful"]))
DECIDED = st.sampled_from([PointRetired, PointRestored, PointPinned, PointUnpinned]).flatmap(
    lambda kind: st.builds(kind, FEW, st.just(""))
)
BORN = [PointAdded("kpt_001", "a"), PointAdded("kpt_002", "b"), PointAdded("pat-001", "c")]
HISTORIES = st.lists(
    st.lists(KNOWN | RATED | RATED | DECIDED | st.just(CLOSE), min_size=1, max_size=5), max_size=12
).map(lambda stretches: [*stretches[:1], BORN, *stretches[1:]])
BEGINS = st.just(0) | st.integers(0, 30)
LENGTHS = st.none() | st.none() | st.integers(0, 60)

LEAVES = st.one_of(
    st.builds(
        "{}.{} {} {}".format,
        WRITTEN,
        st.sampled_from(["helpful", "harmful"]),
        st.sampled_from([">", ">=", "<", "<=", "==", "!="]),
        st.integers(0, 4),
    ),
    st.builds("count {} {}".format, st.sampled_from([">", "<", "=="]), st.integers(0, 4)),
    st.builds("{}({})".format, st.sampled_from(["exists", "pruned", "retired", "merged", "pinned"]), WRITTEN),
    st.builds("'{}' in {}.text".format, st.sampled_from("abc"), WRITTEN),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and {}".format, inner, LEAVES),
        st.builds("{} or ({})".format, LEAVES, inner),
    ),
    max_leaves=4,
)


@given(HISTORIES, CONDITIONS, BEGINS, LENGTHS, st.booleans())
def test_it_finds_what_a_linear_scan_finds(
    stretches: list[list[Any]], text: str, begin: int, length: int | None, last: bool
) -> None:
    """It finds the first or last moment of a range at which the condition becomes true."""
    batches, end = history(stretches), None if length is None else begin + length
    moments = [batch.last for batch in batches if batch.last > begin and (end is None or batch.last <= end)]
    condition = parse(text)
    truths = [condition.evaluate(folded(batches, seq))[0] for seq in (begin, *moments)]
    turned = [seq for seq, before, after in zip(moments, truths, truths[1:], strict=False) if after and not before]
    found = search(condition, lambda: [b for b in batches if end is None or b.last <= end], begin, last=last)
    expected = turned[-1 if last else 0] if turned else None
    assert (expected, truths[0]) == (found["moment"], found["began"])
