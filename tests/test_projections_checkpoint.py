"""A checkpoint holds all of a state, through JSON, and a fold that continues from it has the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import msgspec

from helpers.view_histories import HISTORIES, history, plain
from tallybook.projections.fold import fold
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch


def shown(state: Playbook) -> Any:
    """Return every field of a state; of its batches the moment and time."""
    fields = {name: getattr(state, name) for name in attrs.fields_dict(Playbook)}
    latest = state.latest
    return plain(fields | {"latest": None if latest is None else (latest.last, latest.at)})


def through(state: Playbook, batch: Batch | None) -> Playbook:
    """Return a state after a round trip through a checkpoint, with its last batch read again."""
    again = unpack(msgspec.json.decode(msgspec.json.encode(pack(state))))
    again.latest_batch = batch
    return again


def test_every_field_of_a_state_is_stored_or_left_out_on_purpose() -> None:
    """A new field of the state is in every checkpoint."""
    left_out = {"policy", "latest_batch", "order", "mutable", "shared_stamp", "prefix"}
    assert set(attrs.fields_dict(Playbook)) == {*pack(Playbook()), *left_out}


@given(stretches=HISTORIES, cut=st.integers(0, 10))
def test_a_fold_continues_from_a_checkpoint(stretches: list[list[Any]], cut: int) -> None:
    """The state is the same to its last field, at the checkpoint and at the end."""
    batches = history(stretches)
    early = fold(PLAYBOOK, batches[:cut])
    again = through(early, early.latest_batch)
    assert shown(early) == shown(again)
    assert shown(fold(PLAYBOOK, batches)) == shown(fold(PLAYBOOK, batches[cut:], again))
