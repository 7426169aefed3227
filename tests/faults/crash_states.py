"""Crash states: a real run is traced, and every disk that a power loss in it could leave is made and recovered.

What a state may hold: of every sector of 512 bytes that was written and not flushed, its bytes from before or after
any of the writes (NUL bytes where the file was shorter); of every file, its old or a newer size; of the names that
were made, renamed or removed and not flushed with their folder, any subset. That is more than ext4 and XFS allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
import json
from math import prod
from pathlib import Path
from random import Random
import shutil
from typing import Any, NamedTuple

from faults import FaultCounts, FaultOptions
from faults.recorder import Recorder, TracedEffect
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.line import START, Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.scan import Scan
from tallybook.ledger.storage import caches
from tallybook.ledger.verification import verify

SECTOR_BYTES = 512
BY = {"rater": "test"}
LINES = 3
"""Lines of each batch: together they lie across two or three sectors."""
USUAL = 20_000
HEADINGS = ("acknowledged", "lost", "doubled", "believed", "refused", "unlike", "sealed")
BROKEN = HEADINGS[1:-1]


class DiskImage(NamedTuple):
    """The possible content of the disk at one moment.

    Attributes:
        contents: File number → its bytes at the last flush, and after each change since.
        names: Path → file number, as the disk surely has it.
        renamed: Changes of names that are not flushed, in order.
        acknowledged: What the run had acknowledged by then.
    """

    contents: dict[int, list[bytes]]
    names: dict[str, int | None]
    renamed: list[Mapping[str, int | None]]
    acknowledged: list[str]


def image(steps: Sequence[TracedEffect]) -> DiskImage:
    """Return the possible content of the disk after these steps."""
    made = DiskImage({}, {}, [], [])
    for step in steps:
        if step.call == "acknowledged":
            made.acknowledged.append(step.what)
        elif step.call == "names":
            made.renamed.append(step.names)
        elif step.call == "flush":
            made.contents[step.what] = made.contents.get(step.what, [b""])[-1:]
        elif step.call == "flush-folder":
            flushed = [names for names in made.renamed if any(str(Path(name).parent) == step.what for name in names)]
            for names in flushed:
                made.names.update(names)
            made.renamed[:] = [names for names in made.renamed if names not in flushed]
        else:
            made.contents.setdefault(step.what, [b""]).append(step.data)
    return made


def sectors(versions: Sequence[bytes]) -> list[list[bytes]]:
    """Return, for each sector of a file, its possible bytes; a lost one of a longer file reads as NULs."""
    longest = max(map(len, versions))
    offsets = range(0, longest, SECTOR_BYTES)
    cut = [[data[begin : begin + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for data in versions] for begin in offsets]
    return [list(dict.fromkeys(options)) for options in cut]


def states(now: DiskImage, limit: int, draw: Random) -> Iterator[dict[str, bytes]]:
    """Yield each disk that an image allows, as path → bytes; ``limit`` of them at random if there are more."""
    numbers = sorted(now.contents)
    options: list[list[Any]] = [[False, True] for _ in now.renamed]
    spans = [0, len(options)]
    for number in numbers:
        versions = now.contents[number]
        options += [sorted({len(data) for data in versions}), *sectors(versions)]
        spans.append(len(options))
    every: Iterator[tuple[Any, ...]]
    if prod(map(len, options)) <= limit:
        every = product(*options)
    else:
        drawn = (tuple(map(draw.choice, options)) for _ in range(limit - 2))
        every = iter([tuple(some[0] for some in options), *drawn, tuple(some[-1] for some in options)])
    for chosen in every:
        names = dict(now.names)
        for kept, change in zip(chosen, now.renamed, strict=False):
            names.update(change if kept else {})
        files = {
            number: b"".join(chosen[begin + 1 : end])[: chosen[begin]]
            for number, (begin, end) in zip(numbers, pairwise(spans[1:]), strict=True)
        }
        yield {path: files.get(number, b"") for path, number in names.items() if number is not None}


def materialise(state: Mapping[str, bytes], root: Path, folder: Path) -> None:
    """Put a state into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, data in state.items():
        place = folder / Path(path).relative_to(root)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)


