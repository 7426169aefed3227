"""The contract of every engine: one suite over all of them, on real servers where an engine has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
import socket
import subprocess
import sys
import tempfile
from typing import Any, NamedTuple, cast

import attrs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
import pytest

from helpers.commands import ROOT
from helpers.commands import Run as RunCommand
from helpers.engines import ENGINES, Fixtures, append, read_runs
from helpers.memory_store import AT, MemoryStore, make_run, make_runs, plain
from helpers.sweep import slice_of
from share import stores
from tallybook.ledger import clock, events
from tallybook.ledger.codec import UPCASTS, encode
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import BookOpened, BookRules, Event
from tallybook.ledger.line import START, Position, RawBatch, Stamp, frame
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.book import count, cut_runs
from tallybook.ledger.sharing.engine import NOTHING, BookLocation, Contents, End, Engine, Run, UnreachableError
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import Membership, install_command

Connect = Callable[[], Engine]

PLACE = BookLocation("objects", "s3://bucket/book", "main")


@pytest.fixture(params=sorted(ENGINES))
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return a function that opens one more machine's engine on the same book, which is new and holds nothing."""
    with ENGINES[request.param](request) as open_engine:
        yield open_engine


def test_a_run_that_contains_the_number_is_returned_whole(connect: Connect) -> None:
    """A run is never cut, so a reader within one gets all of it."""
    run, _ = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", "kpt_002", "kpt_003")
    append(connect(), run)
    assert [run] == read_runs(connect(), 2)


def test_a_large_batch_comes_back_whole(connect: Connect) -> None:
    """A run that is larger than the engine's usual pieces is one run for every reader."""
    run, _ = make_run(Position(0, NOTHING.chain, 0), "anna", "kpt_001", text="long text " * 300_000)
    assert len(run.data) > 2 * 1024 * 1024
    append(connect(), run)
    assert [run] == read_runs(connect())


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
    assert [first, second] == read_runs(anna)
    contents = anna.read(0)
    assert contents.moved is not None
    assert anna.replace(contents.after_seal, [first, second]) is not None
    assert ([first, second], None) == (read_runs(ben), ben.read(0).moved)
    append(ben, late)
    assert [first, second, late] == read_runs(anna)


def test_an_address_that_makes_a_seal_too_long_is_refused(connect: Connect) -> None:
    """A head that readers would not take leaves the engine as it was."""
    with pytest.raises(BadInputError, match="is too long"):
        connect().seal(NOTHING, BookLocation("git", "a" * 1024, "book"))
    assert [] == read_runs(connect())


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
    if "Skipped: " in done.stderr:
        pytest.skip(done.stderr.rpartition("Skipped: ")[2].strip())
    assert ("[]\n", 0) == (done.stdout, done.returncode), done.stderr


# A state machine over every engine: machines read, append at right and stale ends, and replace, as the model does.


MACHINES = st.integers(0, 2)
NUMBERS = st.integers(1, 3)
STEPS = 12


class Ends(NamedTuple):
    """The end that a machine knows, which another one may have moved since, and that of the model then."""

    real: End
    model: End


def comparable(contents: Contents) -> tuple[list[Run], int, str]:
    """Return what two engines must agree on: all but places and tokens."""
    return [plain(run) for run in contents.runs], contents.end.seq, contents.end.chain


