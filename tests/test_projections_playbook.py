"""The playbook view: laws of curation, the bytes of the file, and checkpoints.

`tests/tape/stories/entries.txt` has what curation, manual edits and imports do to entries.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
import msgspec

from helpers.reference_model import book, point
from helpers.view_histories import CLOSE, HISTORIES, SAID, A, B, folded, followed_by, history, plain, playbook
from tallybook.ledger import events
from tallybook.ledger.events import Entry, PointRated
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import checkpoints

# Curation

PAIR = st.builds(PointRated, st.sampled_from(["kpt_001", "kpt_002"]), st.sampled_from(["helpful", "harmful"]))


@given(st.lists(PAIR))
def test_a_merged_pair_has_the_sum(ratings: list[PointRated]) -> None:
    """Ratings of both entries count for the target, before the merge and after it."""
    for cut in range(len(ratings) + 1):
        state = playbook([A, B, *ratings[:cut]], [events.PointMerged("kpt_001", ("kpt_002",), ""), *ratings[cut:]])
        counts = [sum(rated.rating == rating for rated in ratings) for rating in ("helpful", "harmful")]
        assert {"kpt_001": Entry("kpt_001", "a", *counts)} == state.entries


LEAVING = events.PointRemoved | events.PointRetired | events.PointMerged | events.PointUnpinned
STAYING = SAID.filter(lambda event: not isinstance(event, LEAVING))


@given(st.lists(st.lists(STAYING, min_size=1, max_size=6), max_size=6))
def test_a_pinned_entry_is_never_pruned(future: list[list[Any]]) -> None:
    """Whatever its ratings or counts, it stays until someone removes or unpins it."""
    batches = history([[A, events.PointPinned("kpt_001", "")], *future])
    assert [True] * len(batches) == ["kpt_001" in folded(batches, batch.last).entries for batch in batches]


OTHERS = SAID.filter(
    lambda event: (
        not isinstance(event, LEAVING | events.PointSeeded | events.PointEdited)
        and not (isinstance(event, PointRated) and (event.name, event.rating) == ("kpt_001", "harmful"))
    )
)


@given(st.lists(st.lists(OTHERS, min_size=1, max_size=6), max_size=6), st.integers(3, 6))
def test_a_restored_entry_is_pruned_only_by_a_further_harmful_rating(future: list[list[Any]], harmful: int) -> None:
    """Updates skip it until it is rated harmful once more; then the rule applies again."""
    rated = [PointRated("kpt_001", "harmful")]
    batches = history([[A, *rated * harmful, CLOSE], [events.PointRestored("kpt_001", "")], *future])
    state = folded(batches)
    assert {"kpt_001"} <= state.entries.keys()
    helpful = state.entries["kpt_001"].helpful
    fate = folded(followed_by(batches, [*rated * (helpful + 1), CLOSE]))
    assert ("kpt_001" in state.pinned) == ("kpt_001" in fate.entries)


# The file


def stamped(*points: Entry) -> Playbook:
    """Return a playbook of these entries, stamped."""
    return Playbook(entries={point.name: point for point in points}, stamp=(12, "ab" * 16))


def test_the_file_is_the_document_and_its_stamp() -> None:
    """playbook.json is readable JSON in the specification's order of keys, stamped, with a line end at its end."""
    made = stamped(Entry("kpt_001", "Größe", 1, 2))
    written = playbook_bytes(made).decode()
    assert book(point("kpt_001", "Größe", 1, 2)) | {"ledger": f"12:{'ab' * 16}"} == json.loads(written)
    assert ["version", "last_updated", "key_points", "ledger"] == list(json.loads(written))
    assert written.startswith('{\n  "version": "1.0",\n')
    assert written.endswith("}\n")
    assert "Größe" in written
    assert {"ledger"} == json.loads(written).keys() - playbook_dict(made).keys()


# Checkpoints


def shown(state: Playbook) -> Any:
    """Return every field of a state; of its batches the moment and time."""
    fields = {name: getattr(state, name) for name in attrs.fields_dict(Playbook)}
    latest = state.latest
    return plain(fields | {"latest": latest and getattr(latest, "at", latest)})


@given(stretches=HISTORIES, cut=st.integers(0, 10))
def test_a_fold_continues_from_a_checkpoint(stretches: list[list[Any]], cut: int) -> None:
    """The state is the same to its last field, at the checkpoint and at the end."""
    batches = history(stretches)
    early = fold(PLAYBOOK, batches[:cut])
    _, packed = msgspec.msgpack.decode(checkpoints.encode(0, early), type=tuple[int, msgspec.Raw])
    again = checkpoints.unpack(PLAYBOOK.start(), packed)
    # It is read again.
    again.latest_batch = early.latest_batch
    assert shown(early) == shown(again)
    assert shown(fold(PLAYBOOK, batches)) == shown(fold(PLAYBOOK, batches[cut:], again))
