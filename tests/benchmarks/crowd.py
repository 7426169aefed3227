"""Rows ``many``: several processes that append at once, against other ways to make their ratings durable.

One pair has nothing of Tallybook in it: a bare write with its flush outside of the lock, against the flush within.
That is the most that a flush outside can gain on this machine.

    python -m tests.benchmarks.crowd WRITER WRITERS RATINGS FOLDER

Each crowd is a process that starts its writers, starts them at once, and prints in JSON the seconds of the last one
and of each rating.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
import json
from multiprocessing import get_context
import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from tallybook.ledger.codec import encode
from tallybook.ledger.events import PointRated
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage.disk import flush_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Step = Callable[[], object]

ROOT = Path(__file__).resolve().parent.parent.parent
CROWDS = {16: 100, 64: 25}
"""How many writers → how many ratings each of them appends; fewer where the ledgers are to be short."""
PAIRS = 7
OURS = "tallybook"
BY = {"rater": "reflector", "session": "5f1c2f0e-7a3b-4c44-9d0e-1b2c3d4e5f60"}
RATING = encode(PointRated("kpt_007", "helpful"))
LINE = b"x" * 311 + b"\n"
# Here no writer may go to the spool, and none of a rival's may give up.
PATIENCE_S = 60
MICROSECONDS = 1_000_000
MILLISECONDS = 1_000
PERCENT = 99


def _tallybook(folder: Path) -> Step:
    log = JsonlLog(folder / "tallybook")

    def append() -> None:
        with log.transaction(PATIENCE_S * MILLISECONDS) as tx:
            tx.append([RATING], BY)

    return append


def _one_lock(folder: Path) -> Step:
    import fcntl  # noqa: PLC0415 - not on Windows, where nobody asks for this

    fd = os.open(folder / "one-lock", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, LINE)
        flush_data(fd)
        fcntl.flock(fd, fcntl.LOCK_UN)

    return append


def _flush_outside(folder: Path) -> Step:
    import fcntl  # noqa: PLC0415 - as above

    fd = os.open(folder / "flush-outside", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, LINE)
        fcntl.flock(fd, fcntl.LOCK_UN)
        flush_data(fd)

    return append


def _patient(step: Step, errors: tuple[type[Exception], ...]) -> Step:
    """Return a function that repeats a step while the rival reports a locked database."""

    def again() -> None:
        deadline = perf_counter() + PATIENCE_S
        while True:
            try:
                step()
            except errors:
                if perf_counter() > deadline:
                    raise
            else:
                return

    return again


def _sqlite(folder: Path) -> Step:
    import sqlite3  # noqa: PLC0415 - only this rival wants it

    base = sqlite3.connect(folder / "sqlite", timeout=PATIENCE_S, isolation_level=None)
    for words in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, line BLOB)",
    ):
        _patient(partial(base.execute, words), (sqlite3.OperationalError,))()
    insert = partial(base.execute, "INSERT INTO events (line) VALUES (?)", (LINE,))
    return _patient(insert, (sqlite3.OperationalError,))


def _eventsourcing(folder: Path) -> Step:
    from benchmarks.rivals import rated  # noqa: PLC0415 - a group that need not be there

    return rated(str(folder / "eventsourcing"), PATIENCE_S)


WRITERS: dict[str, Callable[[Path], Step]] = {
    OURS: _tallybook,
    "one-lock": _one_lock,
    "flush-outside": _flush_outside,
    "sqlite": _sqlite,
    "eventsourcing": _eventsourcing,
}
"""Name of a writer → what opens its files and returns what makes one rating durable."""
RIVALS = {
    "one-lock": (f"one lock around os.write and {flush_data.__name__}", ""),
    "sqlite": ("sqlite3, WAL, synchronous=FULL", "sqlite3"),
    "eventsourcing": ("eventsourcing over SQLite", "eventsourcing"),
}
"""Name of a rival → what it does, and the module that it needs."""


BARE = {"flush-outside": f", bare: one lock around os.write, {flush_data.__name__} outside of it"}
"""Name of a writer that is measured in our place → how its rows say so: what it gains is the most that we could."""


def _write(name: str, ratings: int, folder: Path, gate: tuple[int, int], out: int) -> None:
    """Open, wait until the gate is shut, append, and print the seconds of each."""
    os.close(gate[1])
    step = WRITERS[name](folder)
    step()
    os.write(out, b"ready\n")
    os.read(gate[0], 1)
    taken = []
    for _ in range(ratings):
        begin = perf_counter()
        step()
        taken.append(perf_counter() - begin)
    os.write(out, json.dumps(taken).encode() + b"\n")


def _begin(name: str, folder: Path) -> None:
    """Make the files, and one rating durable."""
    WRITERS[name](folder)()


def crowd(name: str, writers: int, ratings: int, folder: Path) -> dict[str, Any]:
    """Run so many writers at once; return the seconds until the last was done, and those of each rating.

    Raises:
        ChildProcessError: A writer ended early; it has printed why.
    """
    fork = get_context("fork")
    # A database that was open must not be taken along, so the first to open it is a process of its own too.
    first = fork.Process(target=_begin, args=(name, folder))
    first.start()
    first.join()
    gate = os.pipe()
    heard = []
    for _ in range(writers):
        ear, out = os.pipe()
        # Forked, so that sixty-four of them need not load what one has loaded.
        fork.Process(target=_write, args=(name, ratings, folder, gate, out)).start()
        os.close(out)
        heard.append(os.fdopen(ear))
    ready = [pipe.readline() for pipe in heard]
    begin = perf_counter()
    os.close(gate[1])
    told = [pipe.readline() for pipe in heard]
    seconds = perf_counter() - begin
    if not all([*ready, *told]):
        raise ChildProcessError(f"a writer of {name} ended early")
    return {"seconds": seconds, "taken": [each for line in told for each in json.loads(line)]}


def measured(folder: Path, writers: int, ratings: int, name: str) -> tuple[float, float]:
    """Return the seconds of a rating on average, and those within which 99 of 100 were durable."""
    words = [name, str(writers), str(ratings), str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.crowd", *words], cwd=ROOT, capture_output=True, check=True
    )
    told = json.loads(done.stdout)
    taken = sorted(told["taken"])
    return told["seconds"] / len(taken), taken[len(taken) * PERCENT // 100]


def _rows(setting: Setting, writers: int, ratings: int, rival: str, name: str = OURS) -> Iterator[Row]:
    """Measure a crowd of each: ratings a second, and the slowest of a hundred."""
    against, _ = RIVALS[rival]
    found: dict[str, list[tuple[float, float]]] = {name: [], rival: []}

    def side(writer: str) -> float:
        found[writer].append(measured(setting.folder, writers, ratings, writer))
        return found[writer][-1][0]

    taken = alternate(partial(side, name), partial(side, rival), setting.pairs(PAIRS))
    what = f"{writers} processes, {ratings} ratings each{BARE.get(name, '')}"
    yield Row("many", what, against, faster(taken), *medians(taken, MICROSECONDS), "µs a rating")
    slowest = [(ours[1], theirs[1]) for ours, theirs in zip(found[name], found[rival], strict=True)]
    yield Row("many", f"{what}: 99 of 100", against, faster(slowest), *medians(slowest, MILLISECONDS), "ms")


def rows(setting: Setting) -> Iterator[Row]:
    """Measure crowds of writers against each installed rival.

    Raises:
        NoRivalError: The system has no ``flock``, or one of the rivals is not installed; raised after the other rows.
    """
    if find_spec("fcntl") is None:
        raise NoRivalError("many: the system has no flock")
    missing = [name for name, (_, module) in RIVALS.items() if module and find_spec(module) is None]
    for writers, most in CROWDS.items():
        ratings = min(most, max(setting.events // writers // 4, 1))
        for rival in RIVALS:
            if rival not in missing:
                yield from _rows(setting, writers, ratings, rival)
        for name in BARE:
            yield from _rows(setting, writers, ratings, "one-lock", name)
    if missing:
        raise NoRivalError(f"many: {', '.join(missing)} is not installed (it comes with the group `bench`)")


def main(words: Sequence[str]) -> None:
    """Run a crowd, and print its result."""
    name, writers, ratings, folder = words
    print(json.dumps(crowd(name, int(writers), int(ratings), Path(folder))))


if __name__ == "__main__":
    main(sys.argv[1:])
