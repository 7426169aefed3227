"""A book in a PostgreSQL database: a row a run, in the tables of ``prompts/sharing/postgres.sql``.

The database compares: a trigger refuses a run that does not follow the last row. An append is one transaction.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallybook.ledger.sharing.engines.engine import (
    NOTHING,
    Appended,
    Contents,
    End,
    EngineError,
    Outcome,
    ReadOnlyError,
    Run,
    UnreachableError,
)
from tallybook.ledger.sharing.engines.postgres_connection import Deadline, check_address, connect, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from tallybook.ledger.sharing.engines.postgres_connection import Connection

_BYTES_A_SECOND: Final = 100_000
"""What a slow connection carries: an append has, besides its timeout, the time that its bytes need at that rate."""

_READ: Final = """
SELECT b.generation, (SELECT min(r.first) FROM tallybook.runs AS r WHERE r.book = b.book), e.last, e.after,
    current_setting('fsync'), current_setting('synchronous_commit'),
    r.first, r.last, r.before, r.after, r.data, r.author::text
FROM tallybook.books AS b
LEFT JOIN LATERAL (SELECT r.last, r.after FROM tallybook.runs AS r WHERE r.book = b.book ORDER BY r.last DESC LIMIT 1)
    AS e ON true
LEFT JOIN tallybook.runs AS r ON r.book = b.book AND r.last > %s
WHERE b.book = %s
ORDER BY r.first
"""
# A server that does not wait for its disk by default waits for a book; one that waits for standbys as well goes on to.
_LIMITS: Final = """
SELECT set_config('statement_timeout', %s, true), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit') END, true)
"""
_INSERT: Final = """
INSERT INTO tallybook.runs (book, generation, first, last, before, after, data) VALUES (%s, %s, %s, %s, %s, %s, %b)
RETURNING generation
"""
_STATE: Final = """
SELECT c.oid IS NOT NULL, current_user::text,
    CASE WHEN c.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE pg_has_role(c.relowner, 'USAGE') END
FROM (SELECT 1) AS always LEFT JOIN pg_catalog.pg_class AS c
    ON c.relname = 'runs' AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'tallybook')
"""

_DATA: Final = 10
"""Column of the answer to `_READ` that has the bytes of a run."""

_MOVED: Final = ("23505", "40001", "40P01")
"""Unique violation, serialization failure (the trigger's as well) and deadlock: nothing is stored."""
_UNKNOWN: Final = ("08007", "40003")
"""The server itself does not know."""
_NO_TABLES: Final = ("3F000", "42P01", "42883")
_READ_ONLY: Final = ("25006", "42501")
"""A server or a session that may only read, and a missing right."""


class _State(NamedTuple):
    """What a user finds in a database where a book cannot be read.

    Attributes:
        has_tables: Whether the tables exist.
        user: Who that is.
        may_create: Whether this user may create what is missing: the tables, or the book in them.
    """

    has_tables: bool
    user: str
    may_create: bool


def setup_file() -> str:
    """Return the path of the SQL file that an operator runs once in a database."""
    return str(resources.files("tallybook.prompts") / "sharing" / "postgres.sql")


def grant_command(book: str, role: str, right: str) -> str:
    """Return the SQL with which an operator grants a role a right on a book: ``read``, ``write`` or ``own``."""
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in (book, role, right))
    return f"SELECT tallybook.grant_book({texts});"


