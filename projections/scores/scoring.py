"""Scoring a session: from its measurements to the scores of components, composites and the session. Pure.

Source: "Score Types" and "Scoring Algorithms" of the scoring framework. Composites are cut to whole points, and the
overall score is made of those, as its example has it: 92, 88, 85, 95, 78, 82, 75, 90, 94 → 93, 86, 81, 94, and 87.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.projections.scores.configuration.model import OVERALL, SESSION
from tallybook.projections.scores.measures import FULL, half_up, points, truncated, weighted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.projections.scores.configuration.model import Component, Config
    from tallybook.projections.scores.session_inputs import Session

BENCHMARKS: Final = "benchmarks"
FEEDBACK: Final = "feedback"


@attrs.frozen
class Part:
    """A part of a component's score.

    Attributes:
        name: The metric, or ``benchmarks`` or ``feedback``.
        points: Its points, 0 to 100; None for no data.
        weight: Its configured weight.
        measured: Whether it was measured; a configured substitute (``missing``) has points without that.
    """

    name: str
    points: float | None
    weight: float
    measured: bool


@attrs.frozen
class Score:
    """A component's score in a session.

    Attributes:
        value: 0 to 100.
        coverage: The share of the weight of its metrics, and of its benchmarks where it has some, that was measured,
            0 to 1; feedback measures nothing.
        parts: Its parts, those without data as well.
    """

    value: int
    coverage: float
    parts: tuple[Part, ...]


def component_score(component: Component, session: Session, config: Config) -> Score | None:
    """Return a component's score in a session, None where nothing of it was measured."""
    measures = _measures(component, session, config)
    parts = (*measures, *_feedback(measures, component, session, config))
    value = weighted((part.points, part.weight) for part in parts if part.points is not None)
    if value is None:
        return None
    measured = sum(part.weight for part in measures if part.measured)
    return Score(half_up(value), measured / sum(part.weight for part in measures), parts)


def parts_of(component: Component, session: Session, config: Config) -> tuple[Part, ...]:
    """Return the parts of a component's score in a session, those without data as well."""
    measures = _measures(component, session, config)
    return (*measures, *_feedback(measures, component, session, config))


def _measures(component: Component, session: Session, config: Config) -> list[Part]:
    """Return the metrics, and the benchmarks where there are some; their weight compares with 1 for all metrics."""
    measures = _metrics(component, session)
    if (benchmarks := session.benchmarks.get(component.id)) and benchmarks.whole and config.benchmarks.weight:
        weight = config.benchmarks.weight * _total(component)
        measures.append(Part(BENCHMARKS, benchmarks.quotient * FULL, weight, measured=True))
    return measures


def _metrics(component: Component, session: Session) -> list[Part]:
    measured = session.measured(component)
    scored = [(metric, points(metric, measured)) for metric in component.metrics]
    some = any(one is not None for _, one in scored)
    return [
        Part(metric.name, metric.missing if one is None and some else one, metric.weight, one is not None)
        for metric, one in scored
    ]


def _feedback(measures: Sequence[Part], component: Component, session: Session, config: Config) -> Iterator[Part]:
    """Yield the part for feedback.

    It adjusts what was measured and is no measurement: its weight compares with 1 for all metrics, or with the weight
    of what was measured where that is less.
    """
    if (feedback := session.feedback.get(component.id)) and config.feedback.weight:
        measured = sum(part.weight for part in measures if part.points is not None)
        weight = config.feedback.weight * min(measured, _total(component))
        yield Part(FEEDBACK, feedback.quotient, weight, measured=True)


def _total(component: Component) -> float:
    return sum(metric.weight for metric in component.metrics)


def scores(session: Session, config: Config) -> dict[str, int]:
    """Return score id → score of a session in the configuration's order, without scores that have no data."""
    return covered(session, config)[0]


def covered(session: Session, config: Config) -> tuple[dict[str, int], dict[str, float]]:
    """Return the scores of a session, and of each the share of its weight that was measured, 0 to 1.

    A benchmark without a session has a component score only, and no composites.
    """
    # Most sessions measure only a few components.
    present = session.components
    component_scores = {
        name: score
        for name, component in config.components.items()
        if name in present and (score := component_score(component, session, config)) is not None
    }
    values = {name: score.value for name, score in component_scores.items()}
    shares = {name: score.coverage for name, score in component_scores.items()}
    if not session.named:
        return values, shares
    feedback = session.feedback.get("")
    made = composites(values, config, feedback.quotient if feedback else None)
    whole = _shares(shares, config)
    return values | made, shares | {name: whole[name] for name in made}


def _shares(components: Mapping[str, float], config: Config) -> dict[str, float]:
    """Return the measured share of each composite and of the overall score; no data counts as 0 here."""
    made = {
        name: sum(components.get(part, 0.0) for part in parts) / len(parts)
        for name, parts in config.sessions.items()
        if parts
    }
    overall = weighted((share, config.session_weights[name]) for name, share in made.items())
    return {f"{SESSION}{name}": share for name, share in made.items()} | {f"{SESSION}{OVERALL}": overall or 0.0}


def composites(components: Mapping[str, int], config: Config, feedback: float | None = None) -> dict[str, int]:
    """Return the composites and the overall score of components' scores, without those that have no data.

    Args:
        components: Component → score.
        config: Their parts and weights.
        feedback: What people gave the session itself, 0 to 100, None without feedback. It adjusts what was measured:
            its weight compares with that of the composites that there are.
    """
    made = {
        name: sum(there) // len(there)
        for name, parts in config.sessions.items()
        if (there := [components[part] for part in parts if part in components])
    }
    weights: list[tuple[float, float]] = [(value, config.session_weights[name]) for name, value in made.items()]
    if feedback is not None:
        weights.append((feedback, config.feedback.weight * sum(weight for _, weight in weights)))
    overall = weighted(weights)
    return {f"{SESSION}{name}": value for name, value in made.items()} | (
        {} if overall is None else {f"{SESSION}{OVERALL}": truncated(overall)}
    )
