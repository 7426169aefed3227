"""What can hold a ledger: one module each, listed in tallybook.ledger.log.BACKENDS."""
