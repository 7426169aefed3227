"""Bounds of numbers in the ledger. Standard library only, so that hooks and input checks need not load attrs."""

from __future__ import annotations

from typing import Final

MAX_INT: Final = 2**53
"""Largest integer that every JSON reader keeps exact: many read each number as a double."""
MAX_HOLD: Final = 0.5
"""Largest probability with which an entry is withheld from a session."""
