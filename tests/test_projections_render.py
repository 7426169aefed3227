"""The playbook as bytes and as prompt text."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from helpers.reference_model import COUNTS, NAMES, TEXTS, book, point
from tallybook.ledger.events import Entry
from tallybook.projections.playbook.inject import prompt
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict
from tallybook.projections.playbook.view import Playbook

ENTRIES = st.lists(st.builds(point, NAMES, TEXTS, COUNTS, COUNTS), max_size=5)
ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def state(*points: Entry) -> Playbook:
    """Return a playbook of these entries, stamped."""
    return Playbook(entries={one.name: one for one in points}, stamp=(12, "ab" * 16))


def test_the_file_is_the_document_and_its_stamp() -> None:
    """playbook.json is readable JSON in the specification's order of keys, stamped, with a line end at its end."""
    playbook = state(Entry("kpt_001", "Größe", 1, 2))
    written = playbook_bytes(playbook).decode()
    assert book(point("kpt_001", "Größe", 1, 2)) | {"ledger": f"12:{'ab' * 16}"} == json.loads(written)
    assert ["version", "last_updated", "key_points", "ledger"] == list(json.loads(written))
    assert written.startswith('{\n  "version": "1.0",\n')
    assert written.endswith("}\n")
    assert "Größe" in written
    assert {"ledger"} == json.loads(written).keys() - playbook_dict(playbook).keys()


@given(texts=st.lists(ANYTHING, max_size=4))
def test_every_text_survives_the_file(texts: list[str]) -> None:
    """Any text is read from the file unchanged."""
    points = [Entry(f"kpt_{index:03d}", text) for index, text in enumerate(texts)]
    assert texts == [kp["text"] for kp in json.loads(playbook_bytes(state(*points)))["key_points"]]


@given(entries=ENTRIES.filter(bool))
def test_the_prompt_has_one_line_for_each_entry(entries: list[dict[str, object]]) -> None:
    """The entries replace the placeholder in order, one line each (REQ-SCORE-003)."""
    lines = prompt(entries, "before\n{key_points}\nafter").splitlines()
    assert ["before", "after"] == [lines[0], lines[-1]]
    assert [f"[{kp['name']}] helpful={kp['helpful']} harmful={kp['harmful']} :: " for kp in entries] == [
        line[: line.index(":: ") + 3] for line in lines[1:-1]
    ]
