"""The classes of events, by what they speak of; ledger/events.py names them."""
