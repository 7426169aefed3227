"""The folders and files of an agent: where it is started, and where it reads its settings."""

from __future__ import annotations

import os
from pathlib import Path
import stat
from typing import Final

import attrs

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.projections.surfaces.install.hook_entries import UNCHANGED
from tallybook.projections.surfaces.workspace.project import CLAUDE, Project, project_around

FOLDER: Final = "CLAUDE_PROJECT_DIR"
"""Environment variable by which an agent tells a hook the folder where it was started."""


@attrs.frozen
class InstallTarget:
    """The place of an installation.

    Attributes:
        claude: The agent's folder: the project's ``.claude``, or the user's own.
        folder: The folder where the agent is started; None for the user's settings, which apply everywhere.
        project: The project whose ledger begins; None for the user's settings.
    """

    claude: Path
    folder: Path | None = None
    project: Project | None = None


def find_target(given: str | None, *, user: bool) -> InstallTarget:
    """Return the place of an installation.

    Args:
        given: The value of ``--project``, None without one.
        user: Whether to install into the user's own settings.

    Raises:
        BadInputError: There is no such folder, or it cannot be a project's.
        CannotWriteError: The agent's folder is outside the project, or not a folder.
    """
    if user:
        if given:
            raise BadInputError("--user", "excludes --project", UNCHANGED)
        return InstallTarget(Path(os.path.realpath(users_folder())))
    folder = working_folder(given)
    claude = Project(folder).claude
    if os.path.lexists(claude) and not claude.is_dir():
        raise CannotWriteError(claude, "is not a folder", "move it away")
    # Without --project, the ledger is the one that a hook of an agent in that folder finds.
    root = folder if given else Path(project_around(str(folder)) or folder)
    return InstallTarget(claude, folder, Project(root, folder))


def working_folder(given: str | None) -> Path:
    """Return the folder where the agent is started.

    It is the given one, else ``CLAUDE_PROJECT_DIR``, else the top of the git repository, else the nearest parent with a
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
    """Return the folder where an agent is most likely started by a person in a folder below it."""
    return _nearest(here, ".git") or _nearest(here, CLAUDE) or here


def home() -> Path:
    """Return the user's home folder; where the system knows none, a path that does not exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull) / "home"


def users_folder() -> Path:
    """Return the agent's own folder of this user."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home() / CLAUDE)


def _nearest(here: Path, name: str) -> Path | None:
    """Return the nearest folder from here upwards with an entry of a name; the home folder is not a project."""
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / name).exists() and not _is_home(folder)), None)


def _is_home(folder: Path) -> bool:
    return os.path.realpath(folder) == os.path.realpath(home())


def settings_file(place: InstallTarget) -> Path:
    """Return the settings file, or the file that a link in its place leads to.

    Raises:
        CannotWriteError: It is not a regular file, or the link leads out of the user's home and the project.
    """
    path = place.claude / "settings.json"
    real = Path(os.path.realpath(path))
    within = [os.path.realpath(folder) for folder in (home(), place.folder) if folder is not None]
    if path.is_symlink() and not any(map(real.is_relative_to, within)):
        raise CannotWriteError(path, f"leads to {real}, out of your home and the project", UNCHANGED)
    if os.path.lexists(path) and not (real.exists() and stat.S_ISREG(real.stat().st_mode)):
        raise CannotWriteError(path, "is not a regular file", f"move it away; {UNCHANGED}")
    return real if path.is_symlink() else path
