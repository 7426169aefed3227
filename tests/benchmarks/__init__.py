"""Benchmarks: the cost of Tallybook against a rival or a floor, measured in one run and given as ratios.

    python -m tests.benchmarks [ROW ...] [--events N] [--repeats N] [--folder DIR] [--write]

The modules import one another as ``benchmarks``, like the tests: the folder of the tests is on the path.
"""

from __future__ import annotations

from pathlib import Path
import sys

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
