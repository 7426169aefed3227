"""The configuration of the scores as values: components, metrics, grades, levels. No code names a component.

The classes have the keys of prompts/scoring-config.yaml, the default; each key of a project's own file replaces its
default. `read_config` lets msgspec build the classes from the document: msgspec checks types, bounds, missing and
unknown keys, and ``__post_init__`` of a class makes further checks. Every error is one line that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from functools import cached_property, lru_cache
from pathlib import PureWindowsPath
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

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


# A number of 400 digits in a configuration once ended in a traceback.
Number = Annotated[float, Meta(ge=-MAX_INT, le=MAX_INT)]
Share = Annotated[float, Meta(ge=0, le=1)]
Points = Annotated[float, Meta(ge=0, le=100)]
WholePoints = Annotated[int, Meta(ge=0, le=100)]
Days = Annotated[int, Meta(ge=1, le=1_000_000)]
Text = Annotated[str, Meta(pattern=r"\S")]
Channel = Literal["log", "dashboard", "user", "block evolution"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the document; an unknown key in it is an error."""


class Metric(Section, frozen=True, kw_only=True):
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
    form: Literal["linear", "inverse", "ratio", "boolean"] = "linear"
    of: Text
    per: Text = ""
    counts: tuple[Text, ...] = ()
    worst: Number = 0
    best: Number = 100
    empty: Points | None = None
    missing: Points | None = None
    rest: bool = False
    weight: Annotated[float, Meta(gt=0, le=MAX_INT)] = 1

    def __post_init__(self) -> None:
        """Refuse what does not fit the form."""
        if self.form == "linear" and self.best <= self.worst:
            raise ValueError(f"best must be above worst, {self.worst:g}, in the form linear, not {self.best:g}")
        if self.form == "inverse" and self.best >= self.worst:
            raise ValueError(f"best must be below worst, {self.worst:g}, in the form inverse, not {self.best:g}")
        if len(self.counts) not in {0, 2}:
            raise ValueError("counts names a part and a whole")
        is_ratio = self.form == "ratio"
        if is_ratio != bool(self.per) or (not is_ratio and (self.empty is not None or self.rest)):
            raise ValueError("a ratio has the keys per, empty and rest, and needs per; other forms have none of them")
        if self.form in {"ratio", "boolean"} and (self.worst, self.best, self.counts) != (0, 100, ()):
            raise ValueError(f"worst, best and counts are for linear and inverse, not for {self.form}")


