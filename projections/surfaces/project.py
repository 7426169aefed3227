"""Where a project keeps its playbook and its ledger."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import attrs

from ledger.errors import BadInputError, CannotWriteError

CLAUDE = ".claude"
PLAYBOOK_NAME = "playbook.json"
_OUT = "nothing is followed out of the project"


@attrs.frozen
class Project:
    """The paths of one project; none of them leads out of it.

    Attributes:
        root: The project's folder.
    """

    root: Path

    @property
    def claude(self) -> Path:
        """Return the agent's folder in it, or the folder in the project to which a link in its place leads.

        Raises:
            CannotWriteError: It leads elsewhere.
        """
        path = self.root / CLAUDE
        target = _target(path)
        if target is None:
            return path
        if not (self._holds(target) and target.is_dir()):
            raise CannotWriteError(path, f"leads to {target}, no folder of this project", f"{_OUT}; give --project DIR")
        return target

    @property
    def playbook(self) -> Path:
        """Return the file that people and agents read, or the one in the project to which a link in its place leads.

        Raises:
            CannotWriteError: It leads elsewhere, or to a file of the ledger.
        """
        path = self.claude / PLAYBOOK_NAME
        target = _target(path)
        if target is None:
            return path
        if not self._holds(target) or target.is_relative_to(self.ledger.resolve()) or target.is_symlink():
            hint = f"{_OUT}; take the link away"
            raise CannotWriteError(path, f"leads to {target}, no playbook of this project", hint)
        return target

    @property
    def ledger(self) -> Path:
        """Return the ledger's folder.

        Raises:
            CannotWriteError: It is a link: where it leads another project may have its ledger.
        """
        path = self.claude / "ledger"
        target = _target(path)
        if target is not None:
            hint = f"{_OUT}; give --project DIR, or put a folder in the link's place"
            raise CannotWriteError(path, f"leads to {target}, and a ledger is never a link", hint)
        return path

    def _holds(self, target: Path) -> bool:
        """Say whether a real path lies in the project."""
        return target.is_relative_to(os.path.realpath(self.root))


def _target(path: Path) -> Path | None:
    """Return where a symbolic link really leads, None where there is none."""
    with contextlib.suppress(OSError):
        if path.is_symlink():
            return Path(os.path.realpath(path))
    return None


def find_project(given: str | os.PathLike[str] | None = None, *, must_exist: bool = False) -> Project:
    """Return the project that is meant.

    It is the one given, else ``CLAUDE_PROJECT_DIR``, else the nearest parent with a ``.claude`` folder (the home
    folder's belongs to the user, not to a project), else the current folder.

    Raises:
        BadInputError: The one given must exist and is no folder.
    """
    if given and must_exist and not Path(given).is_dir():
        raise BadInputError(f"--project {given}", "is no folder")
    named = given or os.environ.get("CLAUDE_PROJECT_DIR")
    if named:
        return Project(Path(named).absolute())
    here = Path.cwd()
    home = Path.home()
    for folder in (here, *here.parents):
        if folder != home and (folder / CLAUDE).is_dir():
            return Project(folder)
    return Project(here)
