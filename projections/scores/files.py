"""The score files of a state: the path and the content of each. Pure.

Source: "Score Storage" of the scoring framework.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from hashlib import sha256
from itertools import takewhile
import json
import re
from string import digits
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.scores.config import OVERALL, SESSION, Config
from tallybook.projections.scores.inputs import Session
from tallybook.projections.scores.scoring import grade_of
from tallybook.projections.scores.trends import Trend, trend
from tallybook.projections.scores.view import PERIODS, Scores, Tally, day_of, group_days, score_levels

if TYPE_CHECKING:
    Document = dict[str, Any]

SESSIONS: Final = "sessions"
VERSIONS: Final = "versions"
SUFFIX: Final = ".json"
OVERALL_ID: Final = f"{SESSION}{OVERALL}"

NAMED_BY: Final[dict[str, str]] = {
    SESSIONS: "session_id",
    **{folder: key for folder, (key, _) in PERIODS.items()},
    VERSIONS: "version",
}
"""Folder of the score files → the key in each file that gives the file its name."""

_AGGREGATE: Final[tuple[str, ...]] = (
    "sessions_count",
    "component_averages",
    "session_averages",
    "session_ranges",
    "trend",
)
KEYS: Final[dict[str, tuple[str, ...]]] = {
    folder: (key, *_AGGREGATE) for folder, key in NAMED_BY.items() if folder != SESSIONS
} | {SESSIONS: ("session_id", "timestamp", "version", "component_scores", "session_scores", "grade")}
"""Folder → the keys of its files, in order."""

# File systems fold case and accents: two ids that differ by these alone would share a file.
_PLAIN: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
# Windows reserves these names for devices, with any extension.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SHOWN_CHARS: Final = 60
_DIGEST_CHARS: Final = 32
# The specification has weeks for the visibility of a trend, and months for long-term trends.
_LONG: Final = ("monthly",)
"""Folders whose trend is the long one."""


def file_name(id_: str) -> str:
    """Return the name of the file of a session or a version, unique on every file system.

    An id of lower-case letters, digits, ``.``, ``_`` and ``-`` is used as it is. An id with other characters, longer
    than 100 characters, beginning with a dot, or reserved for a device by some system is written in lower case, with
    ``_`` for other characters, cut to 60 characters, followed by ``~`` and 32 digits of its SHA-256.
    """
    if _PLAIN.fullmatch(id_) and not _DEVICES.fullmatch(id_):
        return f"{id_}{SUFFIX}"
    shown = re.sub(r"[^a-z0-9_-]", "_", id_.lower())[:_SHOWN_CHARS]
    return f"{shown}~{sha256(id_.encode()).hexdigest()[:_DIGEST_CHARS]}{SUFFIX}"


def is_score_file(folder: str, name: str, document: object) -> bool:
    """Return whether a file of this folder, name and content is a score file of Tallybook."""
    # Old files in the folder are deleted, so that the file of someone else must never pass for one of these.
    keys = KEYS.get(folder, ())
    if not isinstance(document, dict) or tuple(document) != keys or not keys:
        return False
    id_ = document[NAMED_BY[folder]]
    return isinstance(id_, str) and _place(folder, id_) == f"{folder}/{name}"


def document_bytes(document: Document) -> bytes:
    """Return the bytes of a score file."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def files(
    state: Scores, touched: Collection[str] | None = None, versions: Collection[str] = ()
) -> Iterator[tuple[str, Document]]:
    """Yield each score file as its path, ``daily/2026-01-16.json``, and its content.

    Files of sessions and days are written for the configured number of days, counted back from the last event, that
    day included; a week, month or version as long as one of its days is, and it counts all of its sessions.

    Args:
        state: What was scored, counted.
        touched: The sessions whose files are asked for, and those of their versions; None for all.
        versions: Further versions whose files are asked for.
    """
    config, first = state.config, ""
    # Not from today: an old ledger that is replayed in ten years must give the same files.
    if state.last_at:
        first = first_of(day_of(state.last_at, config.timezone), config.storage.retention_days)
    known = set(versions)
    recent = takewhile(lambda session: day_of(session.at, config.timezone) >= first, state.sessions.latest())
    for session in recent if touched is None else filter(None, map(state.session, touched)):
        if session.scores and session.day >= first:
            known.add(session.version)
            yield _place(SESSIONS, session.id), session_document(session, config)
    for folder, (key, _) in PERIODS.items():
        for document in periods(state, folder, first):
            yield _place(folder, document[key]), document
    for document in version_documents(state):
        if document["version"] in known:
            yield _place(VERSIONS, document["version"]), document


