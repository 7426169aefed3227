"""Translation of a JSON object about an agent into events: metrics, benchmarks, feedback, telemetry. Pure functions.

Every object is recorded: parts that cannot be used are left out and reported, and an object without any usable part
is kept whole as ``telemetry.kept``. Numbers, names and times are read in their common spellings: a value that cannot be
read gives None, or an empty text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
import json
import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.line import digest
from tallybook.ledger.playbook_constants import MAX_INT
from tallybook.ledger.telemetry.mapping import BY_TYPE, ENDINGS, FAILED, FLAG, GAUGES, STATED, SUCCEEDED, Row
from tallybook.ledger.telemetry.mapping import VERDICTS as OUTCOME_KEYS

if TYPE_CHECKING:
    Recorded = tuple[events.Event, ...]
    _Reader = Callable[[Mapping[str, Any], list[str]], Recorded]


MAX_NAME_CHARS: Final = 200
DIGEST_PREFIX: Final = "digest:"
"""Prefix of a name that was replaced by its digest, because it is too long or cannot be printed."""

_MOST_WORD_CHARS = 100
_MOST_TIME_CHARS = 60
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][-+]?[0-9]{1,3})?")
_WORDS = {"true": True, "false": False}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"[^a-z0-9]+")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# From March 1973 to the year 5138: a smaller number is more likely a duration, a larger one milliseconds.
_LEAST_SECONDS = 10**8
_MOST_SECONDS = 10**11
_END_US = 253_402_300_800 * clock.MICROSECONDS
_DAY_DIGITS = 8
_ZONE = re.compile(r" (?:UTC|GMT|Z)$| (?=[-+][0-9]{2}:?[0-9]{2}$)")


def read_number(value: object) -> float | None:
    """Return a number within 2^53, or true or false, from a value or a text, with or without a percent sign.

    Returns:
        The number with its type: 3, 3.0 and true differ. None for any other value.
    """
    if isinstance(value, str):
        text = value.strip().removesuffix("%").rstrip()
        value = _WORDS.get(text.lower())
        if _NUMBER.fullmatch(text):
            value = int(text) if text.lstrip("+-").isdigit() else float(text)
    return value if isinstance(value, int | float) and abs(value) <= MAX_INT else None


def read_name(value: object, most: int = MAX_NAME_CHARS) -> str:
    """Return a name; empty without one.

    Args:
        value: A text or a number; anything else is not a name.
        most: The greatest length, in characters.

    Returns:
        The name without surrounding blanks. A longer one, or one that cannot be printed, is replaced by its digest, so
        that different names stay different.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if len(text) <= most and text.isprintable():
        return text
    # Cut short, two long names would become one; the digest keeps them apart.
    return DIGEST_PREFIX + digest(text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=4096)
def to_snake_case(word: str) -> str:
    """Return a word in snake case: ``driftDetected`` and ``Drift.detected`` become ``drift_detected``."""
    if len(word) > _MOST_WORD_CHARS:
        return ""
    return _NO_WORD.sub("_", _CAMEL.sub("_", word).casefold()).strip("_")


def read_time(value: object, zone: tzinfo = UTC) -> str | None:
    """Return a time in the ledger's format; None where it is not one between 1970 and 9999.

    Args:
        value: An ISO date or time; or seconds or milliseconds since 1970, from 1973 on.
        zone: The zone of a date or time that names none.
    """
    text = value.strip() if isinstance(value, str) else ""
    since_1970 = read_number(value)
    if len(text) > _MOST_TIME_CHARS:
        return None
    try:
        # A date such as 20260116 reads as a number, too.
        if since_1970 is None or len(text) == _DAY_DIGITS:
            time = datetime.fromisoformat(_ZONE.sub("", text.upper()))
            unix_us = ((time if time.tzinfo else time.replace(tzinfo=zone)) - _EPOCH) // timedelta(microseconds=1)
        elif isinstance(since_1970, bool) or since_1970 < _LEAST_SECONDS:
            return None
        else:
            unix_us = round(since_1970 * (clock.MICROSECONDS if since_1970 <= _MOST_SECONDS else 1000))
    except (ValueError, OverflowError):
        return None
    return clock.moment(unix_us).at if 0 <= unix_us < _END_US else None


_MOST_DEEP = 6


def normalize_type(type_: str) -> str:
    """Return a type as the table spells it: ``TaskCompleted``, ``task.done`` and ``task_complete`` are ``task_end``."""
    before, _, last = to_snake_case(type_).rpartition("_")
    return f"{before}_{ENDINGS[last]}" if before and last in ENDINGS else to_snake_case(type_)


