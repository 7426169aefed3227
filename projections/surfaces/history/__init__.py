"""Asking a project's ledger: moments, checkpoints, the index, lists of events, SQL."""
