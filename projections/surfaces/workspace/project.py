"""Where a project keeps its playbook and its ledger. Standard library only: hooks find them here."""

from __future__ import annotations

import errno

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.fast_stdlib import NamedTuple, Place, os, stat
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace import worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

CLAUDE = ".claude"
PLAYBOOK_NAME = "playbook.json"
MARKS = "marks"
"""Folder of the ledger for files that save time and decide nothing: this session was told, nothing is pending."""
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_OUT = "nothing is followed out of the project"


class Project(NamedTuple):
    """The paths of one project; none of them leads out of it.

    Attributes:
        root: The project's folder; its paths are of the same class.
        start: Where the search for it began, None where nobody searched.
        unnamed_home: Whether it is the home folder, and only because the search ended there: no ledger begins in it.
    """

    root: Path
    start: Path | None = None
    unnamed_home: bool = False

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
        CannotWriteError: The system does not say whether it is.
    """
    # Slow to load; a hook has paths of its own.
    from pathlib import Path

    if given and must_exist and not _is_folder(given):
        raise BadInputError(f"--project {given}", "is no folder")
    root, start = located(given)
    return Project(Path(root), Path(start), not given and is_unnamed_home(root))


def is_unnamed_home(root: str) -> bool:
    """Say whether the project that ``located`` found is the home folder, without ``CLAUDE_PROJECT_DIR`` naming it."""
    named = os.environ.get("CLAUDE_PROJECT_DIR")
    return not named and os.path.realpath(root) == os.path.realpath(os.path.expanduser("~"))


def _is_folder(given: str | os.PathLike[str]) -> bool:
    """Say whether a path leads to a folder.

    Raises:
        CannotWriteError: The system does not say; ``isdir`` would call that a no.
    """
    try:
        return stat.S_ISDIR(os.stat(given).st_mode)
    except OSError as error:
        if error.errno in _NOWHERE:
            return False
        hint = "nothing was recorded, try again"
        raise CannotWriteError(f"--project {given}", f"cannot be looked at: {disk.reason(error)}", hint) from error


def located(given: str | os.PathLike[str] | None = None, here: str | None = None) -> tuple[str, str]:
    """Return the folder of the project that is meant.

    It is the one given. Else the search begins at ``CLAUDE_PROJECT_DIR``, or else the current folder. In a repository
    it is the nearest folder that is a project of its own, or else the top of the main worktree, so that worktrees and
    subfolders share one ledger. Elsewhere it is ``CLAUDE_PROJECT_DIR`` itself, or else the nearest parent with a
    ``.claude`` folder, or else the current folder. The home folder's ``.claude`` belongs to the user, not to a project.

    Args:
        given: What the caller named.
        here: The current folder; None for the process's own.

    Returns:
        That folder, and the one where the search began: the same where it is what the caller named.

    Raises:
        BadInputError: The current folder matters, and is gone.
    """
    named = os.fspath(given or os.environ.get("CLAUDE_PROJECT_DIR") or "")
    start = named
    if not os.path.isabs(named):
        here = _current() if here is None else here
        start = os.path.join(here, named) if named else here
    if given:
        return start, start
    return _project_around(start) or (start if named else _nearest(start)), start


def _current() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        hint = "go to another, or give --project DIR with its whole path"
        raise BadInputError("the current folder", "is no longer there", hint) from error


def _project_around(start: str) -> str:
    """Return the project of the repository that a folder lies in, empty outside of one."""
    # As git does: by the parents that a folder really has, not by those on the way to a link to it.
    real = os.path.realpath(start)
    folders = worktree.folders(real)
    if not folders:
        return ""
    main = worktree.main_of(folders[-1])
    found = next((one for one in folders if _is_project(one, linked=bool(main))), main or folders[-1])
    return start if found == real else found


def _is_project(folder: str, *, linked: bool) -> bool:
    """Say whether a folder in a repository is a project of its own.

    It is where it keeps a ledger or is set to. A ``playbook.json`` alone says so as well, but not in a linked worktree:
    where git tracks the file, each has it.
    """
    try:
        claude = Project(Place(folder)).claude
        ledger = Project(Place(folder)).ledger
    except CannotWriteError:
        # People link what a worktree is to share.
        return False
    marks = [ledger / "events.jsonl", ledger / "head", *([] if linked else [claude / PLAYBOOK_NAME])]
    return any(map(os.path.isfile, marks)) or worktree.says_own(claude / worktree.SETTINGS)


def _nearest(here: str) -> str:
    """Return the nearest folder with ``.claude``, the home folder left out; else the one where the search began."""
    home = os.path.expanduser("~")
    folder, above = here, os.path.dirname(here)
    while folder != above:
        claude = os.path.join(folder, CLAUDE)
        if folder != home and os.path.isdir(claude) and (folder == here or not worktree.is_planted(claude)):
            return folder
        folder, above = above, os.path.dirname(above)
    return here
