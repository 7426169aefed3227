"""Reading the configuration of the scores: the default, and a project's own changes."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from helpers.score_histories import config_of
from tallybook.projections.scores.configuration.model import AlertLevel, Display, Grade, Metric, Sensitivity
from tallybook.projections.scores.configuration.parser import DocumentError, overlaid

if TYPE_CHECKING:
    from tallybook.projections.scores.configuration.model import Config

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


def test_every_score_has_an_id() -> None:
    """The components come first, then the composites in their order, and the overall score last."""
    names = ("efficiency", "effectiveness", "improvement", "handoff", "overall")
    expected = (*(f"ac0{n}" for n in range(1, 10)), *(f"session.{name}" for name in names))
    assert expected == config_of().score_ids


@pytest.mark.parametrize("component", ["ac02", "ac06"])
def test_only_counters_are_summed(component: str) -> None:
    """Counts are summed and averages are not; a pair of counts always is."""
    adds_up = config_of().components[component].adds_up
    assert [True] * 4 == [adds_up(name) for name in ("total", "avg_iterations_count", "x_total", "x_count")]
    assert [False] * 4 == [adds_up(name) for name in ("avg_iterations", "review_score", "target", "count")]


# Laid over it


def test_keys_are_merged_one_by_one() -> None:
    """Missing keys keep their default, down to a single bound of a single metric."""
    config = config_of("components: {ac01: {metrics: {startup_time: {best: 1000}}}}")
    ours = metrics_of(config, "ac01")
    default = metrics_of(config_of(), "ac01")
    assert attrs.evolve(default["startup_time"], best=1000) == ours["startup_time"]
    assert list(default) == list(ours)
    assert config_of() == attrs.evolve(config, components=config_of().components)


def test_a_metric_with_a_form_replaces_the_default() -> None:
    """No bound, weight or place of the default's metric of that name remains."""
    config = config_of("components: {ac01: {metrics: {startup_time: {form: ratio, per: starts}}}}")
    assert Metric("startup_time", "ratio", "startup_time", per="starts") == metrics_of(config, "ac01")["startup_time"]


def test_a_metric_may_be_called_form() -> None:
    """A metric of that name changes none of its neighbours."""
    config = config_of("components: {ac03: {metrics: {form: {weight: 2}}}}")
    assert ["thoroughness", "accuracy", "actionability", "form"] == list(metrics_of(config, "ac03"))


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


def test_a_composite_is_left_out_with_its_weight() -> None:
    """A composite that is false in both places is left out, and the weights of the others sum to 1."""
    config = config_of("{sessions: {handoff: false}, session_weights: {handoff: false, efficiency: 0.4}}")
    assert {"efficiency": 0.4, "effectiveness": 0.35, "improvement": 0.25} == config.session_weights
    assert ["efficiency", "effectiveness", "improvement"] == list(config.sessions)


def test_a_list_of_all_names_orders_them() -> None:
    """A new grade has its place if all are listed; a new component is last if they are not."""
    new = "A+: {least: 97, status: Superb, action: Maintain}"
    config = config_of(f"{{grades: {{{new}, A: {{}}, B: {{}}, C: {{}}, D: {{}}, F: {{}}}}}}")
    assert ["A+", "A", "B", "C", "D", "F"] == [grade.name for grade in config.grades]
    assert 90 == config.grades[1].least
    reversed_ = config_of("session_weights: {handoff: 0.2, improvement: 0.25, effectiveness: 0.35, efficiency: 0.2}")
    assert ["handoff", "improvement", "effectiveness", "efficiency"] == list(reversed_.session_weights)
    added = config_of("components: {aa: {metrics: {speed: {}}}}")
    assert "aa" == list(added.components)[-1]


def test_a_metric_has_defaults() -> None:
    """A name alone is a percentage of that name, of weight 1."""
    config = config_of("components: {mine: {metrics: {speed: {}}}}")
    assert Metric("speed", "linear", "speed", worst=0, best=100, weight=1) == metrics_of(config, "mine")["speed"]
    assert ("mine", ()) == (config.components["mine"].name, config.components["mine"].counters)


def test_neither_document_is_changed() -> None:
    """Merging them makes a third."""
    default: dict[str, Any] = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    own: dict[str, Any] = {"a": {"c": {"d": 4}, "f": 5}}
    assert {"a": {"b": 1, "c": {"d": 4}, "f": 5}, "e": 3} == overlaid(default, own)
    assert ({"a": {"b": 1, "c": {"d": 2}}, "e": 3}, {"a": {"c": {"d": 4}, "f": 5}}) == (default, own)


@pytest.mark.parametrize("own", ["{worst: 0, best: 0.5}", "{form: inverse, worst: 0.5, best: 0}"])
def test_bounds_may_be_close_together(own: str) -> None:
    """Any two different numbers are bounds."""
    bounds = metrics_of(config_of(f"components: {{mine: {{metrics: {{x: {own}}}}}}}"), "mine")["x"]
    assert {0, 0.5} == {bounds.worst, bounds.best}


def test_weights_sum_to_1_but_for_what_digits_leave() -> None:
    """A billionth too much is accepted; twice that is not."""
    weights = "session_weights: {{efficiency: {}, effectiveness: 0.25, improvement: 0.25, handoff: 0.25}}"
    assert 0.25 + 2**-30 == config_of(weights.format(0.25 + 2**-30)).session_weights["efficiency"]
    with pytest.raises(DocumentError, match=r"^scoring\.session_weights sum to 1\.00000000186, and have to sum to 1$"):
        config_of(weights.format(0.25 + 2**-29))


@pytest.mark.parametrize("flags", [(True, False, False), (False, True, False), (False, False, True)])
def test_each_part_of_the_display_has_a_key(flags: tuple[bool, bool, bool]) -> None:
    """Grades, trends and recommendations are shown or not, each by itself."""
    names = ("show_grades", "show_trends", "show_recommendations")
    own = ", ".join(f"{name}: {str(flag).lower()}" for name, flag in zip(names, flags, strict=True))
    assert (
        Display(*flags, min_coverage=0.2) == config_of(f"{{enabled: false, title: Health, display: {{{own}}}}}").display
    )


@pytest.mark.parametrize(("value", "expected"), [("0", 0), ("0.35", 0.35), ("1", 1)])
def test_the_least_coverage_of_an_overall_score_is_a_share(value: str, expected: float) -> None:
    """It is a number from 0 to 1; a percentage is refused by its key."""
    assert expected == config_of(f"display: {{min_coverage: {value}}}").display.min_coverage
    with pytest.raises(DocumentError, match=r"^scoring\.display\.min_coverage must be from 0 to 1, not 20$"):
        config_of("display: {min_coverage: 20}")


@pytest.mark.parametrize("zone", ["utc", "UTC", "Utc"])
def test_utc_is_always_known(zone: str) -> None:
    """No table of time zones is read for it."""
    assert config_of(f"timezone: {zone}").timezone is UTC
