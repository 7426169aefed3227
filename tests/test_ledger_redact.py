"""Overwriting a text in the log: the pending file, every line, and concurrent readers and power losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import json
from pathlib import Path
from random import Random
import sys
from typing import Any

import pytest

from faults.crash_states import image, materialise, states
from faults.recorder import Recorder
from helpers.ledger_lines import batches_of
from helpers.ledger_logs import BY
from tallybook.ledger.codec import decode, encode, texts_of
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError
from tallybook.ledger.events import Event, EventRedacted, LogRecovered, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import FREE_CHARS, FREE_MARK, RawBatch, head_field
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import redaction
from tallybook.ledger.storage.redaction import PENDING_FILE, PendingRedaction, find_erased
from tallybook.ledger.verification import verify

TOLD = "the key is hunter2"
LONG = "x" * (FREE_CHARS - 4) + "hunter2" + "y" * 2 * FREE_CHARS
TORN = b'{"crc":"00000000","seq":4,"id":"torn","body":"hunter2'
NOTE: dict[str, Any] = {"ids": ["a"], "texts": ["hunter2"], "reason": "gone", "by": {"rater": "human"}}


def put(log: JsonlLog, *events: Event) -> RawBatch:
    """Append one batch."""
    with log.transaction() as tx:
        batch = tx.append([encode(event) for event in events], BY)
    assert batch is not None
    return batch


def events(log: JsonlLog) -> dict[str, Event]:
    """Return every readable event, by its id."""
    return {record.id: record.event for batch in decode(log.read()) for record in batch.records}


def id_of(log: JsonlLog, kind: type[Event], text: str = "") -> str:
    """Return the id of the only event of a kind whose text holds something."""
    (found,) = (
        id_
        for id_, event in events(log).items()
        if isinstance(event, kind) and text in "".join(texts_of(event).values())
    )
    return found


def begin_redaction(log: JsonlLog, *ids: str) -> None:
    """Begin a redaction: from now on readers hide the texts."""
    redaction.add_pending(log.folder, ids, ("hunter2",), "gone", BY)


def finish_redaction(log: JsonlLog, *ids: str) -> None:
    """Append its event, overwrite the texts, and remove the pending file."""
    put(log, *(EventRedacted(id_, "gone") for id_ in ids))
    with log.transaction() as tx:
        redaction.erase(log.path, tx.read(), ids)
    redaction.remove_pending(log.folder)


def strike(log: JsonlLog, *ids: str) -> None:
    """Redact these events from beginning to end."""
    begin_redaction(log, *ids)
    finish_redaction(log, *ids)


def overwrite(log: JsonlLog, old: bytes, new: bytes) -> None:
    """Change bytes of the log in place, all of one length or not."""
    data = log.path.read_bytes()
    assert 1 == data.count(old)
    log.path.write_bytes(data.replace(old, new))


def value_of(log: JsonlLog, needle: bytes) -> bytes:
    """Return the whole free value that holds something."""
    data = log.path.read_bytes()
    begin = data.rindex(FREE_MARK, 0, data.index(needle)) + len(FREE_MARK)
    return data[begin : data.index(b'"}', begin) + 2]


def ledger_with_secret(folder: Path) -> JsonlLog:
    """Return a ledger with a secret, another text, and a rating after them."""
    log = JsonlLog(folder)
    put(log, PointAdded("kpt_001", TOLD), PointAdded("kpt_002", "Write tests"), PlaybookUpdated(2, 0, 0))
    put(log, PointRated("kpt_001", "helpful"), PlaybookUpdated(0, 1, 0))
    return log


BAD_FIELDS: list[dict[str, Any]] = [
    *({"ids": "a"}, {"ids": [1]}, {"ids": None}, {"texts": [""]}, {"texts": {"a": 1}}, {"reason": 5}, {"reason": ""}),
    *({"by": {}}, {"by": ["rater"]}, {"by": {"rater": 1}}, {"by": {"rater": "human", "mood": "good"}}),
]


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with a secret in it."""
    return ledger_with_secret(tmp_path / "ledger")


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"\0" * 90,
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff",
        *(json.dumps(NOTE | changed).encode() for changed in BAD_FIELDS),
        json.dumps({"ids": [], "texts": []}).encode(),
    ],
)
def test_an_invalid_pending_file_is_refused(log: JsonlLog, note: bytes) -> None:
    """If it is torn, forged or of another shape, the texts to hide are unknown, and every process refuses."""
    (log.folder / PENDING_FILE).write_bytes(note)
    for reader in (lambda: list(log.read()), lambda: verify(log)):
        with pytest.raises(CannotWriteError, match=PENDING_FILE):
            reader()


