"""The injected playbook: the bound that ranks entries, the available room, and their lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.reference_model import COUNTS, NAMES, TEXTS, point
from tallybook.projections.playbook.inject import MAX_ENTRY_CHARS, UNTESTED_SHARE, choose, line, names_of

ENTRIES = st.lists(st.builds(point, NAMES, TEXTS, COUNTS, COUNTS), max_size=12, unique_by=lambda entry: entry["name"])


@given(entries=ENTRIES, room=st.integers(0, 2_000))
def test_the_injected_lines_fit_and_are_counted(entries: list[dict[str, Any]], room: int) -> None:
    """Lines are in the playbook's order and fit the room, and a last one counts the rest."""
    choice = choose(entries, room)
    told, rest = choice.lines, len(entries) - len(names_of(choice.chosen))
    assert rest == choice.left_out[False]["room"]
    if rest:
        assert f"({rest} more key points were left out for want of room.)" == told[-1]
        told = told[:-1]
    names = [entry["name"] for entry in entries]
    assert list(names_of(choice.chosen)) == sorted(names_of(choice.chosen), key=names.index)
    assert len(names_of(choice.chosen)) == len(told)
    assert all(text.startswith(f"[{name}] helpful=") for name, text in zip(names_of(choice.chosen), told, strict=True))
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
    assert ["kpt_039", "kpt_040"] == [name for name in names_of(choice.chosen) if name > "kpt_020"]
    # Four ratings helpful of five, then three of four.
    assert ["kpt_004", "kpt_008", "kpt_009", "kpt_013", "kpt_014", "kpt_018", "kpt_019"] == [
        name for name in names_of(choice.chosen) if name <= "kpt_020" and name != "kpt_003"
    ]
    assert (10, 30) == (len(names_of(choice.chosen)), choice.left_out[False]["room"])
    assert UNTESTED_SHARE == 2 / 10


def test_a_long_entry_is_cut_and_blocks_no_other() -> None:
    """Its line ends with an ellipsis; an entry too long for the remaining room is skipped."""
    entries = [point("kpt_001", "x" * 5_000, 9, 0), *entries_of(3, helpful=1)[1:]]
    (long, *others) = choose(entries, 1_200).lines
    assert (MAX_ENTRY_CHARS, "…", 2) == (len(long), long[-1], len(others))
    assert ("kpt_002", "kpt_003") == names_of(choose(entries, 300).chosen)
