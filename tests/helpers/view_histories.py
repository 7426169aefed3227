"""Histories of every kind of event by hypothesis, and the documents of views, in a form that compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

import attrs
from hypothesis import strategies as st

from helpers.events import make_injection
from helpers.reference_model import COUNTS, NAMES, TEXTS
from tallybook.ledger.clock import Now, moment
from tallybook.ledger.events import (
    BaselineSet,
    BenchmarkRecorded,
    EventsVoided,
    FeedbackRecorded,
    LiftAsked,
    LiftStopped,
    LogRecovered,
    MetricsRecorded,
    Numbers,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookInjected,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointLimited,
    PointMerged,
    PointNoted,
    PointPinned,
    PointPlaced,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReviewed,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    SessionEnded,
    SessionMeasured,
    TelemetryKept,
    TranscriptRead,
    UnknownEvent,
)
from tallybook.ledger.names import SECTIONS
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.history.entry_history import EventPlace, Story
from tallybook.projections.history.votes import Maker
from tallybook.projections.playbook.fold import UNDOABLE, State, View, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

Made = View[Any]
RATINGS = st.sampled_from(["helpful", "harmful", "harmful", "neutral", "bogus"])

TOPS = st.sampled_from(
    [
        "",
        '{"version":"2.0"}',
        '{"version":"1.0","last_updated":"2025-01-01","owner":"me"}',
        '{"section_names":{"OTHERS":["kpt_002"],"MISTAKES TO AVOID":["kpt_001"]}}',
    ]
)

NONE = st.just("")
RATERS = st.sampled_from(["none", "claude"])
EVENT_IDS = st.integers(1, 60).map("id-{}".format)
COMPONENTS = st.sampled_from(["ac02", "AC-06", "", "ac99"])

METRICS = st.dictionaries(
    st.sampled_from(["completed", "total", "avg_iterations", "implemented", "successful"]),
    st.integers(-3, 100) | st.floats(-3, 100) | st.booleans(),
    max_size=3,
).map(Numbers)

KNOWN = st.one_of(
    st.builds(PointAdded, NAMES, TEXTS | st.none()),
    st.builds(PointRated, NAMES, RATINGS),
    st.builds(PointRated, NAMES, RATINGS),
    st.builds(PointSeeded, NAMES, COUNTS, COUNTS, st.just("canonical"), TEXTS, st.just("")),
    st.builds(PointEdited, NAMES, COUNTS, COUNTS, TEXTS),
    st.builds(PointRemoved, NAMES),
    st.builds(PlaybookUpdated, COUNTS, COUNTS, COUNTS),
    st.builds(PlaybookUpdated, COUNTS, COUNTS, COUNTS),
    st.builds(PlaybookOrdered, st.lists(NAMES, unique=True, max_size=4).map(tuple)),
    st.builds(PlaybookEdited, st.none(), st.none(), TOPS),
    st.builds(PlaybookAdopted, st.just("0" * 64), COUNTS, TOPS),
    st.builds(LogRecovered, COUNTS, COUNTS, st.just("0" * 32)),
    st.builds(PointNoted, NAMES, TEXTS),
    st.builds(PointReworded, NAMES, NONE, TEXTS | st.none()),
    st.builds(PointLimited, NAMES, NONE, st.sampled_from(["", "2026-12-31"])),
    st.builds(PointPlaced, NAMES, NONE, st.sampled_from([*SECTIONS])),
    st.sampled_from([PointRetired, PointRestored, PointPinned, PointUnpinned]).flatmap(
        lambda kind: st.builds(kind, NAMES, NONE)
    ),
    st.builds(PointMerged, NAMES, st.lists(NAMES, max_size=3).map(tuple), NONE),
    st.builds(EventsVoided, st.lists(EVENT_IDS, max_size=4).map(tuple), st.none(), NONE),
    st.builds(EventsVoided, st.just(()), st.integers(0, 9).map("s{}".format), NONE),
    st.builds(make_injection, st.lists(NAMES, max_size=3).map(tuple), COUNTS),
    st.builds(
        PlaybookInjected,
        st.lists(NAMES, max_size=2).map(tuple),
        st.lists(NAMES, max_size=2).map(tuple),
        st.just(Numbers({"room": 1})),
        st.none(),
        NONE,
        EVENT_IDS,
        st.integers(0, 9).map("s{}".format),
        st.lists(NAMES | st.just("playbook"), min_size=1, max_size=2).map(tuple),
        st.sampled_from([0.1, 0.5]),
    ),
    st.builds(
        PointReviewed,
        st.lists(NAMES, min_size=1, max_size=2).map(tuple),
        st.sampled_from(["contested", "duplicate", "no sign of use"]),
        st.just("keep"),
    ),
    st.builds(
        LiftAsked,
        st.sampled_from(["playbook", "new", "names"]),
        st.lists(NAMES, max_size=2).map(tuple),
        st.sampled_from(["session.overall", "ac06"]),
        st.just(0.03),
        NONE,
    ),
    st.builds(LiftStopped, EVENT_IDS),
    st.builds(PointCited, NAMES, st.just("message")),
    st.builds(ReflectionRequested, COUNTS, st.just("SessionEnd"), TEXTS | st.none()),
    st.builds(ReflectionStarted, RATERS, COUNTS),
    st.builds(TranscriptRead, st.sampled_from(["", "agent-1"]), COUNTS, COUNTS, COUNTS, NAMES, RATERS),
    st.builds(ReflectionCompleted, RATERS, COUNTS, COUNTS),
    st.builds(ReflectionFailed, RATERS, st.sampled_from(["gone", "unusable"]), COUNTS, COUNTS, TEXTS | st.none()),
    st.builds(MetricsRecorded, COMPONENTS, METRICS, NONE),
    st.builds(BenchmarkRecorded, COMPONENTS, NONE, st.integers(0, 5), st.integers(5, 9)),
    st.builds(FeedbackRecorded, COMPONENTS, st.integers(0, 100) | st.floats(0, 100), NONE, TEXTS | st.none()),
    st.builds(BaselineSet, st.sampled_from(["ac02", "session.overall"]), st.integers(0, 100), TEXTS | st.none()),
    st.builds(SessionEnded, st.sampled_from(["", "1.0", "2.0"])),
    st.builds(
        SessionMeasured, st.builds(lambda ended: Numbers({"prompts": 1, "calls": 9, "ended": ended}), st.booleans())
    ),
    st.builds(TelemetryKept, COMPONENTS, st.sampled_from(["", "coffee"]), NONE, TEXTS | st.none()),
)

UNKNOWN = st.builds(UnknownEvent, st.sampled_from(["point.praised", "point.rated"]), st.just(9), st.just("{}"))
HISTORIES = st.lists(st.lists(KNOWN, min_size=1, max_size=6), max_size=10)
FUTURES = st.lists(st.lists(KNOWN | UNKNOWN, min_size=1, max_size=6), max_size=10)


def history(stretches: Sequence[Sequence[Any]]) -> list[Batch]:
    """Return events as batches, a second apart."""
    lasts = list(accumulate(map(len, stretches)))
    return [
        make_batch(
            *(
                EventRecord(seq, moment(index * 1_000_000).at, event, f"id-{seq}", Author("test", f"s{index}"))
                for seq, event in enumerate(events, last - len(events) + 1)
            ),
            chain=f"chain-{index}",
        )
        for index, (events, last) in enumerate(zip(stretches, lasts, strict=True))
    ]


_TOLD_BY_FIELDS = {"tallybook.projections.history.entry_history"}


def plain(value: Any) -> Any:
    """Return a value as lists and texts that compare by content: order counts, random ids and chains do not."""
    if isinstance(value, Batch):
        # Of one that is left out there is nothing but its place.
        return value.at if value.records else value.last
    if isinstance(value, EventRecord | EventPlace):
        return attrs.evolve(value.record if isinstance(value, EventPlace) else value, id="")
    if isinstance(value, Mapping):
        return [[key, plain(child)] for key, child in value.items()]
    if isinstance(value, list | tuple | set):
        return [plain(child) for child in (sorted(value) if isinstance(value, set) else value)]
    if isinstance(value, State) or type(value).__module__ in _TOLD_BY_FIELDS:
        # All stories share the playbook of their state.
        fields = [field.name for field in attrs.fields(type(value)) if type(value) is not Story or field.name != "book"]
        return [[name, plain(getattr(value, name))] for name in fields]
    return value


def comparable(state: State) -> list[Any]:
    """Return the document of a state, wherever in a file it was read."""
    # Links and places say where batches are in a file.
    left_out = {*attrs.fields_dict(State), "stamp", "adoption", "redactions", "links", "places"}
    values = [(name, getattr(state, name)) for name in attrs.fields_dict(type(state)) if name not in left_out]
    return [[name, _comparable_value(value)] for name, value in values]


def _comparable_value(value: Any) -> Any:
    if isinstance(value, dict) and any(isinstance(child, State) for child in value.values()):
        return [[key, comparable(child)] for key, child in value.items()]
    return comparable(value) if isinstance(value, State) else plain(_drop_position(value))


def _drop_position(value: Any) -> Any:
    """Return a value without the last line of its batch, which may be of an unknown kind, and without drawn ids."""
    if isinstance(value, dict):
        return {key: state._replace(id="") if isinstance(state, Maker) else state for key, state in value.items()}
    return value


def make_ticking_clock() -> Callable[[], Now]:
    """Return a clock that moves on by a second at each read."""
    seconds = iter(range(1_000_000_000, 2_000_000_000))
    return lambda: moment(next(seconds) * 1_000_000)


# Histories with undone events, and the playbooks that follow from them.


SAID = KNOWN.filter(lambda event: not isinstance(event, EventsVoided))
CLOSE = PlaybookUpdated(0, 0, 0)
A, B, C = (PointAdded(f"kpt_{number:03d}", text) for number, text in enumerate("abc", 1))
# When it changed, where it was adopted, which names were used and how often the past was rewritten stay as they were.
TIMES = {"seq", "chain", "latest_batch", "latest", "stamp", "adoption"}
KEPT = {"used", "high_water", "rewrites", "redactions"}


def list_state(state: Playbook) -> dict[str, Any]:
    """Return all of a playbook's state, except for event times and used names."""
    fields = attrs.fields_dict(Playbook).keys() - TIMES - KEPT
    return {field: plain(getattr(state, field)) for field in sorted(fields)}


