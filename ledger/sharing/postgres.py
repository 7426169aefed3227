"""A book in a PostgreSQL database: a row a run, in the tables of ``prompts/sharing/postgres.sql``.

The primary key compares: a number that is in use is not given again.
Credentials, certificates and services come from the usual places of libpq: ``~/.pgpass``, ``PG*`` variables,
``~/.pg_service.conf``, ``~/.postgresql``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
import logging
import os
import socket
import ssl
import threading
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import digest
from tallybook.ledger.sharing import engine

Connection = psycopg.Connection[tuple[Any, ...]]
_Rows = list[tuple[Any, ...]]
_LIMIT_S: Final = 30.0
_BYTES_A_SECOND: Final = 100_000
"""What a slow connection carries: a statement has its timeout and the time that its bytes need at that rate."""

# A book without a run gives a row of nulls; one that is missing, or hidden from this role, gives none.
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
# Reading ends at a gap: after a loss nobody would read a run under the number that its writer still expects.
_PUT: Final = """
INSERT INTO tallybook.runs (book, number, tag, data) SELECT %(book)s, %(number)s, %(tag)s, %(data)b
WHERE %(number)s = 1 OR EXISTS (SELECT FROM tallybook.runs AS r WHERE r.book = %(book)s AND r.number = %(number)s - 1)
ON CONFLICT DO NOTHING RETURNING number
"""
# Who may create the tables, or owns them, may make a book.
_MAKER: Final = """
SELECT current_user::text, c.oid IS NOT NULL,
    CASE WHEN c.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
    ELSE pg_has_role(c.relowner, 'USAGE') END
FROM (SELECT 1) AS always LEFT JOIN pg_catalog.pg_class AS c
    ON c.relname = 'runs' AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'tallybook')
