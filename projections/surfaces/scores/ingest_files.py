"""From files to the objects in them: JSON Lines, arrays and single objects, plain or gzip, a part at a time.

A bad line stops nothing: a Problem is yielded in its place, among the objects.
"""

from __future__ import annotations

from gzip import GzipFile
from io import BufferedReader, BytesIO
from itertools import chain
import json
from math import isinf
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
import zlib

from tallybook.ledger.encoding.strict_json import MAX_DEPTH, MAX_PAYLOAD_BYTES, is_too_deep
from tallybook.ledger.errors import Problem
from tallybook.ledger.events import MAX_INT
from tallybook.ledger.storage.disk import reason

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DOCUMENT_BYTES: Final = MAX_PAYLOAD_BYTES
"""What is not one object a line is read as a whole, up to here; a single line may be as long."""

_CHUNK_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_MOST_DIGITS = 17
# An array that has each of its objects on a line of its own is read line by line, however long it is.
_BRACKETS = frozenset((b"", b"[", b"]", b"],"))
_NO_OBJECT = "is not a JSON object; it is not recorded"
_BLANK = " \t\r\n"
_BLANKS = frozenset(_BLANK)
_DEEP = f"is nested more than {MAX_DEPTH} deep"


class Item(NamedTuple):
    """An object that was sent.

    Attributes:
        value: The object; numbers that JSON readers may read differently are texts in it.
        place: Where it is, for people: ``events.jsonl:3``.
        file: The base name of its file, the same whether that is packed; empty where it was typed or piped in.
        size: About how many bytes it takes.
    """

    value: dict[str, Any]
    place: str
    file: str
    size: int


def items(file: str) -> Iterator[Item | Problem]:
    """Yield the objects of a file, or of standard input for ``-``, and what is wrong with the rest, in order."""
    if file == "-":
        # A terminal ends at the first end of its input: to read again would wait for another.
        source = BytesIO(sys.stdin.buffer.read()) if sys.stdin.isatty() else sys.stdin.buffer
        reader = BufferedReader(cast("Any", source))
        yield from _unpack(reader, "standard input", "")
        # Standard input stays open for the rest of the process.
        reader.detach()
        return
    path = Path(file)
    try:
        with path.open("rb") as stream:
            yield from _unpack(stream, file, path.name.removesuffix(".gz"))
    except OSError as error:
        yield Problem(file, f"cannot be read: {reason(error)}")


def _unpack(stream: BufferedReader, name: str, file: str) -> Iterator[Item | Problem]:
    """Yield the objects of a stream, decompressed where it begins as gzip does; after a broken end the rest is lost."""
    is_packed = stream.peek(len(_GZIP)).startswith(_GZIP)
    try:
        yield from _objects(_lines(GzipFile(fileobj=stream) if is_packed else stream), name, file)
    except (EOFError, zlib.error, OSError) as error:
        why = reason(error) if isinstance(error, OSError) and error.errno else str(error)
        yield Problem(name, f"cannot be read to its end: {why}; everything before that was read")


def _lines(stream: BufferedReader | GzipFile) -> Iterator[bytes]:
    """Yield the lines of a stream; of one that is too long only as much as shows that it is."""
    rest = stream.read(len(_BOM)).removeprefix(_BOM)
    while chunk := stream.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        rest = rest[: MAX_DOCUMENT_BYTES + 1]
    yield from rest.split(b"\n")


def _objects(lines: Iterator[bytes], name: str, file: str) -> Iterator[Item | Problem]:
    """Yield the objects of lines: of one document that they are together, or else of each."""
    rest = enumerate(lines, 1)
    first_lines = [next(((number, line) for number, line in rest if line.strip()), (0, b""))]
    if first_lines == [(0, b"")]:
        yield Problem(name, "is empty")
        return
    values = _document(first_lines, rest) if _is_open(first_lines[0][1]) else []
    for index, value in enumerate(values):
        place = f"{name}[{index}]" if len(values) > 1 else name
        yield from _spread(value, place, file, sum(len(line) for _, line in first_lines) // len(values))
    if not values:
        objects = (
            one for number, line in chain(first_lines, rest) for one in _line(line.strip(), f"{name}:{number}", file)
        )
        # The beginning of an array without any object is not an object either.
        yield next(objects, Problem(name, _NO_OBJECT))
        yield from objects


def _is_open(line: bytes) -> bool:
    """Return whether a line begins a document that continues in the next."""
    return line.lstrip()[:1] in {b"[", b"{"} and bool(_values(line)[1])


def _document(first_lines: list[tuple[int, bytes]], rest: Iterator[tuple[int, bytes]]) -> list[Any]:
    """Return the JSON values that all lines together hold, one after another; none where they are not JSON.

    Args:
        first_lines: The first line; further lines are appended as they are read.
        rest: The other lines.
    """
    size = len(first_lines[0][1])
    for number, line in rest:
        first_lines.append((number, line))
        size += len(line)
        if size > MAX_DOCUMENT_BYTES:
            return []
    values, fault = _values(b"\n".join(line for _, line in first_lines))
    return [] if fault else values


def _line(text: bytes, place: str, file: str) -> Iterator[Item | Problem]:
    """Yield the objects of a line: two writers may have welded theirs."""
    if text in _BRACKETS:
        return
    values, fault = _values(text.removesuffix(b","))
    for index, value in enumerate(values):
        where = f"{place}[{index}]" if len(values) > 1 else place
        yield from _spread(value, where, file, len(text) // len(values))
    if fault:
        yield Problem(place, f"{fault}; it is not recorded")


def _spread(value: Any, place: str, file: str, size: int) -> Iterator[Item | Problem]:
    """Yield the objects of a JSON value: itself, or those in a list."""
    if isinstance(value, dict):
        yield Item(value, place, file, size)
    elif isinstance(value, list):
        if not value:
            yield Problem(place, "is an empty list")
        for index, one in enumerate(value):
            if isinstance(one, dict):
                yield Item(one, f"{place}[{index}]", file, size // len(value))
            else:
                yield Problem(f"{place}[{index}]", _NO_OBJECT)
    else:
        yield Problem(place, _NO_OBJECT)


def _values(data: bytes) -> tuple[list[Any], str]:
    """Return the JSON values of a text, and what is wrong after the last of them, empty for nothing.

    A number that JSON readers may read differently, such as NaN, is returned as text.
    """
    values: list[Any] = []
    if len(data) > MAX_DOCUMENT_BYTES:
        return values, f"has more than {MAX_DOCUMENT_BYTES:,} bytes"
    try:
        text = data.decode().strip(_BLANK)
        end = 0
        while end < len(text) or not values:
            value, end = _DECODER.raw_decode(text, end)
            if is_too_deep(value):
                return values, _DEEP
            values.append(value)
            while text[end : end + 1] in _BLANKS:
                end += 1
    except UnicodeDecodeError as error:
        return values, f"is not UTF-8 text, from byte {error.start} on"
    except json.JSONDecodeError as error:
        return values, f"is not JSON: {error.msg} (character {error.pos + 1})"
    except RecursionError:
        return values, _DEEP
    return values, ""


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS and abs(int(digits)) <= MAX_INT else digits


def _broken(digits: str) -> float | str:
    number = float(digits)
    return digits if isinf(number) else number


_DECODER = json.JSONDecoder(parse_constant=str, parse_int=_whole, parse_float=_broken)
