"""The scores of a project, folded out of its ledger. Every command that needs scores calls ``state_of``.

The cache saves most of the folding. A damaged cache costs time and changes no answer. Events before the
position of the cache are not read again: ``verify`` finds damage there.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
import weakref

import attrs

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, CannotWriteError, DamagedLedgerError
from tallybook.ledger.line import START, Position
from tallybook.ledger.storage import caches
from tallybook.projections.fold import fold, fold_history
from tallybook.projections.scores.playbook_health import SCORED_PLAYBOOK, is_measured
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces.history import moments
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.scores.cache.sessions import DamagedCacheError

try:
    from tallybook.projections.surfaces.scores.cache import store
except ImportError:
    # Some Pythons are built without SQLite.
    store = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from sqlite3 import Connection

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores, SessionStore
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project


@attrs.define
class _Reading:
    """One reading of a ledger for its scores.

    Attributes:
        project: The project.
        config: The configuration of its scores.
        log: The ledger.
        moment: The moment of the query; None for the end.
        begin: The position where reading began.
        before: The batch before the one that was read last; None where there is none.
        last: The batch that was read last; None before the first.
    """

    project: Project
    config: Config
    log: Log
    moment: Moment | None
    begin: Position = START
    before: Batch | None = None
    last: Batch | None = None

    @property
    def until(self) -> int | None:
        """Return the number of the last event to read, None for all of them."""
        return None if self.moment is None else self.moment.seq

    @property
    def position(self) -> Position:
        """Return the position before the batch that was read last."""
        batch = self.before
        return self.begin if batch is None else Position(batch.last, batch.chain, batch.end)

    def all_batches(self) -> Iterator[Batch]:
        """Yield the batches from the beginning."""
        # Scores are those of the own ledger, with or without a shared book.
        moment = self.moment
        return self._read(self.log.read() if moment is None or not moment.commit else moment.read(), START)

    def batches_after(self, position: Position) -> Iterator[Batch]:
        """Yield the batches after a position."""
        return self._read(self.log.read(position), position)

    def _read(self, batches: Iterable[RawBatch], begin: Position) -> Iterator[Batch]:
        self.begin, self.before, self.last = begin, None, None
        for batch in decode(batches):
            self.before, self.last = self.last, batch
            yield batch

    def cache_folder(self) -> Path:
        """Return the folder of the cache.

        Raises:
            CannotWriteError: This user has none for this ledger.
        """
        folder = caches.find_folder(self.project.ledger)
        if folder is None:
            raise CannotWriteError("cache", "there is no folder for it")
        return Path(folder)


def state_of(project: Project, config: Config, when: str | Moment | None = None) -> Scores:
    """Return the scores of a project, counted, now or as of a moment.

    Args:
        project: The project.
        config: The configuration of its scores.
        when: The moment; None for the end of the ledger.

    Raises:
        TallybookError: The ledger is damaged or cannot be read, or there is no such moment.
    """
    moment = moments.find(project, when) if isinstance(when, str) else when
    if moment is not None and moment.in_book is not None:
        where, hint = f"--at book:{moment.in_book}", "use an event number of this machine, a date or an age"
        raise BadInputError(where, "is a moment of the book, and scores are of this machine", hint)
    reading = _Reading(project, config, open_own_log(project), moment)
    for way in _ways(reading):
        with suppress(*store.FAULTS):
            return way(reading)
    return _in_memory(reading, reading.until)


def _ways(reading: _Reading) -> tuple[Callable[[_Reading], Scores], ...]:
    """Return the ways to the scores, the fastest first; where one fails, the next is tried."""
    if store is None:
        return ()
    if not reading.log.exists() or (reading.moment is not None and reading.moment.commit):
        return (_without_cache,)
    # The cache holds the end of the ledger. A state as of a later moment is not stored.
    return (_from_cache, _without_cache) if reading.moment is not None else (_stored, _from_cache, _without_cache)


def _in_memory(reading: _Reading, until: int | None) -> Scores:
    return fold_history(scores_view(reading.config), reading.all_batches, until).count()


def _without_cache(reading: _Reading) -> Scores:
    """Fold all of history into a temporary database, so that many sessions take little memory."""
    database = store.create_temporary()
    return _fold_guarded(reading, database, lambda: _fold_all(reading, database))


def _from_cache(reading: _Reading) -> Scores:
    """Go on from the cache and leave it as it is.

    Raises:
        DamagedCacheError: It is missing or damaged, is not of this ledger, or lies after the moment.
    """
    database = store.connect(reading.cache_folder(), writable=False)
    return _fold_guarded(reading, database, lambda: _catch_up(reading, database, writable=False))


def _stored(reading: _Reading) -> Scores:
    """Go on from the cache, or from the beginning, and store the result."""
    folder = reading.cache_folder()
    caches.make_folder(folder, reading.project.ledger)
    with store.lock(folder):
        try:
            database = store.connect(folder, writable=True)
            return _fold_guarded(reading, database, lambda: _catch_up(reading, database, writable=True))
        except store.DAMAGE as error:
            if store.is_temporary(error):
                raise
        empty = store.create(folder)
        return _fold_guarded(reading, empty, lambda: _save(reading, empty, _fold_all(reading, empty)))


def _fold_guarded(reading: _Reading, database: Connection, fold_scores: Callable[[], Scores]) -> Scores:
    """Return a state whose sessions are in a database; the database is closed when the state is dropped."""
    try:
        state = fold_scores()
    except BaseException:
        database.close()
        raise
    weakref.finalize(state.sessions, database.close)
    state.sessions = _GuardedSessions(state.sessions, reading, state.seq)
    return state


def _fold_all(reading: _Reading, database: Connection) -> Scores:
    view = scores_view(reading.config, partial(store.start, database, reading.config))
    return fold_history(view, reading.all_batches, reading.until).count()


def _catch_up(reading: _Reading, database: Connection, *, writable: bool) -> Scores:
    """Fold from the end of the cache on.

    Raises:
        DamagedCacheError: It is damaged, or this ledger does not go on from it.
    """
    state, before = store.load(database, reading.config, writable=writable)
    seq, rewrites = state.seq, state.rewrites
    if reading.until is not None and seq > reading.until:
        raise DamagedCacheError
    try:
        batches = reading.batches_after(before)
        # The last batch is read again: it proves that the ledger is the same, and has the time of the state.
        state.latest_batch = next(batches, None)
        if state.latest_batch is None or (state.latest_batch.last, state.latest_batch.chain) != (seq, state.chain):
            raise DamagedCacheError
        state = fold(scores_view(reading.config), _with_playbook(reading, state, batches), state, reading.until)
        state.count()
    except DamagedLedgerError as error:
        # The ledger is damaged, or the position is in a part that was sealed since. Folding all of history shows which.
        raise DamagedCacheError from error
    if state.rewrites != rewrites:
        raise DamagedCacheError
    return _save(reading, database, state) if writable and state.seq != seq else state


def _with_playbook(reading: _Reading, state: Scores, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches after a stored state; before the first one, give it the playbook where that is scored.

    The playbook is folded from the ledger: its texts must not be in a file in which no redaction finds them.
    """
    for number, batch in enumerate(batches):
        if not number and is_measured(reading.config):
            state.playbook = fold_history(SCORED_PLAYBOOK, lambda: decode(reading.log.read()), state.seq)
        yield batch


