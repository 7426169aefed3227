"""Parsing the configuration of the scores from a YAML document; an error names the key that is wrong."""

from __future__ import annotations

from datetime import UTC
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tallybook.projections.scores.configuration.document_reader import Reader, told
from tallybook.projections.scores.configuration.model import (
    OVERALL,
    Component,
    Config,
    Display,
    Grade,
    Level,
    Metric,
    Sensitivity,
    component_id,
)
from tallybook.projections.scores.grades import BLOCK, DASHBOARD, LOG, USER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import tzinfo

SUM_TOLERANCE: Final = 2**-30
NOTIFIED: Final = (LOG, DASHBOARD, USER, BLOCK)
FORMS: Final = ("linear", "inverse", "ratio", "boolean")


def overlaid(default: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document overlaid with another, key by key; false values stay, and `read_config` leaves their keys out.

    A metric with a ``form`` of its own replaces the default metric instead of being merged into it. Keys keep their
    order, unless the other document has them all.
    """
    merged = {} if default.keys() <= own.keys() else dict(default)
    for key, value in own.items():
        below = default.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and not isinstance(value.get("form"), str):
            merged[key] = overlaid(below, value)
        else:
            merged[key] = value
    return merged


def read_config(document: Mapping[str, Any]) -> Config:
    """Parse a whole configuration, the default overlaid with a project's own.

    Raises:
        DocumentError: A key is not known, is missing, or cannot be what it is; weights do not sum to 1; thresholds
            are out of order.
    """
    root = Reader.of(document).only("scoring").inner("scoring")
    root.only(*_KEYS)
    parts = [(_component(part), _enabled(part)) for part in root.inner("components").parts()]
    components = {one.id: one for one, enabled in parts if enabled}
    weights, sessions = root.inner("session_weights"), root.inner("sessions")
    trends, storage, display = (root.inner(name).only(*_KEYS[name]) for name in ("trends", "storage", "display"))
    short_term_days = trends.whole("short_term_days", 1)
    config = Config(
        root.flag("enabled"),
        root.text("title"),
        _zone(root),
        {name: weights.number(name, 0, 1) for name in weights.names},
        {name: _parts(sessions, name, root) for name in sessions.names},
        _grades(root.inner("grades")),
        _levels(root.inner("thresholds"), root.inner("notifications")),
        short_term_days,
        trends.whole("long_term_days", 1),
        _regressions(root.inner("regressions"), short_term_days),
        root.inner("gates").only("least").whole("least", 0, 100),
        root.inner("benchmarks").only("weight").number("weight", 0, 100),
        root.inner("feedback").only("weight").number("weight", 0, 100),
        _path(storage),
        storage.whole("retention_days", 1),
        Display(
            display.flag("show_grades"),
            display.flag("show_trends"),
            display.flag("show_recommendations"),
            display.number("min_coverage", 0, 1),
        ),
        components,
    )
    _check(config, root)
    return config


_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "enabled": (),
    "title": (),
    "timezone": (),
    "session_weights": (),
    "sessions": (),
    "thresholds": (),
    "notifications": (),
    "grades": (),
    "trends": ("short_term_days", "long_term_days"),
    "regressions": (),
    "gates": (),
    "benchmarks": (),
    "feedback": (),
    "storage": ("path", "retention_days"),
    "display": ("show_grades", "show_trends", "show_recommendations", "min_coverage"),
    "components": (),
}
"""Key of the configuration → its inner keys, where those are fixed."""

_USED: Final = {
    "linear": ("of", "counts", "worst", "best"),
    "inverse": ("of", "counts", "worst", "best"),
    "ratio": ("of", "per", "empty", "rest"),
    "boolean": ("of",),
}
"""Form of a metric → its keys other than ``form``, ``weight`` and ``missing``."""


def _parts(sessions: Reader, name: str, root: Reader) -> tuple[str, ...]:
    """Return the components of a composite, without disabled ones."""
    components = root.inner("components").values
    for part in sessions.texts(name):
        if part not in components:
            raise sessions.fault(f"names {told(part)}, which is not a component; use {', '.join(components)}", name)
    # A component disabled in one place is disabled everywhere, so that one key is enough.
    there = {part.name for part in root.inner("components").parts() if _enabled(part)}
    return tuple(part for part in sessions.texts(name) if part in there)


def _enabled(component: Reader) -> bool:
    return component.flag("enabled", default=True)


def _zone(root: Reader) -> tzinfo:
    name = root.text("timezone")
    try:
        # UTC works without an installed time zone database.
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise root.fault("is not a known time zone; use one such as Europe/Berlin", "timezone") from error


def _path(storage: Reader) -> str:
    """Return the folder of the score files; it must lie in the project, because old files in it are deleted."""
    path = storage.text("path")
    # Windows paths know both kinds of slashes and drives, so this rejects what any system would.
    parsed = PureWindowsPath(path)
    if parsed.anchor or ".." in parsed.parts or not parsed.parts or "\0" in path:
        raise storage.fault(f"is a folder within the project, and not {told(path)}", "path")
    return path


def _component(part: Reader) -> Component:
    part.only("enabled", "name", "counters", "metrics")
    id_ = component_id(part.name)
    if part.name != id_ or not id_.isalnum():
        raise part.fault(f"is called by small letters and digits alone, such as {id_ if id_.isalnum() else 'ac01'}")
    metrics = tuple(map(_metric, part.inner("metrics").parts()))
    if not metrics:
        raise part.fault("names none", "metrics")
    return Component(part.name, part.text("name", part.name), metrics, frozenset(part.texts("counters", ())))


def _metric(part: Reader) -> Metric:
    form = part.text("form", FORMS[0])
    if form not in FORMS:
        raise part.fault(f"is {told(form)}, and can be {', '.join(FORMS)}", "form")
    part.only("form", "weight", "missing", *_USED[form])
    worst, best = (0.0, 100.0) if form == "linear" else (None, None)
    bounded = form in {"linear", "inverse"}
    metric = Metric(
        part.name,
        form,
        part.text("of", part.name),
        part.text("per") if form == "ratio" else "",
        _counts(part),
        part.number("worst", default=worst) if bounded else 0,
        part.number("best", default=best) if bounded else 100,
        part.number("empty", 0, 100) if part.has("empty") else None,
        part.number("missing", 0, 100) if part.has("missing") else None,
        part.flag("rest", default=False),
        part.number("weight", 0, default=1),
    )
    less, more = (metric.worst, metric.best) if form == "linear" else (metric.best, metric.worst)
    if bounded and less >= more:
        place = "above" if form == "linear" else "below"
        raise part.fault(f"is {metric.best:g}, and lies {place} worst, {metric.worst:g}, in the form {form}", "best")
    if not metric.weight > 0:
        raise part.fault("is above 0; a metric that is false is left out", "weight")
    return metric


def _counts(part: Reader) -> tuple[()] | tuple[str, str]:
    match part.texts("counts", ()):
        case ():
            return ()
        case (one, whole):
            return one, whole
    raise part.fault("names a part and a whole", "counts")


def _grades(part: Reader) -> tuple[Grade, ...]:
    grades = tuple(
        Grade(one.name, one.whole("least", 0, 100), one.text("status"), one.text("action"))
        for one in (inner.only("least", "status", "action") for inner in part.parts())
    )
    bounds = [grade.least for grade in grades]
    if not bounds or bounds != sorted(set(bounds), reverse=True) or bounds[-1] != 0:
        raise part.fault("are out of order: each begins below the one before it, and the last one at 0")
    return grades


def _levels(thresholds: Reader, notifications: Reader) -> tuple[Level, ...]:
    names = ("warning", "alert", "critical")
    thresholds.only(*names)
    notifications.only(*names)
    levels = tuple(Level(name, thresholds.whole(name, 0, 100), _notified(notifications, name)) for name in names)
    bounds = [level.below for level in levels]
    if bounds != sorted(set(bounds), reverse=True):
        stand = ", ".join(f"{level.name} {level.below}" for level in levels)
        raise thresholds.fault(f"are out of order: warning lies above alert, and alert above critical ({stand})")
    return levels


def _notified(notifications: Reader, level: str) -> tuple[str, ...]:
    """Return the channels of a level; a misspelt one is an error, as it could leave gates open."""
    words = notifications.texts(level)
    for word in words:
        if word not in NOTIFIED:
            raise notifications.fault(f"names {told(word)}; there are {', '.join(NOTIFIED)}", level)
    return words


def _regressions(part: Reader, trend_days: int) -> Sensitivity:
    part.only("points", "z_score", "least_sessions", "turn")
    return Sensitivity(
        part.number("points", 0, 100),
        part.number("z_score", 0.1),
        part.whole("least_sessions", 2),
        trend_days,
        part.number("turn", 0, 100),
    )


def _check(config: Config, root: Reader) -> None:
    """Raise DocumentError for values that contradict each other."""
    total = sum(config.session_weights.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise root.fault(f"sum to {total:.12g}, and have to sum to 1", "session_weights")
    for here, there in (("session_weights", "sessions"), ("sessions", "session_weights")):
        for name in _without(getattr(config, here), getattr(config, there)):
            raise root.fault(f"has nothing beside it in {there}", here, name)
    if OVERALL in config.sessions:
        raise root.fault("is made of the others, and cannot be one of them", "sessions", OVERALL)
    if config.long_term_days <= config.short_term_days:
        raise root.fault(f"lies above short_term_days, {config.short_term_days}", "trends", "long_term_days")


def _without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]
