"""The database of the cache, ``scores.sqlite3``: a state of the view of scores, and its position in the ledger.

It may be deleted at any time. Damage of it costs time and changes no answer: each row has a checksum, for
SQLite notices few of the bits that change in a file. Changes are written in one transaction together with the position
that they belong to, under a lock of their own, so that a reader never sees half of them.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import os
import sqlite3
import stat
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.storage import disk
from tallybook.projections.scores.periods import Tally  # noqa: TC001 - msgspec reads the annotations
from tallybook.projections.scores.view import Baseline, Scores
from tallybook.projections.surfaces.history.cache_files import code_digest
from tallybook.projections.surfaces.scores.cache import sessions
from tallybook.projections.surfaces.scores.cache.sessions import DamagedCacheError, SessionTable, checksum
from tallybook.projections.surfaces.scores.configuration import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.scores.configuration.model import Config

NAME: Final = "scores.sqlite3"
LOCK: Final = f"{NAME}.lock"
COMPANIONS: Final = ("-journal", "-wal", "-shm")
"""What SQLite puts next to a database: the ends of the names."""
WAIT_S: Final = 0.25
"""How long one process waits for another that reads or writes at that moment."""

TABLES: Final = ("CREATE TABLE state (no INTEGER PRIMARY KEY, data BLOB, sum INTEGER)", *sessions.TABLES)
_SETTINGS: Final = (
    "PRAGMA cell_size_check = ON",
    # Nothing that was deleted stays in the file, so no damage brings back an earlier version of a row.
    "PRAGMA secure_delete = ON",
    # Ids have no order, so pages that many sessions share stay in memory while they are written.
    "PRAGMA page_size = 16384",
    "PRAGMA cache_size = -16384",
)
_MODULES: Final = (
    "tallybook.ledger.encoding.codec",
    "tallybook.projections.scores.view",
    "tallybook.projections.fold",
    "tallybook.projections.surfaces.scores.cache.sessions",
)
"""The modules that decide a state of scores, together with those that they import."""
_SCORING: Final = ("session_weights", "sessions", "benchmarks", "feedback", "components", "timezone")
"""The parts of the configuration that decide a score. The others only show the same scores in another way."""

DAMAGE: Final = (sqlite3.Error, DamagedCacheError, UnicodeDecodeError)
"""The errors of a damaged cache; sqlite3 cannot always say what is wrong with a file."""
FAULTS: Final = (*DAMAGE, CannotWriteError, OSError, MemoryError)
"""All errors of using the cache. The caller then works without it."""

_TEMPORARY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}


@attrs.frozen
class _Saved:
    """A state of scores without its sessions, as JSON.

    Attributes:
        made_by: Digests of the configuration and of the code.
        before: The position before the last batch in it.
        counts: As in ``SessionTable``.
        seq: As in ``Scores``, like all that follow: the number of the last event.
        chain: Chain value there.
        days: Day → scores.
        versions: Version → scores.
        baselines: Score → baseline.
        last_at: When the last of all this happened.
        unscored: Reason → number of events.
        rewrites: How often earlier events were redacted or undone.
    """

    made_by: str
    before: tuple[int, str, int]
    counts: dict[str, int]
    seq: int
    chain: str
    days: dict[str, Tally]
    versions: dict[str, Tally]
    baselines: dict[str, Baseline]
    last_at: str
    unscored: dict[str, int]
    rewrites: int


_FIELDS: Final = ("seq", "chain", "days", "versions", "baselines", "last_at", "unscored", "rewrites")
"""The fields that `_Saved` shares with ``Scores``."""


def _made_by(config: Config) -> str:
    return f"{code_digest(*_MODULES)} {as_json(config, _SCORING)}"


def is_temporary(error: Exception) -> bool:
    """Return whether an error is temporary and no damage: another process uses the cache, or the disk is full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _TEMPORARY


