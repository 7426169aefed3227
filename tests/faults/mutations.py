"""Row ``mutations``: a log is changed in every possible way, and its readers must notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
import os
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

from benchmarks import data as drafts
from faults import FaultCounts, FaultOptions
from tallybook.ledger import clock, damage
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import DamagedLedgerError, NewerLedgerError
from tallybook.ledger.events import EventRedacted, LedgerOpened
from tallybook.ledger.line import (
    CHAIN_MARK,
    CRC_BYTES,
    FORMAT,
    FREE_MARK,
    LOG_NAME,
    SECTION,
    START,
    Position,
    RawBatch,
    Stamp,
    complete_lines,
    frame,
    head_field,
    split_line,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.verification import verify

COUNT = 100_000
SEEDS = 6
UPDATES = 11
# Behind the sealed range: that holds its own offsets, and would tell of every byte added or removed before it.
REDACTED = 16
SECTOR_BYTES = 512
MAX_FAILURES = 10
_LENGTHS = (1, 1, 1, 2, 4, 16, 64, 300)
_ECHOES = (b"\n", b"hello\n", b"{}\n", b'{"rating":"helpful"}\n', b"\xff\xfe\n", b"\0\0\0\0\n")
_RATER = {"rater": "reflector", "session": "00000000-0000-4000-8000-000000000001"}


class LedgerImage(NamedTuple):
    """A ledger before it is changed, with a head at the end of its log."""

    data: bytes
    batches: list[RawBatch]
    events: list[tuple[bytes, bytes, bytes | None]]
    log: JsonlLog


class Mutation(NamedTuple):
    """A changed log.

    Attributes:
        kind: A key of BYTES or LINES.
        where: Offset or index of the line, the argument of its kind.
        data: The changed bytes, never the same as before.
    """

    kind: str
    where: int
    data: bytes


def build(folder: Path, seed: int) -> LedgerImage:
    """Make a ledger with texts, keys, batches of one and of many lines, and a sealed range in the middle."""
    folder.mkdir(parents=True)
    path = folder / LOG_NAME
    chance = Random(seed)  # noqa: S311 - the same ledger in every run, and no secret

    def stamp(number: int, mark: Position) -> Stamp:
        at = clock.moment(drafts.BEGIN_US + number * drafts.UPDATE_GAP_US).at
        ids = partial(chance.getrandbits, 128)
        key = f"span-{number}" if number % 3 == 0 else None
        return Stamp(mark, at, _RATER, lambda: str(UUID(int=ids())), lambda: f"{chance.getrandbits(64):016x}", key)

    gone = ""
    steps = [[encode(LedgerOpened(str(UUID(int=seed)), FORMAT))], drafts.seeds(SEEDS)]
    for update in islice(drafts.different(), UPDATES):
        steps += [update, [update[1]._replace(when="2025-10-09T08:53:20.000000Z")]]
    mark = START
    with path.open("w+b", buffering=0) as file:
        for number, step in enumerate(steps):
            said = [encode(EventRedacted(gone, "a secret"))] if number == REDACTED + 1 else []
            batch = frame([*said, *step], stamp(number, mark))
            if number == REDACTED:
                batch, gone = _redact_batch(batch), head_field(batch.data, b"id")
            if number == UPDATES:
                file.write(batch.raw[: len(batch.raw) // 2] + bytes(64))
                mark = damage.seal(file.fileno(), path, mark, file.tell(), partial(stamp, number)).position
                file.seek(0, os.SEEK_END)
                batch = frame(step, stamp(number, mark))
            file.write(batch.raw)
            mark = batch.position
    (folder / "head").write_bytes(heads.encode(heads.Head(mark)))
    log = JsonlLog(folder)
    if not verify(log).ok:
        raise AssertionError("the log is damaged before anything is changed")
    batches = list(log.read())
    return LedgerImage(path.read_bytes(), batches, _events(batches), log)


def _redact_batch(batch: RawBatch) -> RawBatch:
    """Return a batch without the text of its first line, as a redaction in place leaves it."""
    value = split_line(batch.lines[0])[2] or b""
    return batch._replace(lines=complete_lines(batch.data.replace(value, b"null".ljust(len(value)))))


# How bytes are changed, of a log or of any other file


def _over(data: bytes, at: int, fresh: bytes) -> bytes:
    return data[:at] + fresh[: len(data) - at] + data[at + len(fresh) :]


def _flip(chance: Random, data: bytes, at: int) -> bytes:
    return _over(data, at, bytes([data[at] ^ 1 << chance.randrange(8)]))


def _change(chance: Random, data: bytes, at: int) -> bytes:
    """Replace a byte: by any, or by one of the same file, so that a digit may become another digit."""
    other = chance.randrange(len(data))
    return _over(data, at, chance.choice((chance.randbytes(1), data[other : other + 1])))


def _delete(chance: Random, data: bytes, at: int) -> bytes:
    return data[:at] + data[at + chance.choice(_LENGTHS) :]


def _insert(chance: Random, data: bytes, at: int) -> bytes:
    begin, size = chance.randrange(len(data)), chance.choice(_LENGTHS)
    return data[:at] + chance.choice((chance.randbytes(size), data[begin : begin + size], b" " * size)) + data[at:]


def _blank(_: Random, data: bytes, at: int) -> bytes:
    return data[:at] + b" " + data[at:]


def _cut(_: Random, data: bytes, at: int) -> bytes:
    return data[:at]


def _hole(chance: Random, data: bytes, at: int) -> bytes:
    return _over(data, at, bytes(chance.choice(_LENGTHS)))


def _zero_sector(_: Random, data: bytes, at: int) -> bytes:
    return _over(data, at - at % SECTOR_BYTES, bytes(SECTOR_BYTES))


def _stale_sector(chance: Random, data: bytes, at: int) -> bytes:
    other = chance.randrange(len(data)) // SECTOR_BYTES * SECTOR_BYTES
    return _over(data, at - at % SECTOR_BYTES, data[other : other + SECTOR_BYTES])


BYTES: dict[str, Callable[[Random, bytes, int], bytes]] = {
    "flip": _flip,
    "change": _change,
    "delete": _delete,
    "insert": _insert,
    "blank": _blank,
    "cut": _cut,
    "hole": _hole,
    "zero sector": _zero_sector,
    "stale sector": _stale_sector,
}
"""Kind → what changes bytes at an offset."""
# How lines are changed: (the chance, the log's lines, the index of one, the lines of another ledger) → the lines then.
Lines = list[bytes]
LINES: dict[str, Callable[[Random, Lines, int, Lines], Lines]] = {
    "remove": lambda _, lines, at, __: lines[:at] + lines[at + 1 :],
    "repeat": lambda _, lines, at, __: lines[: at + 1] + lines[at:],
    "swap": lambda _, lines, at, __: lines[:at] + lines[at : at + 2][::-1] + lines[at + 2 :],
    "move": lambda chance, lines, at, _: _moved(lines[:at] + lines[at + 1 :], chance.randrange(len(lines)), lines[at]),
    "copy": lambda chance, lines, at, _: _moved(lines, chance.randrange(len(lines) + 1), lines[at]),
    "splice": lambda _, lines, at, other: lines[:at] + other[at : at + 1] + lines[at + 1 :],
    "graft": lambda _, lines, at, other: lines[:at] + other[at:],
    "slip in": lambda chance, lines, at, other: _moved(lines, at, chance.choice(other)),
    "echo": lambda chance, lines, at, _: _moved(lines, at, chance.choice(_ECHOES)),
}
"""Kind → what changes lines around an index."""


def _moved(lines: Lines, at: int, line: bytes) -> Lines:
    return [*lines[:at], line, *lines[at:]]


def _sections(line: bytes) -> dict[str, tuple[int, int]]:
    """Return the bounds of each section of a line; a line of a sealed range is one section."""
    ends = [len(line)]
    names = []
    for name, mark in (("chain", CHAIN_MARK), ("free", FREE_MARK), ("what", SECTION)):
        at = line.find(mark, 0, ends[-1])
        if at >= 0:
            names.append(name)
            ends.append(at)
    begins = [*ends[1:], CRC_BYTES]
    found = {name: (begin, end) for name, begin, end in zip([*names, "head"], begins, ends, strict=True)}
    return {"crc": (0, CRC_BYTES), **found} if ends[-1] > CRC_BYTES else {"other": (0, len(line))}


def systematic(image: LedgerImage) -> Iterator[tuple[str, int]]:
    """Yield every kind of change of lines at every line, and of bytes in each section: at both ends, in the middle."""
    offset = 0
    for index, line in enumerate(image.data.splitlines(keepends=True)):
        yield from ((kind, index) for kind in LINES)
        places = {place for begin, end in _sections(line).values() for place in (begin, (begin + end) // 2, end - 1)}
        yield from ((kind, offset + place) for place in sorted(places) for kind in BYTES)
        offset += len(line)


def somewhere(data: bytes, chance: Random) -> bytes:
    """Change bytes of any file at random; the result always differs."""
    while True:
        changed = BYTES[chance.choice(list(BYTES))](chance, data, chance.randrange(len(data)))
        if changed != data:
            return changed


def mutations(image: LedgerImage, other: LedgerImage, count: int, seed: int) -> Iterator[Mutation]:
    """Yield so many changed logs: up to half of them systematic, in random order, the others random."""
    chance = Random(seed)  # noqa: S311 - a seed to repeat it
    lines, foreign = image.data.splitlines(keepends=True), other.data.splitlines(keepends=True)
    kinds = [*BYTES, *BYTES, *BYTES, *LINES]
    every = list(systematic(image))
    planned = chance.sample(every, min(len(every), count // 2))
    made = 0
    while made < count:
        kind = chance.choice(kinds)
        kind, at = planned.pop() if planned else (kind, chance.randrange(len(image.data if kind in BYTES else lines)))
        if kind in BYTES:
            changed = BYTES[kind](chance, image.data, at)
        else:
            changed = b"".join(LINES[kind](chance, lines, at, foreign))
        # Without its last line break a log has lost nothing, and is read as it was.
        if changed not in {image.data, image.data[:-1]}:
            made += 1
            yield Mutation(kind, at, changed)


# What our readers make of it


class MutationResult(NamedTuple):
    """The result of one changed log.

    Attributes:
        verified: Whether ``verify`` found it.
        folded: Whether a fold found it.
        lost: How many events a fold no longer gives, without a word.
        believed: Whether a fold gives other events than there were, without a word.
    """

    verified: bool
    folded: bool
    lost: int = 0
    believed: bool = False


def _events(batches: Iterable[RawBatch]) -> list[tuple[bytes, bytes, bytes | None]]:
    """Return each line as a reader sees it: the blanks of a redaction make no difference."""
    return [split_line(line) for batch in batches for line in batch.lines]


def judge(image: LedgerImage, data: bytes) -> MutationResult:
    """Pass the changed log to both readers."""
    image.log.path.write_bytes(data)
    # What is added behind the head was never acknowledged: it is left out by the fold, and noted.
    behind = data.startswith(image.data)
    try:
        verdict = verify(image.log)
        verified = not verdict.ok or (behind and any("never acknowledged" in note for note in verdict.notes))
    except NewerLedgerError:
        verified = True
    try:
        folded = list(image.log.read())
    except (DamagedLedgerError, NewerLedgerError):
        return MutationResult(verified, folded=True)
    events = _events(folded)
    same = events == image.events
    return MutationResult(verified, behind and same, len(set(image.events) - set(events)), not same)


def find_changed_line(before: bytes, after: bytes) -> tuple[int, str] | None:
    """Return the number of the only changed line and the section of its first changed byte, or None."""
    old, new = before.split(b"\n"), after.split(b"\n")
    differing = [index for index, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]]
    if len(old) != len(new) or len(differing) != 1:
        return None
    index = differing[0]
    pairs = zip(old[index], new[index], strict=False)
    at = next((at for at, (was, now) in enumerate(pairs) if was != now), min(len(old[index]), len(new[index])) - 1)
    sections = _sections(old[index]).items()
    return index + 1, next((name for name, (begin, end) in sections if begin <= at < end), "other")


def change_own_log(setting: FaultOptions, count: int, store: str) -> FaultCounts:
    """Change Tallybook's own log so many times, and tally what its readers found."""
    image, other = build(setting.folder / store / "a", 1), build(setting.folder / store / "b", 2)
    counts: Counter[str] = Counter()
    number = 0
    failures: list[str] = []
    for number, mutation in enumerate(mutations(image, other, count, setting.seed), 1):
        try:
            outcome = judge(image, mutation.data)
        except Exception as error:
            error.add_note(f"mutation {number} of seed {setting.seed}: {mutation.kind} at {mutation.where}")
            raise
        counts.update(verify=outcome.verified, fold=outcome.folded, lost=outcome.lost, silent=outcome.believed)
        if outcome.believed or not (outcome.verified and outcome.folded):
            failures.append(f"mutation {number} of seed {setting.seed}, {mutation.kind} at {mutation.where}: {outcome}")
    found = {
        "found by its check": counts["verify"],
        "reported by reading": counts["fold"],
        "read as before": number - counts["fold"] - counts["silent"],
        "silently different": counts["silent"],
        "rows lost": counts["lost"],
    }
    return FaultCounts("mutations", store, number, found, "", tuple(failures[:MAX_FAILURES]))


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Change Tallybook's log."""
    yield change_own_log(setting, setting.times(COUNT), "Tallybook")
