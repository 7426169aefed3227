"""A book in a PostgreSQL database: a row a run, in the tables of ``prompts/sharing/postgres.sql``.

The primary key compares: a number that is in use is not given again.
Credentials, certificates and services come from the usual places of libpq: ``~/.pgpass``, ``PG*`` variables,
``~/.pg_service.conf``, ``~/.postgresql``.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from importlib import resources
import logging
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import digest
from tallybook.ledger.sharing.engines.store import (
    EngineError,
    Entry,
    FormerLayoutError,
    MissingLibraryError,
    Put,
    PutOutcome,
    ReadOnlyError,
    UnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_Rows = list[tuple[Any, ...]]
_BYTES_A_SECOND: Final = 100_000
"""What a slow connection carries: a statement has its timeout and the time that its bytes need at that rate."""
_PAGE: Final = 10_000
"""So many numbers are listed at once."""

# A book without a run gives a row of nulls; one that is missing, or hidden from this role, gives none.
_LIST: Final = """
SELECT current_setting('fsync'), current_setting('synchronous_commit'),
    r.number, r.tag, octet_length(r.data), r.author::text
FROM tallybook.books AS b LEFT JOIN tallybook.runs AS r ON r.book = b.book AND r.number > %s
WHERE b.book = %s
ORDER BY r.number LIMIT %s
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


_SILENT = logging.NullHandler()
_SCHEMES = ("postgresql", "postgres")
_SERVICE = "service="
_LOCAL = ("", "localhost", "127.0.0.1", "::1")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")

_HINTS = (
    ("password", "put the password into ~/.pgpass as HOST:PORT:DATABASE:USER:PASSWORD, with chmod 600"),
    ("certificate", "put the certificate of the server's authority into ~/.postgresql/root.crt, or set PGSSLROOTCERT"),
    ("does not support SSL", "switch TLS on at the server; sslmode=disable in the address does without"),
    ("pg_hba.conf", "ask its operator to let this user in"),
    ("definition of service", "define the service in ~/.pg_service.conf"),
    ("could not translate host name", "check the host in the address"),
)
"""Part of the reason why there is no connection → what helps."""


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
        segments: As in `Store`; none.
    """

    def __init__(self, address: str, book: str, timeout: float = 30, *, login: str = "") -> None:
        """Connect to nothing yet.

        Args:
            address: ``postgresql://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE…]`` or ``service=NAME``.
            book: The book's name.
            timeout: How many seconds it waits for a connection, and for each answer.
            login: The path of a file with the password; empty for the usual places.

        Raises:
            BadInputError: The address is not one, or holds a password.
        """
        _check_address(address)
        self.address = address
        self.warnings: tuple[str, ...] = ()
        self.segments = None
        self._book = book
        self._timeout = timeout
        self._login = login
        self._connection: Connection | None = None
        self._sizes: dict[int, int] = {}

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers of the book's rows."""
        entries: list[Entry] = []
        while True:
            try:
                rows = self._rows(_LIST, (after, self._book, _PAGE))
            except psycopg_error() as error:
                if error.sqlstate not in _NO_TABLES + _READ_ONLY:
                    raise self._failure(error) from error
                rows = []
            if not rows:
                self._require_creator()
                return entries
            self.warnings = tuple(server_warnings(*rows[0][:2]))
            page = [Entry(*row[2:]) for row in rows if row[2] is not None]
            self._sizes |= {entry.number: entry.size or 0 for entry in page}
            entries += page
            if len(page) < _PAGE:
                return entries
            after = page[-1].number

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the data of rows."""
        size = sum(self._sizes.get(number, 0) for number in numbers)
        try:
            return dict(self._rows(_GET, (self._book, [*numbers]), size))
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
            with _cut_after(connection, self._timeout):
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
            self._connection = _connect(self.address, self._timeout, self._login)
        return self._connection

    def _rows(self, query: str, values: tuple[Any, ...], size: int = 0) -> _Rows:
        """Return the answer to a question, asked again where the server closed an idle connection.

        Args:
            query: The question.
            values: Its parameters.
            size: About how many bytes the answer has.
        """
        is_stale = self._connection is not None
        connection = self._connect()
        try:
            with _cut_after(connection, self._seconds(size)) as is_cut, connection.cursor(binary=True) as cursor:
                return cursor.execute(query.encode(), values).fetchall()
        except psycopg_error() as error:
            if is_cut.is_set():
                raise self._no_answer() from error
            if not (is_stale and connection.closed):
                raise
            self.close()
            return self._rows(query, values, size)

    def _seconds(self, size: int) -> float:
        """Return how many seconds a statement with so many bytes may take."""
        return self._timeout + size / _BYTES_A_SECOND

    def _insert(self, number: int, data: bytes) -> Put:
        """Insert a row in one transaction, in one round trip."""
        connection = self._connect()
        seconds = self._seconds(len(data))
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
        return self._no_answer() if error.sqlstate == "57014" else _unreachable(self.address, reason)

    def _no_answer(self) -> UnreachableError:
        return UnreachableError(self.address, f"no answer within {self._timeout:g} seconds")

    def _no_tables(self) -> UnreachableError:
        hint = f"its operator runs once: psql ADDRESS --file {setup_file()}"
        return UnreachableError(self.address, "the database has no tables for books", hint)

    def _state(self) -> tuple[bool, str, bool]:
        """Return whether the tables exist, who this user is, and whether he may create them, or a book in them.

        Raises:
            FormerLayoutError: The tables are of an earlier version.
        """
        try:
            [(has_tables, user, may_create, is_former)] = self._rows(_STATE, ())
        except psycopg_error() as error:
            raise self._failure(error) from error
        if is_former:
            removal = "psql ADDRESS -c 'DROP SCHEMA tallybook CASCADE'"
            raise FormerLayoutError(self.address, "the schema tallybook", removal)
        return has_tables, user, may_create

    def _require_creator(self) -> None:
        """Refuse to read a book that does not exist, unless this user's first put would create it."""
        has_tables, user, may_create = self._state()
        if may_create:
            return
        if not has_tables:
            raise self._no_tables()
        hint = f"its operator runs: {grant_command(self._book, user, 'write')}"
        raise UnreachableError(self.address, f"user {user} has no right to a book {self._book}", hint)

    def _create(self) -> bool:
        """Create the tables where they are missing, and the book; return whether this user may do that."""
        has_tables, user, may_create = self._state()
        if not may_create:
            return False
        connection = self._connect()
        # Where another process creates the same at this moment, one of both fails, and what is missing shows later.
        with suppress(psycopg_error()):
            if not has_tables:
                with open(setup_file(), "rb") as file:
                    connection.execute(file.read())
            connection.execute(grant_command(self._book, user, "own").encode())
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


