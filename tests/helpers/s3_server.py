"""Helpers of tests: an emulated S3 on loopback, by moto, with a bucket of a new name for each book."""

from __future__ import annotations

from itertools import count
import logging
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Buckets:
    """A server with its buckets.

    Attributes:
        place: Its address over http.
    """

    def __init__(self, place: str) -> None:
        """Take a server that runs."""
        self.place = place
        self._numbers = count(1)

    def new_address(self, *, lock: bool = False) -> str:
        """Make a bucket, perhaps one with an object lock, and return the address of a path in it."""
        name = f"books-{next(self._numbers)}"
        headers = {"x-amz-bucket-object-lock-enabled": "true"} if lock else {}
        request = Request(f"{self.place}/{name}", method="PUT", headers=headers)  # noqa: S310 - on loopback
        with urlopen(request, timeout=30):  # noqa: S310 - on loopback
            return f"s3://{name}/teams/one?endpoint={self.place}&region=us-east-1"


def serve_buckets() -> Iterator[Buckets]:
    """Run the server, with credentials in the usual variables; skip where moto or the extra is missing."""
    pytest.importorskip("obstore", reason="the extra objects is not installed")
    moto = pytest.importorskip("moto.server", reason="moto, which emulates S3 on loopback, is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    # It would note each request on standard error.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", "anna")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-anna")
            yield Buckets("http://{}:{}".format(*server.get_host_and_port()))
    finally:
        server.stop()
