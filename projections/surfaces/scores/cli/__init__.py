"""The verbs of the scores."""
