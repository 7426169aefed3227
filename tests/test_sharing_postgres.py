"""A book in a real PostgreSQL: rights, what the tables refuse, connections, redaction, and an operator's commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
import json
from pathlib import Path
import re
import socket
import subprocess
import sys
import time

import psycopg
import pytest

from helpers.commands import ROOT
from helpers.documentation import chapter
from helpers.engines import postgres_engine, read_runs
from helpers.memory_store import make_run, make_runs, plain
from helpers.postgres_front import Front
from helpers.postgres_server import Database
from helpers.shared_clones import Machine, share_all
from helpers.sweep import slice_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import START, Position
from tallybook.ledger.sharing.engine import NOTHING, Engine, EngineError, ReadOnlyError, Run, UnreachableError
from tallybook.ledger.sharing.postgres import grant_command, setup_file

Open = Callable[..., Engine]
Query = Callable[..., list[tuple[object, ...]]]

FAR = "127.0.0.2"
"""An address of this machine that the engine takes for another machine's."""
PAGE = "ledger/sharing/ENGINES.md"


@pytest.fixture
def environment(postgres_database: Database) -> Iterator[pytest.MonkeyPatch]:
    """Put credentials where libpq looks for them, and return what changes the environment until the test's end."""
    with postgres_database.credentials() as patch:
        yield patch


@pytest.fixture
def open_engine(postgres_database: Database, environment: pytest.MonkeyPatch) -> Iterator[Open]:
    """Return a function that opens a role's engine on a book; its connection is closed after the test."""
    del environment
    with ExitStack() as stack:

        def open_(role: str, book: str, address: str = "", timeout: float = 30) -> Engine:
            engine = postgres_engine(address or postgres_database.address(role), book, timeout)
            stack.callback(engine.close)
            return engine

        yield open_


@pytest.fixture
def query(postgres_database: Database, environment: pytest.MonkeyPatch) -> Query:
    """Return a function that runs a statement as a role."""
    del environment

    def run(role: str, statement: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(postgres_database.address(role), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    return run


def test_a_reader_reads_and_is_told_why_he_does_not_write(postgres_database: Database, open_engine: Open) -> None:
    """A role that may read gets every run; its append is refused with the server's reason, and stores nothing."""
    book = postgres_database.new_book(anna="write", rita="read")
    anna, rita = open_engine("anna", book), open_engine("rita", book)
    runs = make_runs(2)
    anna.append(NOTHING, runs[:1])
    with pytest.raises(ReadOnlyError, match="is read-only here: permission denied for table runs; events wait"):
        rita.append(rita.read(0).end, runs[1:])
    assert runs[:1] == read_runs(rita) == read_runs(anna)


def test_a_writer_of_another_book_neither_sees_nor_writes(
    postgres_database: Database, open_engine: Open, query: Query
) -> None:
    """Row-level security hides a book from who was not granted it, and the message has the operator's command."""
    book, other = postgres_database.new_book(anna="write"), postgres_database.new_book(ben="write")
    open_engine("anna", book).append(NOTHING, make_runs(1))
    ben = open_engine("ben", book)
    with pytest.raises(UnreachableError, match="user ben has no right to a book") as error:
        ben.read(0)
    assert grant_command(book, "ben", "write") in str(error.value)
    with pytest.raises(ReadOnlyError, match="row-level security"):
        ben.append(NOTHING, make_runs(1))
    assert [(other,)] == query("ben", "SELECT book FROM tallybook.books WHERE book IN (%s, %s)", book, other)
    assert [] == query("ben", "SELECT FROM tallybook.runs WHERE book = %s", book)


def test_a_right_of_a_group_is_its_members(postgres_database: Database, open_engine: Open) -> None:
    """A role inherits the right on a book from a role that it is a member of, until that is revoked."""
    postgres_database.server.execute("CREATE ROLE team; GRANT team TO ben")
    book = postgres_database.new_book(team="write")
    ben = open_engine("ben", book)
    assert ben.append(NOTHING, make_runs(1)) is not None
    postgres_database.server.execute(f"SELECT tallybook.revoke_book('{book}', 'team')", "tally")
    with pytest.raises(UnreachableError, match="user ben has no right"):
        ben.read(0)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tallybook.runs SET data = ''",
        "DELETE FROM tallybook.runs",
        "TRUNCATE tallybook.runs",
        "UPDATE tallybook.books SET book = 'mine'",
        "INSERT INTO tallybook.grants VALUES ('book 1', 'anna', 'own')",
        "SELECT tallybook.grant_book('book 1', 'anna', 'own')",
        "ALTER TABLE tallybook.runs DISABLE ROW LEVEL SECURITY",
        "DROP TABLE tallybook.runs",
    ],
)
def test_nobody_changes_what_is_stored(
    postgres_database: Database, open_engine: Open, query: Query, statement: str
) -> None:
    """Even an owner of a book may only insert and select: everything else is refused by rights."""
    book = postgres_database.new_book(olga="own")
    olga = open_engine("olga", book)
    olga.append(NOTHING, make_runs(2))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query("olga", statement)
    assert make_runs(2) == read_runs(olga)


