"""Gates: whether an agent may evolve, and why not. Source: "With Evolution Gates" of the scoring framework.

A gate looks at the latest session that has a score, however old that is. What is asked for beyond the configuration,
a minimum or a greatest drop, comes on top of it: it closes a gate and never opens one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.scores.grades import BLOCK, alert_of, is_enough, number
from tallybook.projections.scores.trends.regressions import History, regressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tallybook.projections.scores.configuration.model import Config, Level
    from tallybook.projections.scores.trends.regressions import Scored

CRITICAL: Final = "critical"
OWN: Final = "own score"
MINIMUM: Final = "min"
DROP: Final = "no-drop"
NO_DATA: Final = "no data"
NOT_ENOUGH: Final = "not enough measured"


@attrs.frozen
class GateQuery:
    """The question to a gate.

    Attributes:
        score_id: The score whose own evolution is checked; None to check all scores.
        minimum: Least value of the checked scores, 0 to 100; None for the configuration's only.
        greatest_drop: Most points of a checked score below its baseline, or without one below the session before.
        allow_no_data: Whether the gate may open where no checked score has data.
    """

    score_id: str | None = None
    minimum: float | None = None
    greatest_drop: float | None = None
    allow_no_data: bool = False


@attrs.frozen
class Reason:
    """A reason in the answer of a gate.

    Attributes:
        rule: CRITICAL, OWN, MINIMUM, DROP, NO_DATA, NOT_ENOUGH, or the method of a regression.
        score_id: The score; empty for several.
        value: The score, 0 to 100; None without one.
        bound: The least acceptable value; None without one.
        text: The reason as a sentence.
        closes: Whether it closes the gate; otherwise it is information.
    """

    rule: str
    score_id: str
    value: float | None
    bound: float | None
    text: str
    closes: bool = True


@attrs.frozen
class Gate:
    """The answer of a gate.

    Attributes:
        open: Whether the evolution may go on.
        reasons: The reasons, closing ones first; an open gate has reasons only where data are missing.
    """

    open: bool
    reasons: tuple[Reason, ...]


def _scored(histories: Iterable[History]) -> list[tuple[History, Scored]]:
    return [(history, history.latest) for history in histories if history.latest is not None]


def _critical(histories: Iterable[History], levels: Sequence[Level]) -> list[Reason]:
    """Return the reasons that close every gate."""
    found = [alert_of(history.score_id, latest.value, levels) for history, latest in _scored(histories)]
    return [
        Reason(
            CRITICAL,
            alert.score_id,
            alert.value,
            alert.below,
            f"{alert.score_id} is {number(alert.value)}, below {number(alert.below)}: {alert.level}, which blocks all",
        )
        for alert in found
        if alert is not None and BLOCK in alert.notify
    ]


def _below(judged: Iterable[History], bound: float, rule: str, meaning: str) -> list[Reason]:
    """Return a reason for each score below a bound, which means what ``meaning`` says."""
    return [
        Reason(
            rule,
            history.score_id,
            latest.value,
            bound,
            f"{history.score_id} is {latest.value}, below {number(bound)}, {meaning}",
        )
        for history, latest in _scored(judged)
        if latest.value < bound
    ]


def _regressed(judged: Iterable[History], config: Config) -> list[Reason]:
    return [
        Reason(drop.method, drop.score_id, drop.value, drop.bound, f"{drop.text}; nobody has acknowledged it")
        for history in judged
        for drop in regressions(history, config)
    ]


def _dropped(judged: Iterable[History], greatest: float) -> list[Reason]:
    """Return a reason for each score that dropped too far, and one for those with nothing to compare with."""
    found, first = [], []
    for history, latest in _scored(judged):
        if history.baseline is not None:
            was, name = history.baseline.value, "its baseline"
        elif len(history.sessions) > 1:
            was, name = float(history.sessions[-2].value), "the session before"
        else:
            first.append(history)
            continue
        if latest.value < was - greatest:
            text = (
                f"{history.score_id} is {latest.value}, {number(was - latest.value)} points below {name}, "
                f"{number(was)}, and no more than {number(greatest)} are allowed"
            )
            found.append(Reason(DROP, history.score_id, latest.value, was - greatest, text))
    return found + _said(DROP, first, "a first score, with nothing that it could have dropped from")


def _said(rule: str, histories: Sequence[History], what: str, *, closes: bool = False) -> list[Reason]:
    """Return one reason about all of these scores, none without scores."""
    names = [history.score_id for history in histories]
    score_id = names[0] if len(names) == 1 else ""
    return [Reason(rule, score_id, None, None, f"{', '.join(names)}: {what}", closes)] if names else []


def _unmeasured(judged: Sequence[History], least: float, *, closes: bool) -> list[Reason]:
    """Return the reasons about scores without enough data; they close the gate only if no checked score has enough."""
    unknown = [history for history in judged if history.latest is None]
    partial = [
        (history, latest)
        for history, latest in _scored(judged)
        if not is_enough(history.score_id, latest.measured, least)
    ]
    closes = closes and len(unknown) + len(partial) == len(judged)
    return [
        Reason(
            NOT_ENOUGH,
            history.score_id,
            latest.value,
            None,
            f"{history.score_id}: {NOT_ENOUGH} ({latest.measured} %)",
            closes,
        )
        for history, latest in partial
    ] + _said(NO_DATA, unknown, "no data, no session has scored it yet", closes=closes)


def gate(histories: Sequence[History], config: Config, query: GateQuery) -> Gate:
    """Say whether an evolution may go on.

    Any critical score closes every gate. For a named score, a value below ``gates.least`` and an unacknowledged
    regression of that score close as well. Without a name, a regression of any score closes, and ``minimum`` and
    ``greatest_drop`` apply to every score. Where no checked score has data, the gate closes unless the caller allows
    that; otherwise a score without data is only reported. An overall score of which too little was measured counts as
    one without data here, but can still close the gate by its value.

    Args:
        histories: The history of every configured score, also of those without data.
        config: The configuration, with the bounds.
        query: The question.
    """
    named = query.score_id is not None
    judged = [history for history in histories if query.score_id in {None, history.score_id}]
    if named and not judged:
        judged = [History(str(query.score_id))]
    reasons = _critical(histories, config.levels)
    if named:
        reasons += _below(judged, config.gates.least, OWN, "the least with which it may evolve")
    reasons += _regressed(judged, config)
    if query.minimum is not None:
        reasons += _below(judged, query.minimum, MINIMUM, "the minimum that was asked for")
    if query.greatest_drop is not None:
        reasons += _dropped(judged, query.greatest_drop)
    reasons += _unmeasured(judged, config.display.min_coverage, closes=not query.allow_no_data)
    reasons.sort(key=lambda reason: not reason.closes)
    return Gate(not any(reason.closes for reason in reasons), tuple(reasons))
