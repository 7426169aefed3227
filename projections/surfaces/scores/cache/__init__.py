"""The cache of scores: sessions and periods that need not be computed again."""
