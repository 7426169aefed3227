"""Row ``share-git``: a book in a branch of a git remote against git alone and the same bytes."""

from __future__ import annotations

from itertools import count
import os
from pathlib import Path
import shutil
import subprocess
import tempfile
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks import data
from benchmarks.table import Row, Setting, alternate, faster, medians
from helpers.engines import git_engine
from tallybook.ledger.line import START
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.engine import NOTHING, RUN_BYTES, Engine
from tallybook.ledger.sharing.replica import Replica
from tallybook.projections.surfaces.sharing.syncing import Machine, sync

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.ledger.sharing.engine import End, Run

MAX_EVENTS = 100_000
PAIRS = 5
QUIET_PAIRS = 15
WHO = {f"GIT_{who}_{field}": "me@here" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}


def _git(folder: Path, *words: str) -> None:
    """Run git in a repository."""
    command = ["git", "-C", str(folder), *words]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **WHO})


def _pieces(runs: Sequence[Run]) -> list[list[Run]]:
    """Return runs as a sync appends them: about so many bytes at once as the engine takes well."""
    pieces: list[list[Run]] = [[]]
    for run in runs:
        if pieces[-1] and sum(len(piece.data) for piece in pieces[-1]) + len(run.data) > RUN_BYTES:
            pieces.append([])
        pieces[-1].append(run)
    return pieces


class _Contest:
    """Both sides on bare repositories of one folder: the engine, and git as a person uses it."""

    def __init__(self, ledger: Path, runs: Sequence[Run], folder: Path) -> None:
        self._ledger = ledger
        self._pieces = _pieces(runs)
        self._last = runs[-1]
        self._folder = folder
        self._numbers = count()
        self._remote = self._bare = folder

    def _new(self) -> Path:
        return self._folder / str(next(self._numbers))

    def _new_remote(self) -> Path:
        remote = self._new()
        subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
        return remote

    def _engine(self, folder: Path) -> Engine:
        return git_engine(str(self._remote), "main", str(folder), limit_s=600)

    def publish(self) -> float:
        """Return how long the engine takes to append all pieces, one after the other, to a new book."""
        self._remote = self._new_remote()
        engine = self._engine(self._new())
        end = engine.read(0).end
        start = perf_counter()
        for piece in self._pieces:
            end = engine.append(end, piece) or NOTHING
            assert end is not NOTHING
        return perf_counter() - start

    def sync(self) -> float:
        """Return the processor time of a sync that publishes all of an own ledger."""
        self._remote, own = self._new_remote(), self._new()
        shutil.copytree(self._ledger, own)
        start = sum(os.times()[:4])
        result = sync(Machine(str(own), "anna-0a1b2c3d", "", "main", limit_s=600), self._engine(self._new()))
        assert (True, 0) == (result.published > 0, result.pending)
        return sum(os.times()[:4]) - start

    def send(self) -> float:
        """Return the processor time of the engine for the same events, a run at a time."""
        start = sum(os.times()[:4])
        self.publish()
        return sum(os.times()[:4]) - start

    def publish_bare(self) -> float:
        """Return how long git takes to add, commit and push the same pieces, a file for each run."""
        self._bare, clone = self._new_remote(), self._new()
        subprocess.run(["git", "clone", "--quiet", self._bare, clone], check=True, capture_output=True)
        start = perf_counter()
        for piece in self._pieces:
            for run in piece:
                (clone / f"{run.first:09}.jsonl").write_bytes(run.data)
            _git(clone, "add", ".")
            _git(clone, "commit", "--quiet", "--message", "x")
            _git(clone, "push", "--quiet", "origin", "HEAD:main")
        return perf_counter() - start

    def catch_up(self) -> float:
        """Return how long a new machine takes to fetch and verify the book, its ids too, and to flush its replica."""
        place = self._new()
        place.mkdir()
        replica = Replica(place, "1")
        start = perf_counter()
        counted = book.count(self._engine(self._new()).read(0).runs, START, set())
        replica.append(counted.batches, counted.data)
        taken = perf_counter() - start
        assert counted.batches[-1].chain == self._last.after
        return taken

    def catch_up_bare(self) -> float:
        """Return how long git takes to clone the last commit of the branch."""
        start = perf_counter()
        _git(self._folder, "clone", "--quiet", "--depth=1", "--branch=main", f"file://{self._bare}", str(self._new()))
        return perf_counter() - start

    def look(self, engine: Engine, end: End) -> float:
        """Return how long a read with nothing new takes, from where the last one ended."""
        start = perf_counter()
        assert not engine.read(end.seq, since=end).runs
        return perf_counter() - start

    def look_bare(self) -> float:
        """Return how long git takes to ask for the branch."""
        start = perf_counter()
        _git(self._folder, "ls-remote", "--quiet", str(self._bare), "refs/heads/main")
        return perf_counter() - start

    def known(self) -> tuple[Engine, End]:
        """Return the engine of a machine that has the book, and where its read ended."""
        engine = self._engine(self._new())
        return engine, engine.read(0).end


def rows(setting: Setting) -> Iterator[Row]:
    """Measure publishing, catching up, and a read with nothing new."""
    events = min(setting.events, MAX_EVENTS)
    data.build(setting.folder / f"shared-{events}", "alike", events)
    runs = data.runs_of(setting.folder / f"shared-{events}")
    with tempfile.TemporaryDirectory(dir=setting.folder) as folder:
        contest = _Contest(setting.folder / f"shared-{events}", runs, Path(folder))
        size = f"{runs[-1].last:,} events in {len(runs):,} runs"
        taken = alternate(contest.publish, contest.publish_bare, setting.pairs(PAIRS))
        against = "git add, commit and push of the same bytes"
        yield Row("share-git", f"publishing {size}, 2 MiB at a time", against, faster(taken), *medians(taken), "s")
        taken = alternate(contest.sync, contest.send, setting.pairs(PAIRS))
        what = f"a sync that publishes {runs[-1].last:,} events: landed, sent and flushed, processor time"
        yield Row("share-git", what, "the engine, sending their runs", faster(taken), *medians(taken), "s")
        # Either side of the last pair may have run last, and a sync makes another book of the same events.
        contest.publish()
        taken = alternate(contest.catch_up, contest.catch_up_bare, setting.pairs(PAIRS))
        what = f"catching up on {size}: chain and ids verified, replica flushed"
        yield Row("share-git", what, "git clone of the same bytes, one commit", faster(taken), *medians(taken), "s")
        engine, end = contest.known()
        taken = alternate(lambda: contest.look(engine, end), contest.look_bare, setting.pairs(QUIET_PAIRS))
        times = medians(taken, 1000)
        yield Row("share-git", "a read with nothing new", "git ls-remote of the branch", faster(taken), *times, "ms")
