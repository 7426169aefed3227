"""Scores for people and programs: it reads measurements and writes score files, summaries and gates."""
