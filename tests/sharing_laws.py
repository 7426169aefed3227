"""The laws of sharing over many random histories.

python -m tests.sharing_laws [COUNT] [--first SEED] [--steps N] [--processes N] [--engine memory|git|postgres|s3|azure]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
import os
from pathlib import Path
import sys
from typing import Final

_TESTS: Final = str(Path(__file__).resolve().parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

from helpers.sharing_histories import HISTORY_STEPS, NAMES, memory_folder, open_engines, run_history  # noqa: E402 - the path comes first

COUNT: Final = 20_000
_PIECE: Final = 50


def _run_piece(first: int, count: int, steps: int, engine: str) -> list[str]:
    """Return what is wrong in some histories; each process has a home of its own."""
    failures: list[str] = []
    with memory_folder() as folder, open_engines(engine) as make_engine:
        os.environ |= {"HOME": str(folder), "USERPROFILE": str(folder)}
        os.environ.pop("CLAUDE_PROJECT_DIR", None)
        for seed in range(first, first + count):
            try:
                run_history(seed, folder, steps, make_engine)
            except AssertionError as error:
                failures.append(str(error))
    return failures


def main(words: Sequence[str]) -> int:
    """Run the histories, print what is wrong, and return how many are."""
    parser = argparse.ArgumentParser(prog="python -m tests.sharing_laws", description="Try the laws of sharing.")
    parser.add_argument("count", nargs="?", type=int, default=COUNT, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=HISTORY_STEPS, help="how many steps a history has")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many run at the same time")
    parser.add_argument("--engine", choices=NAMES, default="memory", help="what holds the book")
    given = parser.parse_args(words)
    last = given.first + given.count
    pieces = [(first, min(_PIECE, last - first)) for first in range(given.first, last, _PIECE)]
    failed = 0
    with ProcessPoolExecutor(given.processes) as pool:
        for failures in pool.map(
            partial(_run_piece, steps=given.steps, engine=given.engine), *zip(*pieces, strict=True)
        ):
            failed += len(failures)
            sys.stdout.writelines(f"{failure}\n\n" for failure in failures)
    sys.stdout.write(f"{given.count} histories of {given.steps} steps on {given.engine}: {failed} break a law\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
