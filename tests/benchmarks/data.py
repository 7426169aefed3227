"""Ledgers to measure on: made by a script, the same ratings every time, framed by the library itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, count
from pathlib import Path
from random import Random
from uuid import UUID

from tallybook.ledger import clock
from tallybook.ledger.codec import encode
from tallybook.ledger.events import LedgerOpened, PlaybookAdopted, PlaybookUpdated, PointAdded, PointRated, PointSeeded
from tallybook.ledger.line import FORMAT, LOG_NAME, START, Draft, Position, Stamp, frame
from tallybook.ledger.log import JsonlLog

ENTRIES = 200
WIDE = 2_000
RATINGS = 5
UPDATES_PER_SESSION = 3
UPDATE_GAP_US = 90_000_000
BEGIN_US = 1_760_000_000_000_000
# About what a reflector says: most ratings are helpful, so that nearly all entries live on.
RATING_WORDS = ("helpful",) * 6 + ("neutral",) * 3 + ("harmful",)
WRITE_BYTES = 1024 * 1024


def text_of(number: int) -> str:
    """Return the text of an entry, of usual length."""
    return f"When a test of area {number} fails, read the whole traceback before you change a line of the code."


def seeds(entries: int) -> list[Draft]:
    """Return the batch that a legacy file of so many entries becomes."""
    points = (PointSeeded(f"kpt_{n:03d}", 0, 0, "canonical", text_of(n), "") for n in range(1, entries + 1))
    return [encode(PlaybookAdopted("0" * 64, entries, "{}")), *map(encode, points)]


def yield_updates(entries: int = ENTRIES) -> Iterator[list[Draft]]:
    """Yield updates without end: five ratings of so many entries, and the close."""
    chance = Random(2)  # noqa: S311 - the same ledger in every run, and no secret
    names = [f"kpt_{n:03d}" for n in range(1, entries + 1)]
    drafts = {(name, word): encode(PointRated(name, word)) for name in names for word in set(RATING_WORDS)}
    closing = encode(PlaybookUpdated(0, RATINGS, 0))
    while True:
        yield [*(drafts[chance.choice(names), chance.choice(RATING_WORDS)] for _ in range(RATINGS)), closing]


def different() -> Iterator[list[Draft]]:
    """Yield updates without end in which no two are equal: each adds a text, and every rating is a new one.

    An entry is rated in five updates, each time with another word, so that no pair of name and word repeats.
    """
    words = ("neutral", "helpful", "harmful", "helpful, mostly", "unclear")
    closing = encode(PlaybookUpdated(1, RATINGS, 0))
    for number in count(ENTRIES + 1):
        added = encode(PointAdded(f"kpt_{number:03d}", text_of(number)))
        rated = [encode(PointRated(f"kpt_{number - age:03d}", word)) for age, word in enumerate(words)]
        yield [added, *rated, closing]


def _stamps() -> Iterator[Stamp]:
    """Yield author and time of each update: a new session every few, the clock moving on; the position is set later."""
    chance = Random(3)  # noqa: S311 - as above
    for number in count():
        if number % UPDATES_PER_SESSION == 0:
            by = {"rater": "reflector", "session": str(UUID(int=chance.getrandbits(128), version=4))}
        unix_us = BEGIN_US + number * UPDATE_GAP_US
        at = clock.moment(unix_us).at
        yield Stamp(START, at, by, partial(clock.new_id, unix_us), clock.new_salt)


def lines(batches: Iterable[Sequence[Draft]], events: int) -> Iterator[bytes]:
    """Yield the bytes of each batch, up to the first that makes at least ``events`` events."""
    mark: Position = START
    for drafts, stamp in zip(batches, _stamps(), strict=False):
        batch = frame(drafts, stamp._replace(position=mark))
        yield batch.raw
        mark = batch.position
        if mark.seq >= events:
            return


def build(folder: Path, kind: str, events: int) -> None:
    """Make a ledger in a folder, unless it exists: a key of KINDS, and how many events it has at least."""
    entries, updates = KINDS[kind]
    path = folder / LOG_NAME
    if path.exists():
        return
    folder.mkdir(parents=True)
    opening = [[encode(LedgerOpened(str(UUID(int=7)), FORMAT))], seeds(entries)]
    with path.open("wb", buffering=WRITE_BYTES) as file:
        file.writelines(lines(chain(opening, updates()), events))
    # A ledger that was merely copied has no head, and nothing is kept of it.
    with closing(JsonlLog(folder)) as log, log.transaction() as tx:
        tx.append([encode(PlaybookUpdated(0, 0, 0))], {"rater": "human"})


KINDS: dict[str, tuple[int, Callable[[], Iterator[list[Draft]]]]] = {
    "alike": (ENTRIES, yield_updates),
    "different": (ENTRIES, different),
    "wide": (WIDE, partial(yield_updates, WIDE)),
}
"""Name of a ledger → how many entries it begins with, and what yields its updates."""
