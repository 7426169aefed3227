"""The configuration of the scores as values: components, metrics, grades, levels. No code names a component.

The classes have the keys of prompts/scoring-config.yaml, the default, over which a project's own file is laid key by
key. ``parser`` structures the document into them by their annotations.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the parser reads the annotations
from datetime import tzinfo  # noqa: TC003 - as above
from functools import lru_cache
from typing import Annotated, Final

import attrs

from tallybook.ledger.events import MAX_INT

SESSION: Final = "session."
_SCORE: Final = "score."
OVERALL: Final = "overall"
COUNT: Final = "_count"
TOTAL: Final = "_total"


@attrs.frozen
class Bounds:
    """The bounds of a number in the document, both included.

    Attributes:
        least: The least value.
        most: The greatest.
    """

    # A number of 400 digits in a configuration once ended in a traceback.
    least: float = -MAX_INT
    most: float = MAX_INT


Number = Annotated[float, Bounds()]
Positive = Annotated[float, Bounds(0)]
Share = Annotated[float, Bounds(0, 1)]
Points = Annotated[float, Bounds(0, 100)]
WholePoints = Annotated[int, Bounds(0, 100)]
Days = Annotated[int, Bounds(1, 1_000_000)]


@attrs.frozen
class Metric:
    """How one part of a component's score is measured.

    Attributes:
        name: Its key in the document.
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
    form: str = "linear"
    of: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    per: str = ""
    counts: tuple[str, ...] = ()
    worst: Number = 0
    best: Number = 100
    empty: Points | None = None
    missing: Points | None = None
    rest: bool = False
    weight: Positive = 1


# A metric under a misspelt name was in no score and nobody said so; the view counts what is not among these names.
def _find_value_names(component: Component) -> frozenset[str]:
    """Return the names of all values that can count in a component's score."""
    names = set(component.counters)
    for metric in component.metrics:
        names |= {metric.of, f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}", metric.per, *metric.counts}
    return frozenset(names - {""})


@attrs.frozen(kw_only=True)
class Component:
    """A part of the agent that is scored.

    Attributes:
        id: Its key in the document and its name in files and options: lower-case letters and digits.
        enabled: Whether it is scored; one that is not is left out of the composites as well.
        name: Its name for people.
        counters: Names of values that add up over a session; of other values the last counts.
        metrics: The metrics of its score, one or more.
        value_names: Names of all values that its metrics read, in every form, and the counters.
    """

    id: str
    enabled: bool = True
    name: str = attrs.field(default=attrs.Factory(lambda self: self.id, takes_self=True))
    counters: tuple[str, ...] = ()
    metrics: tuple[Metric, ...]
    value_names: frozenset[str] = attrs.field(init=False, default=attrs.Factory(_find_value_names, takes_self=True))

    def adds_up(self, value: str) -> bool:
        """Return whether the values under a name add up over a session."""
        # Each event of a share brings its own part: of several, the last alone would say nothing of the session.
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
    least: WholePoints
    status: str
    action: str


@attrs.frozen
class AlertLevel:
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
class Thresholds:
    """The bounds of the alert levels, the mildest first; scores strictly below one alert."""

    warning: WholePoints
    alert: WholePoints
    critical: WholePoints


@attrs.frozen
class Notifications:
    """The channels that each level notifies, as well as those of the milder levels."""

    warning: tuple[str, ...]
    alert: tuple[str, ...]
    critical: tuple[str, ...]


@attrs.frozen
class Trends:
    """The lengths of trends, in days with data.

    Attributes:
        short_term_days: Days on each side of a short trend.
        long_term_days: Days on each side of a long one, more than those.
    """

    short_term_days: Days
    long_term_days: Days


