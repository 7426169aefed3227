"""Erasing what a book says is redacted: up to where that was done here, so that a killed sync does it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.storage.redaction import redacted_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.sharing.replica import Current, Replica


def redacted_after(copy: Replica, seq: int, new: Sequence[RawBatch]) -> list[str]:
    """Return the ids of the events that a copy of a book says are redacted, after one of its event numbers.

    Args:
        copy: The copy.
        seq: The event number.
        new: Its last batches, where they were just appended.
    """
    batches = new if new and new[0].first == seq + 1 else copy.read()
    return [id_ for one in batches if one.last > seq for id_ in redacted_ids(one)]


def note_erased(ledger: StrPath, current: Current, seq: int) -> Current:
    """Store up to which event number of the book redacted texts were erased, and return what says so.

    Raises:
        CannotWriteError: The disk refuses.
    """
    stored = replicas.read_current(ledger)
    if stored is not None and stored.erased != seq:
        replicas.write_current(ledger, attrs.evolve(stored, erased=seq))
    return attrs.evolve(current, erased=seq)
