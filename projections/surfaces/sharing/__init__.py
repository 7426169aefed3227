"""A shared book: the history that this machine shows of it, and the verbs `share` and `sync`."""
