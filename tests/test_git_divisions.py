"""What git makes of tracked files, said in plain words, and made whole by the command that the message names."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
from random import Random
import shlex
import subprocess
import sys

import pytest

from helpers.commands import ROOT, CommandResult, Run
from helpers.commands import run as real_run
from helpers.documentation import examples
from helpers.events import HUMAN, list_events
from helpers.git_repositories import LOG, add_branches, counts, git, make_repository, plant_traps, switch, try_git
from helpers.reference_model import extraction
from tallybook.ledger.errors import DamagedLedgerError
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.sharing import ledger_copies
from tallybook.projections.surfaces.sharing.ledger_copies import import_ledger
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands

BOTH = {"one": (1, 1), "of main": (0, 0), "of the side": (0, 0)}
"""What both branches of ``add_branches`` add up to."""
CONFLICT = "events.jsonl:4: is a conflict marker of a merge"
UNION = "events.jsonl:8: has seq 4 where 8 is due: lines were moved, repeated, removed or added"
OTHER = "that was acknowledged at seq 7"


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with a tracked log file and two branches that both appended to it."""
    here = make_repository(project)
    add_branches(here)
    return here


def read_message(here: Project) -> str:
    """Return the line that people see, empty where nothing is damaged."""
    try:
        commands.show(here)
    except DamagedLedgerError as error:
        return str(ledger_copies.explain(here, error))
    return ""


def find_named_source(said: str) -> str:
    """Return what the command in a message imports."""
    assert "`tallybook import --ledger /" in said
    return said.rpartition("`tallybook import --ledger ")[2].partition("`")[0]


def join(run: Run, source: object, *options: str, code: int = 0) -> CommandResult:
    """Import another ledger by the command."""
    answer = run("import", "--ledger", str(source), *options)
    assert code == answer.code, answer.err
    return answer


def assert_whole(here: Project) -> None:
    """Check that the ledger verifies and ``playbook.json`` is what it says, without a manual edit in it."""
    assert "" == "; ".join(map(str, verify(reading.open_log(here)).problems))
    commands.check(here)
    assert [] == [event for event in list_events(here) if event["kind"] == "playbook.edited"]


def assert_joined(here: Project, run: Run) -> None:
    """Check that every rating of both branches is there once, and that a second run adds nothing."""
    assert BOTH == counts(here)
    assert_whole(here)
    before = (here.ledger / "events.jsonl").read_bytes()
    assert "nothing new in git:side" in join(run, "git:side").out
    assert "nothing new in git:main" in join(run, "git:main").out
    assert before == (here.ledger / "events.jsonl").read_bytes()


def merge(here: Project, style: str = "merge") -> None:
    """Stop at the conflict of a merge, shown in one of git's styles."""
    assert "Unknown" not in try_git(here, "-c", f"merge.conflictStyle={style}", "merge", "side")


def merge_lines(here: Project, onto: str, other: str) -> None:
    """Merge with the lines of both sides, one after the other."""
    switch(here, onto)
    commands.show(here)
    (here.root / ".gitattributes").write_text("events.jsonl merge=union\n")
    git(here.root, "merge", "--quiet", "--no-edit", other)


def take_away(here: Project) -> None:
    """Check out a commit without the ledger."""
    git(here.root, "checkout", "--quiet", "--orphan", "empty")
    git(here.root, "rm", "--quiet", "-r", "--force", ".")


DIVISIONS: dict[str, tuple[Callable[[Project], object], str, str]] = {
    "conflict": (merge, CONFLICT, ""),
    "zdiff3": (lambda here: merge(here, "zdiff3"), CONFLICT, ""),
    "rebase": (lambda here: try_git(here, "rebase", "side"), "is a conflict marker of a merge", ""),
    "union": (lambda here: merge_lines(here, "main", "side"), UNION, ""),
    "older version": (
        lambda here: git(here.root, "checkout", "--quiet", "main~1"),
        "its acknowledged end at seq 7",
        "",
    ),
    "other branch": (lambda here: git(here.root, "checkout", "--quiet", "side"), OTHER, ""),
    "other side kept": (lambda here: git(here.root, "reset", "--quiet", "--hard", "side"), OTHER, ""),
    "taken away": (take_away, "is missing, and held 7 events", ""),
    "own side kept": (
        lambda here: git(here.root, "merge", "--quiet", "--no-edit", "--strategy=ours", "side"),
        "",
        "git:side",
    ),
}
"""What git did → how, what is said of it, and the source that the message names; empty for one that varies."""


