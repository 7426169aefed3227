"""Reading a log: batches in order, verification, recovery, salvage."""
