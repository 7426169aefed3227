"""Connections to PostgreSQL: addresses, TLS, time limits, and what helps where there is no connection.

Credentials, certificates and services come from the usual places of libpq: ``~/.pgpass``, ``PG*`` variables,
``~/.pg_service.conf``, ``~/.postgresql``.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.engines.store import MissingLibraryError, UnreachableError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_SILENT = logging.NullHandler()
SCHEMES = ("postgresql", "postgres")
SERVICE = "service="
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


def check_address(address: str) -> None:
    """Refuse an address that is not one, or holds a password: addresses are stored and shown.

    Raises:
        BadInputError: It is neither ``postgresql://…`` nor ``service=NAME``, or it holds a password.
    """
    if address.startswith(SERVICE) and address != SERVICE and not any(map(str.isspace, address)):
        return
    try:
        parts = urlsplit(address)
        has_secret = parts.password is not None or any(name in parse_qs(parts.query) for name in _SECRETS)
    except ValueError:
        parts, has_secret = urlsplit(""), False
    if has_secret:
        raise BadInputError("address", "holds a password", "leave it out and put it into ~/.pgpass")
    if parts.scheme not in SCHEMES or any(map(str.isspace, address)):
        hint = "use postgresql://HOST:PORT/DATABASE or service=NAME"
        raise BadInputError("address", "is not an address of PostgreSQL", hint)


def connect(address: str, timeout: float) -> Connection:
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
    try:
        connection = psycopg.connect(address, **options)
    except (psycopg.Error, OSError) as error:
        raise unreachable(address, str(error)) from error
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


def unreachable(address: str, message: str) -> UnreachableError:
    """Return the error for a connection's failure, with what helps against it."""
    why = " ".join(message.split()).removeprefix("connection failed: ")
    for part, hint in _HINTS:
        if part in why:
            return UnreachableError(address, why, hint)
    return UnreachableError(address, why)


class Deadline:
    """Cuts a connection that does not answer in time; whoever waits for it then gets an error of the connection.

    Limits of the server do not hold where the server has stopped or the network swallows everything.

    Attributes:
        expired: Whether it cut the connection.
    """

    def __init__(self, connection: Connection, seconds: float) -> None:
        """Begin with entering the block."""
        self.expired = False
        self._seconds = seconds
        self._until = 0.0
        self._done = threading.Event()
        # A file descriptor of its own stays valid where the connection closes its.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start to count."""
        self.extend()
        self._thread.start()
        return self

    def extend(self) -> None:
        """Count from now: something was answered."""
        self._until = time.monotonic() + self._seconds

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop counting."""
        self._done.set()
        self._thread.join()
        self._socket.close()

    def _watch(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            if self._done.wait(left):
                return
        self.expired = True
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the server was quicker to close it
            return
