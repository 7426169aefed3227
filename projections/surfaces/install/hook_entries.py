"""Our hooks in an agent's settings: bytes in, bytes out, and what is not ours stays as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install import json_editor
from tallybook.projections.surfaces.install.hook_command import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator

EVENTS: Final = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop", "PreCompact", "SessionEnd")
"""When the agent is to call us, in the order in which they are written."""

TIMEOUT_S: Final = 10
UNCHANGED: Final = "nothing was changed"

_MARK = "\ufeff"
_EMPTY = b"{}\n"


def group(command: str) -> dict[str, Any]:
    """Return what stands in the list of an event: one hook, for whatever the event is about."""
    return {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}


def install(data: bytes | None, command: str, source: str) -> bytes:
    """Return settings in which every event of EVENTS calls us, once where ``init`` wrote it.

    What calls us already is left alone, but for a command line that an earlier version wrote, or another installation:
    this one's takes its place.

    Args:
        data: The file, None where there is none.
        command: The command line of the hook.
        source: What an error calls the file.

    Raises:
        BadInputError: It is no JSON, or no settings that hooks can be put into.
    """
    mark, text, document = _read(_EMPTY if data is None else data, source)
    for event in EVENTS:
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

    A command line that does something else as well stays.

    Raises:
        BadInputError: It is no JSON, or no settings.
    """
    mark, text, document = _read(data, source)
    while (path := _first(document)) is not None:
        text = json_editor.remove(text, path)
        document = json.loads(text)
    return (mark + text).encode()


def calls_everywhere(data: bytes, source: str) -> bool:
    """Say whether every event of EVENTS calls us already.

    Raises:
        BadInputError: It is no JSON, or no settings.
    """
    return {event for event, _ in own_calls(_read(data, source)[2])}.issuperset(EVENTS)


def own_commands(data: bytes, source: str) -> list[str]:
    """Return the command lines that call us, in the order in which they stand.

    Raises:
        BadInputError: It is no JSON, or no settings.
    """
    _, _, document = _read(data, source)
    return [one for _, _, one in _commands(document.get("hooks")) if calls_us(one)]


def own_calls(document: object) -> tuple[tuple[str, str], ...]:
    """Return event and command line of each hook of ours in settings as JSON gives them, whatever shape they have."""
    hooks = document.get("hooks") if isinstance(document, dict) else None
    return tuple((event, command) for (event, _, _), _, command in _commands(hooks) if calls_us(command))


def calls_us(command: str) -> bool:
    """Say whether a command line ends by calling our hook."""
    return call_of(command) is not None


def _read(data: bytes, source: str) -> tuple[str, str, dict[str, Any]]:
    """Return a file's byte order mark, the text behind it, and what it says."""
    mark = _MARK if data.startswith(_MARK.encode()) else ""
    document = strict_json.loads(data.removeprefix(mark.encode()), source, UNCHANGED)
    if not isinstance(document, dict):
        raise BadInputError(source, "is not a JSON object", UNCHANGED)
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadInputError(source, '"hooks" is not a JSON object', UNCHANGED)
    for event in EVENTS:
        if not isinstance(hooks.get(event, []), list):
            raise BadInputError(source, f'"{event}" in "hooks" is not a list', UNCHANGED)
    return mark, data.decode().removeprefix(mark), document


def _commands(hooks: Any) -> Iterator[tuple[tuple[str, int, int], Any, str]]:
    """Yield where each command line stands in an object of hooks, its group, and the command line.

    What has not the shape of a hook is passed over: it is not ours.
    """
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for index, one in enumerate(groups if isinstance(groups, list) else ()):
            entries = one.get("hooks") if isinstance(one, dict) else None
            for number, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict) and isinstance(entry.get("command"), str):
                    yield (event, index, number), one, entry["command"]


def _first(document: dict[str, Any]) -> tuple[str | int, ...] | None:
    """Return the path of what is to be taken out first: a hook of ours, or the largest thing that holds it alone."""
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
