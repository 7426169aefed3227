"""Authors of events."""

HUMAN = {"rater": "human"}
