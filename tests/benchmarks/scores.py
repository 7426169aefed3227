"""Row ``scores``: the cost of a month's scores, with the cache and without, and the memory of the latter."""

from __future__ import annotations

from itertools import count
from math import isnan
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks import measured
from benchmarks.table import NoRivalError, Row, Setting, alternate, faster, medians
from benchmarks.worker import ROOT, once
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAIRS = 5
COLD_PAIRS = 1
BARE = [sys.executable, "-c", "pass"]
MONTHLY = ("score", "--monthly", "--json")
START_UP = ("score", "--config", "--json")
RUN = "from tallybook.projections.surfaces.entry_point import main; main()"
"""The command of this very clone, whichever is installed."""


def _process(command: list[str], before: Callable[[], None] = lambda: None) -> Callable[[], float]:
    """Return a function that runs a command and returns its seconds of process time, start-up included.

    Raises:
        NoRivalError: The system does not report it.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError as error:
        raise NoRivalError("scores: the system does not say how much time a process took") from error
    # As for the hooks: whoever asks has no reason to keep Python from remembering what it compiled.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def run() -> float:
        before()
        begin = spent()
        subprocess.run(command, cwd=ROOT, env=kept, stdout=subprocess.DEVNULL, check=True)
        return spent() - begin

    return run


def _project(setting: Setting, events: int) -> tuple[Project, int]:
    """Return a project with a ledger of about so many events, and its number of sessions."""
    sessions = max(events // measured.LINES, 1)
    project = Project(setting.folder / f"scores-{sessions}")
    once("measured", project.ledger, sessions)
    return project, sessions


def _forget(project: Project) -> None:
    shutil.rmtree(caches.find_folder(project.ledger) or project.ledger / "none", ignore_errors=True)


def rows(setting: Setting) -> Iterator[Row]:
    """Measure a month's scores against start-up and against folding all of it, and the memory of the latter."""
    project, sessions = _project(setting, setting.events)
    command = [sys.executable, "-c", RUN, "--project", str(project.root)]
    warm, started = _process([*command, *MONTHLY]), _process([*command, *START_UP])
    warm()
    what = f"{' '.join(MONTHLY)}, {sessions:,} sessions, {measured.A_DAY:,} a day, process time"
    for rival, against in ((_process(BARE), "python -c pass"), (started, " ".join(START_UP))):
        taken = alternate(warm, rival, setting.pairs(PAIRS))
        yield Row("scores", what, against, faster(taken), *medians(taken), "s")
    numbers = count()
    behind = _process([*command, *MONTHLY], lambda: measured.record_begin(project.ledger, f"new {next(numbers)}"))
    taken = alternate(behind, started, setting.pairs(PAIRS))
    yield Row("scores", "the same behind a new event", " ".join(START_UP), faster(taken), *medians(taken), "s")
    cold = _process([*command, *MONTHLY], lambda: _forget(project))
    taken = alternate(warm, cold, setting.pairs(COLD_PAIRS))
    yield Row("scores", what, "the same without a cache", faster(taken), *medians(taken), "s")
    yield _memory(setting, project, sessions)


def _memory(setting: Setting, project: Project, sessions: int) -> Row:
    """Measure the peak of folding and storing all of it, at the whole and a tenth of the length."""
    shorter, fewer = _project(setting, setting.events // 10)

    def peak(measured: Project) -> float:
        _forget(measured)
        return once("scores", measured.root)["peak_mib"]

    taken = alternate(lambda: peak(project), lambda: peak(shorter), setting.pairs(COLD_PAIRS))
    if any(isnan(figure) for pair in taken for figure in pair):
        raise NoRivalError("scores: the system does not say how much memory a process held")
    ratios = tuple(ours / theirs for ours, theirs in taken)
    what, against = (f"peak memory without a cache, {number:,} sessions" for number in (sessions, fewer))
    return Row("scores", what, against, ratios, *medians(taken), "MiB")
