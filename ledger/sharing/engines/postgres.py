"""A book in a PostgreSQL database: a row a run, in the tables of ``prompts/sharing/postgres.sql``.

The primary key compares: a number that is in use is not given again.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines.postgres_connection import Deadline, check_address, connect, unreachable
from tallybook.ledger.sharing.engines.store import (
    EngineError,
    Entry,
    FormerLayoutError,
    Put,
    PutOutcome,
    ReadOnlyError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg

    from tallybook.ledger.sharing.engines.postgres_connection import Connection

_Rows = list[tuple[Any, ...]]
_BYTES_A_SECOND: Final = 100_000
"""What a slow connection carries: a put has its timeout and the time that its bytes need at that rate."""

_LIST: Final = """
SELECT current_setting('fsync'), current_setting('synchronous_commit'),
    r.number, r.tag, octet_length(r.data), r.author::text
FROM tallybook.books AS b LEFT JOIN tallybook.runs AS r ON r.book = b.book AND r.number > %s
WHERE b.book = %s
ORDER BY r.number
"""
_GET: Final = "SELECT number, data FROM tallybook.runs WHERE book = %s AND number = ANY (%s)"
# A server that does not wait for its disk by default waits for a book; one that waits for standbys as well goes on to.
_LIMITS: Final = """
SELECT set_config('statement_timeout', %s, true), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
    ELSE current_setting('synchronous_commit') END, true)
"""
_PUT: Final = """
INSERT INTO tallybook.runs (book, number, tag, data) SELECT %(book)s, %(number)s, %(tag)s, %(data)b
WHERE %(number)s = 1 OR EXISTS (SELECT FROM tallybook.runs AS r WHERE r.book = %(book)s AND r.number = %(number)s - 1)
ON CONFLICT DO NOTHING RETURNING number
"""
_STATE: Final = """
SELECT c.oid IS NOT NULL, current_user::text,
    CASE WHEN c.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE pg_has_role(c.relowner, 'USAGE') END,
    EXISTS (SELECT FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'generation')
FROM (SELECT 1) AS always LEFT JOIN pg_catalog.pg_class AS c
    ON c.relname = 'runs' AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'tallybook')
