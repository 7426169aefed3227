"""Scores for people and programs: measurements come in; score files, summaries and gates go out."""
