"""Mutation testing of the code itself: it is changed in one place at a time, and a test has to notice.

    python -m tests.mutation [MODULE ...] [--jobs N] [--folder DIR]

mutmut makes the mutants and runs the tests of the function that it changed; its configuration is in pyproject.toml.
It works on a copy of the repository in a folder for scratch files, so it never changes the original.
``plugin.py`` chooses and orders the tests of a mutant.
"""

from __future__ import annotations

from pathlib import Path
import sys

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
