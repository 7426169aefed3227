"""A stream of the page: JSON and columns of whole numbers, compressed. README.md has the format."""

from __future__ import annotations

from array import array
from base64 import b64encode
import sys
from typing import TYPE_CHECKING, Any, Final
import zlib

import attrs

from tallybook.ledger.fast_stdlib import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LEVEL: Final = 6
_BYTES: Final = (bytes, bytearray)
MAX_WIDTH: Final = 6
"""Most bytes of a number: JavaScript's numbers are exact up to 53 bits."""


@attrs.frozen
class Column:
    """A column of whole numbers.

    Attributes:
        name: Its name.
        values: Its numbers, from 0; with ``delta`` any.
        delta: Whether the differences are stored, which are smaller where the numbers rise.
    """

    name: str
    values: Iterable[int]
    delta: bool = False

    def encode(self) -> tuple[list[Any], bytes]:
        """Return ``[name, count, width, delta]`` and the bytes, the lowest byte of every number first.

        Raises:
            OverflowError: A number is negative without ``delta``, or needs more than MAX_WIDTH bytes.
        """
        values = zigzag(self.values) if self.delta else self.values
        numbers = values if isinstance(values, array) else array("B" if isinstance(values, _BYTES) else "Q", values)
        highest = max(numbers, default=0)
        width = (highest.bit_length() + 7) // 8
        if width > MAX_WIDTH:
            raise OverflowError(f"{self.name}: {highest} needs more than {MAX_WIDTH} bytes")
        if sys.byteorder == "big":
            numbers = numbers[:]
            numbers.byteswap()
        data, size = numbers.tobytes(), numbers.itemsize
        return [self.name, len(numbers), width, int(self.delta)], b"".join(data[k::size] for k in range(width))


def zigzag(values: Iterable[int]) -> list[int]:
    """Return the differences of numbers, the first to 0: 0, 1, 2, 3, 4 stand for 0, -1, 1, -2, 2."""
    result, last = [], 0
    for value in values:
        difference, last = value - last, value
        result.append(difference * 2 if difference >= 0 else -2 * difference - 1)
    return result


def pack(tables: Mapping[str, Any], columns: Iterable[Column] = ()) -> bytes:
    """Return a stream before compression."""
    encoded = [column.encode() for column in columns]
    header = dumps({**tables, "columns": [row for row, _ in encoded]}).encode("utf-8", "replace")
    return b"".join([len(header).to_bytes(4, "little"), header, *(data for _, data in encoded)])


def compress(stream: bytes) -> str:
    """Return a stream as it lies in the page."""
    return b64encode(zlib.compress(stream, _LEVEL)).decode("ascii")
