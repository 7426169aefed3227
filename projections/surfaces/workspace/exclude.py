"""The file ``info/exclude`` of a clone: what git ignores in it, for this user alone, in every working tree."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.workspace.project import contains, gitdir_of, repository_folders, repository_of

if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.projections.surfaces.workspace.project import Project

_COMMENT: Final = b"# Tallybook: each machine has its own\n"
_SPECIAL: Final = "\\*?[ "


def exclude_file(project: Project) -> Path | None:
    """Return the clone's ``info/exclude``; None outside of a repository, or where it is not this user's to change."""
    top = _top(project)
    folder = _common_folder(top) if top else ""
    if not folder:
        return None
    path = Path(folder, "info", "exclude")
    with suppress(OSError):
        present = [part for part in (path.parent, path) if os.path.lexists(part)]
        if not any(part.is_symlink() for part in present) and all(_is_own(part) for part in (Path(folder), *present)):
            return path
    return None


def patterns(project: Project) -> tuple[bytes, ...]:
    """Return the lines that make git ignore the project's playbook, and its ledger unless that ignores itself."""
    top = os.path.realpath(_top(project))
    paths = [(project.playbook, "")]
    if project.ledger.is_dir() and not _ignores_itself(project.ledger):
        paths.append((project.ledger, "/"))
    lines = []
    for path, end in paths:
        real = os.path.realpath(path)
        place = os.path.relpath(real, top).replace(os.sep, "/")
        if contains(top, real) and place.isprintable():
            escaped = "".join("\\" + one if one in _SPECIAL else one for one in place)
            lines.append(f"/{escaped}{end}\n")
    return tuple(map(os.fsencode, lines))


def with_patterns(data: bytes, lines: tuple[bytes, ...]) -> bytes:
    """Return the bytes of the file with these lines in it, each once."""
    present = data.splitlines(keepends=True)
    missing = [line for line in lines if line not in present and line.rstrip(b"\n") not in present[-1:]]
    if not missing:
        return data
    feed = b"" if not data or data.endswith(b"\n") else b"\n"
    return b"".join((data, feed, _COMMENT, *missing))


def without_patterns(data: bytes, lines: tuple[bytes, ...]) -> bytes:
    """Return the bytes of the file without what ``with_patterns`` added."""
    left: list[bytes] = []
    is_ours = False
    for line in data.splitlines(keepends=True):
        if is_ours and line in lines:
            if left and left[-1] == _COMMENT:
                left.pop()
            continue
        is_ours = line == _COMMENT
        left.append(line)
    return b"".join(left)


def _top(project: Project) -> str:
    """Return the top of the repository around a project, empty outside of one."""
    folders = repository_folders(os.path.realpath(project.root))
    return folders[-1] if folders else ""


def _common_folder(top: str) -> str:
    """Return the folder of git's own files that all working trees of a clone share.

    Args:
        top: The top of a working tree, without symbolic links in its path.

    Returns:
        The folder; empty where ``.git`` is a link, or leads to a repository that is not known to be this one's.
    """
    git = Path(top, ".git")
    if git.is_dir():
        return "" if git.is_symlink() else str(git)
    own = gitdir_of(top)
    # A submodule's is among the files of a repository around it.
    modules = (folder / ".git" / "modules" for folder in Path(top).parents)
    return repository_of(top) or (own if any(contains(str(folder), own) for folder in modules) else "")


def _ignores_itself(folder: Path) -> bool:
    with suppress(OSError, TallybookError):
        return b"*" in disk.read_file(folder / ".gitignore").split(b"\n")
    return False


def _is_own(path: StrPath) -> bool:
    return os.name != "posix" or os.stat(path).st_uid == os.geteuid()