@pytest.mark.parametrize("name", DIVISIONS)
def test_a_division_is_named_and_made_whole_by_its_command(here: Project, run: Run, name: str) -> None:
    """The message has the command; after it, and the one for the other branch, every rating of both counts once."""
    kept = git(here.root, "rev-parse", "main")
    divide, what, source = DIVISIONS[name]
    divide(here)
    said = read_message(here)
    if what:
        assert what in said
        # A file that is gone is not in the index, and `verify` names the command.
        source = find_named_source(said if name != "taken away" else run("verify").err)
    join(run, source)
    for revision in (f"git:{kept}", "git:side"):
        join(run, revision)
    assert BOTH == counts(here)
    assert_whole(here)
    if name != "other side kept":
        assert_joined(here, run)


def test_a_version_is_found_where_others_are_missing(here: Project, run: Run, tmp_path: Path) -> None:
    """A partial clone has some files alone, and no remote is asked for the others."""
    git(here.root, "config", "uploadpack.allowFilter", "true")
    git(here.root, "clone", "--quiet", "--filter=blob:none", f"file://{here.root}", str(tmp_path / "clone"))
    (here.root / ".git").rename(here.root / "full.git")
    (tmp_path / "clone" / ".git").rename(here.root / ".git")
    log = here.ledger / "events.jsonl"
    whole = log.read_bytes()
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:3]))
    join(run, find_named_source(read_message(here)))
    assert whole == log.read_bytes()


def test_nothing_that_the_repository_configures_runs(here: Project) -> None:
    """Neither a filter, a driver, a signature's program nor a hook runs while the file is examined."""
    git(here.root, "checkout", "--quiet", "side")
    ran = here.root / "ran"
    plant_traps(here.root, ran)
    for key in ("filter.bad.smudge", "filter.bad.clean"):
        git(here.root, "config", key, f"touch {ran}; cat")
    (here.root / ".gitattributes").write_text("* filter=bad diff=bad\n")
    assert OTHER in read_message(here)
    assert not ran.exists()


