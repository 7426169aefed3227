"""The scores view: the measurements of every session, the tallies of scores by day and version, and their files.

The measurements of a session are folded from its events in any order, and do not depend on the configuration, so
another one has the same. Some are computed from events of the playbook.

A late event changes its session and the tally of that session's day, however long ago it was. Weeks and months are
groups of days. Source: "Aggregate Scores" and "Daily Aggregates" of the scoring framework.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, tzinfo
from fractions import Fraction
from functools import lru_cache, partial
from hashlib import sha256
from heapq import nlargest
import json
from operator import attrgetter
import re
from string import digits
from typing import TYPE_CHECKING, Any, Final, NamedTuple
import zlib

import attrs
import msgspec

from tallybook.ledger import events
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.playbook.entry import normalize_words
from tallybook.projections.playbook.fold import State, View, batch_view
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.scores import scoring
from tallybook.projections.scores.config import OVERALL, SESSION, Config, component_id, score_id

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

    Document = dict[str, Any]


KINDS: Final = (events.MetricsRecorded, events.BenchmarkRecorded, events.FeedbackRecorded, events.SessionEnded)
"""Classes of the events that add to a session."""


_DECODER: Final = msgspec.json.Decoder(
    scoring.Session, dec_hook=lambda _, value: value if isinstance(value, int) else Fraction(value)
)


PLAYBOOK: Final = "playbook"
"""The component that is measured by events of the playbook, which is off by default."""


@attrs.define
class ScoredPlaybook(Playbook):
    """The playbook, and the words of all its texts.

    Attributes:
        words: Words of a text, as ``entry.normalize_words`` gives them → the names that had it, in order.
    """

    words: dict[str, dict[str, None]] = attrs.field(factory=dict)


def measure_batch(playbook: ScoredPlaybook, batch: Batch) -> EventRecord | None:
    """Apply a batch to the playbook, and return what it measures, as if it had been sent; None for nothing.

    Returns:
        Metrics of the component with the metadata of the last event that measures something. Each value adds up over a
        session.
    """
    values: Counter[str] = Counter()
    place, is_changed = None, False
    for index, event in enumerate(batch.events):
        # Measured before the change: whether the rated entry exists depends on the playbook before the event.
        if measured := _measure(playbook, event):
            values.update(measured)
            # Not the batch's last event: a kind of a later version there would give the measurement another id.
            place = index
        if (change := CHANGES.get(type(event))) is not None:
            change(playbook, event, batch)
            is_changed = True
            point = playbook.entries.get(event.name) if isinstance(event, events.TEXT_GIVERS) else None
            # All redacted texts read the same, and would pass for one piece of advice.
            if point is not None and point.text != REDACTED:
                playbook.words.setdefault(normalize_words(point.text), {})[point.name] = None
    if is_changed:
        settle(playbook, batch)
    if place is None:
        return None
    return attrs.evolve(batch.records[place], event=events.MetricsRecorded(PLAYBOOK, events.Numbers({**values}), ""))


def _measure(playbook: ScoredPlaybook, event: Any) -> dict[str, int]:
    """Return what an event measures, by the names that the configuration of the component uses."""
    match event:
        case events.PointRated(name=name, rating=rating) if playbook.merged.get(name, name) in playbook.entries:
            return _RATINGS.get(rating, {})
        case events.PointAdded(name=name, text=text) if name not in playbook.entries:
            # An entry that a person retired may be learned again: only one that the policy pruned counts as relearned.
            earlier = () if text is None else playbook.words.get(normalize_words(text), ())
            return {"learned": 1, "relearned": int(any(former in playbook.pruned for former in earlier))}
        case events.PlaybookUpdated():
            # Only an update measures what did not happen: a session without one has no score, rather than a bad one.
            nothing = dict.fromkeys(("ratings", "judged", "helpful", "learned", "relearned"), 0)
            return nothing | {"pruned": len(playbook.due)}
        case events.PlaybookInjected(names=names):
            return {"told": len(names)}
        case events.PointCited():
            return {"cited": 1}
    return {}


_RATINGS: Final[dict[str, dict[str, int]]] = {
    "helpful": {"ratings": 1, "judged": 1, "helpful": 1},
    "harmful": {"ratings": 1, "judged": 1},
    "neutral": {"ratings": 1},
}
"""Rating → measurements; other ratings measure nothing. Neutral ratings show activity and no judgement."""

PLAYBOOK_KINDS: Final = (*CHANGES, events.PlaybookInjected, events.PointCited)
"""Kinds that the component needs: all that change the playbook, injections and citations."""


class ScoredSession(NamedTuple):
    """The scores of a session that has any.

    Attributes:
        id: Its id.
        named: Whether an event names it; a benchmark without a session is a session of its own.
        at: Its time.
        day: Its day, ``2026-01-16``, in the configured zone.
        version: Its version, empty where unknown.
        seq: Number of its last event.
        levels: Score id → score, 0 to 100, and how much of its weight was measured, 0 to 100 percent.
    """

    id: str
    named: bool
    at: str
    day: str
    version: str
    seq: int
    levels: dict[str, tuple[int, int]]

    def level(self, score: str) -> scoring.Level:
        """Return a score. The score must be present."""
        return scoring.Level(self.day, *self.levels[score], self.seq)


@attrs.define
class Tally:
    """The scores of the sessions of a period.

    Attributes:
        sessions: How many sessions have any score.
        levels: Score id → the score and the measured percent of each session that has it.
    """

    sessions: int = 0
    levels: dict[str, list[tuple[int, int]]] = attrs.field(factory=lambda: defaultdict(list))

    def range(self, score: str) -> dict[str, int]:
        """Return a score's ``{avg, min, max}`` in whole points, halves rounded up. The score must be present."""
        values = [value for value, _ in self.levels[score]]
        # In whole numbers, so that no average depends on the last bit of a float.
        average = (2 * sum(values) + len(values)) // (2 * len(values))
        return {"avg": average, "min": min(values), "max": max(values)}

    def level(self, period: str, score: str) -> scoring.Level:
        """Return the average of a score over the tally's period. The score must be present."""
        measured = [measured for _, measured in self.levels[score]]
        share = sum(measured) / len(measured) / scoring.FULL
        return scoring.Level(period, self.range(score)["avg"], scoring.percent(share))