@pytest.mark.skipif(sys.platform != "linux", reason="the recorder looks files up in /proc/self/fd")
def test_every_crash_state_of_a_redaction_reads(log: JsonlLog, tmp_path: Path) -> None:
    """After any power loss in a redaction the ledger can be read, and a retry finishes it."""
    log.close()
    secret = id_of(log, PointAdded, "hunter2")
    with Recorder(log.folder) as run:
        strike(log, secret)
    log.close()
    draw = Random(1)  # noqa: S311 - the same states every time
    told = PendingRedaction((secret,), ("hunter2",), "gone", BY)
    tried = 0
    for cut in range(run.begun, len(run.steps) + 1):
        for state in states(image(run.steps[:cut]), 12, draw):
            materialise(state, log.folder, tmp_path / "state")
            found = JsonlLog(tmp_path / "state")
            note = redaction.read_pending(found.folder)
            assert [] == [(cut, str(problem)) for problem in verify(found).problems]
            assert note in [None, told, PendingRedaction((), (), "", {})]
            said = EventRedacted(secret, "gone") in events(found).values()
            shown = [event.text for event in events(found).values() if isinstance(event, PointAdded)]
            # Once it is noted, or said, the text is never shown again.
            assert [TOLD if not said and note != told else None, "Write tests"] == shown
            strike(found, secret)
            assert b"hunter2" not in b"".join(path.read_bytes() for path in found.folder.iterdir() if path.is_file())
            assert () == verify(found).problems
            found.close()
            tried += 1
    assert tried > 40


def fill_buffer(log: JsonlLog) -> str:
    """Append more than a reader's buffer before another secret, and return its id."""
    put(log, *(PointAdded(f"kpt_{n:03d}", f"{n} " + "x" * 9_000) for n in range(10, 40)), PlaybookUpdated(30, 0, 0))
    return head_field(put(log, PointAdded("kpt_003", "late hunter2"), PlaybookUpdated(1, 0, 0)).data, b"id")


@pytest.mark.parametrize("stage", ["owed", "half", "paid"])
def test_a_text_may_be_erased_while_it_is_read(log: JsonlLog, stage: str) -> None:
    """A reader that began before a redaction reaches its end."""
    secret = fill_buffer(log)
    reading = log.read()
    next(reading)
    begin_redaction(log, secret)
    if stage == "half":
        overwrite(log, b"late hun", b"null    ")
    if stage == "paid":
        finish_redaction(log, secret)
    texts = [event.text for batch in decode(reading) for event in batch.events if isinstance(event, PointAdded)]
    # What stands whole may be shown by a reader that has not heard of it.
    assert ["late hunter2" if stage == "owed" else None] == texts[-1:]


def test_a_text_may_be_erased_while_it_is_verified(log: JsonlLog) -> None:
    """A running redaction is no damage, and one that finishes in the meantime is reported."""
    secret = fill_buffer(log)
    ledger_with_secret: list[int] = []

    def progress(done: int, _size: int) -> None:
        if not ledger_with_secret:
            ledger_with_secret.append(done)
            strike(log, secret)

    log.watch = progress
    verdict = verify(log)
    assert () == verdict.problems
    assert 1 == len(verdict.redacted)


def seal_torn_end(log: JsonlLog, torn: bytes) -> str:
    """Make a writer seal a torn end; return the id of the seal."""
    known = {id_ for id_, event in events(log).items() if isinstance(event, LogRecovered)}
    log.close()
    with log.path.open("ab") as file:
        file.write(torn)
    put(log, PointRated("kpt_002", "helpful"))
    (found,) = {id_ for id_, event in events(log).items() if isinstance(event, LogRecovered)} - known
    return found


def test_only_the_redacted_sealed_range_is_erased(log: JsonlLog) -> None:
    """Of several sealed ranges only the redacted one is overwritten, with its copies alone."""
    ids = [seal_torn_end(log, TORN), seal_torn_end(log, b"another end\n"), seal_torn_end(log, b"and one more")]
    strike(log, ids[1])
    kept = [log.path.read_bytes(), *(path.read_bytes() for path in (log.folder / "quarantine").iterdir())]
    for torn, left in ((TORN, 2), (b"another end\n", 0), (b"and one more", 2)):
        assert left == sum(torn in data for data in kept)
    assert 4 == len(kept)
    assert ((), [ids[1]]) == (verify(log).problems, [id_ for batch in log.read() for _, id_ in find_erased(batch)])


def test_a_linked_quarantine_is_left_alone(log: JsonlLog, tmp_path: Path) -> None:
    """Nothing is overwritten at a link's target."""
    seal = seal_torn_end(log, TORN)
    elsewhere = tmp_path / "elsewhere"
    (log.folder / "quarantine").rename(elsewhere)
    (log.folder / "quarantine").symlink_to(elsewhere)
    with pytest.raises(CannotWriteError, match="quarantine: is a symbolic link"):
        redaction.erase(log.path, log.read(), {seal})
    assert [TORN] == [path.read_bytes() for path in elsewhere.iterdir()]


def ledger() -> Sequence[RawBatch]:
    """Return a ledger of two batches: one with a secret among its texts, and a later one."""
    added = [encode(PointAdded("kpt_001", TOLD)), encode(PointAdded("kpt_002", "Write tests"))]
    return batches_of([*added, encode(PlaybookUpdated(2, 0, 0))], [encode(PlaybookUpdated(0, 0, 0))])