@pytest.mark.parametrize("url", ["ext::touch {mark}", "file:///{mark}", "/{mark}", "ssh://host/x"])
@pytest.mark.parametrize("question", ["a commit that is not there", "a ledger that is not there"])
def test_no_command_that_a_repository_configures_runs(
    here: Project, run: Run, tmp_path_factory: pytest.TempPathFactory, question: str, url: str
) -> None:
    """Missing objects are not fetched, whatever the remote is; the answer is one line."""
    mark = tmp_path_factory.mktemp("mark") / "planted"
    blob = git(here.root, "rev-parse", "HEAD:.claude/ledger/events.jsonl")
    plant_traps(here.root, mark)
    for key, value in (("url", url.format(mark=mark)), ("promisor", "true")):
        git(here.root, "config", f"remote.origin.{key}", value)
    for key, value in (("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin")):
        git(here.root, "config", key, value)
    (here.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    words = ("diff", f"git:{'0123456789' * 4}") if "commit" in question else ("show", "--at", "git:HEAD")
    answer = run(*words)
    assert (False, 1) == (mark.exists(), len(answer.err.splitlines()))
    assert answer.code != 0


def test_an_edited_playbook_of_the_other_branch_is_set_aside(here: Project, run: Run) -> None:
    """It cannot be told what its writer changed here, and it is kept and named."""
    switch(here, "side")
    commands.replay(here)
    here.playbook.write_text(here.playbook.read_text().replace('"one"', '"edited"'))
    edited = here.playbook.read_bytes()
    git(here.root, "checkout", "--quiet", "main")
    git(here.root, "merge", "--quiet", "--strategy=ours", "--no-edit", "side")
    try_git(here, "reset", "--quiet", "--hard", "main~1")
    try_git(here, "merge", "side")
    (here.ledger / "head").unlink(missing_ok=True)
    answer = join(run, here.ledger / "events.jsonl")
    (aside,) = here.claude.glob("playbook.json.unreadable-*")
    assert edited == aside.read_bytes()
    assert f"set aside: {aside}" in answer.out
    assert_whole(here)


def test_a_crash_after_any_step_of_the_repair_loses_nothing(
    here: Project, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command goes on, from the file as it was or as it is."""
    try_git(here, "merge", "side")
    damaged = (here.ledger / "events.jsonl").read_bytes()
    for step in ("tallybook.ledger.storage.disk.replace_file", "tallybook.ledger.histories._write_head"):
        with monkeypatch.context() as patch:
            patch.setattr(step, _crash)
            with pytest.raises(KeyboardInterrupt):
                import_ledger(here, str(here.ledger / "events.jsonl"), dry_run=False, accept_loss=False)
        assert damaged in {path.read_bytes() for path in (here.ledger / "quarantine").iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr("tallybook.projections.surfaces.sharing.ledger_copies._land", _crash)
        with pytest.raises(KeyboardInterrupt):
            import_ledger(here, "git:side", dry_run=False, accept_loss=False)
    join(run, "git:side")
    assert_joined(here, run)


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


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
            said = str(ledger_copies.explain(here, error))
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


PLAYBOOK = ".claude/playbook.json"
WHO = [(who, field) for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")]


def save_playbook(tracking: Project, message: str) -> None:
    """Commit the playbook as it is."""
    git(tracking.root, "commit", "--quiet", "--all", "--message", message)


def count_events(tracking: Project) -> int:
    """Return how many events the ledger has."""
    return reading.open_log(tracking).head().seq


def follow(tracking: Project, beginning: str) -> None:
    """Run the documented block of commands that begins so, in the project."""
    [block] = [example.code for example in examples("sh") if example.code.startswith(beginning)]
    code = block.replace("tallybook replay", shlex.join([sys.executable, "-P", "-m", "tallybook", "replay"]))
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | {f"GIT_{who}_{field}": "me@here" for who, field in WHO}
    subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=tracking.root, env=environment, check=True)


def texts(tracking: Project) -> list[str]:
    """Return the texts of the entries that ``playbook.json`` has after a replay."""
    assert 0 == real_run(tracking, "replay").code
    commands.check(tracking)
    return [entry["text"] for entry in commands.show(tracking)["key_points"]]


@pytest.fixture
def tracking(project: Path) -> Project:
    """Return a project with a tracked playbook, and a branch ``side`` with an older version of it."""
    git(project, "init", "--quiet", "--initial-branch=main")
    tracking = Project(project)
    commands.add(tracking, "one", HUMAN)
    git(project, "add", PLAYBOOK)
    save_playbook(tracking, "one")
    git(project, "branch", "other-branch")
    commands.add(tracking, "two", HUMAN)
    save_playbook(tracking, "two")
    return tracking


@pytest.fixture
def parted(tracking: Project) -> Project:
    """Return the project with another version on each branch."""
    git(tracking.root, "checkout", "--quiet", "other-branch")
    commands.add(tracking, "three", HUMAN)
    save_playbook(tracking, "three")
    git(tracking.root, "checkout", "--quiet", "main")
    commands.add(tracking, "four", HUMAN)
    save_playbook(tracking, "four")
    return tracking


def test_the_documented_driver_merges_without_a_conflict(parted: Project) -> None:
    """The merge keeps this side, and the next command renders the file anew."""
    follow(parted, "echo '/.claude/playbook.json merge")
    git(parted.root, "add", ".gitattributes")
    save_playbook(parted, "attributes")
    before = count_events(parted)
    git(parted.root, "merge", "--quiet", "--no-edit", "other-branch")
    assert ["one", "two", "three", "four"] == texts(parted)
    assert before == count_events(parted)


def test_a_conflict_is_set_aside_and_rendered_anew(parted: Project) -> None:
    """Without the driver git writes its markers into the file; a replay and `git add` end the conflict."""
    before = count_events(parted)
    with pytest.raises(subprocess.CalledProcessError):
        git(parted.root, "merge", "--quiet", "--no-edit", "other-branch")
    assert b"<<<<<<< " in parted.playbook.read_bytes()
    assert ["one", "two", "three", "four"] == texts(parted)
    assert before == count_events(parted)
    assert 1 == len(list(parted.claude.glob("playbook.json.unreadable-*")))
    git(parted.root, "add", PLAYBOOK)
    save_playbook(parted, "merged")
    assert "" == git(parted.root, "ls-files", "--unmerged")


def test_the_end_of_tracking_deletes_no_rating_in_another_clone(tracking: Project, tmp_path: Path) -> None:
    """Git deletes the file there, and the next command writes it again; both clones then ignore it."""
    other = Project(tmp_path / "other")
    git(tmp_path, "clone", "--quiet", str(tracking.root), str(other.root))
    commands.rate(other, "kpt_001", "helpful", HUMAN)
    git(other.root, "checkout", "--", PLAYBOOK)
    follow(tracking, "git rm --cached ")
    git(other.root, "pull", "--quiet")
    assert not other.playbook.exists()
    assert ["one", "two"] == texts(other)
    assert 1 == commands.show(other)["key_points"][0]["helpful"]
    assert tracking.playbook.exists()