def _place(folder: str, id_: str) -> str:
    # Names of periods need no escaping.
    return f"{folder}/{f'{id_}{SUFFIX}' if folder in PERIODS else file_name(id_)}"


def first_of(last: str, days: int) -> str:
    """Return the first of so many days that end with a day."""
    # More days can be configured than there are before the day, and no date lies before year 1.
    return date.fromordinal(max(date.fromisoformat(last).toordinal() - days + 1, 1)).isoformat()


def session_document(session: Session, config: Config) -> Document:
    """Return a session's scores as "Per-Session Scores" has them; those without data are left out.

    Args:
        session: A session that was counted and has at least one score.
        config: What scores are made of.
    """
    return {
        "session_id": session.id,
        # The specification writes milliseconds, the ledger microseconds.
        "timestamp": f"{session.at[:23]}Z",
        "version": session.version or None,
        **divide_scores(session.scores, config),
    }


def divide_scores(scores: Mapping[str, int], config: Config) -> Document:
    """Return scores as ``{component_scores, session_scores, grade}``; the grade is None without an overall score."""
    components, sessions = _divide(scores, config)
    grade = grade_name(scores.get(OVERALL_ID), config)
    return {"component_scores": components, "session_scores": sessions, "grade": grade}


def _divide(values: Mapping[str, Any], config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of components and those of composites, by their names, of values by score id."""
    ids = {name: f"{SESSION}{name}" for name in (*config.sessions, OVERALL)}
    components = {name: values[name] for name in config.components if name in values}
    return components, {name: values[score] for name, score in ids.items() if score in values}


def coverage(measured: Mapping[str, int]) -> dict[str, float]:
    """Return score id → the share of its weight that was measured, 0 to 1, of percents."""
    return {name: of / 100 for name, of in measured.items()}


def grade_name(value: float | None, config: Config) -> str | None:
    """Return the letter of a score, None for no data."""
    grade = grade_of(value, config.grades)
    return None if grade is None else grade.name


def periods(state: Scores, folder: str, first: str = "") -> Iterator[Document]:
    """Yield the days, weeks or months that have scores, in order, as "Daily Aggregates" has them.

    The trend is that of the overall score as of the last day with data in the period: the short one, and of
    months the long one.

    Args:
        state: What was scored, counted.
        folder: daily, weekly or monthly.
        first: Only those of which a day is this one or a later one.
    """
    config = state.config
    key, name_of = PERIODS[folder]
    ends = {name_of(day): day for day in sorted(state.days) if day >= first}
    tallies = group_days({day: tally for day, tally in state.days.items() if name_of(day) in ends}, name_of)
    overall = score_levels(state.days, OVERALL_ID)
    days = config.trends.long_term_days if folder in _LONG else config.trends.short_term_days
    for name in sorted(ends):
        until = bisect_right(overall, ends[name], key=lambda level: level.period)
        values = [level.score for level in overall[max(until - 2 * days, 0) : until]]
        yield _aggregate(key, name, tallies[name], config, trend(values, days))


def version_documents(state: Scores) -> Iterator[Document]:
    """Yield the versions that have scores, in the order of the numbers in them; the trend compares with the one before.

    The one before is the last that has an overall score.
    """
    averages: list[int] = []
    for version in sorted(state.versions, key=_version_order):
        tally = state.versions[version]
        overall = tally.range(OVERALL_ID)
        averages += [] if overall is None else [overall.avg]
        change = None if overall is None else trend(averages[-2:], 1)
        yield _aggregate("version", version, tally, state.config, change)


def _version_order(version: str) -> tuple[list[tuple[int, str]], str]:
    """Return what sorts 2.9 before 2.10."""
    # A version is compared with the one before it, so that 2.10 must come after 2.9.
    parts = re.findall(r"[0-9]+|[^0-9]+", version)
    numbers = [part.lstrip("0") if part[0] in digits else "" for part in parts]
    return [(len(number), number or part) for number, part in zip(numbers, parts, strict=True)], version


def _aggregate(key: str, name: str, tally: Tally, config: Config, change: Trend | None) -> Document:
    """Return the scores of a period in the format of the score files.

    The averages of the composites are plain numbers, as in the specification, so their least and greatest have a key of
    their own.
    """
    components, sessions = _divide({score: tally.range(score) for score in tally.scores}, config)
    return {
        key: name,
        "sessions_count": tally.sessions,
        "component_averages": {name: attrs.asdict(average) for name, average in components.items()},
        "session_averages": {name: average.avg for name, average in sessions.items()},
        "session_ranges": {name: {"min": average.min, "max": average.max} for name, average in sessions.items()},
        "trend": None if change is None else {"direction": change.direction, "delta": change.delta},
    }