def add_up(sessions: Iterable[tuple[str, ScoredSession]]) -> dict[str, Tally]:
    """Return each period, in order, with the tally of its sessions."""
    periods: dict[str, Tally] = defaultdict(Tally)
    for name, session in sessions:
        tally = periods[name]
        tally.sessions += 1
        for score, level in session.levels.items():
            tally.levels[score].append(level)
    return dict(sorted(periods.items()))


PERIODS: Final[dict[str, tuple[str, Callable[[str], str]]]] = {
    "daily": ("date", str),
    "weekly": ("week", lambda day: "{:04}-W{:02}".format(*date.fromisoformat(day).isocalendar())),
    "monthly": ("month", lambda day: day[: len("2026-01")]),
}
"""Folder of the score files → the key of the period in them, and the function from a day to the period."""


def score_levels(periods: Mapping[str, Tally], score: str) -> list[scoring.Level]:
    """Return a score over each period that has it, in order."""
    return [tally.level(name, score) for name, tally in periods.items() if score in tally.levels]


MOST_UNCOUNTED: Final = 2_000
"""Most changed sessions to hold before counting them. Few sessions run at once, and counting each event is slow."""


@attrs.frozen
class Baseline:
    """The baseline of a score, as set last.

    Attributes:
        value: From 0 to 100.
        seq: Number of the event that set it.
        day: The day on which it was set.
    """

    value: float
    seq: int
    day: date


