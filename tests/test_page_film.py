"""The film of the page: at every moment it shows what the folds show."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.film_reader import play, unpack
from helpers.view_histories import FUTURES, HISTORIES, history
from tallybook.ledger.events import EventsVoided, PlaybookUpdated, PointAdded, PointRated
from tallybook.projections.entry_history.status import status_view
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.aging import DAY_US, AgedPolicy, aged_view
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY
from tallybook.projections.surfaces.page.columns import MAX_WIDTH, Column, pack
from tallybook.projections.surfaces.page.film import fold_film, to_ms
from tallybook.projections.surfaces.page.snapshots import NEAR, History, find_firsts
from tallybook.projections.surfaces.page.streams import film_stream, policy_stream
from tallybook.projections.surfaces.page.track import STATUSES

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch
    from tallybook.projections.playbook.prune import Policy
    from tallybook.projections.surfaces.page.film import Film

OTHERS = {**POLICIES, "floor-1": attrs.evolve(SPEC_POLICY, floor=1)}


def shown(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Return the playbook that the rows of a film show, in its order."""
    kept = sorted((row["place"], name) for name, row in rows.items() if STATUSES[row["status"]] == "kept")
    return [(name, rows[name]["text"], rows[name]["helpful"], rows[name]["harmful"]) for _, name in kept]


def history_of(batches: list[Batch]) -> History:
    """Return the history of batches, with what their undos concern."""
    records = [record for batch in batches for record in batch.records]
    starts = {record.by.session: record.seq for record in reversed(records) if record.by.session is not None}
    firsts = find_firsts(records, {record.id: record.seq for record in records}, starts)
    return History(lambda position: [batch for batch in batches if batch.last > position.seq], firsts)


def film_of(batches: list[Batch], policy: Policy, near: int = NEAR) -> Film:
    """Return the film of a history under its own policy and another."""
    return fold_film(history_of(batches), {"film": SPEC_POLICY, "policy-other": policy}, near)


def check_every_moment(batches: list[Batch], policy: Policy = SPEC_POLICY, near: int = NEAR) -> None:
    """Compare the film with a fold up to each moment: entries, order, texts, counts, and where each other name is."""
    film = film_of(batches, policy, near)
    tables, columns = unpack(film_stream(film))
    _, other = unpack(policy_stream(film, "policy-other"))
    moments = list(zip(batches, play(tables, columns, other), strict=True))
    assert len(batches) == len(moments)
    for batch, (last, rows) in zip(batches, play(tables, columns, other), strict=True):
        state = fold_history(status_view(policy), lambda: batches, batch.last)
        book = state.book
        assert (batch.last, [attrs.astuple(point) for point in book.entries.values()]) == (last, shown(rows))
        for name in {*state.names, *rows}:
            row = rows.get(name, {"status": 0, "into": None, "flags": 0})
            status = STATUSES[row["status"]].replace("absent", "unknown")
            assert state.status(name) == status, name
            assert (name in book.pinned, name in book.pardons) == (bool(row["flags"] & 1), bool(row["flags"] & 2))
            assert (book.merged.get(name) if status == "merged" else None) == row["into"]
            if name in book.gone and name not in book.entries:
                assert attrs.astuple(book.gone[name]) == (name, row["text"], row["helpful"], row["harmful"])


@given(stretches=HISTORIES)
def test_every_moment_shows_what_a_fold_up_to_it_shows(stretches: list[list[Any]]) -> None:
    """Entries, their order, texts and counts, and the status of every other name agree at every moment."""
    check_every_moment(history(stretches))


@given(stretches=HISTORIES, near=st.integers(1, 9))
def test_an_undo_that_goes_on_from_a_snapshot_shows_the_same(stretches: list[list[Any]], near: int) -> None:
    """However many snapshots are taken, the film after an undo is that of the whole history."""
    check_every_moment(history(stretches), POLICIES["final"], near)


