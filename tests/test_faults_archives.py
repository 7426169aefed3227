"""Projects from archives, which keep times and modes of files: a cache planted in one is not believed."""

from __future__ import annotations

from hashlib import sha256
import json
import os
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from faults.scenes import ROOT, Scene, here, run, three_entries
from helpers.authors import HUMAN
from helpers.cache_places import caches_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.hooks.handler import SETTLED
from tallybook.projections.surfaces.workspace import settings
from tallybook.projections.surfaces.workspace.project import MARKS, Project

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name != "posix", reason="plants what only POSIX has")

TEXT, PLANTED = "Test the edges", "Test the pagan"
READING = (("show",), ("why", "kpt_003"), ("log",), ("score",), ("doctor",))
WRITING = (("rate", "kpt_001", "helpful"), ("replay",), ("show",))
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
CACHE = "cache"
"""Where an archive can have a cache: in the ledger's folder, which no command reads for one."""


def write_long(root: Path) -> Project:
    """Make a project whose ledger is long enough for a checkpoint, with settings of its own."""
    project = three_entries(root)
    # No process is left behind that would reflect while the test looks.
    (project.ledger / MARKS).mkdir()
    (project.ledger / MARKS / SETTLED).write_text("none", encoding="utf-8")
    (project.claude / "config").mkdir()
    (project.claude / "config" / "tallybook.toml").write_text("[playbook]\nbudget_chars = 7000\n", encoding="utf-8")
    commands.record(project, {"new_key_points": [f"{number} " + "x" * 9_000 for number in range(8)]}, HUMAN)
    commands.show(project)
    return project


def plant_settings(project: Project) -> None:
    """Plant settings that choose a paid rater, as a cache of these exact files."""
    paths = settings.files(project)
    values = settings.Settings(rater="claude", tokens_per_day=settings.MAX_TOKENS_PER_DAY)._asdict()
    files = [[path, *settings._stamp(path)] for path in paths]
    name = f"settings-{sha256(chr(10).join(paths).encode()).hexdigest()[:32]}.json"
    (project.ledger / CACHE).mkdir()
    (project.ledger / CACHE / name).write_text(json.dumps({"files": files, "values": values}), encoding="utf-8")


def plant_checkpoint(project: Project) -> None:
    """Plant a checkpoint of this exact ledger, with another text and that text's digest."""
    shutil.copytree(caches_of(project.ledger), project.ledger / CACHE)
    latest = project.ledger / CACHE / "playbook.blob"
    data = latest.read_bytes()[32:].replace(TEXT.encode(), PLANTED.encode())
    assert PLANTED.encode() in data
    latest.write_bytes(sha256(data).hexdigest()[:32].encode() + data)


