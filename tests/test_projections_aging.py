"""The playbook when ratings lose weight with age: worked by hand, and against a new sum of every rating."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.memory_log import MemoryLog
from tallybook.ledger.clock import moment
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import (
    PlaybookEdited,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    PointRestored,
)
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.comparisons import DAY_US, aged_view
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY, Policy

CLOSE = PlaybookUpdated(0, 0, 0)
EDIT = PlaybookEdited(None, None, "")
A, B = PointAdded("kpt_001", "a"), PointAdded("kpt_002", "b")
VIEW = aged_view(SPEC_POLICY, DAY_US)
Told = tuple[float, list[Any]]
BEGIN_US = 1_800_000_000_000_000
GOOD, BAD = PointRated("kpt_001", "helpful"), PointRated("kpt_001", "harmful")


def days(*told: Told) -> list[Batch]:
    """Return a history of batches, each recorded so many days after its start."""
    batches: list[Batch] = []
    seq = 0
    for day, events in told:
        at = moment(BEGIN_US + int(day * DAY_US)).at
        batches.append(
            make_batch(
                *(EventRecord(n, at, event, f"id-{n}", Author("test")) for n, event in enumerate(events, seq + 1))
            )
        )
        seq += len(events)
    return batches


def standing(*told: Told, policy: Policy = SPEC_POLICY) -> dict[str, tuple[int, int]]:
    """Return the present entries with the counts that they show, with a half-life of a day."""
    points = fold_history(aged_view(policy, DAY_US), lambda: days(*told)).entries
    return {name: (point.helpful, point.harmful) for name, point in points.items()}


BORN: Told = (0, [A, CLOSE])


@pytest.mark.parametrize(
    ("told", "stands"),
    [
        # Three ratings and no update: the next update comes too late.
        ([(0, [BAD, BAD, BAD, EDIT]), (2, [CLOSE])], True),
        # A pardon holds until there is a further harmful rating.
        ([(0, [BAD] * 3 + [CLOSE]), (0, [PointRestored("kpt_001", "")]), (0, [BAD, CLOSE])], False),
    ],
)
def test_an_update_prunes_by_the_weight_of_ratings(told: list[Told], *, stands: bool) -> None:
    """Worked by hand: each day halves; `tests/tape/stories/entries.txt` has what commands can show of it."""
    assert stands == ("kpt_001" in standing(BORN, *told))


def test_a_clock_that_ran_back_makes_no_rating_younger_than_the_latest_update() -> None:
    """Ages count back from the latest update; a later rating with an earlier time is as old as its time."""
    told: list[Told] = [BORN, (1, [CLOSE]), (0, [BAD, BAD, BAD, CLOSE])]
    assert {"kpt_001": (0, 3)} == standing(*told)
    assert {} == standing(BORN, *told[2:])


@pytest.mark.parametrize(("happened", "stands"), [(0, True), (2, False), (9, False)])
def test_the_age_of_a_rating_begins_when_it_happened(happened: int, *, stands: bool) -> None:
    """A spooled or imported rating has its time of happening; one from the future has its time of recording."""
    when = moment(BEGIN_US + happened * DAY_US).at
    log = MemoryLog(lambda: moment(BEGIN_US + 2 * DAY_US))
    with log.transaction() as tx:
        tx.append([encode(A), *[encode(BAD, when)] * 3, encode(CLOSE)], {"rater": "test"})
    assert stands == ("kpt_001" in fold_history(VIEW, lambda: decode(log.read())).entries)


UPDATES = st.lists(
    st.tuples(st.integers(0, 3), st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=5)), max_size=10
)


@given(UPDATES, st.sampled_from(list(POLICIES.values())))
def test_every_weight_can_be_summed_anew(updates: list[tuple[int, list[tuple[str, bool]]]], policy: Policy) -> None:
    """After each update an entry is present or pruned by the sum of its weights, exact in whole half-lives."""
    names = {"a": "kpt_001", "b": "kpt_002"}
    told: list[Told] = [(0, [A, B, CLOSE])]
    rated: list[tuple[str, bool, int]] = []
    out: set[str] = set()
    day = 0
    for gap, update in updates:
        day += gap
        told.append((day, [*(PointRated(names[n], "helpful" if g else "harmful") for n, g in update), CLOSE]))
        rated += [(name, good, day) for name, good in update if name not in out or not policy.is_permanent]
        for name in names:
            sums = [
                sum(0.5 ** (day - then) for n, g, then in rated if (n, g) == (name, good)) for good in (True, False)
            ]
            goes = policy.prunes_weights(*sums) or (policy.is_permanent and name in out)
            out = out | {name} if goes else out - {name}
        assert {names[name] for name in names if name not in out} == set(standing(*told, policy=policy))
