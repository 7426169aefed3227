"""What an agent was told of our hooks, and whether it trusts the folder: its own files, read and never changed."""

from __future__ import annotations

import json
import os
from pathlib import Path
import tomllib
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.install.hook_entries import calls_us, own_calls
from tallybook.projections.surfaces.workspace import worktree
from tallybook.projections.surfaces.workspace.project import CLAUDE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallybook.projections.surfaces.workspace.project import Project

SETTINGS: Final = ("settings.local.json", "settings.json")
"""Settings files in a folder's ``.claude``, those that win first; the user's own folder has the last of them."""
STATE: Final = ".claude.json"
AGENT_FILES: Final = {
    "Codex CLI": (".codex/hooks.json", ".codex/config.toml"),
    "Gemini CLI": (".gemini/settings.json",),
    "Copilot CLI": (
        ".github/hooks/*.json",
        ".github/copilot/settings.json",
        ".copilot/hooks/*.json",
        ".copilot/settings.json",
    ),
    "Cursor": (".cursor/hooks.json",),
}
"""Agent → where its hooks stand, in a folder and in the home folder."""

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
        plugins: Name of each plugin that it speaks of, ``NAME@MARKETPLACE`` → whether it is switched on.
    """

    path: Path
    fault: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    disables: bool | None = None
    changed_us: int = 0
    plugins: Mapping[str, bool] = attrs.field(factory=dict)


@attrs.frozen
class OtherFile:
    """A file that is not among Claude Code's settings and holds hooks of ours.

    Attributes:
        path: Where it stands.
        agent: Whose hooks they are.
        commands: The command lines that call us.
    """

    path: Path
    agent: str
    commands: tuple[str, ...]


@attrs.frozen
class Setup:
    """What an agent that is started in a folder goes by.

    Attributes:
        folder: That folder.
        files: The settings files that it reads there, those that win first; only those that stand.
        others: Files of its plugins, and of other agents that are started there, that call us.
    """

    folder: Path
    files: tuple[File, ...]
    others: tuple[OtherFile, ...] = ()

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
    setup = (own or setups[-1:])[0]
    return attrs.evolve(setup, others=tuple(_others(setup)))


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
        off, plugins = (_field(document, name) for name in ("disableAllHooks", "enabledPlugins"))
        plugins = (
            {name: on for name, on in plugins.items() if isinstance(on, bool)} if isinstance(plugins, dict) else {}
        )
        yield File(path, fault, own_calls(document), off if isinstance(off, bool) else None, changed_us, plugins)


def _field(document: object, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None


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


# Plugins and other agents


def _others(setup: Setup) -> Iterator[OtherFile]:
    """Yield the files besides Claude Code's settings that hold hooks of ours."""
    paths = [(f"the plugin {name}", path) for name in _plugins(setup) for path in _plugin_files(name)]
    for agent, patterns in AGENT_FILES.items():
        for folder in dict.fromkeys((setup.folder, places.home())):
            paths += [(agent, path) for pattern in patterns for path in sorted(folder.glob(pattern))]
    for agent, path in paths:
        commands = tuple(dict.fromkeys(filter(calls_us, _texts(_field(_any_document(path), "hooks")))))
        if commands:
            yield OtherFile(path, agent, commands)


def _plugins(setup: Setup) -> list[str]:
    """Return the names of the plugins that the settings switch on; of two files, the first one decides."""
    said: dict[str, bool] = {}
    for file in reversed(setup.files):
        said |= file.plugins
    return [name for name, on in said.items() if on]


def _plugin_files(plugin: str) -> list[Path]:
    name, _, market = plugin.rpartition("@")
    folder = places.users_folder() / "plugins" / "cache" / market / name
    plain = all(one and one not in {".", ".."} and not {"/", "\\"}.intersection(one) for one in (name, market))
    return sorted(folder.glob("*/hooks/hooks.json")) if plain else []


def _any_document(path: Path) -> Any:
    """Return what a file of settings says, in JSON or TOML; None where it cannot be read."""
    if path.suffix != ".toml":
        return _read(path)[0]
    try:
        return tomllib.loads(worktree.read_small(os.path.realpath(path), _MAX_SETTINGS_BYTES).decode())
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return None


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value: agents differ in how deep a command line stands."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list):
            left += one.values() if isinstance(one, dict) else one


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
