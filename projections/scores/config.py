"""The configuration of the scores as values: components, metrics, grades, levels. No code names a component.

The classes have the keys of prompts/scoring-config.yaml, the default, over which a project's own file is laid key by
key. `read_config` structures the document into them by their annotations.

Every error is one line that names the key, what is wrong there, and what it can be. The errors of cattrs and msgspec
name types and not keys by their names, so that either needs a hook for each type; this is shorter, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, tzinfo
from functools import cached_property, lru_cache
from pathlib import PureWindowsPath
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin

import attrs

from tallybook.ledger.playbook_constants import MAX_INT

if TYPE_CHECKING:
    Keys = tuple[str, ...]

SESSION: Final = "session."
_SCORE: Final = "score."
OVERALL: Final = "overall"
COUNT: Final = "_count"
TOTAL: Final = "_total"

LOG: Final = "log"
"""Channel: `score` and `score gate` print the alert to standard error."""
DASHBOARD: Final = "dashboard"
"""Channel: the alert is in the feed of the dashboard."""
USER: Final = "user"
"""Channel: the alert is at the top of the summary."""
BLOCK: Final = "block evolution"
"""Channel: the alert closes every gate."""


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


@attrs.frozen(kw_only=True)
class Component:
    """A part of the agent that is scored.

    Attributes:
        id: Its key in the document and its name in files and options: lower-case letters and digits.
        enabled: Whether it is scored; one that is not is left out of the composites as well.
        name: Its name for people.
        counters: Names of values that add up over a session; of other values the last counts.
        metrics: The metrics of its score, one or more.
    """

    id: str
    enabled: bool = True
    name: str = attrs.field(default=attrs.Factory(lambda self: self.id, takes_self=True))
    counters: tuple[str, ...] = ()
    metrics: tuple[Metric, ...]

    @cached_property
    def value_names(self) -> frozenset[str]:
        """Return the names of all values that its metrics read, in every form, and of the counters."""
        # A metric under a misspelt name was in no score and nobody said so; the view counts what is not among these.
        names = set(self.counters)
        for metric in self.metrics:
            names |= {metric.of, f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}", metric.per, *metric.counts}
        return frozenset(names - {""})

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
class SourceWeight:
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
    benchmarks: SourceWeight
    feedback: SourceWeight
    storage: Storage
    display: Display
    components: Mapping[str, Component]

    @cached_property
    def scores(self) -> dict[str, str]:
        """Return each score id with its name: the components, ``session.NAME`` of each composite and of overall."""
        composites = {f"{SESSION}{name}": name.replace("_", " ").capitalize() for name in (*self.sessions, OVERALL)}
        return {component.id: component.name for component in self.components.values()} | composites


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


# The specification asks that weights sum to 1.0, and floats such as 0.35 miss that by their last bits.
SUM_TOLERANCE: Final = 2**-30
CHANNELS: Final = (LOG, DASHBOARD, USER, BLOCK)
NAMED_BY: Final[dict[type, str]] = {Component: "id", Grade: "name", Metric: "name"}
"""Class whose instances are named by their key in the document → the field that holds the name."""
FORM_KEYS: Final = {
    "linear": ("of", "counts", "worst", "best"),
    "inverse": ("of", "counts", "worst", "best"),
    "ratio": ("of", "per", "empty", "rest"),
    "boolean": ("of",),
}
"""Form of a metric → its keys other than ``form``, ``weight`` and ``missing``."""
_REQUIRED: Final = {"inverse": ("worst", "best"), "ratio": ("per",)}
"""Form of a metric → the keys that it has no default for."""

_PLAIN: Final = re.compile(r"[\w -]+")
_SHOWN_CHARS: Final = 80


class DocumentError(ValueError):
    """A key of a document is unknown or has a wrong value; the message names the key and what is allowed."""

    def __init__(self, keys: Keys, what: str) -> None:
        """Name a key by those above it, and say what is wrong there."""
        # A key with a dot in it passed for its last part, and one with a line break broke the message.
        path = ".".join(_shorten(key if _PLAIN.fullmatch(key) else repr(key)) for key in keys)
        super().__init__(f"{path or 'the file'} {what}")


def overlay(default: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document overlaid with another, key by key; false values stay, and `read_config` leaves their keys out.

    A metric with a ``form`` of its own replaces the default metric instead of being merged into it. Keys keep their
    order, unless the other document has them all.
    """
    # A project that lists all names sets their order, so that the default's order must not come first.
    merged = {} if default.keys() <= own.keys() else dict(default)
    for key, value in own.items():
        below = default.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and not isinstance(value.get("form"), str):
            merged[key] = overlay(below, value)
        else:
            merged[key] = value
    return merged


