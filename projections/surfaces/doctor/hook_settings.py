"""The hooks in an agent's settings, and whether the agent trusts the folder. Its files are only read."""

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
from tallybook.projections.surfaces.install.hook_entries import calls_us, own_calls, own_timeouts
from tallybook.projections.surfaces.workspace.project import CLAUDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.surfaces.agents.installation import Installation
    from tallybook.projections.surfaces.workspace.project import Project

SETTINGS: Final = ("settings.local.json", "settings.json")
"""Settings files in a folder's ``.claude``, in order of precedence; the user's own folder has only the last."""
STATE: Final = ".claude.json"
CLAUDE_FILES: Final = installation.load(table.CLAUDE)

_MAX_SETTINGS_BYTES: Final = 4 * 1024 * 1024
# The state file holds every prompt that a person typed in any project.
_MAX_STATE_BYTES: Final = 64 * 1024 * 1024


@attrs.frozen
class File:
    """One settings file of Claude Code.

    Attributes:
        path: Its path.
        fault: Why the agent ignores the file, empty where it does not.
        calls: Event and command line of each hook that calls Tallybook.
        timeouts: Event and timeout of each of them that has one.
        disables: Whether it turns all hooks off, None where it has no such setting.
        changed_us: When it was changed last, in microseconds since 1970.
        plugins: Name of each plugin that it names, ``NAME@MARKETPLACE`` → whether it is enabled.
    """

    path: Path
    fault: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    timeouts: tuple[tuple[str, object], ...] = ()
    disables: bool | None = None
    changed_us: int = 0
    plugins: Mapping[str, bool] = attrs.field(factory=dict)


@attrs.frozen
class OtherFile:
    """A file other than Claude Code's settings that holds hooks of Tallybook.

    Attributes:
        path: Its path.
        agent: The agent or plugin that reads it, by its name for people.
        commands: The command lines that call Tallybook.
        name: The agent by its name in the table, empty for a plugin.
        document: What the file says.
    """

    path: Path
    agent: str
    commands: tuple[str, ...]
    name: str = ""
    document: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Setup:
    """The settings that apply to an agent started in a folder.

    Attributes:
        folder: That folder.
        files: The existing settings files that it reads there, in order of precedence.
        others: Files of its plugins, and of other agents started there, that call Tallybook.
    """

    folder: Path
    files: tuple[File, ...]
    others: tuple[OtherFile, ...] = ()

    @property
    def installed(self) -> tuple[File, ...]:
        """Return the settings files that call Tallybook."""
        return tuple(file for file in self.files if file.calls)

    @property
    def disabled_in(self) -> Path | None:
        """Return the file that turns all hooks off, None where none does."""
        deciding = next((file for file in self.files if file.disables is not None), None)
        return deciding.path if deciding is not None and deciding.disables else None


def read_setup(project: Project) -> Setup:
    """Return the settings of the agent in the folder where it is started.

    The agent records that folder nowhere. It is ``CLAUDE_PROJECT_DIR`` where that is set; otherwise the first, of the
    folder where the search for the project began and the one where ``init`` puts the hooks, whose settings call
    Tallybook.
    """
    start = Path(project.start or project.root)
    folders = [start] if _is_named(start) else [start, places.around(start)]
    setups = [Setup(folder, tuple(_files(folder))) for folder in dict.fromkeys(folders)]
    installed = [
        setup for setup in setups if any(file.calls and _lies_in(file.path, setup.folder) for file in setup.files)
    ]
    setup = (installed or setups[-1:])[0]
    return attrs.evolve(setup, others=tuple(_others(setup)))


def _is_named(start: Path) -> bool:
    named = os.environ.get(places.FOLDER)
    return bool(named) and os.path.realpath(named or "") == os.path.realpath(start)


def _lies_in(path: Path, folder: Path) -> bool:
    return path.parent == folder / CLAUDE


