"""The history of each score, taken from the scores view: latest sessions, days and baseline. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallybook.projections.scores.periods import series
from tallybook.projections.scores.trends.regressions import History, Scored

if TYPE_CHECKING:
    from tallybook.projections.scores.view import Scores

SESSIONS: Final = 100
"""Most sessions with a score to compare its latest with."""
LOOKED_AT: Final = 1_000
"""After so many sessions only a first one per score is still searched, so that a gate does not read years of them."""


def histories(state: Scores) -> list[History]:
    """Return the history of every configured score, in order, also of those without data."""
    latest: dict[str, list[Scored]] = {score: [] for score in state.config.score_ids}
    wanted = {score for tally in state.days.values() for score in tally.scores} & latest.keys()
    for looked, session in enumerate(state.sessions.latest(), 1):
        scores, lacking = (session.counted.scores, session.counted.lacking) if session.counted else ({}, {})
        for score in wanted & scores.keys():
            latest[score].append(Scored(session.id, scores[score], session.seq, 100 - lacking.get(score, 0)))
        wanted = {score for score in wanted if len(latest[score]) < (SESSIONS if looked < LOOKED_AT else 1)}
        if not wanted:
            break
    return [
        History(score, tuple(reversed(found)), tuple(series(state.days, score)), state.baselines.get(score))
        for score, found in latest.items()
    ]
