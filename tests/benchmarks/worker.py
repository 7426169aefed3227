"""Measurements in a process of its own: fresh memory, clean caches, or several at once.

A worker prepares, prints that it is ready, and does its job once for every line on its input.
"""

from __future__ import annotations

import json
from pathlib import Path
import subprocess
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Self

from benchmarks import data, measured, rivals
from tallybook.ledger.codec import decode
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.log import JsonlLog
from tallybook.projections.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.scores.configuration import state_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Answer = Mapping[str, float]
    Job = Callable[[], Answer]

ROOT = Path(__file__).resolve().parent.parent.parent
STATUS = Path("/proc/self/status")
READY = "ready"
KIB = 1024


def _resident_mib(whose: str) -> float:
    """Return the greatest resident memory, in MiB; NaN if the system does not report it.

    Args:
        whose: ``RUSAGE_SELF``, or ``RUSAGE_CHILDREN`` for the largest of the children waited for, 0 without one.
    """
    try:
        import resource  # noqa: PLC0415 - not on Windows
    except ImportError:
        return float("nan")
    most = resource.getrusage(getattr(resource, whose)).ru_maxrss
    return most / KIB / KIB if sys.platform == "darwin" else most / KIB


def peak_mib() -> float:
    """Return the greatest memory of this process, in MiB; NaN if the system does not report it."""
    # Not ru_maxrss where it can be helped: Linux lets a process inherit the peak of the one that started it.
    if STATUS.exists():
        return int(STATUS.read_text(encoding="ascii").partition("VmHWM:")[2].split()[0]) / KIB
    return _resident_mib("RUSAGE_SELF")


def _timed(job: Callable[[], int]) -> Job:
    """Return a job that returns its seconds, its number of events, and the peaks of memory.

    The peaks are its own and that of its second process, which shares most of its pages with it.
    """

    def run() -> Answer:
        begin = perf_counter()
        events = job()
        taken = perf_counter() - begin
        return {
            "seconds": taken,
            "events": events,
            "peak_mib": peak_mib(),
            "second_mib": _resident_mib("RUSAGE_CHILDREN"),
        }

    return run


def _build(folder: str, kind: str, events: str) -> Job:
    def build() -> int:
        data.build(Path(folder), kind, int(events))
        return 0

    return _timed(build)


def _replay(folder: str) -> Job:
    return _timed(lambda: fold(PLAYBOOK, decode(JsonlLog(Path(folder)).read())).seq)


def _replay_form(folder: str) -> Job:
    return _timed(lambda: fold(PLAYBOOK, decode(JsonlLog(Path(folder)).read(verify=False))).seq)


def _measured(folder: str, sessions: str) -> Job:
    def build() -> int:
        measured.build(Path(folder), int(sessions))
        return 0

    return _timed(build)


def _scores(root: str) -> Job:
    project = Project(Path(root))
    return _timed(lambda: state_of(project).seq)


def _json_bytes(folder: str) -> Job:
    def load() -> int:
        loads, number = json.loads, 0
        with (Path(folder) / LOG_NAME).open("rb") as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - the number of the last is the answer
                loads(line)
        return number

    return _timed(load)


def _json_text(folder: str) -> Job:
    def load() -> int:
        loads, number = json.loads, 0
        with (Path(folder) / LOG_NAME).open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - as above
                loads(line)
        return number

    return _timed(load)


def _eventsourcing(database: str, events: str) -> Job:
    return _timed(rivals.prepare(database, int(events)))


JOBS: dict[str, Callable[..., Job]] = {
    "build": _build,
    "eventsourcing": _eventsourcing,
    "json-bytes": _json_bytes,
    "json-text": _json_text,
    "measured": _measured,
    "replay": _replay,
    "replay-form": _replay_form,
    "scores": _scores,
}
"""Name of a job → what prepares it from its arguments."""


class Worker:
    """A process that has prepared a job and waits for a line."""

    def __init__(self, job: str, *words: object) -> None:
        """Start it."""
        command = [sys.executable, "-m", "tests.benchmarks.worker", job, *map(str, words)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it and wait for it."""
        self._process.communicate()

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise ChildProcessError(f"the worker ended with {self._process.wait()}")
        return line

    def ready(self) -> None:
        """Wait until it has prepared its job."""
        self._line()

    def go(self) -> None:
        """Start its job once."""
        if self._process.stdin is not None:
            self._process.stdin.write("go\n")

    def answer(self) -> dict[str, float]:
        """Wait for its result."""
        told: dict[str, float] = json.loads(self._line())
        return told


def once(job: str, *words: object) -> dict[str, float]:
    """Do a job once in a fresh process."""
    with Worker(job, *words) as worker:
        worker.ready()
        worker.go()
        return worker.answer()


def main() -> None:
    """Prepare the job of the command line, and do it once for every line read."""
    job = JOBS[sys.argv[1]](*sys.argv[2:])
    print(READY, flush=True)
    for _ in sys.stdin:
        print(json.dumps(job()), flush=True)


if __name__ == "__main__":
    main()
