"""Batches split into lines equal the batches that they come from."""

from __future__ import annotations

from itertools import pairwise

from helpers.ledger_scan import BATCHES
from tallybook.ledger.batches import Batches, Run
from tallybook.ledger.line import complete_lines, split_lines


def test_a_batch_by_its_lines_is_the_batch() -> None:
    """Its data splits into its lines, and its end is where the next batch begins."""
    for batch, following in pairwise(BATCHES):
        assert complete_lines(batch.data) == batch.lines
        assert [line + b"\n" for line in split_lines(batch.data)] == batch.lines
        assert (following.offset, following.offset) == (batch.end, batch.position.offset)
        assert batch.end - batch.offset == len(batch.raw)


def test_batches_are_gone_through_one_by_one_or_as_they_were_read() -> None:
    """Both come to all of them, once and in order."""
    runs = [Run(BATCHES[:2]), Run(BATCHES[2:])]
    assert [*BATCHES] == list(Batches(iter(runs)))
    assert runs == list(Batches(iter(runs)).runs)
