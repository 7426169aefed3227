"""One function per verb: the values that it returns, and the errors that it raises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from helpers.reference_model import extraction
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.commands import DriftError
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

HUMAN = {"rater": "human", "session": "s1"}


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with an entry that was pruned at event 7, and an active one."""
    place = Project(project)
    commands.record(place, extraction(new=["bad advice", "good advice"]), HUMAN)
    commands.record(place, extraction(*[("kpt_001", "harmful")] * 3), HUMAN)
    return place


def test_a_replay_of_the_past_never_replaces_the_playbook(here: Project, tmp_path: Path) -> None:
    """An earlier moment is never written over playbook.json, whatever path names it."""
    before = here.playbook.read_bytes()
    (tmp_path / "link.json").symlink_to(here.playbook)
    for way in (here.playbook, here.claude / ".." / ".claude" / "playbook.json", tmp_path / "link.json"):
        with pytest.raises(BadInputError, match="is the project's own playbook"):
            commands.write_copy(here, way, bytes)
        assert before == here.playbook.read_bytes()
    commands.write_copy(here, tmp_path / "other.json", lambda: b"{}")
    assert b"{}" == (tmp_path / "other.json").read_bytes()
    assert before == here.playbook.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda _: None, "is missing"),
        (lambda _: b"", "is not a playbook"),
        (lambda good: good.replace(b"good advice", b"better advice"), "has a manual edit"),
        (lambda good: good.replace(b"\n", b"\r\n"), "is older than the ledger"),
    ],
)
def test_check_names_the_difference_of_the_file(here: Project, spoil: Any, says: str) -> None:
    """The check reports a file that differs from the replay as missing, unreadable, changed or stale."""
    commands.check(here)
    spoiled = spoil(here.playbook.read_bytes())
    here.playbook.unlink()
    if spoiled is not None:
        here.playbook.write_bytes(spoiled)
    with pytest.raises(DriftError, match=says):
        commands.check(here)
    commands.replay(here)
    commands.check(here)
