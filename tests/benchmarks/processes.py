"""Processes that are measured: commands as a user runs them, and jobs in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
import json
import os
from pathlib import Path
import subprocess
import sys
from time import perf_counter

from benchmarks import data
from benchmarks.table import NotMeasuredError
from tallybook.ledger.codec import decode
from tallybook.ledger.line import LOG_NAME
from tallybook.ledger.log import JsonlLog
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.view import PLAYBOOK
from tallybook.projections.surfaces.workspace.project import Project

ROOT = Path(__file__).resolve().parent.parent.parent
STATUS = Path("/proc/self/status")
KIB = 1024


# ---- Commands ----


def find_installed() -> Path:
    """Return the command that is installed with this Python, or raise NotMeasuredError."""
    found = Path(sys.executable).with_name("tallybook")
    if not found.exists():
        raise NotMeasuredError("the command is not installed beside this Python")
    return found


def environment() -> Mapping[str, str]:
    """Return the variables of a user: Python may cache its compiled files."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def whole_process(project: Project, words: tuple[str, ...]) -> Callable[[], float]:
    """Return a function that runs a command in a project and returns its seconds, start-up included."""
    command = [str(find_installed()), "--project", str(project.root), *words]

    def run() -> float:
        begin = perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, env=environment())
        if done.returncode not in {0, 1}:
            raise NotMeasuredError(f"{command}: {done.stderr.decode()}")
        return perf_counter() - begin

    return run


# ---- Jobs ----


def _build(folder: Path, kind: str, events: str) -> int:
    data.build(folder, kind, int(events))
    return 0


def _replay(folder: Path) -> int:
    return fold(PLAYBOOK, decode(JsonlLog(folder).read())).seq


def _json_bytes(folder: Path) -> int:
    loads, number = json.loads, 0
    with (folder / LOG_NAME).open("rb") as file:
        for number, line in enumerate(file, 1):  # noqa: B007 - the number of the last is the answer
            loads(line)
    return number


def _json_text(folder: Path) -> int:
    loads, number = json.loads, 0
    with (folder / LOG_NAME).open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):  # noqa: B007 - as above
            loads(line)
    return number


JOBS: dict[str, Callable[..., int]] = {
    "build": _build,
    "json-bytes": _json_bytes,
    "json-text": _json_text,
    "replay": _replay,
}
"""Name of a job → the function that does it with a ledger's folder, and returns a number of events."""


def run_once(job: str, folder: Path, *words: object) -> dict[str, float]:
    """Do a job once in a fresh process; return its seconds, its events, and its greatest memory in MiB, or NaN."""
    command = [sys.executable, "-m", "tests.benchmarks.processes", job, str(folder), *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, float] = json.loads(done.stdout)
    return told


def _peak_mib() -> float:
    # Not of `resource`: Linux lets a process inherit the peak of the one that started it.
    if not STATUS.exists():
        return float("nan")
    return int(STATUS.read_text(encoding="ascii").partition("VmHWM:")[2].split()[0]) / KIB


def main() -> None:
    """Do the job of the command line."""
    job, folder, *words = sys.argv[1:]
    begin = perf_counter()
    events = JOBS[job](Path(folder), *words)
    print(json.dumps({"seconds": perf_counter() - begin, "events": events, "peak_mib": _peak_mib()}))


if __name__ == "__main__":
    main()
