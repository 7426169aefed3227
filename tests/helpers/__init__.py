"""What several test files share: examples, builders of ledgers, and ways to run the command."""
