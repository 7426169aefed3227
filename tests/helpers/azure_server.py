"""Helpers of tests: Azure's blobs on loopback, by azurite from npm, with a container of a new name for each book."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
import hashlib
import hmac
from itertools import count
import os
import secrets
import socket
import subprocess
import time
from urllib.request import Request, urlopen

import pytest

from helpers.commands import ROOT

_COMMAND = ROOT / ".venv/azurite/node_modules/.bin/azurite-blob"
_OPTIONS = ("--inMemoryPersistence", "--disableTelemetry", "--silent", "--skipApiVersionCheck")
_ACCOUNT = "anna"
_WAIT_S = 60


class Containers:
    """A server with its containers."""

    def __init__(self, place: str, key: str) -> None:
        """Take a server that starts."""
        self.place = place
        self.key = key
        self._numbers = count(1)

    def new_address(self) -> str:
        """Make a container, and return the address of a path in it."""
        name = f"books-{next(self._numbers)}"
        date, version = format_datetime(datetime.now(UTC), usegmt=True), "2021-12-02"
        # The text that Azure's shared keys sign: method, eleven empty headers, its own headers, and the resource.
        lines = ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{version}"]
        signed = "\n".join([*lines, f"/{_ACCOUNT}/{_ACCOUNT}/{name}", "restype:container"]).encode()
        proof = base64.b64encode(hmac.digest(base64.b64decode(self.key), signed, hashlib.sha256)).decode()
        headers = {"x-ms-date": date, "x-ms-version": version, "Authorization": f"SharedKey {_ACCOUNT}:{proof}"}
        address = f"{self.place}/{_ACCOUNT}/{name}?restype=container"
        with urlopen(Request(address, method="PUT", headers=headers), timeout=_WAIT_S):  # noqa: S310 - on loopback
            return f"az://{name}/teams/one?account={_ACCOUNT}"


def serve_containers() -> Iterator[Containers]:
    """Run the server, with credentials in the usual variables; skip where azurite or the extra is missing."""
    pytest.importorskip("obstore", reason="the extra objects is not installed")
    if not _COMMAND.exists():
        pytest.skip("azurite, which emulates Azure on loopback, is not installed; .ci/test does it where npm is")
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    process = subprocess.Popen(
        [_COMMAND, "--blobPort", str(port), *_OPTIONS],
        env=os.environ | {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{key}"},
        stdout=subprocess.DEVNULL,
    )
    containers = Containers(f"http://127.0.0.1:{port}", key)
    try:
        _wait(containers)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
            patch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
            patch.setenv("AZURITE_BLOB_STORAGE_URL", containers.place)
            yield containers
    finally:
        process.kill()
        process.wait()


def _wait(containers: Containers) -> None:
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            containers.new_address()
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return
