"""The Model Context Protocol server: what a model may read of a ledger, and the two ways in which it may write."""
