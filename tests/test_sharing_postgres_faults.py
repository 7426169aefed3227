"""A book in a real PostgreSQL whose connections break, whose server is killed, and that many write to at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
import subprocess
import sys
import time

import pytest

from helpers.books import make_run, plain
from helpers.engines import postgres_engine
from helpers.postgres_front import Front
from helpers.postgres_server import Database
from helpers.repository import ROOT
from helpers.sweep import slice_of
from tallybook.ledger.line import START, Position
from tallybook.ledger.sharing.engine import NOTHING, EngineError, Run, UnreachableError

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
