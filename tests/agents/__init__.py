"""The real clients of agents against a model on loopback: what each is given, and what the ledger says of it.

    python -m tests.agents [AGENT ...] [--clients FOLDER] [--record]

The modules import one another as ``agents``, as the tests do: the folder of the tests is on the path.
"""

from __future__ import annotations

from pathlib import Path
import sys

_TESTS = str(Path(__file__).resolve().parent.parent)
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
