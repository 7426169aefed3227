"""The cache of scores, ``scores.sqlite3``: a state of the view of scores, and the place in the ledger it is of.

It may be deleted at any time, and whatever is wrong with it costs time and nothing else. Everything in it is proven
before it is used: the one row that says what it is of by its own checksum, everything else by what that row says. What
changes is written in one transaction under a lock of its own, beside the place that it is of, so that nobody sees half.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from hashlib import sha256
import os
from pathlib import Path
import sqlite3
import stat
import sys
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from tallybook import projections
from tallybook.ledger import kinds
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Position
from tallybook.ledger.storage import disk
from tallybook.projections import scores
from tallybook.projections.scores.view import Scores
from tallybook.projections.surfaces.scores.cache import periods as kept
from tallybook.projections.surfaces.scores.cache import rows
from tallybook.projections.surfaces.scores.cache import sessions as shelf
from tallybook.projections.surfaces.scores.cache.periods import Kept
from tallybook.projections.surfaces.scores.cache.sessions import Index, Shelf, UnfitError, proven

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.scores.configuration.model import Config

NAME: Final = "scores.sqlite3"
LOCK: Final = f"{NAME}.lock"
BESIDE: Final = ("-journal", "-wal", "-shm")
WAIT_S: Final = 0.25
"""How long one process waits for another that reads or writes at that moment."""

TABLES: Final = (
    "CREATE TABLE parts (name TEXT PRIMARY KEY, data BLOB)",
    "CREATE TABLE periods (kind INTEGER, name BLOB, data BLOB, PRIMARY KEY (kind, name)) WITHOUT ROWID",
    *shelf.TABLES,
)
_DROPS: Final = tuple(f"DROP TABLE IF EXISTS {name}" for name in ("parts", "periods", "sessions", "pieces"))
# Of usual ones a session leaves a seventh unused.
_PAGES: Final = "PRAGMA page_size = 16384"
_SUM_CHARS: Final = 8
_DAYS, _VERSIONS = range(2)

DAMAGE: Final = (sqlite3.Error, UnfitError, UnicodeDecodeError)
"""What a cache ends with that cannot be used; sqlite3 cannot always say what is wrong with a file."""
FAULTS: Final = (*DAMAGE, CannotWriteError, OSError, MemoryError)
"""What a cache can end with; none of it is the user's concern."""

_PASSING: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM}


# What a state depends on


def digest_of(config: Config) -> str:
    """Return what names everything beside the ledger that a state depends on: the configuration, and the code itself.

    A configuration that only shows the same scores otherwise has the same digest.
    """
    parts = ("session_weights", "sessions", "benchmark_weight", "feedback_weight", "components")
    told = {name: rows.plain(getattr(config, name)) for name in parts}
    hasher = sha256(msgspec.json.encode([told, str(config.zone), sys.byteorder]))
    for folder in (projections, scores, kinds):
        for path in sorted(Path(str(folder.__file__)).parent.glob("*.py")):
            hasher.update(path.read_bytes())
    for module in (kept, rows, shelf):
        hasher.update(Path(str(module.__file__)).read_bytes())
    return hasher.hexdigest()


def will_pass(error: Exception) -> bool:
    """Say whether an error says nothing against the cache: others use it at this moment, or the disk is full."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING


# Opening


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the right to write the cache in a folder.

    Raises:
        CannotWriteError: Another process has it, or it cannot be taken.
    """
    fd = disk.open_file(folder / LOCK, write=True, create=True)
    try:
        if not disk.try_lock(fd):
            raise CannotWriteError(folder / LOCK, "another process writes the cache")
        yield
    finally:
        os.close(fd)


def opened(folder: Path) -> sqlite3.Connection:
    """Open a cache to look at it, as it is at this moment.

    Raises:
        UnfitError: There is none.
    """
    return _looking(_connected(f"{_file(folder).absolute().as_uri()}?mode=ro"))


