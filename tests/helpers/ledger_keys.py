"""Helpers of tests: files of the idempotency cache."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from helpers.cache_places import caches_of

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.backends.jsonl import JsonlLog


SLOTS = b"0" * 20 * 64


def cache(log: JsonlLog) -> Path:
    """Return the file that has the cache's position."""
    return caches_of(log.folder) / "held"


def cache_files(log: JsonlLog) -> dict[str, bytes]:
    """Return every file of the cache."""
    return {path.name: path.read_bytes() for path in caches_of(log.folder).glob("held*")}


def put_back(log: JsonlLog, files: dict[str, bytes]) -> None:
    """Restore the cache."""
    for path in caches_of(log.folder).glob("held*"):
        path.unlink()
    for name, data in files.items():
        (caches_of(log.folder) / name).write_bytes(data)


def table(said: bytes) -> bytes:
    """Return a table of these fields with a right checksum."""
    return said + b" %08x\n" % binascii.crc32(said)