def _save(reading: _Reading, database: Connection, state: Scores) -> Scores:
    """Store a state, unless its end is not acknowledged yet, or more was read than is in it."""
    last = reading.last
    if last is not None and (last.last, last.chain) == (state.seq, state.chain) and reading.log.head().seq >= state.seq:
        store.save(database, state, reading.position)
    return state


class _GuardedSessions:
    """Stored sessions; once one turns out to be damaged, the sessions folded from the ledger."""

    def __init__(self, stored: SessionStore, reading: _Reading, seq: int) -> None:
        """Take the stored sessions as of an event, and the reading that they come from."""
        self._sessions = stored
        self._reading = reading
        self._seq = seq

    def _fold_again(self) -> None:
        """Delete a damaged cache, and go on with sessions in memory."""
        with suppress(CannotWriteError):
            store.discard(self._reading.cache_folder())
        self._sessions = _in_memory(self._reading, self._seq).sessions

    def get(self, id_: str, /) -> Session | None:
        """Return a session, None where there is none of this id."""
        try:
            return self._sessions.get(id_)
        except store.FAULTS:
            self._fold_again()
            return self._sessions.get(id_)

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Store a session that was changed."""
        self._sessions[id_] = session

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first."""
        count = 0
        try:
            for session in self._sessions.latest():
                yield session
                count += 1
        except store.FAULTS:
            self._fold_again()
            yield from islice(self._sessions.latest(), count, None)
