"""The command line: one module for each group of verbs, and the table that lists them."""
