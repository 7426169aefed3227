"""The state of a view of one log, folded from a checkpoint on.

A checkpoint is the saved state of a view after a batch near the end of the ledger: a fold goes on from it instead of
reading all of history. It is bound to that batch by the event number, the chain value and the place, and the batch is
read again before the state is used.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import attrs
import msgspec

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EventRedacted, EventsVoided
from tallybook.ledger.line import START, Position
from tallybook.ledger.reading.lookup import read_batch_at
from tallybook.projections.fold import State, fold, fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.history.cache_files import FAULTS, Blob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tallybook.ledger.log import JsonlLog, Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.fold import View

S = TypeVar("S", bound=State)

_REWRITING: Final = frozenset({EventRedacted, EventsVoided})
_TAIL_PART: Final = 8
"""A checkpoint is written anew when the ledger has grown by this part of its size: writing it takes time, too."""


@attrs.frozen
class Form(Generic[S]):
    """How the state of a view is stored in its checkpoint.

    Attributes:
        name: Name of the checkpoint.
        view: The view.
        pack: Returns a state after a batch as JSON values.
        unpack: Returns the state of such values, without the batch folded last; raises ValueError, TypeError or
            KeyError for other values.
        book: Returns the playbook in a state; an empty one for a view that holds none.
        key: What else decides the state, such as a configuration.
    """

    name: str
    view: View[S]
    pack: Callable[[S], dict[str, Any]]
    unpack: Callable[[Mapping[str, Any]], S]
    book: Callable[[S], Playbook] = lambda _: Playbook()
    key: str = ""


PLAYBOOK_FORM: Final[Form[Playbook]] = Form("playbook", PLAYBOOK, pack, unpack, lambda state: state)


def position_of(state: State) -> Position:
    """Return the position after what a state has folded."""
    return Position(state.seq, state.chain, state.end) if state.seq else START


def fold_log(form: Form[S], log: Log, until: int | None = None, *, cold: bool = False) -> S:
    """Return the state of a view of one log at its end or as of a moment, as ``reading.fold_view``."""
    blob = Blob.of(log, form.name, form.key)
    checkpoint = None if blob is None or cold else _load(form, blob)
    state = None if blob is None or checkpoint is None else _resume(form, blob.log, checkpoint, until)
    if state is None:
        checkpoint, state = None, fold_history(form.view, lambda: decode(log.read()), until)
    # A view has one checkpoint, near the end: the state of an earlier moment must not take its place.
    if blob is not None and until is None and (checkpoint is None or checkpoint.is_outgrown_by(state)):
        _store(form, blob, state)
    return state


class _RewrittenError(Exception):
    """An event after a checkpoint redacts or undoes earlier ones."""


class Checkpoint(NamedTuple, Generic[S]):
    """A saved state and the batch that it is bound to.

    Attributes:
        begin: Offset of the batch folded last, which is read again: that proves the ledger is the same.
        size: Its size in bytes.
        state: The state, without that batch.
    """

    begin: int
    size: int
    state: S

    def is_outgrown_by(self, state: State) -> bool:
        """Return whether so much was folded after it that a new one is worth its writing."""
        return state.end - self.begin > max(cache_files.TAIL_BYTES, self.size // _TAIL_PART)


def _load(form: Form[S], blob: Blob) -> Checkpoint[S] | None:
    """Return the checkpoint in a blob, None where there is none that can be used."""
    body = blob.read()
    try:
        begin, values = msgspec.msgpack.decode(body or b"")
        return Checkpoint(begin, len(body or b""), form.unpack(values))
    except FAULTS:
        return None


def _store(form: Form[Any], blob: Blob, state: State) -> None:
    """Store a state as the checkpoint of its form; where that fails, the next reader reads more."""
    if state.latest_batch is not None:
        with suppress(*FAULTS):
            blob.write(state.seq, msgspec.msgpack.encode([state.latest_batch.begin, form.pack(state)]))


def _resume(form: Form[S], log: JsonlLog, checkpoint: Checkpoint[S], until: int | None) -> S | None:
    """Return the state of a checkpoint folded further; None where this history does not go on from it."""
    state = checkpoint.state
    try:
        batch = read_batch_at(log, checkpoint.begin)
        if batch is None or (batch.last, batch.chain) != (state.seq, state.chain):
            return None
        if until is not None and until < state.seq:
            return None
        [state.latest_batch] = decode([batch])
        later = _read_on(log, batch.position)
        fold(form.view, later, state, until)
        # A redaction after the moment concerns it, too.
        deque(later, 0)
    except (DamagedLedgerError, _RewrittenError):
        # The ledger is damaged, or the position lies in a part that was sealed since. A fold from the first event says.
        return None
    return state


def _read_on(log: JsonlLog, position: Position) -> Iterator[Batch]:
    """Yield the batches after a checkpoint.

    Raises:
        _RewrittenError: One of them changes what earlier events mean.
    """
    for batch in decode(log.read(position)):
        if not _REWRITING.isdisjoint(map(type, batch.events)):
            raise _RewrittenError
        yield batch