def put(log: JsonlLog, name: str) -> None:
    """Append one batch under a key of its own; it is acknowledged when this returns."""
    draft = Draft("point.rated", 1, {"name": name, "rating": "helpful"})
    with log.transaction() as tx:
        tx.append([draft] * LINES, BY, name)


def names(log: JsonlLog) -> list[str]:
    """Return the name in each rating."""
    found = (json.loads(line)["body"].get("name") for batch in log.read() for line in batch.lines)
    return [name for name in found if name is not None]


def read_sealed_ranges(log: JsonlLog) -> list[tuple[int, int]]:
    """Return the ranges that are sealed, as (begin, end) offsets."""
    with log.path.open("rb") as file:
        scan = Scan(file.fileno(), START, log.path.stat().st_size)
        for _ in scan:
            pass
    return scan.sealed_ranges


class StateResult(NamedTuple):
    """The result of one state.

    Attributes:
        read: The names read once it was recovered.
        sealed: The ranges that were sealed, as (begin, end) offsets.
        again: The names read once every batch had been delivered again.
        problems: What a reader, the writer or ``verify`` refused; empty where all is well.
    """

    read: list[str]
    sealed: list[tuple[int, int]]
    again: list[str]
    problems: list[str]


def recover(folder: Path, written: Sequence[str]) -> StateResult:
    """Read a state, append to it, deliver every batch again, and verify it."""
    log = JsonlLog(folder)
    outcome = StateResult([], [], [], [])
    try:
        before = names(log)
        put(log, "after")
        outcome.read.extend(names(log))
        outcome.sealed.extend(read_sealed_ranges(log))
        if outcome.read != [*before, *["after"] * LINES]:
            outcome.problems.append(f"read {before} and then {outcome.read}")
        for name in written:
            put(log, name)
        outcome.again.extend(names(log))
        outcome.problems.extend(map(str, verify(log).problems))
    except TallybookError as error:
        outcome.problems.append(f"{type(error).__name__}: {error}")
    finally:
        log.close()
    return outcome


def count_refused(folder: Path, written: Sequence[str]) -> int:
    """Deliver the missing batches of a state, the newest first, and return how many were refused by mistake."""
    log = JsonlLog(folder)
    try:
        wanted = [name for name in reversed(written) if name not in names(log)]
        for name in wanted:
            put(log, name)
        return len({*wanted} - {*names(log)})
    except TallybookError:
        # Told by recover() too, in words.
        return 1
    finally:
        log.close()


def judge(
    outcome: StateResult, twin: StateResult, acknowledged: Sequence[str], written: Sequence[str]
) -> dict[str, int]:
    """Return the promises that a state broke, by heading."""
    read = outcome.read[::LINES][:-1]
    whole = [name for name in [*read, "after"] for _ in range(LINES)] == outcome.read
    in_order = read == [name for name in written if name in {*read}]
    missing = {*acknowledged} - {*read} if outcome.read else {*acknowledged}
    short = {*written} - {*outcome.again}
    return {
        "acknowledged": len(acknowledged),
        "lost": len(missing | (short if outcome.read else set())),
        "doubled": len(outcome.again) - LINES * len({*outcome.again}),
        "believed": int(bool(outcome.read) and not (whole and in_order)),
        "refused": int(bool(outcome.problems)),
        "unlike": int(outcome[:2] != twin[:2]),
        "sealed": len(outcome.sealed),
    }


def open_ledger_twice(folder: Path) -> Recorder:
    """Create a ledger; a second writer creates it too before the first has flushed, and a third batch follows."""
    with Recorder(folder) as run:
        first, second = JsonlLog(folder), JsonlLog(folder)
        run.meanwhile.append(lambda: _acknowledge(run, second, "b"))
        for name in "ac":
            _acknowledge(run, first, name)
    first.close()
    second.close()
    return run


def seal_lost_sector(folder: Path) -> Recorder:
    """Recover from a batch whose first sector was lost, though the cache has its keys; then continue."""
    log = JsonlLog(folder)
    put(log, "a")
    old = (folder / "head").read_bytes()
    size = log.path.stat().st_size
    put(log, "b")
    put(log, "b")
    log.close()
    with log.path.open("r+b") as file:
        file.seek(size)
        file.write(bytes(100))
    (folder / "head").write_bytes(old)
    materialise({str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}, folder, folder)
    with Recorder(folder) as run:
        run.acknowledged("a")
        for name in "cbd":
            _acknowledge(run, log, name)
    log.close()
    return run


