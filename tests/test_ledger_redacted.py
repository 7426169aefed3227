"""Erased texts and sealed ranges: all else verifies as before, and an erasure without a redaction is damage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from helpers.ledger_lines import batches_of, raw, read
from helpers.ledger_redaction import (
    LONG,
    TOLD,
    TORN,
    begin_redaction,
    events,
    id_of,
    ledger_with_secret,
    overwrite,
    put,
    strike,
    value_of,
)
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.events import EventRedacted, LogRecovered, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import head_field
from tallybook.ledger.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.log import JsonlLog


@pytest.fixture
def log(tmp_path: Path) -> JsonlLog:
    """Return a ledger with a secret in it."""
    return ledger_with_secret(tmp_path / "ledger")


def ledger() -> Sequence[RawBatch]:
    """Return a ledger of two batches: one with a secret among its texts, and a later one."""
    added = [encode(PointAdded("kpt_001", TOLD)), encode(PointAdded("kpt_002", "Write tests"))]
    return batches_of([*added, encode(PlaybookUpdated(2, 0, 0))], [encode(PlaybookUpdated(0, 0, 0))])


def redacted() -> bytes:
    """Return its bytes with the secret's whole free value replaced by null and blanks."""
    data = raw(ledger())
    value = re.search(rb'\{"salt":"[^"]*","text":"the key[^}]*\}', data)
    assert value is not None
    return data.replace(value[0], b"null".ljust(len(value[0])))


def test_a_redacted_text_moves_no_offset_and_breaks_no_proof() -> None:
    """The number of bytes stays, the secret is not among them, and both batches still verify."""
    found = read(redacted())
    assert None is found.stop
    assert [batch.position for batch in ledger()] == [batch.position for batch in found.batches]
    assert len(raw(ledger())) == len(redacted())
    assert TOLD.encode() not in redacted()
    assert [1, 2, 3, 4] == [json.loads(line)["seq"] for line in redacted().splitlines()]


def test_a_change_among_the_blanks_is_found() -> None:
    """Only blanks replace a redacted text; any other byte is damage."""
    data = redacted()
    begin = data.index(b"null") + len(b"null")
    end = data.index(b"}", begin)
    for at in range(begin, end):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            assert None is not read(changed).stop


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


def test_a_restored_text_is_noted(log: JsonlLog) -> None:
    """A log whose redacted text was restored from a backup verifies, and verify names the text."""
    value = value_of(log, b"hunter2")
    secret = id_of(log, PointAdded, "hunter2")
    strike(log, secret)
    overwrite(log, b"null".ljust(len(value)), value)
    verdict = verify(log)
    assert ((), 1) == (verdict.problems, len(verdict.notes))
    assert secret in verdict.notes[0]


def sealed(log: JsonlLog) -> str:
    """Make a writer seal a torn end that holds the secret, twice in quarantine; return the id of the seal."""
    log.close()
    size = log.path.stat().st_size
    with log.path.open("ab") as file:
        file.write(TORN)
    put(log, PointRated("kpt_002", "helpful"))
    (log.folder / "quarantine" / f"{size}-{size + 9}.bin").write_bytes(TORN)
    return id_of(log, LogRecovered)


def test_a_sealed_range_is_erased_whole(log: JsonlLog) -> None:
    """The range of a seal is overwritten with every copy of it, and readers still skip exactly that."""
    before = log.head()
    seal = sealed(log)
    strike(log, id_of(log, PointAdded, "hunter2"), seal)
    files = [log.path, *(log.folder / "quarantine").iterdir()]
    assert 3 == len(files)
    assert [] == [path for path in files if b"hunter2" in path.read_bytes()]
    assert before.chain in [batch.chain for batch in log.read()]
    verdict = verify(log)
    assert () == verdict.problems
    assert [2, before.seq + 1] == [one.seq for one in verdict.redacted]
    put(log, PointRated("kpt_002", "helpful"))
    assert 3 == sum(isinstance(event, PointRated) for event in events(log).values())


@pytest.mark.parametrize("changed", [b" " * len(TORN), b" " * 9 + TORN[9:]], ids=["whole", "part"])
def test_a_sealed_range_erased_without_a_redaction_is_damage(log: JsonlLog, changed: bytes) -> None:
    """It is a problem at the line of its seal, or where the read stopped."""
    before = log.head()
    sealed(log)
    overwrite(log, TORN, changed)
    with pytest.raises(DamagedLedgerError) as refused:
        list(log.read())
    assert [before.seq + 1] == [problem.seq for problem in refused.value.problems]
    assert before.seq + 1 in [problem.seq for problem in verify(log).problems]
