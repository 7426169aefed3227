"""The ledger of the first release, in golden.jsonl, is read with its first meaning, and written again byte for byte.

Lines of golden.jsonl are never changed and never removed, only added after the last: users' ledgers have such lines.
A new kind or version is added as a further batch there and as a further row of BATCHES here.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
import json
from pathlib import Path
import re
from typing import Any

import attrs
import pytest

from helpers.ledger_lines import Read
from tallybook.ledger.codec import decode, encode
from tallybook.ledger.events import (
    EVENT_TYPES,
    BaselineSet,
    BenchmarkRecorded,
    BookBlock,
    BookOpened,
    BookRules,
    BookTaken,
    Event,
    EventRedacted,
    EventRepeated,
    EventsVoided,
    FeedbackRecorded,
    ItemSkipped,
    LedgerOpened,
    LiftAsked,
    LiftStopped,
    LogRecovered,
    MetricsRecorded,
    NamesMeant,
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
    PointMatched,
    PointMerged,
    PointNoted,
    PointPinned,
    PointPlaced,
    PointProposed,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReviewed,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    ProposalDecided,
    RedactionLinked,
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
from tallybook.ledger.line import START, Draft, Position, RawBatch, Stamp, frame, join_key
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Author
from tallybook.ledger.scan import Scan
from tallybook.ledger.verification import verify

GOLDEN = Path(__file__).with_name("golden.jsonl")
SOURCE = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
# 10,026 characters: ten thousand on its own line, the rest on a line that continues it.
LONG = "Prefer " + "0123456789" * 1000 + '\n\t"…" and \u2028 such, \U0001f600'
TORN = b'{"crc":"00000000","seq":14,"id":"0192aaaa-0000-7000-8000-00000000000e","at":"2026-11-2\n'


@attrs.frozen
class Golden:
    """A batch of the golden ledger.

    Attributes:
        at: When it was recorded.
        by: Its author.
        events: Its events.
        key: Its key, None without one.
        when: When its events happened, None for the time of recording.
        payload: Digest of what its caller delivered under the key, empty without one.
    """

    at: str
    by: dict[str, str]
    events: tuple[Event, ...]
    key: str | None = None
    when: str | None = None
    payload: str = ""


BATCHES = [
    Golden(
        "2026-11-21T20:17:03.123456Z",
        {"rater": "tallybook"},
        (LedgerOpened("0192aaaa-0000-7000-8000-0000000000ff", 1),),
    ),
    Golden(
        "2026-11-21T20:17:03.123456Z",
        {"rater": "import"},
        (
            PlaybookAdopted(SOURCE, 1, '{"version":"1.0","last_updated":null}'),
            PointSeeded("kpt_001", 2, 0, "dict_with_score", LONG, '{"text":"…","score":2}'),
            ItemSkipped(1, "holds no text", '{"name":"kpt_002","text":""}'),
        ),
        key=f"import:{SOURCE}",
    ),
    Golden(
        "2026-11-21T20:18:00.000000Z",
        {"rater": "reflector", "session": "5f1c2f0e", "agent": "main", "model": "m-1", "place": "transcript:12-40"},
        (PointAdded("kpt_002", "Use type hints"), PointRated("kpt_001", "helpful"), PlaybookUpdated(1, 1, 0)),
        key="session 5f1c2f0e: {12, [40]}",
        when="2026-11-21T20:17:59.999999Z",
    ),
    Golden(
        "2026-11-22T00:00:00.000000Z",
        {"rater": "human"},
        (
            PointEdited("kpt_002", 1, 0, "Prefer short texts"),
            PointRemoved("kpt_001"),
            PlaybookOrdered(("kpt_003", "kpt_002")),
            PlaybookEdited(9, SOURCE, ""),
        ),
    ),
    Golden(
        "2026-11-22T00:00:01.000000Z",
        {"rater": "tallybook"},
        (LogRecovered(14423, 14510, "157f816e9c2ff9e0f317bcce4c38dad7"),),
    ),
    Golden(
        "2026-11-22T00:00:02.000000Z",
        {"rater": "human"},
        (
            UnknownEvent(
                "point.starred",
                3,
                '{"name":"kpt_002","stars":5}',
                '{"why":"a text of a kind that is not known"}',
            ),
            PlaybookEdited(None, None, ""),
        ),
    ),
    Golden(
        "2026-11-22T00:00:03.000000Z",
        {"rater": "human"},
        (EventRedacted("0192aaaa-0000-7000-8000-000000000006", "a name of somebody"),),
    ),
    Golden(
        "2026-11-22T00:00:04.000000Z",
        {"rater": "human", "session": "77b0c1d2"},
        (
            PointNoted("kpt_002", "it saved the night"),
            PointReworded("kpt_002", "", "Prefer short texts, and say so"),
            PointRetired("kpt_002", "outdated"),
            PointRestored("kpt_002", ""),
            PointPinned("kpt_002", "a rule of the house"),
            PointUnpinned("kpt_002", ""),
            PointMerged("kpt_002", ("kpt_001", "kpt_003"), "they say the same"),
        ),
    ),
    Golden(
        "2026-11-22T00:00:05.000000Z",
        {"rater": "human"},
        (
            EventsVoided(("0192aaaa-0000-7000-8000-000000000018",), None, "not the same after all"),
            EventsVoided((), "77b0c1d2", ""),
        ),
    ),
    Golden(
        "2026-11-22T00:00:06.000000Z",
        {"rater": "tallybook", "session": "77b0c1d2", "agent": "a1"},
        (
            PlaybookInjected(("kpt_002",), (), Numbers({"room": 3}), None, "", "", "", (), 0.0),
            PointCited("kpt_002", "Bash"),
            ReflectionRequested(81920, "SessionEnd", "/home/me/.claude/projects/p/77b0c1d2.jsonl"),
        ),
        "injected:77b0c1d2",
    ),
    Golden(
        "2026-11-22T00:00:07.000000Z",
        {"rater": "reflector", "session": "77b0c1d2", "model": "m-1"},
        (
            ReflectionStarted("claude", 21000),
            TranscriptRead("agent-a1", 0, 81900, 81920, "6f1c2f0e-7a3b-4c44-9d0e-1b2c3d4e5f60", "claude"),
            ReflectionCompleted("claude", 20500, 310),
            ReflectionFailed("anthropic", "unusable", 20500, 4, "the answer is no JSON"),
        ),
        "reflected:77b0c1d2:agent-a1:0",
        "2026-11-21T23:59:00.000000Z",
    ),
    Golden(
        "2026-11-22T00:00:08.000000Z",
        {"rater": "import", "session": "77b0c1d2"},
        (
            MetricsRecorded(
                "ac01", Numbers({"startup_ms": 8000, "context_percent": 12.5, "orientation_done": True}), ""
            ),
            MetricsRecorded("AC-02", Numbers({"drift_events": 1}), "drift_detected"),
            BenchmarkRecorded("ac06", "swe-small", 41, 50),
            FeedbackRecorded("", 82.5, "", "it found the fault by itself"),
            FeedbackRecorded("ac09", 100, "helpful", ""),
            BaselineSet("session.overall", 87, "the release"),
            SessionEnded("2.0.0"),
            TelemetryKept(
                "AC-02", "coffee_made", "a type that says nothing of a score", '{"event_type":"coffee_made"}'
            ),
        ),
        "metrics:77b0c1d2",
        "2026-11-21T23:58:00.000000Z",
    ),
    Golden(
        "2026-11-23T15:30:00.000000Z",
        {"rater": "tallybook", "writer": "anna-1f2e3d4c"},
        (
            BookOpened("0192aaaa-0000-7000-8000-0000000000fe", "demo", 1, 1),
            BookRules(2),
            BookBlock(101, 200),
            PointMatched("kpt_103", "kpt_002", 2, 0, "Prefer short texts"),
            EventRepeated("point.rated"),
            RedactionLinked(("0192aaaa-0000-7000-8000-000000000003", "0192aaaa-0000-7000-8000-000000000006")),
            BookTaken(57, "a" * 32, 41, ("kpt_004",), ("kpt_104",)),
            NamesMeant(("kpt_105",), ("0192aaaa-0000-7000-8000-000000000006",)),
        ),
    ),
    Golden(
        "2026-11-23T15:31:00.000000Z",
        {"rater": "agent", "session": "s1", "agent": "claude"},
        (PointProposed("merge", "kpt_002", ("kpt_003",), "protected", "", "", "both say the same"),),
    ),
    Golden(
        "2026-11-23T15:32:00.000000Z",
        {"rater": "human"},
        (ProposalDecided("0192aaaa-0000-7000-8000-000000000032", "rejected", "they do not"),),
    ),
    Golden(
        "2026-11-23T18:30:00.000000Z",
        {"rater": "tallybook", "session": "s2"},
        (
            PlaybookInjected(
                ("kpt_002",),
                ("kpt_003", "kpt_005"),
                Numbers({"room": 3, "task": 1}),
                0.25,
                "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
                "0192aaaa-0000-7000-8000-000000000033",
                "s1",
                ("kpt_003", "kpt_005", "kpt_006"),
                0.2,
            ),
        ),
        "injected:s2",
    ),
    Golden(
        "2026-11-23T18:31:00.000000Z",
        {"rater": "human"},
        (
            LiftAsked("names", ("kpt_003", "kpt_005"), "session.overall", 0.0125, "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
            LiftStopped("0192aaaa-0000-7000-8000-000000000036"),
        ),
    ),
    Golden(
        "2026-11-23T19:20:00.000000Z",
        {"rater": "reflector", "session": "s2"},
        (
            PointPlaced("kpt_002", "it is one", "MISTAKES TO AVOID"),
            PointProposed("merge", "", ("kpt_002", "kpt_005"), "protected", "OTHERS", "Prefer short texts.", "alike"),
        ),
    ),
    Golden(
        "2026-11-23T19:45:00.000000Z",
        {"rater": "human"},
        (PointReviewed(("kpt_003", "kpt_005"), "duplicate", "keep"),),
    ),
    Golden(
        "2026-11-25T19:00:00.000000Z",
        {"rater": "agent", "session": "s3", "agent": "mcp"},
        (PointRated("kpt_003", "helpful"), PlaybookUpdated(0, 1, 0)),
        key="a delivery: 7",
        payload="0123456789abcdef0123456789abcdef",
    ),
    Golden(
        "2026-11-25T22:10:00.000000Z",
        {"rater": "tallybook", "session": "s3"},
        (
            SessionMeasured(
                Numbers({"prompts": 4, "calls": 31, "failed": 3, "first_answer_s": 2.1, "ended": True}),
            ),
        ),
        when="2026-11-25T22:09:00.000000Z",
    ),
    Golden(
        "2026-11-25T22:20:00.000000Z",
        {"rater": "human"},
        (PointLimited("kpt_003", "until the migration", "2026-12-31"),),
    ),
    Golden(
        "2026-11-25T22:30:00.000000Z",
        {"rater": "tallybook", "session": "s3"},
        (PlaybookInjected(("kpt_003",), (), Numbers({}), None, "0f1e2d3c4b5a6978", "", "", (), 0.0, "AGENTS.md"),),
        "offered:s3",
    ),
    Golden(
        "2026-11-26T18:00:00.000000Z",
        {"rater": "human"},
        (
            PointEdited(
                name="kpt_003",
                helpful=2,
                harmful=0,
                change="changed",
                helpful_before=1,
                harmful_before=0,
                text="Prefer short names",
            ),
        ),
    ),
]
UNKNOWN = Draft("point.starred", 3, {"name": "kpt_002", "stars": 5}, {"why": "a text of a kind that is not known"})


def golden_read() -> Read:
    """Return the result of a scan of the golden ledger."""
    with GOLDEN.open("rb") as file:
        scan = Scan(file.fileno(), START, GOLDEN.stat().st_size)
        return Read(list(scan), scan.stop, scan.sealed_ranges)


def framed(golden: Golden, mark: Position) -> RawBatch:
    """Return a batch framed anew, with the ids and salts of the golden ledger."""
    drafts = [UNKNOWN if isinstance(event, UnknownEvent) else encode(event, golden.when) for event in golden.events]
    ids, salts = count(mark.seq + 1), count(mark.seq + 1)
    return frame(
        drafts,
        Stamp(
            mark,
            golden.at,
            golden.by,
            lambda: f"0192aaaa-0000-7000-8000-{next(ids):012x}",
            lambda: f"5a17{next(salts):012x}",
            None if golden.key is None else join_key(golden.key, golden.payload),
        ),
    )


def lines() -> list[dict[str, Any]]:
    """Return the lines of the golden ledger, read by json alone; the torn one is left out."""
    return [json.loads(line) for line in GOLDEN.read_bytes().split(b"\n") if line not in {b"", TORN[:-1]}]


def test_the_golden_ledger_is_whole() -> None:
    """Every line verifies, and its one torn range is sealed."""
    found = golden_read()
    recovered = found.batches[4]
    assert (None, [(found.batches[3].end, recovered.offset)]) == (found.stop, found.sealed)
    assert TORN == GOLDEN.read_bytes()[found.batches[3].end : recovered.offset]
    assert sha256(TORN).hexdigest()[:32] == json.loads(recovered.raw)["body"]["digest"]


def test_the_golden_ledger_has_the_same_events() -> None:
    """Each batch decodes to the events that are written out above, with the same author, time and key."""
    found = list(decode(golden_read().batches))
    assert [golden.events for golden in BATCHES] == [tuple(batch.events) for batch in found]
    for golden, batch in zip(BATCHES, found, strict=True):
        first = batch.records[0]
        assert (golden.at, golden.key, golden.when) == (first.at, first.key, first.when)
        assert golden.payload == first.payload
        assert {Author(**golden.by)} == {record.by for record in batch.records}


@pytest.mark.parametrize("index", range(len(BATCHES)))
def test_the_golden_ledger_is_written_again_byte_for_byte(index: int) -> None:
    """The same events with the same stamp give the same bytes; a batch of an older version is only read."""
    batches = golden_read().batches
    batch, known = batches[index], {kind: today for kind, (_, today) in EVENT_TYPES.items()}
    if all(known.get(line["kind"], line["v"]) == line["v"] for line in map(json.loads, batch.raw.splitlines())):
        before = batches[index - 1].position if index else START
        assert batch.raw == framed(BATCHES[index], before._replace(offset=batch.offset)).raw


def test_every_kind_and_version_has_its_golden_line() -> None:
    """A kind or a version without a line in golden.jsonl could change unnoticed."""
    wanted = {(kind, version) for kind, (_, today) in EVENT_TYPES.items() for version in range(1, today + 1)}
    assert wanted | {("text.continued", 1), ("point.starred", 3)} == {(line["kind"], line["v"]) for line in lines()}


@pytest.mark.parametrize("index", range(len(BATCHES)))
def test_the_chain_follows_its_documented_rule(index: int) -> None:
    """Worked out by hand: SHA-256 over the previous value and the batch before its chain, without the free values."""
    data = GOLDEN.read_bytes().replace(TORN, b"")
    parts = re.split(rb',\t"chain":"([0-9a-f]{32})"\}\n', data)
    batches, chains = parts[0:-1:2], [b"0" * 32, *parts[1::2]]
    proven = re.sub(rb'(?<=,\t"free":)(null|\{.*?\})(?=\}?(\n|$))', b"", batches[index])
    assert (b"", len(BATCHES)) == (parts[-1], len(batches))
    assert chains[index + 1].decode() == sha256(chains[index] + proven).hexdigest()[:32]


def test_the_sums_and_checksums_follow_their_documented_rules() -> None:
    """Worked out by hand: each free value is proven by its sum, salt included."""
    for text, line in zip(
        GOLDEN.read_text(encoding="utf-8").replace(TORN.decode(), "").split("\n"), lines(), strict=False
    ):
        free = re.search(r',\t"free":(\{.*?\})\}?(,\t"chain":"[0-9a-f]{32}"\})?$', text)
        assert ("free" in line) == (free is not None)
        if free is not None:
            assert line["sum"] == sha256(free[1].encode()).hexdigest()[:32]


def test_golden_lines_are_verified_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`verify` checks no line of an intact ledger by itself, whatever kinds, keys, times and texts it has."""
    monkeypatch.setattr("tallybook.ledger.verification._check_line", None)
    log = JsonlLog(tmp_path)
    log.path.write_bytes(GOLDEN.read_bytes())
    assert () == verify(log).problems
