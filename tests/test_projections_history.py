"""Events as rows for `log`: JSON-ready, chosen by name, and as one line for people."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from helpers.injections import injected, injected_by_task
from helpers.ledger_codec import sample
from tallybook.ledger.events import (
    EVENT_TYPES,
    BaselineSet,
    BenchmarkRecorded,
    EventsVoided,
    FeedbackRecorded,
    LiftAsked,
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
    PointMerged,
    PointNoted,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
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
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.projections.event_rows import (
    QUOTE_CHARS,
    EventFilter,
    about,
    is_of_kind,
    row,
    select_events,
    summary,
)

AT = "2026-11-21T20:17:03.123456Z"


def recorded(event: Any, **head: Any) -> EventRecord:
    """Return a record of an event by a reflector."""
    return EventRecord(812, AT, event, "019a", Author("reflector", session="s1"), **head)


def test_a_row_has_time_and_key_if_the_event_has_them() -> None:
    """An imported event with an idempotency key has both."""
    told = row(recorded(PointRemoved("kpt_003"), key="import:1", when="2025-01-01T00:00:00Z"))
    assert ("import:1", "2025-01-01T00:00:00Z") == (told["key"], told["when"])


def test_redacted_text_is_null() -> None:
    """A redacted kind with free text keeps the field of its text, with null."""
    assert row(recorded(PointSeeded("kpt_001", 3, 1, "canonical", None, None)))["free"] is None


def test_the_text_of_an_unknown_kind_is_listed_too() -> None:
    """Its free text is outside its body, as for known kinds."""
    told = row(recorded(UnknownEvent("point.noted", 2, '{"name":"kpt_001"}', '{"note":"later"}')))
    assert ({"name": "kpt_001"}, {"note": "later"}) == (told["body"], told["free"])


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_every_kind_becomes_a_row_of_plain_json(kind: str) -> None:
    """Each field of each kind is in body or free, and survives JSON unchanged."""
    event = sample(kind)
    told = row(recorded(event))
    assert told == json.loads(json.dumps(told))
    assert (kind, EVENT_TYPES[kind][1]) == (told["kind"], told["v"])
    assert {field.name for field in attrs.fields(type(event))} == {*told["body"], *(told.get("free") or {})}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (PointRated("kpt_003", "harmful"), "kpt_003 rated harmful"),
        (
            PointRated("kpt_003", "superb"),
            "kpt_003 rated superb (counts nothing: a rating is helpful, harmful or neutral)",
        ),
        (PlaybookUpdated(2, 3, 0), "update: 2 added, 3 ratings"),
        (PlaybookUpdated(0, 1, 4), "update: 1 rating, 4 ignored"),
        (PlaybookUpdated(0, 0, 0), "update: nothing new"),
        (PointAdded("kpt_004", "Write\n tests"), 'learned kpt_004 "Write tests"'),
        (PointNoted("kpt_004", None), "kpt_004 noted: [redacted]"),
        (PointReworded("kpt_004", "shorter", "Test"), 'kpt_004 reworded "Test": "shorter"'),
        (PointRetired("kpt_004", "old"), 'kpt_004 retired: "old"'),
        (PointRestored("kpt_004", ""), "kpt_004 restored"),
        (PointPinned("kpt_004", None), "kpt_004 pinned: [redacted]"),
        (PointUnpinned("kpt_004", ""), "kpt_004 unpinned"),
        (PointMerged("kpt_001", ("kpt_003", "kpt_004"), ""), "kpt_003, kpt_004 merged into kpt_001"),
        (EventsVoided((), "5f1c", "misread"), 'session 5f1c undone: "misread"'),
        (EventsVoided(("019a", "019b"), None, ""), "2 events undone"),
        (EventsVoided(("019a",), None, None), "event 019a undone: [redacted]"),
        (PlaybookAdopted("ab12", 1, "{}"), "legacy playbook imported: 1 entry"),
        (PlaybookAdopted("ab12", 2, "{}"), "legacy playbook imported: 2 entries"),
        (injected(("kpt_001",), 0), "1 entry injected"),
        (injected(("kpt_001", "kpt_004"), 3), "2 entries injected, 3 left out"),
        (
            injected_by_task(("kpt_001",), 1.2345, room=2, unrelated=1),
            "1 entry injected for a prompt, 3 left out: 2 for want of room, 1 unrelated; lowest score 1.23",
        ),
        (
            PlaybookInjected((), ("kpt_001",), Numbers({"room": 0, "task": 2}), None, "", "q", "s1", ("new",), 0.2),
            "0 entries injected, 1 withheld, 2 left out",
        ),
        (LiftAsked("playbook", (), "ac06", 0.03, ""), "asked whether the playbook helps, by ac06"),
        (LiftAsked("new", ("kpt_001",), "ac06", 0.03, ""), "asked whether the new entries kpt_001 help, by ac06"),
        (PointCited("kpt_001", "message"), "kpt_001 cited in a message"),
        (PointCited("kpt_001", "Bash"), "kpt_001 cited in Bash"),
        (
            ReflectionRequested(81920, "SessionEnd", "t.jsonl"),
            "reflection requested by SessionEnd, up to byte 81,920 of the transcript",
        ),
        (ReflectionStarted("claude", 21000), "reflection started by claude, expected cost 21,000 tokens"),
        (TranscriptRead("", 0, 8190, 8192, "", "none"), "transcript read from byte 0 to 8,190"),
        (TranscriptRead("agent-a1", 5, 8190, 8192, "", "none"), "agent-a1 read from byte 5 to 8,190"),
        (ReflectionCompleted("claude", 20500, 310), "reflection done by claude for 20,810 tokens"),
        (
            ReflectionFailed("claude", "unusable", 20500, 4, "no JSON"),
            'reflection by claude failed, unusable, for 20,504 tokens: "no JSON"',
        ),
        (
            MetricsRecorded("ac01", Numbers({"startup_ms": 8000, "orientation_done": True}), ""),
            "ac01 measured: startup_ms 8000, orientation_done true",
        ),
        (MetricsRecorded("", Numbers({"drift_events": 1}), "drift"), "no component measured: drift_events 1 (drift)"),
        (MetricsRecorded("ac01", Numbers({}), ""), "ac01 measured: nothing"),
        (BenchmarkRecorded("ac06", "small", 41, 50), "ac06 benchmark small: 41 of 50 passed"),
        (BenchmarkRecorded("ac06", "", 0, 1), "ac06 benchmark: 0 of 1 passed"),
        (FeedbackRecorded("ac09", 100, "helpful", ""), "feedback on ac09: helpful"),
        (FeedbackRecorded("", 82.5, "", "slow"), 'feedback on session: 82.5: "slow"'),
        (BaselineSet("ac06", 82, ""), "baseline of ac06 set to 82"),
        (SessionEnded(""), "session ended"),
        (SessionEnded("2.0.0"), "session ended, version 2.0.0"),
        (SessionMeasured(Numbers({"calls": 31, "ended": True})), "session measured: calls 31, ended 1"),
        (TelemetryKept("", "coffee", "unknown", "{}"), "telemetry coffee kept: unknown"),
        (TelemetryKept("", "", "no type", "{}"), "telemetry without a type kept: no type"),
        (PointAdded("kpt_004", None), "learned kpt_004 [redacted]"),
        (PointSeeded("kpt_001", 3, 1, "odd", "Use types", ""), 'seeded kpt_001 "Use types" at 3 helpful, 1 harmful'),
        (PointEdited("kpt_001", 0, 2, "Use types"), 'edited kpt_001 "Use types" to 0 helpful, 2 harmful'),
        (PlaybookEdited(7, None, ""), "manual edit of the playbook as of event 7"),
        (PlaybookEdited(None, None, ""), "manual edit"),
        (UnknownEvent("point.pinned", 2, "{}"), "point.pinned: a kind (v2) that this Tallybook does not know"),
    ],
)
def test_a_summary_describes_the_event(event: Any, expected: str) -> None:
    """It has names, counts and the beginning of a text."""
    assert expected == summary(event)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("x" * QUOTE_CHARS, "x" * QUOTE_CHARS),
        ("x" * (QUOTE_CHARS + 1), "x" * (QUOTE_CHARS - 1) + "…"),
        ("x" * (QUOTE_CHARS - 2) + " yy", "x" * (QUOTE_CHARS - 2) + "…"),
    ],
    ids=["that fits", "one longer", "cut after a word"],
)
def test_a_summary_quotes_as_much_of_a_text_as_fits(text: str, quoted: str) -> None:
    """Sixty characters are quoted whole; of a longer text the beginning, with an ellipsis within the sixty."""
    assert f'learned kpt_001 "{quoted}"' == summary(PointAdded("kpt_001", text))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (PointRated("kpt_001", "helpful"), True),
        (PointRated("kpt_0011", "helpful"), False),
        (PlaybookOrdered(("kpt_002", "kpt_001")), True),
        (PlaybookOrdered(("kpt_002",)), False),
        (PointMerged("kpt_002", ("kpt_003", "kpt_001"), ""), True),
        (PointMerged("kpt_001", ("kpt_002",), ""), True),
        (PointMerged("kpt_002", ("kpt_003",), "as kpt_001"), False),
        (EventsVoided(("kpt_001",), "kpt_001", ""), False),
        (PlaybookUpdated(1, 1, 0), False),
        (UnknownEvent("point.pinned", 1, '{"name":"kpt_001"}'), True),
        (UnknownEvent("point.pinned", 1, '{"name":"kpt_0011"}'), False),
        (UnknownEvent("notes.taken", 1, '["kpt_001"]'), False),
    ],
)
def test_an_event_is_about_a_name_that_it_has(event: Any, expected: bool) -> None:
    """The name must be the whole name, in a known kind or an unknown one."""
    assert expected == about(event, "kpt_001")


def test_events_are_chosen_by_name_without_decoding_other_batches() -> None:
    """Of a batch that does not name the entry no header is decoded."""

    def refuse(*_: object) -> list[EventRecord]:
        raise AssertionError

    other = Batch(9, "", [PointRated("kpt_002", "helpful")], refuse)
    mixed = make_batch(recorded(PointRated("kpt_002", "helpful")), recorded(PointRated("kpt_001", "harmful")))
    assert [] == list(select_events(other, EventFilter("kpt_001")))
    assert [PointRated("kpt_001", "harmful")] == [one.event for one in select_events(mixed, EventFilter("kpt_001"))]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EventFilter(), True),
        (
            EventFilter(name="kpt_001", session="s1", rater="reflector", kinds=("point.rated",), since=811, until=812),
            True,
        ),
        (EventFilter(name="kpt_002"), False),
        (EventFilter(session="s"), False),
        (EventFilter(rater="human"), False),
        (EventFilter(kinds=("point.added", "point.*")), True),
        (EventFilter(kinds=("point.added",)), False),
        (EventFilter(since=812), False),
        (EventFilter(until=811), False),
    ],
)
def test_an_event_is_listed_if_every_filter_accepts_it(wanted: EventFilter, expected: bool) -> None:
    """Filters are combined; of several kinds one is enough."""
    batch = make_batch(recorded(PointRated("kpt_001", "helpful")))
    assert expected == bool(list(select_events(batch, wanted)))


@pytest.mark.parametrize(
    ("kind", "wanted", "expected"),
    [
        ("point.rated", "point.rated", True),
        ("point.rated", "point.*", True),
        ("pointless.rated", "point.*", False),
        *(("point.rated", wanted, False) for wanted in ("point.rate", "point.", "*")),
    ],
)
def test_a_kind_is_named_whole_or_by_its_family(kind: str, wanted: str, expected: bool) -> None:
    """Only ``.*`` is a wildcard."""
    assert expected == is_of_kind(kind, wanted)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (("a",), 'event 4 undone: "misread"'),
        (("c", "a", "b", "d"), 'events 4 to 6, 9 undone: "misread"'),
        (("a", "unknown"), '2 events undone: "misread"'),
        (("unknown",), 'event unknown undone: "misread"'),
    ],
)
def test_undone_events_are_named_by_number(ids: tuple[str, ...], expected: str) -> None:
    """If the numbers of all events are known, people see those and no ids."""
    assert expected == summary(EventsVoided(ids, None, "misread"), {"a": 4, "b": 5, "c": 6, "d": 9})
