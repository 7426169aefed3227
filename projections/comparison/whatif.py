"""What if: the same history under another policy, or without some of its events, beside the playbook that it gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.events import EventsVoided
from tallybook.projections.fold import State, View, fold
from tallybook.projections.playbook.render import entry
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook
from tallybook.projections.undo import VOIDABLE, Voided, fold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tallybook.ledger.events import KeyPoint
    from tallybook.ledger.records import Batch, EventRecord


@attrs.frozen
class Without:
    """Which events are left out, as if they had never been: what depends on one of them counts nothing.

    Only what can be undone is left out, undoings among it: what such a one took back counts then.

    Attributes:
        sessions: Every event of these sessions.
        raters: Every event of these raters.
        seqs: The whole batch of each of these sequence numbers.
    """

    sessions: frozenset[str] = frozenset()
    raters: frozenset[str] = frozenset()
    seqs: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        """Say whether anything is named at all."""
        return bool(self.sessions or self.raters or self.seqs)

    def named(self, batch: Batch, before: int) -> Iterator[tuple[EventRecord, list[str]]]:
        """Yield each event of a batch with what leaves it out, as ``--without`` has it; empty where it stays.

        Args:
            batch: The batch.
            before: Sequence number of the last line before it.
        """
        whole = [str(seq) for seq in sorted(self.seqs) if before < seq <= batch.last]
        for record in batch.records:
            said = list(whole)
            said += [f"session:{record.by.session}"] if record.by.session in self.sessions else []
            said += [f"rater:{record.by.rater}"] if record.by.rater in self.raters else []
            yield record, said if type(_plainly(record.event)) in VOIDABLE else []

    def touches(self, batch: Batch, before: int) -> bool:
        """Say whether a batch has to be looked at; of most, who said them is never decoded."""
        return any(map(batch.may_contain_text, self.sessions | self.raters)) or any(
            before < seq <= batch.last for seq in self.seqs
        )


def _plainly(event: Any) -> Any:
    return event.event if isinstance(event, Voided) else event


@attrs.define
class Alternative(State):
    """The playbook as it is, and as it would be.

    Attributes:
        real: As it is.
        other: As it would be.
        left_out: What was asked to be left out → how many events that left out, those that were undone aside.
        undoing: Whether an undoing is among them.
    """

    real: Playbook = attrs.field(factory=Playbook)
    other: Playbook = attrs.field(factory=Playbook)
    left_out: dict[str, int] = attrs.field(factory=dict)
    undoing: bool = False


def alternative_view(view: View[Any] = PLAYBOOK, without: Without | None = None) -> View[Alternative]:
    """Return the view that folds history twice in one reading: as it was, and under another view without some of it."""
    left = without or Without()

    def tell(state: Alternative, batch: Batch) -> None:
        fold(PLAYBOOK, [batch], state.real)
        if left and left.touches(batch, state.seq):
            batch = _noted(state, batch, left)
        fold(view, [batch], state.other)

    return View(lambda: Alternative(other=view.start()), dict.fromkeys(CHANGES, _heard), tell)


def _heard(_state: Alternative, _event: Any, _batch: Batch) -> None:
    """Let the batch be told when it is whole."""


def _noted(state: Alternative, batch: Batch, without: Without) -> Batch:
    """Return a batch without what is left out, and count that."""
    kept = []
    for record, said in without.named(batch, state.seq):
        if not said:
            kept.append(record)
        elif not isinstance(record.event, Voided):
            state.undoing = state.undoing or isinstance(record.event, EventsVoided)
            state.left_out |= {one: state.left_out.get(one, 0) + 1 for one in said}
    return batch if len(kept) == len(batch.records) else batch.with_records(kept)


def left_out(batches: Iterable[Batch], without: Without) -> Iterator[Batch]:
    """Yield history without some of its events; each batch stays, if only as a place in the order."""
    before = 0
    for batch in batches:
        if without.touches(batch, before):
            yield batch.with_records([record for record, said in without.named(batch, before) if not said])
        else:
            yield batch
        before = batch.last


def suppose(
    read: Callable[[], Iterable[Batch]],
    view: View[Any] = PLAYBOOK,
    without: Without | None = None,
    until: int | None = None,
) -> Alternative:
    """Return the playbook at a moment, as it is and as it would be.

    Args:
        read: Gives history from the beginning; it is read again where something was undone.
        view: A playbook view under another policy.
        without: What is left out; None for nothing.
        until: The moment; None for the end.
    """
    left = without or Without()
    state = fold_history(alternative_view(view, left), read, until)
    if state.undoing:
        # What an undoing had taken back counts again: history is told anew, without that undoing.
        state.other = fold_history(view, lambda: left_out(read(), left), state.seq)
    return state


@attrs.frozen
class Difference:
    """How one playbook differs from another.

    Attributes:
        back: Entries that stand in the other alone, in its order.
        gone: Entries that stand in the first alone, in its order.
        changed: Entries whose text or counts differ, as (first, other), in the first one's order.
    """

    back: tuple[KeyPoint, ...]
    gone: tuple[KeyPoint, ...]
    changed: tuple[tuple[KeyPoint, KeyPoint], ...]


def difference(real: Playbook, other: Playbook) -> Difference:
    """Return which entries come, go or change from one playbook to another; their order is not compared."""
    pairs = [(point, other.points[name]) for name, point in real.points.items() if name in other.points]
    return Difference(
        tuple(point for name, point in other.points.items() if name not in real.points),
        tuple(point for name, point in real.points.items() if name not in other.points),
        tuple((one, two) for one, two in pairs if one != two),
    )


def difference_json(state: Alternative) -> dict[str, Any]:
    """Return what would be otherwise, in a stable shape.

    Returns:
        ``{at, real, other, back, gone, changed}``: the moment; how many entries stand in either; each entry that would
        come back as it would stand, with the ``status`` that it has; each that would go as it stands, with the
        ``status`` that it would have, and ``there`` its counts then, None where it would never have been; and
        ``{name, real, other}`` of each that would have another text or other counts.
    """
    found = difference(state.real, state.other)
    return {
        "at": state.seq,
        "real": len(state.real.points),
        "other": len(state.other.points),
        "back": [entry(point) | {"status": state.real.status_of(point.name)} for point in found.back],
        "gone": [
            entry(point) | {"status": state.other.status_of(point.name), "there": _counts(state.other, point.name)}
            for point in found.gone
        ],
        "changed": [{"name": one.name, "real": entry(one), "other": entry(two)} for one, two in found.changed],
    }


def _counts(playbook: Playbook, name: str) -> dict[str, int] | None:
    point = playbook.gone.get(name)
    return None if point is None else {"helpful": point.helpful, "harmful": point.harmful}
