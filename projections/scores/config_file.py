"""Parsing the configuration of the scores: cattrs structures the YAML document into the classes of ``model``.

Every error is one line that names the key, what is wrong there, and what it can be. By itself cattrs would turn None
into "None" and 2.9 into 2, so each type of value has a hook that takes exactly that type.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import PureWindowsPath
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs
from cattrs import AttributeValidationNote, BaseValidationError, Converter, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from tallybook.ledger.events import MAX_INT
from tallybook.projections.scores.config import OVERALL, Component, Config, Grade, Metric, Points, component_id
from tallybook.projections.scores.scoring import BLOCK, DASHBOARD, LOG, USER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from tallybook.projections.scores.config import Bounds

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


@attrs.frozen
class Document:
    """The whole document.

    Attributes:
        scoring: The configuration.
    """

    scoring: Config


def overlaid(default: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document overlaid with another, key by key; false values stay, and `read_config` leaves their keys out.

    A metric with a ``form`` of its own replaces the default metric instead of being merged into it. Keys keep their
    order, unless the other document has them all.
    """
    # A project that lists all names sets their order, so that the default's order must not come first.
    merged = {} if default.keys() <= own.keys() else dict(default)
    for key, value in own.items():
        below = default.get(key)
        if isinstance(below, dict) and isinstance(value, dict) and not isinstance(value.get("form"), str):
            merged[key] = overlaid(below, value)
        else:
            merged[key] = value
    return merged


def read_config(document: Any) -> Config:
    """Parse a whole configuration, the default overlaid with a project's own.

    Raises:
        DocumentError: A key is not known, is missing, or cannot be what it is; weights do not sum to 1; thresholds
            are out of order.
    """
    try:
        config = _converter.structure(document, Document).scoring
    except (BaseValidationError, ValueError) as error:
        raise DocumentError(_describe_error(error)) from error
    # The document's own components, because one that is false may still be named by a composite.
    for what, *keys in _contradictions(config, document["scoring"]["components"]):
        raise DocumentError(f"{describe_path(['scoring', *keys])} {what}")
    components = {id_: component for id_, component in config.components.items() if component.enabled}
    # A component disabled in one place is disabled everywhere, so that one key is enough.
    sessions = {name: tuple(part for part in parts if part in components) for name, parts in config.sessions.items()}
    return attrs.evolve(config, components=components, sessions=sessions)


# Errors


def _refusal(wanted: str, value: Any) -> DocumentError:
    return DocumentError("has no value" if value is None else f"must be {wanted}, not {describe(value)}")


def _refuse_key(key: str, what: str) -> NoReturn:
    """Raise an error about a key; the hooks that lead to it add the keys above."""
    error = DocumentError(what)
    error.add_note(IterableValidationNote("", key, object))
    raise error


def _describe_error(error: BaseException) -> str:
    """Return the first error of a tree as one line: the path of keys, and what is wrong there."""
    keys: list[Any] = []
    while True:
        # The innermost hook notes its key first.
        notes = reversed(getattr(error, "__notes__", []))
        keys += [note.name if isinstance(note, AttributeValidationNote) else note.index for note in notes]
        if not isinstance(error, BaseValidationError):
            break
        error = error.exceptions[0]
    return f"{describe_path(keys) or 'the file'} {'is missing' if isinstance(error, KeyError) else error}"


def describe(value: object) -> str:
    """Describe a value for a one-line message."""
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, bool):
        return str(value).lower()
    return "a list" if isinstance(value, list) else _shorten(repr(value))


def describe_path(keys: Iterable[str]) -> str:
    """Return keys joined by dots; keys with unusual characters are quoted, so that paths stay unambiguous."""
    # A key with a dot in it passed for its last part, and one with a line break broke the message.
    return ".".join(_shorten(key if _PLAIN.fullmatch(key) else repr(key)) for key in keys)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


# Hooks of cattrs, one for each type of value


def _check_flag(value: Any, _: object) -> bool:
    if not isinstance(value, bool):
        raise _refusal("true or false", value)
    return value


