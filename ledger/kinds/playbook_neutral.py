"""Which kinds of events leave the playbook as it is: a name for each, so that a hook need not load their classes."""

from __future__ import annotations

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
    }
)
"""Such an event does not change the playbook; a test compares the set with what the playbook's view folds."""
