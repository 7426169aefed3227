"""Of a damaged ledger everything that proves itself is found, and nothing else; each gap says what is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ledger.line import START, RawBatch
from ledger.salvage import Gap, survey
from test_ledger_line import batches_of
from test_ledger_log import rated

if TYPE_CHECKING:
    from pathlib import Path

BATCHES = batches_of(*(rated(f"kpt_{n:03d}") * 2 for n in range(1, 8)))
WHOLE = b"".join(batch.raw for batch in BATCHES)


def found_in(path: Path, data: bytes) -> list[RawBatch | Gap]:
    """Return what a survey finds in these bytes."""
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return list(survey(fd, START, len(data), "events.jsonl"))
    finally:
        os.close(fd)


def lines_and_gaps(found: list[RawBatch | Gap]) -> tuple[list[int], list[tuple[int, int | None]]]:
    """Return the last seq of each batch that was found, and what is missing."""
    seqs = [one.last for one in found if isinstance(one, RawBatch)]
    return seqs, [one.missing for one in found if isinstance(one, Gap)]


def test_a_whole_ledger_has_no_gap(tmp_path: Path) -> None:
    """What Scan gives out is what a survey finds."""
    assert BATCHES == found_in(tmp_path / "log", WHOLE)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_changed_batch_costs_itself_alone(tmp_path: Path, number: int) -> None:
    """A changed byte in a line makes its batch a gap; every other batch is found."""
    at = BATCHES[number].offset + 30
    changed = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(found_in(tmp_path / "log", changed))
    batch = BATCHES[number]
    assert [one.last for one in BATCHES if one is not batch] == seqs
    assert [(batch.first, batch.last)] == gaps


@pytest.mark.parametrize("number", range(6))
def test_a_changed_chain_value_costs_nothing(tmp_path: Path, number: int) -> None:
    """A batch whose chain value alone was changed is proven by the batch behind it."""
    at = BATCHES[number].end - 10
    changed = WHOLE[:at] + (b"0" if WHOLE[at : at + 1] != b"0" else b"1") + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(found_in(tmp_path / "log", changed))
    assert [one.last for one in BATCHES] == seqs
    assert [(BATCHES[number].first, BATCHES[number].first - 1)] == gaps


def test_a_removed_batch_takes_the_one_behind_it_along(tmp_path: Path) -> None:
    """Behind a batch that was cut out stands one that nothing in the file proves any more; both are missing."""
    cut = WHOLE[: BATCHES[2].offset] + WHOLE[BATCHES[2].end :]
    seqs, gaps = lines_and_gaps(found_in(tmp_path / "log", cut))
    assert [one.last for one in BATCHES if one not in BATCHES[2:4]] == seqs
    assert [(BATCHES[2].first, BATCHES[3].last)] == gaps


def test_a_changed_last_batch_leaves_an_open_gap(tmp_path: Path) -> None:
    """Where nothing behind the damage proves itself, nobody knows what is missing last."""
    at = BATCHES[-1].offset + 30
    changed = WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]
    seqs, gaps = lines_and_gaps(found_in(tmp_path / "log", changed))
    assert [one.last for one in BATCHES[:-1]] == seqs
    assert [(BATCHES[-1].first, None)] == gaps


def test_a_repeated_stretch_is_not_found_twice(tmp_path: Path) -> None:
    """Batches that stand in the file a second time are passed over."""
    twice = WHOLE[: BATCHES[3].end] + WHOLE[BATCHES[1].offset :]
    seqs, gaps = lines_and_gaps(found_in(tmp_path / "log", twice))
    assert [one.last for one in BATCHES] == seqs
    assert 1 == len(gaps)


@pytest.mark.parametrize("begin", range(0, len(WHOLE), 97))
def test_whatever_is_lost_nothing_false_is_found(tmp_path: Path, begin: int) -> None:
    """Behind any stretch of NUL bytes only batches of the ledger are found, in order, each once."""
    holed = WHOLE[:begin] + bytes(min(200, len(WHOLE) - begin)) + WHOLE[begin + 200 :]
    seqs, _ = lines_and_gaps(found_in(tmp_path / "log", holed))
    assert sorted(set(seqs)) == seqs
    assert {one.last for one in BATCHES} >= set(seqs)
