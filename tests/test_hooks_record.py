"""What hooks write and how they see that the file is current: read backwards, in windows, up to a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.spool_files import spooled
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history.reading import current, open_log
from tallybook.projections.surfaces.hooks import ledger_access
from tallybook.projections.surfaces.hooks.ledger_access import append, draft, is_current, kind_of
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

BY = {"rater": "tallybook", "session": "s1"}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry."""
    made = Project(project)
    commands.add(made, "Use type hints", HUMAN)
    return made


def cite(project: Project, number: int) -> bool:
    """Record a citation as a hook does."""
    return append(project, [draft("point.cited", name="kpt_001", where="message")], BY, f"cited:{number}")


def test_a_fact_is_recorded_once_under_its_key(here: Project) -> None:
    """The second delivery is told as such, and adds nothing."""
    assert [True, False, True] == [cite(here, 1), cite(here, 1), cite(here, 2)]
    assert 2 == sum(row["kind"] == "point.cited" for row in commands.list_events(here))
    assert [] == spooled(here)


def test_what_a_damaged_ledger_cannot_take_waits(here: Project) -> None:
    """It stays in the spool until somebody has mended the ledger."""
    log = here.ledger / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])
    assert cite(here, 1)
    assert 1 == len(spooled(here))
    log.write_bytes(whole)
    commands.replay(here)
    assert [] == spooled(here)
    assert 1 == sum(row["kind"] == "point.cited" for row in commands.list_events(here))


@pytest.mark.parametrize("window", [64, 300, 64 * 1024])
def test_a_file_is_current_behind_facts_alone(here: Project, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """However the log is cut into windows; a rating behind the file's moment makes it stale."""
    monkeypatch.setattr(ledger_access, "_WINDOW_BYTES", window)
    stamp = current(open_log(here)).stamp
    assert is_current(here, *stamp)
    for number in range(12):
        cite(here, number)
        assert is_current(here, *stamp)
    assert not is_current(here, stamp[0] - 1, stamp[1])
    commands.rate(here, "kpt_001", "helpful", HUMAN)
    assert not is_current(here, *stamp)
    cite(here, 99)
    assert not is_current(here, *stamp)
    assert is_current(here, *current(open_log(here)).stamp)


def test_nobody_looks_back_for_long(here: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind more facts than a bound the playbook is folded, whatever they say."""
    stamp = current(open_log(here)).stamp
    for number in range(6):
        cite(here, number)
    monkeypatch.setattr(ledger_access, "_WINDOW_BYTES", 128)
    monkeypatch.setattr(ledger_access, "_MAX_SEARCHED_BYTES", 512)
    assert not is_current(here, *stamp)


def test_without_a_head_nobody_knows(here: Project) -> None:
    """A copied log is folded once; the next writer gives it a head."""
    stamp = current(open_log(here)).stamp
    (here.ledger / "head").unlink()
    assert not is_current(here, *stamp)


def test_the_kind_of_a_line_is_read_from_its_bytes(here: Project) -> None:
    """As it stands in the log; what is no line has none."""
    lines = (here.ledger / "events.jsonl").read_bytes().splitlines()
    assert ["ledger.opened", "point.added", "playbook.updated"] == [kind_of(line) for line in lines]
    assert ["", ""] == [kind_of(b"torn"), kind_of(b"")]
