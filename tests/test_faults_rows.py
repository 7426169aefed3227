"""A slice of each row of the fault suite that has no file of its own; `python -m tests.faults` makes all of it."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from faults import FaultCounts, FaultOptions, NoToolError, crash_states, forging, mutations, pulls, share, share_power
from helpers.sweep import slice_of
from share import crowd, git_walk
from tallybook.ledger.storage import caches, disk

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc, starts servers, sends signals")
SEED = 20261122
MUTATIONS = slice_of(2_500, 800)
PULLS = 5
STATES = slice_of(400, 120)
LEAST_STATES = slice_of(40, 20)
"""States that each run has at the least, whatever the ids in its lines are."""
QUICK = (
    "git: sync killed at its calls",
    "git: branch forced back or deleted",
    "objects: connections reset",
    "postgres: server killed",
)
"""The faults of which every run of the tests makes one; `python -m tests.sweeps tests` makes one of each."""
QUICK_LOSSES = ("git: power loss of machines",)
"""The others start servers."""


# ---- A changed log ----


def test_every_mutation_is_found(tmp_path: Path) -> None:
    """Of all seeded changes of a log, verify finds each, a fold refuses each, and no answer is silently wrong."""
    tally = mutations.change_own_log(FaultOptions(tmp_path, SEED), MUTATIONS, "Tallybook")
    assert () == tally.failures
    assert [MUTATIONS, MUTATIONS, 0, 0, 0] == [*tally.counts.values()]


def test_an_extra_or_missing_blank_in_a_redacted_text_is_found(tmp_path: Path) -> None:
    """The blanks of a redacted text have no digest, but every offset after them depends on them."""
    image = mutations.build(tmp_path / "a", 1)
    at = image.data.index(b'"free":null ') + len(b'"free":null ')
    changed = (image.data[:at] + more + image.data[at + less :] for more, less in ((b" ", 0), (b"", 1)))
    outcomes = [mutations.judge(image, data) for data in changed]
    assert [(True, True)] * 2 == [(outcome.verified, outcome.folded) for outcome in outcomes]


def test_the_mutations_are_of_every_kind_and_hit_every_section(tmp_path: Path) -> None:
    """Every kind of change is made, every section of a line is hit, and every change changes the log."""
    image = mutations.build(tmp_path / "a", 1)
    made = list(mutations.mutations(image, mutations.build(tmp_path / "b", 2), 2_000, SEED))
    assert {*mutations.BYTES, *mutations.LINES} == {mutation.kind for mutation in made}
    assert [] == [mutation for mutation in made if mutation.data == image.data]
    inside = [mutations.find_changed_line(image.data, mutation.data) for mutation in made]
    assert {"crc", "head", "what", "free", "chain"} <= {hit[1] for hit in inside if hit is not None}


def test_a_reader_that_accepts_a_change_is_counted(tmp_path: Path) -> None:
    """The judge counts a change as believed if a fold silently returns fewer events, as it would without a head."""
    image = mutations.build(tmp_path / "a", 1)
    (image.log.folder / "head").unlink()
    outcome = mutations.judge(image, image.data[: image.batches[-1].offset])
    assert (False, False, True, 1) == (outcome.verified, outcome.folded, outcome.believed, outcome.lost)


def test_another_ledger_of_the_same_length_is_found(tmp_path: Path) -> None:
    """A valid log that does not end at the acknowledged end is refused."""
    image, other = mutations.build(tmp_path / "a", 1), mutations.build(tmp_path / "b", 2)
    assert len(image.data) == len(other.data)
    outcome = mutations.judge(image, other.data)
    assert (True, True, False) == (outcome.verified, outcome.folded, outcome.believed)


# ---- Power loss ----


@pytest.mark.parametrize("system", pulls.MAKERS)
def test_a_pulled_plug_loses_nothing(system: str, tmp_path: Path) -> None:
    """Every event acknowledged before any pull is there exactly once; the log works on and verifies."""
    try:
        pulled = list(pulls.suffer(system, PULLS, FaultOptions(tmp_path)))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert [[]] * PULLS == [each.problems for each in pulled]
    counts = {heading: sum(each.counts[heading] for each in pulled) for heading in pulls.HEADINGS}
    assert (0, 0, 0, 0) == tuple(counts[name] for name in ("lost", "doubled", "believed", "refused"))
    assert counts["acknowledged"] >= PULLS * pulls.LEAST
    # Something was in flight each time, and some of its pages were written and others not.
    assert counts["sealed"] > 0


@on_linux
@pytest.mark.parametrize("name", crash_states.RUNS)
def test_every_crash_state_recovers(name: str, tmp_path: Path) -> None:
    """Acknowledged batches are read, others are whole or absent, recoveries agree; the log works on and verifies."""
    tried, counts, broken = crash_states.suffer(name, STATES, FaultOptions(tmp_path))
    assert [] == [(each.where, each.counts, each.outcome) for each in broken]
    assert tried >= LEAST_STATES
    assert counts["sealed"] > 0


@on_linux
def test_a_missing_flush_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The enumerator finds lost batches of a stand-in for a writer that acknowledges without flushing the log."""
    monkeypatch.setattr(disk, "flush", lambda *_: None)
    _, counts, broken = crash_states.suffer("appending", STATES, FaultOptions(tmp_path))
    assert counts["lost"] > 0
    assert "appending, step " == broken[0].where[:16]


