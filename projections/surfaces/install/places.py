"""Where things are installed: the folder that an agent reads its settings from."""

from __future__ import annotations

import os
from pathlib import Path
import stat
from typing import Final

import attrs

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED
from tallybook.projections.surfaces.workspace.project import CLAUDE, Project, find_project

FOLDER: Final = "CLAUDE_PROJECT_DIR"
"""Names, in a hook's environment, the folder in which the agent was started."""


@attrs.frozen
class Target:
    """What is installed into.

    Attributes:
        claude: The agent's folder: the project's ``.claude``, or the user's own.
        folder: Where the agent is started; None for a user's settings, which hold everywhere.
        project: Whose ledger is begun; None likewise.
    """

    claude: Path
    folder: Path | None = None
    project: Project | None = None


def target(given: str | None, *, user: bool) -> Target:
    """Return what is to be installed into.

    Args:
        given: The project that the caller named, None where he did not.
        user: Whether the user's own settings are meant.

    Raises:
        BadInputError: There is no such folder, or it is no project's.
        CannotWriteError: The agent's folder is outside the project.
    """
    if user:
        if given:
            raise BadInputError("--user", "excludes --project", UNCHANGED)
        return Target(Path(os.path.realpath(users_folder())))
    folder = working_folder(given)
    claude = Project(folder).claude
    if os.path.lexists(claude) and not claude.is_dir():
        raise CannotWriteError(claude, "is not a folder", "move it away")
    return Target(claude, folder, _project_of(folder, given))


def _project_of(folder: Path, given: str | None) -> Project:
    """Return the project whose ledger is meant: the one given, else the one that a hook of that folder finds."""
    if given:
        return find_project(folder)
    before = os.environ.get(FOLDER)
    # An agent that is started there tells the hook so.
    os.environ[FOLDER] = str(folder)
    try:
        return find_project()
    finally:
        if before is None:
            del os.environ[FOLDER]
        else:
            os.environ[FOLDER] = before


def working_folder(given: str | None) -> Path:
    """Return the folder in which the agent is started.

    It is the one given, else ``CLAUDE_PROJECT_DIR``, else the top of the git repository, else the nearest parent with a
    ``.claude`` folder, else the current folder.

    Raises:
        BadInputError: There is no such folder, or it is the home folder.
    """
    here = Path.cwd()
    named = given or os.environ.get(FOLDER)
    folder = here / named if named else around(here)
    if not folder.is_dir():
        raise BadInputError(str(folder), "is not a folder", UNCHANGED)
    if _is_home(folder):
        hint = "go into a project, or give --user for what holds in all of them"
        raise BadInputError(str(folder), "is the home folder, not a project", hint)
    return folder


def around(here: Path) -> Path:
    """Return the folder that an agent is most likely started in by who stands here and names none."""
    return _nearest(here, ".git") or _nearest(here, CLAUDE) or here


def home() -> Path:
    """Return the user's home folder; where the system knows none, one that is not there."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull) / "home"


def users_folder() -> Path:
    """Return the agent's own folder of this user."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home() / CLAUDE)


def _nearest(here: Path, name: str) -> Path | None:
    """Return the nearest folder from here upwards that holds a name; the home folder's is no project's."""
    return next((one for one in (here, *here.parents) if (one / name).exists() and not _is_home(one)), None)


def _is_home(folder: Path) -> bool:
    return os.path.realpath(folder) == os.path.realpath(home())


def settings_file(place: Target) -> Path:
    """Return the settings file, or what a link in its place leads to.

    Raises:
        CannotWriteError: It is no file, or the link leads to none, or out of the user's home and the project.
    """
    path = place.claude / "settings.json"
    real = Path(os.path.realpath(path))
    within = [os.path.realpath(folder) for folder in (home(), place.folder) if folder is not None]
    if path.is_symlink() and not any(map(real.is_relative_to, within)):
        raise CannotWriteError(path, f"leads to {real}, out of your home and the project", UNCHANGED)
    if os.path.lexists(path) and not (real.exists() and stat.S_ISREG(real.stat().st_mode)):
        raise CannotWriteError(path, "is not a regular file", f"move it away; {UNCHANGED}")
    return real if path.is_symlink() else path