def _files(folder: Path) -> Iterator[File]:
    paths = [*(folder / CLAUDE / name for name in SETTINGS), places.users_folder() / SETTINGS[-1]]
    # In the home folder both paths name the user's own file: the later entry wins.
    for path in reversed({os.path.realpath(path): path for path in reversed(paths)}.values()):
        try:
            changed_us = path.stat().st_mtime_ns // 1000
        except (OSError, ValueError):
            continue
        document, fault = read_document(path)
        off, plugins = (document.get(name) for name in ("disableAllHooks", "enabledPlugins"))
        switches = plugins.items() if isinstance(plugins, dict) else ()
        yield File(
            path,
            fault,
            own_calls(document, CLAUDE_FILES),
            own_timeouts(document, CLAUDE_FILES),
            off if isinstance(off, bool) else None,
            changed_us,
            {name: on for name, on in switches if isinstance(on, bool)},
        )


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
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text from byte {error.start} on"
    if isinstance(error, ValueError | RecursionError):
        return f"is not readable JSON: {error}"
    return f"cannot be read: {error.reason if isinstance(error, CannotWriteError) else disk.reason(error)}"


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Plugins and other agents


def _others(setup: Setup) -> Iterator[OtherFile]:
    """Yield the files other than Claude Code's settings that hold hooks of Tallybook."""
    paths = [("", f"the plugin {name}", path) for name in _plugins(setup) for path in _plugin_files(name)]
    for name in table.AGENTS:
        if name != table.CLAUDE:
            files = installation.load(name)
            paths += [(name, files.title, path) for path in _agent_files(setup, files)]
    for name, title, path in paths:
        document = read_document(path)[0]
        commands = tuple(dict.fromkeys(filter(calls_us, _texts(document.get("hooks")))))
        if commands:
            yield OtherFile(path, title, commands, name, document)


def _agent_files(setup: Setup, files: Installation) -> list[Path]:
    """Return the files that may hold an agent's hooks, in the project's folder and in that of the user."""
    users = places.users_folder(files)
    paths = [setup.folder / files.folder / files.file, users / files.file]
    patterns = [(setup.folder, one) for one in files.other_hooks] + [(users, one) for one in files.users_hooks]
    for folder, pattern in patterns:
        paths += sorted(folder.glob(pattern))
    return list(dict.fromkeys(paths))


def _plugins(setup: Setup) -> list[str]:
    """Return the names of the enabled plugins; of two files that name one, the first decides."""
    enabled: dict[str, bool] = {}
    for file in reversed(setup.files):
        enabled |= file.plugins
    return [name for name, on in enabled.items() if on]


def _plugin_files(plugin: str) -> list[Path]:
    name, _, market = plugin.rpartition("@")
    folder = places.users_folder() / "plugins" / "cache" / market / name
    is_plain = all(part and part not in {".", ".."} and not {"/", "\\"}.intersection(part) for part in (name, market))
    return sorted(folder.glob("*/hooks/hooks.json")) if is_plain else []


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value: agents nest command lines at different depths."""
    values = [value]
    while values:
        current = values.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, dict | list):
            values += current.values() if isinstance(current, dict) else current


# Trust


def trusts(setup: Setup) -> bool | None:
    """Say whether the agent has recorded trust in the folder or one above it; None where it has recorded nothing.

    The record is not reliable: hooks may run where it says no.
    """
    folder = Path(os.path.realpath(setup.folder))
    names = {str(path) for start in (setup.folder.absolute(), folder) for path in (start, *start.parents)}
    projects = read_document(state_file(), _MAX_STATE_BYTES)[0].get("projects")
    entries = projects.items() if isinstance(projects, dict) else ()
    here = [entry.get("hasTrustDialogAccepted") for name, entry in entries if name in names and isinstance(entry, dict)]
    return True in here if here else None


def state_file() -> Path:
    """Return the path of the agent's state file, which records its trust in folders."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or places.home()) / STATE


def is_used() -> bool:
    """Say whether this user has Claude Code."""
    return state_file().exists() or (places.users_folder() / "projects").exists()
