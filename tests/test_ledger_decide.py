"""Deciding: what a payload comes to on the facts as they stand, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from ledger.decide import (
    MAX_TEXT_CHARS,
    Decision,
    Edit,
    Extraction,
    Ignored,
    Known,
    decide_edit,
    decide_extraction,
    read_extraction,
)
from ledger.errors import BadInputError
from ledger.events import (
    KeyPoint,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointRated,
    PointRemoved,
)
from ledger.names import number_of
from ledger.recorded import Recorded, batch_of
from projections.fold import fold
from projections.playbook import PLAYBOOK, Playbook
from reference_model import COUNTS, EXTRACTIONS, TEXTS, extraction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ONE = KeyPoint("kpt_001", "one", 2, 1)
TWO = KeyPoint("kpt_002", "two")
THREE = KeyPoint("kpt_003", "three", 0, 1)


def by_name(*points: KeyPoint) -> dict[str, KeyPoint]:
    """Return entries under their names."""
    return {point.name: point for point in points}


def known(*points: KeyPoint, high_water: int | None = None, used: Iterable[str] = ()) -> Known:
    """Return what stands, where nothing else ever stood but what is named as used, and what the mark tells."""
    stood = {*by_name(*points), *used}
    mark = max((number_of(name) or 0 for name in stood), default=0)
    return Known(by_name(*points), mark if high_water is None else high_water, stood)


def decided(brought: dict[str, Any], *points: KeyPoint, high_water: int = 3) -> Decision:
    """Decide an extraction result on these entries."""
    return decide_extraction(read_extraction(brought), known(*points, high_water=high_water))


# Extraction results


def test_points_come_first_then_ratings_then_the_close() -> None:
    """An update adds its points, then brings its ratings, and closes with what it counted."""
    decision = decided(extraction(("kpt_001", "harmful"), ("kpt_004", "helpful"), new=["four", 5]), ONE)
    rated = (PointRated("kpt_001", "harmful"), PointRated("kpt_004", "helpful"))
    assert (PointAdded("kpt_004", "four"), *rated, PlaybookUpdated(1, 2, 1)) == decision.events
    assert [Ignored("new_key_points[1]", "expected a text, got int")] == list(decision.ignored)


def test_an_update_that_brings_nothing_is_an_update() -> None:
    """An empty extraction result closes too, since it is the close that prunes."""
    assert (PlaybookUpdated(0, 0, 0),) == decided({"evaluations": []}, ONE).events


def test_names_follow_the_high_water_mark() -> None:
    """New names are counted on from the highest number that ever stood, not from those that stand."""
    decision = decided(extraction(new=["a", "b"]), ONE, high_water=41)
    assert [PointAdded("kpt_042", "a"), PointAdded("kpt_043", "b")] == list(decision.events[:2])


def test_a_name_that_ever_stood_is_passed_over() -> None:
    """A used name is given to nobody, even one with more digits than the mark can tell."""
    facts = known(used=["kpt_999999999", "kpt_1000000000"])
    decision = decide_extraction(read_extraction(extraction(new=["a"])), facts)
    assert PointAdded("kpt_1000000001", "a") == decision.events[0]


def test_a_text_that_stands_is_not_added() -> None:
    """A text that stands, or that the same update brings twice, is named as ignored with the entry that has it."""
    decision = decided(extraction(new=["one", "new", "new"]), ONE, high_water=1)
    assert (PointAdded("kpt_002", "new"), PlaybookUpdated(1, 0, 0)) == decision.events
    assert [("new_key_points[0]", "kpt_001"), ("new_key_points[2]", "kpt_002")] == [
        (one.item, one.name) for one in decision.ignored
    ]


@pytest.mark.parametrize(("name", "rating"), [("kpt_404", "helpful"), ("kpt_001", "superb")])
def test_a_rating_that_counts_nothing_is_kept_and_named(name: str, rating: str) -> None:
    """A rating of nobody, or of no known kind, becomes an event as it was received, and the answer says so."""
    decision = decided(extraction((name, rating)), ONE)
    assert PointRated(name, rating) == decision.events[0]
    assert [("evaluations[0]", name)] == [(one.item, one.name) for one in decision.ignored]


def test_neutral_is_no_mistake() -> None:
    """A neutral rating counts nothing and is nothing to be told about."""
    assert () == decided(extraction(("kpt_001", "neutral")), ONE).ignored


def test_a_name_above_the_mark_is_kept_and_one_below_is_changed() -> None:
    """A name that a program gave stands where nobody can have it; else the entry gets another, and its ratings too."""
    brought = read_extraction(extraction(("kpt_002", "helpful"), ("kpt_009", "harmful"), new=["mine", "late"]))
    decision = decide_extraction(brought, known(ONE, TWO), {"mine": "kpt_002", "late": "kpt_009"})
    added = (PointAdded("kpt_003", "mine"), PointAdded("kpt_009", "late"))
    assert (*added, PointRated("kpt_003", "helpful"), PointRated("kpt_009", "harmful")) == decision.events[:-1]
    assert {"kpt_002": "kpt_003"} == decision.renamed


@given(brought=EXTRACTIONS, standing=st.lists(TEXTS, unique=True, max_size=4))
def test_no_decision_gives_a_name_or_a_text_twice(brought: dict[str, Any], standing: list[str]) -> None:
    """Whatever is sent, each point that it adds has a name above the mark and a text that stood nowhere."""
    points = [KeyPoint(f"kpt_{index:03d}", text) for index, text in enumerate(standing, 1)]
    decision = decide_extraction(read_extraction({"evaluations": []} | brought), known(*points))
    added = [event for event in decision.events if isinstance(event, PointAdded)]
    assert [len(points) + index for index in range(1, len(added) + 1)] == [number_of(one.name) for one in added]
    assert len({*standing, *(one.text for one in added)}) == len(standing) + len(added)


@pytest.mark.parametrize("payload", [None, 5, "evaluations", [], {}, {"points": []}, {"evaluations": "x"}])
def test_what_is_no_extraction_result_is_refused(payload: object) -> None:
    """Something else than an object with lists is refused as a whole, naming where it came from."""
    with pytest.raises(BadInputError, match=r"^hook(: \w+)?: "):
        read_extraction(payload, "hook")


def test_a_text_may_be_long_but_not_endless() -> None:
    """A text of 100,000 characters is taken, one more is not, and the reason gives both numbers."""
    assert 1 == len(read_extraction(extraction(new=["x" * MAX_TEXT_CHARS])).texts)
    assert Extraction(ignored=(Ignored("new_key_points[0]", REASON),)) == read_extraction(
        extraction(new=["x" * (MAX_TEXT_CHARS + 1)])
    )


REASON = "the text has 100,001 characters, at most 100,000 are taken"


# Changes by hand


def edited(base: Iterable[KeyPoint], found: Iterable[KeyPoint], *, top: str = "") -> Decision:
    """Decide a change of a playbook to which nothing came in since."""
    base = tuple(base)
    return decide_edit(Edit(base, tuple(found), top), known(*base), {})


def after(points: Mapping[str, KeyPoint], decision: Decision) -> Playbook:
    """Return the playbook with these entries after a decision."""
    records = [Recorded(seq, "2026-01-01T00:00:00.000000Z", event) for seq, event in enumerate(decision.events, 1)]
    return fold(PLAYBOOK, [batch_of(*records)], Playbook(points=dict(points)))


def test_only_what_differs_becomes_an_event() -> None:
    """A change of one entry says nothing of the others; the close comes last."""
    changed = KeyPoint("kpt_002", "two, better")
    expected = (PointEdited("kpt_002", 0, 0, "two, better"), PlaybookEdited(None, None, ""))
    assert expected == edited([ONE, TWO, THREE], [ONE, changed, THREE]).events


def test_a_removed_entry_is_removed() -> None:
    """An entry that is missing was taken out; the order of the others needs no word."""
    assert (PointRemoved("kpt_002"), PlaybookEdited(None, None, "")) == edited([ONE, TWO, THREE], [ONE, THREE]).events


def test_an_entry_at_the_end_needs_no_order() -> None:
    """New entries stand last by themselves; one in the middle brings the whole order."""
    four = KeyPoint("kpt_004", "four")
    assert [PointEdited, PlaybookEdited] == [type(event) for event in edited([ONE, TWO], [ONE, TWO, four]).events]
    middle = edited([ONE, TWO], [ONE, four, TWO]).events
    assert PlaybookOrdered(("kpt_001", "kpt_004", "kpt_002")) == middle[1]


def test_a_long_order_is_told_in_stretches() -> None:
    """An order of many names is split, so that each stretch fits a line, and adds up to the whole."""
    base = [KeyPoint(f"kpt_{number:03d}", str(number)) for number in range(1, 151)]
    decision = edited(base, base[::-1])
    stretches = [event for event in decision.events if isinstance(event, PlaybookOrdered)]
    assert [60, 60, 30] == [len(stretch.names) for stretch in stretches]
    assert base[::-1] == list(after(by_name(*base), decision).points.values())


POINTS = st.lists(st.integers(1, 6), unique=True, max_size=6).flatmap(
    lambda numbers: st.tuples(
        *(st.builds(KeyPoint, st.just(f"kpt_{number:03d}"), TEXTS, COUNTS, COUNTS) for number in numbers)
    )
)


@given(base=POINTS, found=POINTS)
def test_an_edit_of_what_stands_gives_what_was_found(base: tuple[KeyPoint, ...], found: tuple[KeyPoint, ...]) -> None:
    """Where nothing came in since, the playbook after an edit is what was found: names, order, counts and texts."""
    assert list(found) == list(after(by_name(*base), edited(base, found)).points.values())


@example(base=(), found=(TWO, THREE), now=(ONE, KeyPoint("kpt_002", "theirs")))
@given(base=POINTS, found=POINTS, now=POINTS)
def test_an_edit_loses_no_text_of_either_side(
    base: tuple[KeyPoint, ...], found: tuple[KeyPoint, ...], now: tuple[KeyPoint, ...]
) -> None:
    """Whatever came in since, every entry that a hand added stands, and so does every one that others added."""
    points = by_name(*now)
    decision = decide_edit(Edit(base, found), known(*now, used=by_name(*base)), {})
    before = {point.name for point in base}
    state = after(points, decision)
    mine = [point.text for point in found if point.name not in before]
    theirs = [point.text for point in now if point.name not in before]
    standing = [point.text for point in state.points.values()]
    assert [] == [text for text in [*mine, *theirs] if text not in standing]
    given_names = [decision.renamed.get(point.name, point.name) for point in found]
    assert len(given_names) == len(set(given_names))


@given(base=POINTS, found=POINTS, helpful=COUNTS, harmful=COUNTS)
def test_ratings_since_are_added_to_a_changed_count(
    base: tuple[KeyPoint, ...], found: tuple[KeyPoint, ...], helpful: int, harmful: int
) -> None:
    """A count that a hand set has the ratings that came in since on top; one that it left alone is the present one."""
    old = by_name(*base)
    now = {name: KeyPoint(name, one.text, one.helpful + helpful, one.harmful + harmful) for name, one in old.items()}
    decision = decide_edit(Edit(base, found), known(*now.values()), dict.fromkeys(old, (helpful, harmful)))
    state = after(now, decision)
    for point in found:
        since = (helpful, harmful) if point.name in old else (0, 0)
        expected = (point.helpful + since[0], point.harmful + since[1])
        assert expected == (state.points[point.name].helpful, state.points[point.name].harmful)


def test_a_count_is_never_negative() -> None:
    """A drift that takes more away than a hand left there ends at zero."""
    base, found, now = KeyPoint("kpt_001", "a", 5), KeyPoint("kpt_001", "a", 1), KeyPoint("kpt_001", "a", 2)
    decision = decide_edit(Edit((base,), (found,)), known(now), {"kpt_001": (-3, 0)})
    assert PointEdited("kpt_001", 0, 0, "a") == decision.events[0]
