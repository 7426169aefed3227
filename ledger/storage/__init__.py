"""Files of the ledger's folder and of its cache: locks, the head, keys, the spool, redaction."""
