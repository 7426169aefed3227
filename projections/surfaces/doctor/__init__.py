"""The verbs `doctor` and `check` in ``cli``, with the tables of their checks; the checks in the other modules."""