def ship(project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a project into an archive, and unpack it in the same place for another user."""
    archive = folder / "shipped.tar"
    with tarfile.open(archive, "w") as packed:
        packed.add(project.root, "project")
    shutil.rmtree(project.root)
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="tar")


def settle_times(project: Project) -> None:
    """Give every file a time in whole seconds, as an archive does."""
    for path in project.root.rglob("*"):
        os.utime(path, (1_790_000_000, 1_790_000_000), follow_symlinks=False)


def call_hook(project: Project, event: str) -> str:
    """Return the answer of a hook in its own process, started as an agent does."""
    said = {"hook_event_name": event, "source": "startup", "session_id": "s1", "last_assistant_message": "[kpt_003]"}
    answer = run(project, Scene(three_entries, ("hook",), json.dumps(said), silent=True))
    assert (0, "") == (answer.code, answer.err)
    return answer.out


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Project], None]], Project]:
    """Return a function that makes a project, plants something in it, and ships it."""

    def make(plant: Callable[[Project], None]) -> Project:
        project = write_long(tmp_path / "project")
        settle_times(project)
        plant(project)
        settle_times(project)
        ship(project, tmp_path, monkeypatch)
        return project

    return make


def test_planted_settings_choose_no_rater(shipped: Callable[[Callable[[Project], None]], Project]) -> None:
    """Tallybook uses the project's own settings, which name no paid rater."""
    project = shipped(plant_settings)
    for event in EVENTS:
        call_hook(project, event)
    assert settings.Settings(budget_chars=7_000) == settings.read(project)
    assert all("paid" not in here(project, *words).out for words in (*READING, *WRITING))
    assert settings.Settings(budget_chars=7_000) == settings.read(project)


def test_a_planted_checkpoint_is_not_shown(shipped: Callable[[Callable[[Project], None]], Project]) -> None:
    """No command and no hook shows its text, before or after a command that renders."""
    project = shipped(plant_checkpoint)
    told = call_hook(project, "SessionStart")
    assert (True, False) == (TEXT in told, PLANTED in told)
    for words in (*READING, *WRITING):
        answer = here(project, *words)
        assert (words, False) == (words, PLANTED in answer.out + answer.err)
    assert (True, False) == (TEXT in project.playbook.read_text(), PLANTED in project.playbook.read_text())


def test_a_planted_link_is_not_followed(
    shipped: Callable[[Callable[[Project], None]], Project], tmp_path: Path
) -> None:
    """No reader or writer writes, changes or removes anything at the link's target."""
    precious = tmp_path / "precious"
    precious.mkdir()
    for name in ("keys", "mine", "checkpoints.lock"):
        (precious / name).write_text(f"my {name}")
    before = {path.name: path.read_bytes() for path in precious.rglob("*")}
    project = shipped(lambda project: (project.ledger / CACHE).symlink_to(precious))
    for event in EVENTS:
        call_hook(project, event)
    for words in (*READING, *WRITING):
        here(project, *words)
    assert before == {path.name: path.read_bytes() for path in precious.rglob("*")}


def test_a_cache_folder_in_a_project_is_not_used(
    shipped: Callable[[Callable[[Project], None]], Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's cache folder inside the project is not used, because an archive may have planted it."""

    def plant(project: Project) -> None:
        place = caches_of(project.ledger)
        plant_checkpoint(project)
        shutil.copytree(project.ledger / CACHE, project.root / "cache" / "tallybook" / place.parent.name / place.name)
        (project.root / "cache" / "tallybook").chmod(0o700)

    project = shipped(plant)
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.root / "cache"))
    assert (True, False) == (TEXT in here(project, "show").out, PLANTED in here(project, "show").out)


# Without a cache folder


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return a project with a long ledger, where no cache folder can be used."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    monkeypatch.setenv("TALLYBOOK_CACHE_DIR", str(tmp_path / "open"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    return write_long(tmp_path / "project")


def start_hook(event: str, text: str = "") -> str:
    """Return the answer of a hook that gets its cache folder from the environment."""
    said = {"hook_event_name": event, "source": "startup", "session_id": "s1", "last_assistant_message": text}
    words = [sys.executable, "-c", "from tallybook.projections.surfaces.entry_point import main; main()", "hook"]
    done = subprocess.run(words, input=json.dumps(said), capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_without_a_cache_folder_every_command_and_hook_works(closed: Project, tmp_path: Path) -> None:
    """Their answers are those with a cache folder, and they write nothing to the folder."""
    assert TEXT in start_hook("SessionStart")
    assert ["", "", ""] == [start_hook("SessionStart"), start_hook("UserPromptSubmit"), start_hook("Stop", "[kpt_003]")]
    assert "" == start_hook("Stop", "[kpt_003]")
    for words in (*READING, *WRITING):
        assert (words, 0) == (words, here(closed, *words).code)
    kinds = [row["kind"] for row in commands.list_events(closed)]
    assert (1, 1) == (kinds.count("playbook.injected"), kinds.count("point.cited"))
    assert [] == list((tmp_path / "open").iterdir())
    assert not (closed.ledger / CACHE).exists()
