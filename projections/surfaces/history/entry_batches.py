"""The batches that decide the history of an entry, found by the bytes of its name in the log.

Folding them gives what all of history gives. Other batches are not read, so damage in them is found by ``verify``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import (
    EVENT_TYPES,
    KIND_OF,
    EventRedacted,
    EventsVoided,
    PlaybookUpdated,
    PointMerged,
    PointNoted,
)
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import Position
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.reading.search import find_batches
from tallybook.projections.playbook.view import CHANGES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch

_ABOUT: Final = frozenset(
    kind for kind, _ in EVENT_TYPES.values() if kind in {*CHANGES, PointNoted} and "name" in attrs.fields_dict(kind)
)
"""Classes of events that change or describe an entry that they name."""


def history_of(log: Log, names: Collection[str]) -> Callable[[], Iterable[Batch]]:
    """Return a function that reads, from the beginning, the batches that decide the history of entries.

    These are the batches that name one of the entries, or an entry that was ever merged with one, every undoing
    and redaction, and after each of them the batches up to the update that prunes what is due; all of history where no
    file can be searched.
    """
    if type(log) is JsonlLog:
        # Reading the whole log explains damage better.
        with suppress(DamagedLedgerError):
            batches = list(_find(log, names))
            return lambda: batches
    return lambda: decode(log.read())


def _find(log: JsonlLog, names: Collection[str]) -> Iterator[Batch]:
    events = [
        event
        for batch in decode(find_batches(log, (_kind(PointMerged), _kind(EventsVoided))))
        for event in batch.events
    ]
    kin = _find_kin(names, events)
    undone = _Undone.of(events)
    read_up_to = 0
    needles = [f'"name":{dumps(name)}'.encode("utf-8", "replace") for name in kin]
    for batch in decode(find_batches(log, (*needles, _kind(EventsVoided), _kind(EventRedacted)))):
        # A batch that was read on the way to an update is not read twice.
        if batch.begin >= read_up_to:
            yield batch
            read_up_to = batch.end
            if _leaves_open(batch, kin, undone):
                for following in _read_up_to_update(log, batch, kin, undone):
                    yield following
                    read_up_to = following.end


def _kind(kind: type[Any]) -> bytes:
    return b'"kind":"%b"' % KIND_OF[kind].encode()


def _read_up_to_update(log: JsonlLog, batch: Batch, names: Collection[str], undone: _Undone) -> Iterator[Batch]:
    """Yield the batches after one, up to an update after which none of these entries can be due."""
    for following in decode(log.read(Position(batch.last, batch.chain, batch.end))):
        yield following
        if _leaves_open(following, names, undone) is False:
            return


def _find_kin(names: Collection[str], events: Iterable[Any]) -> set[str]:
    """Return entries with every entry that was ever merged with one of them, directly or not."""
    merges = [{event.name, *event.merged} for event in events if isinstance(event, PointMerged)]
    kin, size = set(names), -1
    while len(kin) > size:
        size = len(kin)
        kin = kin.union(*(merged for merged in merges if merged & kin))
    return kin


@attrs.frozen
class _Undone:
    """What was ever undone.

    Attributes:
        ids: Ids of events.
        sessions: Sessions of which every event was undone.
    """

    ids: frozenset[str]
    sessions: frozenset[str]

    @classmethod
    def of(cls, events: Iterable[Any]) -> _Undone:
        """Return what these events undo, also where that undoing was undone later."""
        undoings = [event for event in events if isinstance(event, EventsVoided)]
        ids = frozenset(id_ for event in undoings for id_ in event.ids)
        return cls(ids, frozenset(event.session for event in undoings if event.session))

    def may_touch(self, batch: Batch) -> bool:
        """Return False where nothing in a batch was ever undone."""
        return (bool(self.ids) and batch.may_contain_ids(self.ids)) or any(map(batch.may_contain_text, self.sessions))


def _leaves_open(batch: Batch, names: Collection[str], undone: _Undone) -> bool | None:
    """Return whether one of these entries may be due after a batch, None where the batch does not decide that.

    An update prunes what is due, unless it is undone: then a later update does.
    """
    counts = not undone.may_touch(batch)
    for event in reversed(batch.events):
        if isinstance(event, PlaybookUpdated) and counts:
            return False
        if type(event) in CHANGES and type(event) in _ABOUT:
            entry_names = {event.name, *getattr(event, "merged", ())}  # type: ignore[attr-defined]
            if not entry_names.isdisjoint(names):
                return True
    return None