# Opening


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the right to write the cache in a folder.

    Raises:
        CannotWriteError: Another process holds it, or the lock file cannot be opened.
    """
    fd = disk.open_file(folder / LOCK, write=True, create=True)
    try:
        if not disk.try_lock(fd):
            raise CannotWriteError(folder / LOCK, "another process writes the cache")
        yield
    finally:
        os.close(fd)


def connect(folder: Path, *, writable: bool) -> sqlite3.Connection:
    """Open the cache in a folder and see it as it is now, whatever others write later.

    Raises:
        DamagedCacheError: There is none, or a link or something else is in its place.
    """
    path = folder / NAME
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(folder.lstat().st_mode) and stat.S_ISREG(path.lstat().st_mode):
            return _open(f"{path.absolute().as_uri()}?mode={'rw' if writable else 'ro'}")
    raise DamagedCacheError


def create(folder: Path) -> sqlite3.Connection:
    """Create an empty cache in a folder, in place of one that is there.

    Raises:
        CannotWriteError, OSError: It cannot be created.
    """
    path = _remove(folder)
    os.close(disk.create_file(path))
    return _open(f"{path.absolute().as_uri()}?mode=rw")


def create_temporary() -> sqlite3.Connection:
    """Create an empty cache in a file without a name, which disappears with the connection."""
    return _open("", "PRAGMA journal_mode = OFF")


def discard(folder: Path) -> None:
    """Delete a damaged cache; where that fails, the next reader finds the damage again."""
    with suppress(*FAULTS), lock(folder):
        _remove(folder)


def _remove(folder: Path) -> Path:
    """Delete a cache and return its path."""
    path = folder / NAME
    # The database is removed first: SQLite would take a journal that a killed process left for one of the new database.
    for file in (path, *(path.with_name(NAME + end) for end in COMPANIONS)):
        file.unlink(missing_ok=True)
    return path


def _open(uri: str, *settings: str) -> sqlite3.Connection:
    # A state may be dropped in another thread than the one that created it.
    database = sqlite3.connect(uri, timeout=WAIT_S, isolation_level=None, check_same_thread=False, uri=True)
    try:
        for setting in (*_SETTINGS, *settings):
            database.execute(setting)
        _begin(database)
    except BaseException:
        database.close()
        raise
    return database


def _begin(database: sqlite3.Connection) -> None:
    """Begin a transaction, which sees the database as it is now. Sessions are read from it until it is closed."""
    database.execute("BEGIN")
    database.execute("SELECT count(*) FROM sqlite_master").fetchone()


# States


def start(database: sqlite3.Connection, config: Config) -> Scores:
    """Return the state before the first event, in a database of which everything else is removed."""
    for name in ("state", "sessions"):
        database.execute(f"DROP TABLE IF EXISTS {name}")
    database.execute(TABLES[0])
    return Scores(config=config, sessions=SessionTable.create(database))


def load(database: sqlite3.Connection, config: Config, *, writable: bool) -> tuple[Scores, Position]:
    """Return the stored state, and the position before the last batch in it.

    Raises:
        DamagedCacheError: It is damaged, or belongs to another configuration or to other code.
        sqlite3.Error: It is not a database.
    """
    schema = database.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if sorted(schema) != sorted((table.encode(),) for table in TABLES):
        raise DamagedCacheError
    data, stored_sum = database.execute("SELECT data, sum FROM state").fetchone() or (None, None)
    if type(data) is not bytes or checksum(data) != stored_sum:
        raise DamagedCacheError
    try:
        saved = msgspec.json.decode(data, type=_Saved)
    except msgspec.ValidationError as error:
        # Other code wrote it.
        raise DamagedCacheError from error
    if saved.made_by != _made_by(config):
        raise DamagedCacheError
    fields = {name: getattr(saved, name) for name in _FIELDS}
    state = Scores(config=config, sessions=SessionTable(database, saved.counts, writable=writable), **fields)
    return state, Position(*saved.before)


def save(database: sqlite3.Connection, state: Scores, before: Position) -> None:
    """Store a state, which others see from now on.

    Args:
        database: The database that has its sessions.
        state: The state, counted.
        before: The position before the last batch in it.

    Raises:
        sqlite3.Error: The disk refuses, or others read for too long; what was stored before stays.
    """
    fields = {name: getattr(state, name) for name in _FIELDS}
    saved = _Saved(_made_by(state.config), before[:3], state.sessions.counts, **fields)
    data = msgspec.json.encode(saved)
    database.execute("INSERT OR REPLACE INTO state VALUES (1, ?, ?)", (data, checksum(data)))
    database.execute("COMMIT")
    _begin(database)
