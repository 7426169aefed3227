"""Files of the ledger's folder and of its cache: locks, the head, caches, the spool, redaction."""
