"""Messages about odd items of legacy files: short, on one line, and with the evidence that is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.legacy_files import entries, messages, read_text
from helpers.reference_model import point
from tallybook.ledger.errors import BadInputError

if TYPE_CHECKING:
    from tallybook.ledger.decisions.legacy_import import LegacyFile


def whole(written: str) -> list[str]:
    """Return the message about an entry whose helpful counter is written so."""
    return messages(read_text(f'{{"key_points":[{{"name":"kpt_001","text":"a","helpful":{written},"harmful":0}}]}}'))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("null", "null"),
        ("2.7", "2.7"),
        ('["a", 1]', '["a",1]'),
        ('{"b": [true]}', '{"b":[true]}'),
        ('"many"', "'many'"),
        ('"many\\nlines"', r"'many\nlines'"),
        (f'"{"x" * 40}"', f"'{'x' * 40}'"),
        (f'"{"x" * 41}"', f"'{'x' * 39}…'"),
        (f'["{"x" * 36}"]', f'["{"x" * 36}"]'),
        (f'["{"x" * 37}"]', f'["{"x" * 37}…'),
    ],
)
def test_a_value_is_shown_short_and_as_it_was_written(written: str, shown: str) -> None:
    """Up to forty characters are shown whole, a text in quotes; of a longer value the beginning, with an ellipsis."""
    assert [f"playbook.json: key_points[0]: helpful {shown} was read as 0"] == whole(written)


def test_numbers_at_the_top_are_unchanged() -> None:
    """A whole number stays one, whatever its sign; a fraction stays a fraction."""
    assert '{"a":-5,"b":2.5,"c":-0.25,"d":7}' == read_text('{"a":-5,"b":2.5,"c":-0.25,"d":7,"key_points":[]}').top


def test_a_top_level_key_with_two_flaws_is_reported_with_both() -> None:
    """Every flaw that JSON readers interpret differently is listed."""
    (skipped,) = read_text('{"x":{"a":1,"a":NaN},"key_points":[]}').skipped
    both = "repeats a key, of which the last one counts; holds a number that many cannot read"
    assert both == skipped.reason


def test_a_hundred_levels_are_read() -> None:
    """The file's own object and list are two of them; one level more is refused."""
    assert 1 == len(read_text(f'{{"key_points":[{"[" * 98}{"]" * 98}]}}').skipped)
    with pytest.raises(BadInputError, match=r"^playbook.json: is nested more than 100 levels deep$"):
        read_text(f'{{"key_points":[{"[" * 99}{"]" * 99}]}}')


def sections(text: str) -> LegacyFile:
    """Return the entries of a playbook with these sections."""
    return read_text(f'{{"sections":{text}}}')


def test_an_odd_item_of_a_section_is_named_by_its_place() -> None:
    """The place is the section's name in quotes, or its number, and the item's number in it."""
    kept = "holds no text; kept only in the ledger"
    assert [f"playbook.json: sections['S'][1]: {kept}"] == messages(sections('{"S":["a",5]}'))
    assert [f"playbook.json: sections[1][0]: {kept}"] == messages(sections('[{"items":["a"]},{"items":[5]}]'))


def test_invalid_key_points_next_to_sections_are_kept_as_evidence() -> None:
    """The sections are read; the value in place of the entries is not."""
    legacy = read_text('{"key_points":{"a":1},"sections":{"S":["b"]}}')
    assert ([point("kpt_001", "b")], {"section_names": {"S": ["kpt_001"]}}) == (entries(legacy), legacy.top_keys)
    assert (2, "is not what a playbook has there", '{"key_points":{"a":1}}') == (
        legacy.skipped[1].index,
        legacy.skipped[1].reason,
        legacy.skipped[1].original,
    )
