"""Histories in files of lines: found by their chains in any order, and written as a log again."""

from __future__ import annotations

from collections.abc import Sequence
import os
from pathlib import Path
import shutil

import pytest

from helpers.events import HUMAN
from tallybook.ledger import histories
from tallybook.ledger.errors import CannotWriteError, LockHeldError
from tallybook.ledger.histories import Histories, write_history
from tallybook.ledger.line import LOG_NAME, START
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

AT = "2026-11-23T12:00:00.000000Z"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with three entries and a sealed tail between the last two (events 1 to 8)."""
    here = Project(project)
    commands.add(here, "one", HUMAN)
    commands.add(here, "two", HUMAN)
    log = here.ledger / LOG_NAME
    log.write_bytes(log.read_bytes() + b'{"crc":"torn')
    commands.add(here, "three", HUMAN)
    return here


def read(path: Path, *lines: bytes) -> Histories:
    """Return the histories in a file of these lines."""
    path.write_bytes(b"".join(lines))
    histories = Histories()
    fd = os.open(path, os.O_RDONLY)
    try:
        histories.add_file(fd, path.stat().st_size)
    finally:
        os.close(fd)
    return histories


def lines_of(here: Project) -> list[bytes]:
    """Return the lines of the log as they are in the file."""
    return (here.ledger / LOG_NAME).read_bytes().splitlines(keepends=True)


def written(histories: Histories, chain: str) -> bytes:
    """Return the log that has the history up to a chain value."""
    return b"".join(data for _, data in write_history(histories.trace_path(chain)))


def test_a_log_is_written_as_it_was(here: Project, tmp_path: Path) -> None:
    """With the bytes that a line seals, so that each offset in it stays right."""
    histories = read(tmp_path / "log", *lines_of(here))
    (chain,) = histories.find_ends()
    assert (here.ledger / LOG_NAME).read_bytes() == written(histories, chain)
    assert 0 == len(histories.unproven)


def test_batches_are_found_in_any_order(here: Project, tmp_path: Path) -> None:
    """A batch that comes before the one that it follows waits for it; the sealed bytes stay where they were."""
    first, *rest = lines_of(here)
    one, two = rest[:2], rest[2:4]
    histories = read(tmp_path / "log", *two, *one, first)
    assert [5] == [histories.links[chain].batch.last for chain in histories.find_ends()]
    assert b"".join([first, *one, *two]) == written(histories, histories.find_ends()[0])


def test_long_batches_of_both_sides_of_a_merge_are_found(here: Project, tmp_path: Path) -> None:
    """Batches of the same events' numbers and length have more mixtures than are tried."""
    before, sides = lines_of(here), []
    for side in ("left", "right"):
        copy = Project(Path(shutil.copytree(here.root, tmp_path / side)))
        commands.record(copy, {"new_key_points": [{"text": f"{side} {number}"} for number in range(9)]}, HUMAN)
        sides += lines_of(copy)[len(before) :]
    histories = read(tmp_path / "log", *before, *sides)
    assert [18, 18] == [histories.links[chain].batch.last for chain in histories.find_ends()]
    assert not histories.unproven


def test_a_log_ends_before_a_seal_that_would_be_elsewhere(here: Project, tmp_path: Path) -> None:
    """Otherwise a redaction of the sealing line would erase other bytes."""
    lines = lines_of(here)
    torn = next(index for index, line in enumerate(lines) if b"log.recovered" in line) - 1
    without = read(tmp_path / "log", *lines[:torn], *lines[torn + 1 :])
    (chain,) = without.find_ends()
    assert 8 == without.links[chain].batch.last
    assert b"".join(lines[:torn]) == written(without, chain)


def test_a_redacted_version_wins(here: Project, tmp_path: Path) -> None:
    """Whichever version of a line comes first, its text does not come back."""
    lines = lines_of(here)
    index = next(number for number, line in enumerate(lines) if b'"text":"two"' in line)
    begin = lines[index].index(b'"free":') + len(b'"free":')
    redacted = lines[index][:begin] + b"null".ljust(len(lines[index]) - begin - 2) + lines[index][-2:]
    both: Sequence[Sequence[bytes]] = ([lines[index], redacted], [redacted, lines[index]])
    for versions in both:
        histories = read(tmp_path / "log", *lines[:index], *versions, *lines[index + 1 : index + 2])
        assert b'"text":"two"' not in written(histories, histories.find_ends()[0])


# A log in place of another


def test_the_replaced_log_is_kept_each_time(here: Project) -> None:
    """Two in the same second get two names; the new log is acknowledged to its end."""
    data = (here.ledger / LOG_NAME).read_bytes()
    end = reading.open_log(here).head()
    for _ in range(2):
        histories.replace_log(here.ledger, data, end, AT, histories.identify_log(here.ledger))
    names = {path.name for path in (here.ledger / "quarantine").glob("*.jsonl")}
    assert {"events-20261123T120000.jsonl", "events-20261123T120000-2.jsonl"} == names
    assert end[:3] == reading.open_log(here).head()[:3]
    assert verify(reading.open_log(here)).ok


def test_a_log_that_changed_meanwhile_stays(here: Project) -> None:
    """So does one whose lock another process holds."""
    seen = histories.identify_log(here.ledger)
    commands.add(here, "four", HUMAN)
    data = (here.ledger / LOG_NAME).read_bytes()
    with pytest.raises(CannotWriteError, match="was changed by another program"):
        histories.replace_log(here.ledger, b"", START, AT, seen)
    with JsonlLog(here.ledger).transaction(), pytest.raises(LockHeldError):
        histories.replace_log(here.ledger, b"", START, AT, histories.identify_log(here.ledger))
    assert data == (here.ledger / LOG_NAME).read_bytes()