@attrs.define
class Scores(State):
    """The measurements and scores of all sessions.

    Attributes:
        config: The configuration of the scores.
        sessions: The measurements of each session, compressed: a long history has very many.
        scored: The sessions that have scores, by id.
        baselines: Score id → the baseline set last.
        uncounted: Sessions that changed since they were last counted.
        last_at: Time of the latest event, empty before the first.
        unscored: Reason why measurements have no effect → number of events: no session, no component, unknown
            component, a name that no metric of its component reads, or an unknown type of telemetry.
        playbook: The playbook, where the configuration scores it as a component; else an empty one.
        days: Day, ``2026-01-16`` in the configured zone → its sessions' scores, as of the last `seal`.
    """

    config: Config = attrs.field(kw_only=True)
    sessions: dict[str, bytes] = attrs.field(factory=dict)
    scored: dict[str, ScoredSession] = attrs.field(factory=dict)
    baselines: dict[str, Baseline] = attrs.field(factory=dict)
    uncounted: dict[str, scoring.Session] = attrs.field(factory=dict)
    last_at: str = ""
    unscored: Counter[str] = attrs.field(factory=Counter)
    playbook: ScoredPlaybook = attrs.field(factory=ScoredPlaybook)
    days: dict[str, Tally] = attrs.field(factory=dict)

    def count(self) -> None:
        """Score every changed session anew."""
        for id_, session in self.uncounted.items():
            # Each value names its event. Compressed, that takes a third. JSON has no fractions; they are texts in it.
            self.sessions[id_] = zlib.compress(msgspec.json.encode(session, enc_hook=str), 1)
            scores, shares = scoring.score_session(session, self.config)
            levels = {name: (value, scoring.percent(shares[name])) for name, value in scores.items()}
            self.scored.pop(id_, None)
            if levels:
                day = day_of(session.at, self.config.timezone)
                head = (id_, session.named, session.at, day, session.version, session.seq)
                self.scored[id_] = ScoredSession(*head, levels)
        self.uncounted.clear()

    def seal(self) -> None:
        """Score every changed session anew, and add up the days."""
        self.count()
        self.days = add_up((session.day, session) for session in self.scored.values())

    def session(self, id_: str) -> scoring.Session:
        """Return the measurements of a session so far."""
        if id_ in self.sessions and id_ not in self.uncounted:
            return _DECODER.decode(zlib.decompress(self.sessions[id_]))
        return self.uncounted.get(id_) or scoring.Session(id_)

    def latest_sessions(self) -> list[ScoredSession]:
        """Return the sessions that have scores, the latest first; of several at one time the greater id first."""
        return sorted(self.scored.values(), key=lambda session: (session.at, session.id), reverse=True)


@lru_cache(maxsize=MOST_UNCOUNTED)
def day_of(at: str, zone: tzinfo) -> str:
    """Return the day, ``2026-01-16``, of a time as the ledger writes it, in a time zone."""
    try:
        return at[:10] if zone is UTC else datetime.fromisoformat(at).astimezone(zone).date().isoformat()
    except OverflowError:
        # The first and last day of datetime cannot be moved to another zone.
        return at[:10]


def _add_to_session(state: Scores, record: EventRecord) -> None:
    """Add an event to its session."""
    id_ = scoring.session_of(record)
    state.last_at = max(state.last_at, scoring.time_of(record))
    event: Any = record.event
    if not id_:
        state.unscored["no session"] += 1
        return
    # Feedback without a component is about the session itself.
    if getattr(event, "component", None) == "" and not isinstance(event, events.FeedbackRecorded):
        state.unscored["no component"] += 1
    state.unscored.update(unknown_parts(state.config, event))
    session = state.uncounted[id_] = state.session(id_)
    session.add_event(record)


def unknown_parts(config: Config, event: Any) -> Iterator[str]:
    """Yield the unknown parts of an event: its component, or metrics that its component does not read."""
    component = component_id(getattr(event, "component", None) or "")
    if component and component not in config.components:
        yield f"unknown component {component}"
    elif isinstance(event, events.MetricsRecorded) and component and not event.source:
        # Telemetry has many values that no metric reads, and they are not spelling mistakes.
        known = config.components[component]
        yield from (f"unknown metric {name} of {component}" for name in event.metrics if name not in known.value_names)