@attrs.frozen
class Sensitivity:
    """The thresholds of regressions.

    Attributes:
        points: A score may be so many points below its baseline, and no more.
        z_score: And so many standard deviations below the mean of its history.
        least_sessions: How long a history has to be for that.
        turn: By so many points the average has to fall for a trend to have turned; 0 for by any.
    """

    points: Points
    z_score: Annotated[float, Bounds(0.1)]
    least_sessions: Annotated[int, Bounds(2, 1_000_000)]
    turn: Points


@attrs.frozen
class Gates:
    """The bound of gates.

    Attributes:
        least: Below this a component blocks its own evolution.
    """

    least: WholePoints


@attrs.frozen
class Weight:
    """The weight of benchmarks, or of people's feedback.

    Attributes:
        weight: It compares with 1 for all metrics of a component together, and for a session's composites; that of
            feedback with the weight of what was measured.
    """

    weight: Points


@attrs.frozen
class Storage:
    """The score files.

    Attributes:
        path: Their folder, within the project.
        retention_days: How many days of them are stored, counted back from the last event.
    """

    path: str
    retention_days: Days


@attrs.frozen
class Display:
    """The options of the summary.

    Attributes:
        show_grades: Letters next to scores.
        show_trends: Arrows.
        show_recommendations: Focus areas.
        min_coverage: The share of its weight that must be measured before a score is shown to people and can open a
            gate.
    """

    show_grades: bool
    show_trends: bool
    show_recommendations: bool
    min_coverage: Share


def _make_levels(config: Config) -> tuple[AlertLevel, ...]:
    channels = attrs.asdict(config.notifications)
    return tuple(AlertLevel(name, below, channels[name]) for name, below in attrs.asdict(config.thresholds).items())


@attrs.frozen
class Config:
    """The whole configuration.

    Attributes:
        enabled: Whether scores are shown and judged, and score files written.
        title: The heading of the summary.
        timezone: The time zone in which days begin.
        session_weights: Composite → its weight in the overall score, in order; they sum to 1.
        sessions: Composite → the components that it is the average of.
        thresholds: The bounds of the alert levels.
        notifications: Their channels.
        grades: Best first; the last one begins at 0.
        trends: The lengths of trends.
        regressions: From where on a drop is a regression.
        gates: The bound of gates.
        benchmarks: The weight of benchmarks.
        feedback: The weight of people's feedback.
        storage: Where the score files are, and for how long.
        display: What the summary shows.
        components: By id, in their order.
        levels: Levels of alert, the mildest first.
    """

    enabled: bool
    title: str
    timezone: tzinfo
    session_weights: Mapping[str, Share]
    sessions: Mapping[str, tuple[str, ...]]
    thresholds: Thresholds
    notifications: Notifications
    grades: tuple[Grade, ...]
    trends: Trends
    regressions: Sensitivity
    gates: Gates
    benchmarks: Weight
    feedback: Weight
    storage: Storage
    display: Display
    components: Mapping[str, Component]
    levels: tuple[AlertLevel, ...] = attrs.field(init=False, default=attrs.Factory(_make_levels, takes_self=True))

    @property
    def score_ids(self) -> tuple[str, ...]:
        """Return every score id: the components, then ``session.NAME`` of each composite and of the overall score."""
        return (*self.components, *(f"{SESSION}{name}" for name in (*self.sessions, OVERALL)))


@lru_cache(maxsize=1024)
def component_id(name: str) -> str:
    """Normalise a component's name: ``AC-01``, ``ac01`` and ``score.ac01`` are one.

    A name without a letter or digit stays unchanged, so that it never becomes empty.
    """
    # The specification writes AC-01 for people, ac01 in files and score.ac01 as the id of the score.
    return "".join(filter(str.isalnum, name.casefold().removeprefix(_SCORE))) or name


def score_id(name: str) -> str:
    """Normalise a score's name: ``score.session.overall`` is ``session.overall``, ``AC-06`` is ``ac06``."""
    # A composite keeps its dot: without it, session.overall would pass for the name of a component.
    plain = name.removeprefix(_SCORE)
    return plain if plain.startswith(SESSION) else component_id(plain)
