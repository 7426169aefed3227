"""The engine over NATS JetStream as its operator meets it: redaction, backup, few servers, servers without TLS."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.books import make_run, make_runs
from helpers.nats_cluster import Cluster, Connect, append, connections, held, new_book, shared_cluster
from helpers.repository import ROOT
from helpers.shared_clones import Machine
from tallybook.ledger.line import START
from tallybook.ledger.sharing import counting
from tallybook.ledger.sharing.engines.engine import ReadOnlyError, UnreachableError
from tallybook.ledger.sharing.engines.nats import NatsEngine
from tallybook.ledger.sharing.engines.nats_connection import Access
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.sharing import status
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return three servers that run."""
    return shared_cluster(request)


@pytest.fixture
def book() -> str:
    """Return the name of a new book, which is the name of its stream too."""
    return new_book("operated-")


@pytest.fixture
def connect(cluster: Cluster, book: str) -> Iterator[Connect]:
    """Return a function that opens one more machine's engine on the book."""
    with connections(cluster, book) as open_engine:
        yield open_engine


def test_the_redaction_of_the_readme_removes_the_text(cluster: Cluster, connect: Connect, book: str) -> None:
    """The README's command copies the stream without the text, deletes the old one, and the runs still verify."""
    run = make_run(START, "anna", "kpt_001", text="my secret words")[0]
    append(connect(), run)
    readme = (ROOT / "ledger" / "sharing" / "engines" / "README.md").read_text(encoding="utf-8")
    script = readme.partition("python3 - tls://HOST:4222 BOOK EVENT <<'END'\n")[2].partition("\nEND\n")[0]
    access = cluster.access("operator")
    done = subprocess.run(
        [sys.executable, "-", cluster.address, book, "anna-0-1"],
        input=script,
        env=os.environ | {"TALLYBOOK_OPERATOR_PASSWORD": access.password, "TALLYBOOK_NATS_CA": access.ca},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("", f"deleted: {book}\n") == (done.stderr, done.stdout)
    [left] = held(connect())
    assert (True, False, len(run.data)) == (b"secret" in run.data, b"secret" in left.data, len(left.data))
    counted = counting.count([left], START, set())
    assert ([run.last], []) == ([batch.last for batch in counted.batches], counted.skipped)
    with pytest.raises(ReadOnlyError, match=r"STREAM\.DELETE"):
        _replaced(connect()).delete_others()


def _replaced(engine: NatsEngine) -> NatsEngine:
    engine.replace(engine.read(0).end, make_runs(1, "again"))
    return engine


def make_machine(cluster: Cluster, folder: Path, user: str) -> tuple[Machine, list[str]]:
    """Return a user's machine, and the options with which it shares a book."""
    machine = Machine(folder / user)
    machine.root.mkdir()
    password = folder / f"password-of-{user}"
    password.write_text(f"secret-of-{user}\n")
    return machine, ["--user", user, "--password-file", str(password), "--ca", str(cluster.certificates.authority)]


def test_the_commands_that_redact_names_remove_the_text(cluster: Cluster, book: str, tmp_path: Path) -> None:
    """They are typed as they stand; then no server has the text on its disk, and the machines go on."""
    (owner, words), (operator, others) = (make_machine(cluster, tmp_path, user) for user in ("owner", "operator"))
    owner.do("add", "Ask Petra Zwiebel about the vault")
    owner.do("share", "nats", cluster.address, "--book", book, "--yes", *words)
    operator.do("share", "nats", cluster.address, "--book", book, "--yes", *others)
    lines = owner.do("redact", "--text", "Petra Zwiebel", "--yes", "--expect", "1", "--reason", "a name").splitlines()
    commands_named = [line.partition("; run: ")[2] for line in lines if "still holds it" in line]
    assert ["tallybook sync", "tallybook share repair"] == commands_named
    assert files_with(cluster, b"Zwiebel")
    answers = [owner.run(*command.split()[1:]) for command in commands_named]
    assert [0, 0] == [answer.code for answer in answers]
    assert "let an operator run `tallybook share repair` as well" in answers[1].err
    operator.do("sync")
    operator.do("share", "repair")
    assert [] == files_with(cluster, b"Zwiebel")
    owner.do("add", "Write tests")
    for machine in (owner, operator):
        machine.do("sync")
        machine.do("share", "verify")
    assert owner.entries() == operator.entries()
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file() and b"Zwiebel" in path.read_bytes()]