def _check_text(value: Any, _: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refusal("a text", value)
    return value


def _check_texts(value: Any, _: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise _refusal("a list of names", value)
    return tuple(value)


def _check_number(value: Any, type_: Any) -> float:
    number_type, bounds = get_args(type_)
    # By isinstance, true would be a number.
    if type(value) not in {int, float}:
        raise _refusal("a number", value)
    if not bounds.least <= value <= bounds.most:
        raise _refusal(_describe_bounds(bounds), value)
    if number_type is int and value != int(value):
        raise _refusal("a whole number", value)
    number: float = number_type(value)
    return number


def _describe_bounds(bounds: Bounds) -> str:
    if bounds.most < MAX_INT:
        return f"from {bounds.least:,g} to {bounds.most:,.12g}"
    return f"at least {bounds.least:g}" if bounds.least > -MAX_INT else "from -2^53 to 2^53"


def _check_zone(value: Any, _: object) -> tzinfo:
    name = _check_text(value, str)
    try:
        # UTC works without an installed time zone database.
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise DocumentError("is not a known time zone; use one such as Europe/Berlin") from error


def _check_keys(value: Any, known: Iterable[str] = ()) -> dict[str, Any]:
    """Return a mapping whose keys are texts, and are among those that are known where any are given."""
    if not isinstance(value, dict):
        what = "has no value" if value is None else f"should hold keys and values, and is {describe(value)}"
        raise DocumentError(what)
    for key in value:
        if not isinstance(key, str):
            raise DocumentError(f"has the key {describe(key)}, which is not a text; put it in quotes")
        if known and key not in known:
            _refuse_key(key, f"is not a known key; use one of {', '.join(known)}")
    return value


def _class_hook(cls: type) -> Callable[[Any, Any], Any]:
    if cls in NAMED_BY:
        # Any key is a name, the empty one too; `_with_name` checks the other keys.
        by_name: Any = {NAMED_BY[cls]: override(struct_hook=lambda name, _: name)}
        return make_dict_structure_fn(cls, _converter, **by_name)
    structure: Any = make_dict_structure_fn(cls, _converter)
    known = tuple(field.name for field in attrs.fields(cls) if field.init)
    return lambda value, _: structure(_check_keys(value, known), cls)


def _mapping_hook(type_: Any) -> Callable[[Any, Any], Any]:
    """Return the hook of a mapping by name, or of a tuple of what is named; a name whose value is false is left out."""
    cls = next(cls for cls in get_args(type_) if cls is not str)
    structure = _converter.get_structure_hook(cls)

    def read(value: Any, _: object) -> Any:
        parts = {}
        for name, part in _check_keys(value).items():
            if part is not False:
                try:
                    parts[name] = structure(_with_name(cls, name, part) if cls in NAMED_BY else part, cls)
                except (BaseValidationError, ValueError) as error:
                    error.add_note(IterableValidationNote("", name, cls))
                    raise
        return tuple(parts.values()) if issubclass(get_origin(type_), tuple) else parts

    return read


def _with_name(cls: type, name: str, value: Any) -> dict[str, Any]:
    """Return the fields of something that its key names."""
    own = NAMED_BY[cls]
    if cls is Metric:
        form = _check_keys(value).get("form", "linear")
        # Anything can stand in the file: a list as the form cannot be looked up in a dictionary.
        if form not in tuple(FORM_KEYS):
            _refuse_key("form", f"is {describe(form)}, and can be {', '.join(FORM_KEYS)}")
        known: Iterable[str] = ("form", "weight", "missing", *FORM_KEYS[form])
        for key in _REQUIRED.get(form, ()):
            if key not in value:
                _refuse_key(key, "is missing")
    else:
        known = [field.name for field in attrs.fields(cls) if field.init and field.name != own]
    return {**_check_keys(value, known), own: name}


def _make_converter() -> Converter:
    converter = Converter()
    for type_, check in ((bool, _check_flag), (str, _check_text), (tzinfo, _check_zone)):
        converter.register_structure_hook(type_, check)
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    converter.register_structure_hook_func(lambda type_: hasattr(type_, "__metadata__"), _check_number)
    # An optional value may be left out, and is not None where it is given.
    converter.register_structure_hook_func(
        lambda type_: type_ == Points | None, lambda value, _: _check_number(value, Points)
    )
    converter.register_structure_hook_factory(lambda type_: bool({get_origin(type_)} & {tuple, Mapping}), _mapping_hook)
    converter.register_structure_hook_func(lambda type_: type_ == tuple[str, ...], _check_texts)
    return converter


_converter: Final = _make_converter()


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
    bounds = [level.below for level in config.levels]
    if bounds != sorted(set(bounds), reverse=True):
        listed = ", ".join(f"{level.name} {level.below}" for level in config.levels)
        yield f"are out of order: warning must be above alert, and alert above critical ({listed})", "thresholds"
    for level in config.levels:
        # A misspelt channel could leave gates open.
        for channel in level.notify:
            if channel not in CHANNELS:
                yield f"names {describe(channel)}; there are {', '.join(CHANNELS)}", "notifications", level.name
