"""The write side: what happened, as immutable events in an append-only log."""
