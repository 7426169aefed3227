"""An agent's own record of the hooks that it trusts; it is only read."""

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING

from tallybook.ledger.errors import CannotWriteError
from tallybook.projections.surfaces.install import places
from tallybook.projections.surfaces.workspace.project import read_small

if TYPE_CHECKING:
    from pathlib import Path

    from tallybook.projections.surfaces.agents.installation import Installation

_MAX_BYTES = 4 * 1024 * 1024


def record_of_trust(files: Installation) -> Path:
    """Return the file in which an agent records the hooks that it trusts."""
    return places.users_folder(files) / files.record_of_trust


def trusted_events(files: Installation, path: Path) -> set[str]:
    """Return the events of a file of hooks for which an agent has recorded trust, by the agent's names.

    Codex CLI records it as ``[hooks.state."FILE:session_start:0:0"]``, with a hash that is not checked here; FILE of a
    plugin is ``NAME@MARKETPLACE:hooks/hooks.json``.
    """
    try:
        record = tomllib.loads(read_small(record_of_trust(files), _MAX_BYTES).decode())
    except (OSError, ValueError, RecursionError, CannotWriteError):
        return set()
    hooks = record.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    keys = [key.rsplit(":", 3) for key in (state if isinstance(state, dict) else ())]
    paths = {str(path), os.path.realpath(path)}
    match path.parts:
        case [*_, "plugins", "cache", market, name, _, folder, file]:
            paths.add(f"{name}@{market}:{folder}/{file}")
    recorded = {key[1] for key in keys if len(key) == 4 and key[0] in paths}  # noqa: PLR2004 - FILE, event, two indices
    return {event for event in files.events if re.sub("(?<!^)(?=[A-Z])", "_", event).lower() in recorded}