"""

_UNKNOWN: Final = ("08007", "40003")
"""The server itself does not know."""
_NO_TABLES: Final = ("3F000", "42P01", "42703", "42883")
"""A missing schema, table, column or function."""
_READ_ONLY: Final = ("25006", "42501")
"""A server or a session that may only read, and a missing right."""


class _State(NamedTuple):
    """What a user finds in a database where a book cannot be read.

    Attributes:
        has_tables: Whether the tables exist.
        user: Who that is.
        may_create: Whether this user may create what is missing: the tables, or the book in them.
        is_former: Whether the tables are of an earlier version.
    """

    has_tables: bool
    user: str
    may_create: bool
    is_former: bool


def setup_file() -> str:
    """Return the path of the SQL file that an operator runs once in a database."""
    return str(resources.files("tallybook.prompts") / "sharing" / "postgres.sql")


def grant_command(book: str, role: str, right: str) -> str:
    """Return the SQL with which an operator grants a role a right on a book: ``read``, ``write`` or ``own``."""
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in (book, role, right))
    return f"SELECT tallybook.grant_book({texts});"


class PostgresStore:
    """Holds the runs of a book in a PostgreSQL database.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`.
    """

    def __init__(self, address: str, book: str, timeout: float = 30) -> None:
        """Connect to nothing yet.

        Args:
            address: ``postgresql://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE…]`` or ``service=NAME``.
            book: The book's name.
            timeout: How many seconds it waits for a connection, and for each answer.

        Raises:
            BadInputError: The address is not one, or holds a password.
        """
        check_address(address)
        self.address = address
        self.warnings: tuple[str, ...] = ()
        self._book = book
        self._timeout = timeout
        self._connection: Connection | None = None

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers of the book's rows."""
        try:
            rows = self._rows(_LIST, (after, self._book))
        except psycopg_error() as error:
            if error.sqlstate not in _NO_TABLES + _READ_ONLY:
                raise self._failure(error) from error
            rows = []
        if not rows:
            self._require_creator()
            return []
        self.warnings = tuple(server_warnings(*rows[0][:2]))
        return [Entry(*row[2:]) for row in rows if row[2] is not None]

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the data of rows."""
        try:
            return dict(self._rows(_GET, (self._book, [*numbers])))
        except psycopg_error() as error:
            raise self._failure(error) from error

    def put(self, number: int, data: bytes) -> Put:
        """Insert a row, unless there is one of this number."""
        try:
            return self._insert(number, data)
        except EngineError:
            if number > 1 or not self._create():
                raise
        return self._insert(number, data)

    def erase(self, before: int) -> None:
        """Empty the data of earlier rows, which an owner of the book may do."""
        connection = self._connect()
        try:
            with Deadline(connection, self._timeout):
                connection.execute("SELECT tallybook.erase_runs(%s, %s)", (self._book, before))
        except psycopg_error() as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.address, self._timeout)
        return self._connection

    def _rows(self, query: str, values: tuple[Any, ...]) -> _Rows:
        """Return the answer to a question, asked again where the server closed an idle connection."""
        is_stale = self._connection is not None
        connection = self._connect()
        rows: _Rows = []
        deadline = Deadline(connection, self._timeout)
        try:
            with deadline, connection.cursor(binary=True) as cursor:
                for row in cursor.stream(query.encode(), values):
                    rows.append(row)
                    deadline.extend()
        except psycopg_error() as error:
            if deadline.expired:
                raise self._no_answer() from error
            if not (is_stale and connection.closed):
                raise
            self.close()
            return self._rows(query, values)
        return rows

    def _insert(self, number: int, data: bytes) -> Put:
        """Insert a row in one transaction, in one round trip."""
        connection = self._connect()
        seconds = self._timeout + len(data) / _BYTES_A_SECOND
        tag = digest(data)
        try:
            # The server cancels a statement first, which then is certainly not stored.
            with Deadline(connection, 1.5 * seconds), connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
                connection.execute(_LIMITS, [str(round(seconds * 1000))])
                answer = connection.execute(_PUT, {"book": self._book, "number": number, "tag": tag, "data": data})
                # A limit that cut COMMIT short would cut the wait for standbys and confirm nevertheless.
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("COMMIT")
            is_stored = answer.fetchone() is not None
        except psycopg_error() as error:
            if connection.closed or error.sqlstate in _UNKNOWN:
                self.close()
                return Put(PutOutcome.UNKNOWN)
            self._roll_back(connection)
            raise self._failure(error) from error
        return Put(PutOutcome.DONE, tag) if is_stored else Put(PutOutcome.TAKEN)

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except psycopg_error():
            self.close()

    def _failure(self, error: psycopg.Error) -> EngineError:
        """Return the error for a statement's failure, with the server's reason."""
        reason = error.diag.message_primary or str(error)
        if error.sqlstate in _READ_ONLY:
            return ReadOnlyError(self.address, reason)
        if error.sqlstate in _NO_TABLES:
            return self._no_tables()
        return self._no_answer() if error.sqlstate == "57014" else unreachable(self.address, reason)

    def _no_answer(self) -> UnreachableError:
        return UnreachableError(self.address, f"no answer within {self._timeout:g} seconds")

    def _no_tables(self) -> UnreachableError:
        hint = f"its operator runs once: psql ADDRESS --file {setup_file()}"
        return UnreachableError(self.address, "the database has no tables for books", hint)

    def _state(self) -> _State:
        """Return what this user finds in the database.

        Raises:
            FormerLayoutError: Its tables are of an earlier version.
        """
        try:
            [row] = self._rows(_STATE, ())
        except psycopg_error() as error:
            raise self._failure(error) from error
        state = _State(*row)
        if state.is_former:
            removal = "psql ADDRESS -c 'DROP SCHEMA tallybook CASCADE'"
            raise FormerLayoutError(self.address, "the schema tallybook", removal)
        return state

    def _require_creator(self) -> None:
        """Refuse to read a book that does not exist, unless this user's first put would create it."""
        state = self._state()
        if state.may_create:
            return
        if not state.has_tables:
            raise self._no_tables()
        why = f"user {state.user} has no right to a book {self._book}"
        hint = f"its operator runs: {grant_command(self._book, state.user, 'write')}"
        raise UnreachableError(self.address, why, hint)

    def _create(self) -> bool:
        """Create the tables where they are missing, and the book; return whether this user may do that."""
        state = self._state()
        if not state.may_create:
            return False
        connection = self._connect()
        # Where another process creates the same at this moment, one of both fails, and what is missing shows later.
        with suppress(psycopg_error()):
            if not state.has_tables:
                with open(setup_file(), "rb") as file:
                    connection.execute(file.read())
            connection.execute(grant_command(self._book, state.user, "own").encode())
        self._roll_back(connection)
        return True


def psycopg_error() -> type[psycopg.Error]:
    """Return the class of the library's errors, which is loaded only where a connection is wanted."""
    import psycopg

    return psycopg.Error


def server_warnings(fsync: str, commit: str) -> Iterator[str]:
    """Yield what in a server's settings endangers a book."""
    if fsync != "on":
        yield "the server has fsync off: a crash of its machine can lose events that it confirmed"
    if commit in {"off", "local"}:
        yield f"the server has synchronous_commit {commit}; appends to a book switch it on for themselves"
