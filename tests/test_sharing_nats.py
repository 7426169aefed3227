"""The engine over NATS JetStream: rights, TLS, servers that die, streams that others changed, parts of large runs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from helpers.books import make_runs
from helpers.nats_cluster import Connect, append, connections, held, new_book, shared_cluster
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.engines.engine import NOTHING, Outcome, ReadOnlyError, UnreachableError
from tallybook.ledger.sharing.engines.nats import NatsEngine
from tallybook.ledger.sharing.engines.nats_connection import Access, ApiError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from helpers.nats_cluster import Cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return three servers that run."""
    return shared_cluster(request)


@pytest.fixture
def book() -> str:
    """Return the name of a new book, which is the name of its stream too."""
    return new_book("plain-")


@pytest.fixture
def connect(cluster: Cluster, book: str) -> Iterator[Connect]:
    """Return a function that opens one more machine's engine on the book."""
    with connections(cluster, book) as open_engine:
        yield open_engine


def test_the_client_is_loaded_only_when_an_engine_connects() -> None:
    """Importing the engine and making one loads neither the client nor asyncio's TLS from it."""
    probe = """
import sys
from tallybook.ledger.sharing.engines.nats import NatsEngine
NatsEngine("nats://127.0.0.1:1", "main").close()
print("nats" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "False" == done.stdout.strip()


def test_the_stream_is_as_the_contract_says(cluster: Cluster, connect: Connect, book: str) -> None:
    """A new stream has one subject, three copies in files, no limit, and can be neither purged nor read around."""
    engine = connect()
    append(engine, *make_runs(1))
    config = cluster.call(f"STREAM.INFO.{book}")["config"]
    assert {
        "subjects": 1,
        "retention": "limits",
        "storage": "file",
        "num_replicas": 3,
        "discard": "new",
        "max_age": 0,
        "max_msgs": -1,
        "max_bytes": -1,
        "deny_purge": True,
        "allow_direct": False,
    } == {
        "subjects": len(config["subjects"]),
        **{
            name: config.get(name, False)
            for name in ("retention", "storage", "num_replicas", "discard", "max_age", "max_msgs", "max_bytes")
        },
        "deny_purge": config["deny_purge"],
        "allow_direct": config.get("allow_direct", False),
    }
    assert () == engine.notes


def test_the_servers_flush_before_they_acknowledge(cluster: Cluster) -> None:
    """The configuration for operators sets sync_interval: always, which only the monitoring page shows."""
    assert [True] * 3 == [cluster.status(index)["config"]["sync_always"] for index in range(3)]  # type: ignore[index]


def test_a_reader_reads_and_is_told_why_it_cannot_append(connect: Connect, book: str) -> None:
    """The server's own reason is given, at once, and nothing was stored."""
    runs = make_runs(2)
    append(connect(), runs[0])
    reader = connect("reader")
    assert runs[:1] == held(reader)
    with pytest.raises(
        ReadOnlyError, match=f'is read-only here: permissions violation for publish to "tallybook.{book}'
    ):
        reader.append(reader.read(0).end, runs[1:])
    assert runs[:1] == held(reader)


def test_a_writer_appends_and_cannot_make_or_replace_a_book(connect: Connect, book: str) -> None:
    """Its rights end at the streams that are there, and the answers say so."""
    writer, runs = connect("writer"), make_runs(2)
    with pytest.raises(
        UnreachableError, match=f"there is no stream {book}, and this user may not make it: permissions"
    ):
        writer.append(NOTHING, runs)
    append(connect(), runs[0])
    assert Outcome.DONE is writer.append(writer.read(0).end, runs[1:]).outcome
    with pytest.raises(ReadOnlyError, match=r"STREAM\.CREATE"):
        writer.replace(writer.read(0).end, runs)
    assert runs == held(writer)


@pytest.mark.parametrize(
    ("what", "question"),
    [
        ("STREAM.DELETE.{book}", {}),
        ("STREAM.PURGE.{book}", {}),
        ("STREAM.MSG.DELETE.{book}", {"seq": 1}),
        ("STREAM.UPDATE.{book}", {"name": "{book}"}),
    ],
)
def test_nobody_but_the_operator_deletes(
    cluster: Cluster, connect: Connect, book: str, what: str, question: dict[str, Any]
) -> None:
    """Deleting a stream or a message, purging and changing a stream are refused to every other user."""
    append(connect(), *make_runs(1))

    for user in ("reader", "writer", "owner"):
        with pytest.raises(RefusedError, match="permissions violation"):
            cluster.call(what.format(book=book), user, **question)
    assert make_runs(1) == held(connect())


def test_not_even_the_operator_purges(cluster: Cluster, connect: Connect, book: str) -> None:
    """The stream itself denies it."""
    append(connect(), *make_runs(1))
    with pytest.raises(ApiError, match="purge"):
        cluster.call(f"STREAM.PURGE.{book}")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": "wrong"}, "it refuses the user, the password or the credentials"),
        ({"user": "nobody"}, "it refuses the user, the password or the credentials"),
        ({"ca": ""}, "its certificate is not trusted: unable to get local issuer certificate"),
    ],
)
def test_wrong_credentials_are_refused_in_plain_words(
    cluster: Cluster, book: str, change: dict[str, str], reason: str
) -> None:
    """An unknown CA, user or password says which it is, for each server, and shows no secret."""
    right = cluster.access("writer")
    values = {"user": right.user, "password": right.password, "ca": right.ca} | change
    engine = cluster.engine(book, access=Access(**values))
    with pytest.raises(UnreachableError) as caught:
        engine.read(0)
    engine.close()
    assert 3 == str(caught.value).count(reason), str(caught.value)
    assert "secret" not in f"{caught.value} {engine.address} {engine._run!r} {Access(**values)}"


def test_an_address_where_nothing_listens_is_told_at_once() -> None:
    """The reason names each server."""
    engine = NatsEngine("nats://127.0.0.1:1,127.0.0.1:2", "main")
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1: nothing listens there; 127\.0\.0\.1:2: nothing"):
        engine.read(0)
    engine.close()


@pytest.mark.parametrize("address", ["nats://me:secret@host:4222", "nats://secret@host", "http://host", "nats://", ""])
def test_an_address_that_is_not_one_or_holds_a_password_is_refused(address: str) -> None:
    """Addresses are stored and shown, so a password in one is refused, and not repeated."""
    with pytest.raises(BadInputError) as caught:
        NatsEngine(address, "main")
    assert ("address: ", False) == (str(caught.value)[:9], "secret" in str(caught.value))


def test_a_name_that_does_not_exist_is_told() -> None:
    """A host that cannot be resolved is named."""
    engine = NatsEngine("tls://nowhere.invalid:4222", "main")
    with pytest.raises(UnreachableError, match=r"nowhere\.invalid:4222: this name is not known"):
        engine.read(0)
    engine.close()