def _check_address(address: str) -> None:
    """Refuse an address that is not one, or holds a password: addresses are stored and shown.

    Raises:
        BadInputError: It is neither ``postgresql://…`` nor ``service=NAME``, or it holds a password.
    """
    if address.startswith(_SERVICE) and address != _SERVICE and not any(map(str.isspace, address)):
        return
    try:
        parts = urlsplit(address)
        has_secret = parts.password is not None or any(name in parse_qs(parts.query) for name in _SECRETS)
    except ValueError:
        parts, has_secret = urlsplit(""), False
    if has_secret:
        raise BadInputError("address", "holds a password", "leave it out and put it into ~/.pgpass")
    if parts.scheme not in _SCHEMES or any(map(str.isspace, address)):
        hint = "use postgresql://HOST:PORT/DATABASE or service=NAME"
        raise BadInputError("address", "is not an address of PostgreSQL", hint)


def _connect(address: str, timeout: float, password_file: str) -> Connection:
    """Return a connection to the primary server.

    A connection to another machine is encrypted and the server's certificate verified, unless the address, the
    service or ``PGSSLMODE`` has another ``sslmode``.

    Raises:
        MissingLibraryError: psycopg is not installed.
        UnreachableError: There is no connection; with the reason and what helps.
    """
    try:
        import psycopg
    except ImportError as error:
        raise MissingLibraryError(address, "psycopg[binary]", "pip install 'psycopg[binary]'") from error
    # What psycopg logs of a broken connection would go to standard error; it is an error of the engine as well.
    logging.getLogger("psycopg").addHandler(_SILENT)
    # Without prepared statements: a pipeline that fails leaves psycopg in doubt of which exist, and poolers have none.
    options = {"autocommit": True, "prepare_threshold": None, **_parameters(address, timeout)}
    if password_file:
        try:
            with open(password_file, encoding="utf-8") as file:
                options["password"] = file.read().rstrip("\n")
        except (OSError, ValueError) as error:
            raise BadInputError(f"--password-file {password_file}", "cannot be read", "name a file of yours") from error
    try:
        connection = psycopg.connect(address, **options)
    except (psycopg.Error, OSError) as error:
        raise _unreachable(address, str(error)) from error
    if _is_plain(connection):
        connection.close()
        why = "the connection would not be encrypted"
        raise UnreachableError(address, why, "set sslmode=verify-full, or sslmode=disable where the network is trusted")
    return connection


def _parameters(address: str, timeout: float) -> dict[str, Any]:
    """Return the parameters that the user has not set."""
    from psycopg import conninfo

    chosen = conninfo.conninfo_to_dict(address)
    parameters: dict[str, Any] = {
        "application_name": "tallybook",
        # The client library waits for two seconds at least.
        "connect_timeout": max(2, round(timeout)),
        "tcp_user_timeout": round(timeout * 1000),
    }
    if "PGTARGETSESSIONATTRS" not in os.environ:
        # A standby shows appends late.
        parameters["target_session_attrs"] = "primary"
    if not _is_local(str(chosen.get("host") or os.environ.get("PGHOST", ""))):
        parameters["sslmode"] = os.environ.get("PGSSLMODE", "verify-full")
        # `require` would verify, too, if it were given the authorities.
        verifies = str(chosen.get("sslmode", parameters["sslmode"])).startswith("verify")
        if verifies and "PGSSLROOTCERT" not in os.environ and (authorities := _authorities()):
            parameters["sslrootcert"] = authorities
    return {name: value for name, value in parameters.items() if name not in chosen}


def _is_local(host: str) -> bool:
    return host in _LOCAL or host.startswith("/")


def _authorities() -> str | None:
    """Return the file of the system's certificate authorities, None where the user has one of his own for libpq."""
    import ssl

    own = os.path.expanduser("~/.postgresql/root.crt")
    return None if os.path.exists(own) else ssl.get_default_verify_paths().cafile


def _is_plain(connection: Connection) -> bool:
    """Return whether a connection to another machine is not encrypted, and nobody asked for that."""
    if connection.pgconn.ssl_in_use or _is_local(connection.info.host):
        return False
    return connection.info.get_parameters().get("sslmode") != "disable"


def _unreachable(address: str, message: str) -> UnreachableError:
    """Return the error for a connection's failure, with what helps against it."""
    why = " ".join(message.split()).removeprefix("connection failed: ")
    for part, hint in _HINTS:
        if part in why:
            return UnreachableError(address, why, hint)
    return UnreachableError(address, why)


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