def find_row(type_: str, component: str) -> Row | None:
    """Return the row of a type; None where the table has none.

    Args:
        type_: As it was received, in any spelling.
        component: As it was received: ``AC-01``.
    """
    name = normalize_type(type_)
    component = "".join(filter(str.isalnum, component.casefold()))
    return BY_TYPE.get((name, component)) or BY_TYPE.get((name, ""))


def read_metrics(row: Row, areas: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the metrics of an event.

    Args:
        row: The row of its type.
        areas: Its own data first, then its other parts. Of a key that occurs in several, or at several depths, the
            first counts, and an outer one before an inner one.
    """
    if row.is_metrics_object:
        # The first object with such a name has them, else the event's own data.
        named = (area.get(key) for area in areas for key in ("metrics", "values", "scores"))
        return _numbers(next((found for found in named if isinstance(found, dict)), areas[0]).items())
    values: dict[str, Any] = {}
    for area in areas:
        for key, value in _walk(area):
            values.setdefault(to_snake_case(key), value)
    if row.is_named_metric:
        return _read_named_metric(values)
    metrics = {name: number for name, number in _numbers(values.items()).items() if name in GAUGES}
    for name, keys in row.gauges.items():
        if name not in metrics:
            metrics |= _numbers((name, values[key]) for key in (name, *keys) if key in values)
    succeeded = _read_outcome(values)
    for name, amount in row.counters.items():
        if isinstance(amount, int):
            metrics[name] = amount
        elif amount != STATED or succeeded is not None:
            metrics[name] = (bool if amount == FLAG else int)(succeeded is not False)
    return metrics


def _numbers(pairs: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return the values that are numbers, the first of each name."""
    numbers: dict[str, float] = {}
    for name, value in pairs:
        number = read_number(value)
        if number is not None:
            numbers.setdefault(name, number)
    return numbers


def _walk(area: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each key whose value is not an object, with the value; those of outer objects first."""
    layer = [area]
    for _ in range(_MOST_DEEP):
        yield from ((key, value) for area in layer for key, value in area.items() if not isinstance(value, dict))
        layer = [value for area in layer for value in area.values() if isinstance(value, dict)]


def _read_outcome(values: Mapping[str, Any]) -> bool | None:
    """Return whether an event reports success; None where it reports neither success nor failure."""
    for key in OUTCOME_KEYS:
        value = values.get(key)
        if isinstance(value, bool):
            return value
        word = to_snake_case(value) if isinstance(value, str) else ""
        if word in FAILED or word in SUCCEEDED:
            return word in SUCCEEDED
    return None


def _read_named_metric(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the metric that an event has as name and value; a counter without a value counts one."""
    names = (fields[key] for key in ("name", "metric", "metric_name") if isinstance(fields.get(key), str))
    values = _numbers(("value", fields[key]) for key in ("value", "increment", "amount") if key in fields)
    name = next(names, "")
    if not values and fields.get("metric_type") == "counter":
        values = {"value": 1}
    return {name: values["value"]} if name and values else {}


VERDICTS: Final = {"helpful": 100, "neutral": 50, "harmful": 0}
"""Feedback given as a word → its score."""

SESSION_KEYS: Final = ("session_id", "session", "sessionId")
COMPONENT_KEYS: Final = ("component", "component_id", "componentId")
# The plainest first, because an object may have several.
TIME_KEYS: Final = ("at", "timestamp", "time", "ts", "created_at")
_TYPE_KEYS = ("event_type", "eventType", "event", "type", "hook_event")
_DATA_KEYS = ("data", "payload")
_BENCHMARK_KEYS = ("benchmark", "name")
_VERSION_KEYS = ("version", "agent_version", "app_version", "jarvis_version", "release")
_ABOUT = frozenset((*SESSION_KEYS, *COMPONENT_KEYS, *TIME_KEYS, *_TYPE_KEYS))
_WANTED = ("component", "session", "time")

MAX_NOTE_CHARS: Final = 10_000
MAX_ORIGINAL_CHARS: Final = 100_000
_MOST_TYPE_CHARS = 100
# A line holds this many metrics with names of the greatest length.
METRICS_AN_EVENT: Final = 100
_MOST_METRIC_CHARS = 100
_UNSCORED = "events of this type say nothing of a score"


@attrs.frozen
class Intake:
    """The events that an object translates to.

    Attributes:
        events: The events to record as one batch, at least one.
        rater: Default rater: human for feedback and baselines, import for what has a type, else agent.
        session: The session that it is about; empty without one.
        when: When it happened, in the ledger's format; None where it names no time.
        problems: What was left out or is missing, each in a few words.
    """

    events: tuple[events.Event, ...]
    rater: str
    session: str
    when: str | None
    problems: tuple[str, ...]


class _UnusableError(ValueError):
    """The object cannot be used; the message says why."""


def fill_defaults(
    value: Mapping[str, Any], session: str = "", component: str = "", zone: tzinfo = UTC
) -> dict[str, Any]:
    """Return an object with a default session and component added where it, or its data, names none.

    A time without a zone is one of the given zone, and is replaced by that time in UTC.
    """
    fields = dict(value)
    for key in TIME_KEYS:
        if (when := read_time(fields.get(key), zone)) is not None:
            fields |= {} if when == read_time(fields[key]) else {key: when}
            break
    session = _find_name(fields, SESSION_KEYS, *_find_data(fields)) or session
    for keys, default in ((SESSION_KEYS, session), (COMPONENT_KEYS, component)):
        if default and not _find_name(value, keys):
            fields[keys[0]] = default
    return fields


def idempotency_key(fields: Mapping[str, Any], place: str | None = None, before: int = 0) -> str:
    """Return the idempotency key of an object, which does not depend on the order of its keys.

    Args:
        fields: The object, with its defaults.
        place: Base name of the file that it comes from; None where it names a time, which makes it unique.
        before: How many equal objects came before it in that file.
    """
    # Objects without a time may be equal and each count: a grown file adds what is new by their place in it.
    identity = fields if place is None else [fields, place, before]
    # The same file twice adds nothing, whatever the order in which a logger writes the keys.
    return f"metrics:{digest(json.dumps(identity, sort_keys=True, separators=(',', ':')).encode())}"


def read_object(fields: Mapping[str, Any]) -> Intake:
    """Translate an object into events."""
    type_, component = _find_type(fields), _find_name(fields, COMPONENT_KEYS)
    session = _find_name(fields, SESSION_KEYS, *_find_data(fields))
    when = next(filter(None, (read_time(fields[key]) for key in TIME_KEYS if key in fields)), None)
    notes: list[str] = []
    reader, rater, wanted, _ = SHAPES[_choose_shape(fields, type_, component)]
    try:
        recorded = reader(fields, notes)
    except _UnusableError as error:
        notes = [] if str(error) == _UNSCORED else [f"{error}; it is kept and has no effect"]
        recorded = (events.TelemetryKept(component, type_, str(error), encode_original(fields)),)
        rater, wanted = "", _WANTED if type_ else ()
    # The end of a session is of no component, and each part of a benchmark names its own.
    if all(getattr(event, "component", True) for event in recorded):
        wanted = tuple(what for what in wanted if what != "component")
    named = {"component": component, "session": session, "time": when or ""}
    problems = (*notes, *_find_oddities(fields, named, wanted))
    return Intake(recorded, rater or ("import" if type_ else "agent"), session, when, problems)


def _find_oddities(fields: Mapping[str, Any], named: Mapping[str, str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield problems with an object's component, session and time."""
    for what, name in named.items():
        if name.startswith(DIGEST_PREFIX):
            yield f"the {what} is too long or cannot be printed, and is replaced by its digest"
    unread = not named["time"] and any(fields.get(key) is not None for key in TIME_KEYS)
    if unread:
        yield "the time cannot be read, so it counts for now"
    missing = [what for what in wanted if not named[what] and not (unread and what == "time")]
    if missing:
        unscored = "" if missing == ["time"] else "; it is in no score"
        yield f"no {' and no '.join(missing)} is named{unscored}"


def encode_original(fields: Any) -> str:
    """Return a value as JSON to keep as evidence; of a longer one the first 100,000 characters, as a JSON string."""
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    # JSON can hold half of a surrogate pair, which UTF-8 does not have: it stays an escape.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= MAX_ORIGINAL_CHARS else json.dumps(text[:MAX_ORIGINAL_CHARS], ensure_ascii=False)


def _find_name(fields: Mapping[str, Any], keys: tuple[str, ...], *inner: Mapping[str, Any]) -> str:
    """Return the first name under one of these keys, in an object or else in one within it; empty without one."""
    names = (read_name(area[key]) for area in (fields, *inner) for key in keys if key in area)
    return next(filter(None, names), "")


def _find_data(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the data objects of a telemetry event."""
    return [area for key in _DATA_KEYS if isinstance(area := fields.get(key), dict)]


def _find_type(fields: Mapping[str, Any]) -> str:
    names = (fields.get(key) for key in _TYPE_KEYS)
    return next((read_name(name, _MOST_TYPE_CHARS) for name in names if isinstance(name, str)), "")


def _choose_shape(fields: Mapping[str, Any], type_: str, component: str) -> str:
    """Return the shape of an object, a key of SHAPES."""
    kind = fields.get("kind")
    if isinstance(kind, str) and kind in SHAPES:
        return kind
    if find_row(type_, component):
        return TELEMETRY
    if isinstance(fields.get("metrics"), dict):
        return "metrics.recorded"
    if type_ and any(isinstance(fields.get(key), str) for key in _TYPE_KEYS[:2]):
        return TELEMETRY
    shown = (shape for shape, (*_, keys) in SHAPES.items() if any(fields.get(key) is not None for key in keys))
    return next(shown, "benchmark.recorded" if isinstance(fields.get("summary"), dict) else TELEMETRY)


def _read_as_metrics(fields: Mapping[str, Any], notes: list[str]) -> Recorded:
    given = fields.get("metrics")
    if not isinstance(given, dict):
        raise _UnusableError("the metrics are no object of names and numbers")
    metrics = _read_metrics(given, notes)
    if not metrics:
        raise _UnusableError("there is no number among the metrics")
    source = read_name(fields.get("source"), _MOST_TYPE_CHARS) or _find_type(fields)
    return _make_metrics_events(fields, metrics, source)


def _read_metrics(given: Mapping[str, Any], notes: list[str]) -> dict[str, float]:
    """Return the numbers among metrics; other values are added to ``notes``."""
    metrics: dict[str, float] = {}
    for name, value in given.items():
        number = read_number(value)
        if not _is_metric(name):
            notes.append(f"a metric without a name of 1 to {_MOST_METRIC_CHARS} printable characters was left out")
        elif number is not None:
            metrics[name] = number
        elif value is not None:
            notes.append(f"{name} is not a number and was left out")
    return metrics


def _is_metric(name: str) -> bool:
    return 0 < len(name) <= _MOST_METRIC_CHARS and name.isprintable()


def _make_metrics_events(fields: Mapping[str, Any], metrics: Mapping[str, float], source: str) -> Recorded:
    """Return metrics in as many events as their lines need."""
    component, pairs = _find_name(fields, COMPONENT_KEYS), list(metrics.items())
    chunks = (dict(pairs[begin : begin + METRICS_AN_EVENT]) for begin in range(0, len(pairs), METRICS_AN_EVENT))
    return tuple(events.MetricsRecorded(component, events.Numbers(chunk), source) for chunk in chunks)


def _read_as_benchmark(fields: Mapping[str, Any], notes: list[str]) -> Recorded:
    parts = list(_list_benchmark_parts(fields))
    if not parts:
        return (_read_benchmark(fields),)
    results = []
    for place, part in parts:
        try:
            results.append(_read_benchmark(part, is_part=True))
        except _UnusableError as error:
            notes.append(f"{place} was left out: {error}")
    if not results:
        raise _UnusableError("none of its components is a benchmark")
    return tuple(results)


def _list_benchmark_parts(fields: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the results of a benchmark of several components, each with its place in the object."""
    sent = fields.get("components")
    own = {"benchmark": name} if (name := _find_name(fields, _BENCHMARK_KEYS)) else {}
    # Each component has its own cases: totals for all of them are not counted again.
    for index, part in enumerate(sent if isinstance(sent, list) else ()):
        result = dict(part) if isinstance(part, dict) else {}
        if not _find_name(result, COMPONENT_KEYS) and (name := _find_name(result, ("id", "name"))):
            result = {key: value for key, value in result.items() if key not in {"id", "name"}} | {"component": name}
        yield f"components[{index}]", own | result
    for name, part in sent.items() if isinstance(sent, dict) else ():
        yield f"components.{name}", own | {"component": name} | (part if isinstance(part, dict) else {})


def _read_benchmark(fields: Mapping[str, Any], *, is_part: bool = False) -> events.BenchmarkRecorded:
    summary = fields.get("summary")
    inner = summary if isinstance(summary, dict) else {}
    passed, total, failed = (_read_count(fields.get(key, inner.get(key))) for key in ("passed", "total", "failed"))
    if total is None and passed is not None and failed is not None:
        total = passed + failed
    if passed is None or total is None or passed > total:
        what = "whole numbers, 0 or more, as passed and as total, and no more passed than total"
        raise _UnusableError(f"a benchmark needs {what}")
    component = _find_name(fields, COMPONENT_KEYS)
    if is_part and not component:
        raise _UnusableError("it names no component")
    return events.BenchmarkRecorded(component, _find_name(fields, _BENCHMARK_KEYS), passed, total)


def _read_count(value: object) -> int | None:
    """Return a number of cases; None where it is not a whole number from 0 to 2^53."""
    number = _read_points(value, MAX_INT)
    return None if number is None or number != int(number) else int(number)


def _read_points(value: object, most: int = 100) -> float | None:
    """Return a number from 0 to the greatest; None for any other value."""
    number = read_number(value)
    return None if number is None or isinstance(number, bool) or not 0 <= number <= most else number


def _read_as_feedback(fields: Mapping[str, Any], notes: list[str]) -> Recorded:
    words = (fields[key].strip().casefold() for key in ("feedback", "verdict") if isinstance(fields.get(key), str))
    verdict = next((word for word in words if word in VERDICTS), "")
    numbers = (_read_points(fields.get(key)) for key in ("feedback", "score"))
    score = next((number for number in numbers if number is not None), VERDICTS.get(verdict))
    if score is None:
        raise _UnusableError(f"feedback is a number from 0 to 100, or one of {', '.join(VERDICTS)}")
    note = _read_text(fields.get("note"), "note", notes)
    return (events.FeedbackRecorded(_find_name(fields, COMPONENT_KEYS), score, verdict, note),)


def _read_text(value: object, what: str, notes: list[str]) -> str:
    """Return a text that a person wrote, cut to 10,000 characters."""
    if not isinstance(value, str):
        if value is not None:
            notes.append(f"the {what} is not a text and was left out")
        return ""
    if len(value) > MAX_NOTE_CHARS:
        notes.append(f"the {what} was cut to {MAX_NOTE_CHARS:,} characters")
    return value[:MAX_NOTE_CHARS].encode("utf-8", "replace").decode()


def _read_as_baseline(fields: Mapping[str, Any], notes: list[str]) -> Recorded:
    value = _read_points(fields.get("baseline", fields.get("value")))
    score = _find_name(fields, ("score", "component"))
    if value is None or not score:
        what = "a number from 0 to 100, with the score that it is for: ac06, session.overall"
        raise _UnusableError(f"a baseline is {what}")
    reason = _read_text(fields.get("reason"), "reason", notes)
    return (events.BaselineSet(score, value, reason),)


def _read_as_session_end(fields: Mapping[str, Any], _notes: list[str]) -> Recorded:
    if "session_ended" in fields and read_number(fields["session_ended"]) is not True:
        raise _UnusableError("session_ended is not true")
    return (events.SessionEnded(_find_version([fields])),)


def _find_version(areas: Sequence[Mapping[str, Any]]) -> str:
    """Return the version that a session ran under; empty where unknown."""
    metadata = [inner for area in areas if isinstance(inner := area.get("metadata"), dict)]
    names = (read_name(area.get(key)) for area in (*areas, *metadata) for key in _VERSION_KEYS)
    return next((name for name in names if name and name != "unknown"), "")


def _read_as_telemetry(fields: Mapping[str, Any], notes: list[str]) -> Recorded:
    type_ = _find_type(fields)
    if not type_:
        known = "metrics, nor a benchmark, feedback, a baseline, a session's end or telemetry"
        raise _UnusableError(f"it is neither {known}")
    row = find_row(type_, _find_name(fields, COMPONENT_KEYS))
    if row is None:
        raise _UnusableError(_UNSCORED)
    areas = [{key: value for key, value in area.items() if key not in SESSION_KEYS} for area in _find_data(fields)]
    areas.append({key: value for key, value in fields.items() if key not in _ABOUT})
    metrics = {name: value for name, value in read_metrics(row, areas).items() if _is_metric(name)}
    if isinstance(given := fields.get("metrics"), dict):
        metrics |= _read_metrics(given, notes)
    ended = (events.SessionEnded(_find_version(areas)),) if row.ends_session else ()
    if not metrics and not ended:
        raise _UnusableError("the event brings no number")
    return (*ended, *_make_metrics_events(fields, metrics, type_))


TELEMETRY: Final = "telemetry"
SHAPES: Final[dict[str, tuple[_Reader, str, tuple[str, ...], tuple[str, ...]]]] = {
    "metrics.recorded": (_read_as_metrics, "", ("component", "session"), ("metrics",)),
    "feedback.recorded": (_read_as_feedback, "human", ("session",), ("feedback",)),
    "session.ended": (_read_as_session_end, "agent", ("session",), ("session_ended",)),
    "baseline.set": (_read_as_baseline, "human", (), ("baseline",)),
    "benchmark.recorded": (_read_as_benchmark, "agent", ("component",), ("components", "benchmark", "passed")),
    TELEMETRY: (_read_as_telemetry, "", _WANTED, ()),
}
"""Kind that an object can declare → function that reads it, its rater if not that of its type, what it should name,
and keys that show the kind as well; the first match counts."""