_ALL_KINDS: Final = (*KINDS, events.BaselineSet, events.TelemetryKept)


def _apply_batch(state: Scores, batch: Batch) -> None:
    """Apply a batch; what it measures of a scored playbook counts as if it had been sent."""
    measured = measure_batch(state.playbook, batch) if PLAYBOOK in state.config.components else None
    # What people do outside of sessions is not measured.
    if measured is not None and measured.by.session:
        _add_to_session(state, measured)
    for record in batch.records:
        match record.event:
            case events.BaselineSet(score=score, value=value):
                day = date.fromisoformat(day_of(scoring.time_of(record), state.config.timezone))
                state.baselines[score_id(score)] = Baseline(value, record.seq, day)
            case events.TelemetryKept(type=type_):
                state.unscored[f"telemetry of type {type_ or 'unknown'}"] += 1
            case event if isinstance(event, KINDS):
                _add_to_session(state, record)
    # Uncounted sessions are unpacked, and a long history has very many.
    if len(state.uncounted) >= MOST_UNCOUNTED:
        state.count()


def scores_view(config: Config) -> View[Scores]:
    """Return the scores view under a configuration."""
    # Most events are ratings: without the playbook component they are not in the table at all.
    kinds = (*_ALL_KINDS, *(PLAYBOOK_KINDS if PLAYBOOK in config.components else ()))
    return batch_view(partial(Scores, config=config), kinds, _apply_batch)


# Score files: the path and the content of each. Source: "Score Storage" of the scoring framework

SESSIONS: Final = "sessions"
VERSIONS: Final = "versions"
SUFFIX: Final = ".json"
OVERALL_ID: Final = f"{SESSION}{OVERALL}"

_AGGREGATE: Final = ("sessions_count", "component_averages", "session_averages", "session_ranges", "trend")
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    **{folder: (key, *_AGGREGATE) for folder, (key, _) in PERIODS.items()},
    VERSIONS: ("version", *_AGGREGATE),
    SESSIONS: ("session_id", "timestamp", "version", "component_scores", "session_scores", "grade"),
}
"""Folder of the score files → the keys of its files, in order; the first gives the file its name."""

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


def is_score_file(folder: str, name: str, data: bytes) -> bool:
    """Return whether a file of this folder, name and content is a score file of Tallybook."""
    # Old files in the folder are deleted, so that the file of someone else must never pass for one of these.
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    keys = KEYS.get(folder, ())
    id_ = document[keys[0]] if isinstance(document, dict) and keys and tuple(document) == keys else None
    return isinstance(id_, str) and _place(folder, id_) == f"{folder}/{name}"


def document_bytes(document: Document) -> bytes:
    """Return the bytes of a score file."""
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def files(state: Scores, most: int | None = None) -> Iterator[tuple[str, Document]]:
    """Yield each score file as its path, ``daily/2026-01-16.json``, and its content.

    Files of sessions and days are written for the configured number of days, counted back from the last event, that
    day included; a week, month or version as long as one of its days is, and it counts all of its sessions.

    Args:
        state: What was scored, counted.
        most: Of how many sessions the files are asked for, those that changed last, and of their versions; None for
            all.
    """
    config, first = state.config, ""
    # Not from today: an old ledger that is replayed in ten years must give the same files.
    if state.last_at:
        first = first_of(day_of(state.last_at, config.timezone), config.storage.retention_days)
    sessions: Iterable[ScoredSession] = state.scored.values()
    if most is not None:
        sessions = nlargest(most, sessions, key=attrgetter("seq"))
    recent = [session for session in sessions if session.day >= first]
    for session in recent:
        yield _place(SESSIONS, session.id), session_document(session, config)
    for folder, (key, _) in PERIODS.items():
        for document in periods(state, folder, first):
            yield _place(folder, document[key]), document
    versions = {session.version for session in recent}
    for document in version_documents(state):
        if document["version"] in versions:
            yield _place(VERSIONS, document["version"]), document


