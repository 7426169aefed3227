"""Gates: whether an agent may evolve, and why not. Source: "With Evolution Gates" of the scoring framework.

A gate looks at the latest session that has a score, however old that is. A minimum or a greatest drop
that the caller adds to the configuration can close a gate, and never opens one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.scores.grades import BLOCK, SCORING_OFF, alerts, number
from tallybook.projections.scores.trends.regressions import History, regressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallybook.projections.scores.configuration.model import AlertLevel, Config
    from tallybook.projections.scores.trends.regressions import Scored

CRITICAL: Final = "critical"
OWN: Final = "own score"
MINIMUM: Final = "min"
DROP: Final = "no-drop"
NO_DATA: Final = "no data"
NOT_ENOUGH: Final = "not enough measured"
OFF: Final = "off"


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
        rule: CRITICAL, OWN, MINIMUM, DROP, NO_DATA, NOT_ENOUGH, OFF, or the method of a regression.
        score_id: The score; empty for several.
        value: The score, 0 to 100; None without one.
        bound: The least acceptable value; None without one.
        text: The reason as a sentence.
        closes: Whether it closes the gate; otherwise it is information.
        day: The day of the score, ``2026-01-16``; empty without one.
    """

    rule: str
    score_id: str
    value: float | None
    bound: float | None
    text: str
    closes: bool = True
    day: str = ""


@attrs.frozen
class Gate:
    """The answer of a gate.

    Attributes:
        open: Whether the evolution may go on.
        reasons: The reasons, closing ones first; an open gate has reasons only where data are missing.
        day: The latest day of a checked score; empty where none has data.
    """

    open: bool
    reasons: tuple[Reason, ...]
    day: str = ""


def _scored(histories: Iterable[History]) -> Iterator[tuple[History, Scored]]:
    return ((history, history.latest) for history in histories if history.latest is not None)


def _critical(histories: Iterable[History], levels: Sequence[AlertLevel]) -> Iterator[Reason]:
    """Yield the reasons that close every gate."""
    values = {history.score_id: float(latest.value) for history, latest in _scored(histories)}
    for alert in alerts(values, levels, BLOCK):
        text = (
            f"{alert.score_id} is {number(alert.value)}, below {number(alert.below)}: {alert.level}, which blocks all"
        )
        yield Reason(CRITICAL, alert.score_id, alert.value, alert.below, text)


def _below(judged: Iterable[History], bound: float, rule: str, meaning: str) -> Iterator[Reason]:
    """Yield a reason for each score below a bound; ``meaning`` describes the bound."""
    for history, latest in _scored(judged):
        if latest.value < bound:
            text = f"{history.score_id} is {latest.value}, below {number(bound)}, {meaning}"
            yield Reason(rule, history.score_id, latest.value, bound, text)


def _regressed(judged: Iterable[History], config: Config) -> Iterator[Reason]:
    for history in judged:
        for drop in regressions(history, config):
            text = f"{drop.text}; not acknowledged"
            yield Reason(drop.method, drop.score_id, drop.value, drop.bound, text)


def _dropped(judged: Iterable[History], greatest: float) -> Iterator[Reason]:
    """Yield a reason for each score that dropped too far, and one for those with nothing to compare with."""
    first = []
    for history, latest in _scored(judged):
        if history.baseline is not None:
            before, name = history.baseline.value, "its baseline"
        elif len(history.sessions) > 1:
            before, name = float(history.sessions[-2].value), "the session before"
        else:
            first.append(history.score_id)
            continue
        if latest.value < before - greatest:
            text = (
                f"{history.score_id} is {latest.value}, {number(before - latest.value)} points below {name}, "
                f"{number(before)}, and no more than {number(greatest)} are allowed"
            )
            yield Reason(DROP, history.score_id, latest.value, before - greatest, text)
    yield from _about_all(DROP, first, "a first score, with nothing that it could have dropped from", closes=False)


def _about_all(rule: str, score_ids: Sequence[str], what: str, *, closes: bool) -> Iterator[Reason]:
    """Yield one reason about all of these scores, none without scores."""
    if score_ids:
        score_id = score_ids[0] if len(score_ids) == 1 else ""
        yield Reason(rule, score_id, None, None, f"{', '.join(score_ids)}: {what}", closes)


def _unmeasured(judged: Sequence[History], *, closes: bool) -> Iterator[Reason]:
    """Yield the reasons about scores without enough data; they close the gate only if no checked score has enough."""
    unknown = [one.score_id for one in judged if one.latest is None and one.partial is None]
    partial = [(one.score_id, one.partial) for one in judged if one.partial is not None]
    closes = closes and len(unknown) + len(partial) == len(judged)
    for score_id, latest in partial:
        on = f" on {latest.day}" if latest.day else ""
        text = f"{score_id}: {NOT_ENOUGH} ({latest.measured} %){on}"
        yield Reason(NOT_ENOUGH, score_id, latest.value, None, text, closes, latest.day)
    yield from _about_all(NO_DATA, unknown, "no data, no session has scored it yet", closes=closes)


def gate(histories: Sequence[History], config: Config, query: GateQuery) -> Gate:
    """Return whether an evolution may go on.

    Any critical score closes every gate. For a named score, a value below ``gates.least`` and an unacknowledged
    regression of that score close as well. Without a name, a regression of any score closes, and ``minimum`` and
    ``greatest_drop`` apply to every score. Where no checked score has data, the gate closes unless the caller allows
    that; otherwise a score without data is only reported. A session in which too little of a score was measured decides
    nothing about it: it opens no gate, and what an earlier session closed stays closed.

    Where scoring is off the gate is open, and says so.

    Args:
        histories: The history of every configured score, also of those without data.
        config: The configuration, with the bounds.
        query: The question.
    """
    if not config.enabled:
        return Gate(open=True, reasons=(Reason(OFF, "", None, None, SCORING_OFF, closes=False),))
    named = query.score_id is not None
    judged = [history for history in histories if query.score_id in {None, history.score_id}]
    if named and not judged:
        judged = [History(str(query.score_id))]
    reasons = [*_critical(histories, config.levels)]
    if named:
        reasons += _below(judged, config.gates.least, OWN, "the least with which it may evolve")
    reasons += _regressed(judged, config)
    if query.minimum is not None:
        reasons += _below(judged, query.minimum, MINIMUM, "the minimum that was asked for")
    if query.greatest_drop is not None:
        reasons += _dropped(judged, query.greatest_drop)
    reasons += _unmeasured(judged, closes=not query.allow_no_data)
    reasons.sort(key=lambda reason: not reason.closes)
    days = {history.score_id: latest.day for history, latest in _scored(histories)}
    dated = tuple(_dated(reason, days.get(reason.score_id, "")) for reason in reasons)
    return Gate(
        not any(reason.closes for reason in reasons),
        dated,
        max((days.get(history.score_id, "") for history in judged), default=""),
    )


def _dated(reason: Reason, day: str) -> Reason:
    """Return a reason that names the day of its score; one that names its own, or is about none, stays as it is."""
    return reason if reason.day or not day else attrs.evolve(reason, text=f"{reason.text} ({day})", day=day)
