"""The harness of `tests.mutation`: the tests that a mutant meets, and how a survivor is recognised."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
import pkgutil
import subprocess
import sys

import pytest

from mutation.__main__ import Change, change_of, explained, place_of

LEAVING = """
import os
from mutation import plugin
plugin._isolate()
child = os.fork()
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1], os.getpgrp() == os.getpid(), flush=True)
if undone:
    plugin.pytest_unconfigure()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("mutant", "place"),
    [
        ("tallybook.ledger.names.x_format_name__mutmut_12", "tallybook.ledger.names.format_name"),
        ("tallybook.ledger.names.x__private__mutmut_1", "tallybook.ledger.names._private"),
        (
            "tallybook.ledger.log.xǁJsonlLogǁ__init____mutmut_2",
            "tallybook.ledger.log.JsonlLog.__init__",
        ),
    ],
)
def test_a_mutant_is_placed_in_its_function(mutant: str, place: str) -> None:
    """The name that mutmut gives a mutant leads to the function that it changes."""
    assert place == place_of(mutant)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no mutant forks there")
@pytest.mark.parametrize("undone", [False, True])
def test_a_mutant_that_exits_in_the_middle_of_a_test_did_not_pass(undone: bool) -> None:
    """It runs in a group of its own, its children exit normally, and so does mutmut after the tests."""
    command = [sys.executable, "-c", f"undone = {undone}\n{LEAVING}"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert ("0 True\n", int(not undone)) == (done.stdout, done.returncode)


def test_a_survivor_is_recognised_by_its_change() -> None:
    """Number and line of a mutant change with every edit; its change and its function do not."""
    diff = "# a.x_f__mutmut_3: survived\n--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n"
    assert Change("a.f", "return 1", "return 2") == change_of("a.x_f__mutmut_3", diff)


def test_every_explanation_is_of_existing_code() -> None:
    """An explained survivor changes code that is in its function today, and has a reason."""
    for change, reason in explained().items():
        lines = inspect.getsource(pkgutil.resolve_name(change.place)).splitlines()
        assert change.was in " ".join(line.strip() for line in lines)
        assert reason.endswith(".")
