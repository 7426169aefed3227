"""Helpers of tests: lines built by hand, and scans of them."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from itertools import count
import tempfile
from typing import IO, Any, NamedTuple, cast

from hypothesis import strategies as st

from tallybook.ledger.events import (
    Event,
    ItemSkipped,
    PlaybookEdited,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointRated,
    PointSeeded,
)
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import (
    START,
    Draft,
    Position,
    RawBatch,
    Stamp,
    complete_lines,
    digest,
    frame,
    join_chained_bytes,
)
from tallybook.ledger.scan import Scan, Stop

AT = "2026-11-21T20:17:03.123456Z"
BY = {"rater": "test"}
# What could be taken for a section, a line, a string's end, or a part of an escape.
TRICKY = [',\t"free":', ',\t"chain":"', "\t", "\n", "\r\n", "\u2028", "\u2029", "\x85", '"', "\\", '\\"', "\\u0000"]
CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(st.one_of(st.text(CHARACTERS), st.sampled_from(TRICKY)), max_size=6).map("".join)
LONG_TEXTS = st.builds(lambda piece, times, end: piece * times + end, TEXTS, st.sampled_from([1, 1000, 4000]), TEXTS)
KEYS = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"\\'), min_size=1)
COUNTS = st.integers(0, 2**53)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(PointRated, TEXTS, TEXTS),
    st.builds(PointAdded, TEXTS, LONG_TEXTS),
    st.builds(PointSeeded, TEXTS, COUNTS, COUNTS, TEXTS, LONG_TEXTS, LONG_TEXTS),
    st.builds(ItemSkipped, COUNTS, TEXTS, LONG_TEXTS),
    st.builds(PlaybookOrdered, st.lists(TEXTS, max_size=60).map(tuple)),
    st.builds(PlaybookEdited, st.none() | COUNTS, st.none() | TEXTS, LONG_TEXTS.map(lambda text: dumps({"a": text}))),
    st.builds(PlaybookUpdated, COUNTS, COUNTS, COUNTS),
)


class ScanResult(NamedTuple):
    """The result of a scan: batches, where and why it ended early, and the ranges that it skipped."""

    batches: list[RawBatch]
    stop: Stop | None
    sealed: list[tuple[int, int]]


def stamp(
    mark: Position = START,
    *,
    at: str = AT,
    by: Mapping[str, Any] | None = None,
    key: str | None = None,
    ids: str = "id",
) -> Stamp:
    """Return a stamp without random parts: ids are numbered by seq, every salt is the same."""
    serial = count(mark.seq + 1)
    return Stamp(mark, at, by or BY, lambda: f"{ids}-{next(serial)}", lambda: "5a17", key)


def batches_of(*groups: Sequence[Draft], mark: Position = START) -> list[RawBatch]:
    """Return one batch for each group of drafts, chained after a position."""
    batches: list[RawBatch] = []
    for group in groups:
        batches.append(frame(group, stamp(mark)))
        mark = batches[-1].position
    return batches


def raw(batches: Iterable[RawBatch]) -> bytes:
    """Return the bytes of batches as in a file."""
    return b"".join(batch.raw for batch in batches)


@cache
def _scratch() -> IO[bytes]:
    """Return a file to write again and again: a new one for each of many thousand logs would take half a minute."""
    return cast("IO[bytes]", tempfile.TemporaryFile(buffering=0))


def file_of(data: bytes) -> int:
    """Return the descriptor of a file that holds these bytes until the next call."""
    file = _scratch()
    file.seek(0)
    file.write(data)
    file.truncate()
    return file.fileno()


def read(data: bytes) -> ScanResult:
    """Scan bytes as a file from its beginning to its end."""
    scan = Scan(file_of(data), START, len(data))
    return ScanResult(list(scan), scan.stop, scan.sealed_ranges)


def compute_chain(previous: str, data: bytes) -> str:
    """Return the chain value of a batch that follows the chain value ``previous``."""
    return digest(previous.encode() + join_chained_bytes(complete_lines(data)))


def forge(*sections: tuple[str, str | None], mark: Position = START, head: Mapping[str, str] | None = None) -> RawBatch:
    """Return a batch of any lines whose proofs all fit.

    Args:
        sections: For each line its content section without ``sum``, and its free value in JSON or None.
        mark: The position before it.
        head: Fields of each line's first section, by name and in JSON, that are not to be the usual ones.
    """
    lines = []
    for part, (what, free) in enumerate(sections, 1):
        seq, place = mark.seq + part, f"[{part},{len(sections)}]"
        fields = {"seq": f"{seq}", "id": f'"id-{seq}"', "at": f'"{AT}"', "part": place, "by": '{"rater":"test"}'}
        core = ",".join(f'"{name}":{value}' for name, value in {**fields, **(head or {})}.items()) + ",\t" + what
        if free is not None:
            core += f',"sum":"{sha256(free.encode()).hexdigest()[:32]}"'
        crc = binascii.crc32(core.encode())
        text = f',\t"free":{free}' if free is not None else ""
        lines.append(f'{{"crc":"{crc:08x}",{core}{text}' + ("}" if part < len(sections) else ""))
    data = "\n".join(lines).encode()
    return RawBatch(
        mark.seq + 1, mark.seq + len(lines), compute_chain(mark.chain, data), mark.offset, complete_lines(data)
    )
