"""Both readers find every change of a log: a slice of `tests.faults`."""

from __future__ import annotations

from pathlib import Path

from faults import Setting
from faults.mutations import BYTES, LINES, build, changed_line, judge, mutations, ours
from helpers.sweep import slice_of

COUNT = slice_of(2_500, 800)
SEED = 20261122


def test_every_mutation_is_found(tmp_path: Path) -> None:
    """Of all seeded changes of a log, verify finds each, a fold refuses each, and no answer is silently wrong."""
    tally = ours(Setting(tmp_path, SEED), COUNT, "Tallybook")
    assert () == tally.failures
    expected = {
        "found by its check": COUNT,
        "reported by reading": COUNT,
        "read as before": 0,
        "silently different": 0,
        "rows lost": 0,
    }
    assert expected == tally.counts


def test_an_extra_or_missing_blank_in_a_redacted_text_is_found(tmp_path: Path) -> None:
    """The blanks of a redacted text have no digest, but every offset after them depends on them."""
    image = build(tmp_path / "a", 1)
    at = image.data.index(b'"free":null ') + len(b'"free":null ')
    outcomes = [judge(image, image.data[:at] + more + image.data[at + less :]) for more, less in ((b" ", 0), (b"", 1))]
    assert [(True, True)] * 2 == [(outcome.verified, outcome.folded) for outcome in outcomes]


def test_the_mutations_are_of_every_kind_and_hit_every_section(tmp_path: Path) -> None:
    """Every kind of change is made, every section of a line is hit, and every change changes the log."""
    image = build(tmp_path / "a", 1)
    made = list(mutations(image, build(tmp_path / "b", 2), 2_000, SEED))
    assert 2_000 == len(made)
    assert {*BYTES, *LINES} == {mutation.kind for mutation in made}
    assert [] == [mutation for mutation in made if mutation.data == image.data]
    inside = [changed_line(image.data, mutation.data) for mutation in made]
    assert {"crc", "head", "what", "free", "chain"} <= {hit[1] for hit in inside if hit is not None}


def test_a_reader_that_accepts_a_change_is_counted(tmp_path: Path) -> None:
    """The judge counts a change as believed if a fold silently returns fewer events, as it would without a head."""
    image = build(tmp_path / "a", 1)
    (image.log.folder / "head").unlink()
    outcome = judge(image, image.data[: image.batches[-1].offset])
    assert (False, False, True, 1) == (outcome.verified, outcome.folded, outcome.believed, outcome.lost)


def test_another_ledger_of_the_same_length_is_found(tmp_path: Path) -> None:
    """A valid log that does not end at the acknowledged end is refused."""
    image = build(tmp_path / "a", 1)
    other = build(tmp_path / "b", 2)
    assert len(image.data) == len(other.data)
    outcome = judge(image, other.data)
    assert (True, True, False) == (outcome.verified, outcome.folded, outcome.believed)