"""

_UNKNOWN: Final = ("08007", "40003")
"""The server itself does not know."""
_CANCELLED: Final = "57014"

# What the library logs of a broken connection would go to standard error; it is an error of the engine as well.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_LOCAL: Final = ("", "localhost", "127.0.0.1", "::1")
_SECRETS: Final = {"password", "sslpassword", "oauth_client_secret"}
_HINTS: Final = {
    "password": "put the password into ~/.pgpass as HOST:PORT:DATABASE:USER:PASSWORD, with chmod 600",
    "certificate": "put the certificate of the server's authority into ~/.postgresql/root.crt, or set PGSSLROOTCERT",
}
"""Part of the reason why there is no connection → what helps."""


def setup_file() -> str:
    """Return the path of the SQL file that an operator runs once in a database."""
    return str(resources.files("tallybook.prompts") / "sharing" / "postgres.sql")


def grant_command(book: str, role: str, right: str) -> str:
    """Return the SQL with which an operator grants a role a right on a book: ``read``, ``write`` or ``own``."""
    texts = ", ".join("'" + text.replace("'", "''") + "'" for text in (book, role, right))
    return f"SELECT tallybook.grant_book({texts});"


class _NoBookError(engine.UnreachableError):
    """The database has no tables for books, or not this book."""


_ERRORS: Final[dict[str, type[engine.EngineError]]] = {
    # A missing schema, table or function, and a book that the table of books does not have.
    **dict.fromkeys(("3F000", "42P01", "42883", "23503"), _NoBookError),
    # A server or a session that may only read, and a missing right.
    **dict.fromkeys(("25006", "42501"), engine.ReadOnlyError),
    # A missing column.
    "42703": engine.FormerLayoutError,
}
"""State of a statement that failed → its error."""


class PostgresStore(engine.Store):
    """Holds the runs of a book in a PostgreSQL database.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`.
    """

    knows_authors = True

    def __init__(self, address: str, book: str, limit_s: float = _LIMIT_S, *, login: str = "") -> None:
        """Connect to nothing yet.

        Args:
            address: ``postgresql://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE…]`` or ``service=NAME``.
            book: The book's name.
            limit_s: How many seconds it waits at most for a connection, and for each answer.
            login: The path of a file with the password; empty for the usual places.

        Raises:
            BadInputError: The address is not one, or holds a password.
        """
        _check_address(address)
        self.address = address
        self._book = book
        self._timeout = min(limit_s, _LIMIT_S)
        self._login = login
        self._connection: Connection | None = None
        self._sizes: dict[int, int] = {}

    def list(self, after: int) -> Sequence[engine.StoredRun]:
        """Return the numbers of the book's rows."""
        try:
            rows = self._ask(_LIST, (after, self._book))
        except (_NoBookError, engine.ReadOnlyError):
            rows = []
        if not rows:
            self._find_maker()
            return []
        self.warnings = tuple(_warnings(*rows[0][:2]))
        entries = [engine.StoredRun(*row[2:]) for row in rows if row[2] is not None]
        self._sizes |= {entry.number: entry.size or 0 for entry in entries}
        return entries

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the data of rows."""
        return dict(self._ask(_GET, (self._book, [*numbers]), sum(self._sizes.get(number, 0) for number in numbers)))

    def put(self, number: int, data: bytes) -> str | None:
        """Insert a row, unless there is one of this number; the first one makes the book, where this user may do so."""
        try:
            return self._insert(number, data)
        except (_NoBookError, engine.ReadOnlyError):
            if number > 1:
                raise
            self._make_book()
        return self._insert(number, data)

    def erase(self, before: int) -> None:
        """Empty the data of earlier rows, which an owner of the book may do."""
        self._ask("SELECT tallybook.erase_runs(%s, %s)", (self._book, before))

    def describe_remains(self) -> str:
        """Say that the table's files keep former versions of rows."""
        return (
            "the table's files keep erased runs until its operator runs: VACUUM FULL tallybook.runs; "
            "the write-ahead log and backups keep them longer"
        )

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        """Return the connection to the primary server.

        One to another machine is encrypted and the server's certificate verified, unless the address, the service or
        ``PGSSLMODE`` has another ``sslmode``.

        Raises:
            UnreachableError: There is none; with the reason and what helps.
        """
        if self._connection is not None and not self._connection.closed:
            return self._connection
        options = _options(self.address, self._timeout)
        if self._login:
            try:
                with open(self._login, encoding="utf-8") as file:
                    options["password"] = file.read().rstrip("\n")
            except (OSError, ValueError) as error:
                what = "names a file that cannot be read"
                raise BadInputError("--password-file", what, "name one of yours") from error
        try:
            connection = psycopg.connect(self.address, **options)
        except psycopg.Error as error:
            raise self._failure(error) from error
        # A service can name another machine and say nothing of TLS.
        is_plain = not (connection.pgconn.ssl_in_use or _is_local(connection.info.host))
        if is_plain and connection.info.get_parameters().get("sslmode") != "disable":
            connection.close()
            hint = "set sslmode=verify-full, or sslmode=disable where the network is trusted"
            raise engine.UnreachableError(self.address, "the connection would not be encrypted", hint)
        self._connection = connection
        return connection

    def _ask(self, query: str, values: tuple[Any, ...] = (), size: int = 0) -> _Rows:
        """Return the rows of an answer that has about so many bytes.

        Raises:
            EngineError: There is none.
        """
        connection = self._connect()
        try:
            seconds = self._timeout + size / _BYTES_A_SECOND
            with _cut_after(connection, seconds) as is_cut, connection.cursor(binary=True) as cursor:
                return cursor.execute(query.encode(), values).fetchall()
        except psycopg.Error as error:
            raise self._failure(error, is_cut=is_cut.is_set()) from error

    def _insert(self, number: int, data: bytes) -> str | None:
        """Insert a row in one transaction, in one round trip."""
        connection = self._connect()
        seconds = self._timeout + len(data) / _BYTES_A_SECOND
        tag = digest(data)
        try:
            # The server cancels a statement first, which then is certainly not stored.
            with _cut_after(connection, 1.5 * seconds), connection.pipeline():
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
                connection.execute(_LIMITS, [str(round(seconds * 1000))])
                answer = connection.execute(_PUT, {"book": self._book, "number": number, "tag": tag, "data": data})
                # A limit that cut COMMIT short would cut the wait for standbys and confirm nevertheless.
                connection.execute("SET LOCAL statement_timeout = 0")
                connection.execute("COMMIT")
            return None if answer.fetchone() is None else tag
        except psycopg.Error as error:
            is_unknown = connection.closed or error.sqlstate in _UNKNOWN
            # The transaction ends with its connection.
            self.close()
            if is_unknown:
                return None
            raise self._failure(error) from error

    def _failure(self, error: psycopg.Error, *, is_cut: bool = False) -> engine.EngineError:
        """Return the error for a connection or a statement that failed, with the reason and what helps against it."""
        if is_cut or error.sqlstate == _CANCELLED:
            return engine.UnreachableError(self.address, f"no answer within {self._timeout:g} seconds")
        why = " ".join((error.diag.message_primary or str(error)).split()).removeprefix("connection failed: ")
        hint = next((hint for part, hint in _HINTS.items() if part in why), "")
        return _ERRORS.get(error.sqlstate or "", engine.UnreachableError)(self.address, why, hint)

    def _find_maker(self) -> tuple[str, bool]:
        """Return this user, who may make the book, and whether the tables exist.

        Raises:
            UnreachableError: He may not; the message has what an operator runs.
        """
        [(user, has_tables, may_make)] = self._ask(_MAKER)
        if may_make:
            return user, has_tables
        set_up = "" if has_tables else f"psql ADDRESS --file {setup_file()}, and then in it: "
        hint = f"its operator runs: {set_up}{grant_command(self._book, user, 'write')}"
        raise engine.UnreachableError(self.address, f"user {user} has no right to a book {self._book}", hint)

    def _make_book(self) -> None:
        """Make the book, and the tables where they are missing."""
        user, has_tables = self._find_maker()
        connection = self._connect()
        # Where another process does the same at this moment, one of both fails, and what is missing shows later.
        with suppress(psycopg.Error), _cut_after(connection, self._timeout):
            if not has_tables:
                with open(setup_file(), "rb") as file:
                    connection.execute(file.read())
            connection.execute(grant_command(self._book, user, "own").encode())
            return
        self.close()


def _warnings(fsync: str, commit: str) -> Iterator[str]:
    """Yield what in a server's settings endangers a book."""
    if fsync != "on":
        yield "the server has fsync off: a crash of its machine can lose events that it confirmed"
    if commit in {"off", "local"}:
        yield f"the server has synchronous_commit {commit}; appends to a book switch it on for themselves"


def _check_address(address: str) -> None:
    """Refuse an address that is not one, or holds a password: addresses are stored and shown.

    Raises:
        BadInputError: It is neither ``postgresql://…`` nor ``service=NAME``, or it holds a password.
    """
    try:
        chosen = conninfo_to_dict(address)
    except psycopg.Error:
        chosen = {}
    if chosen.keys() & _SECRETS:
        hint = "leave it out and put it into ~/.pgpass, or give --password-file FILE"
        raise BadInputError("address", "holds a password", hint)
    is_url = address.startswith(("postgresql://", "postgres://")) and not any(map(str.isspace, address))
    if not any(chosen.values()) or not (is_url or [*chosen] == ["service"]):
        hint = "use postgresql://HOST:PORT/DATABASE or service=NAME"
        raise BadInputError("address", "is not an address of PostgreSQL", hint)


def _options(address: str, timeout: float) -> dict[str, Any]:
    """Return the options of a connection that the user has not set."""
    chosen = conninfo_to_dict(address)
    options: dict[str, Any] = {
        "application_name": "tallybook",
        "autocommit": True,
        # The client library waits for two seconds at least.
        "connect_timeout": max(2, round(timeout)),
        # A pipeline that fails leaves the library in doubt of which statements are prepared, and poolers have none.
        "prepare_threshold": None,
        # A standby shows appends late.
        "target_session_attrs": os.environ.get("PGTARGETSESSIONATTRS", "primary"),
        "tcp_user_timeout": round(timeout * 1000),
    }
    if not _is_local(str(chosen.get("host") or os.environ.get("PGHOST", ""))):
        options["sslmode"] = os.environ.get("PGSSLMODE", "verify-full")
        # `require` would verify, too, if it were given the authorities.
        is_verified = str(chosen.get("sslmode", options["sslmode"])).startswith("verify")
        has_own = "PGSSLROOTCERT" in os.environ or os.path.exists(os.path.expanduser("~/.postgresql/root.crt"))
        if is_verified and not has_own and (authorities := ssl.get_default_verify_paths().cafile):
            options["sslrootcert"] = authorities
    return {name: value for name, value in options.items() if name not in chosen}


def _is_local(host: str) -> bool:
    return host in _LOCAL or host.startswith("/")


@contextmanager
def _cut_after(connection: Connection, seconds: float) -> Iterator[threading.Event]:
    """Cut a connection that does not answer in time, so that its caller gets an error, and set the event.

    Limits of the server do not hold where the server has stopped or the network swallows everything.
    """
    is_cut = threading.Event()
    # A file descriptor of its own stays valid where the connection closes its.
    copy = socket.socket(fileno=os.dup(connection.fileno()))

    def cut() -> None:
        is_cut.set()
        # The server may have been quicker to close it.
        with suppress(OSError):
            copy.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield is_cut
    finally:
        timer.cancel()
        timer.join()
        copy.close()
