"""Where a project keeps its playbook and its ledger, and which project a folder belongs to.

Repositories and their working trees are read from their files; git itself is never run, and files that an unpacked
archive or another user put in their place are not followed. Standard library only: hooks find the project here.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
import os
import stat

from tallybook.ledger.errors import BadInputError, CannotWriteError, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.fast_stdlib import StrPath

CLAUDE = ".claude"
PLAYBOOK_NAME = "playbook.json"
MARKS = "marks"
"""Folder of the ledger for files that only save time: this session has the playbook, nothing is pending."""
_OUT = "links out of the project are not followed"
SETTINGS_PLACE = os.path.join("config", "tallybook.toml")
"""The settings file's place in a ``.claude`` folder."""
MAX_SETTINGS_BYTES = 64 * 1024
_MAX_POINTER_BYTES = 8 * 1024
_GIT = ".git"
_POINTER = "gitdir: "
_WORKTREES = "worktrees"


class Project:
    """The paths of one project; none of them leads out of it, and each is resolved once.

    Attributes:
        root: The project's folder.
        start: Where the search for it began, None without a search.
    """

    def __init__(self, root: Path, start: Path | None = None) -> None:
        """Take the project's folder; its paths are resolved when they are first asked for."""
        self.root = root
        self.start = start

    @cached_property
    def claude(self) -> Path:
        """Return the agent's folder; raises as ``claude_folder``."""
        return as_path(claude_folder(self.root))

    @cached_property
    def playbook(self) -> Path:
        """Return the file that people and agents read; raises as ``playbook_file``."""
        return as_path(playbook_file(self.root, self.claude))

    @cached_property
    def ledger(self) -> Path:
        """Return the ledger's folder; raises as ``ledger_folder``."""
        return as_path(ledger_folder(self.claude))


def as_path(path: str) -> Path:
    """Return a path as an object; their module is slow to load, and hooks ask ``ProjectPaths``."""
    from pathlib import Path

    return Path(path)


class ProjectPaths(NamedTuple):
    """The same paths as strings, each resolved once: a hook has no time to load ``pathlib``.

    Attributes:
        root, start, claude, ledger: As in ``Project``.
    """

    root: str
    start: str
    claude: str
    ledger: str


if TYPE_CHECKING:
    AnyProject = Project | ProjectPaths
    """For functions that hooks and other callers share."""


def find_paths(here: str | None, given: str | None = None) -> ProjectPaths:
    """Return the paths of the project that was given, else of the one that a folder or the current folder belongs to.

    Raises:
        BadInputError, CannotWriteError: As ``locate``, ``claude_folder`` and ``ledger_folder``.
    """
    root, start = locate(given, here)
    claude = claude_folder(root)
    return ProjectPaths(root, start, claude, ledger_folder(claude))


def claude_folder(root: StrPath, name: str = CLAUDE) -> str:
    """Return an agent's folder in a project, or the folder in the project to which a link in its place leads.

    Raises:
        CannotWriteError: It leads elsewhere.
    """
    path = os.path.join(root, name)
    if not os.path.islink(path):
        return path
    target = os.path.realpath(path)
    if not (contains(os.path.realpath(root), target) and os.path.isdir(target)):
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
    own = contains(os.path.realpath(root), target) and not contains(os.path.realpath(ledger_folder(claude)), target)
    if not own or os.path.islink(target):
        hint = f"{_OUT}; remove the link"
        raise CannotWriteError(path, f"leads to {target}, not a playbook of this project", hint)
    return target


def contains(folder: str, path: str) -> bool:
    """Return whether a real path is a folder, or lies in it."""
    return f"{path}{os.sep}".startswith(folder.rstrip(os.sep) + os.sep)


def find_project(given: StrPath | None = None) -> Project:
    """Return the project that is meant.

    Raises:
        BadInputError: The one given is not a folder, or not for this user.
    """
    if given and not os.path.isdir(given):
        raise BadInputError(str(given), "is not a folder that you may read")
    root, start = locate(given)
    return Project(as_path(root), as_path(start))


class NoProjectError(BadInputError):
    """The search for a project ended in a folder that is none unless somebody names it."""

    def __init__(self, folder: str, kind: str) -> None:
        """Take the folder, and what it is."""
        hint = f"change to a project, or give --project {folder}"
        super().__init__(folder, f"{kind} is not a project", hint)


def describe_shared_folder(folder: StrPath) -> str:
    """Return what a folder is that all projects lie in, the root folder or the home folder; empty for another.

    Programs start there that were started in no project: a server of a desktop application runs in the root folder.
    """
    real = os.path.realpath(folder)
    if real == os.path.dirname(real):
        return "the root folder"
    return "the home folder" if real == os.path.realpath(os.path.expanduser("~")) else ""


def locate(given: StrPath | None = None, here: str | None = None) -> tuple[str, str]:
    """Return the folder of the project that is meant.

    It is the one given. Else the search begins at ``CLAUDE_PROJECT_DIR``, or else the current folder. In a repository
    it is the nearest folder that is a project of its own, or else the top of the main worktree, so that worktrees and
    subfolders share one ledger. Elsewhere it is ``CLAUDE_PROJECT_DIR`` itself, or else the nearest parent with a
    ``.claude`` folder, or else the current folder. The root folder and the home folder are projects only if the caller
    names them: ``CLAUDE_PROJECT_DIR`` says only where an agent was started.

    Args:
        given: What the caller named.
        here: The current folder; None for the process's own.

    Returns:
        That folder, and the one where the search began: the same where it is what the caller named.

    Raises:
        BadInputError: The current folder matters, and is gone.
        NoProjectError: Nobody named it, and it is the root folder or the home folder.
    """
    named = os.fspath(given or os.environ.get("CLAUDE_PROJECT_DIR") or "")
    start = named
    if not os.path.isabs(named):
        try:
            here = os.getcwd() if here is None else here
        except FileNotFoundError as error:
            hint = "go to another, or give --project DIR with its whole path"
            raise BadInputError("the current folder", "does not exist any more", hint) from error
        start = os.path.join(here, named) if named else here
    if given:
        return start, start
    root = project_around(start) or (start if named else nearest_project(start))
    if kind := describe_shared_folder(root):
        raise NoProjectError(root, kind)
    return root, start


