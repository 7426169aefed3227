"""Checkpoints, in a folder of the ledger's cache for each view, and how a fold goes on from the nearest that fits.

Each is a state behind a batch, bound to that batch by its sequence number and chain value: ``latest`` near the end of
the ledger, the others along the way, for time travel. What is missing, stale, foreign or damaged costs time and
changes no answer; only that what lies before a checkpoint is not read again, so damage there is ``verify``'s to find.
"""

from __future__ import annotations

from functools import cache
import json
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

import attrs

from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, sha256
from tallybook.ledger.line import START, Position
from tallybook.ledger.storage import caches, disk, redaction
from tallybook.projections.fold import State, fold
from tallybook.projections.playbook.checkpoint import PLAYBOOK_FORM
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.fold import View
    from tallybook.projections.playbook.checkpoint import Form
    from tallybook.projections.playbook.view import Playbook

S = TypeVar("S", bound=State)

LATEST: Final = "latest"
LOCK: Final = "checkpoints.lock"
APART_BYTES: Final = 2 * 1024 * 1024
"""Of the ledger, at least, between two checkpoints on the way: a few hundredths of a second of folding."""
TIMES: Final = 8
"""So many times its own size lies between a checkpoint and the one before it, so all of them stay a small part."""
TAIL_BYTES: Final = 64 * 1024
"""Behind ``latest``, at least, before it is written anew: a millisecond or two of folding."""
_TAIL_PART: Final = 8
_SUM_CHARS: Final = 32
FAULTS: Final = (OSError, TallybookError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
SOURCES: Final = (
    "tallybook.ledger.encoding.codec",
    "tallybook.ledger.encoding.event_json",
    "tallybook.ledger.events",
    "tallybook.ledger.batches",
    "tallybook.ledger.encoding.header",
    "tallybook.ledger.kinds.agent",
    "tallybook.ledger.kinds.curation",
    "tallybook.ledger.kinds.fields",
    "tallybook.ledger.kinds.limits",
    "tallybook.ledger.kinds.log",
    "tallybook.ledger.kinds.playbook",
    "tallybook.ledger.names",
    "tallybook.ledger.records",
    "tallybook.projections.playbook.checkpoint",
    "tallybook.projections.fold",
    "tallybook.projections.playbook.view",
    "tallybook.projections.playbook.entry_state",
    "tallybook.projections.playbook.prune",
    "tallybook.projections.undo",
)
"""Modules that decide what a history comes to: what they came to before they were changed is not taken in."""


@cache
def code_of(*sources: str) -> str:
    """Return what names the code that folds, these modules included."""
    hasher = sha256()
    for name in (*SOURCES, *sources):
        hasher.update(Path(str(sys.modules[name].__file__)).read_bytes())
    return hasher.hexdigest()[:_SUM_CHARS]


class Checkpoint(NamedTuple):
    """A state, and what it is bound to.

    Attributes:
        before: The place before the batch folded last, which is read again: it proves that this is the ledger.
        seen: Sequence number at which the ledger ended when its texts were read: a redaction behind it is not in it.
        kept: Offset behind the last checkpoint on the way.
        bytes: How large it is.
        state: What was folded, but for that batch.
    """

    before: Position
    seen: int
    kept: int
    bytes: int
    state: Any


@attrs.define
class Keeper:
    """One reading of a ledger, which stores on the way what it has come to.

    Attributes:
        form: How the view that is folded is kept.
        log: The ledger.
        seen: What was acknowledged when the reading began.
        barred: Whether nothing may be stored: a redaction is not finished, or the disk refuses.
        state: What is being folded.
        before: The place before the batch folded last, or the batch that ends there.
        voided: The last undoing that this telling of history knows from the beginning: behind a later one it is told
            anew.
        kept: Offset behind the last checkpoint on the way.
        due: Offset from which on the next one is stored.
    """

    form: Form[Any]
    log: JsonlLog
    seen: Position
    barred: bool
    state: Any
    before: Position | Batch = START
    voided: int = 0
    kept: int = 0
    due: int = APART_BYTES

    @property
    def book(self) -> Playbook:
        """Return the playbook in what is being folded."""
        return self.form.book(self.state)

    def begin(self) -> Any:
        """Return the state before the first event; once more where history is told a second time."""
        self.voided, self.state = self.book.last_undo, self.form.view.start()
        self.before, self.kept, self.due = START, 0, self.apart(0)
        return self.state

    def go_on(self, found: Checkpoint) -> Any:
        """Return the state of a checkpoint, to be folded on."""
        self.state = found.state
        self.voided = self.book.last_undo
        self.before, self.kept = found.before, found.kept
        self.due = found.kept + self.apart(found.bytes)
        return self.state

    def apart(self, size: int) -> int:
        """Return how far a checkpoint of so many bytes lies behind the one before it, in bytes of the ledger."""
        return self.form.spacing * max(APART_BYTES, TIMES * size)

    def passing(self, batches: Iterable[Batch], last: Batch | None = None) -> Iterator[Batch]:
        """Pass batches on behind the last one folded; whoever asks for the next has folded the one before."""
        for batch in batches:
            if last is not None:
                # Of each batch no more is asked than where it begins: this lies in the way of every fold.
                if batch.begin >= self.due:
                    self.keep(str(last.last))
                self.before = last
            yield batch
            last = batch

    def keep(self, name: str) -> None:
        """Store the state as it is, unless no reader could go on from it."""
        state, before = self.state, self.before
        if self.barred or self.book.last_undo != self.voided:
            return
        try:
            place = before if isinstance(before, Position) else Position(before.last, before.chain, before.end)
            kept = self.kept if name == LATEST else state.end
            code, told = code_of(*self.form.sources), self.form.pack(state)
            data = dumps([code, tuple(place), self.seen.seq, kept, told]).encode()
            apart = self.apart(len(data))
            if name == LATEST or kept - self.kept >= apart:
                self.barred = not put(self.log, self.seen, state.seq, (self.form.name, name), data)
                self.kept = kept
            self.due = self.kept + apart
        except FAULTS:
            self.barred = True


def put(log: JsonlLog, seen: Position, seq: int, place: tuple[str, str], data: bytes) -> bool:
    """Write what was made of a ledger into its cache, unless others do so now or it is of what nobody acknowledged yet.

    Nor is it written where a text in it may be one that a redaction takes out of every file meanwhile: a redaction
    waits for this lock before it searches the files, and is known from before then on.

    Args:
        log: The ledger.
        seen: What was acknowledged when the reading began.
        seq: Sequence number of the last event that it was made of.
        place: Its folder in the cache, and its file there.
        data: What it says; its digest is put before it.

    Returns:
        False where nothing that this reading came to may be stored any more.

    Raises:
        OSError, TallybookError: The disk refuses.
    """
    found = caches.find_folder(log.folder)
    if found is None:
        return False
    cache, (folder, name) = Path(found), place
    caches.make_folder(cache, log.folder)
    disk.make_folder(cache / folder, durable=False)
    fd = disk.open_file(cache / LOCK, write=True, create=True)
    try:
        if not disk.try_lock(fd) or log.head().seq < seq:
            return True
        if redaction.read_pending(log.folder) is not None or _last_redaction(log, seen) > 0:
            return False
        disk.replace_cache_file(cache / folder / name, sha256(data).hexdigest()[:_SUM_CHARS].encode() + data)
        return True
    finally:
        os.close(fd)


def got(log: JsonlLog, folder: str, name: str) -> bytes | None:
    """Return what was put into a file of the cache, None where it is not as it was put there."""
    cache = caches.find_folder(log.folder)
    if cache is None:
        return None
    try:
        data = disk.read_file(Path(cache, folder, name))
    except (OSError, TallybookError):
        return None
    told = data[_SUM_CHARS:]
    return told if sha256(told).hexdigest()[:_SUM_CHARS].encode() == data[:_SUM_CHARS] else None


def keeper_of(log: Log, form: Form[Any]) -> Keeper | None:
    """Return what reads a ledger from now on, None where nothing can be kept of it."""
    if not is_kept_of(log):
        return None
    # What was said before this is read is done or owed; what is owed is looked for behind it.
    seen = log.head()
    return (
        None
        if seen == START
        else Keeper(form, log, seen, redaction.read_pending(log.folder) is not None, form.view.start())
    )


def is_kept_of(log: Log) -> TypeGuard[JsonlLog]:
    """Say whether a ledger is one of which something is kept: longer than what is read again in any case."""
    try:
        if not isinstance(log, JsonlLog) or log.path.stat().st_size <= TAIL_BYTES:
            return False
        return caches.find_folder(log.folder) is not None
    except OSError:
        return False


def _last_redaction(log: JsonlLog, after: Position) -> int:
    """Return the last event behind a place that says that something was redacted, 0 without one."""
    return max((batch.last for batch in log.read(after) if redaction.redacted_ids(batch)), default=0)


# Reading


def playbook(log: Log, until: int | None = None, *, whole: bool = False) -> Playbook:
    """Return the playbook at the end of a ledger, or at an earlier moment, as ``folded``."""
    return folded(PLAYBOOK_FORM, log, until, whole=whole)


def folded(form: Form[S], log: Log, until: int | None = None, *, whole: bool = False) -> S:
    """Return the state of a view at the end of a ledger, or at an earlier moment, from the nearest checkpoint on.

    Args:
        form: How the view to fold into is kept.
        log: The ledger.
        until: The moment, as for ``fold``; None for the end.
        whole: Whether history is folded from the first event on whatever a cache says; what that comes to is kept.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    keeper = keeper_of(log, form)
    state: S | None = None
    if keeper is not None and not (whole or keeper.barred):
        state = _resumed(keeper, until)
    return _cold(form.view, log, keeper, until) if state is None else state


def _resumed(keeper: Keeper, until: int | None) -> Any:
    """Return a state folded on from a checkpoint, None where there is none to go on from."""
    found = _load(keeper, LATEST)
    if until is None:
        return None if found is None else _caught_up(keeper, found)
    if found is None:
        # The first question of this ledger: the end is folded as well, so that the next ones find their places.
        _cold(keeper.form.view, keeper.log, keeper)
        found = _load(keeper, LATEST)
    if found is None or (redacted := _redacted(keeper, found)) is None:
        return None
    for name in _names(keeper, until):
        one = found if name == LATEST else _load(keeper, name)
        if one is not None and redacted <= one.seen and one.state.seq <= until:
            state = _caught_up(keeper, one, until)
            if state is not None:
                return state
    return None


def _names(keeper: Keeper, until: int) -> list[str]:
    """Return the checkpoints up to a moment, the nearest first; ``latest`` may lie behind it."""
    try:
        cache = caches.find_folder(keeper.log.folder)
        found = [path.name for path in Path(cache, keeper.form.name).iterdir()] if cache is not None else []
    except OSError:
        found = []
    seqs = sorted((int(name) for name in found if name.isdigit() and int(name) <= until), reverse=True)
    return [LATEST, *map(str, seqs)]


def _redacted(keeper: Keeper, latest: Checkpoint) -> int | None:
    """Return the last event that says that something was redacted, 0 without one; None where nobody knows."""
    try:
        return max(keeper.form.book(latest.state).last_redaction, _last_redaction(keeper.log, latest.before))
    except DamagedLedgerError:
        return None


def _caught_up(keeper: Keeper, found: Checkpoint, until: int | None = None) -> Any:
    """Return what a checkpoint comes to further on; None where this ledger does not go on from it."""
    state = keeper.go_on(found)
    place, rewrites, begin = (state.seq, state.chain), keeper.book.rewrites, found.before.offset
    try:
        batches = decode(keeper.log.read(found.before))
        first = next(batches, None)
        if first is None or (first.last, first.chain) != place:
            return None
        state.latest_batch = first
        fold(keeper.form.view, keeper.passing(batches, first), state, until)
    except DamagedLedgerError:
        # Whether it is damage, or the place lies in what was sealed since, is seen from the beginning.
        return None
    if keeper.book.rewrites != rewrites:
        return None
    if until is None and state.end - begin > max(TAIL_BYTES, found.bytes // _TAIL_PART):
        keeper.keep(LATEST)
    return state


def _cold(view: View[S], log: Log, keeper: Keeper | None, until: int | None = None) -> S:
    """Return the state folded from the first event on, and keep what that comes to on the way."""
    if keeper is None:
        return fold_history(view, lambda: decode(log.read()), until)
    keeper.state = view.start()
    state = fold_history(attrs.evolve(view, start=keeper.begin), lambda: keeper.passing(decode(log.read())), until)
    if until is None:
        keeper.keep(LATEST)
    return state


def _load(keeper: Keeper, name: str) -> Checkpoint | None:
    """Return a checkpoint that is whole and of this code, None where there is none."""
    try:
        told = got(keeper.log, keeper.form.name, name)
        code, before, seen, kept, state = json.loads(told or b"[]")
        if code != code_of(*keeper.form.sources):
            return None
        return Checkpoint(Position(*before), seen, kept, len(told or b""), keeper.form.unpack(state))
    except FAULTS:
        return None
