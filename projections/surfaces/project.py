"""Where a project keeps its playbook and its ledger."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from ledger.errors import BadInputError

CLAUDE = ".claude"


@attrs.frozen
class Project:
    """The paths of one project.

    Attributes:
        root: The project's folder.
    """

    root: Path

    @property
    def claude(self) -> Path:
        """Return the agent's folder in it."""
        return self.root / CLAUDE

    @property
    def playbook(self) -> Path:
        """Return the file that people and agents read."""
        return self.claude / "playbook.json"

    @property
    def ledger(self) -> Path:
        """Return the ledger's folder."""
        return self.claude / "ledger"


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
