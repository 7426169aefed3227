"""Damages to a cache file that begins with its digest, for the tests of all such files."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Deeper than Python reads.
_NEST = b"[" * 100_000


def _flipped(data: bytes) -> bytes:
    """Return bytes with another one in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit flipped": _flipped,
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda _: b"",
    "something else": lambda _: b"[1, 2, 3]",
    "a sum and nothing more": lambda data: data[:32],
    "longer": lambda data: data + b" ",
    "nested, and its sum": lambda _: sha256(_NEST).hexdigest()[:32].encode() + _NEST,
}
"""What became of it → what stands there then."""
