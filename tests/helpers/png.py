"""Pictures of a browser made small: as PNG files with a palette of 256 colours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
import zlib

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x89PNG\r\n\x1a\n"
_COLOURS = 256


def with_palette(png: bytes) -> bytes:
    """Return a picture of 8 bits a channel without transparency, in its most frequent colours."""
    chunks = list(_chunks(png))
    head = next(data for kind, data in chunks if kind == b"IHDR")
    width = int.from_bytes(head[:4], "big")
    size = {2: 3, 6: 4}[head[9]]
    packed = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    rows = [
        [bytes(row[at : at + 3]) for at in range(0, len(row), size)] for row in _unfilter(packed, width * size, size)
    ]
    counts = Counter(pixel for row in rows for pixel in row)
    palette = [colour for colour, _ in counts.most_common(_COLOURS)]
    numbers = {colour: number for number, colour in enumerate(palette)}
    for colour in counts:
        numbers.setdefault(colour, min(range(len(palette)), key=lambda n: _distance(palette[n], colour)))
    data = b"".join(b"\0" + bytes(numbers[pixel] for pixel in row) for row in rows)
    parts = [(b"IHDR", head[:8] + b"\x08\x03\0\0\0"), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(data, 9))]
    return _MAGIC + b"".join(_chunk(kind, part) for kind, part in [*parts, (b"IEND", b"")])


def _distance(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_MAGIC)
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += size + 12


def _unfilter(data: bytes, stride: int, size: int) -> Iterator[bytearray]:
    """Yield the rows of pixels; each was stored as the difference to its neighbours."""
    above = bytearray(stride)
    for at in range(0, len(data), stride + 1):
        row = bytearray(data[at + 1 : at + 1 + stride])
        for i in range(stride):
            left, corner = (row[i - size], above[i - size]) if i >= size else (0, 0)
            row[i] = (row[i] + _expected(data[at], left, above[i], corner)) & 0xFF
        yield row
        above = row


def _expected(kind: int, left: int, up: int, corner: int) -> int:
    """Return what a filter of PNG expects of a byte: nothing, left, up, their mean, or the nearest of all three."""
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    line = left + up - corner
    return min((left, up, corner), key=lambda one: abs(line - one))
