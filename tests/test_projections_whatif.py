"""What if: without assumptions it is the playbook, and left-out events were never there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helpers.view_histories import HISTORIES, folded, history, plain, shown, without
from tallybook.ledger.records import Batch
from tallybook.projections.history.comparisons import Alternative, Exclusion, difference_json, fold_alternative
from tallybook.projections.playbook.entry import POLICIES, SPEC_POLICY, Policy
from tallybook.projections.playbook.render import entry_json, playbook_dict
from tallybook.projections.playbook.view import playbook_view

FIELDS = ("name", "text", "helpful", "harmful")
SESSIONS = st.frozensets(st.integers(0, 9).map("s{}".format), max_size=4)
SEQS = st.frozensets(st.integers(1, 50), max_size=4)


def named(sessions: Iterable[str]) -> frozenset[str]:
    """Return sessions as values of `--without`."""
    return frozenset(f"session:{session}" for session in sessions)


def left_out(batches: Sequence[Batch], sessions: frozenset[str], seqs: frozenset[int]) -> list[str]:
    """Return the ids of the events that these leave out, found event by event."""
    whole = [batch for batch in batches if seqs & {record.seq for record in batch.records}]
    return [
        record.id for batch in batches for record in batch.records if batch in whole or record.by.session in sessions
    ]


def fold(batches: Sequence[Batch], without: Exclusion | None = None, policy: Policy = SPEC_POLICY) -> Alternative:
    """Return the real playbook of a history, and the one under a policy and without some events."""
    return fold_alternative(lambda: batches, playbook_view(policy), without or Exclusion())


# Laws


@given(HISTORIES)
def test_without_assumptions_it_is_the_playbook(stretches: list[list[Any]]) -> None:
    """Under the default policy and with nothing left out, every moment equals that of `show`."""
    batches = history(stretches)
    for seq in range(sum(map(len, stretches)) + 2):
        state, book = fold([batch for batch in batches if batch.last <= seq]), folded(batches, seq)
        assert plain(book.entries) == plain(state.real.entries) == plain(state.other.entries)
        assert playbook_dict(book) == playbook_dict(state.other)
        nothing: dict[str, list[Any]] = {"back": [], "gone": [], "changed": []}
        assert {"at": book.seq, "real": len(book.entries), "other": len(book.entries)} | nothing == difference_json(
            state
        )


@given(HISTORIES, SESSIONS, SEQS)
def test_a_left_out_event_was_never_there(
    stretches: list[list[Any]], sessions: frozenset[str], seqs: frozenset[int]
) -> None:
    """The other playbook is that of the history without those events, undos included; the real one stays."""
    batches = history(stretches)
    state = fold(batches, Exclusion(named(sessions), seqs))
    assert shown(folded(without(batches, left_out(batches, sessions, seqs)))) == shown(state.other)
    assert shown(folded(batches)) == shown(state.real)


@given(HISTORIES, st.sampled_from([*POLICIES.values(), Policy("mine", 1, 2)]), SESSIONS)
def test_the_difference_leads_from_one_playbook_to_the_other(
    stretches: list[list[Any]], policy: Policy, sessions: frozenset[str]
) -> None:
    """Removing, adding and changing the listed entries gives the other playbook."""
    batches = history(stretches)
    state = fold(batches, Exclusion(named(sessions)), policy)
    difference = difference_json(state)
    gone = {row["name"] for row in difference["gone"]}
    applied = {name: entry_json(point) for name, point in state.real.entries.items() if name not in gone}
    applied |= {row["name"]: row["other"] for row in difference["changed"]}
    applied |= {row["name"]: {field: row[field] for field in FIELDS} for row in difference["back"]}
    assert {name: entry_json(point) for name, point in state.other.entries.items()} == applied
    assert len(applied) == len(state.real.entries) - len(gone) + len(difference["back"])
