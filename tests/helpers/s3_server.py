"""Helpers of tests: an emulated S3 on loopback, by moto, with a bucket of a new name for each book."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
import logging
import re
import socket
import subprocess
import sys
from threading import Thread
import time
from urllib.request import Request, urlopen

import pytest

from helpers.postgres_front import Front

WAIT_S = 60
# What moto has stays as long as the process, whatever server of it ended.
_NUMBERS = count(1)


class Buckets:
    """A server with its buckets."""

    def __init__(self, place: str) -> None:
        """Take a server that runs."""
        self.place = place

    def new_address(self, *, lock: bool = False) -> str:
        """Make a bucket, perhaps one with an object lock, and return the address of a path in it."""
        name = f"books-{next(_NUMBERS)}"
        headers = {"x-amz-bucket-object-lock-enabled": "true"} if lock else {}
        request = Request(f"{self.place}/{name}", method="PUT", headers=headers)  # noqa: S310 - on loopback
        with urlopen(request, timeout=30):  # noqa: S310 - on loopback
            return f"s3://{name}/teams/one?endpoint={self.place}&region=us-east-1"


class BucketServer:
    """An emulated S3 in a process of its own, with one bucket, behind a proxy; a kill loses everything."""

    def __init__(self) -> None:
        """Start it."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._port: int = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self.front = Front(self._port, None)
        self.address = f"s3://books/team?endpoint=http://127.0.0.1:{self.front.port}&region=us-east-1"
        self.environment = {"AWS_ACCESS_KEY_ID": "anna", "AWS_SECRET_ACCESS_KEY": "secret-of-anna"}
        self.start()

    def start(self) -> None:
        """Start it, and wait until it has the bucket."""
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        nothing = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=nothing, stderr=nothing)
        until = time.monotonic() + WAIT_S
        while True:
            try:
                self._ask("PUT", "books")
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def roll_back(self, number: int) -> None:
        """Delete the runs of all books after a number."""
        for key in re.findall(r"<Key>([^<]*)</Key>", self._ask("GET", "books?list-type=2").decode()):
            if int(re.sub(r"\D", "", key.rpartition("/")[2])) > number:
                self._ask("DELETE", f"books/{key}")

    def count(self) -> int:
        """Return how many objects it has."""
        return self._ask("GET", "books?list-type=2").count(b"<Key>")

    def _ask(self, method: str, path: str) -> bytes:
        # It proves no signature, and lists no private bucket without one.
        login = {"Authorization": "AWS4-HMAC-SHA256 Credential=anna/20261127/us-east-1/s3/aws4_request"}
        request = Request(f"http://127.0.0.1:{self._port}/{path}", method=method, headers=login)
        with urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310 - on loopback
            return bytes(answer.read())


@contextmanager
def start_bucket_server() -> Iterator[BucketServer]:
    """Run a server of its own; skip where moto or the extra is missing."""
    pytest.importorskip("obstore", reason="the extra objects is not installed")
    pytest.importorskip("moto.server", reason="moto, which emulates S3 on loopback, is not installed")
    server = BucketServer()
    try:
        yield server
    finally:
        server.kill()
        server.front.close()


def serve_buckets() -> Iterator[Buckets]:
    """Run the server, with credentials in the usual variables; skip where moto or the extra is missing."""
    pytest.importorskip("obstore", reason="the extra objects is not installed")
    moto = pytest.importorskip("moto.server", reason="moto, which emulates S3 on loopback, is not installed")
    serving = pytest.importorskip("werkzeug.serving", reason="moto, which emulates S3 on loopback, is not installed")
    app = moto.DomainDispatcherApplication(moto.create_backend_app)
    # One request at a time, because moto looks for an object and puts it in two steps.
    server = serving.make_server("127.0.0.1", 0, app, request_handler=moto.MotoRequestHandler)
    # It would note each request on standard error.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", "anna")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-anna")
            yield Buckets(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
