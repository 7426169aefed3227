"""Batches split into lines equal the batches that they come from."""

from __future__ import annotations

import pytest

from helpers.ledger_scan import BATCHES
from tallybook.ledger.batches import Batches, Run, to_line_batch
from tallybook.ledger.line import split_lines


@pytest.mark.parametrize("blotted", [False, True])
def test_a_batch_by_its_lines_is_the_batch(blotted: bool) -> None:
    """It says all that the batch says, and where it ends."""
    for raw in (batch._replace(erased=blotted) for batch in BATCHES):
        found = to_line_batch(raw)
        assert raw == found.batch
        assert (raw.position, raw.end, raw.data) == (found.position, found.end, found.data)
        assert len(split_lines(raw.data)) == len(found.lines)


def test_batches_are_gone_through_one_by_one_or_as_they_were_read() -> None:
    """Both come to all of them, once and in order."""
    runs = [Run([to_line_batch(batch) for batch in BATCHES[:2]]), Run([to_line_batch(batch) for batch in BATCHES[2:]])]
    assert [*BATCHES] == list(Batches(iter(runs)))
    assert runs == list(Batches(iter(runs)).runs)