def test_only_an_owner_erases(postgres_database: Database, open_engine: Open) -> None:
    """A writer puts fresh runs, and may not empty those before; an owner may, and their numbers stay in use."""
    book = postgres_database.new_book(anna="write", olga="own")
    anna, olga = open_engine("anna", book), open_engine("olga", book)
    end = anna.append(NOTHING, make_runs(3)) or NOTHING
    assert anna.replace(end, make_runs(1, "other")) is not None
    with pytest.raises(ReadOnlyError, match=f"role anna does not own book {book}"):
        anna.erase_former()
    olga.erase_former()
    assert make_runs(1, "other") == read_runs(anna)
    stale, _ = make_run(START, "anna", "kpt_009")
    assert anna.append(NOTHING, [stale]) is None


def test_a_number_after_a_gap_is_not_given(postgres_database: Database, open_engine: Open) -> None:
    """Where the server lost the end that a machine had read, its append has moved, and stores nothing."""
    book = postgres_database.new_book(anna="write")
    anna, runs = open_engine("anna", book), make_runs(4)
    end = anna.append(NOTHING, runs[:3]) or NOTHING
    assert end is not None
    postgres_database.server.execute(f"DELETE FROM tallybook.runs WHERE book = '{book}' AND number > 1", "tally")
    assert anna.append(end, runs[3:]) is None
    assert runs[:1] == read_runs(anna)


INSERT = "INSERT INTO tallybook.runs (book, number, tag, data) VALUES (%s, %s, '', %s)"


@pytest.mark.parametrize("number", [0, 1])
def test_the_table_refuses_a_number_that_is_in_use(
    postgres_database: Database, open_engine: Open, query: Query, number: int
) -> None:
    """A repeat and a number below 1 are refused whatever client asks."""
    book = postgres_database.new_book(anna="write")
    open_engine("anna", book).append(NOTHING, make_runs(1))
    with pytest.raises(psycopg.errors.IntegrityError):
        query("anna", INSERT, book, number, b"")
    assert make_runs(1) == read_runs(open_engine("anna", book))


def test_an_author_is_who_logged_in(postgres_database: Database, open_engine: Open, query: Query) -> None:
    """The server fills in who stored a run and when, and takes no other from a client."""
    book = postgres_database.new_book(anna="write")
    query("anna", INSERT, book, 1, b"no run")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query("anna", INSERT.replace("data)", "data, author)").replace("%s)", "%s, 'ben')"), book, 2, b"")
    [stored] = open_engine("anna", book).read(0).runs
    assert ("anna", "run 1", 0) == (stored.author, stored.place, stored.first)
    assert [(True,)] == query("anna", "SELECT at > now() - interval '1 hour' FROM tallybook.runs WHERE book = %s", book)


