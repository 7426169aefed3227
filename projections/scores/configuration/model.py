"""The configuration of the scores as values: components, metrics, grades, levels. No code names a component.

The default is prompts/scoring-config.yaml; a project's own file is laid over it key by key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

SESSION: Final = "session."
_SCORE: Final = "score."
OVERALL: Final = "overall"
COUNT: Final = "_count"
TOTAL: Final = "_total"


@attrs.frozen
class Metric:
    """How one part of a component's score is measured.

    Attributes:
        name: What it is called.
        form: linear, inverse, ratio or boolean ("Scoring Algorithms" of the scoring framework).
        of: Name of the measured value.
        per: Name of the whole of a ratio; empty elsewhere.
        counts: Names of a part and a whole whose quotient replaces an unmeasured value; empty for none.
        worst: Of linear and inverse, the value that gives 0.
        best: The value that gives 100; greater than ``worst`` if linear, less if inverse.
        empty: Points of a ratio whose whole is 0; None for no data.
        missing: Points where this was not measured but the component was; None for no data.
        rest: Whether 100 minus the ratio counts.
        weight: Its share of the component's score, above 0.
    """

    name: str
    form: str
    of: str
    per: str = ""
    counts: tuple[()] | tuple[str, str] = ()
    worst: float = 0
    best: float = 100
    empty: float | None = None
    missing: float | None = None
    rest: bool = False
    weight: float = 1


def _asked(component: Component) -> frozenset[str]:
    """Return the names of all values that can count in a component's score."""
    found = set(component.counters)
    for metric in component.metrics:
        found |= {
            metric.of,
            f"{metric.of}{COUNT}",
            f"{metric.of}{TOTAL}",
            *metric.counts,
            *([metric.per] * bool(metric.per)),
        }
    return frozenset(found)


@attrs.frozen
class Component:
    """A part of the agent that is scored.

    Attributes:
        id: Its name in files and options: lower-case letters and digits.
        name: Its name for people.
        metrics: The metrics of its score, one or more.
        counters: Names of values that add up over a session; of other values the last counts.
        asked: Names of all values that its metrics read, in every form, and the counters.
    """

    id: str
    name: str
    metrics: tuple[Metric, ...]
    counters: frozenset[str]
    asked: frozenset[str] = attrs.field(init=False, default=attrs.Factory(_asked, takes_self=True))

    def adds_up(self, value: str) -> bool:
        """Say whether the values under a name add up over a session."""
        return value in self.counters or value.endswith((COUNT, TOTAL))


@attrs.frozen
class Grade:
    """One row of "Grade Scale".

    Attributes:
        name: ``A``.
        least: The least score that has it, 0 to 100.
        status: Its meaning, ``Excellent``.
        action: The advice, ``Maintain``.
    """

    name: str
    least: int
    status: str
    action: str


@attrs.frozen
class Level:
    """One row of "Alert Thresholds".

    Attributes:
        name: ``warning``.
        below: Scores strictly below it alert, 0 to 100.
        notify: Its channels, ``("log", "dashboard")``; ``block evolution`` closes every gate.
    """

    name: str
    below: int
    notify: tuple[str, ...]


@attrs.frozen
class Sensitivity:
    """The thresholds of regressions.

    Attributes:
        drop: A score may be so many points below its baseline, and no more; 0 or more.
        deviations: And so many standard deviations below the mean of its history; above 0.
        least_sessions: How long a history has to be for that, 2 or more.
        trend_days: How many days make up one side of a trend, 1 or more: the short term.
        turn: By so many points the average has to fall for a trend to have turned; 0 for by any.
    """

    drop: float
    deviations: float
    least_sessions: int
    trend_days: int
    turn: float


@attrs.frozen
class Display:
    """The options of the summary.

    Attributes:
        grades: Letters beside scores.
        trends: Arrows.
        recommendations: Focus areas.
        min_coverage: The share of its weight, 0 to 1, that must be measured before the overall score is shown to people
            and can open a gate.
    """

    grades: bool
    trends: bool
    recommendations: bool
    min_coverage: float


@attrs.frozen
class Config:
    """The whole configuration.

    Attributes:
        enabled: Whether score files are written.
        title: The heading of the summary.
        zone: The time zone in which days begin.
        session_weights: Composite → its weight in the overall score, in order; they sum to 1.
        sessions: Composite → the components that it is the average of.
        grades: Best first; the last one begins at 0.
        levels: Levels of alert, the mildest first.
        short_term_days: Days of a short trend.
        long_term_days: Days of a long one, more than those.
        regressions: From where on a drop is one.
        gate_least: Below this a component blocks its own evolution.
        benchmark_weight: What benchmarks weigh beside a component's metrics, which weigh 1 together.
        feedback_weight: What people's feedback weighs there, and beside a session's composites.
        path: Folder of the score files, within the project.
        retention_days: How many days of them are kept, counted back from the last event.
        display: What the summary shows.
        components: By id, in their order.
    """

    enabled: bool
    title: str
    zone: tzinfo
    session_weights: Mapping[str, float]
    sessions: Mapping[str, tuple[str, ...]]
    grades: tuple[Grade, ...]
    levels: tuple[Level, ...]
    short_term_days: int
    long_term_days: int
    regressions: Sensitivity
    gate_least: int
    benchmark_weight: float
    feedback_weight: float
    path: str
    retention_days: int
    display: Display
    components: Mapping[str, Component]

    @property
    def score_ids(self) -> tuple[str, ...]:
        """Return every score id: the components, then ``session.NAME`` of each composite and of the overall score."""
        return (*self.components, *(f"{SESSION}{name}" for name in (*self.sessions, OVERALL)))


@lru_cache(maxsize=1024)
def component_id(name: str) -> str:
    """Normalise a component's name: ``AC-01``, ``ac01`` and ``score.ac01`` are one.

    A name without a letter or digit stays unchanged, so that it never becomes empty.
    """
    return "".join(filter(str.isalnum, name.casefold().removeprefix(_SCORE))) or name


def score_id(name: str) -> str:
    """Normalise a score's name: ``score.session.overall`` is ``session.overall``, ``AC-06`` is ``ac06``."""
    plain = name.removeprefix(_SCORE)
    return plain if plain.startswith(SESSION) else component_id(plain)
