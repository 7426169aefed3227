"""Sessions in the database of the cache, each in a row with a checksum.

A lookup in a damaged database may find no row although there is one, and the session would be counted as a new one.
Therefore each row names the next id in order: an id is missing only if the row before it names a later one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple
import zlib

import attrs
import msgspec

from tallybook.projections.scores.session_inputs import Contribution, EventTime, Session, Share, Time, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    import sqlite3

TABLES: Final = (
    "CREATE TABLE sessions (id BLOB PRIMARY KEY, next BLOB, at TEXT, data BLOB, sum INTEGER) WITHOUT ROWID",
    "CREATE INDEX by_time ON sessions (at)",
)
_FIRST: Final = b""
"""The id of the row before all sessions, and what the last row names as the next."""
_COLUMNS: Final = "SELECT id, next, at, data, sum FROM sessions"


class DamagedCacheError(Exception):
    """The cache is damaged, or it is not a cache of this ledger, configuration and code."""


def checksum(data: bytes, *others: Any) -> int:
    """Return the checksum of a row: of its data and its other columns, their types included."""
    return zlib.crc32(data, zlib.crc32(repr(others).encode()))


class _Row(NamedTuple):
    """A row: a session and its neighbour.

    Attributes:
        id: Id of the session.
        next: Id of the session after it in order.
        at: When it was, as the session says.
        data: The session, encoded.
    """

    id: bytes
    next: bytes
    at: str
    data: bytes

    @classmethod
    def of(cls, columns: Any) -> _Row:
        """Return the row with these columns.

        Raises:
            DamagedCacheError: There is none, or the checksum does not fit.
        """
        if columns is None or type(columns[3]) is not bytes:
            raise DamagedCacheError
        row = cls(*columns[:-1])
        if row.checksum != columns[-1]:
            raise DamagedCacheError
        return row

    @property
    def checksum(self) -> int:
        """Return its checksum."""
        return checksum(self.data, self.id, self.next, self.at)


class SessionTable:
    """Sessions in a database.

    Attributes:
        counts: Day in UTC, such as 2026-01-16 → how many sessions it has: none of them may be missing.
    """

    def __init__(self, database: sqlite3.Connection, counts: dict[str, int], *, writable: bool) -> None:
        """Open the table. Where it is not writable, changed sessions stay in memory."""
        self._database = database
        self._writable = writable
        self._changed: dict[str, Session] = {}
        self.counts = counts

    @classmethod
    def create(cls, database: sqlite3.Connection) -> SessionTable:
        """Create an empty table."""
        for statement in TABLES:
            database.execute(statement)
        table = cls(database, {}, writable=True)
        table._write(_Row(_FIRST, _FIRST, "", b""))
        return table

    def get(self, id_: str, /) -> Session | None:
        """Return a session, None where there is none of this id.

        Raises:
            DamagedCacheError: The table is damaged.
        """
        changed = self._changed.get(id_)
        if changed is not None:
            return changed
        row = self._at_or_before(_key(id_))
        return _decode(row.data) if row.id == _key(id_) != _FIRST else None

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Store a session that was changed."""
        if not self._writable:
            self._changed[id_] = session
            return
        key = _key(id_)
        row = self._at_or_before(key)
        if row.id == key:
            self._count(row.at, -1)
        else:
            # Not written anew: an update leaves the row's data and the index by time as they are.
            before = row._replace(next=key)
            update = "UPDATE sessions SET next = ?, sum = ? WHERE id = ?"
            self._database.execute(update, (before.next, before.checksum, before.id))
        self._write(_Row(key, row.next, session.at, _encode(session)))
        self._count(session.at, 1)

    def _at_or_before(self, key: bytes) -> _Row:
        """Return the row of an id; where there is none, the row before it.

        Raises:
            DamagedCacheError: The table is damaged.
        """
        cursor = self._database.execute(f"{_COLUMNS} WHERE id <= ? ORDER BY id DESC LIMIT 1", (key,))
        row = _Row.of(cursor.fetchone())
        if row.id > key or (row.id != key and row.next != _FIRST and row.next <= key):
            raise DamagedCacheError
        return row

    def _write(self, row: _Row) -> None:
        self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?)", (*row, row.checksum))

    def _count(self, at: str, number: int) -> None:
        day = _day(at)
        self.counts[day] = self.counts.get(day, 0) + number
        if not self.counts[day]:
            del self.counts[day]

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first; of several at one time, the one with the greater id.

        Raises:
            DamagedCacheError: The table is damaged.
        """
        changed = {_key(id_): session for id_, session in self._changed.items()}
        days = {*self.counts, *(_day(session.at) for session in changed.values())}
        for day in sorted(days, reverse=True):
            rows = self._of_day(day)
            of_day = [(row.at, row.id) for row in rows.values() if row.id not in changed]
            of_day += [(session.at, key) for key, session in changed.items() if _day(session.at) == day]
            for _, key in sorted(of_day, reverse=True):
                yield changed[key] if key in changed else _decode(rows[key].data)

    def _of_day(self, day: str) -> dict[bytes, _Row]:
        cursor = self._database.execute(f"{_COLUMNS} WHERE at >= ? AND at < ? || '~'", (day, day))
        rows = {row.id: row for row in map(_Row.of, cursor)}
        if len(rows) != self.counts.get(day, 0):
            raise DamagedCacheError
        return rows


def _key(id_: str) -> bytes:
    return id_.encode("utf-8", "surrogatepass")


def _day(at: str) -> str:
    return at[:10]


def _encode(session: Session) -> bytes:
    # Each value names its event. Compressed, that takes a third.
    return zlib.compress(msgspec.json.encode(attrs.astuple(session, recurse=False), enc_hook=str), 1)


def _decode(data: bytes) -> Session:
    """Return the session of such bytes, equal to the last digit."""
    id_, named, values, benchmarks, feedback, *rest = msgspec.json.decode(zlib.decompress(data))
    first_at, last, ended, released, seq, counted = rest
    return Session(
        id_,
        named,
        {component: {name: _value(*one) for name, one in by_name.items()} for component, by_name in values.items()},
        _shares(benchmarks),
        _shares(feedback),
        first_at,
        Time(*last),
        Time(*ended),
        released and (EventTime(*released[0]), released[1]),
        seq,
        counted and Contribution(*counted),
    )


def _value(total: int | str, last: float, last_from: list[Any]) -> Value:
    return Value(_number(total), last, EventTime(*last_from))


def _shares(shares: Mapping[str, tuple[int | str, int]]) -> dict[str, Share]:
    return {name: Share(_number(part), whole) for name, (part, whole) in shares.items()}


def _number(value: int | str) -> int | Fraction:
    # JSON has no fractions; they are written as text.
    return value if isinstance(value, int) else Fraction(value)