def test_a_service_names_the_server(
    postgres_database: Database, open_engine: Open, environment: pytest.MonkeyPatch
) -> None:
    """Host, user and TLS can stand in a service file, and the address is its name."""
    book = postgres_database.new_book(anna="write")
    services = postgres_database.server.folder / "services"
    place = f"host=localhost\nport={postgres_database.front.port}\ndbname=tally\nuser=anna\nsslmode=verify-full\n"
    services.write_text(f"[tally]\n{place}")
    environment.setenv("PGSERVICEFILE", str(services))
    engine = open_engine("", book, "service=tally")
    assert engine.append(NOTHING, make_runs(1)) is not None
    with pytest.raises(UnreachableError, match=r'definition of service "other" not found; '):
        open_engine("", book, "service=other").read(0)


def test_a_database_without_tables_names_the_file_to_run(postgres_database: Database, open_engine: Open) -> None:
    """Without the tables a machine is given the path of the file that the operator runs."""
    postgres_database.server.execute("CREATE DATABASE bare")
    engine = open_engine("", "book", postgres_database.address("anna").replace("/tally", "/bare"))
    with pytest.raises(
        UnreachableError, match="user anna has no right to a book book; its operator runs: psql A"
    ) as no:
        engine.read(0)
    assert f"{setup_file()}, and then in it: SELECT tallybook.grant_b" in str(no.value)


WATCH = """
CREATE TABLE public.seen (setting text);
CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
    INSERT INTO public.seen VALUES (current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER INSERT ON tallybook.runs FOR EACH ROW EXECUTE FUNCTION public.watch();
"""
"""Notes the setting under which a row is inserted."""


@pytest.mark.parametrize(
    ("setting", "effective", "warnings"),
    [
        ("off", "on", ("the server has synchronous_commit off; appends to a book switch it on for themselves",)),
        ("remote_apply", "remote_apply", ()),
    ],
)
def test_an_append_waits_for_the_disk_where_the_server_would_not(
    postgres_database: Database, open_engine: Open, setting: str, effective: str, warnings: tuple[str, ...]
) -> None:
    """The engine switches synchronous_commit on for its transaction, never down, and says so."""
    server, name = postgres_database.server, f"commit_{setting}"
    server.execute(f"CREATE DATABASE {name}")
    server.execute(f"ALTER DATABASE {name} SET synchronous_commit = {setting}")
    server.set_up(name)
    server.execute(WATCH + grant_command("book", "anna", "write"), name)
    anna = open_engine("", "book", postgres_database.address("anna").replace("/tally", f"/{name}"))
    end = anna.append(NOTHING, make_runs(1))
    assert (end, warnings, [(effective,)]) == (
        anna.read(0).end,
        anna.store.warnings,
        server.execute("SELECT setting FROM public.seen", name),
    )


# ---- Connections ----


