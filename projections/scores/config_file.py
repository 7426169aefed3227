"""Parsing the configuration of the scores: the YAML document becomes the classes of ``config`` by their annotations.

Every error is one line that names the key, what is wrong there, and what it can be. The errors of cattrs and msgspec
name types and not keys by their names, so that either needs a hook for each type; this is shorter, and loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import PureWindowsPath
import re
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs

from tallybook.ledger.events import MAX_INT
from tallybook.projections.scores import config as model
from tallybook.projections.scores.scoring import BLOCK, DASHBOARD, LOG, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.projections.scores.config import Bounds, Component, Config

    Keys = tuple[str, ...]

# The specification asks that weights sum to 1.0, and floats such as 0.35 miss that by their last bits.
SUM_TOLERANCE: Final = 2**-30
CHANNELS: Final = (LOG, DASHBOARD, USER, BLOCK)
NAMED_BY: Final[dict[type, str]] = {model.Component: "id", model.Grade: "name", model.Metric: "name"}
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


@attrs.frozen
class Document:
    """The whole document.

    Attributes:
        scoring: The configuration.
    """

    scoring: model.Config


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
    config: Config = _read_class(document, Document, ()).scoring
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
    if read := _READERS.get(type_):
        return read(value, keys)
    if attrs.has(type_):
        return _read_class(value, type_, keys)
    # An optional value may be left out, and is not None where it is given.
    bounded = next((candidate for candidate in (type_, *get_args(type_)) if hasattr(candidate, "__metadata__")), None)
    if bounded is not None and get_origin(type_) is not Mapping:
        return _read_number(value, keys, *get_args(bounded))
    # What is left is a mapping by name, or a tuple of what is named; a name whose value is false is left out.
    part_type = next(part for part in get_args(type_) if part is not str)
    parts = {
        name: _read(part, part_type, (*keys, name))
        for name, part in _read_keys(value, keys).items()
        if part is not False
    }
    return parts if get_origin(type_) is Mapping else tuple(parts.values())


def _read_class(value: Any, cls: Any, keys: Keys) -> Any:
    fields = {field.name: field for field in attrs.fields(attrs.resolve_types(cls)) if field.init}
    own = {NAMED_BY[cls]: keys[-1]} if cls in NAMED_BY else {}
    known = _known_keys(value, keys) if cls is model.Metric else tuple(name for name in fields if name not in own)
    given = _read_keys(value, keys, known)
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in {*given, *own}:
            raise DocumentError((*keys, name), "is missing")
    return cls(
        **own, **{name: _read(given[name], fields[name].type, (*keys, name)) for name in fields if name in given}
    )


def _known_keys(value: Any, keys: Keys) -> Keys:
    """Return the keys that a metric may have, by its form."""
    form = _read_keys(value, keys).get("form", "linear")
    # Anything can stand in the file: a list as the form cannot be looked up in a dictionary.
    if form not in tuple(FORM_KEYS):
        raise DocumentError((*keys, "form"), f"is {describe(form)}, and can be {', '.join(FORM_KEYS)}")
    for key in _REQUIRED.get(form, ()):
        if key not in value:
            raise DocumentError((*keys, key), "is missing")
    return ("form", "weight", "missing", *FORM_KEYS[form])


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


def _read_flag(value: Any, keys: Keys) -> bool:
    if not isinstance(value, bool):
        raise _refusal(keys, "true or false", value)
    return value


def _read_text(value: Any, keys: Keys) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refusal(keys, "a text", value)
    return value


def _read_texts(value: Any, keys: Keys) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise _refusal(keys, "a list of names", value)
    return tuple(value)


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


def _read_zone(value: Any, keys: Keys) -> tzinfo:
    name = _read_text(value, keys)
    try:
        # UTC works without an installed time zone database.
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise DocumentError(keys, "is not a known time zone; use one such as Europe/Berlin") from error


_READERS: Final[dict[Any, Callable[[Any, Keys], Any]]] = {
    bool: _read_flag,
    str: _read_text,
    tuple[str, ...]: _read_texts,
    tzinfo: _read_zone,
}


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
    id_ = model.component_id(component.id)
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
    if model.OVERALL in config.sessions:
        yield "is made of the others, and cannot be one of them", "sessions", model.OVERALL


def _wrong_levels(config: Config) -> Iterator[tuple[str, ...]]:
    bounds = [grade.least for grade in config.grades]
    # The scale of the specification ends with F from 0 on, so that every score has a grade.
    if not bounds or bounds != sorted(set(bounds), reverse=True) or bounds[-1] != 0:
        yield "are out of order: each begins below the one before it, and the last one at 0", "grades"
    bounds = [level.below for level in config.levels]
    if bounds != sorted(set(bounds), reverse=True):
        listed = ", ".join(f"{level.name} {level.below}" for level in config.levels)
        yield f"are out of order: warning must be above alert, and alert above critical ({listed})", "thresholds"
    for level in config.levels:
        # A misspelt channel could leave gates open.
        for channel in level.notify:
            if channel not in CHANNELS:
                yield f"names {describe(channel)}; there are {', '.join(CHANNELS)}", "notifications", level.name
