"""Helpers that several test files use: examples, builders of ledgers, and ways to run the command."""
