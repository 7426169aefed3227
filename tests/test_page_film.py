"""The film of the page: at every moment it shows what the folds show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import pytest

from helpers.film_reader import play
from helpers.view_histories import FUTURES, HISTORIES, history
from tallybook.projections.entry_history.view import entries_view
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.aging import DAY_US, AgedPolicy, aged_view
from tallybook.projections.playbook.prune import POLICIES, SPEC_POLICY
from tallybook.projections.surfaces.page.film import MAX_MOMENTS, STATUSES, fold_film

if TYPE_CHECKING:
    from tallybook.ledger.line import Position
    from tallybook.ledger.records import Batch
    from tallybook.projections.playbook.prune import Policy

OTHERS = {**POLICIES, "floor-1": attrs.evolve(SPEC_POLICY, floor=1)}


def shown(rows: dict[str, dict[str, Any]]) -> list[tuple[str, str, int, int]]:
    """Return the playbook that the rows of a film show, in its order."""
    kept = sorted((row["place"], name) for name, row in rows.items() if STATUSES[row["status"]] == "kept")
    return [(name, rows[name]["text"], rows[name]["helpful"], rows[name]["harmful"]) for _, name in kept]


def film_of(batches: list[Batch], policy: Policy, most: int = MAX_MOMENTS) -> dict[str, Any]:
    """Return the film of a history under its own policy and another."""

    def read(position: Position) -> list[Batch]:
        return [batch for batch in batches if batch.last > position.seq]

    return fold_film(read, {"film": SPEC_POLICY, "other": policy}, most).part(with_texts=True)


def check_every_moment(batches: list[Batch], policy: Policy = SPEC_POLICY, most: int = MAX_MOMENTS) -> None:
    """Compare the film with a fold up to each moment: entries, order, texts, counts, and where each other name is."""
    film = film_of(batches, policy, most)
    moments = {last: {**rows} for last, rows in play(film, film["policies"]["other"])}
    assert [batch.last for batch in batches[-most - 1 :]] == [*moments]
    for last, rows in moments.items():
        state = fold_history(entries_view(policy=policy), lambda: batches, last)
        book = state.book
        assert (last, [attrs.astuple(point) for point in book.entries.values()]) == (last, shown(rows))
        for name in {*state.names, *rows}:
            row = rows.get(name, {"status": 0, "into": None, "flags": 0})
            status = STATUSES[row["status"]].replace("absent", "unknown")
            assert state.book.status_of(name) == status, name
            assert (name in book.pinned, name in book.pardons) == (bool(row["flags"] & 1), bool(row["flags"] & 2))
            assert (book.merged.get(name) if status == "merged" else None) == row["into"]
            if name in book.gone and name not in book.entries:
                assert attrs.astuple(book.gone[name]) == (name, row["text"] or "", row["helpful"], row["harmful"])


@given(stretches=FUTURES, most=st.integers(1, 9), stride=st.integers(1, 5), name=st.sampled_from([*OTHERS]))
def test_every_moment_shows_what_a_fold_up_to_it_shows(
    stretches: list[list[Any]], most: int, stride: int, name: str
) -> None:
    """However few moments a page has, and copies for undos are held, it agrees with a fold under each policy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallybook.projections.surfaces.page.film._STRIDE", stride)
        check_every_moment(history(stretches), OTHERS[name], most)


@pytest.mark.parametrize("half_life_us", [50_000_000, 90 * DAY_US])
@given(stretches=HISTORIES, most=st.integers(1, 5))
def test_every_moment_with_a_half_life_shows_what_its_fold_shows(
    half_life_us: int, stretches: list[list[Any]], most: int
) -> None:
    """Under a policy by which ratings lose weight with age, each moment has the entries of that fold."""
    batches = history(stretches)
    policy = AgedPolicy(floor=2, half_life_us=half_life_us)
    film = film_of(batches, policy, most)
    view = aged_view(policy, half_life_us)
    for last, rows in play(film, film["policies"]["other"]):
        book = fold_history(view, lambda: batches, last)
        assert [attrs.astuple(point) for point in book.entries.values()] == shown(rows)