def opened_to_write(folder: Path) -> sqlite3.Connection:
    """Open a cache to go on with it, in a transaction.

    Raises:
        UnfitError: There is none.
    """
    return _connected(f"{_file(folder).absolute().as_uri()}?mode=rw", "BEGIN IMMEDIATE")


def begun(folder: Path | None) -> sqlite3.Connection:
    """Begin an empty cache in a transaction: in the place of the one in a folder, or in a file that nobody else sees.

    Raises:
        CannotWriteError, OSError: It cannot be created.
    """
    if folder is None:
        return _connected("", _PAGES, "PRAGMA journal_mode = OFF", "BEGIN")
    path = _removed(folder)
    os.close(disk.create_file(path))
    return _connected(f"{path.absolute().as_uri()}?mode=rw", _PAGES, "BEGIN IMMEDIATE")


def discard(folder: Path) -> None:
    """Take away a cache in which damage was found; where that cannot be, the next one who reads it finds it again."""
    with suppress(*FAULTS), writing(folder):
        _removed(folder)


def _removed(folder: Path) -> Path:
    """Return where a cache stands, once nothing does."""
    path = folder / NAME
    # The file goes first: what a killed process left beside it would be taken for a part of another.
    for name in (path, *(path.with_name(NAME + end) for end in BESIDE)):
        name.unlink(missing_ok=True)
    return path


def _file(folder: Path) -> Path:
    """Return the file of a cache.

    Raises:
        UnfitError: There is none, or a link or a pipe stands somewhere in its place.
    """
    path = folder / NAME
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(folder.lstat().st_mode) and stat.S_ISREG(path.lstat().st_mode):
            return path
    raise UnfitError


def _connected(uri: str, *words: str) -> sqlite3.Connection:
    # A state may be dropped in another thread than the one that asked for it.
    database = sqlite3.connect(uri, WAIT_S, isolation_level=None, check_same_thread=False, uri=True)
    try:
        # What a power loss leaves is proven before it is used, so nothing needs to be flushed.
        for word in ("PRAGMA synchronous = OFF", "PRAGMA cell_size_check = ON", *words):
            database.execute(word)
    except BaseException:
        database.close()
        raise
    return database


def _looking(database: sqlite3.Connection) -> sqlite3.Connection:
    """Let a connection see the cache as it is now, whoever writes to it meanwhile."""
    try:
        database.execute("BEGIN")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        database.close()
        raise
    return database


# States


def fresh(database: sqlite3.Connection, config: Config) -> Scores:
    """Return the state before the first event, kept in a database from which whatever stood there is taken."""
    for word in (*_DROPS, *TABLES):
        database.execute(word)
    return _state(database, config, Index(database), {}, writable=True)


def _state(
    database: sqlite3.Connection, config: Config, index: Index, days: dict[int, tuple[int, int]], *, writable: bool
) -> Scores:
    sessions = Shelf(database, index, days, writable=writable)
    return Scores(config=config, sessions=sessions, days=Kept(), versions=Kept())


def load(database: sqlite3.Connection, config: Config, *, writable: bool) -> tuple[Scores, Position]:
    """Return the state that a cache holds, and the place before the last batch that it has folded.

    Raises:
        UnfitError: It is damaged, or is of another configuration or another Tallybook.
        sqlite3.Error: It is no database.
    """
    found = database.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    if {sql for (sql,) in found} != {table.encode() for table in TABLES} or len(found) != len(TABLES):
        raise UnfitError
    parts = {name: _part(database, name) for name in ("state", "sums", "days")}
    told = _told(parts["state"])
    if told["digest"] != digest_of(config):
        raise UnfitError
    periods = _periods(database, told["periods"])
    index = Index(database, proven(parts["sums"], told["sums"]))
    days = {day: (number, sums) for day, number, sums in msgspec.json.decode(proven(parts["days"], told["days"]))}
    state = _state(database, config, index, days, writable=writable)
    state.seq, state.chain = told["seq"], told["chain"]
    state.days, state.versions = Kept(periods[_DAYS]), Kept(periods[_VERSIONS])
    rows.unpack_rest(told, state)
    return state, Position(*told["before"])


