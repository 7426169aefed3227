"""A project's ledger, opened, and the state of its views, folded from the nearest checkpoint on.

A checkpoint is a saved state of a view, from which a fold goes on instead of reading all of history. Each view has a
folder of them. ``latest`` is near the end of the ledger, the others are named after event numbers and serve time
travel. A checkpoint is the state after one batch and is bound to it by its event number and chain value: that batch is
read again before the state is used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeGuard, TypeVar, cast

import attrs

from tallybook.ledger.backends import table
from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import START, Position
from tallybook.projections.fold import State, fold, fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.console.output import METER
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.history.cache_files import FAULTS, CacheFiles, Reading, last_redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.fold import View
    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog
    from tallybook.projections.surfaces.workspace.project import Project

S = TypeVar("S", bound=State)

LATEST: Final = "latest"
TIMES: Final = 8
"""The distance between two checkpoints, in their own size: so all of them stay a small part of the ledger."""
_TAIL_PART: Final = 8
"""``latest`` is written anew when the ledger has grown by this part of its size: writing it takes time, too."""
_MODULES: Final = (
    "tallybook.ledger.encoding.codec",
    "tallybook.projections.playbook.checkpoint",
    "tallybook.projections.fold",
)
"""What decides the state of a playbook, with the modules that these import."""


@attrs.frozen
class Form(Generic[S]):
    """How the state of a view is stored in checkpoints.

    Attributes:
        name: Name of the folder of its checkpoints.
        view: The view.
        pack: Returns a state after a batch as JSON values.
        unpack: Returns the state of such values, without the batch folded last; raises ValueError, TypeError or
            KeyError for other values.
        book: Returns the playbook in a state.
        sources: Modules, besides the playbook's, whose code decides the state; a change of it makes checkpoints stale.
        spacing: Factor on the usual distance between the checkpoints along the log, which serve time travel.
    """

    name: str
    view: View[S]
    pack: Callable[[S], dict[str, Any]]
    unpack: Callable[[Mapping[str, Any]], S]
    book: Callable[[S], Playbook]
    sources: tuple[str, ...] = ()
    spacing: int = 1


PLAYBOOK_FORM: Final[Form[Playbook]] = Form("playbook", PLAYBOOK, pack, unpack, lambda state: state)


def open_log(project: Project) -> JsonlLog:
    """Return the project's ledger, with the shared book in it if it has one; nothing is created yet."""
    log = open_own_log(project)
    if log.is_shared():
        from tallybook.projections.surfaces.sharing.shared_log import SharedLog

        log = SharedLog(project.ledger, log.now)
        log.watch = METER.watcher
    return log


def open_own_log(project: Project) -> JsonlLog:
    """Return the project's own ledger alone, for what no book shares; nothing is created yet."""
    log = table.open_log(project.ledger)
    log.watch = METER.watcher
    return log


def batches(project: Project) -> Iterator[Batch]:
    """Yield the ledger's batches."""
    return decode(open_log(project).read())


def position_of(state: State) -> Position:
    """Return the position after what a state has folded."""
    return Position(state.seq, state.chain, state.end) if state.seq else START


def current(log: Log, until: int | None = None, *, cold: bool = False) -> Playbook:
    """Return the playbook at the end of the ledger or as of a moment, as ``fold_view``."""
    return fold_view(PLAYBOOK_FORM, log, until, cold=cold)


def fold_view(form: Form[S], log: Log, until: int | None = None, *, cold: bool = False) -> S:
    """Return the state of a view at the end of a ledger or as of a moment, from the nearest checkpoint on.

    Args:
        form: The view, and how its state is saved.
        log: The ledger.
        until: The moment, as for ``fold``; None for the end.
        cold: Whether to fold from the first event on and use no checkpoint; new ones are stored all the same.

    Raises:
        TallybookError: The ledger is damaged or cannot be read.
    """
    if log_with_book(log):
        return _fold_shared(form, log, until)
    checkpointer = checkpointer_of(log, form)
    state: S | None = None
    if checkpointer is not None and not (cold or checkpointer.stopped):
        state = _resume(checkpointer, until)
    return _fold_all(form.view, log, checkpointer, until) if state is None else state


def log_with_book(log: Log) -> TypeGuard[SharedLog]:
    """Return whether a ledger has a shared book in it."""
    return isinstance(log, JsonlLog) and type(log) is not JsonlLog


