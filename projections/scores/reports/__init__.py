"""Reports on scores: summary, evidence, causes of a drop, score files."""
