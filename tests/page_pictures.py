"""The pictures of the page in its README: ``python tests/page_pictures.py [FOLDER]`` draws them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
import sys
from tempfile import TemporaryDirectory
from typing import Any, Final
import zlib

import attrs

from helpers.browser import Tab, chromium, write_example, write_page
from tallybook.ledger.codec import decode

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
    return min((left, up, corner), key=lambda byte: abs(line - byte))


PICTURES: Final = Path(__file__).parents[1] / "projections" / "surfaces" / "page" / "pictures"


@attrs.frozen
class Picture:
    """A picture: width and height of the window, colour scheme, and the fragment of what it shows."""

    width: int
    height: int
    scheme: str
    fragment: str
    scale: float = 1

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.width}-{self.scheme}.png"


def pictures(last: int, middle: int) -> list[Picture]:
    """Return the six pictures: three widths in both schemes, of six views."""
    return [
        Picture(360, 760, "light", f"event={middle}"),
        Picture(360, 760, "dark", f"event={last}&tab=lives"),
        Picture(1280, 800, "light", f"event={middle}&entry=kpt_004"),
        Picture(1280, 800, "dark", f"event={last}&entry=kpt_010&tab=former"),
        Picture(2560, 1200, "light", f"event={last}&entry=kpt_001&tab=scores", 0.5),
        Picture(2560, 1200, "dark", f"event={last}&entry=kpt_004&tab=lives", 0.5),
    ]


def draw(target: Path) -> None:
    """Draw every picture into a folder."""
    with TemporaryDirectory() as scratch, chromium() as browser:
        folder = Path(scratch) / "parser"
        lasts = [batch.last for batch in decode(write_example(folder).read())]
        file = write_page(folder)
        for picture in pictures(lasts[-1], lasts[len(lasts) * 3 // 5]):
            scheme: Any = picture.scheme
            tab = Tab(browser, file, color_scheme=scheme, device_scale_factor=picture.scale)
            tab.page.set_viewport_size({"width": picture.width, "height": picture.height})
            tab.open(picture.fragment)
            (target / picture.name).write_bytes(with_palette(tab.page.screenshot()))
            tab.page.context.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
