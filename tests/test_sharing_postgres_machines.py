"""Machines that share a playbook through a real PostgreSQL, by the real command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from helpers.shared_clones import Machine, share_all

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.postgres_server import Database


def make_machine(database: Database, folder: Path, role: str) -> Machine:
    """Return a role's machine: its password and the authority's certificate stand where libpq looks for them."""
    machine = Machine(folder / role, PGSSLMODE="verify-full")
    (machine.root / ".claude").mkdir(parents=True)
    passwords = machine.home / ".pgpass"
    passwords.write_text(f"localhost:*:tally:{role}:secret-of-{role}\n")
    passwords.chmod(0o600)
    (machine.home / ".postgresql").mkdir()
    (machine.home / ".postgresql" / "root.crt").write_bytes(database.server.certificates.authority.read_bytes())
    # libpq asks the system for a home, and only where these are not set.
    machine.environment["PGPASSFILE"] = str(passwords)
    machine.environment["PGSSLROOTCERT"] = str(machine.home / ".postgresql" / "root.crt")
    return machine


def test_two_machines_share_a_playbook(postgres_database: Database, tmp_path: Path) -> None:
    """What one adds and rates the other has after a sync of each; no answer and no file shows a password."""
    book = postgres_database.new_book(anna="write", ben="write")
    anna, ben = (make_machine(postgres_database, tmp_path, role) for role in ("anna", "ben"))
    address = postgres_database.address("anna", options="")
    share_all([anna], "postgres", address, "--book", book)
    ben.do("share", "postgres", address.replace("anna", "ben"), "--book", book, "--yes")
    ben.do("add", "Write tests")
    ben.do("rate", "kpt_001", "helpful")
    said = ben.do("sync") + anna.do("sync") + anna.do("share", "status")
    assert {"Use type hints", "Write tests"} == {text for text, *_ in anna.entries().values()}
    assert (ben.entries(), ben.replica()) == (anna.entries(), anna.replica())
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".pgpass"]
    assert (0, []) == (said.count("secret-of"), [path for path in files if b"secret-of" in path.read_bytes()])


def test_a_reader_takes_in_and_keeps_what_he_adds(postgres_database: Database, tmp_path: Path) -> None:
    """A role that may only read follows the book, and is told why its own events wait."""
    book = postgres_database.new_book(anna="write", rita="read")
    anna, rita = (make_machine(postgres_database, tmp_path, role) for role in ("anna", "rita"))
    address = postgres_database.address("anna", options="")
    share_all([anna], "postgres", address, "--book", book)
    rita.do("share", "postgres", address.replace("anna", "rita"), "--book", book, "--yes")
    rita.do("add", "Mine alone")
    anna.do("add", "Write tests")
    anna.do("sync")
    answer = rita.run("sync")
    assert "permission denied for table runs" in answer.err
    assert {"Use type hints", "Write tests", "Mine alone"} == {text for text, *_ in rita.entries().values()}
    anna.do("sync")
    assert {"Use type hints", "Write tests"} == {text for text, *_ in anna.entries().values()}


def test_the_state_warns_of_settings_that_lose_events(postgres_database: Database, tmp_path: Path) -> None:
    """`share status` says where the server does not wait for its disk."""
    book = postgres_database.new_book(anna="write")
    anna = make_machine(postgres_database, tmp_path, "anna")
    share_all([anna], "postgres", postgres_database.address("anna", options=""), "--book", book)
    assert [] == json.loads(anna.do("share", "status", "--json"))["warnings"]
    postgres_database.server.execute("ALTER ROLE anna SET synchronous_commit = off")
    try:
        assert "Warning: the server has synchronous_commit off; appends" in anna.do("share", "status")
    finally:
        postgres_database.server.execute("ALTER ROLE anna RESET synchronous_commit")


def test_the_command_that_redact_names_removes_the_text(postgres_database: Database, tmp_path: Path) -> None:
    """It is typed as it stands, by an owner of the book; then no row holds the text, and the machines go on."""
    book = postgres_database.new_book(olga="own", ben="write")
    olga, ben = (make_machine(postgres_database, tmp_path, role) for role in ("olga", "ben"))
    # The psql of the tests' server has no TLS.
    address = f"postgresql://olga@localhost:{postgres_database.server.port}/tally?sslmode=disable"
    share_all([olga], "postgres", address, "--book", book)
    ben.do("share", "postgres", address.replace("olga", "ben"), "--book", book, "--yes")
    ben.do("add", "Ask Petra Zwiebel about the vault")
    ben.do("sync")
    olga.do("sync")
    lines = olga.do("redact", "--text", "Petra Zwiebel", "--yes", "--expect", "1", "--reason", "a name").splitlines()
    commands = [line.partition("; run: ")[2] for line in lines if "still holds it" in line]
    assert ["tallybook sync", "tallybook share repair"] == commands
    holding = "SELECT count(*) FROM tallybook.runs WHERE position('Zwiebel'::bytea IN data) > 0"
    assert [(1,)] == postgres_database.server.execute(holding, "tally")
    olga.do("sync")
    olga.do("share", "repair", "--yes")
    assert [(0,)] == postgres_database.server.execute(holding, "tally")
    for machine in (olga, ben, olga):
        machine.do("sync")
        machine.do("share", "verify")
    assert olga.entries() == ben.entries()
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file() and b"Zwiebel" in path.read_bytes()]
