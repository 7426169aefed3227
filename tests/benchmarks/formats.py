"""Row ``formats``: the line format against the plain one it was chosen over, a chain on every line and no sections.

The figures decided the format (ledger/README.md, Decisions) and stay here so that the decision can be reviewed.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from itertools import islice
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import data
from benchmarks.table import Row, Setting, alternate, faster, medians
from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.encoding.event_json import structure
from tallybook.ledger.events import PointRated
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import CHAIN_CHARS, GENESIS, MAX_LINE_BYTES, START, Draft, Stamp, frame
from tallybook.ledger.reading.scan import Scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PAIRS = 7
EVENTS_AT_MOST = 120_000
BY = {"rater": "reflector", "session": "5f1c2f0e-7a3b-4c44-9d0e-1b2c3d4e5f60"}
CHAIN = b',"chain":"'


def _cut(kind: str, size: int, events: int) -> list[Sequence[Draft]]:
    """Return updates of so many lines each: the last ones of each update, which include its close."""
    return [drafts[-size:] for drafts in islice(data.KINDS[kind][1](), max(events // size, 1))]


def write_ours(path: Path, batches: Sequence[Sequence[Draft]]) -> int:
    """Write the updates in Tallybook's format; return how many bytes they take."""
    mark = START
    with path.open("wb") as file:
        for number, drafts in enumerate(batches):
            unix_us = data.BEGIN_US + number * data.UPDATE_GAP_US
            at = clock.moment(unix_us).at
            batch = frame(drafts, Stamp(mark, at, BY, partial(clock.new_id, unix_us), clock.new_salt))
            file.write(batch.raw)
            mark = batch.position
    return mark.offset


def write_plain(path: Path, batches: Sequence[Sequence[Draft]]) -> int:
    """Write the same as one object a line, the fields in the order of their meaning, each line with its chain."""
    chain, seq, written = GENESIS, 0, 0
    with path.open("wb") as file:
        for number, drafts in enumerate(batches):
            unix_us = data.BEGIN_US + number * data.UPDATE_GAP_US
            for part, draft in enumerate(drafts, 1):
                seq += 1
                head: dict[str, Any] = {"seq": seq, "id": clock.new_id(unix_us), "at": clock.moment(unix_us).at}
                said = {"kind": draft.kind, "v": draft.v, "part": [part, len(drafts)], "by": BY, "body": draft.body}
                free = {"free": draft.free} if draft.free else {}
                core = dumps(head | said | free).encode()[:-1]
                chain = sha256(chain.encode() + core).hexdigest()[:CHAIN_CHARS]
                written += file.write(core + CHAIN + chain.encode() + b'"}\n')
    return written


def read_ours(path: Path) -> int:
    """Verify and decode; return how many ratings there are."""
    fd = os.open(path, os.O_RDONLY)
    try:
        scan = Scan(fd, START, path.stat().st_size)
        return sum(isinstance(event, PointRated) for batch in decode(scan) for event in batch.events)
    finally:
        os.close(fd)


def _plain_lines(path: Path) -> Iterator[bytes]:
    """Yield each line up to its chain, verified."""
    chain = GENESIS
    with path.open("rb", buffering=MAX_LINE_BYTES) as file:
        for line in file:
            core, _, told = line.rpartition(CHAIN)
            chain = sha256(chain.encode() + core).hexdigest()[:CHAIN_CHARS]
            if told[:CHAIN_CHARS] != chain.encode():
                raise ValueError(path)
            yield core


def read_plain(path: Path) -> int:
    """Verify and decode, with the same engine and into the same classes; return how many ratings there are."""
    ratings = 0
    for core in _plain_lines(path):
        line = msgspec.json.decode(core + b"}")
        event = structure(line["kind"], line["v"], line["body"] | line.get("free", {}))
        ratings += isinstance(event, PointRated)
    return ratings


def _seconds(read: Any, path: Path) -> float:
    begin = perf_counter()
    read(path)
    return perf_counter() - begin


def rows(setting: Setting) -> Iterator[Row]:
    """Measure verifying and decoding in both formats: updates of six and of two lines, repeating and not."""
    for kind, size in (("alike", 6), ("alike", 2), ("different", 6)):
        batches = _cut(kind, size, min(setting.events, EVENTS_AT_MOST))
        ours, plain = (setting.folder / f"{which}-{kind}-{size}" for which in ("ours", "plain"))
        count = sum(map(len, batches))
        sizes = write_ours(ours, batches) / count, write_plain(plain, batches) / count
        taken = alternate(
            partial(_seconds, read_ours, ours), partial(_seconds, read_plain, plain), setting.pairs(PAIRS)
        )
        what = f"verify and decode {count:,} events, updates of {size} lines, bodies {kind}"
        note = f"{sizes[0]:.0f} bytes a line against {sizes[1]:.0f}; both decode every kind strictly into its class"
        yield Row("formats", what, "a chain a line, no sections", faster(taken), *medians(taken), "s", note)
