"""Installing Tallybook where an agent looks for it, and taking it out again: ``tallybook init`` and ``uninstall``."""
