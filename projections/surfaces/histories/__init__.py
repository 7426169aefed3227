"""Copies of a ledger with different events: how they came about, and how they are brought together."""
