"""Scores over time: trends, forecasts, regressions, and the gates that look at them."""
