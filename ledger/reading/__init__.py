"""How a log is read: found, verified, recovered, salvaged."""
