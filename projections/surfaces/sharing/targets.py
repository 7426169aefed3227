"""What people name in a shared history: events by own number or ``book:N``, writers by label, and moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.records import EventRecord
from tallybook.ledger.sharing.numbers import BOOK, book_number, own_id, own_number, parse_book_number
from tallybook.projections.surfaces.history.reading import has_book

if TYPE_CHECKING:
    from tallybook.ledger.log import Log
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog

_MAX_DIGITS = 11


def find_event(log: Log, target: str) -> str:
    """Return the id of the event that an own number or ``book:N`` names; in a ledger without a book, the text itself.

    An own number also names an event that is in the book meanwhile.

    Raises:
        BadInputError: There is no such event.
    """
    number = parse_book_number(target)
    if not has_book(log):
        if number is not None:
            raise BadInputError(f"event {target}", "this project shares no book", "see `tallybook log`")
        return target
    if number is not None:
        found = _id_at(log, BOOK + number) if number <= log.history.frontier.seq else None
    elif target.isdecimal() and len(target) <= _MAX_DIGITS:
        found = _id_at(log.own, int(target))
    else:
        return target
    if found is None:
        raise BadInputError(f"event {target}", "is not in the ledger", "see `tallybook log`")
    return found


def find_number(log: Log, target: str) -> int:
    """Return the number in a shared history of the event that an own number or ``book:N`` names.

    Raises:
        BadInputError: There is no such event.
    """
    id_ = find_event(log, target)
    for batch in decode(log.read()):
        if batch.may_contain_text(id_):
            for record in batch.records:
                if own_id(record.id) == own_id(id_):
                    return record.seq
    raise BadInputError(f"event {target}", "is not in the shared history", "see `tallybook log`")


def _id_at(log: Log, seq: int) -> str | None:
    for batch in decode(log.read()):
        if batch.last >= seq:
            return next((record.id for record in batch.records if record.seq == seq), None)
    return None


def find_writers(log: Log, wanted: str, option: str) -> frozenset[str]:
    """Return the writers of the book with a label, given without its random characters or by its user alone.

    Raises:
        BadInputError: There is none, or the project shares no book.
    """
    if not has_book(log):
        raise BadInputError(f"{option} {wanted}", "this project shares no book", "see `tallybook share --help`")
    # A batch of the book is of one machine, so its first line is enough.
    writers = {record.by.writer for batch in decode(log.read_book()) for record in batch.records[:1]} - {None}
    # Whole parts between hyphens: a name is not the beginning of another one.
    found = frozenset(writer for writer in writers if writer and f"{writer}-".startswith(f"{wanted}-"))
    if not found:
        names = ", ".join(sorted(writer for writer in writers if writer)) or "none yet"
        raise BadInputError(f"{option} {wanted}", "is not a writer of the book", f"its writers: {names}")
    return found


def contained_in(log: SharedLog, moment: Moment) -> Callable[[EventRecord], bool]:
    """Return a function that says whether an event was in the history of a moment."""
    if moment.in_book is not None:
        end = moment.in_book
        return lambda record: 0 < (book_number(record.seq) or 0) <= end
    history = log.at(moment.seq).history
    frontier, last = history.frontier.seq, moment.seq
    pending = {record.id for own in history.pending for record in own.records}

    def is_contained(record: EventRecord) -> bool:
        number = book_number(record.seq)
        if number is None:
            return (own_number(record.seq) or 0) <= last
        # What was pending at that moment can be in the book by now.
        return number <= frontier or own_id(record.id) in pending

    return is_contained
