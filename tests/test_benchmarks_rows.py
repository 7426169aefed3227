"""The benchmarks run, row by row and at the smallest size; no test here checks the figures."""

from __future__ import annotations

import json
from math import isfinite
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import __main__ as command
from benchmarks import profiles, readme
from benchmarks.table import Row
from helpers.repository import ROOT
from tallybook.ledger.storage import caches

if TYPE_CHECKING:
    from pathlib import Path

LINES = {"append": 1, "append-batch": 1, "rewrite": 1, "replay": 1, "load": 1, "size": 1, "share-git": 4}
"""Row → how many lines of the table it has; the other rows take longer, and run where somebody measures."""


def options(folder: Path) -> list[str]:
    """Return the options for 600 events, one pair a row, and a folder of their own."""
    return ["--events", "600", "--repeats", "1", "--folder", str(folder), "--json", str(folder / "figures.json")]


def numbers(row: dict[str, Any]) -> list[float]:
    """Return every figure of a row."""
    return [*row["ratios"], *(row[field] for field in ("ratio", "low", "high", "ours", "theirs"))]


@pytest.mark.parametrize("name", LINES)
def test_a_row_prints_its_ratios(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row prints finite positive figures, and deletes its files."""
    # The command sets it for its process, which is this one: pytest removes it after the test.
    monkeypatch.setenv(caches.VARIABLE, "")
    command.main([name, *options(tmp_path)])
    told = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert ([name] * LINES[name], []) == ([row["name"] for row in told["rows"]], told["left_out"])
    assert [] == [figure for row in told["rows"] for figure in numbers(row) if not (isfinite(figure) and figure > 0)]
    assert len(told["rows"]) == capsys.readouterr().out.count(f"\n| {name} ")
    assert ["figures.json"] == [path.name for path in tmp_path.iterdir()]


def test_an_unknown_row_is_named(tmp_path: Path) -> None:
    """A row that does not exist ends the command before anything is measured."""
    words = [sys.executable, "-m", "tests.benchmarks", "apend", *options(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert 2 == done.returncode
    assert "no such row: apend" in done.stderr


# The table in the README, the picture and the profiles


def row(name: str, ratio: float) -> Row:
    """Return a row of two pairs."""
    return Row(name, "what", "rival", (ratio, ratio + 1), 1.0, 2.0, "s")


def test_a_new_figure_replaces_the_old_one() -> None:
    """Other rows stay, in the order of the command's rows; a row that no longer exists is deleted."""
    text = f"before\n{readme.BEGIN}{readme.END}behind\n"
    order = ["append", "many"]
    first = readme.merged(text, [row("many", 5), row("append", 1)], order, 1)
    again = readme.merged(first, [row("append", 7)], order, 2)
    assert ["append", "many"] == [line.split()[1] for line in again.splitlines() if line.startswith(("| a", "| m"))]
    assert "| append | what | rival | 7.50 | 7.00 to 8.00 | 1.00, 2.00 s |" in again
    assert "| many | what | rival | 5.50 |" in again
    assert again.startswith("before\n")
    assert again.endswith("behind\n")
    assert "append" not in readme.merged(first, [], ["many"], 1)


@pytest.mark.parametrize("path", [*profiles.PATHS][:1])
def test_a_profile_is_one_command(path: str) -> None:
    """The command prints the functions that take the most time."""
    words = [sys.executable, "-m", "tests.benchmarks.profiles", path, "--events", "600"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    assert len(done.stdout.splitlines()) > 10
