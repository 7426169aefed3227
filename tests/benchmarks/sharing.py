"""Row ``share-postgres``: a book in PostgreSQL against the bare client and the same rows."""

from __future__ import annotations

from contextlib import closing, contextmanager
import hashlib
from itertools import count as numbers
from pathlib import Path
import shutil
import tempfile
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psycopg

from benchmarks import data
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from helpers.engines import postgres_engine
from helpers.postgres_server import NoServerError, start_database
from tallybook.ledger.line import START
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing.book import count
from tallybook.ledger.sharing.engine import NOTHING
from tallybook.ledger.sharing.replica import Replica
from tallybook.ledger.storage.disk import flush_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import LiteralString

    from helpers.postgres_server import Database
    from tallybook.ledger.sharing.engine import Run

MAX_EVENTS = 100_000
PAIRS = 5
QUIET_PAIRS = 15

CREATE: LiteralString = """
CREATE SCHEMA IF NOT EXISTS bare AUTHORIZATION anna;
CREATE TABLE IF NOT EXISTS bare.runs (book text, first bigint, last bigint, before text, after text, data bytea,
    PRIMARY KEY (book, first));
GRANT ALL ON bare.runs TO anna;
"""
INSERT: LiteralString = "INSERT INTO bare.runs VALUES (%s, %s, %s, %s, %s, %b)"
SELECT: LiteralString = "SELECT first, last, before, after, data FROM bare.runs WHERE book = %s ORDER BY first"
ASK: LiteralString = "SELECT last, after FROM bare.runs WHERE book = %s ORDER BY first DESC LIMIT 1"


class _Contest:
    """Both sides on one server: the engine, and the client alone with a table that checks nothing."""

    def __init__(self, database: Database, runs: Sequence[Run], folder: Path) -> None:
        self._runs = runs
        self._database = database
        self._folder = folder
        self._bare = (f"bare {number}" for number in numbers(1))
        self._copies = numbers(1)
        # Without the tests' proxy, which takes more time than either side.
        self._address = f"postgresql://anna@127.0.0.1:{database.server.port}/tally?sslmode=disable"
        database.server.execute(CREATE, "tally")
        self._last = ""
        self._book = ""

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self._address, autocommit=True)

    def publish(self) -> float:
        """Return how long the engine takes to append all runs, one after the other, to a new book."""
        self._book = self._database.new_book(anna="write")
        with closing(postgres_engine(self._address, self._book)) as engine:
            end = engine.read(0).end
            start = perf_counter()
            for run in self._runs:
                end = engine.append(end, [run]) or NOTHING
                assert end is not NOTHING
            return perf_counter() - start

    def publish_bare(self) -> float:
        """Return how long the client takes to insert the same rows, one after the other."""
        self._last = next(self._bare)
        with self._connect() as connection:
            start = perf_counter()
            for run in self._runs:
                connection.execute(INSERT, (self._last, *run[:5]))
            return perf_counter() - start

    def read(self) -> float:
        """Return how long a new machine takes to read the book and to verify its chain."""
        with closing(postgres_engine(self._address, self._book)) as engine:
            engine.read(self._runs[-1].last)
            start = perf_counter()
            after = START
            for run in engine.read(0).runs:
                after = verify_run(run.data, after, (), choose_digest(len(run.data))).batches[-1].position
            assert (after.seq, after.chain) == (self._runs[-1].last, self._runs[-1].after)
            return perf_counter() - start

    def catch_up(self) -> float:
        """Return how long a new machine takes to read and verify the book, its ids too, and to flush its replica."""
        place = self._folder / f"replica-{next(self._copies)}"
        place.mkdir()
        with closing(postgres_engine(self._address, self._book)) as engine:
            engine.read(self._runs[-1].last)
            start = perf_counter()
            counted = count(engine.read(0).runs, START, set())
            replica = Replica(place, "1")
            replica.append(counted.batches, counted.data)
            taken = perf_counter() - start
            assert counted.batches[-1].last == self._runs[-1].last
        shutil.rmtree(place)
        return taken

    def catch_up_bare(self) -> float:
        """Return how long the client takes to select the same rows."""
        with self._connect() as connection:
            connection.execute(ASK, (self._last,)).fetchall()
            start = perf_counter()
            assert len(self._select(connection)) == len(self._runs)
            return perf_counter() - start

    def catch_up_least(self) -> float:
        """Return how long the client takes to select the same rows, digest their bytes, write and flush them."""
        place = self._folder / f"least-{next(self._copies)}"
        with self._connect() as connection, place.open("wb", buffering=0) as file:
            connection.execute(ASK, (self._last,)).fetchall()
            start = perf_counter()
            hasher = hashlib.sha256()
            for row in self._select(connection):
                hasher.update(row[-1])
                file.write(row[-1])
            flush_data(file.fileno())
            taken = perf_counter() - start
        place.unlink()
        return taken

    def _select(self, connection: psycopg.Connection[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        with connection.cursor(binary=True) as cursor:
            return cursor.execute(SELECT, (self._last,)).fetchall()

    def look(self) -> float:
        """Return how long a read with nothing new takes, connecting included."""
        start = perf_counter()
        with closing(postgres_engine(self._address, self._book)) as engine:
            assert not engine.read(self._runs[-1].last).runs
        return perf_counter() - start

    def look_bare(self) -> float:
        """Return how long the client takes to connect and to ask for the last row."""
        start = perf_counter()
        with self._connect() as connection:
            assert len(connection.execute(ASK, (self._last,)).fetchall()) == 1
        return perf_counter() - start


@contextmanager
def _database() -> Iterator[Database]:
    try:
        with start_database() as database, database.credentials():
            yield database
    except NoServerError as error:
        raise NoRivalError(f"share-postgres: {error}") from error


def rows(setting: Setting) -> Iterator[Row]:
    """Measure publishing, catching up, and a read with nothing new.

    Raises:
        NoRivalError: There is no server or no client here.
    """
    events = min(setting.events, MAX_EVENTS)
    data.build(setting.folder / f"shared-{events}", "alike", events)
    runs = data.runs_of(setting.folder / f"shared-{events}")
    with _database() as database, tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        contest = _Contest(database, runs, Path(folder))
        size = f"{runs[-1].last:,} events in {len(runs):,} runs"
        for what, against, sides, pairs in (
            (
                f"publishing {size}, one in flight",
                "the same rows inserted by the bare client",
                (contest.publish, contest.publish_bare),
                PAIRS,
            ),
            (
                f"reading {size}, and verifying their chain",
                "the same rows selected by the bare client",
                (contest.read, contest.catch_up_bare),
                PAIRS,
            ),
            (
                f"catching up on {size}: chain and ids verified, replica flushed",
                "the same rows selected by the bare client",
                (contest.catch_up, contest.catch_up_bare),
                PAIRS,
            ),
            (
                f"the least: {size} selected by the bare client, one SHA-256 over them, written and flushed",
                "the same rows selected by the bare client",
                (contest.catch_up_least, contest.catch_up_bare),
                PAIRS,
            ),
            (
                "connecting and reading with nothing new",
                "the bare client connecting and asking for the last row",
                (contest.look, contest.look_bare),
                QUIET_PAIRS,
            ),
        ):
            taken = alternate(*sides, setting.pairs(pairs))
            ours, theirs = medians(taken, 1000)
            yield Row("share-postgres", what, against, faster(taken), ours, theirs, "ms")
