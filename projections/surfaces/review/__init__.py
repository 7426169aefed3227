"""Reviews: what a person should look at, entries that may be stale, and the verb `review`."""