class Component(Section, frozen=True, dict=True, kw_only=True):
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
    name: Text
    counters: tuple[Text, ...] = ()
    metrics: Annotated[tuple[Metric, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        """Refuse an id that `component_id` would change."""
        if self.id != component_id(self.id) or not self.id.isalnum():
            raise ValueError("the id of a component is small letters and digits alone, such as ac01")

    @cached_property
    def value_names(self) -> frozenset[str]:
        """Return the names of all values that its metrics read, in every form, and of the counters."""
        # A metric under a misspelt name was in no score and nobody said so; the view counts what is not among these.
        names = set(self.counters)
        for metric in self.metrics:
            names |= {metric.of, f"{metric.of}{COUNT}", f"{metric.of}{TOTAL}", metric.per, *metric.counts}
        return frozenset(filter(None, names))

    def adds_up(self, value: str) -> bool:
        """Return whether the values under a name add up over a session."""
        # Each event of a share brings its own part: of several, the last alone would say nothing of the session.
        return value in self.counters or value.endswith((COUNT, TOTAL))


class Grade(Section, frozen=True):
    """One row of "Grade Scale".

    Attributes:
        name: ``A``.
        least: The least score that has it, 0 to 100.
        status: Its meaning, ``Excellent``.
        action: The advice, ``Maintain``.
    """

    name: str
    least: WholePoints
    status: Text
    action: Text


class Thresholds(Section, frozen=True):
    """The bounds of the alert levels, the mildest first; scores strictly below one alert."""

    warning: WholePoints
    alert: WholePoints
    critical: WholePoints

    def __post_init__(self) -> None:
        """Refuse levels that are out of order."""
        if not self.warning > self.alert > self.critical:
            listed = f"warning {self.warning}, alert {self.alert}, critical {self.critical}"
            raise ValueError(f"warning must be above alert, and alert above critical ({listed})")


class Notifications(Section, frozen=True):
    """The channels that each level notifies, as well as those of the milder levels."""

    # A misspelt channel could leave gates open.
    warning: tuple[Channel, ...]
    alert: tuple[Channel, ...]
    critical: tuple[Channel, ...]


class Trends(Section, frozen=True):
    """The lengths of trends, in days with data.

    Attributes:
        short_term_days: Days on each side of a short trend.
        long_term_days: Days on each side of a long one, more than those.
    """

    short_term_days: Days
    long_term_days: Days

    def __post_init__(self) -> None:
        """Refuse a long trend that is no longer than a short one."""
        if self.long_term_days <= self.short_term_days:
            raise ValueError(f"long_term_days must be greater than short_term_days, {self.short_term_days}")


class Sensitivity(Section, frozen=True):
    """The thresholds of regressions.

    Attributes:
        points: A score may be so many points below its baseline, and no more.
        z_score: And so many standard deviations below the mean of its history.
        least_sessions: How long a history has to be for that.
        turn: By so many points the average has to fall for a trend to have turned; 0 for by any.
    """

    points: Points
    z_score: Annotated[float, Meta(ge=0.1, le=MAX_INT)]
    least_sessions: Annotated[int, Meta(ge=2, le=1_000_000)]
    turn: Points


class Gates(Section, frozen=True):
    """The bound of gates.

    Attributes:
        least: Below this a component blocks its own evolution.
    """

    least: WholePoints


class SourceWeight(Section, frozen=True):
    """The weight of benchmarks, or of people's feedback.

    Attributes:
        weight: It compares with 1 for all metrics of a component together, and for a session's composites; that of
            feedback with the weight of what was measured.
    """

    weight: Points


class Storage(Section, frozen=True):
    """The score files.

    Attributes:
        path: Their folder, within the project.
        retention_days: How many days of them are stored, counted back from the last event.
    """

    path: Text
    retention_days: Days

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the project on any system."""
        # Old files in the folder are deleted. Windows paths know both kinds of slashes and drives.
        path = PureWindowsPath(self.path)
        if path.anchor or ".." in path.parts or not path.parts or "\0" in self.path:
            raise ValueError(f"path must be a folder within the project, not {self.path!r}")


class Display(Section, frozen=True):
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


class Config(Section, frozen=True, dict=True):
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
    title: Text
    timezone: tzinfo
    session_weights: Mapping[str, Share]
    sessions: Mapping[str, tuple[Text, ...]]
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

    def __post_init__(self) -> None:
        """Refuse weights, composites and grades that do not fit together."""
        total = sum(self.session_weights.values())
        if abs(total - 1) > SUM_TOLERANCE:
            raise ValueError(f"session_weights sum to {total:.12g}, and have to sum to 1")
        if OVERALL in self.sessions or self.sessions.keys() != self.session_weights.keys():
            raise ValueError("sessions and session_weights must have the same names, and overall is none of them")
        bounds = [grade.least for grade in self.grades]
        # The scale of the specification ends with F from 0 on, so that every score has a grade.
        if bounds != sorted(set(bounds), reverse=True) or bounds[-1:] != [0]:
            raise ValueError("grades are out of order: each begins below the one before it, and the last one at 0")

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
_NAMED: Final = {Component: ("id", "name"), Grade: ("name", "name"), Metric: ("name", "of")}
"""Class whose instances are named by their key in the document → the field that holds it, and one that it defaults."""

_PLAIN: Final = re.compile(r"[\w -]+")
_SHOWN_CHARS: Final = 80
_ERROR: Final = re.compile(r"(.*) - at (?:`key` in )?`\$(.*)`", re.DOTALL)
_KEY_ERROR: Final = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)


class DocumentError(ValueError):
    """A key of a document is unknown or has a wrong value; the message names the key and what is allowed."""

    def __init__(self, keys: Keys, what: str) -> None:
        """Name a key by those above it, and say what is wrong there."""
        # A key with a dot in it passed for its last part, and one with a line break broke the message.
        path = ".".join(_shorten(key if _PLAIN.fullmatch(key) else repr(key)) for key in keys)
        super().__init__(f"{path or 'the file'} {what}")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


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


class _Document(Section, frozen=True):
    scoring: dict[str, Any]


def read_config(document: Any) -> Config:
    """Structure a whole configuration, the default overlaid with a project's own.

    Raises:
        DocumentError: A key is not known, is missing, or cannot be what it is; values contradict each other.
    """
    given, keys = _read(document, _Document, ()).scoring, ("scoring",)
    types = (("session_weights", Share), ("sessions", tuple[Text, ...]), ("grades", Grade), ("components", Component))
    named = {name: _read_named(given.get(name), type_, (*keys, name)) for name, type_ in types}
    # A component disabled in one place is disabled everywhere, so that one key is enough.
    components = {id_: component for id_, component in named["components"].items() if component.enabled}
    for name, parts in named["sessions"].items():
        # The document's own components, because one that is false may still be named by a composite.
        if unknown := [part for part in parts if part not in given["components"]]:
            what = f"names {unknown[0]!r:.80}, which is not a component; use {', '.join(given['components'])}"
            raise DocumentError((*keys, "sessions", name), what)
        named["sessions"][name] = tuple(part for part in parts if part in components)
    grades = [*named["grades"].values()]
    config: Config = _read(given | named | {"grades": grades, "components": components}, Config, keys)
    return config


def _read_named(value: Any, type_: Any, keys: Keys) -> dict[str, Any]:
    """Return what a mapping of the document has by name; a name whose value is false is left out."""
    named = {}
    for name, part in _read(value, dict[str, Any], keys).items():
        if part is False:
            continue
        place, fields = (*keys, name), part
        if type_ in _NAMED:
            name_field, default_field = _NAMED[type_]
            fields = _read(part, dict[str, Any], place)
            if name_field in fields:
                raise DocumentError((*place, name_field), "is not a known key")
            fields = {default_field: name} | fields | {name_field: name}
        if type_ is Component and "metrics" in fields:
            fields["metrics"] = [*_read_named(fields.get("metrics"), Metric, (*place, "metrics")).values()]
        named[name] = _read(fields, type_, place)
    return named


def _read(value: Any, type_: Any, keys: Keys) -> Any:
    """Return a value of the document as a type; the keys lead to it."""
    try:
        return msgspec.convert(value, type_, dec_hook=_read_zone)
    except msgspec.ValidationError as error:
        found = _ERROR.fullmatch(str(error))
        what, path = found.groups() if found else (str(error), "")
        keys = (*keys, *path.partition("[")[0].split(".")[1:])
        if key := _KEY_ERROR.fullmatch(what):
            problem = "is missing" if key[1].startswith("missing") else "is not a known key"
            raise DocumentError((*keys, key[2]), problem) from error
        shown = (what[:1].lower() + what[1:]).replace(r"matching regex '\\S'", "that is not blank")
        raise DocumentError(keys, f"is not valid: {shown if shown.isprintable() else repr(shown)}"[:150]) from error


def _read_zone(_: type, name: Any) -> tzinfo:
    """Return the time zone of a name, such as Europe/Berlin."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - slow to load, and few need it

    try:
        # UTC works without an installed time zone database.
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, AttributeError, TypeError, ValueError, OSError) as error:
        raise ValueError("not a known time zone; use one such as Europe/Berlin") from error
