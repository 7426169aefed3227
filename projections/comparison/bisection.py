"""Bisection: the moment at which a condition on the playbook became true, found in one pass over history."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.events import PlaybookUpdated, PointRated
from tallybook.projections.event_rows import by_json, kind_of, summary
from tallybook.projections.fold import State, View, find_undone, fold, fold_history, mark_undone, undos_in
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.comparison.conditions import Condition, Values


@attrs.frozen
class TurningPoint:
    """A moment at which a condition became true.

    Attributes:
        moment: Number of the last event of the batch: the condition holds after it, and did not before it.
        record: The event of the batch that made it true.
        before: Values of the condition's terms before the batch, in their order.
        after: Values after it.
    """

    moment: int
    record: EventRecord
    before: Values
    after: Values


@attrs.define
class Search(State):
    """A search for the moments at which a condition became true.

    Attributes:
        condition: The condition.
        book: The playbook so far.
        values: The values of the condition's terms.
        holds: Whether the condition holds.
        previous_values: The values after the previous batch.
        held: Whether the condition held after the previous batch.
        applied: How many events of this batch have been applied to the playbook.
        turning_index: Index among them of the event that made the condition true last.
        turn: When it became true last, None where it did not.
        began: Whether the condition held at the start of the search.
    """

    condition: Condition = attrs.field(kw_only=True)
    book: Playbook = attrs.field(factory=Playbook)
    values: Values = ()
    holds: bool = False
    previous_values: Values = ()
    held: bool = False
    applied: int = 0
    turning_index: int = 0
    turn: TurningPoint | None = None
    began: bool = False

    def begin(self, book: Playbook) -> None:
        """Start the search after a moment."""
        self.book, self.values = book, self.condition.values(book)
        self.began = self.holds = self.held = self.condition.holds(self.values)
        self.previous_values = self.values

    def evaluate(self) -> None:
        """Evaluate the condition again if one of its values changed."""
        values = self.condition.values(self.book)
        if values != self.values:
            held_before, self.values, self.holds = self.holds, values, self.condition.holds(values)
            if self.holds and not held_before:
                # It may become true several times in a batch; it is the last event that made it true for good.
                self.turning_index = self.applied

    def continue_after_undo(self, book: Playbook, undo: EventRecord) -> None:
        """Continue after a batch with an undo, with the playbook as of that batch."""
        self.book = book
        self.evaluate()
        # The playbook was folded anew up to here, so of this batch only the undo can be named.
        self.end_batch(book.seq, lambda: undo)

    def end_batch(self, moment: int, deciding: Callable[[], EventRecord]) -> None:
        """Record the turn if the condition became true within a batch."""
        if self.holds and not self.held:
            # Only here are the heads of the batch's lines decoded.
            self.turn = TurningPoint(moment, deciding(), self.previous_values, self.values)
        self.previous_values, self.held = self.values, self.holds


def _apply(change: Callable[..., None], search: Search, event: Any, batch: Batch) -> None:
    change(search.book, event, batch)
    search.evaluate()
    search.applied += 1


def _apply_update(search: Search, event: PlaybookUpdated, batch: Batch) -> None:
    # An update that prunes nothing changes nothing.
    if search.book.due:
        _apply(CHANGES[PlaybookUpdated], search, event, batch)
    else:
        search.applied += 1


def _apply_rating(names: frozenset[str], search: Search, event: PointRated, batch: Batch) -> None:
    """Apply a rating, the most frequent event: the condition is evaluated only for its own entries."""
    CHANGES[PointRated](search.book, event, batch)
    # A rating of a merged entry counts for the one that it went into.
    if event.name in names or event.name in search.book.merged:
        search.evaluate()
    search.applied += 1


def _end_batch(search: Search, batch: Batch) -> None:
    settle(search.book, batch)
    search.end_batch(
        batch.last,
        lambda: [record for record in batch.records if type(record.event) in CHANGES][search.turning_index],
    )
    search.applied = 0


def search_view(condition: Condition) -> View[Search]:
    """Return the view that a search folds batches into."""
    table: dict[type[Any], Callable[..., None]] = {kind: partial(_apply, change) for kind, change in CHANGES.items()}
    table |= {PlaybookUpdated: _apply_update, PointRated: partial(_apply_rating, condition.names)}
    return View(lambda: Search(condition=condition), table, _end_batch)


def search(
    condition: Condition,
    read: Callable[[], Iterable[Batch]],
    span: tuple[int, int | None] = (0, None),
    *,
    last: bool = False,
) -> Search:
    """Find the first moment at which a condition holds that did not hold at the moment before.

    Each moment is what ``show --at`` shows for it, so events undone later still count. At an undo the playbook is
    therefore folded again up to there.

    Args:
        condition: The condition.
        read: Returns history from the beginning.
        span: The moments after which the search starts and ends; None for the end of history.
        last: Whether to go on to the last such moment.
    """
    (begin, end), view = span, search_view(condition)
    state = view.start()
    state.begin(fold_history(PLAYBOOK, read, begin))
    undos: list[EventRecord] = []
    for batch in read():
        if end is not None and batch.last > end:
            break
        batch_undos = undos_in(batch)
        # Those before the span as well: later moments are shown without what they undid.
        undos += batch_undos
        if batch.last <= begin:
            continue
        if batch_undos:
            book = fold(PLAYBOOK, mark_undone(read(), find_undone(undos)), until=batch.last)
            state.continue_after_undo(book, batch_undos[0])
        else:
            fold(view, [batch], state)
        if state.turn is not None and not last:
            break
    return state


def turn_json(state: Search) -> dict[str, Any]:
    """Return the result of a search in its stable shape.

    Returns:
        ``{condition, moment, event, before, after, began}``: the moment and ``{seq, at, [when], kind, by, summary}`` of
        the event, both None where the condition never became true; each term with its value before and after that
        moment, or at the end; and whether the condition held at the start of the search.
    """
    turn = state.turn
    before, after = (state.previous_values, state.values) if turn is None else (turn.before, turn.after)
    terms = [term.text for term in state.condition.terms]
    return {
        "condition": state.condition.text,
        "moment": None if turn is None else turn.moment,
        "event": None if turn is None else _event_json(turn.record),
        "before": dict(zip(terms, before, strict=True)),
        "after": dict(zip(terms, after, strict=True)),
        "began": state.began,
    }


def _event_json(record: EventRecord) -> dict[str, Any]:
    when = {} if record.when is None else {"when": record.when}
    rest = {"kind": kind_of(record.event)[0], "by": by_json(record.by), "summary": summary(record.event)}
    return {"seq": record.seq, "at": record.at} | when | rest