def files_with(cluster: Cluster, text: bytes) -> list[Path]:
    """Return the files of the servers that hold a text."""
    paths = [path for path in cluster.folder.rglob("*") if path.is_file()]
    return [path for path in paths if path.exists() and text in path.read_bytes()]


def test_servers_that_are_restored_from_a_copy_have_the_earlier_book(cluster: Cluster, connect: Connect) -> None:
    """The copies of the stopped servers' folders are a backup; what came after it can be appended again."""
    runs = make_runs(4)
    append(connect(), *runs[:2])
    stores = [cluster.folder / f"store{index + 1}" for index in range(3)]
    cluster.kill(by=signal.SIGTERM)
    for store in stores:
        shutil.copytree(store, store.with_suffix(".copy"))
    cluster.start()
    append(connect(), *runs[2:])
    cluster.kill()
    for store in stores:
        shutil.rmtree(store)
        store.with_suffix(".copy").rename(store)
    cluster.start()
    assert runs[:2] == held(connect())
    append(connect(), *runs[2:])
    assert runs == held(connect())


def test_a_stream_that_another_program_made_is_left_alone(cluster: Cluster, connect: Connect, book: str) -> None:
    """A stream of the book's name with other subjects is not read and not written."""
    cluster.call(f"STREAM.CREATE.{book}", name=book, subjects=["orders.*"], storage="file")
    with pytest.raises(UnreachableError, match=f"the stream {book} was not made by Tallybook"):
        connect().read(0)
    cluster.call(f"STREAM.DELETE.{book}")


def test_a_stream_with_a_limit_is_noted(cluster: Cluster, connect: Connect, book: str) -> None:
    """What an operator changed is said, because it loses events."""
    engine = connect()
    append(engine, *make_runs(1))
    config = cluster.call(f"STREAM.INFO.{book}")["config"]
    cluster.call(f"STREAM.UPDATE.{book}", **(config | {"max_age": 3600 * 10**9, "num_replicas": 1}))
    assert make_runs(1) == held(engine)
    assert (
        f"the stream {book} has 1 of 3 copies",
        f"the stream {book} loses messages by its max_age of 3600000000000",
    ) == engine.notes


def test_one_server_holds_a_book_and_says_so(request: pytest.FixtureRequest, project: Path) -> None:
    """Where there are fewer servers than copies, the stream has one copy, which `share status` notes."""
    single = Cluster(servers=1)
    request.addfinalizer(single.close)
    single.start()
    engine = single.engine("main")
    append(engine, *make_runs(2))
    assert (make_runs(2), ("the stream main has 1 of 3 copies",)) == (held(engine), engine.notes)
    engine.close()
    commands.add(Project(project), "Use type hints", HUMAN)
    part = Membership("", "", "", "main", "nats", single.address, "anna-0a1b2c3d")
    found = status.examine(Project(project), part, lambda: single.engine("main"))
    assert ("", "Note: the stream main has 1 of 3 copies") == (found.reason, status.status_lines(found)[-1])


def test_a_server_without_jetstream_is_told(request: pytest.FixtureRequest) -> None:
    """An account without JetStream gets a reason."""
    single = Cluster(servers=1)
    request.addfinalizer(single.close)
    rights = single.folder / "nats-permissions.conf"
    rights.write_text(rights.read_text(encoding="utf-8").replace("jetstream: enabled", ""), encoding="utf-8")
    single.start()
    engine = single.engine("main")
    engine.servers.limit_s = 1.0
    with pytest.raises(UnreachableError, match=r"(?i)jetstream.* not enabled"):
        engine.read(0)
    engine.close()


def test_no_password_goes_to_a_server_without_tls(request: pytest.FixtureRequest) -> None:
    """A server that offers no TLS is refused where the address or a CA asks for it, before anything is sent."""
    single = Cluster(servers=1)
    request.addfinalizer(single.close)
    single.remove("tls")
    with (single.folder / "nats-server.conf").open("a", encoding="utf-8") as file:
        file.write("\ntrace: true\ndebug: true\n")
    single.start()
    right = single.access("writer")
    for address, access in [(single.address, right._replace(ca="")), (single.address.replace("tls:", "nats:"), right)]:
        engine = NatsEngine(address, "main", access)
        with pytest.raises(UnreachableError, match="it offers no TLS"):
            engine.read(0)
        engine.close()
    log = (single.folder / "server1.log").read_text(encoding="utf-8")
    assert (True, False) == ("Client connection created" in log, "CONNECT {" in log)
    plain_engine = NatsEngine(single.address.replace("tls:", "nats:"), "main", Access(right.user, right.password))
    assert [] == held(plain_engine)
    plain_engine.close()
