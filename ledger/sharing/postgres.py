"""A book in a PostgreSQL database: one row per run, in the tables of ``prompts/sharing/postgres.sql``.

The primary key is the compare-and-swap: a number that is in use is not given again.
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
from time import monotonic
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
# The statement is a transaction of its own, and the settings hold in it. A server that does not wait for its disk by
# default waits for a book; one that waits for standbys as well goes on to. Reading ends at a gap: after a loss nobody
# would read a run under the number that its writer still expects.
_PUT: Final = """
INSERT INTO tallybook.runs (book, number, tag, data) SELECT %(book)s, %(number)s, %(tag)s, %(data)b
WHERE set_config('lock_timeout', %(limit)s, true) IS NOT NULL AND set_config('synchronous_commit',
        CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
        ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
    AND (%(number)s = 1
        OR EXISTS (SELECT FROM tallybook.runs AS r WHERE r.book = %(book)s AND r.number = %(number)s - 1))
ON CONFLICT DO NOTHING RETURNING number
"""
_UNKNOWN: Final = ("08007", "40003", "40001")
"""The server itself does not know, or another writer was quicker in the same moment."""
_LOCKED: Final = "55P03"

# What the library logs of a broken connection would go to standard error; it is an error of the engine as well.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
_LOCAL: Final = ("", "localhost", "127.0.0.1", "::1")
_SECRETS: Final = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
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


class _UnknownError(engine.UnreachableError):
    """No answer came to a statement, which was done or not."""


_REFUSED: Final = ("3F000", "42P01", "42883", "23503", "25006", "42501")
"""There is no schema, table, function, or such book; the server or the session may only read; or a right is missing."""
_NO_COLUMN: Final = "42703"
"""As in the tables of a version before the first release."""


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
        except engine.ReadOnlyError:
            rows = []
        if not rows:
            user = self._connect().info.user
            grant = grant_command(self._book, user, "write")
            hint = f"its operator runs: psql ADDRESS --file {setup_file()}, and then in it: {grant}"
            raise engine.UnreachableError(self.address, f"user {user} has no right to a book {self._book}", hint)
        self.warnings = tuple(_warnings(*rows[0][:2]))
        entries = [engine.StoredRun(*row[2:]) for row in rows if row[2] is not None]
        self._sizes |= {entry.number: entry.size or 0 for entry in entries}
        return entries

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the data of rows."""
        return dict(self._ask(_GET, (self._book, [*numbers]), sum(self._sizes.get(number, 0) for number in numbers)))

    def put(self, number: int, data: bytes) -> str | None:
        """Insert a row, unless there is one of this number."""
        tag = digest(data)
        # The server refuses to wait longer before this client cuts the connection, so that the outcome is known.
        limit = str(round(self._timeout * 1000 / 2))
        values = {"book": self._book, "number": number, "tag": tag, "data": data, "limit": limit}
        with suppress(_UnknownError):
            return tag if self._ask(_PUT, values, len(data)) else None
        return None

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
            why = _describe(error)
            hint = next((hint for part, hint in _HINTS.items() if part in why), "")
            raise engine.UnreachableError(self.address, why, hint) from error
        # A service can name another machine and say nothing of TLS.
        is_plain = not (connection.pgconn.ssl_in_use or _is_local(connection.info.host))
        if is_plain and connection.info.get_parameters().get("sslmode") != "disable":
            connection.close()
            hint = "set sslmode=verify-full, or sslmode=disable where the network is trusted"
            raise engine.UnreachableError(self.address, "the connection would not be encrypted", hint)
        self._connection = connection
        return connection

    def _ask(self, query: str, values: Any = None, size: int = 0) -> _Rows:
        """Return the rows of an answer; question and answer have about so many bytes.

        Raises:
            EngineError: There is none.
        """
        connection = self._connect()
        begin, limit_s = monotonic(), self._timeout + size / _BYTES_A_SECOND
        try:
            with _cut_after(connection, limit_s):
                cursor = connection.execute(query.encode(), values, binary=values is not None)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            if error.sqlstate == _LOCKED or monotonic() - begin >= limit_s:
                why = f"no answer within {self._timeout:g} seconds"
            else:
                why = _describe(error)
            if connection.closed or error.sqlstate in _UNKNOWN:
                raise _UnknownError(self.address, why) from error
            kind = engine.ReadOnlyError if error.sqlstate in _REFUSED else engine.UnreachableError
            raise (engine.FormerLayoutError if error.sqlstate == _NO_COLUMN else kind)(self.address, why) from error


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
        # Poolers have no prepared statements.
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


def _describe(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split()).removeprefix("connection failed: ")


@contextmanager
def _cut_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Cut a connection that does not answer in time, so that its caller gets an error.

    Limits of libpq and of the server do not hold where the server has stopped and its system still takes packets.
    """
    # A file descriptor of its own stays valid where the connection closes its.
    copy = socket.socket(fileno=os.dup(connection.fileno()))

    def cut() -> None:
        # The server may have been quicker to close it.
        with suppress(OSError):
            copy.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        copy.close()
