"""The command for all long sweeps."""

from __future__ import annotations

from importlib.util import find_spec
import subprocess
import sys

import pytest

from helpers.repository import ROOT
from helpers.sweep import VARIABLE, slice_of
import sweeps


def test_each_sweep_runs_a_module_that_exists() -> None:
    """The table of sweeps names modules that `python -m` finds."""
    names = {name: words[0].removeprefix("tests.") for name, words in sweeps.SWEEPS.items()}
    assert [] == [name for name, module in names.items() if find_spec(module) is None]


def test_an_unknown_sweep_is_named() -> None:
    """A name that is not in the table ends the command before anything runs."""
    command = [sys.executable, "-m", "tests.sweeps", "fuss"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (2, "") == (done.returncode, done.stdout)
    assert "no such sweep: fuss" in done.stderr


def test_the_exit_code_counts_the_failed_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is the number of sweeps that failed."""
    monkeypatch.setattr(sweeps, "SWEEPS", {"good": ("this",), "bad": ("no_such_module",)})
    assert 1 == sweeps.main([])
    assert 0 == sweeps.main(["good"])


@pytest.mark.parametrize(("value", "expected"), [("", 3), ("1", 40)])
def test_a_test_runs_a_slice_by_default(monkeypatch: pytest.MonkeyPatch, value: str, expected: int) -> None:
    """The variable of the sweeps switches a test from its slice to every case."""
    monkeypatch.setenv(VARIABLE, value)
    assert expected == slice_of(40, 3)
