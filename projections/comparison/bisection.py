"""Bisection: the moment at which a condition on the playbook became true, found in one pass over history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tallybook.projections import event_rows, fold
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.comparison.conditions import Condition, Values

    Read = Callable[[], Iterable[Batch]]


@attrs.frozen
class TurningPoint:
    """A moment at which a condition became true.

    Attributes:
        moment: Number of the last event of the batch: the condition holds after it, and did not before it.
        record: The event of the batch that made it true.
    """

    moment: int
    record: EventRecord


@attrs.frozen
class Search:
    """The result of a search for the moment at which a condition became true.

    Attributes:
        condition: The condition.
        book: The playbook where the search ended.
        began: Whether the condition held at the start of the search.
        turn: When it became true, None where it did not.
        before: Values of the condition's terms before the turn, or at the end, in their order.
        after: Values after the turn, or at the end.
    """

    condition: Condition
    book: Playbook
    began: bool
    turn: TurningPoint | None
    before: Values
    after: Values


def search(condition: Condition, read: Read, span: tuple[int, int | None] = (0, None), *, last: bool = False) -> Search:
    """Find the first moment at which a condition holds that did not hold at the moment before.

    Each moment is what ``show --at`` shows for it, so events undone later still count. At an undo the playbook is
    therefore folded again up to there.

    Args:
        condition: The condition.
        read: Returns history from the beginning.
        span: The moments after which the search starts and ends; None for the end of history.
        last: Whether to go on to the last such moment.
    """
    begin, end = span
    undos: list[EventRecord] = []
    turn: tuple[Batch, int, Values, Values] | None = None
    book = fold.fold_history(PLAYBOOK, read, begin)
    before = after = condition.values(book)
    began = holds = condition.holds(after)
    for batch in read():
        if end is not None and batch.last > end:
            break
        # Those before the span as well: later moments are shown without what they undid.
        undos += (batch_undos := fold.undos_in(batch))
        if batch.last <= begin:
            continue
        if batch_undos:
            book = _playbook_at(read, undos, batch.last)
        else:
            fold.fold(PLAYBOOK, [batch], book)
        before, held, after = after, holds, condition.values(book)
        holds = held if after == before else condition.holds(after)
        if holds and not held:
            turn = (batch, len(undos), before, after)
            if not last:
                break
    if turn is None:
        return Search(condition, book, began, None, after, after)
    batch, number, before, after = turn
    record = _find_event(condition, read, batch, undos[:number])
    return Search(condition, book, began, TurningPoint(batch.last, record), before, after)


def _playbook_at(read: Read, undos: Sequence[EventRecord], until: int) -> Playbook:
    """Return the playbook after an event, without what these undos undid."""
    return fold.fold(PLAYBOOK, fold.mark_undone(read(), fold.find_undone(undos)), until=until)


def _find_event(condition: Condition, read: Read, batch: Batch, undos: Sequence[EventRecord]) -> EventRecord:
    """Return the event of a batch that made a condition true: of several the last; in a batch with an undo, the undo.

    Args:
        condition: The condition, which holds after the batch and did not before it.
        read: Returns history from the beginning.
        batch: The batch.
        undos: The undos up to the batch, its own included.
    """
    # An undo changes how all of history reads, so no other event of its batch can be named.
    if batch_undos := fold.undos_in(batch):
        return batch_undos[0]
    deciding, holds = batch.records[0], False
    book = _playbook_at(read, undos, deciding.seq - 1)
    for record in batch.records:
        if change := CHANGES.get(type(record.event)):
            change(book, record.event, batch)
            held, holds = holds, condition.holds(condition.values(book))
            deciding = record if holds and not held else deciding
    return deciding


def turn_json(result: Search) -> dict[str, Any]:
    """Return the result of a search in its stable shape.

    Returns:
        ``{condition, moment, event, before, after, began}``: the moment and ``{seq, at, [when], kind, by, summary}`` of
        the event, both None where the condition never became true; each term with its value before and after that
        moment, or at the end; and whether the condition held at the start of the search.
    """
    terms = [term.text for term in result.condition.terms]
    return {
        "condition": result.condition.text,
        "moment": None if result.turn is None else result.turn.moment,
        "event": None if result.turn is None else _event_json(result.turn.record),
        "before": dict(zip(terms, result.before, strict=True)),
        "after": dict(zip(terms, result.after, strict=True)),
        "began": result.began,
    }


def _event_json(record: EventRecord) -> dict[str, Any]:
    when = {} if record.when is None else {"when": record.when}
    kind, by = event_rows.kind_of(record.event)[0], event_rows.by_json(record.by)
    return (
        {"seq": record.seq, "at": record.at}
        | when
        | {"kind": kind, "by": by, "summary": event_rows.summary(record.event)}
    )
