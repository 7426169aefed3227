"""Names in update requests: their length, and names of a sender that differ from those of the ledger."""

from __future__ import annotations

from helpers.ledger_decisions import known
from helpers.reference_model import extraction
from tallybook.ledger.decisions.edit import Edit, decide_edit
from tallybook.ledger.decisions.update import decide_extraction, read_extraction
from tallybook.ledger.events import Entry, PlaybookEdited, PointEdited, PointRated, PointRemoved


def test_names_of_a_sender_are_translated_once() -> None:
    """The name that an entry got in an earlier request is used in the later ones, and is not looked up again."""
    before = {"kpt_001": "kpt_002"}
    theirs, ours = Entry("kpt_001", "theirs"), Entry("kpt_002", "ours")
    update = read_extraction(extraction(("kpt_001", "helpful"), ("kpt_002", "harmful"), new=["more"]))
    decision = decide_extraction(update, known(theirs, ours), {"more": "kpt_002"}, before)
    assert {"kpt_001": "kpt_002", "kpt_002": "kpt_003"} == decision.new_names
    rated = [PointRated("kpt_002", "helpful"), PointRated("kpt_003", "harmful")]
    assert rated == [event for event in decision.events if isinstance(event, PointRated)]


def test_an_edit_is_translated_once() -> None:
    """An edit in the sender's names changes the right entries, and a new entry gets an unused name."""
    before = {"kpt_001": "kpt_002", "kpt_002": "kpt_003"}
    standing = (Entry("kpt_001", "theirs"), Entry("kpt_002", "first"), Entry("kpt_003", "second"))
    base = (Entry("kpt_001", "first"), Entry("kpt_002", "second"))
    found = (Entry("kpt_001", "first", 1), Entry("kpt_003", "third"))
    decision = decide_edit(Edit(base, found), known(*standing), {}, before)
    assert before | {"kpt_003": "kpt_004"} == decision.new_names
    assert (
        PointRemoved("kpt_003"),
        PointEdited("kpt_002", 1, 0, "first"),
        PointEdited("kpt_004", 0, 0, "third"),
        PlaybookEdited(None, None, ""),
    ) == decision.events


def test_the_longest_name_and_rating_are_read() -> None:
    """A name of 200 characters and a rating of 100 are read unchanged."""
    name, rating = "n" * 200, "r" * 100
    assert (("evaluations[0]", name, rating),) == read_extraction(extraction((name, rating))).ratings
