"""`share members`, and how machines of a large team take turns."""

from __future__ import annotations

from collections.abc import Sequence
import json
from pathlib import Path

import attrs
import pytest

from helpers.command_line import Run
from helpers.memory_store import MemoryStore
from helpers.sharing_projects import make_team
from tallybook.ledger.sharing.engine import StoredRun
from tallybook.projections.surfaces.sharing import membership, operations
from tallybook.projections.surfaces.sharing.shared_log import SharedLog
from tallybook.projections.surfaces.sharing.syncing import longest_wait
from tallybook.projections.surfaces.workspace.project import Project


class KnowingStore(MemoryStore):
    """A store that knows who stored each run, as a database does."""

    knows_authors = True

    def list(self, after: int) -> Sequence[StoredRun]:
        """Return the numbers with an author."""
        return [entry._replace(author="role_of_all") for entry in super().list(after)]


def test_members_are_listed_with_what_they_published(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writer has its events, when it was seen last, how far behind it may be, and who logged in."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    for machine in ("anna", "ben", "cleo"):
        team.share(machine, "--as", machine)
    for machine in ("anna", "ben"):
        team.run(machine, "add", f"Advice of {machine}")
        team.sync(machine)
    found = json.loads(team.run("ben", "share", "members", "--json").out)
    assert [("ben", 3, 0, True), ("anna", 4, 3, False)] == [
        (member["writer"].rpartition("-")[0], member["events"], member["behind"], member["is_this"]) for member in found
    ]
    assert "(this machine): 3 events, last seen " in team.run("ben", "share", "members").out
    assert "logged in" not in team.run("ben", "share", "members").out
    knowing = KnowingStore()
    knowing.runs = team.memory.runs
    team.memory = knowing
    assert "logged in as role_of_all" in team.run("ben", "share", "members").out
    assert "role_of_all" == json.loads(team.run("ben", "share", "members", "--json").out)[0]["author"]


def test_the_more_write_the_longer_a_push_may_wait(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pushes a minute need no turns; a larger team spreads them, over a minute at most."""
    team = make_team("memory", tmp_path, run, monkeypatch)
    team.share("anna")
    project = Project(team.root("anna"))
    assert (0, 0) == (longest_wait("git", 6), longest_wait("postgres", 100))
    expected = {5: 0, 8: 20, 20: 60}
    for number in range(1, 21):
        part = membership.require(project)
        membership.save(project, attrs.evolve(part, writer=f"machine-{number}"))
        team.run("anna", "add", f"Advice {number}")
        team.sync("anna")
        if number in expected:
            # The first machine has written as well: it made the book.
            writers = operations.count_recent_writers(SharedLog(project.ledger).copy)
            assert expected[number] <= longest_wait("git", writers) <= expected[number] + 10
