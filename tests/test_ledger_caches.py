"""The place of a ledger's caches, and the folders that are not used for them."""

from __future__ import annotations

from collections.abc import Callable
import os
from pathlib import Path
import shutil
import sys

import pytest

from helpers.cache_places import caches_of, make_caches
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import Draft
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.storage import caches
from tallybook.ledger.storage.head import ledger_id

posix = pytest.mark.skipif(os.name != "posix", reason="this system has other rights")


def begin_ledger(folder: Path) -> Path:
    """Begin a ledger with one rating in a project and return its folder."""
    log = JsonlLog(folder / ".claude" / "ledger")
    with log.transaction() as tx:
        tx.append([Draft("point.rated", 1, {"name": "first", "rating": "helpful"})], {"rater": "test"})
    log.close()
    return log.folder


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a ledger; the home folder is next to the project, and no variable names a cache."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return begin_ledger(tmp_path / "project")


def test_the_place_is_made_of_the_ledgers_id_and_the_digest_of_its_real_path(ledger: Path, tmp_path: Path) -> None:
    """A link to the project leads to the same caches, and a copy of the project has others under the same id."""
    (tmp_path / "link").symlink_to(tmp_path / "project")
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    place = caches_of(ledger)
    assert ledger_id(ledger / "events.jsonl") == place.parent.name
    assert place == caches_of(tmp_path / "link" / ".claude" / "ledger")
    copied = caches_of(tmp_path / "copy" / ".claude" / "ledger")
    assert (True, True) == (place.parent == copied.parent, place != copied)


@pytest.mark.skipif(sys.platform in {"darwin", "win32"}, reason="their cache folders have other names")
def test_the_users_cache_folder_follows_its_specification(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative XDG_CACHE_HOME is ignored, an absolute one is used, and TALLYBOOK_CACHE_DIR has priority."""
    found = [caches_of(ledger).parent.parent]
    for name, value in (
        ("XDG_CACHE_HOME", "relative"),
        ("XDG_CACHE_HOME", str(tmp_path / "xdg")),
        (caches.VARIABLE, str(tmp_path / "mine")),
    ):
        monkeypatch.setenv(name, value)
        found.append(caches_of(ledger).parent.parent)
    usual = tmp_path / "home" / ".cache" / "tallybook"
    assert [usual, usual, tmp_path / "xdg" / "tallybook", tmp_path / "mine"] == found


def open_folder(folder: Path) -> str:
    """Create a cache folder that others may read."""
    folder.mkdir()
    folder.chmod(0o755)
    return str(folder)


def regular_file(folder: Path) -> str:
    """Create a file in place of the folder."""
    folder.write_text("")
    return str(folder)


def other_users(folder: Path) -> str:
    """Create a cache folder that belongs to another user."""
    folder.mkdir(mode=0o700)
    try:
        os.chown(folder, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can give files to others")
    return str(folder)


def in_project(folder: Path) -> str:
    """Name a folder in the project."""
    return str(folder.parent / "project" / "cache")


def linked_into_project(folder: Path) -> str:
    """Create a link into the project."""
    (folder.parent / "project" / "cache").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "project" / "cache")
    return str(folder)


def relative(folder: Path) -> str:
    """Name a folder by a relative path."""
    return os.path.relpath(folder)


@posix
@pytest.mark.parametrize(
    "make",
    [open_folder, regular_file, other_users, in_project, linked_into_project, relative],
    ids=lambda function: function.__name__,
)
def test_an_unsafe_folder_is_not_used(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], str]
) -> None:
    """A cache folder must be absolute, this user's, private and outside the project, or there is no cache."""
    place = caches_of(ledger)
    monkeypatch.setenv(caches.VARIABLE, make(tmp_path / "named"))
    assert caches.find_folder(ledger) is None
    with pytest.raises(CannotWriteError):
        caches.make_folder(place, ledger)


@posix
def test_a_created_cache_is_private(ledger: Path) -> None:
    """Whatever the umask, every created folder has mode 0700, and one names its ledger."""
    before = os.umask(0)
    try:
        place = make_caches(ledger)
    finally:
        os.umask(before)
    folders = (place, place.parent, place.parent.parent)
    assert [0o700] * 3 == [folder.stat().st_mode & 0o777 for folder in folders]
    assert str(ledger) == (place / caches.OWNER).read_text()
