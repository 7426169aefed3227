"""Tallybook's hooks in an agent's settings: bytes in, bytes out; what is not ours keeps its value and its order."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install.hook_command import call_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.agents.installation import Installation

UNCHANGED: Final = "nothing was changed"

_MARK = "\ufeff"
_LINE_END = re.compile(r"\r\n|\n|\r")
_INDENTED = re.compile(r"[\r\n]([ \t]*)[^\s\]}]")


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
    before = f"{json.dumps(dict(files.document), indent=2)}\n".encode() if data is None else data
    document = read(before, files, source)
    hooks = document.setdefault("hooks", {})
    for event, timeout in files.events.items():
        own = [entry for _, entry in _entries({event: hooks.get(event)}, files) if calls_us(entry[files.key])]
        for entry in own:
            call = call_of(entry[files.key])
            # A line that somebody extended is theirs.
            if call is not None and call.is_plain:
                # The timeout stays: Codex trusts a hook by its line and its timeout.
                entry[files.key] = command
        if not own:
            hooks.setdefault(event, []).append(files.item(command, timeout))
    return _write(before, document, read(before, files, source))


def remove(data: bytes, files: Installation, source: str) -> bytes:
    """Return settings without our hooks, and without the groups, lists and objects that only held them.

    A command line that runs other commands as well stays.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    document = read(data, files, source)
    hooks = document.get("hooks", {})
    for event in [*hooks]:
        groups = hooks[event]
        for group in [*groups] if isinstance(groups, list) else ():
            entries = [entry for _, entry in _entries({event: [group]}, files)]
            # Removing a line that does more would remove somebody else's command.
            own = [entry for entry in entries if (call := call_of(entry[files.key])) and not call.does_more]
            if own and files.is_nested and len(own) < len(group["hooks"]):
                group["hooks"] = [entry for entry in group["hooks"] if entry not in own]
            elif own:
                groups.remove(group)
                if not groups:
                    del hooks[event]
                if not hooks:
                    del document["hooks"]
    return _write(data, document, read(data, files, source))


def own_commands(data: bytes, files: Installation, source: str) -> list[str]:
    """Return the command lines that call us, in their order.

    Raises:
        BadInputError: The file is not JSON, or not settings.
    """
    return [command for _, command in own_calls(read(data, files, source), files)]


def own_calls(document: object, files: Installation) -> tuple[tuple[str, str], ...]:
    """Return event and command line of each hook of ours in parsed settings, whatever their shape."""
    hooks = document.get("hooks") if isinstance(document, dict) else None
    entries = ((event, entry[files.key]) for event, entry in _entries(hooks, files))
    return tuple((event, command) for event, command in entries if calls_us(command))


def calls_us(command: str) -> bool:
    """Return whether a command line calls our hook at its end."""
    return call_of(command) is not None


def read(data: bytes, files: Installation, source: str) -> dict[str, Any]:
    """Return settings, parsed.

    Raises:
        BadInputError: They are not JSON, or cannot hold hooks.
    """
    # An editor may have put a byte order mark first, which JSON does not allow.
    document = strict_json.loads(data.removeprefix(_MARK.encode()), source, UNCHANGED)
    if not isinstance(document, dict):
        raise BadInputError(source, "is not a JSON object", UNCHANGED)
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise BadInputError(source, '"hooks" is not a JSON object', UNCHANGED)
    for event in files.events:
        if not isinstance(hooks.get(event, []), list):
            raise BadInputError(source, f'"{event}" in "hooks" is not a list', UNCHANGED)
    return document


def _write(before: bytes, document: dict[str, Any], old: dict[str, Any]) -> bytes:
    """Return settings as bytes: with the indentation and line ends that they had, and untouched where none changed."""
    if document == old:
        return before
    text = before.decode()
    body = text.removeprefix(_MARK).strip()
    end = _LINE_END.search(text)
    if old and not _LINE_END.search(body):
        colon = ": " if '": ' in body else ":"
        written = json.dumps(document, ensure_ascii=False, separators=(", " if colon == ": " else ",", colon))
    else:
        indented = _INDENTED.search(body)
        written = json.dumps(document, ensure_ascii=False, indent=indented[1] if indented else "  ")
        written = written.replace("\n", end[0] if end else "\n")
    begin = text.index(body)
    return (text[:begin] + written + text[begin + len(body) :]).encode("utf-8", "surrogatepass")


def _entries(hooks: object, files: Installation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each hook in an object of hooks, after its event.

    Values that do not have the shape of a hook are not ours, and are skipped.
    """
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            entries = [group]
            if files.is_nested:
                inner = group.get("hooks") if isinstance(group, dict) else None
                entries = inner if isinstance(inner, list) else []
            for entry in entries:
                if isinstance(entry, dict) and isinstance(entry.get(files.key), str):
                    yield str(event), entry
