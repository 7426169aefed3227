"""The tape: fixed ledgers, and what every verb answers on each of them, as files that a change must explain.

In `scores/` are the answers of the verbs of scores, which `tests/test_scores_answers.py` compares.
"""