def _fold_shared(form: Form[S], log: SharedLog, until: int | None) -> S:
    """Return the state of a view of a ledger with a book in it, as of a moment of the own ledger.

    Only the playbook goes on from a checkpoint, which is one of the book alone.
    """
    log = log if until is None else log.at(until)
    if form.view is PLAYBOOK:
        if until is not None and not log.history.frontier.number:
            # Before the ledger was in a book.
            return fold_view(form, log.own, until)
        return cast("S", log.playbook())
    state = fold_history(form.view, lambda: decode(log.read()))
    log.stamp(state, form.book(state))
    return state


def catch_up(log: JsonlLog, state: Playbook) -> Playbook:
    """Return a state folded to the end of the ledger; anew where what it has folded was redacted or undone since."""
    if log_with_book(log):
        return log.refreshed().playbook()
    rewrites, prefix = state.rewrites, state.prefix
    state = fold(PLAYBOOK, decode(log.read(position_of(state))), state)
    if state.rewrites != rewrites:
        state = fold_history(PLAYBOOK, lambda: decode(log.read(START)))
    state.prefix = prefix
    return state


# Checkpoints


class Checkpoint(NamedTuple):
    """A saved state and the position that it is bound to.

    Attributes:
        before: The position before the last batch in it. That batch is read again, which proves the ledger is the same.
        head: Event number at which the ledger ended when it was read: a redaction after it is not in the state.
        previous: Offset of the ledger at the checkpoint before it.
        size: Its size in bytes.
        state: The state, without that batch.
    """

    before: Position
    head: int
    previous: int
    size: int
    state: Any


def modules_of(form: Form[Any]) -> tuple[str, ...]:
    """Return the modules that decide the state of a view; those that they import count as well."""
    return (*_MODULES, *form.sources)


@attrs.define
class Checkpointer:
    """One fold of a ledger, which stores checkpoints on the way.

    Attributes:
        form: The view, and how its state is saved.
        reading: The reading of the ledger.
        state: The state that is being folded.
        stopped: Whether nothing more may be stored: a redaction is unfinished, or the disk refuses.
        before: The position before the batch folded last, or the batch that ends there.
        voided: The last undoing that this fold knows from its beginning: after a later one history is folded anew.
        previous: Offset of the ledger at the last checkpoint.
        due: Offset of the ledger at which the next one is stored.
    """

    form: Form[Any]
    reading: Reading
    state: Any
    stopped: bool
    before: Position | Batch = START
    voided: int = 0
    previous: int = 0
    due: int = cache_files.APART_BYTES

    @property
    def files(self) -> CacheFiles:
        """Return the files of its checkpoints."""
        return CacheFiles(self.form.name, modules_of(self.form))

    @property
    def book(self) -> Playbook:
        """Return the playbook in the state."""
        return self.form.book(self.state)

    def begin(self) -> Any:
        """Return the state before the first event. Called again where history is folded a second time."""
        self.voided, self.state = self.book.last_undo, self.form.view.start()
        self.before, self.previous, self.due = START, 0, self._distance(0)
        return self.state

    def resume(self, checkpoint: Checkpoint) -> Any:
        """Return the state of a checkpoint, to be folded further."""
        self.state = checkpoint.state
        self.voided = self.book.last_undo
        self.before, self.previous = checkpoint.before, checkpoint.previous
        self.due = checkpoint.previous + self._distance(checkpoint.size)
        return self.state

    def _distance(self, size: int) -> int:
        """Return how many bytes of the ledger lie between a checkpoint of some size and the one before it."""
        return self.form.spacing * max(cache_files.APART_BYTES, TIMES * size)

    def watch(self, batches: Iterable[Batch], last: Batch | None = None) -> Iterator[Batch]:
        """Yield batches and store checkpoints: when the next batch is requested, the one before it is folded."""
        for batch in batches:
            if last is not None:
                # Every fold runs through here, so only the offset of a batch is looked at.
                if batch.begin >= self.due:
                    self.store(str(last.last))
                self.before = last
            yield batch
            last = batch

    def store(self, name: str) -> None:
        """Store the state under a name, unless no reader could go on from it."""
        state, before = self.state, self.before
        # An undoing that this fold did not know at its beginning leaves undone events in the state.
        if self.stopped or self.book.last_undo != self.voided:
            return
        try:
            position = before if isinstance(before, Position) else Position(before.last, before.chain, before.end)
            previous = self.previous if name == LATEST else state.end
            body = dumps(self.form.pack(state)).encode()
            distance = self._distance(len(body))
            if name == LATEST or previous - self.previous >= distance:
                header = [position, self.reading.head.seq, previous]
                self.stopped = not self.files.write(self.reading, state.seq, name, header, body)
                self.previous = previous
            self.due = self.previous + distance
        except FAULTS:
            self.stopped = True


