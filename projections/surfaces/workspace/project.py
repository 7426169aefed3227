"""Where a project keeps its playbook and its ledger. Standard library only: hooks find them here."""

from __future__ import annotations

import errno
import os
import stat

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace import worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.ledger.fast_stdlib import StrPath

CLAUDE = ".claude"
PLAYBOOK_NAME = "playbook.json"
MARKS = "marks"
"""Folder of the ledger for files that save time and decide nothing: this session was told, nothing is pending."""
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
_OUT = "links out of the project are not followed"


class Project:
    """The paths of one project; none of them leads out of it, and each is resolved once.

    Attributes:
        root: The project's folder.
        start: Where the search for it began, None where nobody searched.
        unnamed_home: Whether it is the home folder, and only because the search ended there: no ledger begins in it.
    """

    def __init__(self, root: Path, start: Path | None = None, *, unnamed_home: bool = False) -> None:
        """Take the project's folder; its paths are resolved when they are first asked for."""
        self.root = root
        self.start = start
        self.unnamed_home = unnamed_home
        self._claude: Path | None = None
        self._playbook: Path | None = None
        self._ledger: Path | None = None

    @property
    def claude(self) -> Path:
        """Return the agent's folder; raises as ``claude_folder``."""
        if self._claude is None:
            self._claude = _as_path(claude_folder(self.root))
        return self._claude

    @property
    def playbook(self) -> Path:
        """Return the file that people and agents read; raises as ``playbook_file``."""
        if self._playbook is None:
            self._playbook = _as_path(playbook_file(self.root, self.claude))
        return self._playbook

    @property
    def ledger(self) -> Path:
        """Return the ledger's folder; raises as ``ledger_folder``."""
        if self._ledger is None:
            self._ledger = _as_path(ledger_folder(self.claude))
        return self._ledger


def _as_path(path: str) -> Path:
    # Slow to load, and hooks ask ``ProjectPaths``.
    from pathlib import Path

    return Path(path)


class ProjectPaths(NamedTuple):
    """The same paths as strings, each resolved once: a hook has no time to load ``pathlib``.

    Attributes:
        root: The project's folder.
        start: Where the search for it began.
        claude: The agent's folder.
        ledger: The ledger's folder.
        unnamed_home: As in ``Project``.
    """

    root: str
    start: str
    claude: str
    ledger: str
    unnamed_home: bool


if TYPE_CHECKING:
    AnyProject = Project | ProjectPaths
    """For functions that hooks and other callers share."""


def find_paths(here: str | None) -> ProjectPaths:
    """Return the paths of the project that a folder belongs to, the current one for None.

    Raises:
        BadInputError, CannotWriteError: As ``locate``, ``claude_folder`` and ``ledger_folder``.
    """
    root, start = locate(None, here)
    claude = claude_folder(root)
    return ProjectPaths(root, start, claude, ledger_folder(claude), is_unnamed_home(root))


def claude_folder(root: StrPath) -> str:
    """Return the agent's folder in a project, or the folder in the project to which a link in its place leads.

    Raises:
        CannotWriteError: It leads elsewhere.
    """
    path = os.path.join(root, CLAUDE)
    if not os.path.islink(path):
        return path
    target = os.path.realpath(path)
    if not (_holds(os.path.realpath(root), target) and os.path.isdir(target)):
        raise CannotWriteError(path, f"leads to {target}, not a folder of this project", f"{_OUT}; give --project DIR")
    return target


def ledger_folder(claude: StrPath) -> str:
    """Return the ledger's folder in an agent's folder.

    Raises:
        CannotWriteError: It is a link: where it leads another project may have its ledger.
    """
    path = os.path.join(claude, "ledger")
    if os.path.islink(path):
        hint = f"{_OUT}; give --project DIR, or put a folder in the link's place"
        raise CannotWriteError(path, f"leads to {os.path.realpath(path)}, but a ledger cannot be a link", hint)
    return path


def playbook_file(root: StrPath, claude: StrPath) -> str:
    """Return the playbook in an agent's folder, or the file in the project to which a link in its place leads.

    Raises:
        CannotWriteError: It leads elsewhere, or to a file of the ledger.
    """
    path = os.path.join(claude, PLAYBOOK_NAME)
    if not os.path.islink(path):
        return path
    target = os.path.realpath(path)
    own = _holds(os.path.realpath(root), target) and not _holds(os.path.realpath(ledger_folder(claude)), target)
    if not own or os.path.islink(target):
        hint = f"{_OUT}; remove the link"
        raise CannotWriteError(path, f"leads to {target}, not a playbook of this project", hint)
    return target


def _holds(folder: str, path: str) -> bool:
    """Say whether a real path is a folder, or lies in it."""
    return f"{path}{os.sep}".startswith(folder.rstrip(os.sep) + os.sep)


def find_project(given: StrPath | None = None, *, must_exist: bool = False) -> Project:
    """Return the project that is meant.

    Raises:
        BadInputError: The one given must exist and is not a folder.
        CannotWriteError: The system does not say whether it is.
    """
    if given and must_exist and not _is_folder(given):
        raise BadInputError(f"--project {given}", "is not a folder")
    root, start = locate(given)
    return Project(_as_path(root), _as_path(start), unnamed_home=not given and is_unnamed_home(root))


def is_unnamed_home(root: str) -> bool:
    """Say whether the project that ``locate`` found is the home folder, without ``CLAUDE_PROJECT_DIR`` naming it."""
    named = os.environ.get("CLAUDE_PROJECT_DIR")
    return not named and os.path.realpath(root) == os.path.realpath(os.path.expanduser("~"))


def _is_folder(given: StrPath) -> bool:
    """Say whether a path leads to a folder.

    Raises:
        CannotWriteError: The system does not say; ``isdir`` would call that a no.
    """
    try:
        return stat.S_ISDIR(os.stat(given).st_mode)
    except OSError as error:
        if error.errno in _NOWHERE:
            return False
        hint = "nothing was recorded; try again"
        raise CannotWriteError(f"--project {given}", f"cannot be examined: {disk.reason(error)}", hint) from error


def locate(given: StrPath | None = None, here: str | None = None) -> tuple[str, str]:
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
        here = _current_folder() if here is None else here
        start = os.path.join(here, named) if named else here
    if given:
        return start, start
    return _project_around(start) or (start if named else _nearest(start)), start


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        hint = "go to another, or give --project DIR with its whole path"
        raise BadInputError("the current folder", "does not exist any more", hint) from error


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
        claude = claude_folder(folder)
        ledger = ledger_folder(claude)
    except CannotWriteError:
        # People link what a worktree is to share.
        return False
    marks = [os.path.join(ledger, "events.jsonl"), os.path.join(ledger, "head")]
    if not linked:
        marks.append(os.path.join(claude, PLAYBOOK_NAME))
    return any(map(os.path.isfile, marks)) or worktree.has_own_ledger(os.path.join(claude, worktree.SETTINGS))


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