def project_around(start: str) -> str:
    """Return the project of the repository that a folder lies in, empty outside of one."""
    # As git does: by the parents that a folder really has, not by those on the way to a link to it.
    real = os.path.realpath(start)
    folders = repository_folders(real)
    if not folders:
        return ""
    # A submodule, a worktree of a bare repository and one that is cut off have no main worktree.
    main, name = os.path.split(repository_of(folders[-1]))
    is_linked_here = name == _GIT and main != os.path.realpath(os.path.expanduser("~"))
    top = main if is_linked_here else folders[-1]
    root = next((folder for folder in folders if _is_project(folder, linked=is_linked_here)), top)
    return start if root == real else root


def _is_project(folder: str, *, linked: bool) -> bool:
    """Return whether a folder in a repository is a project of its own.

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
    return any(map(os.path.isfile, marks)) or has_own_ledger(os.path.join(claude, SETTINGS_PLACE))


def nearest_project(here: str) -> str:
    """Return the nearest folder with ``.claude``; else the one where the search began."""
    for folder in _walk_up(here):
        claude = os.path.join(folder, CLAUDE)
        if os.path.isdir(claude) and (folder == here or not is_planted(claude)):
            return folder
    return here


def _walk_up(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, the nearest first, without the root folder and the home folder."""
    home = os.path.expanduser("~")
    homes = {home, os.path.realpath(home)}
    while (above := os.path.dirname(folder)) != folder:
        if folder not in homes:
            yield folder
        folder = above


# Repositories


def repository_folders(start: str) -> tuple[str, ...]:
    """Return the folders from one up to the top of its repository, the one that holds ``.git``.

    Args:
        start: A folder without symbolic links in its path.

    Returns:
        The nearest first, and without the home folder, which is no project; none outside of a repository.
    """
    folders: list[str] = []
    for folder in _walk_up(start):
        folders.append(folder)
        if os.path.lexists(git := os.path.join(folder, _GIT)) and not is_planted(git):
            return tuple(folders)
    return ()


def is_planted(path: str) -> bool:
    """Return whether another user may have put this file here, above other people's folders, as in ``/tmp``."""
    with suppress(OSError, AttributeError):
        return bool(os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH) and os.lstat(path).st_uid != os.geteuid()
    return False


def is_cut_off(top: str) -> bool:
    """Return whether a working tree looks like a linked one, and its repository is gone or does not list it."""
    return is_linked(top) and not repository_of(top)


def is_linked(top: str) -> bool:
    """Return whether a working tree is a linked one, by its own ``.git`` file."""
    return os.path.basename(os.path.dirname(gitdir_of(top))) == _WORKTREES


def repository_of(top: str) -> str:
    """Return the folder of the repository that a linked worktree belongs to, empty where it belongs to none.

    Its ``.git`` is a file that leads to a folder of its own in the repository's ``worktrees``, and that leads back to
    this very file. Where they do not agree, one of them was moved, or the file only looks like a worktree's.
    """
    own = gitdir_of(top)
    if not own:
        return ""
    with suppress(OSError, ValueError, TallybookError):
        # Read here, because a hook has no time to run git.
        repository = os.path.realpath(os.path.join(own, _read_line(os.path.join(own, "commondir"))))
        back = os.path.realpath(os.path.join(own, _read_line(os.path.join(own, "gitdir"))))
        if back == os.path.join(top, _GIT) and os.path.dirname(own) == os.path.join(repository, _WORKTREES):
            return repository
    return ""


def gitdir_of(top: str) -> str:
    """Return where a ``.git`` file leads, without symbolic links; empty where there is none or it leads nowhere."""
    if os.path.isdir(os.path.join(top, _GIT)):
        return ""
    with suppress(OSError, ValueError, TallybookError):
        pointer = _read_line(os.path.join(top, _GIT))
        if pointer.startswith(_POINTER):
            return os.path.realpath(os.path.join(top, pointer.removeprefix(_POINTER)))
    return ""


def _read_line(path: str) -> str:
    return os.fsdecode(disk.read_small(path, _MAX_POINTER_BYTES)).rstrip("\r\n")


def has_own_ledger(settings: StrPath) -> bool:
    """Return whether a settings file gives its folder a ledger of its own: ``own = true`` in the section ``[ledger]``.

    It is looked for line by line, so that a mistake elsewhere in the file does not change the ledger, and a hook loads
    no TOML reader. Only if it is written in another form is the whole file read as TOML.
    """
    with suppress(OSError, ValueError, RecursionError, TallybookError):
        data = disk.read_file(settings, MAX_SETTINGS_BYTES).removeprefix(b"\xef\xbb\xbf")
        section, is_mentioned = b"", False
        for line in data.split(b"\n"):
            setting = line.partition(b"#")[0].strip()
            key, _, value = setting.partition(b"=")
            if setting.startswith(b"["):
                section = setting
            elif section == b"[ledger]" and key.strip() == b"own":
                return value.strip() == b"true"
            is_mentioned |= b"own" in line and not line.lstrip().startswith(b"#")
        if is_mentioned:
            import tomllib

            ledger = tomllib.loads(data.decode("utf-8")).get("ledger")
            return isinstance(ledger, dict) and ledger.get("own") is True
    return False
