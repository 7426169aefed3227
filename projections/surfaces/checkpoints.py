"""Where the playbook's checkpoints stand, ``cache/playbook/``, and how a fold goes on from the nearest that fits.

Each is a state behind a batch, bound to that batch by its sequence number and chain value: ``latest`` near the end of
the ledger, the others along the way, for time travel. What is missing, stale, foreign or damaged costs time and
changes no answer; only that what lies before a checkpoint is not read again, so damage there is ``verify``'s to find.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Final

import attrs
import orjson

from ledger import disk, redact
from ledger.backends.jsonl import JsonlLog
from ledger.codec import decode
from ledger.errors import DamagedLedgerError, TallybookError
from ledger.line import START, Mark
from projections.checkpoint import packed, unpacked
from projections.fold import fold
from projections.playbook import PLAYBOOK, Playbook
from projections.voids import fold_history

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ledger.log import Log
    from ledger.recorded import Batch

FOLDER: Final = "playbook"
LATEST: Final = "latest"
LOCK: Final = "playbook.lock"
APART_BYTES: Final = 4 * 1024 * 1024
"""Of the ledger, at least, between two checkpoints on the way: a few hundredths of a second of folding."""
TIMES: Final = 16
"""So many times its own size lies between a checkpoint and the one before it, so all of them stay a small part."""
TAIL_BYTES: Final = 64 * 1024
"""Behind ``latest``, at least, before it is written anew: a millisecond or two of folding."""
_TAIL_PART: Final = 8
_SUM_CHARS: Final = 32
_FAULTS: Final = (OSError, TallybookError, ValueError, TypeError, KeyError, AttributeError)
SOURCES: Final = (
    "ledger.codec",
    "ledger.events",
    "ledger.head_form",
    "ledger.kinds.agent",
    "ledger.kinds.curation",
    "ledger.kinds.fields",
    "ledger.kinds.log",
    "ledger.kinds.playbook",
    "ledger.names",
    "ledger.recorded",
    "projections.checkpoint",
    "projections.fold",
    "projections.playbook",
    "projections.prune",
    "projections.voids",
)
"""Modules that decide what a history comes to: what they came to before they were changed is not taken in."""


@cache
def _code() -> str:
    """Return what names the code that folds."""
    hasher = sha256()
    for name in SOURCES:
        hasher.update(Path(str(sys.modules[name].__file__)).read_bytes())
    return hasher.hexdigest()[:_SUM_CHARS]


@attrs.frozen
class Checkpoint:
    """A state, and what it is bound to.

    Attributes:
        before: The place before the batch folded last, which is read again: it proves that this is the ledger.
        seen: Sequence number at which the ledger ended when its texts were read: a redaction behind it is not in it.
        kept: Offset behind the last checkpoint on the way.
        bytes: How large it is.
        state: What was folded, but for that batch.
    """

    before: Mark
    seen: int
    kept: int
    bytes: int
    state: Playbook


@attrs.define
class Keeper:
    """One reading of a ledger, which stores on the way what it has come to.

    Attributes:
        log: The ledger.
        seen: What was acknowledged when the reading began.
        barred: Whether nothing may be stored: a redaction is not finished, or the disk refuses.
        state: What is being folded.
        before: The place before the batch folded last.
        voided: The last undoing that this telling of history knows from the beginning: behind a later one it is told
            anew.
        kept: Offset behind the last checkpoint on the way.
        due: Offset from which on the next one is stored.
    """

    log: JsonlLog
    seen: Mark
    barred: bool
    state: Playbook = attrs.field(factory=Playbook)
    before: Mark = START
    voided: int = 0
    kept: int = 0
    due: int = APART_BYTES

    def begin(self) -> Playbook:
        """Return the state before the first event; once more where history is told a second time."""
        self.voided, self.state = self.state.voided, Playbook()
        self.before, self.kept, self.due = START, 0, APART_BYTES
        return self.state

    def go_on(self, found: Checkpoint) -> Playbook:
        """Return the state of a checkpoint, to be folded on."""
        self.voided, self.state = found.state.voided, found.state
        self.before, self.kept = found.before, found.kept
        self.due = found.kept + max(APART_BYTES, TIMES * found.bytes)
        return self.state

    def passing(self, batches: Iterable[Batch], last: Batch | None = None) -> Iterator[Batch]:
        """Pass batches on behind the last one folded; whoever asks for the next has folded the one before."""
        for batch in batches:
            if last is not None:
                if last.end >= self.due:
                    self.keep(str(last.last))
                self.before = Mark(last.last, last.chain, last.end)
            yield batch
            last = batch

    def keep(self, name: str) -> int:
        """Store the state as it is, unless no reader could go on from it; return how large it is."""
        state = self.state
        if self.barred or state.voided != self.voided:
            return 0
        try:
            kept = self.kept if name == LATEST else state.end
            data = orjson.dumps([_code(), tuple(self.before), self.seen.seq, kept, packed(state)])
            apart = max(APART_BYTES, TIMES * len(data))
            if name == LATEST or kept - self.kept >= apart:
                self._store(name, data)
                self.kept = kept
            self.due = self.kept + apart
        except _FAULTS:
            self.barred = True
            return 0
        return len(data)

    def _store(self, name: str, data: bytes) -> None:
        """Write a checkpoint, unless a text in it may be one that a redaction takes out of every file meanwhile.

        A redaction waits for this lock before it searches the files, and is known from before then on.
        """
        folder = self.log.folder / "cache" / FOLDER
        disk.make_folder(folder, durable=False)
        fd = disk.open_file(folder.with_name(LOCK), write=True, create=True)
        try:
            if not disk.try_lock(fd) or self.log.head().seq < self.state.seq:
                return
            self.barred = redact.owed(self.log.folder) is not None or _last_redaction(self.log, self.seen) > 0
            if not self.barred:
                disk.store(folder / name, sha256(data).hexdigest()[:_SUM_CHARS].encode() + data)
        finally:
            os.close(fd)


def keeper_of(log: Log) -> Keeper | None:
    """Return what reads a ledger from now on, None where nothing can be kept of it."""
    if not isinstance(log, JsonlLog) or not _is_long(log):
        return None
    # What was said before this is read is done or owed; what is owed is looked for behind it.
    seen = log.head()
    return None if seen == START else Keeper(log, seen, barred=redact.owed(log.folder) is not None)


def _is_long(log: JsonlLog) -> bool:
    """Say whether a ledger is longer than what is read again in any case."""
    try:
        return log.path.stat().st_size > TAIL_BYTES
    except OSError:
        return False


def _last_redaction(log: JsonlLog, after: Mark) -> int:
    """Return the last event behind a place that says that something was redacted, 0 without one."""
    return max((batch.last for batch in log.read(after) if redact.redacted_by(batch)), default=0)


# Reading


def playbook(log: Log, until: int | None = None) -> Playbook:
    """Return the playbook at the end of a ledger, or at an earlier moment, from the nearest checkpoint on.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    keeper = keeper_of(log)
    if keeper is None or keeper.barred:
        return _cold(log, keeper, until)
    found = _load(keeper.log, LATEST)
    if until is not None:
        return _at(keeper, found, until)
    state = None if found is None else _caught_up(keeper, found)
    return _cold(log, keeper) if state is None else state