class PostgresEngine:
    """Holds a book in a PostgreSQL database.

    Attributes:
        address: As in `Engine`.
        run_bytes: As in `Engine`.
        warnings: What in the server's settings endangers the book, as of the last read.
    """

    def __init__(self, address: str, book: str, timeout: float = 30, run_bytes: int = 2 * 1024 * 1024) -> None:
        """Connect to nothing yet.

        Args:
            address: ``postgresql://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE…]`` or ``service=NAME``.
            book: The book's name.
            timeout: How many seconds it waits for a connection, and for each answer.
            run_bytes: As in `Engine`.

        Raises:
            BadInputError: The address is not one, or holds a password.
        """
        check_address(address)
        self.address = address
        self.run_bytes = run_bytes
        self.warnings: tuple[str, ...] = ()
        self._book = book
        self._timeout = timeout
        self._connection: Connection | None = None

    def read(self, after: int, limit: int | None = None) -> Contents:
        """Return what the database holds after an event number."""
        stale = self._connection is not None
        connection = self._connect()
        import psycopg

        try:
            rows, more = self._rows(connection, after, limit)
        except psycopg.Error as error:
            if stale and connection.closed:
                # The server was restarted, or closed an idle connection.
                self.close()
                return self.read(after, limit)
            if error.sqlstate not in _NO_TABLES + _READ_ONLY:
                raise self._failure(error) from error
            rows, more = [], False
        if not rows:
            self._require_creator(connection)
            return Contents((), 0, NOTHING)
        return self._contents(rows)._replace(more=more)

    def append(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store runs in order, if the book still ends where ``expected`` says."""
        if (runs[0].first, runs[0].before) != (expected.seq + 1, expected.chain):
            return self._refuse_gap(expected)
        try:
            return self._store(expected, runs)
        except EngineError:
            if expected.token or not self._create():
                raise
        return self._store(expected, runs)

    def replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Store these runs in place of all, if the book still ends where ``expected`` says."""
        return self._store(expected, runs, replaces=True)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.address, self._timeout)
        return self._connection

    def _rows(self, connection: Connection, after: int, limit: int | None) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the answer to `_READ`, in one statement and so of one moment, and whether the limit cut it."""
        import psycopg

        rows: list[tuple[Any, ...]] = []
        size = 0
        deadline = Deadline(connection, self._timeout)
        try:
            with deadline, connection.cursor(binary=True) as cursor:
                # Closing it early cancels the statement.
                for row in cursor.stream(_READ, (after, self._book)):
                    if limit is not None and size >= limit:
                        return rows, True
                    rows.append(row)
                    size += len(row[_DATA] or b"")
                    deadline.extend()
        except psycopg.Error as error:
            if deadline.expired:
                raise UnreachableError(self.address, f"no answer within {self._timeout:g} seconds") from error
            raise
        return rows, False

    def _contents(self, rows: list[tuple[Any, ...]]) -> Contents:
        generation, first, last, chain, fsync, commit = rows[0][:6]
        self.warnings = tuple(server_warnings(fsync, commit))
        if first is None:
            return Contents((), 0, NOTHING)
        runs = tuple(_run(row[6:]) for row in rows if row[6] is not None)
        return Contents(runs, first, End(last, chain, _token(generation, last)))

    def _store(self, expected: End, runs: Sequence[Run], *, replaces: bool = False) -> Appended:
        """Store runs in one transaction, in one round trip; with ``replaces`` the book is emptied first."""
        import psycopg

        connection = self._connect()
        seconds = self._timeout + sum(len(run.data) for run in runs) / _BYTES_A_SECOND
        try:
            # The server cancels a statement first, which then is certainly not stored.
            with Deadline(connection, 1.5 * seconds), connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
                connection.execute(_LIMITS, [str(round(seconds * 1000))])
                answer = self._send(connection, expected, runs, replaces=replaces)
                # A limit that cut COMMIT short would cut the wait for standbys and confirm nevertheless.
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("COMMIT")
            stored = answer.fetchone()
        except psycopg.Error as error:
            return self._outcome(connection, error)
        if not runs or stored is None:
            return Appended(Outcome.DONE, NOTHING)
        return Appended(Outcome.DONE, End(runs[-1].last, runs[-1].after, _token(stored[0], runs[-1].last)))

    def _send(
        self, connection: Connection, expected: End, runs: Sequence[Run], *, replaces: bool
    ) -> psycopg.Cursor[tuple[Any, ...]]:
        """Send the statements of a transaction, and return the cursor that will have the generation."""
        generation = int(expected.token.partition(":")[0]) if expected.token else None
        answer = connection.cursor()
        if replaces:
            answer.execute("SELECT tallybook.empty_book(%s, %s, %s)", (self._book, generation, expected.seq))
            # The transaction that began a generation need not name it.
            generation = None
        for run in runs:
            answer = connection.cursor()
            answer.execute(_INSERT, (self._book, generation, *run[:5]))
        return answer

    def _outcome(self, connection: Connection, error: psycopg.Error) -> Appended:
        """Return what became of a transaction that failed.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: It was refused for another reason, and nothing was stored.
        """
        if connection.closed or error.sqlstate in _UNKNOWN:
            self.close()
            return Appended(Outcome.UNKNOWN)
        self._roll_back(connection)
        if error.sqlstate in _MOVED:
            return Appended(Outcome.MOVED)
        raise self._failure(error) from error

    def _roll_back(self, connection: Connection) -> None:
        import psycopg

        try:
            connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()

    def _failure(self, error: psycopg.Error) -> EngineError:
        """Return the error for a statement's failure, with the server's reason."""
        reason = error.diag.message_primary or str(error)
        if error.sqlstate in _READ_ONLY:
            return ReadOnlyError(self.address, reason)
        if error.sqlstate in _NO_TABLES:
            return self._no_tables()
        if error.sqlstate == "57014":
            return UnreachableError(self.address, f"no answer within {self._timeout:g} seconds")
        return unreachable(self.address, reason)

    def _no_tables(self) -> UnreachableError:
        hint = f"its operator runs once: psql ADDRESS --file {setup_file()}"
        return UnreachableError(self.address, "the database has no tables for books", hint)

    def _state(self, connection: Connection) -> _State:
        import psycopg

        try:
            with Deadline(connection, self._timeout):
                [row] = connection.execute(_STATE).fetchall()
        except psycopg.Error as error:
            raise self._failure(error) from error
        return _State(*row)

    def _require_creator(self, connection: Connection) -> None:
        """Refuse to read a book that does not exist, unless this user's first append would create it."""
        state = self._state(connection)
        if state.may_create:
            return
        if not state.has_tables:
            raise self._no_tables()
        why = f"user {state.user} has no right to a book {self._book}"
        hint = f"its operator runs: {grant_command(self._book, state.user, 'write')}"
        raise UnreachableError(self.address, why, hint)

    def _create(self) -> bool:
        """Create the tables where they are missing, and the book; return whether this user may do that."""
        import psycopg

        connection = self._connect()
        state = self._state(connection)
        if not state.may_create:
            return False
        # Where another process creates the same at this moment, one of both fails, and what is missing shows later.
        with suppress(psycopg.Error):
            if not state.has_tables:
                with open(setup_file(), "rb") as file:
                    connection.execute(file.read())
            connection.execute(grant_command(self._book, state.user, "own").encode())
        self._roll_back(connection)
        return True

    def _refuse_gap(self, expected: End) -> Appended:
        """Answer to runs that do not follow the expected end, which the database could never take.

        Raises:
            EngineError: The book ends with a run that its readers skip.
        """
        if self.read(expected.seq).end != expected:
            return Appended(Outcome.MOVED)
        what = f"its last run, up to event {expected.seq}, does not count, so that nothing can be appended after it"
        raise EngineError(self.address, what, "an owner of the book runs: tallybook share repair")


def server_warnings(fsync: str, commit: str) -> Iterator[str]:
    """Yield what in a server's settings endangers a book."""
    if fsync != "on":
        yield "the server has fsync off: a crash of its machine can lose events that it confirmed"
    if commit in {"off", "local"}:
        yield f"the server has synchronous_commit {commit}; appends to a book switch it on for themselves"


def _token(generation: int, last: int) -> str:
    return f"{generation}:{last}"


def _run(row: Sequence[Any]) -> Run:
    first, last, before, after, data, author = row
    return Run(first, last, before, after, data, f"row {first}", author)