# ---- Shared books ----


def assert_nothing_lost(tally: FaultCounts, *headings: str) -> None:
    """Check that no promise was broken."""
    assert () == tally.failures
    assert [0] * len(headings) == [tally.counts[heading] for heading in headings]


def test_a_forging_member_stops_nobody(tmp_path: Path) -> None:
    """Two honest machines go on, agree, say who wrote what does not count, and lose nothing."""
    tally = forging.suffer(FaultOptions(tmp_path), slice_of(len(forging.forgeries()), 120))
    assert_nothing_lost(tally, "lost", "doubled")


@on_linux
def test_no_command_of_git_is_stopped(tmp_path: Path) -> None:
    """Git's commands are stopped by nothing of ours and show nothing of it, and no rating is lost."""
    walk = git_walk.run(tmp_path, slice_of(git_walk.USUAL, 6), 1)
    assert [] == walk.problems
    assert walk.given > 0


def test_machines_that_sync_together_all_land(tmp_path: Path) -> None:
    """After each round every machine shows the same playbook, with an entry and a rating of each in it."""
    machines, rounds = slice_of(crowd.MACHINES, 3), slice_of(crowd.ROUNDS, 1)
    met = crowd.run("git", tmp_path, machines, rounds)
    assert [] == met.problems
    assert len(met.tries) == machines * rounds
    assert max(met.tries) <= crowd.MOST_TRIES, met.tries


@on_linux
@pytest.mark.parametrize("fault", share.FAULTS if slice_of(1, 0) else QUICK)
def test_a_fault_loses_and_doubles_nothing(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledged rating counts once, all copies of the book are the same bytes, all playbooks the same."""
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    try:
        tally = share.suffer(fault, 1, FaultOptions(tmp_path))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert_nothing_lost(tally, "lost", "doubled", "believed")


@pytest.mark.parametrize("name", share_power.LOSSES if slice_of(1, 0) else QUICK_LOSSES)
def test_a_power_loss_loses_and_doubles_nothing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledged entry and rating is on every machine once after a power loss, and all playbooks agree."""
    monkeypatch.delenv(caches.VARIABLE, raising=False)
    try:
        tally = share_power.suffer(name, slice_of(10, 1), FaultOptions(tmp_path))
    except NoToolError as missing:
        pytest.skip(str(missing))
    assert_nothing_lost(tally, "lost", "doubled", "believed")
