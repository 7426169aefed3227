"""What is known of each score: its latest sessions, its days and its baseline, out of the view. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tallybook.projections.scores.periods import series
from tallybook.projections.scores.trends.regressions import History, Scored

if TYPE_CHECKING:
    from tallybook.projections.scores.view import Scores

SESSIONS: Final = 100
"""Sessions with a score that its latest one is compared with at most."""
LOOKED_AT: Final = 1_000
"""Of the sessions before these only the latest with a score is looked for, so that no gate reads years of them."""


def histories(state: Scores) -> list[History]:
    """Return what is known of every configured score, in order, those without data among them."""
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