def fold_playbook(batches: Sequence[Batch], until: int | None = None) -> Playbook:
    """Return the playbook of a history, without its undone events."""
    return fold_history(PLAYBOOK, lambda: batches, until)


def playbook(*stretches: list[Any]) -> Playbook:
    """Return the playbook after these batches."""
    return fold_playbook(history(stretches))


def drop_events(batches: Sequence[Batch], ids: Collection[str]) -> list[Batch]:
    """Return a history without some events, of kinds that can be undone."""
    left = [
        [record for record in batch.records if not (record.id in ids and type(record.event) in UNDOABLE)]
        for batch in batches
    ]
    return [make_batch(*records) for records in left if records]


def append_batches(batches: Sequence[Batch], *stretches: Sequence[Any], session: str | None = None) -> list[Batch]:
    """Return a history with these further batches, by a session of their own."""
    told = list(batches)
    for events in stretches:
        seq = told[-1].last if told else 0
        records = [
            EventRecord(number, moment(number * 1_000_000).at, event, f"id-{number}", Author("human", session))
            for number, event in enumerate(events, seq + 1)
        ]
        told.append(make_batch(*records))
    return told


def ids_of(batches: Sequence[Batch]) -> list[str]:
    """Return the ids of all events."""
    return [record.id for batch in batches for record in batch.records]
