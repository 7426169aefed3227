"""The verification report: missing ranges, expected positions, order, messages, and what salvage yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.ledger_lines import batches_of, forge, raw
from helpers.ledger_redaction import ledger_with_secret, put, strike
from tallybook.ledger.encoding.codec import decode, encode
from tallybook.ledger.errors import NewerLedgerError, Problem
from tallybook.ledger.events import EventRedacted, LedgerOpened, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import START, Draft, Position, split_line, split_lines
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import head as heads
from tallybook.ledger.storage.head import Head
from tallybook.ledger.storage.redaction import PendingRedaction, write_pending
from tallybook.ledger.verification import Verdict, salvage, verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RATED = encode(PointRated("kpt_001", "helpful"))
STARRED = Draft("point.starred", 1, {})
BATCHES = batches_of(
    [encode(LedgerOpened("ledger-1", 1))],
    [encode(PointAdded("kpt_001", "Use type hints")), encode(PlaybookUpdated(1, 0, 0))],
    [RATED],
    [STARRED],
    [RATED],
)
LOG = raw(BATCHES)
LAST = BATCHES[-1].position
BODY = '"kind":"point.removed","v":1,"body":{"name":"kpt_001"}'
CHANGED = "was changed: its bytes do not fit its checksum"
BLOTTED = "its text was erased without an event.redacted"


@pytest.fixture
def ledger(tmp_path: Path) -> Callable[..., JsonlLog]:
    """Return a function that writes a ledger's bytes and a head that acknowledges up to a position, and opens it."""

    def write(data: bytes | None, head: Position | None = LAST) -> JsonlLog:
        if data is not None:
            (tmp_path / "events.jsonl").write_bytes(data)
        if head is not None:
            (tmp_path / "head").write_bytes(heads.encode(Head(head, "boot")))
        return JsonlLog(tmp_path)

    return write


def problem_at(seq: int, message: str) -> Problem:
    """Return the problem of an existing line."""
    return Problem(f"events.jsonl: seq {seq}", message, seq)


def redacted_log(data: bytes) -> bytes:
    """Return the log with its text overwritten."""
    value = split_line(split_lines(BATCHES[1].data)[0])[2] or b""
    return data.replace(value, b"null".ljust(len(value)))


def test_a_verdict_on_no_ledger_is_empty(ledger: Callable[..., JsonlLog]) -> None:
    """Without a ledger every part of the verdict is empty."""
    assert Verdict(0, START, (), (), {}, (), ()) == verify(ledger(None, None))


def test_an_expected_head_is_found(ledger: Callable[..., JsonlLog]) -> None:
    """A chain value that was noted elsewhere is that of the batch that ends at its seq."""
    log = ledger(LOG)
    assert [True] * 5 == [verify(log, expect=(batch.last, batch.chain)).ok for batch in BATCHES]


@pytest.mark.parametrize("seq", [1, 2, 3, 9])
def test_a_missing_expected_head_is_a_problem(ledger: Callable[..., JsonlLog], seq: int) -> None:
    """A ledger that was written anew verifies, but does not have the noted head of the old one."""
    message = f"no batch that ends at seq {seq} has the chain {BATCHES[2].chain}, which was expected"
    problem = Problem("events.jsonl", message, seq)
    assert Verdict(6, LAST, (problem,), (), {"point.starred/1": 1}) == verify(
        ledger(LOG), expect=(seq, BATCHES[2].chain)
    )


def test_an_expected_head_without_a_ledger_is_a_problem(ledger: Callable[..., JsonlLog]) -> None:
    """If the ledger is missing with its head, the expectation fails; with its head, one problem is reported."""
    expect = (3, BATCHES[1].chain)
    problem = Problem("events.jsonl", "is missing, and seq 3 was expected", 3)
    assert Verdict(0, START, (problem,), (), {}) == verify(ledger(None, None), expect=expect)
    problem = Problem("events.jsonl", "is missing, and held 6 events", 6)
    assert Verdict(0, START, (problem,), (), {}) == verify(ledger(None), expect=expect)


