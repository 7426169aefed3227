"""The score files of a state: the path and the content of each. Pure.

Source: "Score Storage" of the scoring framework.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import date
from hashlib import sha256
from itertools import takewhile
import json
import re
from string import digits
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.projections.scores.configuration.model import OVERALL, SESSION
from tallybook.projections.scores.grades import grade_of
from tallybook.projections.scores.periods import PERIODS, aggregate, grouped, series
from tallybook.projections.scores.trends.trend import trend
from tallybook.projections.scores.view import day_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.scores.periods import Tally
    from tallybook.projections.scores.session_inputs import Session
    from tallybook.projections.scores.trends.trend import Trend
    from tallybook.projections.scores.view import Scores

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

_PLAIN: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
# Windows reserves these names for devices, with any extension.
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_SHOWN_CHARS: Final = 60
_DIGEST_CHARS: Final = 32
_LONG: Final = ("monthly",)
"""Folders whose trend is the long one."""


def file_name(id_: str) -> str:
    """Return the name of the file of a session or a version, unique on every file system.

    Small letters, digits, ``.``, ``_`` and ``-`` stand as they are. An id with anything else in it, longer than 100
    characters, that begins with a dot, or that some system gives to a device, is written small, with ``_`` for what is
    else, at most 60 characters of it, and ``~`` and 32 digits of its SHA-256 behind it.
    """
    if _PLAIN.fullmatch(id_) and not _DEVICES.fullmatch(id_):
        return f"{id_}{SUFFIX}"
    shown = re.sub(r"[^a-z0-9_-]", "_", id_.lower())[:_SHOWN_CHARS]
    return f"{shown}~{sha256(id_.encode()).hexdigest()[:_DIGEST_CHARS]}{SUFFIX}"


def named_as(folder: str, name: str, document: object) -> bool:
    """Say whether a file of this folder, name and content is a score file of Tallybook."""
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

    A session, a day, and a week, month or version of which any day is so, is kept for the configured number of days,
    counted back from the last event, that day included; what they say counts every session of theirs.

    Args:
        state: What was scored, counted.
        touched: Of the files of sessions only these sessions' are asked for, and of versions those of theirs beside
            those named; None for all.
        versions: Those.
    """
    config, first = state.config, first_day(state)
    known = set(versions)
    for session in _latest(state, first) if touched is None else filter(None, map(state.session, touched)):
        if session.contribution is not None and session.contribution.day >= first:
            known.add(session.version)
            yield _place(SESSIONS, session.id), session_document(session, config)
    for folder, (key, _) in PERIODS.items():
        for document in periods(state, folder, first):
            yield _place(folder, document[key]), document
    for document in version_documents(state):
        if document["version"] in known:
            yield _place(VERSIONS, document["version"]), document


def _latest(state: Scores, first: str) -> Iterator[Session]:
    """Yield the sessions from a day on, the latest first."""
    return takewhile(lambda session: day_of(session.at, state.config.timezone) >= first, state.sessions.latest())


def _place(folder: str, id_: str) -> str:
    # What periods are called is ours to say.
    return f"{folder}/{f'{id_}{SUFFIX}' if folder in PERIODS else file_name(id_)}"


def first_day(state: Scores) -> str:
    """Return the first day that is kept, as many days back from the last event as the configuration says."""
    if not state.last_at:
        return ""
    return first_of(day_of(state.last_at, state.config.timezone), state.config.storage.retention_days)


def first_of(last: str, days: int) -> str:
    """Return the first of so many days that end with a day."""
    return date.fromordinal(max(date.fromisoformat(last).toordinal() - days + 1, 1)).isoformat()


def session_document(session: Session, config: Config) -> Document:
    """Return a session's scores as "Per-Session Scores" has them; those without data are left out.

    Args:
        session: A session that was counted and has at least one score.
        config: What scores are made of.
    """
    return {
        "session_id": session.id,
        "timestamp": f"{session.at[:23]}Z",
        "version": session.version or None,
        **divided(session.scores, config),
    }


def divided(found: Mapping[str, int], config: Config) -> Document:
    """Return scores as ``{component_scores, session_scores, grade}``; the grade is None without an overall score."""
    overall = found.get(OVERALL_ID)
    return {
        "component_scores": {name: found[name] for name in config.components if name in found},
        "session_scores": {
            name: found[f"{SESSION}{name}"] for name in (*config.sessions, OVERALL) if f"{SESSION}{name}" in found
        },
        "grade": grade_name(overall, config),
    }


def coverage(measured: Mapping[str, int]) -> dict[str, float]:
    """Return score id → the share of its weight that was measured, 0 to 1, of percents."""
    return {name: of / 100 for name, of in measured.items()}


def grade_name(value: float | None, config: Config) -> str | None:
    """Return the letter of a score, None for no data."""
    found = grade_of(value, config.grades)
    return None if found is None else found.name


def periods(state: Scores, folder: str, first: str = "") -> Iterator[Document]:
    """Yield the days, weeks or months that have scores, in order, as "Daily Aggregates" has them.

    The trend is that of the overall score as it stood at the last day with data in the period: the short one, and of
    months the long one.

    Args:
        state: What was scored, counted.
        folder: daily, weekly or monthly.
        first: Only those of which a day is this one or a later one.
    """
    config = state.config
    key, name_of = PERIODS[folder]
    ends = {name_of(day): day for day in sorted(state.days) if day >= first}
    tallies = grouped({day: tally for day, tally in state.days.items() if name_of(day) in ends}, name_of)
    history = _History.of(state.days)
    days = config.trends.long_term_days if folder in _LONG else config.trends.short_term_days
    for name in sorted(ends):
        yield _aggregate(key, name, tallies[name], config, history.trend(ends[name], days))


def version_documents(state: Scores) -> Iterator[Document]:
    """Yield the versions that have scores, in the order of the numbers in them; the trend compares with the one before.

    The one before is the last that has an overall score.
    """
    averages: list[int] = []
    for version in sorted(state.versions, key=_version_order):
        tally = state.versions[version]
        overall = tally.range(OVERALL_ID)
        averages += [] if overall is None else [overall.avg]
        found = None if overall is None else trend(averages[-2:], 1)
        yield _aggregate("version", version, tally, state.config, found)


def _version_order(version: str) -> tuple[list[tuple[int, str]], str]:
    """Return what sorts 2.9 before 2.10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", version)
    numbers = [part.lstrip("0") if part[0] in digits else "" for part in parts]
    return [(len(number), number or part) for number, part in zip(numbers, parts, strict=True)], version


def _aggregate(key: str, name: str, tally: Tally, config: Config, found: Trend | None) -> Document:
    brief = None if found is None else {"direction": found.direction, "delta": found.delta}
    return {key: name, **aggregate(tally, config), "trend": brief}


@attrs.frozen
class _History:
    """The overall score day by day.

    Attributes:
        days: Days that have one, in order.
        values: Its average on each.
    """

    days: Sequence[str]
    values: Sequence[int]

    @classmethod
    def of(cls, days: Mapping[str, Tally]) -> _History:
        found = series(days, OVERALL_ID)
        return cls([day.isoformat() for day, _ in found], [value for _, value in found])

    def trend(self, until: str, days: int) -> Trend | None:
        """Return the trend as it stood on a day."""
        end = bisect_right(self.days, until)
        return trend(self.values[max(end - 2 * days, 0) : end], days)
