"""Where a project keeps its playbook and its ledger. Standard library only: hooks find them here."""

from __future__ import annotations

import os

from ledger.errors import BadInputError, CannotWriteError
from ledger.light import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CLAUDE = ".claude"
PLAYBOOK_NAME = "playbook.json"
_OUT = "nothing is followed out of the project"


class Project(NamedTuple):
    """The paths of one project; none of them leads out of it.

    Attributes:
        root: The project's folder; its paths are of the same class.
    """

    root: Path

    @property
    def claude(self) -> Path:
        """Return the agent's folder in it, or the folder in the project to which a link in its place leads.

        Raises:
            CannotWriteError: It leads elsewhere.
        """
        path = self.root / CLAUDE
        target = self._target(path)
        if target is None:
            return path
        if not (_holds(os.path.realpath(self.root), target) and os.path.isdir(target)):
            raise CannotWriteError(path, f"leads to {target}, no folder of this project", f"{_OUT}; give --project DIR")
        return target

    @property
    def playbook(self) -> Path:
        """Return the file that people and agents read, or the one in the project to which a link in its place leads.

        Raises:
            CannotWriteError: It leads elsewhere, or to a file of the ledger.
        """
        path = self.claude / PLAYBOOK_NAME
        target = self._target(path)
        if target is None:
            return path
        own = _holds(os.path.realpath(self.root), target) and not _holds(os.path.realpath(self.ledger), target)
        if not own or os.path.islink(target):
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
        target = self._target(path)
        if target is not None:
            hint = f"{_OUT}; give --project DIR, or put a folder in the link's place"
            raise CannotWriteError(path, f"leads to {target}, and a ledger is never a link", hint)
        return path

    def _target(self, path: Path) -> Path | None:
        """Return where a symbolic link really leads, None where there is none."""
        return type(self.root)(os.path.realpath(path)) if os.path.islink(path) else None


def _holds(folder: str, path: Path) -> bool:
    """Say whether a real path is a folder, or lies in it."""
    return f"{path}{os.sep}".startswith(folder.rstrip(os.sep) + os.sep)


def find_project(given: str | os.PathLike[str] | None = None, *, must_exist: bool = False) -> Project:
    """Return the project that is meant.

    Raises:
        BadInputError: The one given must exist and is no folder.
    """
    # Slow to load; a hook has paths of its own.
    from pathlib import Path

    if given and must_exist and not os.path.isdir(given):
        raise BadInputError(f"--project {given}", "is no folder")
    return Project(Path(root_of(given)))


def root_of(given: str | os.PathLike[str] | None = None, here: str | None = None) -> str:
    """Return the folder of the project that is meant.

    It is the one given, else ``CLAUDE_PROJECT_DIR``, else the nearest parent with a ``.claude`` folder (the home
    folder's belongs to the user, not to a project), else the current folder.

    Args:
        given: What the caller named.
        here: The current folder; None for the process's own.
    """
    named = given or os.environ.get("CLAUDE_PROJECT_DIR")
    here = os.getcwd() if here is None else here
    if named:
        return os.path.join(here, named)
    home = os.path.expanduser("~")
    folder, above = here, os.path.dirname(here)
    while folder != above:
        if folder != home and os.path.isdir(os.path.join(folder, CLAUDE)):
            return folder
        folder, above = above, os.path.dirname(above)
    return here
