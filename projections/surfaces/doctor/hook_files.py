"""The files that hold hooks of Tallybook, and whether Claude Code trusts the folder. Its files are only read."""

from __future__ import annotations

import json
import os
from pathlib import Path
import tomllib
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.agents import installation, table
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.install.hook_entries import calls_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallybook.projections.surfaces.workspace.project import Project

_STATE: Final = ".claude.json"

_MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
# The state file holds every prompt that a person typed in any project.
_MAX_STATE_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class HookFile:
    """A file from which an agent reads hooks: settings, or a file of a plugin.

    Attributes:
        path: Its path.
        reader: The agent or plugin that reads it, by its name for people.
        is_init_s: Whether ``init`` writes hooks into it.
        document: What the file says, empty where the agent cannot read it.
        fault: Why it cannot, empty where it can.
    """

    path: Path
    reader: str
    is_init_s: bool
    document: Mapping[str, Any]
    fault: str

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the command lines that call Tallybook; agents nest them at different depths."""
        return tuple(dict.fromkeys(filter(calls_us, _texts(self.document.get("hooks")))))


def start_folder(project: Project) -> Path:
    """Return the folder in which the agent is started, which it records nowhere.

    It is ``CLAUDE_PROJECT_DIR`` where that is set; otherwise the first, of the folder where the search for the project
    began and the one where ``init`` puts the hooks, whose own settings call Tallybook.
    """
    start = Path(project.start or project.root)
    named = os.environ.get(places.FOLDER)
    if named and os.path.realpath(named) == os.path.realpath(start):
        return start
    around = places.around(start)
    files = read_files(table.CLAUDE, start)
    return start if any(file.commands and file.path.is_relative_to(start) for file in files) else around


def read_files(name: str, folder: Path) -> list[HookFile]:
    """Return the files that exist of those from which an agent, started in a folder, reads hooks."""
    files = installation.load(name)
    users = places.users_folder(files)
    own = [folder / files.folder / files.file, users / files.file]
    others = [path for pattern in files.other_hooks for path in sorted(folder.glob(pattern))]
    others += [path for pattern in files.users_hooks for path in sorted(users.glob(pattern))]
    paths = [path for path in dict.fromkeys((*own, *others)) if path.exists()]
    found = [_read(path, files.title, is_init_s=path in own) for path in paths]
    if name == table.CLAUDE:
        for plugin in _plugins(found):
            found += [_read(path, f"the plugin {plugin}") for path in _files_of(plugin)]
    return found


def _read(path: Path, reader: str, *, is_init_s: bool = False) -> HookFile:
    return HookFile(path, reader, is_init_s, *read_document(path))


def deciding(files: Iterable[HookFile]) -> list[HookFile]:
    """Return Claude Code's settings files in order of precedence: its local settings come first."""
    return sorted(files, key=lambda file: file.is_init_s)


def read_document(path: Path, max_bytes: int = _MAX_SETTINGS_BYTES) -> tuple[dict[str, Any], str]:
    """Return the document in a JSON or TOML file, and why the agent ignores it; links are followed as the agent does.

    Returns:
        The document, empty where it cannot be read, and the fault, empty without one.
    """
    try:
        text = disk.read_small(os.path.realpath(path), max_bytes).decode("utf-8-sig")
        if path.suffix == ".toml":
            return tomllib.loads(text), ""
        document = json.loads(text, parse_constant=_refuse) if text.strip() else {}
    except (OSError, ValueError, RecursionError, CannotWriteError) as error:
        return {}, _fault(error)
    if not isinstance(document, dict):
        return {}, "is not a JSON object"
    return document, "" if isinstance(document.get("hooks", {}), dict) else 'its "hooks" is not a JSON object'


def _fault(error: OSError | ValueError | RecursionError | CannotWriteError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, ValueError | RecursionError):
        return f"is not readable: {error}"
    return f"cannot be read: {error.reason if isinstance(error, CannotWriteError) else disk.reason(error)}"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _plugins(files: Iterable[HookFile]) -> list[str]:
    """Return the names of Claude Code's enabled plugins, ``NAME@MARKETPLACE``; of two files, the first decides."""
    enabled: dict[str, object] = {}
    for file in reversed(deciding(files)):
        named = file.document.get("enabledPlugins")
        enabled |= named if isinstance(named, dict) else {}
    return [name for name, is_on in enabled.items() if is_on is True]


def _files_of(plugin: str) -> list[Path]:
    name, _, market = plugin.rpartition("@")
    folder = places.users_folder() / "plugins" / "cache" / market / name
    is_plain = all(part and part not in {".", ".."} and not {"/", "\\"}.intersection(part) for part in (name, market))
    return sorted(folder.glob("*/hooks/hooks.json")) if is_plain else []


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value."""
    values = [value]
    while values:
        current = values.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict | list):
            values += current.values() if isinstance(current, dict) else current


def is_trusted(folder: Path) -> bool:
    """Say whether Claude Code has recorded trust in a folder or one above it; hooks may run where it has not."""
    starts = (folder.absolute(), Path(os.path.realpath(folder)))
    names = {str(path) for start in starts for path in (start, *start.parents)}
    projects = read_document(_state_file(), _MAX_STATE_BYTES)[0].get("projects")
    entries = projects.items() if isinstance(projects, dict) else ()
    return any(
        entry.get("hasTrustDialogAccepted") is True
        for name, entry in entries
        if name in names and isinstance(entry, dict)
    )


def has_claude() -> bool:
    """Say whether this user has Claude Code: every project has its folder."""
    return _state_file().exists() or (places.users_folder() / "projects").exists()


def _state_file() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or places.home()) / _STATE
