"""An agent's own record of the hooks that it trusts, and of those that are switched off; it is only read."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.storage import disk
from tallybook.projections.surfaces.install import places

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.projections.surfaces.agents.installation import Installation

_MAX_BYTES = 4 * 1024 * 1024


def record_of_trust(files: Installation) -> Path:
    """Return the file in which an agent records the hooks that it trusts."""
    return places.users_folder(files) / files.record_of_trust


def trusted_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks for which an agent has recorded trust, by the agent's names."""
    return set(_recorded(files, path))


def running_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks that an agent trusts, and that no person switched off in its interface.

    Codex CLI writes ``enabled = false`` next to its trust, and ``[features] hooks = false`` for all of them.
    """
    features = _settings(files).get("features")
    if isinstance(features, dict) and features.get("hooks") is False:
        return set()
    recorded = _recorded(files, path).items()
    return {event for event, states in recorded if all(one.get("enabled") is not False for one in states)}


def _settings(files: Installation) -> dict[str, Any]:
    try:
        return tomllib.loads(disk.read_small(record_of_trust(files), _MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return {}


def _recorded(files: Installation, path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the recorded events of a file of hooks, by the agent's names → what the agent says of its hooks.

    Codex CLI records it as ``[hooks.state."FILE:session_start:0:0"]``, with a hash that is not checked here; FILE of a
    plugin is ``NAME@MARKETPLACE:hooks/hooks.json``.
    """
    hooks = _settings(files).get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    paths = {str(path), os.path.realpath(path)}
    match path.parts:
        case [*_, "plugins", "cache", market, name, _, folder, file]:
            paths.add(f"{name}@{market}:{folder}/{file}")
    by_key: dict[str, list[dict[str, Any]]] = {}
    for key, value in state.items() if isinstance(state, dict) else ():
        # FILE, event, two indices
        file, *place = key.rsplit(":", 3)
        if file in paths and len(place) == 3:  # noqa: PLR2004 - as above
            by_key.setdefault(place[0], []).append(value if isinstance(value, dict) else {})
    names = {event: re.sub("(?<!^)(?=[A-Z])", "_", event).lower() for event in files.events}
    return {event: by_key[name] for event, name in names.items() if name in by_key}
