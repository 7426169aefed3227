"""The share of a long sweep that a test tries: a slice in every run, all of it in `python -m tests.sweeps`."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "TALLYBOOK_SWEEP"
"""The environment variable that asks for all of it."""


def slice_of(whole: int, usual: int) -> int:
    """Return how many of the cases of a sweep to try: all, or as many as every run of the tests does."""
    return whole if os.environ.get(VARIABLE) else usual