def _part(database: sqlite3.Connection, name: str) -> Any:
    row = database.execute("SELECT data FROM parts WHERE name = ?", (name,)).fetchone()
    return row and row[0]


def _told(data: Any) -> dict[str, Any]:
    """Return what the cache is of.

    Raises:
        UnfitError: It does not fit its own checksum.
    """
    if type(data) is not bytes or data[:_SUM_CHARS] != b"%08x" % crc32(data[_SUM_CHARS:]):
        raise UnfitError
    told: dict[str, Any] = msgspec.json.decode(data[_SUM_CHARS:])
    return told


def _periods(database: sqlite3.Connection, sum_: int) -> list[dict[str, bytes]]:
    """Return kind → name of a period → its row.

    Raises:
        UnfitError: A row was changed, is missing, or does not belong there.
    """
    found: list[dict[bytes, bytes]] = [{}, {}]
    for kind, name, data in database.execute("SELECT kind, name, data FROM periods"):
        if (type(name), type(data)) != (bytes, bytes) or kind not in range(len(found)):
            raise UnfitError
        found[kind][name] = data
    if _sum_of(found) != sum_:
        raise UnfitError
    return [{name.decode(): data for name, data in kind.items()} for kind in found]


def _sum_of(periods: list[dict[bytes, bytes]]) -> int:
    """Return the checksum over all periods, whatever order they come in."""
    sum_ = 0
    for kind, found in enumerate(periods):
        for name in sorted(found):
            sum_ = crc32(b"%d %d %b %b" % (kind, len(name), name, found[name]), sum_)
    return sum_


def save(database: sqlite3.Connection, state: Scores, before: Position) -> None:
    """Write what changed in a state, with the place that it is of.

    Args:
        database: Where the state is kept.
        state: The state, counted.
        before: The place before the last batch that it has folded.

    Raises:
        sqlite3.Error: The disk refused it.
    """
    sessions, days, versions = state.sessions, state.days, state.versions
    if not (isinstance(sessions, Shelf) and isinstance(days, Kept) and isinstance(versions, Kept)):
        raise UnfitError
    sessions.index.save()
    periods = [
        _saved(database, _DAYS, days.rows(), days.changed()),
        _saved(database, _VERSIONS, versions.rows(), versions.changed()),
    ]
    sums = sessions.index.sums.tobytes()
    shelved = msgspec.json.encode([(day, *told) for day, told in sessions.days.items()])
    told = {
        "digest": digest_of(state.config),
        "seq": state.seq,
        "chain": state.chain,
        "before": before[:3],
        "periods": _sum_of(periods),
        "sums": crc32(sums),
        "days": crc32(shelved),
        **rows.packed_rest(state),
    }
    data = msgspec.json.encode(told)
    parts = [("state", b"%08x" % crc32(data) + data), ("sums", sums), ("days", shelved)]
    database.executemany("INSERT OR REPLACE INTO parts VALUES (?, ?)", parts)


def _saved(
    database: sqlite3.Connection, kind: int, found: Mapping[str, bytes], changed: set[str]
) -> dict[bytes, bytes]:
    """Write the rows of a kind that were changed; return all of them."""
    for name in changed:
        if name in found:
            row = (kind, name.encode(), found[name])
            database.execute("INSERT OR REPLACE INTO periods VALUES (?, ?, ?)", row)
        else:
            database.execute("DELETE FROM periods WHERE kind = ? AND name = ?", (kind, name.encode()))
    return {name.encode(): data for name, data in found.items()}


def commit(database: sqlite3.Connection) -> None:
    """Let everybody see what was written, and go on seeing it.

    Raises:
        sqlite3.Error: The disk refused it, or others look at it for too long; what stood there stands.
    """
    database.execute("COMMIT")
    _looking(database)


def look_on(database: sqlite3.Connection) -> None:
    """Write nothing after all, and go on seeing the cache as it is."""
    database.execute("ROLLBACK")
    _looking(database)
