"""Decisions about a payload, from the current facts, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from helpers.ledger_decisions import by_name, known
from helpers.reference_model import COUNTS, EXTRACTIONS, TEXTS, extraction
from tallybook.ledger.decisions.edit import Edit, decide_edit
from tallybook.ledger.decisions.update import (
    MAX_TEXT_CHARS,
    Decision,
    Extraction,
    IgnoredItem,
    decide_extraction,
    read_entries,
    read_extraction,
)
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import (
    MAX_INT,
    Entry,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
)
from tallybook.ledger.names import parse_number
from tallybook.ledger.records import EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ONE = Entry("kpt_001", "one", 2, 1)
TWO = Entry("kpt_002", "two")
THREE = Entry("kpt_003", "three", 0, 1)


def decide(brought: dict[str, Any], *points: Entry, high_water: int = 3) -> Decision:
    """Decide an extraction result on these entries."""
    return decide_extraction(read_extraction(brought), known(*points, high_water=high_water))


# Extraction results


def test_events_are_entries_then_ratings_then_the_close() -> None:
    """An update adds its entries, then its ratings, and its last event has the counts."""
    decision = decide(extraction(("kpt_001", "harmful"), ("kpt_004", "helpful"), new=["four", 5]), ONE)
    rated = (PointRated("kpt_001", "harmful"), PointRated("kpt_004", "helpful"))
    assert (PointAdded("kpt_004", "four"), *rated, PlaybookUpdated(1, 2, 1)) == decision.events
    assert [IgnoredItem("new_key_points[1]", "expected a text, got int")] == list(decision.ignored)
    assert {} == decision.new_names


def test_names_follow_the_high_water_mark() -> None:
    """New names continue from the highest number that was ever used, not from the highest current one."""
    decision = decide(extraction(new=["a", "b"]), ONE, high_water=41)
    assert [PointAdded("kpt_042", "a"), PointAdded("kpt_043", "b")] == list(decision.events[:2])


def test_a_used_name_is_never_given_again() -> None:
    """A used name is skipped, even one with more digits than the high-water mark can hold."""
    facts = known(used=["kpt_999999999", "kpt_1000000000"])
    decision = decide_extraction(read_extraction(extraction(new=["a"])), facts)
    assert PointAdded("kpt_1000000001", "a") == decision.events[0]


def test_a_text_that_exists_is_not_added() -> None:
    """A text that exists, or that the update has twice, is reported as ignored with the entry that has it."""
    decision = decide(extraction(new=["one", "new", "new"]), ONE, high_water=1)
    assert (PointAdded("kpt_002", "new"), PlaybookUpdated(1, 0, 0)) == decision.events
    again = IgnoredItem("new_key_points[2]", "already in the playbook as kpt_002", "kpt_002")
    assert (
        IgnoredItem("new_key_points[0]", "already in the playbook as kpt_001", "kpt_001"),
        again,
    ) == decision.ignored


@pytest.mark.parametrize(
    ("name", "rating", "reason"),
    [
        ("kpt_404", "helpful", "no such entry in the playbook"),
        ("kpt_404", "superb", "no such entry in the playbook"),
        ("kpt_001", "superb", "the rating 'superb' counts nothing"),
    ],
)
def test_a_rating_without_effect_is_recorded_and_reported(name: str, rating: str, reason: str) -> None:
    """A rating of an unknown entry or kind becomes an event as received, and the answer reports it."""
    decision = decide(extraction((name, rating)), ONE)
    assert (PointRated(name, rating), PlaybookUpdated(0, 0, 1)) == decision.events
    assert (IgnoredItem("evaluations[0]", reason, name),) == decision.ignored


def test_a_given_name_is_used_if_it_is_free() -> None:
    """A name that a program gave is used if it is free; else the entry and its ratings get another name."""
    brought = read_extraction(extraction(("kpt_002", "helpful"), ("kpt_009", "harmful"), new=["mine", "late"]))
    decision = decide_extraction(brought, known(ONE, TWO), {"mine": "kpt_002", "late": "kpt_009"})
    added = (PointAdded("kpt_003", "mine"), PointAdded("kpt_009", "late"))
    assert (*added, PointRated("kpt_003", "helpful"), PointRated("kpt_009", "harmful")) == decision.events[:-1]
    assert {"kpt_002": "kpt_003"} == decision.new_names


@given(brought=EXTRACTIONS, standing=st.lists(TEXTS, unique=True, max_size=4))
def test_no_decision_uses_a_name_or_a_text_twice(brought: dict[str, Any], standing: list[str]) -> None:
    """Every entry that any input adds has an unused name above the high-water mark and a new text."""
    points = [Entry(f"kpt_{index:03d}", text) for index, text in enumerate(standing, 1)]
    decision = decide_extraction(read_extraction({"evaluations": []} | brought), known(*points))
    added = [event for event in decision.events if isinstance(event, PointAdded)]
    assert [len(points) + index for index in range(1, len(added) + 1)] == [parse_number(one.name) for one in added]
    assert len({*standing, *(one.text for one in added)}) == len(standing) + len(added)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (None, "hook: expected an object, got NoneType; nothing was recorded"),
        ("evaluations", "hook: expected an object, got str; nothing was recorded"),
        ([], "hook: expected an object, got list; nothing was recorded"),
        ({}, "hook: has neither new_key_points nor evaluations; nothing was recorded"),
        ({"points": []}, "hook: has neither new_key_points nor evaluations; nothing was recorded"),
        ({"evaluations": "x"}, "hook: evaluations: expected a list, got str"),
        ({"new_key_points": None, "evaluations": []}, "hook: new_key_points: expected a list, got NoneType"),
    ],
)
def test_other_input_than_an_extraction_result_is_refused(payload: object, message: str) -> None:
    """Input that is not an object with lists is refused as a whole; the error names its source."""
    with pytest.raises(BadInputError) as refused:
        read_extraction(payload, "hook")
    assert message == str(refused.value)


HALF = "contains half of a surrogate pair, which is not Unicode text"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (5, "expected a text, got int"),
        (None, "expected a text, got NoneType"),
        ("", "the text is empty"),
        (" \n ", "the text is empty"),
        ("a\udc80", HALF),
    ],
)
def test_an_unusable_text_is_reported_with_the_reason(text: object, reason: str) -> None:
    """An unusable text is reported with its place and the reason; the other texts are read."""
    read = read_extraction({"new_key_points": ["a", text, "b"]})
    texts = (("new_key_points[0]", "a", "", ""), ("new_key_points[2]", "b", "", ""))
    assert Extraction(texts, (), (IgnoredItem("new_key_points[1]", reason),)) == read


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ("kpt_001", "expected an object with name and rating, got str"),
        ({"rating": "helpful"}, "expected a text as name"),
        ({"name": "", "rating": "helpful"}, "expected a text as name"),
        ({"name": "kpt_001"}, "expected a text as rating"),
        ({"name": "kpt_001", "rating": 1}, "expected a text as rating"),
        ({"name": "n" * 1201, "rating": "helpful"}, "the name has 1,201 characters, at most 200 are taken"),
        ({"name": "kpt_001", "rating": "r" * 1101}, "the rating has 1,101 characters, at most 100 are taken"),
        ({"name": "kpt\ud800", "rating": "helpful"}, f"the name {HALF}"),
        ({"name": "kpt_001", "rating": "\ud800"}, f"the rating {HALF}"),
    ],
)
def test_an_unusable_evaluation_is_reported_with_the_reason(evaluation: object, reason: str) -> None:
    """An unusable evaluation is reported with its place and the reason; the others are read."""
    good = {"name": "kpt_001", "rating": "helpful"}
    read = read_extraction({"evaluations": [good, evaluation, good]})
    ratings = tuple((f"evaluations[{place}]", "kpt_001", "helpful") for place in (0, 2))
    assert Extraction((), ratings, (IgnoredItem("evaluations[1]", reason),)) == read


def test_a_text_has_at_most_100_000_characters() -> None:
    """A text of 100,000 characters is accepted, one more is refused, and the reason gives both numbers."""
    assert 1 == len(read_extraction(extraction(new=["x" * MAX_TEXT_CHARS])).texts)
    assert Extraction(ignored=(IgnoredItem("new_key_points[0]", REASON),)) == read_extraction(
        extraction(new=["x" * (MAX_TEXT_CHARS + 1)])
    )


REASON = "the text has 100,001 characters, at most 100,000 are taken"


# Changes by hand


def edited(base: Iterable[Entry], found: Iterable[Entry], *, top: str = "") -> Decision:
    """Decide an edit of a playbook without other changes since."""
    base = tuple(base)
    return decide_edit(Edit(base, tuple(found), top), known(*base), {})


def after(points: Mapping[str, Entry], decision: Decision) -> Playbook:
    """Return the playbook with these entries after a decision."""
    records = [EventRecord(seq, "2026-01-01T00:00:00.000000Z", event) for seq, event in enumerate(decision.events, 1)]
    return fold(PLAYBOOK, [make_batch(*records)], Playbook(entries=dict(points)))


def test_only_changes_become_events() -> None:
    """An edit of one entry records nothing about the others, and its closing event comes last."""
    changed = Entry("kpt_002", "two, better")
    expected = (PointEdited("kpt_002", 0, 0, "two, better"), PlaybookEdited(None, None, ""))
    assert expected == edited([ONE, TWO, THREE], [ONE, changed, THREE]).events


def test_a_removed_entry_is_removed() -> None:
    """An entry that is missing after an edit was removed; the order of the others needs no event."""
    assert (PointRemoved("kpt_002"), PlaybookEdited(None, None, "")) == edited([ONE, TWO, THREE], [ONE, THREE]).events


def test_an_entry_at_the_end_needs_no_order() -> None:
    """New entries are appended; an entry inserted in the middle records the whole order."""
    four = Entry("kpt_004", "four")
    assert [PointEdited, PlaybookEdited] == [type(event) for event in edited([ONE, TWO], [ONE, TWO, four]).events]
    middle = edited([ONE, TWO], [ONE, four, TWO]).events
    assert PlaybookOrdered(("kpt_001", "kpt_004", "kpt_002")) == middle[1]


def test_a_long_order_is_split_into_events() -> None:
    """An order of many names is split so that each event fits a line, and the parts make up the whole."""
    base = [Entry(f"kpt_{number:03d}", str(number)) for number in range(1, 151)]
    decision = edited(base, base[::-1])
    stretches = [event for event in decision.events if isinstance(event, PlaybookOrdered)]
    assert [60, 60, 30] == [len(stretch.names) for stretch in stretches]
    assert base[::-1] == list(after(by_name(*base), decision).entries.values())


POINTS = st.lists(st.integers(1, 6), unique=True, max_size=6).flatmap(
    lambda numbers: st.tuples(
        *(st.builds(Entry, st.just(f"kpt_{number:03d}"), TEXTS, COUNTS, COUNTS) for number in numbers)
    )
)


@given(base=POINTS, found=POINTS)
def test_an_edit_of_the_current_playbook_gives_the_edited_file(
    base: tuple[Entry, ...], found: tuple[Entry, ...]
) -> None:
    """Without changes in between, the playbook after an edit equals the edited file in every field."""
    assert list(found) == list(after(by_name(*base), edited(base, found)).entries.values())


@example(base=(), found=(TWO, THREE), now=(ONE, Entry("kpt_002", "theirs")))
@given(base=POINTS, found=POINTS, now=POINTS)
def test_an_edit_loses_no_text_of_either_side(
    base: tuple[Entry, ...], found: tuple[Entry, ...], now: tuple[Entry, ...]
) -> None:
    """Entries that the manual edit added and entries that others added since are all in the playbook."""
    points = by_name(*now)
    decision = decide_edit(Edit(base, found), known(*now, used=by_name(*base)), {})
    before = {point.name for point in base}
    state = after(points, decision)
    mine = [point.text for point in found if point.name not in before]
    theirs = [point.text for point in now if point.name not in before]
    standing = [point.text for point in state.entries.values()]
    assert [] == [text for text in [*mine, *theirs] if text not in standing]
    given_names = [decision.new_names.get(point.name, point.name) for point in found]
    assert len(given_names) == len(set(given_names))


@given(base=POINTS, found=POINTS, helpful=COUNTS, harmful=COUNTS)
def test_ratings_since_are_added_to_a_changed_count(
    base: tuple[Entry, ...], found: tuple[Entry, ...], helpful: int, harmful: int
) -> None:
    """An edited count gets the ratings recorded since on top; an untouched count is the current one."""
    old = by_name(*base)
    now = {name: Entry(name, one.text, one.helpful + helpful, one.harmful + harmful) for name, one in old.items()}
    decision = decide_edit(Edit(base, found), known(*now.values()), dict.fromkeys(old, (helpful, harmful)))
    state = after(now, decision)
    for point in found:
        since = (helpful, harmful) if point.name in old else (0, 0)
        expected = (point.helpful + since[0], point.harmful + since[1])
        assert expected == (state.entries[point.name].helpful, state.entries[point.name].harmful)


def test_a_count_is_never_negative() -> None:
    """A count from which an edit and later ratings take more than it has is zero."""
    base, found, now = Entry("kpt_001", "a", 5), Entry("kpt_001", "a", 1), Entry("kpt_001", "a", 2)
    decision = decide_edit(Edit((base,), (found,)), known(now), {"kpt_001": (-3, 0)})
    assert PointEdited("kpt_001", 0, 0, "a") == decision.events[0]


def test_each_field_is_from_the_side_that_changed_it() -> None:
    """An edit of one count keeps the text and the other count that others changed meanwhile."""
    base, now, found = (Entry("kpt_001", *rest) for rest in (("old", 2, 1), ("new", 9, 1), ("old", 2, 5)))
    decision = decide_edit(Edit((base,), (found,), seq=7, source="ab12", top="{}"), known(now), {})
    assert (PointEdited("kpt_001", 9, 5, "new"), PlaybookEdited(7, "ab12", "{}")) == decision.events
    mine, now = Entry("kpt_001", "mine", 2, 1), Entry("kpt_001", "old", 9, 4)
    decision = decide_edit(Edit((base,), (mine,)), known(now), {})
    assert PointEdited("kpt_001", 9, 4, "mine") == decision.events[0]


def test_a_change_that_others_made_too_needs_no_event() -> None:
    """Where the playbook already has the edited values, the edit records its closing event alone."""
    base, now = Entry("kpt_001", "old"), Entry("kpt_001", "new", 1)
    assert (PlaybookEdited(None, None, ""),) == decide_edit(Edit((base,), (now,)), known(now), {}).events


def test_an_order_that_an_edit_left_alone_is_the_current_one() -> None:
    """An edit of a count keeps the order that others gave the entries meanwhile."""
    found = Entry("kpt_001", "one", 3, 1)
    decision = decide_edit(Edit((ONE, TWO), (found, TWO)), known(TWO, ONE), {})
    assert (PointEdited("kpt_001", 3, 1, "one"), PlaybookEdited(None, None, "")) == decision.events


def test_an_order_names_every_current_entry() -> None:
    """The edited order comes first, then entries added since; a renamed entry has its new name."""
    theirs = Entry("kpt_002", "theirs")
    decision = decide_edit(Edit((ONE,), (TWO, ONE)), known(ONE, theirs, THREE), {})
    assert {"kpt_002": "kpt_004"} == decision.new_names
    ordered = PlaybookOrdered(("kpt_004", "kpt_001", "kpt_002", "kpt_003"))
    assert (PointEdited("kpt_004", 0, 0, "two"), ordered, PlaybookEdited(None, None, "")) == decision.events


# Entries that a program hands over


def test_entries_are_read_as_values() -> None:
    """Canonical entries are read in order, with counts from 0 to 2^53; further keys are left alone."""
    dicts = [
        {"name": "kpt_001", "text": "one", "helpful": 2, "harmful": 1},
        {"name": "b", "text": "", "helpful": 0, "harmful": MAX_INT, "note": "x"},
        {"name": "c", "text": "c", "helpful": MAX_INT, "harmful": 0},
    ]
    assert (ONE, Entry("b", "", 0, 2**53), Entry("c", "c", 2**53, 0)) == read_entries(dicts, "found")
    assert () == read_entries([], "found")


@pytest.mark.parametrize("value", [None, "kpt_001", {"name": "kpt_001"}])
def test_other_input_than_a_list_of_entries_is_refused(value: object) -> None:
    """Input that is not a list is refused, and the error names its type."""
    with pytest.raises(BadInputError) as refused:
        read_entries(value, "found")
    assert f"found: expected a list of entries, got {type(value).__name__}" == str(refused.value)


@pytest.mark.parametrize(
    "odd",
    [
        {"name": ""},
        {"name": None},
        {"text": 5},
        {"helpful": -1},
        {"harmful": -1},
        {"helpful": 1.0},
        {"harmful": True},
        {"helpful": None},
        {"harmful": MAX_INT + 1},
    ],
    ids=str,
)
def test_an_entry_that_is_not_canonical_is_refused(odd: dict[str, object]) -> None:
    """REQ-SCORE-001: an entry has a name, a text and two counts; the error names the entry that lacks one."""
    good = {"name": "kpt_001", "text": "one", "helpful": 0, "harmful": 0}
    for entry in (good | odd, {key: value for key, value in good.items() if key not in odd}, None):
        with pytest.raises(BadInputError) as refused:
            read_entries([good, entry], "found")
        assert "found[1]: expected an entry with name, text, helpful and harmful" == str(refused.value)
