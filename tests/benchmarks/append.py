"""Rows ``append``, ``append-batch``, ``append-many`` and ``rewrite``: the cost until a rating is durable."""

from __future__ import annotations

from contextlib import closing
import json
import os
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.crowd import BY, RATING
from benchmarks.data import repeating, text_of
from benchmarks.table import Row, Setting, alternate, faster, medians
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage.disk import flush_data, write_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tallybook.ledger.line import Draft

PAIRS = 15
BLOCK = 200
REWRITE_BLOCK = 20
OLD_ENTRIES = 2_000
TOGETHER = 100
MICROSECONDS = 1_000_000
MILLISECONDS = 1_000


def _block(step: Callable[[], object], times: int) -> Callable[[], float]:
    """Return a function that does a step so many times and returns the seconds of each."""

    def run() -> float:
        begin = perf_counter()
        for _ in range(times):
            step()
        return (perf_counter() - begin) / times

    return run


def appended(log: JsonlLog, drafts: Sequence[Draft]) -> int:
    """Record a batch durably; return how many bytes it took."""
    with log.transaction() as tx:
        batch = tx.append(drafts, BY)
    return len(batch.raw) if batch is not None else 0


def _against_bare(setting: Setting, name: str, what: str, drafts: Sequence[Draft]) -> Iterator[Row]:
    """Measure durable appends through the library against the floor: as many bytes, written and flushed."""
    path = setting.folder / f"{name}.bare"
    with closing(JsonlLog(setting.folder / name)) as log, path.open("ab", buffering=0) as file:
        appended(log, drafts)
        line = b"x" * (appended(log, drafts) - 1) + b"\n"

        def bare() -> None:
            os.write(file.fileno(), line)
            flush_data(file.fileno())

        ours, theirs = _block(lambda: appended(log, drafts), BLOCK), _block(bare, BLOCK)
        ours()
        theirs()
        taken = alternate(ours, theirs, setting.pairs(PAIRS))
    against = f"os.write of as many bytes and {flush_data.__name__}"
    yield Row(
        name,
        what,
        against,
        faster(taken),
        *medians(taken, MICROSECONDS),
        "µs",
        f"{len(line):,} bytes, blocks of {BLOCK}",
    )


def rows(setting: Setting) -> Iterator[Row]:
    """Measure one rating."""
    yield from _against_bare(setting, "append", "one rating, durable, by a process that stays", [RATING])


def batch(setting: Setting) -> Iterator[Row]:
    """Measure an update: five ratings and its close."""
    yield from _against_bare(setting, "append-batch", "a batch of six events, likewise", next(repeating()))


def together(setting: Setting) -> Iterator[Row]:
    """Measure many batches in one transaction, which flushes once, against a transaction for each."""
    with closing(JsonlLog(setting.folder / "append-many")) as log:

        def at_once() -> None:
            with log.transaction() as tx:
                for _ in range(TOGETHER):
                    tx.append([RATING], BY)

        def one_by_one() -> None:
            for _ in range(TOGETHER):
                appended(log, [RATING])

        at_once()
        taken = alternate(_block(at_once, 1), _block(one_by_one, 1), setting.pairs(PAIRS))
    what = f"{TOGETHER} ratings, each a batch of its own, in one transaction"
    yield Row("append-many", what, "a transaction for each", faster(taken), *medians(taken, MILLISECONDS), "ms")


def _rewriting(path: Path) -> Callable[[], None]:
    """Return a function that records one rating the old way: read the whole file, count, write the whole file."""
    points: list[dict[str, Any]] = [
        {"name": f"kpt_{n:03d}", "text": text_of(n), "helpful": 0, "harmful": 0} for n in range(1, OLD_ENTRIES + 1)
    ]
    path.write_text(json.dumps({"version": "1.0", "key_points": points}, indent=2), encoding="utf-8")
    beside = path.with_suffix(".tmp")

    def rate() -> None:
        playbook = json.loads(path.read_bytes())
        next(point for point in playbook["key_points"] if point["name"] == "kpt_007")["helpful"] += 1
        with beside.open("wb", buffering=0) as file:
            write_all(file.fileno(), json.dumps(playbook, indent=2).encode(), beside)
            os.fsync(file.fileno())
        beside.replace(path)

    return rate


def rewrite(setting: Setting) -> Iterator[Row]:
    """Measure one rating, appended, against one that rewrites a playbook of 2,000 entries."""
    with closing(JsonlLog(setting.folder / "rewrite")) as log:
        appended(log, [RATING])
        ours = _block(lambda: appended(log, [RATING]), REWRITE_BLOCK)
        theirs = _block(_rewriting(setting.folder / "rewrite.json"), REWRITE_BLOCK)
        taken = alternate(ours, theirs, setting.pairs(PAIRS))
    against = f"rewriting a playbook.json of {OLD_ENTRIES:,} entries: load, count, write, fsync, rename"
    note = "the append alone, without rendering playbook.json from it"
    yield Row("rewrite", "one rating, appended", against, faster(taken), *medians(taken, MICROSECONDS), "µs", note)
