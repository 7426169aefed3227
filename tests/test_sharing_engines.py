"""The contract of every engine: one suite over all of them, on real servers where an engine has one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.books import make_run, make_runs, plain
from helpers.engines import ENGINES, append, held
from helpers.repository import ROOT
from helpers.sweep import slice_of
from share import stores
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engine import NOTHING, Contents, Place, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tallybook.ledger.sharing.engine import Engine

    Connect = Callable[[], Engine]

PLACE = Place("objects", "s3://bucket/book", "main")


@pytest.fixture(params=sorted(ENGINES))
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return a function that opens one more machine's engine on the same book, which is new and holds nothing."""
    with ENGINES[request.param](request) as open_engine:
        yield open_engine


def test_a_run_that_contains_the_number_is_returned_whole(connect: Connect) -> None:
    """A run is never cut, so a reader within one gets all of it."""
    run, _ = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", "kpt_002", "kpt_003")
    append(connect(), run)
    assert [run] == held(connect(), 2)


def test_a_large_batch_comes_back_whole(connect: Connect) -> None:
    """A run that is larger than the engine's usual pieces is one run for every reader."""
    run, _ = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", text="long text " * 300_000)
    assert len(run.data) > 2 * 1024 * 1024
    append(connect(), run)
    assert [run] == held(connect())


def test_a_book_is_read_in_pieces(connect: Connect) -> None:
    """With a limit a read returns the first runs, where it ended, and whether more follow."""
    runs, position = [], Position(0, NOTHING.chain, 0)
    for _ in range(6):
        run, position = make_run(position, "anna", "kpt_001", text="long text " * 30_000)
        runs.append(run)
    end = append(connect(), *runs)
    engine, found, contents = connect(), list[Run](), Contents((), NOTHING, more=True)
    while contents.more:
        contents = engine.read(contents.end.seq, 400_000, contents.end)
        assert 0 < len(contents.runs) < len(runs)
        found += map(plain, contents.runs)
    assert (runs, end) == (found, contents.end)


def test_after_a_seal_nothing_counts_until_fresh_runs_are_whole(connect: Connect) -> None:
    """A book that moved says where at each read, takes no append, and goes on after fresh runs that end there."""
    anna, ben = connect(), connect()
    first, second, late = make_runs(3)
    end = append(anna, first, second)
    assert anna.seal(end, PLACE) is not None
    assert ben.seal(end, PLACE._replace(address="elsewhere")) is None
    assert ben.append(end, [late]) is None
    contents = ben.read(0, since=end)
    assert (PLACE, end) == (contents.moved, contents.end)
    # A machine of an older version appends after it all the same.
    assert ben.append(contents.after_seal, [late]) is not None
    assert [first, second] == held(anna)
    contents = anna.read(0)
    assert contents.moved is not None
    assert anna.replace(contents.after_seal, [first, second]) is not None
    assert ([first, second], None) == (held(ben), ben.read(0).moved)
    append(ben, late)
    assert [first, second, late] == held(anna)


def test_an_address_that_makes_a_seal_too_long_is_refused(connect: Connect) -> None:
    """A head that readers would not take leaves the engine as it was."""
    with pytest.raises(BadInputError, match="is too long"):
        connect().seal(NOTHING, Place("git", "a" * 1024, "book"))
    assert [] == held(connect())


RACE = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from share import stores
print(stores.race(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are forks")
@pytest.mark.parametrize("name", stores.NAMES)
def test_of_processes_that_race_one_gets_each_number(name: str, tmp_path: Path) -> None:
    """`python -m tests.share race` lets eight processes race for 200 numbers on each engine."""
    tmp_path.chmod(0o755)
    sizes = map(str, (slice_of(stores.PROCESSES, 4), slice_of(stores.NUMBERS, 5)))
    # In a new process: a fork of this one would lack the threads of a client library that other tests have loaded.
    words = [sys.executable, "-c", RACE, str(ROOT / "tests"), name, str(tmp_path), *sizes]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert ("[]\n", 0) == (done.stdout, done.returncode), done.stderr