def _at(keeper: Keeper, latest: Checkpoint | None, until: int) -> Playbook:
    """Return the playbook at a moment."""
    log = keeper.log
    if latest is None:
        # The first question of this ledger: the end is folded as well, so that the next ones find their places.
        _cold(log, keeper)
        latest = _load(log, LATEST)
    if latest is None or (redacted := _redacted(log, latest)) is None:
        return _cold(log, keeper, until)
    for name in _names(log, until):
        found = latest if name == LATEST else _load(log, name)
        if found is not None and redacted <= found.seen and found.state.seq <= until:
            state = _caught_up(keeper, found, until)
            if state is not None:
                return state
    return _cold(log, keeper, until)


def _names(log: JsonlLog, until: int) -> list[str]:
    """Return the checkpoints up to a moment, the nearest first; ``latest`` may lie behind it."""
    try:
        found = [path.name for path in (log.folder / "cache" / FOLDER).iterdir()]
    except OSError:
        found = []
    seqs = sorted((int(name) for name in found if name.isdigit() and int(name) <= until), reverse=True)
    return [LATEST, *map(str, seqs)]


def _redacted(log: JsonlLog, latest: Checkpoint) -> int | None:
    """Return the last event that says that something was redacted, 0 without one; None where nobody knows."""
    try:
        return max(latest.state.redacted, _last_redaction(log, latest.before))
    except DamagedLedgerError:
        return None


def _caught_up(keeper: Keeper, found: Checkpoint, until: int | None = None) -> Playbook | None:
    """Return what a checkpoint comes to further on; None where this ledger does not go on from it."""
    state = keeper.go_on(found)
    place, rewrites, begin = (state.seq, state.chain), state.rewrites, found.before.offset
    try:
        batches = decode(keeper.log.read(found.before))
        first = next(batches, None)
        if first is None or (first.last, first.chain) != place:
            return None
        state.latest_batch = first
        fold(PLAYBOOK, keeper.passing(batches, first), state, until)
    except DamagedLedgerError:
        # Whether it is damage, or the place lies in what was sealed since, is seen from the beginning.
        return None
    if state.rewrites != rewrites:
        return None
    if until is None and state.end - begin > max(TAIL_BYTES, found.bytes // _TAIL_PART):
        keeper.keep(LATEST)
    return state


def cold(log: Log, until: int | None = None) -> Playbook:
    """Return the playbook folded from the first event on, and store what that comes to on the way.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    return _cold(log, keeper_of(log), until)


def _cold(log: Log, keeper: Keeper | None, until: int | None = None) -> Playbook:
    if keeper is None:
        return fold_history(PLAYBOOK, lambda: decode(log.read()), until)
    keeper.state = Playbook()
    view = attrs.evolve(PLAYBOOK, start=keeper.begin)
    state = fold_history(view, lambda: keeper.passing(decode(log.read())), until)
    if until is None:
        keeper.keep(LATEST)
    return state


def _load(log: JsonlLog, name: str) -> Checkpoint | None:
    """Return a checkpoint that is whole and of this code, None where there is none."""
    try:
        data = disk.read_file(log.folder / "cache" / FOLDER / name)
        told = data[_SUM_CHARS:]
        if sha256(told).hexdigest()[:_SUM_CHARS].encode() != data[:_SUM_CHARS]:
            return None
        code, before, seen, kept, state = orjson.loads(told)
        return Checkpoint(Mark(*before), seen, kept, len(told), unpacked(state)) if code == _code() else None
    except _FAULTS:
        return None
