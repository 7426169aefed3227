"""Reading the configuration of the scores: the default, and a project's own changes."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from helpers.score_histories import config_of
from tallybook.projections.scores.config import AlertLevel, Display, Grade, Metric, Sensitivity

if TYPE_CHECKING:
    from tallybook.projections.scores.config import Config

SPECIFIED = """
enabled: true
session_weights:
  efficiency: 0.20
  effectiveness: 0.35
  improvement: 0.25
  handoff: 0.20
thresholds:
  warning: 70
  alert: 60
  critical: 50
trends:
  short_term_days: 7
  long_term_days: 30
storage:
  path: .claude/metrics/scores/
  retention_days: 365
display:
  show_grades: true
  show_trends: true
  show_recommendations: true
"""
"""Every key under ``scoring`` of the specification's scoring-config.yaml."""


def metrics_of(config: Config, component: str) -> dict[str, Metric]:
    """Return the metrics of a component by name."""
    return {metric.name: metric for metric in config.components[component].metrics}


# The default


def test_the_specification_is_the_default() -> None:
    """The scoring-config.yaml of the specification, merged into the default, changes nothing."""
    assert config_of() == config_of(SPECIFIED)
    assert config_of() == config_of("components: {}")


def test_the_default_has_the_tables_of_the_specification() -> None:
    """Weights, grades, alert levels, trends and storage are those of its tables."""
    config = config_of()
    assert {"efficiency": 0.2, "effectiveness": 0.35, "improvement": 0.25, "handoff": 0.2} == config.session_weights
    grades = [
        Grade("A", 90, "Excellent", "Maintain"),
        Grade("B", 80, "Good", "Minor improvements"),
        Grade("C", 70, "Acceptable", "Review needed"),
        Grade("D", 60, "Concerning", "Improvement priority"),
        Grade("F", 0, "Critical", "Immediate attention"),
    ]
    assert grades == list(config.grades)
    levels = [
        AlertLevel("warning", 70, ("log", "dashboard")),
        AlertLevel("alert", 60, ("user",)),
        AlertLevel("critical", 50, ("block evolution",)),
    ]
    assert levels == list(config.levels)
    assert (7, 30, 70, 365) == (
        config.trends.short_term_days,
        config.trends.long_term_days,
        config.gates.least,
        config.storage.retention_days,
    )
    assert ".claude/metrics/scores/" == config.storage.path
    assert Sensitivity(5, 2, 10, 2) == config.regressions
    assert Display(True, True, True, 0.2) == config.display  # noqa: FBT003 - in the order of the document
    assert ("AGENT HEALTH SCORE", True, UTC) == (config.title, config.enabled, config.timezone)
    assert (0.25, 0.25) == (config.benchmarks.weight, config.feedback.weight)


def test_the_default_has_the_nine_components() -> None:
    """Ids, names and composites are those of "Score Types" and "Summary Format"."""
    config = config_of()
    expected = {
        "ac01": "AC-01 Self-Launch",
        "ac02": "AC-02 Wiggum Loop",
        "ac03": "AC-03 Milestone Review",
        "ac04": "AC-04 JICM",
        "ac05": "AC-05 Self-Reflection",
        "ac06": "AC-06 Self-Evolution",
        "ac07": "AC-07 R&D Cycles",
        "ac08": "AC-08 Maintenance",
        "ac09": "AC-09 Session Completion",
    }
    assert list(expected.items()) == [(one.id, one.name) for one in config.components.values()]
    assert {
        "efficiency": ("ac01", "ac04"),
        "effectiveness": ("ac02", "ac03"),
        "improvement": ("ac05", "ac06", "ac07", "ac08"),
        "handoff": ("ac09",),
    } == config.sessions


# Laid over it


def test_a_false_value_is_left_out() -> None:
    """A component, also one that is only switched off, is out of the composites too; a metric and a grade are out."""
    own = """
    components: {ac03: false, ac08: {enabled: false}, ac09: {metrics: {completeness: false}}, nobody: false}
    grades: {A: false}
    """
    config = config_of(own)
    assert "ac03" not in config.components
    assert "ac08" not in config.components
    assert [("ac02",), ("ac05", "ac06", "ac07")] == [config.sessions[name] for name in ("effectiveness", "improvement")]
    assert ["state_preservation", "handoff_quality"] == list(metrics_of(config, "ac09"))
    assert ["B", "C", "D", "F"] == [grade.name for grade in config.grades]