def read_config(document: Any) -> Config:
    """Parse a whole configuration, the default overlaid with a project's own.

    Raises:
        DocumentError: A key is not known, is missing, or cannot be what it is; weights do not sum to 1; thresholds
            are out of order.
    """
    config: Config = _read_class(_read_keys(document, (), ("scoring",)).get("scoring"), Config, ("scoring",))
    # The document's own components, because one that is false may still be named by a composite.
    for what, *keys in _contradictions(config, document["scoring"]["components"]):
        raise DocumentError(("scoring", *keys), what)
    components = {id_: component for id_, component in config.components.items() if component.enabled}
    # A component disabled in one place is disabled everywhere, so that one key is enough.
    sessions = {name: tuple(part for part in parts if part in components) for name, parts in config.sessions.items()}
    return attrs.evolve(config, components=components, sessions=sessions)


# Values by their types


def _read(value: Any, type_: Any, keys: Keys) -> Any:
    """Return a value of the document as the type says; the keys lead to it."""
    if type_ in _SIMPLE:
        wanted, fits = _SIMPLE[type_]
        if not fits(value):
            raise _refusal(keys, wanted, value)
        return tuple(value) if isinstance(value, list) else value
    if type_ is tzinfo:
        zone = find_zone(_read(value, str, keys))
        if zone is None:
            raise DocumentError(keys, "is not a known time zone; use one such as Europe/Berlin")
        return zone
    if attrs.has(type_):
        return _read_class(value, type_, keys)
    is_mapping = get_origin(type_) is Mapping
    # An optional value may be left out, and is not None where it is given.
    bounded = next((part for part in (type_, *get_args(type_)) if hasattr(part, "__metadata__")), None)
    if bounded is not None and not is_mapping:
        return _read_number(value, keys, *get_args(bounded))
    # What is left is a mapping by name, or a tuple of what is named; a name whose value is false is left out.
    part_type = next(part for part in get_args(type_) if part is not str)
    given = {name: part for name, part in _read_keys(value, keys).items() if part is not False}
    parts = {name: _read(part, part_type, (*keys, name)) for name, part in given.items()}
    return parts if is_mapping else tuple(parts.values())


def _read_class(value: Any, cls: Any, keys: Keys) -> Any:
    fields = {field.name: field for field in attrs.fields(attrs.resolve_types(cls)) if field.init}
    own = {NAMED_BY[cls]: keys[-1]} if cls in NAMED_BY else {}
    known = tuple(name for name in fields if name not in own)
    required = [name for name in known if fields[name].default is attrs.NOTHING]
    if cls is Metric:
        form = _read_keys(value, keys).get("form", "linear")
        # Anything can stand in the file: a list as the form cannot be looked up in a dictionary.
        if form not in tuple(FORM_KEYS):
            raise DocumentError((*keys, "form"), f"is {describe(form)}, and can be {', '.join(FORM_KEYS)}")
        known = ("form", "weight", "missing", *FORM_KEYS[form])
        required += _REQUIRED.get(form, ())
    given = _read_keys(value, keys, known)
    for name in required:
        if name not in given:
            raise DocumentError((*keys, name), "is missing")
    return cls(
        **own, **{name: _read(given[name], fields[name].type, (*keys, name)) for name in fields if name in given}
    )


def _read_keys(value: Any, keys: Keys, known: Iterable[str] = ()) -> dict[str, Any]:
    """Return a mapping whose keys are texts, and are among those that are known where any are given."""
    if not isinstance(value, dict):
        what = "has no value" if value is None else f"should hold keys and values, and is {describe(value)}"
        raise DocumentError(keys, what)
    for key in value:
        if not isinstance(key, str):
            raise DocumentError(keys, f"has the key {describe(key)}, which is not a text; put it in quotes")
        if known and key not in known:
            raise DocumentError((*keys, key), f"is not a known key; use one of {', '.join(known)}")
    return value


def _refusal(keys: Keys, wanted: str, value: Any) -> DocumentError:
    return DocumentError(keys, "has no value" if value is None else f"must be {wanted}, not {describe(value)}")


def describe(value: object) -> str:
    """Describe a value for a one-line message."""
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, bool):
        return str(value).lower()
    return "a list" if isinstance(value, list) else _shorten(repr(value))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _read_number(value: Any, keys: Keys, number_type: Any, bounds: Bounds) -> float:
    # By isinstance, true would be a number.
    if type(value) not in {int, float}:
        raise _refusal(keys, "a number", value)
    if not bounds.least <= value <= bounds.most:
        raise _refusal(keys, _describe_bounds(bounds), value)
    if number_type is int and value != int(value):
        raise _refusal(keys, "a whole number", value)
    number: float = number_type(value)
    return number