def _place(folder: str, id_: str) -> str:
    # Names of periods need no escaping.
    return f"{folder}/{f'{id_}{SUFFIX}' if folder in PERIODS else file_name(id_)}"


def first_of(last: str, days: int) -> str:
    """Return the first of so many days that end with a day."""
    # More days can be configured than there are before the day, and no date lies before year 1.
    return date.fromordinal(max(date.fromisoformat(last).toordinal() - days + 1, 1)).isoformat()


def session_document(session: ScoredSession, config: Config) -> Document:
    """Return a session's scores as "Per-Session Scores" has them; those without data are left out."""
    return {
        "session_id": session.id,
        # The specification writes milliseconds, the ledger microseconds.
        "timestamp": f"{session.at[:23]}Z",
        "version": session.version or None,
        **divide_scores({score: value for score, (value, _) in session.levels.items()}, config),
    }


def divide_scores(scores: Mapping[str, int], config: Config) -> Document:
    """Return scores as ``{component_scores, session_scores, grade}``; the grade is None without an overall score."""
    components, sessions = _divide(scores, config)
    grade = scoring.grade_of(scores[OVERALL_ID], config).name if OVERALL_ID in scores else None
    return {"component_scores": components, "session_scores": sessions, "grade": grade}


def _divide(values: Mapping[str, Any], config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of components and those of composites, by their names, of values by score id."""
    components = {name: values[name] for name in config.components if name in values}
    composites = [score for score in config.scores if score.startswith(SESSION) and score in values]
    return components, {score.removeprefix(SESSION): values[score] for score in composites}


def coverage(levels: Mapping[str, scoring.Level]) -> dict[str, float]:
    """Return score id → the share of its weight that was measured, 0 to 1."""
    return {name: level.measured / 100 for name, level in levels.items()}


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
    names = {day: name_of(day) for day in state.days}
    ends = {name: day for day, name in names.items() if day >= first}
    sessions = ((names[session.day], session) for session in state.scored.values())
    tallies = add_up((name, session) for name, session in sessions if name in ends)
    overall = score_levels(state.days, OVERALL_ID)
    days = config.trends.long_term_days if folder in _LONG else config.trends.short_term_days
    for name, end in ends.items():
        until = bisect_right(overall, end, key=lambda level: level.period)
        values = [level.value for level in overall[max(until - 2 * days, 0) : until]]
        yield _aggregate(key, name, tallies[name], config, scoring.trend(values, days))


def version_documents(state: Scores) -> Iterator[Document]:
    """Yield the versions that have scores, in the order of the numbers in them; the trend compares with the one before.

    The one before is the last that has an overall score.
    """
    averages: list[int] = []
    versions = add_up((session.version, session) for session in state.scored.values() if session.version)
    for version in sorted(versions, key=_version_order):
        tally, change = versions[version], None
        if OVERALL_ID in tally.levels:
            averages.append(tally.range(OVERALL_ID)["avg"])
            change = scoring.trend(averages[-2:], 1)
        yield _aggregate("version", version, tally, state.config, change)


def _version_order(version: str) -> tuple[list[tuple[int, str]], str]:
    """Return what sorts 2.9 before 2.10."""
    # A version is compared with the one before it, so that 2.10 must come after 2.9.
    parts = re.findall(r"[0-9]+|[^0-9]+", version)
    numbers = [part.lstrip("0") if part[0] in digits else "" for part in parts]
    return [(len(number), number or part) for number, part in zip(numbers, parts, strict=True)], version


def _aggregate(key: str, name: str, tally: Tally, config: Config, change: Document | None) -> Document:
    """Return the scores of a period in the format of the score files.

    The averages of the composites are plain numbers, as in the specification, so their least and greatest have a key of
    their own.
    """
    components, sessions = _divide({score: tally.range(score) for score in tally.levels}, config)
    return {
        key: name,
        "sessions_count": tally.sessions,
        "component_averages": components,
        "session_averages": {name: extent.pop("avg") for name, extent in sessions.items()},
        "session_ranges": sessions,
        "trend": change and {"direction": change["direction"], "delta": change["delta"]},
    }
