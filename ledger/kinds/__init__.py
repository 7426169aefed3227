"""The classes of events, one module per subject; ``ledger/events.py`` lists them with their kinds on disk."""
