"""The command: mutate a copy of the repository, run the tests, print the mutants that survive."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
import json
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
from typing import Final

from helpers.commands import lay_out

ROOT: Final = Path(__file__).resolve().parent.parent.parent
GOAL_PERCENT: Final = 95.0
MUTMUT: Final = str(Path(sys.executable).with_name("mutmut"))

NOTICED: Final = {1, 3, -9}
"""Exit codes of pytest where a test failed, or none could begin, or where the mutant killed its own process."""
OUT_OF_TIME: Final = {24, 36, 152, -24}
"""Exit codes that mutmut gives to a mutant that did not come to an end."""


def copy_repository(target: Path) -> None:
    """Copy the files that git keeps or would keep, and lay the package out as it is installed."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    lay_out(target)


def verdicts(copy: Path) -> Iterator[tuple[str, str, int]]:
    """Yield module, mutant and exit code of every mutant that was tried."""
    for path in sorted((copy / "mutants").rglob("*.py.meta")):
        module = path.relative_to(copy / "mutants").as_posix().removesuffix(".py.meta").replace("/", ".")
        codes = json.loads(path.read_bytes())["exit_code_by_key"]
        yield from ((module, mutant, code) for mutant, code in codes.items() if code is not None)


def show_mutant(copy: Path, mutant: str) -> str:
    """Return mutmut's output about a mutant: its name, and the difference."""
    return subprocess.run([MUTMUT, "show", mutant], cwd=copy, capture_output=True, text=True, check=True).stdout


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the counts by module as a table, the whole last."""
    whole: Counter[str] = sum(counts.values(), Counter())
    rows = ["| module | mutants | noticed | out of time | survived | killed |", "|---|" + "---:|" * 5]
    for module, count in [*counts.items(), ("all", whole)]:
        cells = [str(count[what]) for what in ("noticed", "out of time", "survived")]
        rows.append(f"| {module} | {count.total()} | {' | '.join(cells)} | {percent(count):.1f} % |")
    return "\n".join(rows)


def percent(count: Counter[str]) -> float:
    """Return how many percent of the mutants were killed."""
    return 100 * (count["noticed"] + count["out of time"]) / (count.total() or 1)


def report(copy: Path) -> int:
    """Print the survivors among the tried mutants, and the table; return 0 where enough were killed, else 1."""
    counts: dict[str, Counter[str]] = {}
    left: list[str] = []
    for module, mutant, code in verdicts(copy):
        what = "noticed" if code in NOTICED else "out of time" if code in OUT_OF_TIME else "survived"
        if what == "survived":
            left.append(show_mutant(copy, mutant))
        counts.setdefault(module, Counter())[what] += 1
    sys.stdout.write("\n".join([*left, table(counts), ""]))
    return int(percent(sum(counts.values(), Counter())) < GOAL_PERCENT)


def main(words: Sequence[str]) -> int:
    """Mutate the modules of the command line, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="tallybook.ledger.names; all where none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="mutants at a time")
    parser.add_argument("--folder", type=Path, help="where the copy is made; a folder in memory is fastest")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="mutation-", dir=asked.folder) as folder:
        # Some tests go on as another user, who must find the files.
        Path(folder).chmod(0o755)
        copy, scratch = Path(folder, "copy"), Path(folder, "tmp")
        copy_repository(copy)
        scratch.mkdir()
        command = [MUTMUT, "run", "--max-children", str(asked.jobs), *(f"{module}.*" for module in asked.modules)]
        place = {"TMPDIR": str(scratch), "PYTHONHASHSEED": "0"}
        subprocess.run(command, cwd=copy, env=os.environ | place, stdout=sys.stderr, check=True)
        return report(copy)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
