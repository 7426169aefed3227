"""Bisection: the moment at which a condition on the playbook became true, found in one pass over history."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.events import EventsVoided, PlaybookUpdated, PointRated
from tallybook.projections.event_rows import by_json, kind_of, summary
from tallybook.projections.fold import State, View, fold
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook, settle
from tallybook.projections.undo import find_undone, fold_history, mark_undone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.comparison.conditions import Condition, Values


@attrs.frozen
class Turn:
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
        before: The values after the previous batch.
        held: Whether the condition held after the previous batch.
        told: How many events of this batch have been applied to the playbook.
        place: Index among them of the event that made the condition true last.
        turn: When it became true last, None where it did not.
        began: Whether the condition held at the start of the search.
    """

    condition: Condition = attrs.field(kw_only=True)
    book: Playbook = attrs.field(factory=Playbook)
    values: Values = ()
    holds: bool = False
    before: Values = ()
    held: bool = False
    told: int = 0
    place: int = 0
    turn: Turn | None = None
    began: bool = False

    def begin(self, book: Playbook) -> None:
        """Start the search after a moment."""
        self.book, self.values = book, self.condition.values(book)
        self.began = self.holds = self.held = self.condition.holds(self.values)
        self.before = self.values

    def look(self) -> None:
        """Evaluate the condition again if one of its values changed."""
        values = self.condition.values(self.book)
        if values != self.values:
            self.values = values
            held, self.holds = self.holds, self.condition.holds(values)
            if self.holds and not held:
                self.place = self.told

    def go_on(self, book: Playbook, undoing: EventRecord) -> None:
        """Go on after a batch with an undo, with the playbook as of that batch."""
        self.book = book
        self.look()
        self.close(book.seq, lambda: undoing)

    def close(self, moment: int, deciding: Callable[[], EventRecord]) -> None:
        """Record the turn if the condition became true within a batch."""
        if self.holds and not self.held:
            self.turn = Turn(moment, deciding(), self.before, self.values)
        self.before, self.held = self.values, self.holds


def _hear(change: Callable[..., None], search: Search, event: Any, batch: Batch) -> None:
    change(search.book, event, batch)
    search.look()
    search.told += 1


def _hear_update(search: Search, event: PlaybookUpdated, batch: Batch) -> None:
    # An update that prunes nothing changes nothing.
    if search.book.due:
        _hear(CHANGES[PlaybookUpdated], search, event, batch)
    else:
        search.told += 1


def _hears_rating(names: frozenset[str]) -> Callable[..., None]:
    """Return the change for ratings, the most frequent event: the condition is evaluated only for its own entries."""
    change = CHANGES[PointRated]

    def hear(search: Search, event: PointRated, batch: Batch) -> None:
        change(search.book, event, batch)
        if event.name in names or event.name in search.book.merged:
            search.look()
        search.told += 1

    return hear


def _close(search: Search, batch: Batch) -> None:
    settle(search.book, batch)
    search.close(batch.last, lambda: _heard(batch)[search.place])
    search.told = 0


def _heard(batch: Batch) -> list[EventRecord]:
    """Return the events of a batch that the playbook view has a row for."""
    return [record for record in batch.records if type(record.event) in CHANGES]


def search_view(condition: Condition) -> View[Search]:
    """Return the view that a search folds batches into."""
    table: dict[type[Any], Callable[..., None]] = {kind: partial(_hear, change) for kind, change in CHANGES.items()}
    table |= {PlaybookUpdated: _hear_update, PointRated: _hears_rating(condition.names)}
    return View(lambda: Search(condition=condition), table, _close)


def search(
    condition: Condition,
    read: Callable[[], Iterable[Batch]],
    stretch: tuple[int, int | None] = (0, None),
    *,
    last: bool = False,
) -> Search:
    """Find the first moment at which a condition holds that did not hold at the moment before.

    Each moment is what ``show --at`` shows for it, so events undone later still count. At an undo the playbook is
    therefore folded again up to there.

    Args:
        condition: The condition.
        read: Returns history from the beginning.
        stretch: The moments after which the search starts and ends; None for the end of history.
        last: Whether to go on to the last such moment.
    """
    (begin, end), view = stretch, search_view(condition)
    found = view.start()
    found.begin(fold_history(PLAYBOOK, read, begin))
    undoings: list[EventRecord] = []
    for batch in read():
        if end is not None and batch.last > end:
            break
        undoing = [one for one in batch.records if isinstance(one.event, EventsVoided)] if _undoes(batch) else []
        undoings += undoing
        if batch.last <= begin:
            continue
        if undoing:
            found.go_on(fold(PLAYBOOK, mark_undone(read(), find_undone(undoings)), until=batch.last), undoing[0])
        else:
            fold(view, [batch], found)
        if found.turn is not None and not last:
            break
    return found


def _undoes(batch: Batch) -> bool:
    return EventsVoided in map(type, batch.events)


def turn_json(found: Search) -> dict[str, Any]:
    """Return the result of a search in its stable shape.

    Returns:
        ``{condition, moment, event, before, after, began}``: the moment and ``{seq, at, [when], kind, by, summary}`` of
        the event, both None where the condition never became true; each term with its value before and after that
        moment, or at the end; and whether the condition held at the start of the search.
    """
    turn = found.turn
    before, after = (found.before, found.values) if turn is None else (turn.before, turn.after)
    return {
        "condition": found.condition.text,
        "moment": None if turn is None else turn.moment,
        "event": None if turn is None else _event(turn.record),
        "before": _told(found.condition, before),
        "after": _told(found.condition, after),
        "began": found.began,
    }


def _told(condition: Condition, values: Values) -> dict[str, Any]:
    return {term.told: value for term, value in zip(condition.terms, values, strict=True)}


def _event(record: EventRecord) -> dict[str, Any]:
    when = {} if record.when is None else {"when": record.when}
    told: dict[str, Any] = {"seq": record.seq, "at": record.at} | when
    return told | {"kind": kind_of(record.event)[0], "by": by_json(record.by), "summary": summary(record.event)}
