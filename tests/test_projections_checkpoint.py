"""What a checkpoint holds of a state: all of it, through JSON, and a fold that goes on from it ends where any does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import msgspec

from helpers.view_histories import HISTORIES, history, plain
from tallybook.ledger.events import Entry
from tallybook.projections.fold import fold
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.playbook.view import PLAYBOOK, Past, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch


def shown(state: Playbook) -> Any:
    """Return every field of a state; of the batches in it their moment and time."""
    fields = {name: getattr(state, name) for name in attrs.fields_dict(Playbook)}
    latest = state.latest
    return plain(fields | {"latest": None if latest is None else (latest.last, latest.at)})


def through(state: Playbook, batch: Batch | None) -> Playbook:
    """Return a state that went through a checkpoint, the batch folded last being read again."""
    again = unpack(msgspec.json.decode(msgspec.json.encode(pack(state))))
    again.latest_batch = batch
    return again


def test_every_field_of_a_state_is_told_or_left_out_on_purpose() -> None:
    """A field that is added to the state is forgotten by no checkpoint."""
    assert set(attrs.fields_dict(Playbook)) == {*pack(Playbook()), "policy", "latest_batch", "order", "mutable"}


@given(stretches=HISTORIES, cut=st.integers(0, 10))
def test_a_fold_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(stretches: list[list[Any]], cut: int) -> None:
    """The state is the same to its last field, at the checkpoint and at the end."""
    batches = history(stretches)
    early = fold(PLAYBOOK, batches[:cut])
    again = through(early, early.latest_batch)
    assert shown(early) == shown(again)
    assert shown(fold(PLAYBOOK, batches)) == shown(fold(PLAYBOOK, batches[cut:], again))


def test_a_state_that_was_taken_in_tells_when_it_last_changed() -> None:
    """The batch that says so is not read again: its time stands in the checkpoint."""
    state = Playbook(latest=Past(3, "2026-11-22T10:00:00.000000Z"))
    assert "2026-11-22T10:00:00.000000Z" == through(state, None).last_updated


def test_entries_that_are_gone_stay_known_by_their_names() -> None:
    """Whoever restores one, or asks what it said, finds it behind a checkpoint too."""
    state = Playbook(gone={"a": Entry("a", "its text", 2, 1)}, used={"a", "b"})
    assert shown(state) == shown(through(state, None))
