"""The command for all long sweeps."""

from __future__ import annotations

from importlib.util import find_spec
import subprocess
import sys

from helpers.repository import ROOT
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
