"""Encoding of events as the bytes of a line, and decoding."""
