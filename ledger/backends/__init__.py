"""What can hold a ledger: one module each, listed in ledger.log.BACKENDS."""