def forge_whole(log: JsonlLog) -> int:
    """Overwrite a value, and return the line that is to be named."""
    value = value_of(log, b"hunter2")
    overwrite(log, value, b"null".ljust(len(value)))
    return 2


def forge_short(log: JsonlLog) -> int:
    """Replace a value by a shorter one, which moves all later bytes."""
    overwrite(log, value_of(log, b"hunter2"), b"null")
    return log.head().seq


def forge_continued(log: JsonlLog) -> int:
    """Overwrite a continued line alone."""
    batch = put(log, PointAdded("kpt_003", LONG), PlaybookUpdated(1, 0, 0))
    value = value_of(log, b'"y')
    overwrite(log, value, b"null".ljust(len(value)))
    return batch.first + 2


def forge_elsewhere(log: JsonlLog) -> int:
    """Overwrite a value, and redact an id of another ledger."""
    put(log, EventRedacted("0193a9f3-0000-7000-8000-000000000000", "gone"))
    return forge_whole(log)


def forge_neighbour(log: JsonlLog) -> int:
    """Overwrite a value after another that was redacted."""
    strike(log, id_of(log, PointAdded, "hunter2"))
    value = value_of(log, b"Write tests")
    overwrite(log, value, b"null".ljust(len(value)))
    return 3


def forge_earlier(log: JsonlLog) -> int:
    """Overwrite a value before another that was redacted."""
    strike(log, head_field(put(log, PointAdded("kpt_003", "a third"), PlaybookUpdated(1, 0, 0)).data, b"id"))
    return forge_whole(log)


FORGED = [forge_whole, forge_short, forge_continued, forge_elsewhere, forge_neighbour, forge_earlier]


@pytest.mark.parametrize("forge", FORGED)
def test_a_text_erased_without_a_redaction_is_damage(log: JsonlLog, forge: Callable[[JsonlLog], int]) -> None:
    """Reading and verify refuse it, and name its line."""
    seq = forge(log)
    with pytest.raises(DamagedLedgerError) as refused:
        list(log.read())
    assert [seq] == [problem.seq for problem in refused.value.problems]
    assert seq in [problem.seq for problem in verify(log).problems]


def test_a_pending_redaction_hides_no_damage(log: JsonlLog) -> None:
    """A half-erased text hides no other fault of its batch, which is named with its line."""
    begin_redaction(log, id_of(log, PointAdded, "hunter2"))
    overwrite(log, b"the key", b"nul    ")
    overwrite(log, b'"kpt_002"', b'"kpt_003"')
    with pytest.raises(DamagedLedgerError) as refused:
        list(log.read())
    assert [3] == [problem.seq for problem in refused.value.problems]
    assert [3] == [problem.seq for problem in verify(log).problems]


def test_a_damaged_redaction_is_named_by_its_line(log: JsonlLog) -> None:
    """A text whose redaction does not verify is no second fault: reading names the line of the redaction."""
    strike(log, id_of(log, PointAdded, "hunter2"))
    seq = log.head().seq
    overwrite(log, b'"reason":"gone"', b'"reason":"gine"')
    with pytest.raises(DamagedLedgerError) as refused:
        list(log.read())
    assert [seq] == [problem.seq for problem in refused.value.problems]


def test_a_restored_text_is_noted(log: JsonlLog) -> None:
    """A log whose redacted text was restored from a backup verifies, and verify names the text."""
    value = value_of(log, b"hunter2")
    secret = id_of(log, PointAdded, "hunter2")
    strike(log, secret)
    overwrite(log, b"null".ljust(len(value)), value)
    verdict = verify(log)
    assert ((), 1) == (verdict.problems, len(verdict.notes))
    assert secret in verdict.notes[0]


def seal_secret(log: JsonlLog) -> str:
    """Make a writer seal a torn end that holds the secret, twice in quarantine; return the id of the seal."""
    log.close()
    size = log.path.stat().st_size
    with log.path.open("ab") as file:
        file.write(TORN)
    put(log, PointRated("kpt_002", "helpful"))
    (log.folder / "quarantine" / f"{size}-{size + 9}.bin").write_bytes(TORN)
    return id_of(log, LogRecovered)


@pytest.mark.parametrize("changed", [b" " * len(TORN), b" " * 9 + TORN[9:]], ids=["whole", "part"])
def test_a_sealed_range_erased_without_a_redaction_is_damage(log: JsonlLog, changed: bytes) -> None:
    """It is a problem at the line of its seal, or where the read stopped."""
    before = log.head()
    seal_secret(log)
    overwrite(log, TORN, changed)
    with pytest.raises(DamagedLedgerError) as refused:
        list(log.read())
    assert [before.seq + 1] == [problem.seq for problem in refused.value.problems]
    assert before.seq + 1 in [problem.seq for problem in verify(log).problems]
