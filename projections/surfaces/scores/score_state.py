"""Where everything gets its scores from: the one function that folds them out of a project's ledger.

The cache saves it most of the way. Whatever is wrong there changes how long it takes, and never the answer; only that
what lies before the cache's place is not read again, so damage there is ``verify``'s to find.
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
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.line import START, Position
from tallybook.ledger.storage import caches
from tallybook.projections.fold import fold
from tallybook.projections.scores.playbook_health import ADVICE, is_measured
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores.cache.sessions import UnfitError
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from sqlite3 import Connection

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import Log
    from tallybook.ledger.records import Batch
    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores, Shelf
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project


@attrs.define
class _Question:
    """Whose scores are asked for.

    Attributes:
        project: Whose ledger.
        config: What scores are made of.
        log: The ledger.
        moment: The moment asked for; None for the end.
        before: The place before the batch that was read last.
        last: The place behind it.
    """

    project: Project
    config: Config
    log: Log
    moment: Moment | None
    before: Position = START
    last: Position = START

    @property
    def until(self) -> int | None:
        """Return the last event that is asked for, None for all of them."""
        return None if self.moment is None else self.moment.seq

    def history(self) -> Iterator[Batch]:
        """Yield history from the beginning."""
        self.before = self.last = START
        return decode(self._noted(self.log.read() if self.moment is None else self.moment.read()))

    def behind(self, mark: Position) -> Iterator[Batch]:
        """Yield history behind a place."""
        self.before = self.last = mark
        return decode(self._noted(self.log.read(mark)))

    def _noted(self, batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
        for raw in batches:
            self.before, self.last = self.last, Position(raw.last, raw.chain, raw.end)
            yield raw


def state_of(project: Project, config: Config, when: str | Moment | None = None) -> Scores:
    """Return the scores of a project, counted, now or as they stood.

    Args:
        project: Whose ledger.
        config: What scores are made of.
        when: The moment; None for the end of the ledger.

    Raises:
        TallybookError: The ledger is damaged or cannot be read, or there is no such moment.
    """
    from tallybook.projections.surfaces.history import moments

    moment = moments.find(project, when) if isinstance(when, str) else when
    question = _Question(project, config, open_log(project), moment)
    try:
        from tallybook.projections.surfaces.scores.cache import store
    except ImportError:
        # Some Pythons are built without SQLite.
        return _plain(question, question.until)
    for way in _ways(question):
        with suppress(*store.FAULTS):
            return way(question)
    return _plain(question, question.until)


def _ways(question: _Question) -> tuple[Callable[[_Question], Scores], ...]:
    """Return the ways to an answer, the quickest first; each fails without a trace, and the next is taken."""
    if not question.log.exists() or (question.moment is not None and question.moment.commit):
        return (_spilled,)
    # A moment is asked for once and never again, and the cache is of the end.
    return (_seen, _spilled) if question.moment is not None else (_stored, _seen, _spilled)


def _plain(question: _Question, until: int | None) -> Scores:
    """Fold in memory."""
    return fold_history(scores_view(question.config), question.history, until).count()


def _spilled(question: _Question) -> Scores:
    """Fold in a file without a name, which goes with the state, so that sessions need no memory."""
    from tallybook.projections.surfaces.scores.cache import store

    database = store.begun(None)
    return _kept(question, database, lambda: _built(question, database))


def _seen(question: _Question) -> Scores:
    """Go on from the cache, and leave it as it is.

    Raises:
        UnfitError: There is none that this ledger goes on from, or it lies behind the moment.
    """
    from tallybook.projections.surfaces.scores.cache import store

    database = store.opened(_folder(question))
    return _kept(question, database, lambda: _caught_up(question, database, writable=False))


def _stored(question: _Question) -> Scores:
    """Go on from the cache, or from the beginning, and store what that comes to."""
    from tallybook.projections.surfaces.scores.cache import store

    folder = _folder(question)
    caches.make_folder(folder, question.project.ledger)
    with store.writing(folder):
        try:
            database = store.opened_to_write(folder)
            return _kept(question, database, lambda: _caught_up(question, database, writable=True))
        except store.DAMAGE as error:
            if store.will_pass(error):
                raise
        anew = store.begun(folder)
        return _kept(question, anew, lambda: _saved(question, anew, _built(question, anew)))


def _folder(question: _Question) -> Path:
    """Return the folder of the cache.

    Raises:
        CannotWriteError: This user has none for this ledger.
    """
    folder = caches.find_folder(question.project.ledger)
    if folder is None:
        raise CannotWriteError("cache", "there is not a folder for it")
    return Path(folder)


def _kept(question: _Question, database: Connection, folded: Callable[[], Scores]) -> Scores:
    """Return a state whose sessions stand in a database, which is closed when the state goes."""
    try:
        state = folded()
    except BaseException:
        database.close()
        raise
    # A connection that is merely dropped is complained of.
    weakref.finalize(state.sessions, database.close)
    seq = state.seq
    state.sessions = _Sure(state.sessions, lambda: _again(question, seq))
    return state


def _built(question: _Question, database: Connection) -> Scores:
    """Fold from the beginning."""
    from tallybook.projections.surfaces.scores.cache import store

    view = scores_view(question.config, partial(store.fresh, database, question.config))
    return fold_history(view, question.history, question.until).count()


def _caught_up(question: _Question, database: Connection, *, writable: bool) -> Scores:
    """Fold on from where a cache ends.

    Raises:
        UnfitError: It is none that this ledger goes on from.
    """
    from tallybook.projections.surfaces.scores.cache import store

    state, before = store.load(database, question.config, writable=writable)
    seq, rewrites = state.seq, state.rewrites
    if question.until is not None and seq > question.until:
        raise UnfitError
    try:
        batches = question.behind(before)
        # The last batch is read once more: it proves that this is the ledger, and says when that was.
        state.latest_batch = next(batches, None)
        if state.latest_batch is None or (state.latest_batch.last, state.latest_batch.chain) != (seq, state.chain):
            raise UnfitError
        state = fold(scores_view(question.config), _with_advice(question, state, batches), state, question.until)
        state.count()
    except DamagedLedgerError as error:
        # Whether it is, or the place lies in what was sealed since, is seen from the beginning.
        raise UnfitError from error
    if state.rewrites != rewrites:
        raise UnfitError
    if not writable:
        return state
    if state.seq == seq:
        store.look_on(database)
        return state
    return _saved(question, database, state)


def _with_advice(question: _Question, state: Scores, batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield what comes behind a state that was kept, once it knows the playbook again where that is scored.

    It is folded anew from the ledger: its texts must not stand where no redaction finds them.
    """
    for number, batch in enumerate(batches):
        if not number and is_measured(question.config):
            state.advice = fold_history(ADVICE, lambda: decode(question.log.read()), state.seq)
        yield batch


