"""Machines that share a book through an engine in memory, each with a project of its own."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
import json
from pathlib import Path
from typing import Any

import attrs

from helpers.command_line import Answer
from helpers.memory_store import MemoryStore
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.sharing.replica import Replica, read_current
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.sharing.syncing import SyncResult, sync
from tallybook.projections.surfaces.workspace.project import Project

HUMAN = {"rater": "human"}
RANDOM = "0a1b2c3d"


@attrs.frozen
class SharedMachine:
    """One machine.

    Attributes:
        project: Its project.
        label: Its label in the book.
        engine: The engine that all share.
    """

    project: Project
    label: str
    engine: Engine

    def sync(self) -> SyncResult:
        """Bring its ledger and the book together, and render its playbook."""
        result = sync(self.project, make_part(self.project, self.label), self.engine, 60.0)
        commands.replay(self.project)
        return result

    def run(self, *words: str) -> Answer:
        """Run a verb in its project."""
        # A playbook is written as bytes.
        out = TextIOWrapper(data := BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(out), redirect_stderr(StringIO()) as err:
            code = main.run(["--project", str(self.project.root), *words])
        out.flush()
        return Answer(code, data.getvalue().decode(), err.getvalue())

    def json(self, *words: str) -> Any:
        """Return the JSON answer of a verb that succeeds."""
        done = self.run(*words, "--json")
        assert 0 == done.code, done
        return json.loads(done.out)

    def lines(self, *words: str) -> list[Any]:
        """Return the JSON answers of a verb that succeeds, one a line."""
        done = self.run(*words, "--json")
        assert 0 == done.code, done
        return [json.loads(line) for line in done.out.splitlines()]

    def entries(self, when: str | None = None) -> dict[str, tuple[str, int, int]]:
        """Return its playbook: name → text and counts."""
        rows = commands.show(self.project, when)["key_points"]
        return {row["name"]: (row["text"], row["helpful"], row["harmful"]) for row in rows}


def make_part(project: Project, label: str, name: str = "demo") -> Membership:
    """Return a machine's part in a book in memory, which ends where its copy does."""
    end = Replica(project.ledger, read_current(project.ledger).copy).end()[:2]
    return Membership("", "", "", name, "memory", "memory", label, end)


def make_machines(folder: Path, *labels: str) -> tuple[SharedMachine, ...]:
    """Return machines with these labels, none of which has begun."""
    engine = Engine(MemoryStore())
    made = []
    for label in labels:
        (folder / label / ".claude").mkdir(parents=True)
        project = Project(folder / label)
        made.append(SharedMachine(project, f"{label}-{RANDOM}", engine))
    return tuple(made)


def make_pair(folder: Path) -> tuple[SharedMachine, SharedMachine]:
    """Return two machines whose book has what both recorded; the first has a rating that is pending.

    The book: 3 and 5 add kpt_001 and kpt_002, 7 rates kpt_001, all by anna; 10 adds kpt_003, 12 joins a text to
    kpt_002, 14 rates that harmful, 16 rates kpt_003, all by ben. Anna's own ledger: 2 to 7 are hers of these, 8 and 9
    are syncs, 10 and 11 are pending.
    """
    anna, ben = make_machines(folder, "anna", "ben")
    commands.add(anna.project, "Always test", HUMAN)
    commands.add(anna.project, "Use git", HUMAN)
    commands.rate(anna.project, "kpt_001", "helpful", HUMAN)
    commands.add(ben.project, "Be kind", HUMAN)
    commands.add(ben.project, "Use git", HUMAN)
    commands.rate(ben.project, "kpt_002", "harmful", HUMAN)
    commands.rate(ben.project, "kpt_001", "helpful", HUMAN)
    for machine in (anna, ben, anna):
        machine.sync()
    commands.rate(anna.project, "kpt_003", "helpful", HUMAN | {"session": "s1"})
    return anna, ben
