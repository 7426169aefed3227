"""Bounds of numbers in the ledger. Standard library only, so that hooks and input checks need not load attrs."""

from __future__ import annotations

# Without ``Final``: hooks read the settings, which import this module, and have no time to load ``typing``.
MAX_INT = 2**53
"""Largest integer that every JSON reader keeps exact: many read each number as a double."""
MAX_HOLD = 0.5
"""Largest probability with which an entry is withheld from a session."""
IDS_A_LINE = 1_000
"""As many ids as fit into one line of the ledger."""
