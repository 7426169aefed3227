"""Row ``sparse``: a log followed by a hole of many gigabytes, read, verified and sealed in little memory."""

from __future__ import annotations

from functools import partial
import os
from pathlib import Path
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from faults import Setting, Tally
from faults.crash_states import LINES, names, put
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
GIB = 1024**3
HOLE_BYTES = 10 * GIB
MAX_KIB = 128 * 1024
VERBS = ("read", "verify", "append")
READER = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.verification import verify
log = JsonlLog(Path(sys.argv[2]))
try:
    if sys.argv[3] == "verify":
        found = verify(log)
        print(len(found.problems) + len(found.notes), end=" ")
    elif sys.argv[3] == "read":
        print(sum(1 for _ in log.read()), end=" ")
    else:
        with log.transaction():
            print("entered", end=" ")
except TallybookError as error:
    print(type(error).__name__, end=" ")
# Not ru_maxrss where it can be helped: Linux lets a process inherit the peak of the one that started it.
status = Path("/proc/self/status")
peak = status.read_text().partition("VmHWM:")[2].split() if status.exists() else []
print(peak[0] if peak else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


class Read(NamedTuple):
    """The result of a verb.

    Attributes:
        peak_kib: The process's peak of memory.
        names: The names in the ledger afterwards, and after another append.
        problems: The problems, in words.
    """

    peak_kib: int
    names: list[str]
    problems: list[str]


def suffer(verb: str, hole_bytes: int, folder: Path) -> Read:
    """Read, verify or append to such a log in a process of its own, and check the log then."""
    log = JsonlLog(folder)
    put(log, "a")
    log.close()
    os.truncate(log.path, log.path.stat().st_size + hole_bytes)
    command = [sys.executable, "-B", "-c", READER, str(ROOT), str(folder), verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False, process_group=0)
    problems = [done.stderr] if done.stderr or done.returncode else []
    peak = 0 if problems else int(done.stdout.split()[-1])
    problems += [f"{peak:,} KiB of memory"] if peak > MAX_KIB else []
    expected = ["a"] * LINES
    if verb == VERBS[-1]:
        put(log, "b")
        expected += ["b"] * LINES
        problems += map(str, verify(log).problems)
    found = names(log)
    log.close()
    return Read(peak, found, problems + ([] if found == expected else [f"{found} for {expected}"]))


def rows(setting: Setting) -> Iterator[Tally]:
    """Yield one tally; a count is the hole's gigabytes."""
    holes = setting.times(HOLE_BYTES // GIB)
    made = partial(suffer, hole_bytes=holes * GIB)
    reads = [made(verb, folder=setting.folder / "sparse" / verb) for verb in setting.until_stopped(VERBS)]
    counts = {
        "acknowledged": len(reads),
        "lost": sum("a" not in read.names for read in reads),
        "doubled": sum(read.names.count("a") > LINES for read in reads),
        "believed": sum(bool({*read.names} - {"a", "b"}) for read in reads),
        "peak, KiB": max((read.peak_kib for read in reads), default=0),
    }
    failures = tuple(problem for read in reads for problem in read.problems)
    yield Tally("sparse", f"a hole of {holes} GiB", len(reads), counts, "", failures)
