"""A shared book: `share` and `sync`; other copies of a ledger, brought in."""
