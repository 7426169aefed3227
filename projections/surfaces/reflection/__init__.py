"""Reflection on sessions: reading transcripts, asking a model, recording its answers."""