@pytest.mark.parametrize("number", range(1, 4))
def test_damage_hides_no_later_batch(ledger: Callable[..., JsonlLog], number: int) -> None:
    """The missing range has its first and last seq, and all later valid batches are checked."""
    batch = BATCHES[number]
    changed = raw(BATCHES[:number]) + batch.raw.replace(b'"id":"id', b'"id":"di', 1) + raw(BATCHES[number + 1 :])
    again = forge((BODY, None), mark=LAST, head={"id": '"id-1"'})
    verdict = verify(ledger(changed + again.raw, again.position))
    problem = Problem(f"events.jsonl:{batch.first}", CHANGED, batch.first, batch.first)
    assert (problem, problem_at(7, "repeats the id id-1")) == verdict.problems
    assert (BATCHES[number - 1].last, BATCHES[number - 1].position) == (verdict.events, verdict.head)
    assert ((batch.first, batch.last),) == verdict.missing
    assert ({} if number == 3 else {"point.starred/1": 1}) == verdict.unknown_kinds


def test_problems_are_in_the_order_of_the_file(ledger: Callable[..., JsonlLog]) -> None:
    """Erased texts are listed between the damage before and after them, by seq."""
    data = redacted_log(LOG)
    last = data.replace(BATCHES[4].chain.encode(), b"0" * 32)
    assert [2, 6] == [problem.seq for problem in verify(ledger(last)).problems]
    first = data.replace(BATCHES[0].chain.encode(), b"0" * 32)
    assert [1, 2] == [problem.seq for problem in verify(ledger(first)).problems]
    both = first.replace(BATCHES[4].chain.encode(), b"0" * 32)
    problems = verify(ledger(both)).problems
    assert [1, 2, 6] == [problem.seq for problem in problems]
    assert problem_at(2, BLOTTED) == problems[1]


def test_damage_at_the_head_is_reported_once(ledger: Callable[..., JsonlLog]) -> None:
    """If a line is damaged, a mismatch of the head adds nothing; otherwise the mismatch is reported."""
    (problem,) = verify(ledger(LOG.replace(LAST.chain.encode(), b"0" * 32))).problems
    assert ("events.jsonl:6", 6, 6) == (problem.source, problem.seq, problem.line)
    (problem,) = verify(ledger(LOG, LAST._replace(chain="0" * 32))).problems
    message = f"does not have the chain {'0' * 32} that was acknowledged at seq 6"
    assert Problem("events.jsonl", message, 6) == problem
    (problem,) = verify(ledger(raw(BATCHES[:4]))).problems
    lost = len(BATCHES[4].raw)
    assert Problem("events.jsonl:6", f"ends {lost} bytes before its acknowledged end at seq 6", 6, 6) == problem


def test_a_later_format_is_refused_by_name(ledger: Callable[..., JsonlLog]) -> None:
    """The error has the file and the remedy."""
    opened = batches_of([encode(LedgerOpened("ledger-1", 2))])
    with pytest.raises(NewerLedgerError) as caught:
        verify(ledger(raw(opened), opened[0].position))
    expected = "events.jsonl: written in ledger format 2, this Tallybook reads up to 1; upgrade Tallybook"
    assert expected == str(caught.value)


def test_pending_redactions_are_counted(tmp_path: Path) -> None:
    """For one or several the note reports that they are not finished, and which command continues."""
    log = ledger_with_secret(tmp_path / "ledger")
    for ids, what in ((("a",), "a redaction of one text was"), (("a", "b"), "a redaction of 2 texts was")):
        write_pending(log.folder, PendingRedaction(ids, ("hunter2",), "gone", {"rater": "test"}))
        expected = f"{what} started and not finished; the next command that writes continues it"
        assert ((), (expected,)) == (verify(log).problems, verify(log).notes)


def test_restored_texts_are_named_in_order(tmp_path: Path) -> None:
    """Each event whose redaction was reverted is named, in whatever order they were redacted, and none of others."""
    log = ledger_with_secret(tmp_path / "ledger")
    ids = [one.id for batch in decode(log.read()) for one in batch.records][:2]
    others = "0193a9f3-0000-7000-8000-000000000001"
    put(log, *(EventRedacted(id_, "gone") for id_ in (others, *sorted(ids, reverse=True))))
    expected = tuple(f"the text of event {id_} was redacted but is still in the log" for id_ in sorted(ids))
    assert ((), expected) == (verify(log).problems, verify(log).notes)


