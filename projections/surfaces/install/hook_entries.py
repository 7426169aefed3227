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

    from tallybook.projections.surfaces.agents.installation import Installation

    Path = tuple[str | int, ...]

UNCHANGED: Final = "nothing was changed"

_MARK = "\ufeff"


def install(data: bytes | None, files: Installation, command: str, source: str) -> bytes:
    """Return settings in which every event of an agent calls us.

    A hook that calls us already stays, except that this command line replaces one that an earlier version or another
    installation wrote.

    Args:
        data: The bytes of the file, None without a file.
        files: The files of the agent.
        command: The command line of the hook.
        source: The file's name in errors.

    Raises:
        BadInputError: The file is not JSON, or not settings that can hold hooks.
    """
    mark, text, document = _read(_new_file(files) if data is None else data, files, source)
    for event, timeout in files.events.items():
        for path, one in _commands({event: document.get("hooks", {}).get(event)}, files):
            call = call_of(one)
            if call is not None and call.is_plain and one != command:
                text = json_editor.replace(text, ("hooks", *path), command)
        hooks = document.get("hooks", {})
        if any(calls_us(one) for _, one in _commands({event: hooks.get(event)}, files)):
            continue
        group = files.group(command, timeout)
        if "hooks" not in document:
            text = json_editor.insert(text, (), "hooks", {event: [group]})
        elif event not in hooks:
            text = json_editor.insert(text, ("hooks",), event, [group])
        else:
            text = json_editor.insert(text, ("hooks", event), None, group)
        document = json.loads(text)
    return (mark + text).encode()


def remove(data: bytes, files: Installation, source: str) -> bytes:
    """Return settings without our hooks, and without the groups, lists and objects that only held them.

    A command line that runs other commands as well stays.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    mark, text, document = _read(data, files, source)
    while (path := _first(document, files)) is not None:
        text = json_editor.remove(text, path)
        document = json.loads(text)
    return (mark + text).encode()


def own_commands(data: bytes, files: Installation, source: str) -> list[str]:
    """Return the command lines that call us, in their order.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    return [command for _, command in own_calls(_read(data, files, source)[2], files)]


def own_calls(document: object, files: Installation) -> tuple[tuple[str, str], ...]:
    """Return event and command line of each hook of ours in parsed settings, whatever their shape."""
    hooks = document.get("hooks") if isinstance(document, dict) else None
    return tuple((str(path[0]), command) for path, command in _commands(hooks, files) if calls_us(command))


def calls_us(command: str) -> bool:
    """Return whether a command line calls our hook at its end."""
    return call_of(command) is not None


def _new_file(files: Installation) -> bytes:
    return f"{json.dumps(dict(files.document), indent=2)}\n".encode()


def _read(data: bytes, files: Installation, source: str) -> tuple[str, str, dict[str, Any]]:
    """Return a file's byte order mark, the text after it, and the document."""
    mark = _MARK if data.startswith(_MARK.encode()) else ""
    document = strict_json.loads(data.removeprefix(mark.encode()), source, UNCHANGED)
    if not isinstance(document, dict):
        raise BadInputError(source, "is not a JSON object", UNCHANGED)
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadInputError(source, '"hooks" is not a JSON object', UNCHANGED)
    for event in files.events:
        if not isinstance(hooks.get(event, []), list):
            raise BadInputError(source, f'"{event}" in "hooks" is not a list', UNCHANGED)
    return mark, data.decode().removeprefix(mark), document


def _commands(hooks: Any, files: Installation) -> Iterator[tuple[Path, str]]:
    """Yield the path of each command line in an object of hooks, and the command line.

    Values that do not have the shape of a hook are not ours, and are skipped.
    """
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            entries: list[tuple[Path, Any]] = [((event, index), group)]
            if files.is_nested:
                inner = group.get("hooks") if isinstance(group, dict) else None
                places = enumerate(inner if isinstance(inner, list) else ())
                entries = [((event, index, "hooks", number), entry) for number, entry in places]
            for path, entry in entries:
                if isinstance(entry, dict) and isinstance(entry.get(files.key), str):
                    yield (*path, files.key), entry[files.key]


def _first(document: dict[str, Any], files: Installation) -> Path | None:
    """Return the path of the first hook of ours, or of the largest value that holds nothing else; None without any."""
    hooks = document.get("hooks", {})
    for (event, index, *inner, _), command in _commands(hooks, files):
        call = call_of(command)
        if call is None or call.does_more:
            continue
        if inner and len(hooks[event][index]["hooks"]) > 1:
            return "hooks", event, index, *inner
        if len(hooks[event]) > 1:
            return "hooks", event, index
        return ("hooks", event) if len(hooks) > 1 else ("hooks",)
    return None
