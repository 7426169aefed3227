"""Machines that share one playbook, all on this one: ``python -m tests.share git`` and others.

The modules import one another as ``share``, like the tests: the folder of the tests is on the path.
"""

from __future__ import annotations

from pathlib import Path
import sys

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
