"""Decisions of curation: one event, or the reason for none."""

from __future__ import annotations

import pytest

from tallybook.ledger.decisions.curation import CURATIONS, MAX_REASON_CHARS, Curation, decide_curation
from tallybook.ledger.decisions.update import MAX_TEXT_CHARS
from tallybook.ledger.errors import (
    EXIT_BAD_INPUT,
    EXIT_NO,
    BadInputError,
    NothingToDoError,
    TallybookError,
    UnknownEntryError,
)
from tallybook.ledger.events import (
    Entry,
    Event,
    PointMerged,
    PointPinned,
    PointRestored,
    PointRetired,
    PointReworded,
    PointUnpinned,
)
from tallybook.projections.playbook.view import Playbook

KNOWN = Playbook(
    entries={name: Entry(name, text) for name, text in (("kpt_001", "a"), ("kpt_002", "b"), ("kpt_003", "c"))},
    high_water=7,
    used={f"kpt_{number:03d}" for number in range(1, 8)},
    pinned={"kpt_002", "kpt_004"},
    merged={"kpt_005": "kpt_001"},
    gone={
        "kpt_004": Entry("kpt_004", "d", 1, 3),
        "kpt_005": Entry("kpt_005", "e"),
        "kpt_006": Entry("x", "a"),
    },
)
"""1, 2 (pinned) and 3 stand; 4 (pinned) was pruned, 5 went into 1, 6 said what 1 says now, 7 was undone."""


@pytest.mark.parametrize(
    ("wish", "event"),
    [
        (Curation("retire", "kpt_001"), PointRetired("kpt_001", "")),
        (Curation("retire", "kpt_002", "pins hold no person"), PointRetired("kpt_002", "pins hold no person")),
        (Curation("restore", "kpt_004", "it was right"), PointRestored("kpt_004", "it was right")),
        (Curation("pin", "kpt_001"), PointPinned("kpt_001", "")),
        (Curation("unpin", "kpt_002"), PointUnpinned("kpt_002", "")),
        (Curation("unpin", "kpt_004"), PointUnpinned("kpt_004", "")),
        (Curation("reword", "kpt_001", "shorter", "A"), PointReworded("kpt_001", "shorter", "A")),
        (Curation("reword", "kpt_001", text="d"), PointReworded("kpt_001", "", "d")),
        (Curation("merge", "kpt_001", sources=("kpt_002",)), PointMerged("kpt_001", ("kpt_002",), "")),
        (
            Curation("merge", "kpt_001", "same", sources=("kpt_003", "kpt_002", "kpt_003")),
            PointMerged("kpt_001", ("kpt_003", "kpt_002"), "same"),
        ),
    ],
)
def test_a_curation_becomes_one_event(wish: Curation, event: Event) -> None:
    """It names the entry and the reason, and has the fields of its kind."""
    decision = decide_curation(wish, KNOWN)
    assert ((event,), (), {}) == (decision.events, decision.ignored, decision.new_names)


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Curation("retire", "kpt_004"), "kpt_004: is not in the playbook; see `tallybook why`"),
        (Curation("retire", "kpt_005"), "kpt_005: was merged into kpt_001; see `tallybook why`"),
        (Curation("restore", "kpt_001"), "kpt_001: is in the playbook; nothing was recorded"),
        (Curation("restore", "kpt_005"), "kpt_005: was merged into kpt_001; undo that merge instead"),
        (Curation("restore", "kpt_006"), "kpt_006: would have the text of kpt_001; `tallybook retire kpt_001` first"),
        (Curation("restore", "kpt_007"), "kpt_007: was undone; find that undo with `tallybook log` and undo it"),
        (Curation("pin", "kpt_002"), "kpt_002: is pinned; nothing was recorded"),
        (Curation("pin", "kpt_004"), "kpt_004: is not in the playbook"),
        (Curation("unpin", "kpt_001"), "kpt_001: is not pinned; nothing was recorded"),
        (Curation("reword", "kpt_001", text="a"), "kpt_001: already has this text; nothing was recorded"),
        (
            Curation("reword", "kpt_001", text="b"),
            "kpt_001: would have the text of kpt_002; `tallybook merge kpt_002 kpt_001`",
        ),
        (Curation("reword", "kpt_004", text="z"), "kpt_004: is not in the playbook"),
        (Curation("merge", "kpt_004", sources=("kpt_001",)), "kpt_004: is not in the playbook"),
        (Curation("merge", "kpt_001", sources=("kpt_002", "kpt_005")), "kpt_005: was merged into kpt_001"),
    ],
)
def test_a_curation_without_effect_is_refused(wish: Curation, says: str) -> None:
    """The error gives the entry's status and the command that would help."""
    with pytest.raises(NothingToDoError) as caught:
        decide_curation(wish, KNOWN)
    assert str(caught.value).startswith(says)
    assert EXIT_NO == caught.value.exit_code


