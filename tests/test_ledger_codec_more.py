"""Decoding what no Tallybook wrote, in words: the damage says what is wrong; and the texts of an event by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ledger.codec import texts_of
from ledger.events import PointAdded, PointRated, PointSeeded, UnknownEvent
from test_ledger_codec import CONTINUATION, damage_in_the_second, line_of, sections

if TYPE_CHECKING:
    from ledger.events import Event

UNWRITTEN = "its chain fits, but no Tallybook wrote this: "
NOTHING_THERE = "it continues a text that is not there"


@pytest.mark.parametrize(
    ("first", "free", "reason"),
    [
        ("point.removed", '{"salt":"5a17","text":"x"}', NOTHING_THERE),
        ("point.removed", None, NOTHING_THERE),
        ("point.added", '{"salt":"5a17","nothing":"x"}', NOTHING_THERE),
        ("point.added", '{"salt":"5a17"}', NOTHING_THERE),
        ("point.added", None, NOTHING_THERE),
        ("point.added", '{"salt":"5a17","text":7}', "expected str, got int"),
        ("point.added", '{"salt":"5a17","text":null}', "expected str, got NoneType"),
        ("point.added", '{"salt":7,"text":"x"}', "expected str, got int"),
    ],
)
def test_a_continuation_that_continues_nothing_says_so(first: str, free: str | None, reason: str) -> None:
    """A line that cannot be joined to the one before it says whether that has no such text, or it is none itself."""
    assert UNWRITTEN + reason == damage_in_the_third(first, free)


def damage_in_the_third(first: str, free: str | None) -> str:
    """Return the message about a continuation behind an event of a kind."""
    from test_ledger_codec import DamagedLedgerError, decoded

    with pytest.raises(DamagedLedgerError) as caught:
        decoded(line_of(first, *sections(first)), (CONTINUATION, free))
    (problem,) = caught.value.problems
    return problem.message
