"""A state machine over every engine: machines read, append at right and stale ends, and replace, as the model does."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
import tempfile
from typing import NamedTuple, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
import pytest

from helpers.books import make_runs, plain
from helpers.engines import ENGINES, Fixtures
from helpers.memory_store import MemoryStore
from helpers.sweep import slice_of
from tallybook.ledger.line import Position
from tallybook.ledger.sharing.engine import NOTHING, Contents, End, Engine, Run

MACHINES = st.integers(0, 2)
NUMBERS = st.integers(1, 3)
STEPS = 12


class Ends(NamedTuple):
    """The end that a machine knows, which another one may have moved since.

    Attributes:
        real: As the engine said.
        model: As the model said at the same moment.
    """

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