@pytest.mark.parametrize("verb", CURATIONS)
def test_an_unknown_name_is_named(verb: str) -> None:
    """For every action an entry must have had the name, as must the entries of a merge."""
    with pytest.raises(UnknownEntryError, match=r"^kpt_999: "):
        decide_curation(Curation(verb, "kpt_999", text="z", sources=("kpt_001",)), KNOWN)
    with pytest.raises(UnknownEntryError, match=r"^kpt_999: "):
        decide_curation(Curation(verb, "kpt_001", text="z", sources=("kpt_002", "kpt_999")), KNOWN)


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (Curation("reword", "kpt_001", text=" \n"), "text: the text is empty"),
        (Curation("reword", "kpt_001", text="x" * (MAX_TEXT_CHARS + 1)), "text: the text has 100,001 characters"),
        (Curation("reword", "kpt_001", text="half \ud800"), "text: contains half of a surrogate pair"),
        (Curation("merge", "kpt_001", sources=("kpt_002", "kpt_001")), "kpt_001: cannot be merged into itself"),
        (Curation("retire", "kpt_001", " "), "reason: the text is empty"),
        (
            Curation("pin", "kpt_001", "x" * (MAX_REASON_CHARS + 1)),
            "reason: the reason has 1,001 characters, at most 1,000",
        ),
        (Curation("pin", "kpt_001", "half \ud800"), "reason: contains half of a surrogate pair"),
    ],
)
def test_invalid_curation_is_bad_input(wish: Curation, says: str) -> None:
    """A text or reason that no event can hold is refused, and so is a merge of an entry into itself."""
    with pytest.raises(BadInputError) as caught:
        decide_curation(wish, KNOWN)
    assert str(caught.value).startswith(says)
    assert str(caught.value).endswith("; nothing was recorded")
    assert EXIT_BAD_INPUT == caught.value.exit_code


@pytest.mark.parametrize("verb", CURATIONS)
def test_a_reason_of_the_greatest_length_is_kept(verb: str) -> None:
    """A reason may have a thousand characters of any kind."""
    name = {"restore": "kpt_004", "unpin": "kpt_002"}.get(verb, "kpt_001")
    wish = Curation(verb, name, "✨" * MAX_REASON_CHARS, text="z", sources=("kpt_002",) if verb == "merge" else ())
    (event,) = decide_curation(wish, KNOWN).events
    assert "✨" * MAX_REASON_CHARS == getattr(event, "reason", None)


@pytest.mark.parametrize("verb", CURATIONS)
def test_an_empty_playbook_refuses_every_curation(verb: str) -> None:
    """If there was never an entry, every action is refused in one line."""
    with pytest.raises(TallybookError) as caught:
        decide_curation(Curation(verb, "kpt_001", text="z", sources=("kpt_002",)), Playbook())
    assert 1 == len(str(caught.value).splitlines())
