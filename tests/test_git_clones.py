"""Three clones that track the ledger: merges, rebases, squashes and resets at random, and no rating is lost."""

from __future__ import annotations

from random import Random
import shutil
from typing import TYPE_CHECKING

import pytest

from helpers.authors import HUMAN
from helpers.git_ledgers import LOG, counts, try_git
from helpers.git_repositories import git
from helpers.reference_model import extraction
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.histories.joining import import_ledger
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
STEPS = 30


class Clones:
    """Three clones of one bare repository, and how often each text was rated in all of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Make the repository and the clones; the first one begins the ledger, on ``main``."""
        self.chance = Random(seed)  # noqa: S311 - the same histories in every run
        self.given: dict[str, int] = {"one": 0}
        self.repairs = 0
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "hub.git")
        self.all = [Project(folder / name) for name in ("anna", "bert", "carl")]
        for here in self.all:
            git(folder, "clone", "--quiet", "hub.git", here.root.name)
            git(here.root, "config", "user.email", f"{here.root.name}@here")
            git(here.root, "config", "user.name", here.root.name)
            git(here.root, "config", "merge.conflictStyle", self.chance.choice(["merge", "diff3", "zdiff3"]))
            if here is self.all[0]:
                commands.add(here, "one", HUMAN)
                self.save(here)
                git(here.root, "push", "--quiet", "origin", "HEAD:main")

    def save(self, here: Project) -> None:
        """Commit the ledger as it is; it ends a merge as well."""
        git(here.root, "add", "--force", LOG)
        try_git(here, "commit", "--quiet", "--no-edit", "--message", "events")

    def repair(self, here: Project) -> None:
        """Type what the message says, if there is one, and check that the ledger is whole."""
        try:
            commands.show(here)
        except DamagedLedgerError as error:
            said = str(recognition.explain(here, error))
            assert "`tallybook import --ledger " in said
            source = said.partition("`tallybook import --ledger ")[2].partition("`")[0]
            import_ledger(here, source, dry_run=False, accept_loss=False)
            self.repairs += 1
        assert [] == list(verify(reading.open_log(here)).problems)

    def work(self, here: Project) -> None:
        """Add or rate an entry, and commit."""
        names = {entry["text"]: entry["name"] for entry in commands.show(here)["key_points"]}
        if self.chance.random() < 0.3:
            text = f"text {self.chance.randrange(15)}"
            self.given.setdefault(text, 0)
            commands.record(here, extraction(new=[text]), HUMAN)
        else:
            text = self.chance.choice(list(names))
            self.given[text] += 1
            commands.rate(here, names[text], "helpful", HUMAN)
        self.save(here)

    def pull(self, here: Project) -> None:
        """Bring in what others pushed, in one of git's ways; repair what it left, and push."""
        way = self.chance.choice(["merge", "union", "ours", "theirs", "rebase", "reset", "squash"])
        git(here.root, "fetch", "--quiet")
        before = git(here.root, "rev-parse", "HEAD")
        attributes = here.root / ".git" / "info" / "attributes"
        attributes.write_text("events.jsonl merge=union\n" if way == "union" else "")
        if way in {"merge", "union"}:
            try_git(here, "merge", "--quiet", "--no-edit", "origin/main")
        elif way in {"ours", "theirs"}:
            try_git(here, "merge", "--quiet", "--no-edit", "--strategy-option", way, "origin/main")
        elif way == "squash":
            try_git(here, "merge", "--quiet", "--squash", "origin/main")
        elif way == "rebase":
            try_git(here, "rebase", "--quiet", "origin/main")
        else:
            git(here.root, "reset", "--quiet", "--hard", "origin/main")
        self.repair(here)
        if way == "rebase":
            # What is in the ledger now is kept; where the commits come from does not matter.
            data = (here.ledger / "events.jsonl").read_bytes()
            try_git(here, "rebase", "--abort")
            git(here.root, "reset", "--quiet", "--soft", "origin/main")
            (here.ledger / "events.jsonl").write_bytes(data)
        # Whoever kept one side joins the other one by its name.
        for revision in (before, "origin/main"):
            import_ledger(here, f"git:{revision}", dry_run=False, accept_loss=False)
        self.save(here)
        try_git(here, "push", "--quiet", "origin", "HEAD:main")


@pytest.mark.parametrize("seed", range(2))
def test_no_rating_is_lost_and_none_counts_twice(tmp_path: Path, seed: int) -> None:
    """Each time git divided the ledger, the command of the message made it whole; all clones end the same."""
    clones = Clones(tmp_path, seed)
    for _ in range(STEPS):
        here = clones.chance.choice(clones.all)
        clones.repair(here)
        clones.work(here)
        if clones.chance.random() < 0.4:
            clones.pull(here)
    for here in (*clones.all, *clones.all):
        for other in clones.all:
            if here is not other:
                import_ledger(here, str(other.root), dry_run=False, accept_loss=False)
    expected = {text: (number, 0) for text, number in clones.given.items()}
    assert [expected] * 3 == [counts(here) for here in clones.all]
    assert 0 < clones.repairs
