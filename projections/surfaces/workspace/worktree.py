"""The working trees of a repository, read from its files; git itself is never run.

Files that an unpacked archive or another user put in their place are not followed. Standard library only: hooks use it.
"""

from __future__ import annotations

from contextlib import suppress
import os
import stat

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import read_up_to
from tallybook.ledger.storage import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath

GIT = ".git"
SETTINGS = os.path.join("config", "tallybook.toml")
"""The settings file's place in a ``.claude`` folder."""
MAX_SETTINGS_BYTES = 64 * 1024

_MAX_POINTER_BYTES = 8 * 1024
_POINTS = "gitdir: "
_WORKTREES = "worktrees"
_BOM = b"\xef\xbb\xbf"


def read_small(path: StrPath, limit: int) -> bytes:
    """Return the bytes of a regular file that is no link.

    Args:
        path: The file.
        limit: What it may hold at most, in bytes.

    Raises:
        ValueError: It holds more.
        CannotWriteError: It is a link, no regular file, or cannot be opened.
        OSError: It is not there, or cannot be read.
    """
    fd = disk.open_file(path, write=False)
    try:
        data = read_up_to(fd, limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise ValueError(f"it holds more than {limit:,} bytes")
    return data


def folders(start: str) -> tuple[str, ...]:
    """Return the folders from one up to the top of its repository, the one that holds ``.git``.

    Args:
        start: A folder without symbolic links in its path.

    Returns:
        The nearest first, and without the home folder, which is no project; none outside of a repository.
    """
    home = os.path.expanduser("~")
    homes = {home, os.path.realpath(home)}
    found: list[str] = []
    folder, above = start, os.path.dirname(start)
    while folder != above:
        if folder not in homes:
            found.append(folder)
            if os.path.lexists(os.path.join(folder, GIT)) and not is_planted(os.path.join(folder, GIT)):
                return tuple(found)
        folder, above = above, os.path.dirname(above)
    return ()


def is_planted(path: str) -> bool:
    """Say whether another user may have put this file here, above other people's folders, as in ``/tmp``."""
    with suppress(OSError, AttributeError):
        return bool(os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH) and os.lstat(path).st_uid != os.geteuid()
    return False


def main_of(top: str) -> str:
    """Return the main worktree of a linked one.

    Args:
        top: The top of a working tree, without symbolic links in its path.

    Returns:
        The folder; empty where there is none, as for a main worktree, a submodule, a worktree of a bare repository, or
        one that is cut off; and where it is the home folder.
    """
    main, name = os.path.split(_common(top))
    return main if name == GIT and main != os.path.realpath(os.path.expanduser("~")) else ""


def is_cut_off(top: str) -> bool:
    """Say whether a working tree says that it is a linked one, and its repository is gone or does not know it."""
    return os.path.basename(os.path.dirname(_gitdir_of(top))) == _WORKTREES and not _common(top)


def _common(top: str) -> str:
    """Return the folder of the repository that a linked worktree belongs to, empty where it belongs to none.

    Its ``.git`` is a file that leads to a folder of its own in the repository's ``worktrees``, and that leads back to
    this very file. Where they do not agree, somebody moved one of them, or made a file that looks like a worktree's.
    """
    own = _gitdir_of(top)
    with suppress(OSError, ValueError, TallybookError):
        common = os.path.realpath(os.path.join(own, _line(os.path.join(own, "commondir"))))
        back = os.path.realpath(os.path.join(own, _line(os.path.join(own, "gitdir"))))
        if back == os.path.join(top, GIT) and os.path.dirname(own) == os.path.join(common, _WORKTREES):
            return common
    return ""


def _gitdir_of(top: str) -> str:
    """Return where a ``.git`` file leads, without symbolic links; empty where there is none or it leads nowhere."""
    with suppress(OSError, ValueError, TallybookError):
        said = _line(os.path.join(top, GIT))
        if said.startswith(_POINTS):
            return os.path.realpath(os.path.join(top, said.removeprefix(_POINTS)))
    return ""


def _line(path: str) -> str:
    return os.fsdecode(read_small(path, _MAX_POINTER_BYTES)).rstrip("\r\n")


def has_own_ledger(settings: StrPath) -> bool:
    """Say whether a settings file gives its folder a ledger of its own: ``own = true`` in the section ``[ledger]``.

    It is found line by line, so that a mistake elsewhere in the file moves nobody to another ledger, and a hook loads
    no TOML reader for it; only where it is written in another form is the whole file read as TOML.
    """
    with suppress(OSError, ValueError, RecursionError, TallybookError):
        disk.refuse_link(os.path.dirname(settings))
        data = read_small(settings, MAX_SETTINGS_BYTES).removeprefix(_BOM)
        section, mentioned = b"", False
        for line in data.split(b"\n"):
            said = line.partition(b"#")[0].strip()
            key, _, value = said.partition(b"=")
            if said.startswith(b"["):
                section = said
            elif section == b"[ledger]" and key.strip() == b"own":
                return value.strip() == b"true"
            mentioned |= b"own" in line and not line.lstrip().startswith(b"#")
        return mentioned and _is_own_in_toml(data)
    return False


def _is_own_in_toml(data: bytes) -> bool:
    import tomllib

    ledger = tomllib.loads(data.decode("utf-8")).get("ledger")
    return isinstance(ledger, dict) and ledger.get("own") is True
