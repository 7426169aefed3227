"""The library that ``import tallybook`` gives: what a program may do with a project's ledger."""