def test_progress_is_reported_once(ledger: Callable[..., JsonlLog]) -> None:
    """A damaged ledger is read once, and again only if something moved in the meantime."""
    heard: list[int] = []
    data = LOG.replace(b'"id":"id-4"', b'"id":"id-9"')
    assert not verify(ledger(data), lambda done, _size: heard.append(done)).ok
    assert [BATCHES[1].end, BATCHES[-1].end] == heard
    heard.clear()
    log = ledger(LOG, BATCHES[2].position)

    def move(done: int, _size: int) -> None:
        heard.append(done)
        (log.folder / "head").write_bytes(heads.encode(Head(LAST, "boot")))

    assert verify(log, move).ok
    assert [BATCHES[-1].end] == heard


def test_an_expected_head_is_searched_again(tmp_path: Path) -> None:
    """If a redaction makes a second read necessary, that one searches for all that the first did."""
    log = ledger_with_secret(tmp_path / "ledger")
    heard: list[tuple[int, int]] = []

    def progress(done: int, size: int) -> None:
        heard.append((done, size))
        if len(heard) == 1:
            put(log, PointRated("kpt_001", "helpful"))

    verdict = verify(log, progress, (2, "0" * 32))
    message = f"no batch that ends at seq 2 has the chain {'0' * 32}, which was expected"
    assert (Problem("events.jsonl", message, 2),) == verdict.problems
    ends = [batch.end for batch in log.read()]
    assert [(end, end) for end in ends[-2:]] == heard


def salvaged(log: JsonlLog) -> list[int]:
    """Return the last seq of every batch that salvage returns."""
    return [batch.last for batch in salvage(log)]


def test_salvage_needs_a_log(ledger: Callable[..., JsonlLog]) -> None:
    """Without a log nothing can be salvaged."""
    with pytest.raises(FileNotFoundError):
        salvaged(ledger(None))


def test_salvage_returns_whole_batches(ledger: Callable[..., JsonlLog]) -> None:
    """Of a whole ledger it returns all; of a damaged one all batches that verify and fit their class."""
    assert [1, 3, 4, 5, 6] == salvaged(ledger(LOG))
    assert [1, 3, 5, 6] == salvaged(ledger(LOG.replace(b'"id":"id-4"', b'"id":"id-9"')))
    for bad in (
        forge(('"kind":"point.removed","v":1,"body":{"name":7}', None), mark=LAST),
        forge((BODY, None), mark=LAST, head={"by": '{"rater":7}'}),
    ):
        more = batches_of([RATED], mark=bad.position)[0]
        assert [1, 3, 4, 5, 6, 8] == salvaged(ledger(LOG + raw([bad, more]), more.position))


def unacknowledged() -> bytes:
    """Return the log with a batch changed so that all later ones can be verified."""
    return LOG.replace(b'"id":"id-4"', b'"id":"id-9"')


def test_salvage_ends_at_a_torn_end(ledger: Callable[..., JsonlLog]) -> None:
    """An invalid unacknowledged range is no damage, and nothing after it counts."""
    assert [1, 3] == salvaged(ledger(unacknowledged(), BATCHES[1].position))
    assert [1, 3, 5, 6] == salvaged(ledger(unacknowledged(), BATCHES[2].position))
    verdict = verify(ledger(unacknowledged(), BATCHES[1].position))
    left = len(LOG) - BATCHES[1].end
    expected = (f"{left:,} bytes at the end were never acknowledged; the next writer seals them",)
    assert ((), expected, 3) == (verdict.problems, verdict.notes, verdict.events)


def test_salvage_hides_pending_texts(tmp_path: Path) -> None:
    """During a redaction no batch is lost, and the text is not returned."""
    log = ledger_with_secret(tmp_path / "ledger")
    whole = salvaged(log)
    batch = [*log.read()][1]
    ids = [line.split(b'"id":"')[1].split(b'"')[0].decode() for line in split_lines(batch.data)[:1]]
    write_pending(log.folder, PendingRedaction((*ids,), ("hunter2",), "gone", {"rater": "test"}))
    log.path.write_bytes(log.path.read_bytes().replace(b"the key is", b"           "[:10]))
    assert whole == salvaged(log)
    added = [event for found in salvage(log) for event in found.events if isinstance(event, PointAdded)]
    assert [None, "Write tests"] == [event.text for event in added]
    strike(log, *ids)
    assert [*whole, whole[-1] + 1] == salvaged(log)