def _saved(question: _Question, database: Connection, state: Scores) -> Scores:
    """Store a state, unless its end may yet be lost or it was read past."""
    from tallybook.projections.surfaces.scores.cache import store

    last = question.last
    if state.seq and (last.seq, last.chain) == (state.seq, state.chain) and question.log.head().seq >= state.seq:
        store.save(database, state, question.before)
        store.commit(database)
    return state


def _again(question: _Question, seq: int) -> Shelf:
    """Return the sessions of a state that turned out to be damaged, and see to it that nobody meets it again."""
    from tallybook.projections.surfaces.scores.cache import store

    with suppress(CannotWriteError):
        store.discard(_folder(question))
    sessions: Shelf = _plain(question, seq).sessions
    return sessions


class _Sure:
    """Sessions as they were kept, or, where that turns out to be damaged, as the ledger has them."""

    def __init__(self, kept: Shelf, again: Callable[[], Shelf]) -> None:
        """Take what was kept, and what tells it again."""
        self._kept = kept
        self._again = again

    def get(self, id_: str, /) -> Session | None:
        """Return a session, None where there is none of this id."""
        from tallybook.projections.surfaces.scores.cache import store

        try:
            return self._kept.get(id_)
        except store.FAULTS:
            self._kept = self._again()
            return self._kept.get(id_)

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Keep a session that was changed."""
        self._kept[id_] = session

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first."""
        from tallybook.projections.surfaces.scores.cache import store

        given = 0
        try:
            for session in self._kept.latest():
                yield session
                given += 1
        except store.FAULTS:
            self._kept = self._again()
            yield from islice(self._kept.latest(), given, None)
