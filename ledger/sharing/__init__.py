"""A book: a ledger that several machines append to, and how one machine's own ledger lands in it."""
