"""Sessions in a database: each is found, or proven to be in none of its rows, by an index that is proven itself.

A database notices few of the bytes that change under it. Here a row has its checksum in the index, a piece of the
index has its own among the sums, and those are proven by whoever keeps them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from tallybook.projections.surfaces.scores.cache.rows import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    import sqlite3

    from tallybook.projections.scores.session_inputs import Session

TABLES: Final = (
    "CREATE TABLE sessions (no INTEGER PRIMARY KEY, day INTEGER, data BLOB)",
    "CREATE INDEX by_day ON sessions (day)",
    "CREATE TABLE pieces (no INTEGER PRIMARY KEY, data BLOB)",
)
PIECES: Final = 4096
_HASH_BYTES: Final = 8
_PIECE_SHIFT: Final = 64 - 12
_LOW: Final = 0xFFFFFFFF


class UnfitError(Exception):
    """What stands in the cache is not what was put there, or is of something else."""


def proven(value: Any, sum_: int, start: int = 0) -> bytes:
    """Return bytes of the cache.

    Raises:
        UnfitError: They are no bytes, or do not fit their checksum.
    """
    if type(value) is not bytes or crc32(value, start) != sum_:
        raise UnfitError
    return value


def _hash(id_: str) -> int:
    return int.from_bytes(blake2b(id_.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest(), "big")


def _day(session: Session) -> int:
    """Return the day of a session in UTC as a number: 20260116."""
    return int(session.at[:10].replace("-", ""))


class Index:
    """Where sessions stand: pieces of (hash of the id, number of the row, its checksum), 16 bytes a session.

    Attributes:
        sums: Piece → how many entries it has, and its checksum.
    """

    def __init__(self, database: sqlite3.Connection, sums: bytes | None = None) -> None:
        """Open the index with these sums, or an empty one."""
        self._database = database
        self._pieces: dict[int, tuple[array[int], array[int]]] = {}
        self._changed: set[int] = set()
        self.sums = array("Q", bytes(_HASH_BYTES * PIECES) if sums is None else sums)
        if len(self.sums) != PIECES:
            raise UnfitError

    def _piece(self, number: int) -> tuple[array[int], array[int]]:
        """Return the hashes of a piece in order, and for each the row's number and checksum."""
        piece = self._pieces.get(number)
        if piece is None:
            data, sum_ = b"", self.sums[number]
            if sum_:
                row = self._database.execute("SELECT data FROM pieces WHERE no = ?", (number,)).fetchone()
                data = proven(row and row[0], sum_ & _LOW)
            half = (sum_ >> 32) * _HASH_BYTES
            if len(data) != 2 * half:
                raise UnfitError
            piece = self._pieces[number] = (array("Q", data[:half]), array("Q", data[half:]))
        return piece

    def find(self, hash_: int) -> Iterator[tuple[int, int]]:
        """Yield number and checksum of each row with a hash: of one hardly ever, of several by chance."""
        hashes, places = self._piece(hash_ >> _PIECE_SHIFT)
        index = bisect_left(hashes, hash_)
        while index < len(hashes) and hashes[index] == hash_:
            yield places[index] >> 32, places[index] & _LOW
            index += 1

    def put(self, hash_: int, number: int, sum_: int) -> None:
        """Enter a row, or its new checksum."""
        hashes, places = self._piece(hash_ >> _PIECE_SHIFT)
        index = bisect_left(hashes, hash_)
        while index < len(hashes) and hashes[index] == hash_ and places[index] >> 32 != number:
            index += 1
        if index < len(hashes) and hashes[index] == hash_:
            places[index] = number << 32 | sum_
        else:
            hashes.insert(index, hash_)
            places.insert(index, number << 32 | sum_)
        self._changed.add(hash_ >> _PIECE_SHIFT)

    def save(self) -> None:
        """Write the pieces that were changed."""
        for number in sorted(self._changed):
            hashes, places = self._pieces[number]
            data = hashes.tobytes() + places.tobytes()
            self._database.execute("INSERT OR REPLACE INTO pieces VALUES (?, ?)", (number, data))
            self.sums[number] = len(hashes) << 32 | crc32(data)
        self._changed.clear()


class Shelf:
    """Sessions in a database, or over one that must stay as it is.

    Attributes:
        index: Where they stand.
        days: Day in UTC, 20260116 → how many of them lie there, and their checksums, one upon the other.
    """

    def __init__(
        self, database: sqlite3.Connection, index: Index, days: dict[int, tuple[int, int]], *, writable: bool
    ) -> None:
        """Open the shelf; where it is not writable, what changes stays in memory."""
        self._database = database
        self._writable = writable
        self._changed: dict[str, Session] = {}
        self._rows = sum(number for number, _ in days.values())
        self.index = index
        self.days = days

    def get(self, id_: str, /) -> Session | None:
        """Return a session, None where there is none of this id.

        Raises:
            UnfitError: The cache is damaged.
        """
        changed = self._changed.get(id_)
        if changed is not None:
            return changed
        found = self._find(id_, _hash(id_))
        return None if found is None else found[2]

    def _find(self, id_: str, hash_: int) -> tuple[int, int, Session] | None:
        """Return a session behind the number of its row and its checksum."""
        for number, sum_ in self.index.find(hash_):
            row = self._database.execute("SELECT data, day FROM sessions WHERE no = ?", (number,)).fetchone()
            if row is None or type(row[1]) is not int:
                raise UnfitError
            session = unpacked(proven(row[0], sum_, row[1]))
            if session.id == id_:
                return number, sum_, session
        return None

    def __setitem__(self, id_: str, session: Session, /) -> None:
        """Keep a session that was changed."""
        if not self._writable:
            self._changed[id_] = session
            return
        hash_, data, day = _hash(id_), packed(session), _day(session)
        found = self._find(id_, hash_)
        if found is None:
            self._rows += 1
            number = self._rows
        else:
            number, before, old = found
            self._count(_day(old), before, -1)
        sum_ = crc32(data, day)
        self._database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (number, day, data))
        self.index.put(hash_, number, sum_)
        self._count(day, sum_, 1)

    def _count(self, day: int, sum_: int, sign: int) -> None:
        number, sums = self.days.get(day, (0, 0))
        self.days[day] = (number + sign, sums ^ sum_)
        if not number + sign:
            del self.days[day]

    def latest(self) -> Iterator[Session]:
        """Yield the sessions, the latest first; of several at one time, the one with the greater id.

        Raises:
            UnfitError: The cache is damaged.
        """
        changed: dict[int, list[Session]] = {}
        for session in self._changed.values():
            changed.setdefault(_day(session), []).append(session)
        for day in sorted({*self.days, *changed}, reverse=True):
            kept = [session for session in self._of(day) if session.id not in self._changed]
            yield from sorted(
                (*kept, *changed.get(day, ())), key=lambda session: (session.at, session.id), reverse=True
            )

    def _of(self, day: int) -> Iterator[Session]:
        """Yield the sessions of a day once all of them are proven."""
        rows = self._database.execute("SELECT data FROM sessions WHERE day = ?", (day,)).fetchall()
        sums = 0
        for (data,) in rows:
            if type(data) is not bytes:
                raise UnfitError
            sums ^= crc32(data, day)
        if (len(rows), sums) != self.days.get(day, (0, 0)):
            raise UnfitError
        for (data,) in rows:
            yield unpacked(data)
