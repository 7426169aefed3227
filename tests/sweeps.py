"""Long sweeps: all cases of which `sh .ci/test` tries a slice, in one command.

python -m tests.sweeps [NAME ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
import os
from pathlib import Path
import subprocess
import sys
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SWEEPS: Final = {
    "tests": ("pytest", "--numprocesses", "auto"),
    "faults": ("tests.faults",),
    "mutation": ("tests.mutation",),
    "benchmarks": ("tests.benchmarks",),
    "laws": ("tests.sharing_laws",),
    "lift": ("tests.lift_simulation",),
}
"""Name → the module to run, and its arguments; `tests` are the tests with every case of theirs."""


def main(words: Sequence[str]) -> int:
    """Run the named sweeps one after the other, and return how many of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sweeps", description="Run the long sweeps.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(SWEEPS)}; all if none is named")
    names = parser.parse_args(words).names or list(SWEEPS)
    if unknown := [name for name in names if name not in SWEEPS]:
        parser.error(f"no such sweep: {', '.join(unknown)}")
    # helpers/sweep.py reads the variable.
    environment = os.environ | {"TALLYBOOK_SWEEP": "1"}
    failed = 0
    for name in names:
        sys.stderr.write(f"sweep: {name}\n")
        done = subprocess.run([sys.executable, "-m", *SWEEPS[name]], cwd=ROOT, env=environment, check=False)
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
