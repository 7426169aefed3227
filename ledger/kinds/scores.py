"""Events about measurements: metrics, benchmarks and feedback, for an agent's components and sessions.

Each is about the session that its line names in ``by`` and counts for the line's ``when``, or else its ``at``. The
name of a component is recorded as received; the score configuration maps it to a component.
"""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, PERCENT, Kind, Numbers, free_text


@attrs.frozen(eq=False, repr=False)
class MetricsRecorded(Kind):
    """Metrics of a component.

    Attributes:
        component: The component, ``ac01``; empty where none was named, and then the metrics count nothing.
        metrics: Name → value: a number, or true or false. The score configuration decides whether values add up or
            the last one counts.
        source: Type of the telemetry event that they come from; empty for metrics that were sent as such.
    """

    component: str
    metrics: Numbers
    source: str


def _check_passed(event: BenchmarkRecorded, _field: object, total: int) -> None:
    """Refuse more passed cases than there are cases."""
    if event.passed > total:
        raise ValueError(f"{event.passed} of {total} cases cannot have passed")


@attrs.frozen(eq=False, repr=False)
class BenchmarkRecorded(Kind):
    """The result of a benchmark of a component.

    Attributes:
        component: The component.
        benchmark: Name of the benchmark; empty where it has none.
        passed: How many of its cases passed, from 0 to ``total``.
        total: How many cases it has, 0 or more.
    """

    component: str
    benchmark: str
    passed: int = attrs.field(validator=NOT_NEGATIVE)
    total: int = attrs.field(validator=(NOT_NEGATIVE, _check_passed))


@attrs.frozen(eq=False, repr=False)
class FeedbackRecorded(Kind):
    """A person's judgement of a component, or of a session as a whole.

    Attributes:
        component: The component; empty for the session.
        score: From 0 to 100.
        verdict: The word that was given for the score: helpful, harmful or neutral; empty where it was a number.
        note: Why; empty where no reason was given.
    """

    component: str
    score: float = attrs.field(validator=PERCENT)
    verdict: str
    note: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class BaselineSet(Kind):
    """The value that a score is compared with from now on; earlier drops of the score are accepted.

    Attributes:
        score: Which score: a component, ``ac06``, or one of a session, ``session.overall``.
        value: From 0 to 100.
        reason: Why; empty where no reason was given.
    """

    score: str
    value: float = attrs.field(validator=PERCENT)
    reason: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class SessionEnded(Kind):
    """A session ended.

    Attributes:
        version: Version of the agent or of its project, by which scores are compared; empty where unknown.
    """

    version: str


@attrs.frozen(eq=False, repr=False)
class TelemetryKept(Kind):
    """A telemetry event without a scored value; kept as evidence, and counted.

    Attributes:
        component: The component that it names; empty without one.
        type: Its type as received; empty without one.
        reason: Why it is not scored, in a few words.
        original: The event as received, in JSON.
    """

    component: str
    type: str
    reason: str
    original: str | None = free_text()