def append_in_between(folder: Path) -> Recorder:
    """Continue a ledger, with a second writer between the first one's write and its flush."""
    log, second = JsonlLog(folder), JsonlLog(folder)
    put(log, "a")
    log.close()
    with Recorder(folder) as run:
        run.acknowledged("a")
        run.meanwhile.append(lambda: _acknowledge(run, second, "c"))
        for name in "bd":
            _acknowledge(run, log, name)
    log.close()
    second.close()
    return run


def append_at_once(folder: Path) -> Recorder:
    """Continue a ledger with eight writers, each of which writes before any has flushed."""
    logs = [JsonlLog(folder) for _ in range(8)]
    put(logs[0], "a")
    logs[0].close()
    with Recorder(folder) as run:
        run.acknowledged("a")
        # Each begins where the one before it is about to flush.
        run.meanwhile += [partial(_acknowledge, run, log, name) for log, name in zip(logs[1:], "cdefghi", strict=True)]
        _acknowledge(run, logs[0], "b")
    for log in logs:
        log.close()
    return run


def _acknowledge(run: Recorder, log: JsonlLog, name: str) -> None:
    put(log, name)
    run.acknowledged(name)


RUNS: dict[str, Callable[[Path], Recorder]] = {
    "opening": open_ledger_twice,
    "appending": append_in_between,
    "sealing": seal_lost_sector,
    "at once": append_at_once,
}
"""Name of a run → what makes and traces it."""


class Broken(NamedTuple):
    """A state that broke a promise, and the step of the run after which the power went."""

    where: str
    counts: dict[str, int]
    outcome: StateResult
    state: Mapping[str, bytes]


def give_cache(root: Path, folder: Path) -> None:
    """Give a state the cache of the run, which may be ahead of the disk."""
    left, place = caches.find_folder(root), caches.find_folder(folder)
    if left is not None and place is not None and Path(left).exists():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(left, place)


def suffer(name: str, limit: int, setting: FaultOptions) -> tuple[int, dict[str, int], list[Broken]]:
    """Trace one run, and recover from up to about ``limit`` of its possible states.

    Returns:
        The number of different states, their results by heading, and those that broke a promise.
    """
    draw = Random(setting.seed)  # noqa: S311 - the same seed is to draw the same states
    folder = setting.folder / "crash-states"
    root, state_folder = folder / name, folder / "state"
    root.mkdir(parents=True)
    run = RUNS[name](root)
    written = list(dict.fromkeys(names(JsonlLog(root))))
    cuts = range(max(run.begun, 1), len(run.steps) + 1)
    counts, broken = dict.fromkeys(HEADINGS, 0), list[Broken]()
    seen: set[tuple[int, frozenset[tuple[str, bytes]]]] = set()
    for cut in cuts:
        now = image(run.steps[:cut])
        for state in states(now, max(limit // len(cuts), 4), draw):
            told = (len(now.acknowledged), frozenset(state.items()))
            if told in seen:
                continue
            seen.add(told)
            outcomes = []
            for _ in range(2):
                materialise(state, root, state_folder)
                give_cache(root, state_folder)
                outcomes.append(recover(state_folder, written))
            materialise(state, root, state_folder)
            give_cache(root, state_folder)
            unwanted = count_refused(state_folder, written)
            came = judge(outcomes[0], outcomes[1], now.acknowledged, written)
            came["lost"] += unwanted
            counts = {heading: counts[heading] + came[heading] for heading in HEADINGS}
            if any(came[heading] for heading in BROKEN):
                broken.append(Broken(f"{name}, step {cut}: {run.steps[cut - 1][:2]}", came, outcomes[0], state))
    return len(seen), counts, broken


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield a tally for each run."""
    for name in RUNS:
        limit = setting.times(USUAL)
        tried, counts, broken = suffer(name, limit, setting)
        failures = tuple(f"{each.where}: {each.counts}, seed {setting.seed}" for each in broken)
        yield FaultCounts("crash states", name, tried, counts, "", failures)
