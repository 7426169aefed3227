"""The caches that are removed, by which command and when."""

from __future__ import annotations

import os
from pathlib import Path
import shutil

import pytest

from helpers.authors import HUMAN
from helpers.cache_places import caches_of, make_caches
from helpers.command_line import Run
from tallybook.ledger.storage import caches
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import redact


def begin(folder: Path, text: str = "Use type hints") -> Project:
    """Return a project with one entry and a cache."""
    (folder / ".claude").mkdir(parents=True)
    made = Project(folder)
    commands.add(made, text, HUMAN)
    (make_caches(made.ledger) / "file").write_text(text)
    return made


def age(path: Path, days: float) -> None:
    """Set a file's time of change back by so many days."""
    then = path.stat().st_mtime - days * 24 * 3600
    os.utime(path, (then, then))


def add_entry(project: Project, text: str) -> None:
    """Add an entry."""
    commands.add(project, text, HUMAN)


def add_later(project: Project, text: str) -> None:
    """Add an entry a day after the last sweep of the cache folder."""
    swept = caches_of(project.ledger).parent.parent / checkpoints.SWEEP_STAMP
    swept.touch()
    age(swept, 1.1)
    commands.add(project, text, HUMAN)


@pytest.fixture
def here(project: Path) -> Project:
    """Return a project with one entry and a cache, in its own home folder."""
    return begin(project / "here")


@pytest.mark.parametrize("how", ["gone", "unused", "another in its place", "kept"])
def test_a_cache_is_removed_without_its_ledger_or_after_30_days(here: Project, project: Path, how: str) -> None:
    """All other caches stay."""
    other = begin(project / "other")
    place = caches_of(other.ledger)
    if how == "gone":
        shutil.rmtree(other.root)
    elif how == "unused":
        age(place / caches.OWNER, 30.1)
    elif how == "another in its place":
        shutil.rmtree(other.root)
        begin(project / "other")
    else:
        age(place / caches.OWNER, 29.9)
    add_later(here, "Write tests")
    assert (how == "kept", True) == (place.exists(), caches_of(here.ledger).exists())


def test_the_cache_folder_is_swept_once_a_day(here: Project, project: Path) -> None:
    """Later commands on the same day do not check every cache."""
    other = begin(project / "other")
    place = caches_of(other.ledger)
    shutil.rmtree(other.root)
    found = []
    for add in (add_entry, add_later):
        add(here, f"By {add.__name__}")
        found.append(place.exists())
    assert [True, False] == found


def test_a_redaction_clears_every_cache_of_the_ledger_and_its_copies(here: Project, project: Path, run: Run) -> None:
    """Caches of other ledgers stay; those of other users are named as out of reach."""
    words = ("redact", "--text", "type hints", "--reason", "private", "--dry-run")
    assert "other users' caches" in run("--project", str(here.root), *words).out
    shutil.copytree(here.root, project / "copy")
    copied = make_caches(project / "copy" / ".claude" / "ledger")
    (copied / "file").write_text("Use type hints")
    other = begin(project / "other", "Write tests")
    own = caches_of(here.ledger) / "file"
    redact.redact(here, redact.RedactionTarget(text="type hints"), "private", HUMAN)
    assert [False, False, True] == [path.exists() for path in (own, copied, caches_of(other.ledger) / "file")]


@pytest.mark.skipif(os.name != "posix", reason="this system has other rights")
def test_a_redaction_clears_a_cache_that_is_no_longer_used(here: Project) -> None:
    """A cache folder that was made readable to others since still holds the text, and is cleared."""
    own = caches_of(here.ledger)
    own.parent.parent.chmod(0o755)
    redact.redact(here, redact.RedactionTarget(text="type hints"), "private", HUMAN)
    assert not own.exists()
