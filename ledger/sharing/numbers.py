"""Event numbers of a history that comes from two logs: the own ledger and a shared book.

Views order events by one number. In a shared history it also says which log the event is in:

    n             event n of the own ledger that the book does not share
    BOOK + n      event n of the book
    PENDING + n   event n of the own ledger that is not in the book yet, as it lands there
"""

from __future__ import annotations

from typing import Final

BOOK: Final = 10**12
PENDING: Final = 2 * 10**12


def own_number(seq: int) -> int | None:
    """Return the number of an event in the own ledger; None for an event of the book."""
    if seq > PENDING:
        return seq - PENDING
    return seq if seq <= BOOK else None


def book_number(seq: int) -> int | None:
    """Return the number of an event in the book; None for an event of the own ledger."""
    return seq - BOOK if BOOK < seq <= PENDING else None


def event_name(seq: int) -> str:
    """Return how people name an event: ``812``, or ``book:57`` in a shared book."""
    number = book_number(seq)
    return str(own_number(seq)) if number is None else f"book:{number}"
