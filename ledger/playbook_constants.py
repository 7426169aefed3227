"""Constants of the ledger and its playbook that several modules share; without imports, because hooks load them."""

from __future__ import annotations

AGENT = "agent"
"""The rater of marks, of what MCP rates, and of what an agent types."""
MAX_INT = 2**53
"""Largest integer that every JSON reader keeps exact: many read each number as a double."""
MAX_HOLD = 0.5
"""Largest probability with which an entry is withheld from a session."""
IDS_A_LINE = 1_000
"""As many ids as fit into one line of the ledger."""
STAMP = "ledger"
"""Top-level key of ``playbook.json`` that says which moment of the ledger the file shows, as ``SEQ:CHAIN``."""
BOOK_STAMP = "book"
"""The next top-level key, which says which moment of a shared book the file contains, as ``SEQ:CHAIN``."""
UNTIL = "until"
"""Top-level key of ``playbook.json`` with the last day of entries that hold until a date: name → ``2026-12-31``."""
REDACTED = "[redacted]"
"""What stands for a redacted text: in a shared book too, where its digest would prove nothing to other machines."""
PLAYBOOK_NEUTRAL = frozenset(
    {
        "playbook.injected",
        "point.cited",
        "point.noted",
        "reflection.requested",
        "reflection.started",
        "transcript.read",
        "reflection.completed",
        "reflection.failed",
        "metrics.recorded",
        "benchmark.recorded",
        "feedback.recorded",
        "baseline.set",
        "session.ended",
        "telemetry.kept",
        "point.proposed",
        "playbook.decided",
        "point.reviewed",
        "book.opened",
        "book.rules",
        "book.block",
        "event.repeated",
        "redaction.linked",
        "names.meant",
        "lift.asked",
        "lift.stopped",
        "session.measured",
    }
)
"""Kinds of events that do not change the playbook.

The beginning of a ledger, a repair and an item that an import skipped are not among them, although no entry changes.
"""

PERSONAL_PREFIX = "my_"
"""The beginning of the names in a person's own playbook."""

FLAT = "flat"
SECTIONED = "sections"
"""The forms of ``playbook.json``: the specification's format, and the later one."""
RATE = "rate"
"""The verb of a proposal to count a rating, which is its text."""
GONE_REASONS = {"pruned": "is pruned", "retired": "is retired"}
"""Status of an entry that a restore can bring back → why a rating of it has no effect."""
