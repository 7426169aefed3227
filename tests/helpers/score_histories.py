"""Helpers for tests of scores: configurations as YAML, measurements, and histories of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from tallybook.ledger.events import MetricsRecorded, Numbers
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.fold import fold
from tallybook.projections.scores.config import overlay, read_config
from tallybook.projections.scores.inputs import Session
from tallybook.projections.scores.scoring import Score, component_score
from tallybook.projections.scores.view import scores_view
from tallybook.projections.surfaces.scores import configuration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallybook.projections.scores.config import Config
    from tallybook.projections.scores.view import Scores

NOON = "2026-01-16T12:00:00"
LINEAR = {
    "ac03": ("thoroughness", "accuracy", "actionability"),
    "ac04": ("checkpoint_reliability", "resume_success", "efficiency"),
    "ac05": ("pattern_detection", "insight_quality", "coverage"),
    "ac07": ("discovery_rate", "relevance", "adoption_rate"),
    "ac08": ("health_accuracy", "cleanup_efficiency", "freshness"),
    "ac09": ("state_preservation", "handoff_quality", "completeness"),
}
"""The components without a formula, and the three measures of each in the table "Component Scores"."""


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the packaged default; no test may change it."""
    return configuration.default()


def config_of(own: str = "") -> Config:
    """Return the default configuration with YAML merged below ``scoring``."""
    return read_config(overlay(document(), {"scoring": yaml.safe_load(own) or {}}))


def metrics(component: str, **values: float) -> MetricsRecorded:
    """Return metrics of a component."""
    return MetricsRecorded(component, Numbers(values), "")


def line(seq: int, event: Any, session: str | None = "s1", at: str = NOON, when: str | None = None) -> EventRecord:
    """Return an event with its position and its times, which are given to the second."""
    happened = None if when is None else f"{when}.000000Z"
    return EventRecord(seq, f"{at}.000000Z", event, f"id-{seq:03}", Author("test", session), None, happened)


def session_of(*events: Any) -> Session:
    """Return a session with these events."""
    session = Session("s1")
    for seq, event in enumerate(events, 1):
        session.add_event(line(seq, event))
    return session


def scored(component: str, own: str = "", /, **values: float) -> Score:
    """Return the score of a component with these measurements, by the default with YAML merged into it."""
    config = config_of(own)
    return component_score(config.components[component], session_of(metrics(component, **values)), config)


def value_of(component: str, own: str = "", /, **values: float) -> int | None:
    """Return the same score as a number."""
    return scored(component, own, **values).value


def batches(*records: EventRecord) -> list[Batch]:
    """Return each record as a batch of its own."""
    return [make_batch(record) for record in records]


def folded(records: Iterable[EventRecord], config: Config | None = None) -> Scores:
    """Return the view of these records in this order, counted."""
    return fold(scores_view(config or config_of()), batches(*records)).count()
