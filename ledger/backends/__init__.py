"""The back ends that can hold a ledger: one module each, listed in table.py."""
