"""A shared book: the history that a machine shows of it, `share` and `sync`; other copies of a ledger, brought in."""
