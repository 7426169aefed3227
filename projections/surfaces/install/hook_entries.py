"""Tallybook's hooks in an agent's settings: bytes in, bytes out; every byte that is not ours stays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install import json_editor
from tallybook.projections.surfaces.install.hook_command import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALLED_EVENTS: Final = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "SessionEnd",
)
"""Events at which the agent calls us, in the order in which `init` writes them."""

TIMEOUT_S: Final = 10
UNCHANGED: Final = "nothing was changed"

_MARK = "\ufeff"
_EMPTY = b"{}\n"


def group(command: str) -> dict[str, Any]:
    """Return a group of an event's list: one hook, for every tool or source of the event."""
    return {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}


def install(data: bytes | None, command: str, source: str) -> bytes:
    """Return settings in which every event of INSTALLED_EVENTS calls us.

    A hook that calls us already stays, except that this command line replaces one that an earlier version or another
    installation wrote.

    Args:
        data: The bytes of the file, None without a file.
        command: The command line of the hook.
        source: The file's name in errors.

    Raises:
        BadInputError: The file is not JSON, or not settings that can hold hooks.
    """
    mark, text, document = _read(_EMPTY if data is None else data, source)
    for event in INSTALLED_EVENTS:
        for (_, index, number), _, one in _commands({event: document.get("hooks", {}).get(event)}):
            call = call_of(one)
            if call is not None and call.is_plain and one != command:
                text = json_editor.replace(text, ("hooks", event, index, "hooks", number, "command"), command)
        hooks = document.get("hooks", {})
        if any(calls_us(one) for _, _, one in _commands({event: hooks.get(event)})):
            continue
        if "hooks" not in document:
            text = json_editor.insert(text, (), "hooks", {event: [group(command)]})
        elif event not in hooks:
            text = json_editor.insert(text, ("hooks",), event, [group(command)])
        else:
            text = json_editor.insert(text, ("hooks", event), None, group(command))
        document = json.loads(text)
    return (mark + text).encode()


def remove(data: bytes, source: str) -> bytes:
    """Return settings without our hooks, and without the groups, lists and objects that only held them.

    A command line that runs other commands as well stays.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    mark, text, document = _read(data, source)
    while (path := _first(document)) is not None:
        text = json_editor.remove(text, path)
        document = json.loads(text)
    return (mark + text).encode()


def calls_everywhere(data: bytes, source: str) -> bool:
    """Return whether every event of INSTALLED_EVENTS calls us already.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    return {event for event, _ in own_calls(_read(data, source)[2])}.issuperset(INSTALLED_EVENTS)


def own_commands(data: bytes, source: str) -> list[str]:
    """Return the command lines that call us, in their order.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    return [command for _, command in own_calls(_read(data, source)[2])]


def own_calls(document: object) -> tuple[tuple[str, str], ...]:
    """Return event and command line of each hook of ours in parsed settings, whatever their shape."""
    hooks = document.get("hooks") if isinstance(document, dict) else None
    return tuple((event, command) for (event, _, _), _, command in _commands(hooks) if calls_us(command))


def calls_us(command: str) -> bool:
    """Return whether a command line calls our hook at its end."""
    return call_of(command) is not None


def _read(data: bytes, source: str) -> tuple[str, str, dict[str, Any]]:
    """Return a file's byte order mark, the text after it, and the document."""
    mark = _MARK if data.startswith(_MARK.encode()) else ""
    document = strict_json.loads(data.removeprefix(mark.encode()), source, UNCHANGED)
    if not isinstance(document, dict):
        raise BadInputError(source, "is not a JSON object", UNCHANGED)
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadInputError(source, '"hooks" is not a JSON object', UNCHANGED)
    for event in INSTALLED_EVENTS:
        if not isinstance(hooks.get(event, []), list):
            raise BadInputError(source, f'"{event}" in "hooks" is not a list', UNCHANGED)
    return mark, data.decode().removeprefix(mark), document


def _commands(hooks: Any) -> Iterator[tuple[tuple[str, int, int], Any, str]]:
    """Yield the place of each command line in an object of hooks, its group, and the command line.

    Values that do not have the shape of a hook are not ours, and are skipped.
    """
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for index, one in enumerate(groups if isinstance(groups, list) else ()):
            entries = one.get("hooks") if isinstance(one, dict) else None
            for number, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict) and isinstance(entry.get("command"), str):
                    yield (event, index, number), one, entry["command"]


def _first(document: dict[str, Any]) -> tuple[str | int, ...] | None:
    """Return the path of the first hook of ours, or of the largest value that holds nothing else; None without any."""
    hooks = document.get("hooks", {})
    for (event, index, number), one, command in _commands(hooks):
        call = call_of(command)
        if call is None or call.does_more:
            continue
        if len(one["hooks"]) > 1:
            return "hooks", event, index, "hooks", number
        if len(hooks[event]) > 1:
            return "hooks", event, index
        return ("hooks", event) if len(hooks) > 1 else ("hooks",)
    return None
