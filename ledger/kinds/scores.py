"""What is measured of an agent: metrics, benchmarks and people's feedback, of its components and of its sessions.

The session that an event is about is the one that its line names, and it counts for the time that its line says it
happened at. A component is named as it was received; the configuration of the scores says which it is.
"""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, PERCENT, Kind, Numbers, free


@attrs.frozen(eq=False, repr=False)
class MetricsRecorded(Kind):
    """Something was measured of a component.

    Attributes:
        component: The component, ``ac01``; empty where none was named, and then it counts nothing.
        metrics: Name → value: a number, or true or false. Whether values add up or the last one holds is the
            configuration's to say.
        source: The type of the telemetry event that it was read from; empty for metrics that were sent as such.
    """

    component: str
    metrics: Numbers
    source: str


def _is_enough(event: BenchmarkRecorded, _field: object, total: int) -> None:
    """Refuse more passed cases than there are."""
    if event.passed > total:
        raise ValueError(f"{event.passed} of {total} cases cannot have passed")


@attrs.frozen(eq=False, repr=False)
class BenchmarkRecorded(Kind):
    """A benchmark of a component was run.

    Attributes:
        component: The component.
        benchmark: Which benchmark; empty where it has no name.
        passed: How many of its cases passed, 0 or more.
        total: How many it has, 0 or more.
    """

    component: str
    benchmark: str
    passed: int = attrs.field(validator=NOT_NEGATIVE)
    total: int = attrs.field(validator=(NOT_NEGATIVE, _is_enough))


@attrs.frozen(eq=False, repr=False)
class FeedbackRecorded(Kind):
    """A person judged a component, or a session as a whole.

    Attributes:
        component: The component; empty for the session.
        score: From 0 to 100.
        verdict: How it was said, where that was a word: helpful, harmful or neutral; empty for a number.
        note: Why; empty where nothing was said.
    """

    component: str
    score: float = attrs.field(validator=PERCENT)
    verdict: str
    note: str | None = free()


@attrs.frozen(eq=False, repr=False)
class BaselineSet(Kind):
    """What a score is to be held against from here on; a drop that was known by then is acknowledged.

    Attributes:
        score: Which score: a component, ``ac06``, or one of a session, ``session.overall``.
        value: From 0 to 100.
        reason: Why; empty where nothing was said.
    """

    score: str
    value: float = attrs.field(validator=PERCENT)
    reason: str | None = free()


@attrs.frozen(eq=False, repr=False)
class SessionEnded(Kind):
    """A session came to its end.

    Attributes:
        version: The version of the agent, or of what it works on, that scores are compared by; empty where unknown.
    """

    version: str


@attrs.frozen(eq=False, repr=False)
class TelemetryKept(Kind):
    """A telemetry event that says nothing that is scored; kept as evidence, and counted.

    Attributes:
        component: The component that it named; empty without one.
        type: Its type as it was received; empty without one.
        reason: Why it is not scored, in a few words.
        original: The event as it was received, in JSON.
    """

    component: str
    type: str
    reason: str
    original: str | None = free()