def _describe_bounds(bounds: Bounds) -> str:
    if bounds.most < MAX_INT:
        return f"from {bounds.least:,g} to {bounds.most:,.12g}"
    return f"at least {bounds.least:g}" if bounds.least > -MAX_INT else "from -2^53 to 2^53"


def find_zone(name: str) -> tzinfo | None:
    """Return the time zone of a name, such as Europe/Berlin; None where no zone has the name."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - slow to load, and few need it

    try:
        # UTC works without an installed time zone database.
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


_SIMPLE: Final[dict[Any, tuple[str, Callable[[Any], bool]]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    str: ("a text", lambda value: isinstance(value, str) and bool(value.strip())),
    tuple[str, ...]: (
        "a list of names",
        lambda value: isinstance(value, list) and all(isinstance(name, str) and name for name in value),
    ),
}
"""Type → what such a value is called, and the test of one."""


# Values that contradict each other: generators of what is wrong, and the keys below ``scoring``


def _contradictions(config: Config, known: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Yield what is wrong with a configuration; ``known`` names all components of its document."""
    for component in config.components.values():
        yield from _wrong_component(component)
    yield from _wrong_composites(config, known)
    yield from _wrong_levels(config)
    days = config.trends.short_term_days
    if config.trends.long_term_days <= days:
        yield f"must be greater than short_term_days, {days}", "trends", "long_term_days"
    path = PureWindowsPath(config.storage.path)
    # Old files in the folder are deleted, so it must lie in the project. Windows paths know both kinds of slashes and
    # drives, so this rejects what any system would.
    if path.anchor or ".." in path.parts or not path.parts or "\0" in config.storage.path:
        yield f"must be a folder within the project, not {describe(config.storage.path)}", "storage", "path"


def _wrong_component(component: Component) -> Iterator[tuple[str, ...]]:
    keys = ("components", component.id)
    id_ = component_id(component.id)
    if component.id != id_ or not id_.isalnum():
        yield f"is called by small letters and digits alone, such as {id_ if id_.isalnum() else 'ac01'}", *keys
    if not component.metrics:
        yield "names none", *keys, "metrics"
    for metric in component.metrics:
        place = (*keys, "metrics", metric.name)
        form, worst, best = metric.form, metric.worst, metric.best
        if best <= worst if form == "linear" else best >= worst and form == "inverse":
            side = "above" if form == "linear" else "below"
            yield f"must be {side} worst, {worst:g}, in the form {form}, not {best:g}", *place, "best"
        if not metric.weight:
            yield "must be above 0; a metric that is false is left out", *place, "weight"
        if len(metric.counts) not in {0, 2}:
            yield "names a part and a whole", *place, "counts"


def _wrong_composites(config: Config, known: Collection[str]) -> Iterator[tuple[str, ...]]:
    for name, parts in config.sessions.items():
        for part in parts:
            if part not in known:
                hint = f"use {', '.join(known)}"
                yield f"names {describe(part)}, which is not a component; {hint}", "sessions", name
    total = sum(config.session_weights.values())
    if abs(total - 1) > SUM_TOLERANCE:
        yield f"sum to {total:.12g}, and have to sum to 1", "session_weights"
    for here, there in (("session_weights", "sessions"), ("sessions", "session_weights")):
        for name in sorted(getattr(config, here).keys() - getattr(config, there).keys()):
            yield f"has nothing next to it in {there}", here, name
    if OVERALL in config.sessions:
        yield "is made of the others, and cannot be one of them", "sessions", OVERALL


def _wrong_levels(config: Config) -> Iterator[tuple[str, ...]]:
    bounds = [grade.least for grade in config.grades]
    # The scale of the specification ends with F from 0 on, so that every score has a grade.
    if not bounds or bounds != sorted(set(bounds), reverse=True) or bounds[-1] != 0:
        yield "are out of order: each begins below the one before it, and the last one at 0", "grades"
    bounds = [*attrs.asdict(config.thresholds).values()]
    if bounds != sorted(set(bounds), reverse=True):
        listed = ", ".join(f"{name} {below}" for name, below in attrs.asdict(config.thresholds).items())
        yield f"are out of order: warning must be above alert, and alert above critical ({listed})", "thresholds"
    for name, channels in attrs.asdict(config.notifications).items():
        # A misspelt channel could leave gates open.
        for channel in channels:
            if channel not in CHANNELS:
                yield f"names {describe(channel)}; there are {', '.join(CHANNELS)}", "notifications", name
