"""Reading playbook files: what a person is told of odd items, short and on one line, and what is kept of them."""

from __future__ import annotations

import pytest

from ledger.seeds import HEADING, Legacy, read_legacy
from reference_model import point
from test_ledger_seeds import entries, messages, read, read_text


def whole(written: str) -> list[str]:
    """Return what is told of an entry whose helpful counter is written so."""
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
    """Forty characters are shown whole, a text in quotes; of a longer value the beginning, and that it goes on."""
    assert [f"playbook.json: key_points[0]: helpful {shown} was read as 0"] == whole(written)


def sections(text: str) -> Legacy:
    """Return what is read from a playbook with these sections."""
    return read_text(f'{{"sections":{text}}}')


def test_an_odd_item_of_a_section_is_named_by_its_place() -> None:
    """The place is the section's name in quotes, or its number, and the item's number in it."""
    kept = "holds no text; kept in the ledger alone"
    assert [f"playbook.json: sections['S'][1]: {kept}"] == messages(sections('{"S":["a",5]}'))
    assert [f"playbook.json: sections[1][0]: {kept}"] == messages(sections('[{"items":["a"]},{"items":[5]}]'))


def test_an_item_with_a_text_is_an_entry_whatever_lists_it_has() -> None:
    """Between sections, an object with a text of its own is no section."""
    legacy = sections('[{"text":"a","items":["b"]},{"items":["c"]}]')
    assert [point("kpt_001", "a"), point("kpt_002", "c")] == entries(legacy)
    assert ['{"items":[]}'] == [skipped.original for skipped in legacy.skipped]
    assert {HEADING} == {skipped.reason for skipped in legacy.skipped}


def test_a_list_is_kept_as_it_was_written() -> None:
    """What is no entry is kept in JSON without white space, its parts in order."""
    (skipped,) = read(["a", [1, 2.5, None], {"b": "c", "d": "ü"}]).skipped
    assert '["a",[1,2.5,null],{"b":"c","d":"ü"}]' == skipped.original


def test_problems_are_told_of_the_file_that_was_named() -> None:
    """Whatever file was read, its own name stands before every problem."""
    legacy = read_legacy(b'{"key_points":["a",5]}', "old.json")
    assert ["old.json: key_points[1]: holds no text; kept in the ledger alone"] == messages(legacy)
