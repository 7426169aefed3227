"""Texts that an entry has are refused, similar ones are named, and `review --list duplicates` (rule 19)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tallybook.ledger.events import Entry
from tallybook.projections.review import find_pairs, find_similar

if TYPE_CHECKING:
    from helpers.command_line import Run


@given(
    texts=st.lists(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=9).map(" ".join), max_size=9),
    least=st.floats(0.5, 1),
)
def test_pairs_are_those_of_a_comparison_of_all(texts: list[str], least: float) -> None:
    """The pairs of entries that resemble each other are those that comparing every two entries finds."""
    entries = [Entry(f"kpt_{number:03d}", text) for number, text in enumerate(texts)]
    expected = [
        (other, entry)
        for index, entry in enumerate(entries)
        for other in entries[:index]
        if find_similar(other.text, [entry], least)
    ]
    assert expected == [pair.entries for pair in find_pairs(entries, least)]


def texts(run: Run) -> list[str]:
    """Return the texts of the playbook."""
    return [point["text"] for point in json.loads(run("show", "--json").out)["key_points"]]
