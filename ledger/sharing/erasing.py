"""Erasing what a book says is redacted: up to where that was done here, so that a killed sync does it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.storage import redaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.sharing.replica import Current, Replica


def batches_after(copy: Replica, seq: int, new: Sequence[RawBatch]) -> Iterable[RawBatch]:
    """Return the batches of a copy of a book after an event number.

    Args:
        copy: The copy.
        seq: The event number.
        new: Its last batches, where they were just appended.
    """
    return new if new and new[0].first == seq + 1 else (one for one in copy.read() if one.last > seq)


def erase_listed(copy: Replica, seq: int) -> None:
    """Erase the texts that a copy of a book lists as redacted, where they came in again after an event number.

    Raises:
        CannotWriteError, OutcomeUnknownError: The disk refuses.
    """
    listed = redaction.read_pending(copy.folder)
    ids = frozenset(listed.ids if listed else ())
    if ids and not ids.isdisjoint(id_.decode() for id_ in copy.ids(seq)):
        redaction.erase(copy.log.path, copy.read(), ids)


def note_erased(ledger: StrPath, current: Current, seq: int) -> Current:
    """Store up to which event number of the book redacted texts were erased, and return what says so.

    Raises:
        CannotWriteError: The disk refuses.
    """
    stored = replicas.read_current(ledger)
    if stored is not None and stored.erased != seq:
        replicas.write_current(ledger, attrs.evolve(stored, erased=seq))
    return attrs.evolve(current, erased=seq)
