"""The cache of scores: a database of sessions that need not be folded again."""
