"""What goes wrong in a sync: it is killed at any step, another machine is quicker, the engine loses what it had."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
import random
from typing import Any

from helpers.memory_store import FaultyStore, MemoryStore, plain
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp, frame
from tallybook.ledger.log import Transaction
from tallybook.ledger.scan import choose_digest, verify_run
from tallybook.ledger.sharing import replica as replicas
from tallybook.ledger.sharing.book import count
from tallybook.ledger.sharing.engine import NOTHING, Contents, End, Engine, EngineError, Run
from tallybook.ledger.sharing.replica import Replica, find_ids
from tallybook.ledger.storage import disk


class CrashError(Exception):
    """The process was killed here."""


class ShakyEngine(Engine):
    """An engine that has troubles, of a store in memory or a real one.

    Attributes:
        inner_store: What it holds its runs in, without the faults.
        before_append: What another machine does before the next append.
        faults: Lets the next put go wrong.
        refusal: What the next append raises; None for nothing.
    """

    def __init__(self, draw: random.Random, engine: Engine | None = None) -> None:
        """Begin with runs of a few batches, on an engine that holds nothing; None for one in memory."""
        self.draw = draw
        self.inner_store = MemoryStore() if engine is None else engine.store
        self.memory = self.inner_store if isinstance(self.inner_store, MemoryStore) else None
        self.faults = FaultyStore(self.inner_store)
        super().__init__(self.faults, draw.choice((600, 4_000, 2_000_000)))
        self.before_append: Callable[[], None] | None = None
        self.refusal: EngineError | None = None

    @property
    def runs(self) -> list[Run]:
        """Return what it holds."""
        return [plain(run) for run in super().read(0).runs]

    @property
    def batches(self) -> list[RawBatch]:
        """Return what it holds and counts."""
        return count(self.runs, START, set()).batches

    def put(self, runs: list[Run]) -> None:
        """Let somebody with the right to replace everything put this there."""
        # What a machine stores late comes after it.
        engine = Engine(self.inner_store, self.run_bytes)
        if self.memory is not None:
            self.memory.runs.clear()
            assert engine.append(NOTHING, runs) is not None
        elif runs:
            assert engine.replace(engine.read(0).end, runs) is not None

    def calm(self) -> None:
        """End all troubles."""
        self.before_append = self.refusal = None
        self.faults.fault = ""

    def read(self, after: int, limit: int | None = None, since: End = NOTHING) -> Contents:
        """Read, at one of the steps at which a sync can be killed, and not all at once where a sync asks for pieces."""
        step("engine.read")
        return super().read(after, None if limit is None else self.draw.choice((1, 2_000, limit)), since)

    def append(self, expected: End, runs: Sequence[Run]) -> End | None:
        """Append, with what was planned to go wrong."""
        step("engine.append, before")
        if self.before_append is not None:
            quicker, self.before_append = self.before_append, None
            with let_act():
                quicker()
        if self.refusal is not None:
            raise self.refusal
        end = super().append(expected, runs)
        step("engine.append, after")
        return end

    def lose(self) -> None:
        """Lose the end, or everything."""
        if runs := self.runs:
            self.put(runs[: self.draw.choice((0, self.draw.randrange(len(runs))))])

    def disturb(self) -> None:
        """Get a run that does not count: of another history, or with ids that are there already."""
        runs = self.runs
        # A real one refuses some of them itself.
        if not runs or self.memory is None:
            return
        last = runs[-1]
        end = Position(last.last, last.after, 0)
        ids = iter([f"foreign-{self.draw.getrandbits(60):x}"])
        if self.draw.random() < 0.5:
            end = Position(last.last, f"{self.draw.getrandbits(128):032x}", 0)
        else:
            before = Position(last.first - 1, last.before, 0)
            batches = verify_run(last.data, before, (), choose_digest(len(last.data)))
            if not batches:
                return
            ids = iter(find_ids(batches[0].data))
        draft = Draft("point.rated", 1, {"name": "kpt_001", "rating": "harmful"})
        stamp = Stamp(end, "2026-11-23T12:00:00.000000Z", {"rater": "test"}, lambda: next(ids), lambda: "salt")
        batch = frame([draft], stamp)
        self.put([*runs, Run(batch.first, batch.last, end.chain, batch.chain, batch.raw)])


# ---- Killing ----

_left: list[int] = []


def step(name: str) -> None:
    """Be one of the steps at which a sync can be killed, which is a CrashError."""
    if _left:
        _left[-1] -= 1
        if not _left[-1]:
            raise CrashError(name)


@contextmanager
def let_act() -> Iterator[None]:
    """Let another machine act meanwhile that is not killed."""
    saved = _left[:]
    _left.clear()
    try:
        yield
    finally:
        _left[:] = saved


def _make_killed(name: str, action: Callable[..., Any]) -> Callable[..., Any]:
    """Return an action with a step before it and one after it."""

    def killed(*words: Any, **more: Any) -> Any:
        step(f"{name}, before")
        done = action(*words, **more)
        step(f"{name}, after")
        return done

    return killed


@contextmanager
def crash_at_step(number: int, draw: random.Random) -> Iterator[None]:
    """Kill what is done in it at its n-th step."""
    _left.append(number)
    torn = draw.random() < 0.5
    append, exit_ = Replica.append, Transaction.__exit__

    def torn_append(self: Replica, batches: Sequence[RawBatch]) -> None:
        try:
            step("replica.append, before")
        except CrashError:
            path = Path(self.log.log_file)
            if torn and path.exists():
                whole = b"".join(batch.raw for batch in batches)
                path.write_bytes(path.read_bytes() + whole[: draw.randrange(len(whole))])
            raise
        append(self, batches)
        step("replica.append, after")

    def killed_exit(self: Transaction, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                step("own append, before")
            except CrashError as crash:
                exit_(self, CrashError, crash, None)
                raise
        exit_(self, kind, error, trace)
        step("own append, after")

    patches: list[tuple[Any, str, Any]] = [
        (Replica, "append", torn_append),
        (replicas, "write_current", _make_killed("write_current", replicas.write_current)),
        (Transaction, "__exit__", killed_exit),
        (disk, "replace_file", _make_killed("replace_file", disk.replace_file)),
    ]
    originals = [getattr(owner, name) for owner, name, _ in patches]
    for owner, name, patch in patches:
        setattr(owner, name, patch)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(patches, originals, strict=True):
            setattr(owner, name, original)
        _left.clear()
