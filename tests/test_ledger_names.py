"""The names of entries: numbered ones, the next one, valid ones, and those that an import assigns."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from tallybook.ledger.decisions.legacy_import import LegacyFile, read_legacy
from tallybook.ledger.names import format_name, generate_keypoint_name, is_usable_name

NAMES = st.one_of(
    st.integers(0, 1200).map(format_name), st.sampled_from(["kpt_999999999", "kpt_1000000000"]), st.text()
)


@pytest.mark.parametrize(
    ("existing", "generated"),
    [
        ([], "kpt_001"),
        (["my rule"], "kpt_001"),
        (["kpt_001"], "kpt_002"),
        (["kpt_007", "kpt_003"], "kpt_008"),
        (["kpt_999"], "kpt_1000"),
        (["kpt_1"], "kpt_002"),
        (["kpt_999999999", "kpt_1000000000"], "kpt_1000000001"),
    ],
)
def test_the_next_name_is_one_more_than_the_highest(existing: list[str], generated: str) -> None:
    """REQ-SCORE-004: a name is generated from the names that exist."""
    assert generated == generate_keypoint_name(existing)


@given(st.lists(NAMES))
def test_a_generated_name_is_new_and_usable(existing: list[str]) -> None:
    """Whatever names there are, hostile ones included, the generated name is new."""
    name = generate_keypoint_name(existing)
    assert name not in existing
    assert is_usable_name(name)


def read(*items: object, taken: tuple[str, ...] = ()) -> LegacyFile:
    """Return the entries read from a playbook of these items."""
    return read_legacy(json.dumps({"key_points": items}).encode(), reserved=taken)


def names_of(legacy: LegacyFile) -> list[str]:
    """Return the names of a file's entries."""
    return [item.entry.name for item in legacy.items]


@pytest.mark.parametrize(
    ("items", "names"),
    [
        (["a", {"name": "kpt_001", "text": "b"}], ["kpt_002", "kpt_001"]),
        (["a", {"name": "kpt_005", "text": "b"}, "c"], ["kpt_001", "kpt_005", "kpt_006"]),
        ([{"name": "kpt_005", "text": ""}, "a"], ["kpt_006"]),
        (["a", {"name": "kpt_001"}], ["kpt_002"]),
        ([{"name": "kpt_999999999", "text": "a"}, "b", "c"], ["kpt_999999999", "kpt_1000000000", "kpt_1000000001"]),
        ([{"name": "my rule", "text": "a"}, "b"], ["my rule", "kpt_001"]),
    ],
)
def test_a_generated_name_is_never_one_of_the_file(items: list[object], names: list[str]) -> None:
    """REQ-SCORE-004: it is one more than the highest so far, and skips a name that a later item has."""
    assert names == names_of(read(*items))
