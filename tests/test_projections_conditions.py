"""Conditions: the meaning of their text, and a one-line error for any other input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.undo_histories import playbook
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointPinned,
    PointRated,
    PointRetired,
)
from tallybook.projections.conditions import MAX_CHARS, MAX_DEPTH, STATUSES, parse

if TYPE_CHECKING:
    from tallybook.projections.playbook.view import Playbook

BOOK = playbook(
    [PointAdded(f"kpt_00{number}", f"text {number}") for number in range(1, 6)],
    [PointRated("kpt_001", "helpful"), PointRated("kpt_002", "harmful"), PointRated("kpt_002", "harmful")],
    [*[PointRated("kpt_003", "harmful")] * 3, PlaybookUpdated(0, 3, 0)],
    [PointRetired("kpt_004", "")],
    [PointMerged("kpt_001", ("kpt_005",), "")],
    [PointPinned("kpt_002", "")],
    [PointEdited("pat-001", 5, 0, "Use it «ß»"), PointEdited("a b)", 1, 2, ""), PointEdited("count", 7, 0, "not")],
)
"""kpt_001 1/0, kpt_002 0/2 and pinned, kpt_003 pruned 0/3, kpt_004 retired, kpt_005 merged, and three odd names."""


def holds(text: str, book: Playbook = BOOK) -> bool:
    """Return whether a condition holds."""
    condition = parse(text)
    return condition.holds(condition.values(book))


TRUE = [
    "count == 5",
    "count > 4 and count >= 5 and count < 6 and count <= 5 and count != 4",
    "kpt_002.harmful > kpt_002.helpful",
    "exists(kpt_001)",
    "not exists(kpt_003)",
    "pruned(kpt_003)",
    "retired(kpt_004)",
    "merged(kpt_005) AND NOT retired(kpt_005)",
    "pinned(kpt_002)",
    "Exists ( kpt_001 )",
    "not (pruned(kpt_001) or retired(kpt_001) or merged(kpt_001) or pinned(kpt_001))",
    "count > 9 and count > 9 or count > 1",
    "count > 1 or count > 9 and count > 9",
    "not count > 9 and exists(kpt_001)",
    "pat-001.helpful == 5",
    '"a b)".harmful == 2 and exists("a b)")',
    "count.helpful == 7 and exists(count)",
    'kpt_001.text contains "TEXT"',
    'count.text contains "NOT"',
    "pat-001.text CONTAINS 'it «SS»'",
    'kpt_003.text contains "text 3"',
    "\tcount\n>\r 1 ",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_condition_is_evaluated_on_a_playbook(text: str) -> None:
    """Each form has its meaning, whatever the case of its words and the blanks between them."""
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        *(f"kpt_999.helpful {sign} 0" for sign in ("==", "!=", "<", ">", "<=", ">=")),
        "kpt_999.helpful == kpt_998.helpful",
        'kpt_999.text contains ""',
        *(f"{status}(kpt_999)" for status in STATUSES),
    ],
)
def test_nothing_is_true_of_an_unknown_entry(text: str) -> None:
    """No comparison, search or status holds for an entry that never existed."""
    assert not holds(text)


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


REFUSED: list[tuple[str, int, str]] = [
    ("", 1, "expected a number, count, NAME.helpful"),
    ("count", 6, "expected one of != < <= == > >=, found the end"),
    ("count > 1 2", 11, "expected and, or, or the end, found '2'"),
    ("count > -1", 9, "'-' has no meaning here"),
    ("count > 1.5", 11, "expected one of helpful, harmful, text, found '5'"),
    ("count > 1234567890123456", 9, "expected at most 15 digits"),
    ("(count > 1", 11, "expected ), found the end"),
    ("count > 1)", 10, "expected and, or, or the end, found ')'"),
    ("1 < count < 3", 11, "expected and, or, or the end, found '<'"),
    ("kpt_001.score > 1", 9, "expected one of helpful, harmful, text, found 'score'"),
    ("exists()", 8, "expected the name of an entry, found ')'"),
    ("gone(kpt_001)", 1, "found 'gone'"),
    ("kpt_001.text > 1", 14, "expected contains, found '>'"),
    ("kpt_001.text contains kpt", 23, "expected a text in quotes, found 'kpt'"),
    ("kpt_001.helpful contains 'x'", 17, "expected one of"),
    ("'open", 1, "the quotes are not closed"),
    ("count > \u0663", 9, "found '\u0663'"),
    ("\u043a\u043b\u044e\u0447 > 1", 1, "found '\u043a\u043b\u044e\u0447'"),
    ("count > 1 \x1b[2J", 11, "'\\x1b' has no meaning here"),
    ("__import__('os')", 1, "found '__import__'"),
    ("count > " + "9" * 1000, 9, "found '99999999999999999999...'"),
    (" " * MAX_CHARS + "1", MAX_CHARS + 1, "2,001 characters, more than 2,000"),
    ("(" * (MAX_DEPTH + 1) + "1<2" + ")" * (MAX_DEPTH + 1), MAX_DEPTH + 1, "nested deeper than 40"),
    ("not " * (MAX_DEPTH + 1) + "1<2", 4 * MAX_DEPTH + 1, "nested deeper than 40"),
]


@pytest.mark.parametrize(("text", "place", "says"), REFUSED)
def test_an_invalid_condition_is_refused_with_its_position(text: str, place: int, says: str) -> None:
    """The message has the character's position, the expected and the actual text, on one line."""
    with pytest.raises(BadInputError) as refused:
        parse(text)
    message = str(refused.value)
    assert message.startswith(f"CONDITION, character {place}: ")
    assert says in message
    assert message.isprintable()


WORDS = st.sampled_from(
    [*'()."', "'", "and", "or", "not", "count", "kpt_001", ">", "<=", "exists", "text", "1", "contains", " "]
)


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join))
def test_any_text_is_a_condition_or_one_line(text: str) -> None:
    """Any input is true or false, or refused with one printable line."""
    try:
        answer: Any = holds(text)
    except BadInputError as error:
        answer = str(error).isprintable()
        assert answer
    assert isinstance(answer, bool)
