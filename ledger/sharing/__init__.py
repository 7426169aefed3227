"""A book: a ledger that several machines append to, what can hold it, and how a machine's own ledger lands in it."""
