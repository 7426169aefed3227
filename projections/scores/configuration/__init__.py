"""The configuration of the scores: its model and how the file becomes it."""