def test_a_file_has_the_password(postgres_database: Database, environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`--password-file` logs in without the usual places of libpq; one that cannot be read is named."""
    environment.delenv("PGPASSFILE")
    (tmp_path / "password").write_text("secret-of-anna\n")
    address, book = postgres_database.address("anna"), postgres_database.new_book(anna="write")
    with closing(postgres_engine(address, book, login=str(tmp_path / "password"))) as engine:
        assert engine.append(NOTHING, make_runs(1)) is not None
    with pytest.raises(BadInputError, match="--password-file: names a file that cannot be read"):
        postgres_engine(address, book, login="/nowhere").read(0)


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
            assert engine.append(NOTHING, make_runs(1)) is not None


# ---- Operators, and machines ----


def test_every_documented_command_of_an_operator_works(postgres_database: Database, tmp_path: Path) -> None:
    """Set-up, grants, watching, backup and restore run as printed, with other names in place of capitals."""
    server = postgres_database.server
    blocks = re.findall(r"^```(sh|sql)\n(.*?)^```$", chapter(PAGE, "PostgreSQL"), re.DOTALL | re.MULTILINE)
    set_up, backup = (code for language, code in blocks if language == "sh")
    grants, watching, limit, vacuum = (code for language, code in blocks if language == "sql")
    for name in ("operated", "restored"):
        server.execute(f"CREATE DATABASE {name}")
    server.shell(set_up.replace("postgresql://HOST/DATABASE", "postgresql:///operated"))
    create, grant, revoke = grants.replace("anna", "nora").replace("…", "secret-of-nora").splitlines()
    server.execute(create + grant + grant.replace("'write'", "'own'"), "operated")
    run, _ = make_run(START, "nora", "kpt_001", text="a text of a customer")
    with postgres_database.credentials():
        address = postgres_database.address("nora").replace("/tally", "/operated")
        engine = postgres_engine(address, "BOOK")
        assert engine.append(NOTHING, [run]) is not None
        sizes, _, sessions = watching.partition(";")
        assert ["BOOK", 1, "nora"] == [*server.execute(sizes, "operated")[0][:3]]
        assert [] == server.execute(sessions, "operated")
        server.execute(limit.replace("anna", "nora"), "operated")
        server.execute(vacuum, "operated")
        before = engine.read(0)
        first, second = backup.replace("books.sql", str(tmp_path / "books.sql")).splitlines()
        server.shell(first.replace("postgresql://HOST/DATABASE", "postgresql:///operated"))
        server.shell(second.replace("postgresql://HOST/DATABASE", "postgresql:///restored"))
        restored = postgres_engine(address.replace("/operated", "/restored"), "BOOK")
        assert before == restored.read(0)
        following, _ = make_run(START._replace(seq=run.last, chain=run.after), "nora", "kpt_001")
        assert restored.append(before.end, [following]) is not None
        assert [following] == [plain(stored) for stored in restored.read(run.last).runs]
        server.execute(revoke, "operated")
        engine.close()
        restored.close()


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


# A book in a real PostgreSQL whose connections break, whose server is killed, and that many write to at once.


END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tallybook'"


@pytest.fixture
def database(postgres_database: Database) -> Iterator[Database]:
    """Return the database, with credentials where libpq looks for them."""
    with postgres_database.credentials():
        yield postgres_database


@pytest.fixture
def front(database: Database) -> Iterator[Front]:
    """Return a proxy of this test's own."""
    with closing(database.new_front()) as front:
        yield front


def test_an_append_that_is_reset_anywhere_is_there_once_or_not_at_all(database: Database, front: Front) -> None:
    """Cut after any number of bytes, an append is whole if it is there, and there if it was confirmed."""
    book = database.new_book(anna="write")
    confirmed: list[Run] = []
    sent: list[Run] = []
    with closing(postgres_engine(database.address("anna"), book)) as reader:
        for cut in range(1, 2000, slice_of(7, 97)):
            end = reader.read(0).end
            run, _ = make_run(Position(end.seq, end.chain, 0), f"cut{cut}", "kpt_001")
            with closing(postgres_engine(database.address("anna", front), book)) as engine:
                front.bytes_to_reset = None
                engine.read(end.seq)
                front.bytes_to_reset = cut
                confirmed += [run] * (engine.append(end, [run]) is not None)
            sent.append(run)
        runs = [plain(run) for run in reader.read(0).runs]
    assert [*range(1, len(runs) + 1)] == [run.first for run in runs]
    assert set() == {run.data for run in confirmed} - {run.data for run in runs}
    # An append that was not confirmed may be stored after the next read, whose append has then moved.
    assert {run.data for run in runs} <= {run.data for run in sent}
    assert confirmed != sent


def test_an_append_without_its_answer_is_unknown_and_found_by_the_next_read(database: Database, front: Front) -> None:
    """A connection that is reset between the commit and its answer leaves the run stored, once."""
    book = database.new_book(anna="write")
    run, _ = make_run(START, "anna", "kpt_001")
    with closing(postgres_engine(database.address("anna", front), book)) as engine:
        engine.read(0)
        front.bytes_to_reset, front.answers = 1_000_000, False
        assert engine.append(NOTHING, [run]) is None
        front.bytes_to_reset, front.answers = None, True
        contents = engine.read(0)
        assert [run] == [plain(run) for run in contents.runs]
        assert engine.append(NOTHING, [run]) is not None, "the same bytes are the same run"
        assert [run] == [plain(run) for run in engine.read(0).runs]


APPEND = """
import sys
from tallybook.ledger.sharing.engine import NOTHING, Run
sys.path.insert(0, "tests")
from helpers.engines import postgres_engine
engine = postgres_engine(*sys.argv[1:])
engine.read(0)
print("ready", flush=True)
input()
print(engine.append(NOTHING, [Run(1, 1, NOTHING.chain, "1" * 32, bytes(5_000_000))]))
engine.close()
"""


def test_a_broken_connection_prints_nothing(database: Database, front: Front) -> None:
    """The client library's own log does not get to standard error, which is for messages of Tallybook."""
    book = database.new_book(anna="write")
    command = [sys.executable, "-P", "-c", APPEND, database.address("anna", front), book]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        front.bytes_to_reset = 100_000
        assert ("None\n", "") == process.communicate("\n", timeout=60)


def test_a_server_that_falls_silent_is_given_up(database: Database, front: Front) -> None:
    """A read says that there was no answer, and an append that its outcome is unknown, both within the limit."""
    book = database.new_book(anna="write")
    run, _ = make_run(START, "anna", "kpt_001")
    with closing(postgres_engine(database.address("anna", front), book, 0.5)) as engine:
        engine.read(0)
        front.silent = True
        start = time.monotonic()
        with pytest.raises(UnreachableError, match=r"no answer within 0.5 seconds"):
            engine.read(0)
        front.silent = False
        engine.read(0)
        front.silent = True
        assert engine.append(NOTHING, [run]) is None
        front.silent = False
        assert time.monotonic() - start < 10
        # What lay in the network may arrive now, before or after the second one.
        engine.append(NOTHING, [run])
        assert [run] == [plain(run) for run in engine.read(0).runs]


def test_an_append_does_not_wait_for_a_lock_beyond_its_limit(database: Database) -> None:
    """Where another session holds the number, the append is cancelled by the server, and nothing is stored."""
    book = database.new_book(anna="write")
    run, _ = make_run(START, "anna", "kpt_001")
    with (
        closing(postgres_engine(database.address("anna"), book, 0.3)) as engine,
        database.server.connect() as holder,
        holder.transaction(),
    ):
        engine.read(0)
        holder.execute("INSERT INTO tallybook.runs (book, number, tag, data) VALUES (%s, 1, '', '')", [book])
        with pytest.raises(UnreachableError, match=r"no answer within 0.3 seconds"):
            engine.append(NOTHING, [run])
        assert [] == engine.read(0).runs


def test_a_connection_that_the_server_closed_is_opened_again(database: Database) -> None:
    """A connection that the server ended stores nothing, and the read after it opens another."""
    book = database.new_book(anna="write")
    run, _ = make_run(START, "anna", "kpt_001")
    with closing(postgres_engine(database.address("anna"), book)) as engine:
        engine.read(0)
        database.server.execute(END_ALL)
        assert engine.append(NOTHING, [run]) is None
        assert [] == engine.read(0).runs


def test_every_failure_is_an_engine_error(database: Database) -> None:
    """What the server refuses for a reason of its own is said with that reason."""
    book = database.new_book(anna="write")
    run, _ = make_run(START, "anna", "kpt_001")
    full = "ALTER TABLE tallybook.runs ADD CONSTRAINT full_disk CHECK (author <> 'anna') NOT VALID"
    with closing(postgres_engine(database.address("anna"), book)) as engine, ExitStack() as stack:
        stack.callback(database.server.execute, "ALTER TABLE tallybook.runs DROP CONSTRAINT full_disk", "tally")
        database.server.execute(full, "tally")
        with pytest.raises(EngineError, match='violates check constraint "full_disk"'):
            engine.append(NOTHING, [run])
