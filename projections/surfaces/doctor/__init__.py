"""`tallybook doctor`: the table of checks and its runner in ``checks``, one module for each group of checks."""
