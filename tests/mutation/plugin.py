"""How pytest runs for a mutant: its own tests first, few examples, and an end to endless loops.

mutmut passes every test that reaches the changed function, in no order: for a function at the bottom that is nearly
all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
import gc
from itertools import accumulate
import json
import os
from pathlib import Path
import re
import signal
import sys
from types import FrameType

from hypothesis import Phase, settings
import pytest

BUDGET_S, BUDGET_TESTS = 10.0, 400
"""The tests, in seconds as measured without a mutant and in number, that one has to survive."""
EXAMPLES = 25
"""Examples of a property that says no number of its own; they are the same in every run."""
CPU_S, CPU_FACTOR = 3.0, 10
"""A test that takes this much processor time, and this many times its own besides, is in an endless loop."""
TIMED_OUT = 36
"""The exit code that mutmut counts as a mutant noticed by its time."""
AT_IMPORT = (
    "tallybook.ledger.fast_stdlib.",
    "tallybook.ledger.scan.x_bytes_of__",
    "tallybook.ledger.sharing.git.x__id_of__",
    "tallybook.ledger.telemetry.mapping.",
    "tallybook.projections.playbook.fold.x_batch_view__",
    "tallybook.projections.playbook.view.x_playbook_view__",
)
"""What runs when its module is imported: for a mutant of these, everything is imported anew."""
TOPICS = re.compile(
    r"(console_lost|git_div|history|import|ledger|library_names|lift_q|projections|reflection_votes|spec|tape"
    r"|sharing_(engines|git|joins|laws|losses|playbook_file|redaction|sessions|upkeep|views)\.|writing_(playbook|record|redaction|secrets|until))"
)
"""The beginnings of the names of the files whose tests reach the mutated modules in this process, most within 0.1 s."""

_ending = pytest.MonkeyPatch()
_durations: dict[str, float] = {}
_order: dict[str, int] = {}


def choose_tests(tests: Iterable[str], module: str, durations: dict[str, float]) -> list[str]:
    """Return the tests for a mutant of a module, the quickest first, within the budget.

    A test in a file named after the module or its folder counts as ten times as quick. The second case of a test
    function counts as twice as slow, and so on, because the cases of one are much alike.

    Args:
        tests: Every test that reaches the changed function, in any order.
        module: Dotted name of the changed module.
        durations: Seconds by test, as measured without a mutant.
    """
    subjects = set(module.split(".")[2:])
    cases: Counter[str] = Counter()
    weights: dict[str, float] = {}
    for test in sorted(tests, key=lambda test: (durations.get(test, 0.0), test)):
        file, _, _ = test.partition(".py::")
        function, _, _ = test.partition("[")
        cases[function] += 1
        factor = 1.0 if subjects.isdisjoint(file.split("_")) else 0.1
        weights[test] = factor * cases[function] * durations.get(test, 0.0)
    order = sorted(weights, key=weights.__getitem__)
    spent = accumulate(durations.get(test, 0.0) for test in order)
    return [test for test, seconds in zip(order, spent, strict=True) if seconds < BUDGET_S][:BUDGET_TESTS]


def _plain(test: str) -> str:
    """Return a test's original name: pytest escapes its backslashes again at each collection."""
    return re.sub(r"\\+", r"\\", test)


def _forget() -> None:
    """Forget the modules imported from the copy, except this package."""
    here = Path.cwd()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).is_relative_to(here) and "mutation" not in name:
            del sys.modules[name]


def _isolate() -> None:
    """Prevent a mutant that forks and confuses the processes from ending others, or from passing every test."""
    # It may kill whoever is in its group: os.kill(0, ...).
    os.setpgid(0, 0)
    pid, leave = os.getpid(), os._exit
    # It may leave in the middle of a test, as its child was to.
    _ending.setattr(os, "_exit", lambda code: leave(1 if code == 0 and os.getpid() == pid else code))


def pytest_unconfigure() -> None:
    """Let mutmut itself exit normally."""
    _ending.undo()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the tests, if this is the run of a mutant."""
    mutant = os.environ.get("MUTANT_UNDER_TEST", "")
    if "__mutmut_" not in mutant:
        return
    _isolate()
    # What the process began with is as it was; pytest collects garbage more than once, and would look at all of it.
    gc.freeze()
    _durations.update(json.loads(Path("mutmut-stats.json").read_bytes())["duration_by_test"])
    early = mutant.startswith(AT_IMPORT)
    # Nobody knows which tests depend on what ran before them all.
    tests = choose_tests(list(_durations) if early else config.args, mutant.rpartition(".")[0], _durations)
    _order.update({_plain(test): place for place, test in enumerate(tests)})
    # By function, since not every parameter can be asked for by its name.
    config.args[:] = dict.fromkeys(test.partition("[")[0] for test in tests)
    if early:
        _forget()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the tests of other topics."""
    name = collection_path.name
    return (name.startswith("test_") and not TOPICS.match(name, len("test_"))) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Set the number of examples before a test module is imported; after conftest.py, which has its own."""
    settings.register_profile(
        "mutation", max_examples=EXAMPLES, phases=(Phase.explicit, Phase.generate), database=None, derandomize=True
    )
    settings.load_profile("mutation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in their order."""
    if _order:
        kept = {_order[name]: item for item in items if (name := _plain(item.nodeid)) in _order}
        items[:] = [item for _, item in sorted(kept.items())]


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    os._exit(TIMED_OUT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a mutant that runs for too long."""
    if not _order:
        return (yield)
    signal.signal(signal.SIGPROF, _give_up)
    signal.setitimer(signal.ITIMER_PROF, CPU_S + CPU_FACTOR * _durations.get(item.nodeid, 0.0))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Count a mutant as noticed if its module cannot be imported."""
    if _order and report.failed:
        os._exit(1)
