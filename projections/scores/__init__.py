"""Scores of an agent from 0 to 100: of its components, its sessions and of periods, as views of the ledger."""