def checkpointer_of(log: Log, form: Form[Any]) -> Checkpointer | None:
    """Return what folds a ledger from now on, None where no checkpoints are stored of it."""
    reading = Reading.of(log)
    return None if reading is None else Checkpointer(form, reading, form.view.start(), reading.is_redacting)


def _resume(checkpointer: Checkpointer, until: int | None) -> Any:
    """Return a state folded from a checkpoint on, None where none can be used."""
    latest = _load(checkpointer, LATEST)
    if until is None:
        return None if latest is None else _continue(checkpointer, latest)
    log = checkpointer.reading.log
    if latest is None:
        # The first question about this ledger: the end is folded as well, so that later ones find checkpoints.
        _fold_all(checkpointer.form.view, log, checkpointer)
        latest = _load(checkpointer, LATEST)
    if latest is None:
        return None
    try:
        redacted = max(checkpointer.form.book(latest.state).last_redaction, last_redaction(log, latest.before))
    except DamagedLedgerError:
        return None
    for name in _names(checkpointer, until):
        checkpoint = latest if name == LATEST else _load(checkpointer, name)
        if checkpoint is not None and redacted <= checkpoint.head and checkpoint.state.seq <= until:
            state = _continue(checkpointer, checkpoint, until)
            if state is not None:
                return state
    return None


def _names(checkpointer: Checkpointer, until: int) -> list[str]:
    """Return the checkpoints up to a moment, the nearest first; ``latest`` may lie after it."""
    names = checkpointer.files.names(checkpointer.reading.log)
    seqs = sorted((int(name) for name in names if name.isdigit() and int(name) <= until), reverse=True)
    return [LATEST, *map(str, seqs)]


def _continue(checkpointer: Checkpointer, checkpoint: Checkpoint, until: int | None = None) -> Any:
    """Return the state of a checkpoint folded further; None where this ledger does not go on from it."""
    state = checkpointer.resume(checkpoint)
    position, rewrites = (state.seq, state.chain), checkpointer.book.rewrites
    try:
        batches = decode(checkpointer.reading.log.read(checkpoint.before))
        first = next(batches, None)
        if first is None or (first.last, first.chain) != position:
            return None
        state.latest_batch = first
        fold(checkpointer.form.view, checkpointer.watch(batches, first), state, until)
    except DamagedLedgerError:
        # The ledger is damaged, or the position lies in a part that was sealed since. A fold from the first event says.
        return None
    if checkpointer.book.rewrites != rewrites:
        return None
    if until is None and state.end - checkpoint.before.offset > max(
        cache_files.TAIL_BYTES, checkpoint.size // _TAIL_PART
    ):
        checkpointer.store(LATEST)
    return state


def _fold_all(view: View[S], log: Log, checkpointer: Checkpointer | None, until: int | None = None) -> S:
    """Return the state folded from the first event on, and store checkpoints on the way."""
    if checkpointer is None:
        return fold_history(view, lambda: decode(log.read()), until)
    checkpointer.state = view.start()
    storing_view = attrs.evolve(view, start=checkpointer.begin)
    state = fold_history(storing_view, lambda: checkpointer.watch(decode(log.read())), until)
    if until is None:
        checkpointer.store(LATEST)
    return state


def _load(checkpointer: Checkpointer, name: str) -> Checkpoint | None:
    """Return a checkpoint, None where there is none that can be used."""
    content = checkpointer.files.read(checkpointer.reading.log, name)
    if content is None:
        return None
    try:
        (before, head, previous), body = content
        state = checkpointer.form.unpack(json.loads(body))
        return Checkpoint(Position(*before), head, previous, len(body), state)
    except FAULTS:
        return None
