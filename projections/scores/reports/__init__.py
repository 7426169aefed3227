"""What is shown of scores: summaries, evidence, causes of a drop, score files."""
