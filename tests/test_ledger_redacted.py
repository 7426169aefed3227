"""A text that was redacted in place: gone from the file, every offset as it was, and everything else still proven."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ledger.codec import decode, encode
from ledger.events import PlaybookUpdated, PointAdded
from projections.fold import fold
from projections.playbook import PLAYBOOK, REDACTED
from test_ledger_line import batches_of, raw, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledger.line import RawBatch

TOLD = "the key is hunter2"


def ledger() -> Sequence[RawBatch]:
    """Return a ledger of two batches: one with a secret among its texts, one behind it."""
    added = [encode(PointAdded("kpt_001", TOLD)), encode(PointAdded("kpt_002", "Write tests"))]
    return batches_of([*added, encode(PlaybookUpdated(2, 0, 0))], [encode(PlaybookUpdated(0, 0, 0))])


def redacted() -> bytes:
    """Return its bytes with the secret's whole free value replaced by null and blanks."""
    data = raw(ledger())
    value = re.search(rb'\{"salt":"[^"]*","text":"the key[^}]*\}', data)
    assert value is not None
    return data.replace(value[0], b"null".ljust(len(value[0])))


def test_a_redacted_text_moves_no_offset_and_breaks_no_proof() -> None:
    """The bytes are as many as before, the secret is not among them, and both batches still verify."""
    found = read(redacted())
    assert None is found.stop
    assert [batch.mark for batch in ledger()] == [batch.mark for batch in found.batches]
    assert len(raw(ledger())) == len(redacted())
    assert TOLD.encode() not in redacted()
    assert [1, 2, 3, 4] == [json.loads(line)["seq"] for line in redacted().splitlines()]


def test_a_redacted_text_is_shown_as_such() -> None:
    """The entry stands, with a note in the place of its text; its neighbour is as it was."""
    points = fold(PLAYBOOK, decode(read(redacted()).batches)).points
    assert [REDACTED, "Write tests"] == [point.text for point in points.values()]


def test_a_change_among_the_blanks_is_found() -> None:
    """What stands in the place of a redacted text is blanks, and anything else is damage."""
    data = redacted()
    begin = data.index(b"null") + len(b"null")
    end = data.index(b"}", begin)
    for at in range(begin, end):
        for bit in range(8):
            changed = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            assert None is not read(changed).stop
