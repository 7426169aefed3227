"""Event numbers of a history that comes from two logs: the own ledger and a shared book.

Views order events by one number. In a shared history it also says which log the event is in:

    n             event n of the own ledger that the book does not share
    BOOK + n      event n of the book
    PENDING + n   event n of the own ledger that is not in the book yet, as it lands there
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tallybook.ledger.line import RawBatch

# Far above what a log reaches, so that the ranges never meet.
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


def own_id(id_: str) -> str:
    """Return the id that an event has in its machine's own ledger: landing may make several events of one."""
    return id_.partition(".")[0]


_MEANT: Final = b'"kind":"names.meant"'


def last_shown(batch: RawBatch) -> int:
    """Return the number of the last event of an own batch that views show: they leave out what its names mean."""
    return batch.last - sum(_MEANT in line for line in batch.lines)


_DIGITS: Final = 11
PREFIX: Final = "book:"
"""What begins the name of an event of the book."""


# An int, because every view orders and compares the events of a shared history by it.
class SharedNumber(int):
    """An event number of a shared history; as a text it is the name that people use, ``book:57`` or ``812``."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return how people name the event."""
        number = book_number(self)
        return int.__repr__(own_number(self) or 0) if number is None else f"{PREFIX}{number}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Return that name in a format for texts."""
        return format(repr(self), spec.rstrip(",d"))


def format_shared_number(seq: int) -> int:
    """Return an event number that reads as people name the event."""
    return seq if seq <= BOOK else SharedNumber(seq)


def parse_book_number(text: str) -> int | None:
    """Return the number of an event in the book that a text such as ``book:57`` names; None for any other text."""
    digits = text.removeprefix(PREFIX)
    is_name = text.startswith(PREFIX) and digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS
    return int(digits) if is_name else None


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer for JSON: an event of the book has its number in ``book``, and None in ``seq``.

    Other keys that hold an event number get a companion likewise, such as ``moment_book``.
    """
    result: dict[str, Any] = {}
    for key, child in answer.items():
        if type(child) is not SharedNumber:
            result[key] = plain_value(child)
            continue
        result[key] = own_number(child)
        if (number := book_number(child)) is not None:
            result["book" if key == "seq" else f"{key}_book"] = number
    return result


def plain_value(value: Any) -> Any:
    """Return a value for JSON as ``plain``; a number in a list reads as people name the event."""
    kind = type(value)
    if kind is dict:
        return plain(value)
    if kind is list or kind is tuple:
        return [plain_value(child) for child in value]
    return own_number(value) or str(value) if kind is SharedNumber else value
