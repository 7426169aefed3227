"""The injected playbook: the bound that ranks entries, the available room, and their lines."""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from helpers.reference_model import COUNTS, NAMES, TEXTS, point
from tallybook.projections.playbook.confidence import lower_bound
from tallybook.projections.playbook.inject import MAX_ENTRY_CHARS, UNTESTED_SHARE, choose, line

ENTRIES = st.lists(st.builds(point, NAMES, TEXTS, COUNTS, COUNTS), max_size=12, unique_by=lambda entry: entry["name"])
Z_95 = 1.959964


@given(helpful=st.integers(0, 10_000), harmful=st.integers(0, 10_000))
@example(helpful=0, harmful=421)
def test_the_bound_is_the_lowest_share_that_the_ratings_allow(helpful: int, harmful: int) -> None:
    """At the bound the observed share is as far above it as chance reaches in 95 of 100 cases (Wilson 1927)."""
    bound, number = lower_bound(helpful, harmful), helpful + harmful
    assert 0 <= bound <= 1
    if not helpful:
        assert 0 == bound
        return
    share = helpful / number
    assert bound < share
    assert isclose(share - bound, Z_95 * sqrt(bound * (1 - bound) / number), rel_tol=1e-5)


@given(entries=ENTRIES, room=st.integers(0, 2_000))
def test_the_injected_lines_fit_and_are_counted(entries: list[dict[str, Any]], room: int) -> None:
    """Lines are in the playbook's order and fit the room, and a last one counts the rest."""
    choice = choose(entries, room)
    told, rest = choice.lines, len(entries) - len(choice.names)
    assert rest == choice.left_out
    if rest:
        assert f"({rest} more key points were left out for want of room.)" == told[-1]
        told = told[:-1]
    names = [entry["name"] for entry in entries]
    assert list(choice.names) == sorted(choice.names, key=names.index)
    assert len(choice.names) == len(told)
    assert all(one.startswith(f"[{name}] helpful=") for name, one in zip(choice.names, told, strict=True))
    # The line about the rest is told however little room there is.
    assert len("\n".join(told)) <= max(room, 0)
    if sum(len(line(entry)) + 1 for entry in entries) <= room:
        assert 0 == rest


def entries_of(number: int, **counts: int) -> list[dict[str, Any]]:
    """Return so many entries whose lines have fifty characters."""
    return [point(f"kpt_{n:03d}", "x" * 15, **{"helpful": 0, "harmful": 0, **counts}) for n in range(1, number + 1)]


def test_the_best_and_the_newest_untested_entries_are_injected() -> None:
    """Rated entries are ranked by their bound, the newer first of equals; untested ones have a share of the room."""
    rated = [point(f"kpt_{n:03d}", "x" * 15, n % 5, 1) for n in range(1, 21)]
    untested = [point(f"kpt_{n:03d}", "x" * 15) for n in range(21, 41)]
    size = len(line(rated[0])) + 1
    choice = choose([*rated, *untested], 10 * size + len("(40 more key points were left out for want of room.)"))
    assert ["kpt_039", "kpt_040"] == [name for name in choice.names if name > "kpt_020"]
    # Four ratings helpful of five, then three of four.
    assert ["kpt_004", "kpt_008", "kpt_009", "kpt_013", "kpt_014", "kpt_018", "kpt_019"] == [
        name for name in choice.names if name <= "kpt_020" and name != "kpt_003"
    ]
    assert (10, 30) == (len(choice.names), choice.left_out)
    assert UNTESTED_SHARE == 2 / 10


@pytest.mark.parametrize("counts", [{}, {"helpful": 1}], ids=["untested", "rated"])
def test_unused_room_of_one_kind_is_used_by_the_other(counts: dict[str, int]) -> None:
    """If all are untested, or none is, the whole room is theirs."""
    entries = entries_of(40, **counts)
    size = len(line(entries[0])) + 1
    choice = choose(entries, 10 * size + len("(40 more key points were left out for want of room.)"))
    assert tuple(f"kpt_{n:03d}" for n in range(31, 41)) == choice.names


def test_a_long_entry_is_cut_and_blocks_no_other() -> None:
    """Its line ends with an ellipsis; an entry too long for the remaining room is skipped."""
    entries = [point("kpt_001", "x" * 5_000, 9, 0), *entries_of(3, helpful=1)[1:]]
    (long, *others) = choose(entries, 1_200).lines
    assert (MAX_ENTRY_CHARS, "…", 2) == (len(long), long[-1], len(others))
    assert ("kpt_002", "kpt_003") == choose(entries, 300).names


LAST = "({} more key points were left out for want of room.)"


@pytest.mark.parametrize("counts", [{"helpful": 1}, {"harmful": 1}], ids=str)
def test_an_entry_with_one_kind_of_rating_is_tested(counts: dict[str, int]) -> None:
    """It is ranked with the rated entries, before the untested ones."""
    tested, untested = entries_of(1, **counts), entries_of(2)[1:]
    size = len(line(untested[0])) + 1
    fits = 5 * size + len(LAST.format(12))
    many = [*untested, *({**tested[0], "name": f"kpt_1{n:02d}"} for n in range(11))]
    assert "kpt_002" in choose(many, fits).names
