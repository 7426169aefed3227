"""Connections to a real PostgreSQL: TLS, passwords, and what a user is told where there is no connection."""

from __future__ import annotations

from contextlib import closing
import socket
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_runs
from helpers.engines import postgres_engine
from helpers.postgres_front import Front
from tallybook.ledger.sharing.engines.engine import NOTHING, Outcome
from tallybook.ledger.sharing.engines.store import UnreachableError

if TYPE_CHECKING:
    from helpers.postgres_server import Database

FAR = "127.0.0.2"
"""An address of this machine that the engine takes for another machine's."""


@pytest.fixture
def far() -> str:
    """Return that address where this system has it."""
    try:
        socket.create_server((FAR, 0)).close()
    except OSError:
        pytest.skip(f"this system has no address {FAR}")
    return FAR


def reason(address: str) -> str:
    """Return the message of a read that must fail to connect."""
    with closing(postgres_engine(address, "book", 5)) as engine, pytest.raises(UnreachableError) as error:
        engine.read(0)
    assert "secret" not in str(error.value)
    return str(error.value)


def test_who_cannot_connect_is_told_why_and_what_helps(postgres_database: Database) -> None:
    """A wrong or missing password, an unknown authority, no TLS, no server, no database: each has its own message."""
    with postgres_database.credentials() as patch:
        anna = postgres_database.address("anna")
        plain_front = postgres_database.address("anna", options="sslmode=disable")
        nobody = anna.replace(f":{postgres_database.front.port}/", ":1/")
        assert "Connection refused" in reason(nobody)
        assert 'database "other" does not exist' in reason(anna.replace("/tally", "/other"))
        if not postgres_database.server.has_tls:
            assert "closed the connection unexpectedly" in reason(plain_front)
        patch.setenv("PGPASSWORD", "a wrong secret")
        assert "password authentication failed" in (message := reason(anna))
        assert message.endswith("put the password into ~/.pgpass as HOST:PORT:DATABASE:USER:PASSWORD, with chmod 600")
        patch.delenv("PGPASSWORD")
        patch.setenv("PGPASSFILE", "/nowhere")
        assert "no password supplied; put the password into ~/.pgpass" in reason(anna)
        patch.delenv("PGSSLROOTCERT")
        assert "root certificate file" in (message := reason(anna))
        assert "set PGSSLROOTCERT" in message


def test_a_server_without_tls_is_refused(postgres_database: Database) -> None:
    """The engine does not fall back to an unencrypted connection."""
    if postgres_database.server.has_tls:
        pytest.skip("this server has TLS")
    address = f"postgresql://anna@localhost:{postgres_database.server.port}/tally?sslmode=verify-full"
    message = reason(address)
    assert "server does not support SSL" in message
    assert "switch TLS on at the server" in message


def test_another_machine_must_prove_its_name(postgres_database: Database, far: str) -> None:
    """Without an sslmode of the user's the certificate is verified, for the name in the address."""
    certificates = postgres_database.server.certificates
    with postgres_database.credentials() as patch, closing(Front(1, certificates, far)) as front:
        address = f"postgresql://anna@{far}:{front.port}/tally"
        assert f'does not match host name "{far}"' in reason(address)
        patch.delenv("PGSSLROOTCERT")
        assert "certificate verify failed" in reason(address)
        # This mode has the user's word for it, and gets as far as the server that is not there.
        assert "certificate" not in reason(f"{address}?sslmode=require")


def test_an_unencrypted_connection_to_another_machine_is_refused(postgres_database: Database, far: str) -> None:
    """A service that does not speak of TLS connects without it only where it says so."""
    book = postgres_database.new_book(anna="write")
    server = postgres_database.server
    services = server.folder / "services"
    with postgres_database.credentials() as patch, closing(Front(server.port, None, far)) as front:
        service = f"[far]\nhost={far}\nport={front.port}\ndbname=tally\nuser=anna\n"
        patch.setenv("PGSERVICEFILE", str(services))
        patch.delenv("PGSSLROOTCERT")
        services.write_text(service)
        with closing(postgres_engine("service=far", book)) as engine:
            if not server.has_tls:
                with pytest.raises(UnreachableError, match="the connection would not be encrypted; set sslmode="):
                    engine.read(0)
            services.write_text(service + "sslmode=disable\n")
            assert Outcome.DONE is engine.append(NOTHING, make_runs(1)).outcome
