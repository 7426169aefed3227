"""What was recorded and is in no score, and why."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from tallybook.projections.scores.view import UNSCORED_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tallybook.projections.scores.configuration.model import Metric
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.view import Scores

_REASONS_SHOWN: Final = 4
_SESSIONS_SHOWN: Final = 3
_HINTS: Final = {
    "no session": "`tallybook metrics --session ID` names the session",
    "no component": "`tallybook metrics --component ID` names the component",
}
"""Why an event is in no score → what to do."""


def reasons(counts: Sequence[tuple[str, int]]) -> str:
    """Return the first few reasons why events are in no score, each with how many there are."""
    shown = [f"{why} ({count:,})" for why, count in counts[:_REASONS_SHOWN]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f", and {more} other reasons" if more else "")


def omissions(state: Scores) -> Iterator[str]:
    """Yield how many events that measure something are in no score, and why, the most frequent reason first."""
    # Most telemetry measures no score, so it is no omission.
    if measured := _by_frequency(state, telemetry=False):
        yield f"Measured, and in no score: {reasons(measured)}."


def explanation(state: Scores) -> Iterator[str]:
    """Yield what was recorded and why none of it is in a score, where nothing has a score; nothing if nothing was."""
    yield from omissions(state)
    if others := _by_frequency(state, telemetry=True):
        yield f"Recorded, and no measurement: {reasons(others)}."
    yield from (f"For {why}: {hint}." for why, hint in _HINTS.items() if why in state.unscored)
    sessions = list(islice(state.sessions.latest(), _SESSIONS_SHOWN + 1))
    for session in sessions[:_SESSIONS_SHOWN]:
        yield from _lacking(session, state)
    if len(sessions) > _SESSIONS_SHOWN:
        yield "Other sessions have no score either."


def _by_frequency(state: Scores, *, telemetry: bool) -> list[tuple[str, int]]:
    """Return why events are in no score and how many there are, the most frequent reason first."""
    counts = [one for one in state.unscored.items() if one[0].startswith(UNSCORED_TYPE) is telemetry]
    return sorted(counts, key=lambda one: (-one[1], one[0]))


def _lacking(session: Session, state: Scores) -> Iterator[str]:
    """Yield what a session without a score has of each component, and what its score would need."""
    known = [state.config.components[name] for name in session.components if name in state.config.components]
    for component in known:
        values = ", ".join(session.measured(component)) or "no metrics"
        needs = "; or ".join(map(_needed, component.metrics))
        yield f"Session {session.id} has {values} of {component.id}, whose score needs {needs}."
    if not session.components:
        yield f"Session {session.id} has nothing measured of a component."


def _needed(metric: Metric) -> str:
    """Return the values that a metric is made of."""
    return f"{metric.of} and {metric.per}" if metric.per else metric.of
