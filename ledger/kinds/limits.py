"""The bound of every number in the ledger. Standard library only: hooks and bad-input checks need it without attrs."""

from __future__ import annotations

from typing import Final

MAX_INT: Final = 2**53
"""Beyond it JSON readers disagree about which number is meant, because many of them read every number as a double."""
