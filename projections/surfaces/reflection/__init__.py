"""Reflection on sessions: transcripts read, models asked, their answers recorded."""
