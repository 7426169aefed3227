"""Machines that share a book through an engine in memory, each with a project of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from helpers.commands import CommandResult, Run
from helpers.engines import git_engine
from helpers.git_repositories import git, make_remote
from helpers.memory_store import MemoryStore
from tallybook.ledger.codec import decode
from tallybook.ledger.line import START, RawBatch
from tallybook.ledger.sharing.book import count, cut_runs
from tallybook.ledger.sharing.engine import Engine
from tallybook.ledger.sharing.replica import Replica, read_current
from tallybook.projections.surfaces.cli import main
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import Membership
from tallybook.projections.surfaces.sharing.syncing import SyncResult, sync
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

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

    def run(self, *words: str) -> CommandResult:
        """Run a verb in its project."""
        # A playbook is written as bytes.
        out = TextIOWrapper(data := BytesIO(), encoding="utf-8", write_through=True)
        with redirect_stdout(out), redirect_stderr(StringIO()) as err:
            code = main.run(["--project", str(self.project.root), *words])
        out.flush()
        return CommandResult(code, data.getvalue().decode(), err.getvalue())

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
    return Membership(name, "memory", "memory", label, end=end)


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


# Projects of several users that share one book, through git or an engine in memory, by the commands themselves.


@attrs.define
class Team:
    """Machines of one book; each has a project and a home folder of its own.

    Attributes:
        folder: Where they are.
        run_command: Runs the command line.
        patch: Changes the environment.
        engine: Name of the engine.
        address: Its address.
        book: Name of the book.
        memory: The store in memory.
    """

    folder: Path
    run_command: Run
    patch: pytest.MonkeyPatch
    engine: str
    address: str
    book: str = "main"
    memory: MemoryStore = attrs.field(factory=MemoryStore)

    def run(self, machine: str, *words: str, code: int | None = 0, stdin: bytes = b"") -> CommandResult:
        """Run a command on a machine, and check its exit code; None for any."""
        root = self.root(machine)
        self.patch.setenv("HOME", str(self.home(machine)))
        self.patch.setenv("CLAUDE_PROJECT_DIR", str(root))
        done = self.run_command("--project", str(root), *words, stdin=stdin)
        assert code in {None, done.code}, done
        return done

    def root(self, machine: str) -> Path:
        """Return the project's folder of a machine."""
        root = self.folder / machine
        (root / ".claude").mkdir(parents=True, exist_ok=True)
        return root

    def home(self, machine: str) -> Path:
        """Return the home folder of a machine's user."""
        home = self.folder / f"home-{machine.partition('.')[0]}"
        home.mkdir(parents=True, exist_ok=True)
        return home

    def ledger(self, machine: str) -> Path:
        """Return the ledger's folder of a machine."""
        return self.root(machine) / ".claude" / "ledger"

    def share(self, machine: str, *words: str, code: int = 0) -> CommandResult:
        """Join the book."""
        return self.run(machine, "share", self.engine, self.address, "--book", self.book, "--yes", *words, code=code)

    def sync(self, *machines: str) -> None:
        """Sync machines, one after another."""
        for machine in machines:
            self.run(machine, "sync")

    def entries(self, machine: str, when: str | None = None) -> dict[str, tuple[str, int, int]]:
        """Return the entries that a machine shows, or showed at a moment: name → text, helpful and harmful."""
        words = ("show", "--json", *(("--at", when) if when else ()))
        rows: list[dict[str, Any]] = json.loads(self.run(machine, *words).out)["key_points"]
        return {row["name"]: (row["text"], row["helpful"], row["harmful"]) for row in rows}

    @contextmanager
    def open_engine(self) -> Iterator[Engine]:
        """Open the engine as another machine would."""
        if self.engine == "memory":
            yield Engine(self.memory)
            return
        engine = git_engine(self.address, self.book, str(self.folder / "other-cache"))
        yield engine
        engine.close()

    def batches(self) -> list[RawBatch]:
        """Return what counts in the engine."""
        with self.open_engine() as engine:
            return count(engine.read(0).runs, START, set()).batches

    def ids(self) -> list[str]:
        """Return the id of each event in the engine that counts."""
        return [record.id for batch in decode(self.batches()) for record in batch.records]

    def force(self, batches: list[RawBatch]) -> None:
        """Put other content in the engine's place, as somebody with its rights could."""
        if not batches:
            self.empty()
            return
        with self.open_engine() as engine:
            engine.replace(engine.read(0).end, cut_runs(batches, START, engine.run_bytes))

    def empty(self) -> None:
        """Empty the engine."""
        if self.engine == "memory":
            self.memory.runs.clear()
        else:
            git(Path(self.address), "update-ref", "-d", f"refs/tallybook/{self.book}")


def make_team(engine: str, folder: Path, run: Run, patch: pytest.MonkeyPatch) -> Team:
    """Return a team on a new engine."""
    patch.delenv("XDG_CACHE_HOME", raising=False)
    if engine == "git":
        return Team(folder, run, patch, "git", str(make_remote(folder / "remote.git")))
    team = Team(folder, run, patch, "memory", "memory")
    open_store = membership.open_store
    patch.setitem(membership.ENGINES, "memory", "")
    patch.setattr(
        membership,
        "open_store",
        lambda part, *words: team.memory if part.engine == "memory" else open_store(part, *words),
    )
    return team
