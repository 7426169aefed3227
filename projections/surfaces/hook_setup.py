"""What an agent was told of our hooks, and whether it trusts the folder: its own files, read and never changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from ledger import disk
from ledger.errors import CannotWriteError
from projections.surfaces import worktree
from projections.surfaces.install import places
from projections.surfaces.install.settings import own_calls
from projections.surfaces.project import CLAUDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from projections.surfaces.project import Project

SETTINGS: Final = ("settings.local.json", "settings.json")
"""Settings files in a folder's ``.claude``, those that win first; the user's own folder has the last of them."""
STATE: Final = ".claude.json"

_MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
# It holds what a person typed in every project.
_MAX_STATE_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class File:
    """One settings file of the agent's.

    Attributes:
        path: Where it stands.
        fault: Why nothing in it counts, empty where it does.
        calls: Event and command line of each hook of ours in it.
        disables: Whether it turns all hooks off, None where it does not say.
        changed_us: When it was changed last, in microseconds since 1970.
    """

    path: Path
    fault: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    disables: bool | None = None
    changed_us: int = 0


@attrs.frozen
class Setup:
    """What an agent that is started in a folder goes by.

    Attributes:
        folder: That folder.
        files: The settings files that it reads there, those that win first; only those that stand.
    """

    folder: Path
    files: tuple[File, ...]

    @property
    def installed(self) -> tuple[File, ...]:
        """Return the files that call us."""
        return tuple(one for one in self.files if one.calls)

    @property
    def disabled_in(self) -> Path | None:
        """Return the file that turns all hooks off, None where they are on."""
        said = next((one for one in self.files if one.disables is not None), None)
        return said.path if said is not None and said.disables else None


def look(project: Project) -> Setup:
    """Return what the agent goes by in the folder where it is started.

    Which one that is nobody says: it is ``CLAUDE_PROJECT_DIR`` or else, of where the search for the project began and
    where ``init`` puts the hooks for it, the first one whose settings call us.
    """
    start = Path(project.start or project.root)
    folders = [start] if _is_named(start) else [start, places.around(start)]
    setups = [Setup(folder, tuple(_files(folder))) for folder in dict.fromkeys(folders)]
    own = [one for one in setups if any(file.calls and _lies_in(file.path, one.folder) for file in one.files)]
    return (own or setups[-1:])[0]


def _is_named(start: Path) -> bool:
    named = os.environ.get(places.FOLDER)
    return bool(named) and os.path.realpath(named or "") == os.path.realpath(start)


def _lies_in(path: Path, folder: Path) -> bool:
    return path.parent == folder / CLAUDE


def _files(folder: Path) -> Iterator[File]:
    paths = [*(folder / CLAUDE / name for name in SETTINGS), places.users_folder() / SETTINGS[-1]]
    # In the home folder the project's would be the user's own.
    for path in reversed({os.path.realpath(path): path for path in reversed(paths)}.values()):
        try:
            changed_us = path.stat().st_mtime_ns // 1000
        except (OSError, ValueError):
            continue
        document, fault = _read(path)
        off = document.get("disableAllHooks") if isinstance(document, dict) else None
        yield File(path, fault, own_calls(document), off if isinstance(off, bool) else None, changed_us)


def _read(path: Path) -> tuple[Any, str]:
    """Return what a settings file says, and why that does not count; the agent follows links to them."""
    try:
        text = worktree.read_small(os.path.realpath(path), _MAX_SETTINGS_BYTES).decode("utf-8-sig")
        found = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except (OSError, ValueError, RecursionError, CannotWriteError) as error:
        return None, _fault(error)
    if not isinstance(found, dict):
        return None, "is no JSON object"
    return found, "" if isinstance(found.get("hooks", {}), dict) else '"hooks" in it is no JSON object'


def _fault(error: OSError | ValueError | RecursionError | CannotWriteError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"is no UTF-8 text, from byte {error.start} on"
    if isinstance(error, ValueError | RecursionError):
        return f"is no JSON that can be read: {error}"
    return f"cannot be read: {error.reason if isinstance(error, CannotWriteError) else disk.reason(error)}"


def _refuse(name: str) -> None:
    raise ValueError(f"it has no {name}")


# Trust


def trusts(setup: Setup) -> bool | None:
    """Say whether the agent notes that the folder, or one above it, is trusted; None where it notes nothing of them.

    The note is not reliable: hooks may run where it says no.
    """
    folder = Path(os.path.realpath(setup.folder))
    names = {str(path) for one in (setup.folder.absolute(), folder) for path in (one, *one.parents)}
    projects = _state().get("projects")
    entries = projects.items() if isinstance(projects, dict) else ()
    said = [one.get("hasTrustDialogAccepted") for name, one in entries if name in names and isinstance(one, dict)]
    return None if not said else any(one is True for one in said)


def _state() -> dict[str, Any]:
    """Return what the agent notes for itself; nothing where that cannot be read."""
    try:
        found = json.loads(worktree.read_small(os.path.realpath(state_file()), _MAX_STATE_BYTES))
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return {}
    return found if isinstance(found, dict) else {}


def state_file() -> Path:
    """Return the file in which the agent notes what it needs to know of folders."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or places.home()) / STATE


def is_used() -> bool:
    """Say whether this user has the agent at all."""
    return state_file().exists() or (places.users_folder() / "projects").exists()