class Machines(RuleBasedStateMachine):
    """Three machines on one book in an engine, and the same three on the model."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        """Open a new book of an engine, and a new model."""
        super().__init__()
        self.stack = ExitStack()
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.connect = Fixtures(self.stack, folder, request).open_book(name)
        self.engines: list[Engine] = [self.connect() for _ in range(3)]
        self.model = Engine(MemoryStore())
        self.ends = [Ends(NOTHING, NOTHING)] * 3
        self.made = 0

    def teardown(self) -> None:
        """Compare what every machine reads in the end, and close the book."""
        try:
            for engine in self.engines:
                assert comparable(self.model.read(0)) == comparable(engine.read(0))
        finally:
            self.stack.close()

    def make(self, number: int, end: End) -> list[Run]:
        """Return runs after an end, unlike any other."""
        self.made += 1
        return make_runs(number, f"maker{self.made}", Position(end.seq, end.chain, 0))

    def learn(self, machine: int, real: End | None, model: End | None) -> None:
        """Compare the answers to a write, and let a machine that wrote know the new end."""
        assert (model is None) == (real is None)
        if model is not None and real is not None:
            assert model[:2] == real[:2]
            self.ends[machine] = Ends(real, model)

    @rule(machine=MACHINES, after=st.integers(0, 12))
    def read(self, machine: int, after: int) -> None:
        """Read after any event number; the machine then knows the end."""
        real, model = self.engines[machine].read(after), self.model.read(after)
        assert comparable(model) == comparable(real)
        self.ends[machine] = Ends(real.end, model.end)

    @rule(machine=MACHINES, after=st.integers(0, 12))
    def read_a_piece(self, machine: int, after: int) -> None:
        """Read piece after piece from any event number, each from where the one before ended."""
        found, since, more = list[Run](), NOTHING, True
        while more:
            some = self.engines[machine].read(after, 1, since)
            found += map(plain, some.runs)
            since, more = some.end._replace(seq=min(after, some.end.seq)), some.more
        # A piece cannot know that fresh runs follow, which take the place of its own.
        whole = comparable(self.model.read(after))[0]
        known = [run for run in found if run in whole]
        assert whole == known[len(known) - len(whole) :]

    @rule(machine=MACHINES, number=NUMBERS)
    def append(self, machine: int, number: int) -> None:
        """Append at the end that the machine knows, right or stale."""
        ends = self.ends[machine]
        runs = self.make(number, ends.model)
        self.learn(machine, self.engines[machine].append(ends.real, runs), self.model.append(ends.model, runs))

    @rule(machine=MACHINES, number=NUMBERS)
    def read_and_append(self, machine: int, number: int) -> None:
        """Append at the present end, which must be done."""
        self.read(machine, self.ends[machine].model.seq)
        self.append(machine, number)
        assert self.model.read(0).end == self.ends[machine].model

    @rule(machine=MACHINES, number=NUMBERS)
    def replace(self, machine: int, number: int) -> None:
        """Replace everything, if the end that the machine knows is still the end."""
        ends = self.ends[machine]
        runs = self.make(number, NOTHING)
        self.learn(machine, self.engines[machine].replace(ends.real, runs), self.model.replace(ends.model, runs))

    @rule(machine=MACHINES)
    def shorten(self, machine: int) -> None:
        """Replace everything by its own beginning, so that an end which was there before comes back."""
        self.read(machine, 0)
        if runs := [plain(run) for run in self.model.read(0).runs][:1]:
            ends = self.ends[machine]
            self.learn(machine, self.engines[machine].replace(ends.real, runs), self.model.replace(ends.model, runs))

    @rule(machine=MACHINES)
    def restart(self, machine: int) -> None:
        """End a machine's process; the next one knows what the replica holds."""
        self.engines[machine].close()
        self.engines[machine] = self.connect()
        self.read(machine, self.ends[machine].model.seq)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_every_engine_does_what_the_model_does(name: str, request: pytest.FixtureRequest) -> None:
    """Whatever machines do in whatever order, an engine answers and holds what the engine in memory does."""
    # Called without arguments, as a class is.
    machines = cast("type[RuleBasedStateMachine]", partial(Machines, name, request))
    run_state_machine_as_test(
        machines,
        settings=settings(
            max_examples=slice_of(200, 5),
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


# What counts of an engine's runs goes into the copy of the book byte for byte, and nothing else does.


def _batch(event: Event, after: Position, id_: str) -> RawBatch:
    return frame([encode(event)], Stamp(after, AT, {"rater": "test"}, lambda: id_, lambda: "salt"))


OPENED = _batch(BookOpened("book", "demo", 1, 1), START, "opened")
RUNS = [*cut_runs([OPENED], START, 1), *make_runs(4, after=OPENED.position)]


@pytest.mark.parametrize(("number", "known", "counts"), [(2, 1, 1), (2, 2, 3), (3, 2, 1), (1, 2, 1)])
def test_only_the_next_rules_can_follow(number: int, known: int, counts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that does not know the next rules takes in up to there; other numbers are skipped by every program."""
    monkeypatch.setattr(book, "NEWEST", known)
    changed = _batch(BookRules(number), OPENED.position, "changed")
    later = make_run(changed.position, "anna", "kpt_001")[0]
    counted = count([RUNS[0], *cut_runs([changed], OPENED.position, 1), later], START, set())
    is_unknown = (number, known) == (2, 1)
    assert (counts, is_unknown) == (len(counted.batches), counted.newer is not None)
    assert (0 if is_unknown or counts > 1 else 2) == len(counted.skipped)


def test_rules_change_only_where_a_run_begins() -> None:
    """Else a program that knows the next rules could skip what one that does not has taken in; fresh runs keep that."""
    changed = _batch(BookRules(2), OPENED.position, "changed")
    batches = [OPENED, changed]
    together = Run(1, changed.last, START.chain, changed.chain, b"".join(batch.raw for batch in batches))
    counted = count([together], START, set())
    assert ([], None, 1) == (counted.batches, counted.newer, len(counted.skipped))
    runs = cut_runs(batches, START, 1_000_000)
    assert [1, 2] == [run.first for run in runs]
    assert 1 == len(count(runs, START, set()).batches)


def test_runs_whose_bytes_end_elsewhere_do_not_count() -> None:
    """Two runs that prove themselves only together are skipped, as by a reader who meets them one after the other."""
    first, second, third = RUNS[1:4]
    moved = [first._replace(data=first.data + second.data), second._replace(data=b""), third]
    counted = count(moved, OPENED.position, {"opened"}, 1)
    assert ([], 3) == (counted.batches, len(counted.skipped))


# The table of a book's rules: what fits it is the same for every program that knows these rules, for ever.


BOUNDS = {
    None: "",
    events.check_count: "from 0",
    events.check_exact: "exact",
    events.NAMES: "texts",
    events.check_day: "a day",
    events.check_json_object: "a JSON object",
}


def _field_row(field: attrs.Attribute[Any]) -> str:
    bound = getattr(field.validator, "options", None) or BOUNDS[field.validator]
    type_ = getattr(field.type, "__name__", field.type) if isinstance(field.type, type) else field.type
    return f"{field.name}: {type_}{', free text' if field.metadata else ''} {bound}".rstrip()


def test_the_table_of_rules_1_is_frozen() -> None:
    """A program that reads another table parts from the others: a new kind, version or bound needs new rules."""
    rows = [f"numbers up to {book.MAX_NUMBER}, blocks of {book.BLOCK}, nested {book.MAX_DEPTH} deep"]
    for kind, version in sorted(book.KINDS.items()):
        cls = attrs.resolve_types(events.EVENT_TYPES[kind][0])
        rows += [f"{kind} {version}", *(f"    {_field_row(field)}" for field in attrs.fields(cls))]
        rows += [f"    also version {old}" for lifted, old in UPCASTS if lifted == kind]
    rows += [f"own ledgers: {kind}" for kind in sorted(book.OWN_KINDS)]
    assert (ROOT / "tests/data/book_rules.txt").read_text(encoding="utf-8").splitlines() == rows


# Opening an engine: a missing client library is named with its command, and no answer is waited for too long.


ADDRESSES = {"objects": "file:///nowhere", "postgres": "postgresql://127.0.0.1:9/tally"}
MOST_S = 8.0


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("engine", sorted(ADDRESSES))
def test_a_missing_library_is_named_with_its_command(
    run: RunCommand, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The command adds the library to this installation; no package of Tallybook's name is fetched from an index."""
    package = membership.LIBRARIES[engine]
    monkeypatch.setitem(sys.modules, package.partition("[")[0], None)
    monkeypatch.delitem(sys.modules, f"tallybook.ledger.sharing.{engine}", raising=False)
    answer = run("share", engine, ADDRESSES[engine], "--book", "demo", "--yes")
    assert (2, 1) == (answer.code, answer.err.count("\n"))
    assert f"needs the package {package}; run: {install_command(package)}\n" in answer.err
    assert "tallybook[" not in answer.err


@pytest.mark.parametrize("engine", sorted(membership.ENGINES))
def test_a_server_that_says_nothing_is_given_up_at_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    """An engine that accepts a connection and never answers is unreachable soon after the limit of a sync."""
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "caches"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anna")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        addresses = {
            "git": f"https://{place}/x.git",
            "objects": f"s3://x?endpoint=http://{place}",
            "postgres": f"postgresql://{place}/x",
        }
        part = Membership("main", engine, addresses[engine], "anna-1")
        start = clock.elapsed_s()
        opened = membership.open_engine(part, tmp_path, limit_s=2)
        with closing(opened), pytest.raises(UnreachableError):
            opened.read(0)
    assert clock.elapsed_s() - start < MOST_S
