"""Helpers of tests: logs with pending and finished redactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.ledger_logs import BY
from tallybook.ledger.codec import decode, encode, texts_of
from tallybook.ledger.events import EventRedacted, PlaybookUpdated, PointAdded, PointRated
from tallybook.ledger.line import FREE_CHARS, FREE_MARK
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import redaction
from tallybook.ledger.storage.redaction import PendingRedaction

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch


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
    redaction.write_pending(log.folder, PendingRedaction(ids, ("hunter2",), "gone", BY))


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