@pytest.mark.parametrize("near", [1, 4096])
@pytest.mark.parametrize("name", OTHERS)
def test_early_and_nested_undos_show_what_a_fold_shows(name: str, near: int) -> None:
    """Undos of the first ratings, of a first session, and of undos up to three deep agree at every moment."""
    chance = Random(11)  # noqa: S311 - the same history in every run
    stretches: list[list[Any]] = [[PointAdded(entry, f"text of {entry}") for entry in ("a", "b", "c", "d")]]
    for _ in range(30):
        rated = [PointRated(chance.choice("abcd"), chance.choice(["helpful", "harmful", "harmful"])) for _ in range(4)]
        stretches.append([*rated, PlaybookUpdated(0, 4, 0)])
    # Events 5 to 9 are the first session of ratings; numbers 155 to 161 are these undos, the last within a batch.
    undone = [("id-5",), (), ("id-155",), ("id-157",), ("id-156", "id-6"), ("id-158", "id-10"), ("id-2",)]
    stretches += [[EventsVoided(ids, None if ids else "s1", "")] for ids in undone]
    stretches.append(
        [PointRated("a", "harmful"), EventsVoided(("id-159", "id-11"), None, ""), PlaybookUpdated(0, 1, 0)]
    )
    check_every_moment(history(stretches), OTHERS[name], near)


@pytest.mark.parametrize("name", OTHERS)
@given(stretches=HISTORIES)
def test_every_moment_under_a_policy_shows_what_its_fold_shows(name: str, stretches: list[list[Any]]) -> None:
    """The same holds for the stream of each other policy."""
    check_every_moment(history(stretches), OTHERS[name])


@pytest.mark.parametrize("half_life_us", [1, 50_000_000, 90 * DAY_US])
@given(stretches=HISTORIES, near=st.integers(1, 5))
def test_every_moment_with_a_half_life_shows_what_its_fold_shows(
    half_life_us: int, stretches: list[list[Any]], near: int
) -> None:
    """Under a policy by which ratings lose weight with age, each moment has the entries of that fold."""
    batches = history(stretches)
    policy = AgedPolicy(floor=2, half_life_us=half_life_us)
    film = film_of(batches, policy, near)
    other = unpack(policy_stream(film, "policy-other"))[1]
    view = aged_view(policy, half_life_us)
    for last, rows in play(*unpack(film_stream(film)), other):
        book = fold_history(view, lambda: batches, last)
        assert [attrs.astuple(point) for point in book.entries.values()] == shown(rows)


@given(stretches=FUTURES)
def test_unknown_kinds_have_events_and_no_effect(stretches: list[list[Any]]) -> None:
    """Events of a later Tallybook are in the film, and change nothing."""
    check_every_moment(history(stretches))


def test_a_column_of_any_numbers_reads_as_it_was_written() -> None:
    """Numbers of every width, rising, falling and none at all, come back as they were."""
    columns = {
        "none": ([], False),
        "zeros": ([0, 0, 0], False),
        "bytes": ([0, 255, 7], False),
        "wide": ([0, 2**40, 1], False),
        "signed": ([5, -3, 2**40, 2**40 - 1, 0], True),
    }
    stream = pack({"a": "é"}, [Column(name, *row) for name, row in columns.items()])
    assert ({"a": "é"}, {name: numbers for name, (numbers, _) in columns.items()}) == unpack(stream)


def test_a_number_that_javascript_cannot_hold_is_refused() -> None:
    """No number of a column needs more than six bytes."""
    with pytest.raises(OverflowError, match=rf"big: 281474976710656 needs more than {MAX_WIDTH} bytes"):
        pack({}, [Column("big", [2**48])])


def test_a_time_is_in_milliseconds() -> None:
    """A time of the ledger becomes the milliseconds that JavaScript counts."""
    assert 1_763_756_223_123 == to_ms("2025-11-21T20:17:03.123456Z")
