"""Scores for people and programs: what is measured comes in, score files, summaries and gates go out."""
