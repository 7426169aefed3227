"""Batches split into lines equal the batches that they came from."""

from __future__ import annotations

from itertools import pairwise

from helpers.ledger_scan import BATCHES
from tallybook.ledger.line import complete_lines, split_lines
from tallybook.ledger.reading.scan import Batches, Run


def test_the_lines_of_a_batch_make_up_the_batch() -> None:
    """Its data splits into its lines, and its end is where the next batch begins."""
    for batch, following in pairwise(BATCHES):
        assert complete_lines(batch.data) == batch.lines
        assert [line + b"\n" for line in split_lines(batch.data)] == batch.lines
        assert (following.offset, following.offset) == (batch.end, batch.position.offset)
        assert batch.end - batch.offset == len(batch.raw)


def test_batches_can_be_iterated_one_by_one_or_as_read() -> None:
    """Both ways return all of them, once and in order."""
    runs = [Run(BATCHES[:2]), Run(BATCHES[2:])]
    assert [*BATCHES] == list(Batches(iter(runs)))
    assert runs == list(Batches(iter(runs)).runs)
