"""The hook command that is installed, its entries in an agent's settings file, and the commands that install packages.

The line starts the interpreter directly, on a module whose name never changes (``tallybook.hook``). If that is gone,
because Python was upgraded or moved, the line runs the installed command by its name. If that is missing as well,
nothing happens: a hook always ends with 0. A file that git tracks gets only the last two parts, and so does an agent
that asks for trust again whenever the line changes. Where the active virtual environment alone has the command, every
other file names it by its path: the agent may be started in a shell without that environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
import json
import os
from pathlib import Path, PurePath
import re
import shlex
import shutil
import sys
from typing import Any, Final
from urllib.parse import unquote

import attrs

from tallybook.ledger import strict_json
from tallybook.ledger.errors import BadInputError
from tallybook.projections.surfaces.install.places import UNCHANGED, Installation

COMMAND: Final = "tallybook"

_NAMES: Final = frozenset({COMMAND, f"{COMMAND}.exe"})
# Isolated, so that no folder of a session gives it modules; site takes as long to load as a hook's own work.
_OPTIONS: Final = ("-I", "-S", "-X", "utf8", "-c")
_CODE: Final = "import sys; sys.path.append(sys.argv[1]); from tallybook.hook import main; main()"
# The code that each version wrote → the file that it starts, as a path in the folder that the line names.
# Settings keep such lines over upgrades, so rows are only added.
STARTED: Final = {
    _CODE: "tallybook/hook.py",
    "import sys; sys.path.append(sys.argv[1]); import hook_start; hook_start.main()": "hook_start.py",
}
_OPERATORS: Final = frozenset("();<>|&")
# Every shape of our line, its words joined by NUL: `PROGRAM hook`, or a direct call that falls back on it,
# `PYTHON OPTIONS CODE FOLDER || PROGRAM hook || :`; other words may come before.
_LINE: Final = re.compile(
    r"(?P<before>(?:[^\0]*\0)*?)"
    r"(?:(?P<python>[^-\0][^\0]*)\0(?:(?:-[^\0]*|utf8)\0)+"
    rf"(?P<code>{'|'.join(map(re.escape, STARTED))})\0(?P<folder>[^\0]*)\0\|\|\0)?"
    r"(?P<program>[^\0]+)\0hook(?P<ignored_failure>\0\|\|\0:)?"
)


@attrs.frozen
class HookCommand:
    """How a command line calls our hook.

    Attributes:
        program: The installed command, by its name or path.
        python: The interpreter that is tried first; empty if the line has none.
        folder: The folder of its modules; empty as well then.
        module: The module's file, as a path in that folder; empty as well then.
        does_more: Whether the line runs other commands before ours.
        is_plain: Whether it is exactly a line that ``init`` writes, in this or an earlier version.
    """

    program: str
    python: str = ""
    folder: str = ""
    module: str = ""
    does_more: bool = False
    is_plain: bool = False


def hook_command(*, is_shared: bool = False, is_kept: bool = False) -> str:
    """Return the command line of the hook; an upgrade that keeps the interpreter does not change it.

    Args:
        is_shared: Whether other machines read it, so that it names no path of this one.
        is_kept: Whether an upgrade of the interpreter must not change it either.
    """
    named = f"{COMMAND} hook"
    if is_shared:
        return f"{named} || :"
    if why_not_found():
        for path in (Path(sys.argv[0]).absolute(), Path(sys.executable).with_name(COMMAND)):
            if path.stem == COMMAND and path.is_file() and str(path).isprintable():
                named = f"{shlex.quote(str(path))} hook"
                break
    if is_kept:
        return f"{named} || :"
    # In a clone an import hook finds the package, and a frozen program is no interpreter.
    package, python = Path(str(sys.modules[COMMAND].__file__)).absolute().parent, sys.executable
    is_installed = package.name == COMMAND and (package.parent / STARTED[_CODE]).is_file()
    is_printable = python.isprintable() and str(package).isprintable()
    if os.name != "posix" or not (is_installed and is_printable and PurePath(python).name.startswith("python")):
        return named
    return f"{shlex.join([python, *_OPTIONS, _CODE, str(package.parent)])} || {named} || :"


def why_not_found() -> str:
    """Return why a new shell does not find the command, as the end of a sentence about it; empty where it does."""
    folders = [folder for folder in os.get_exec_path() if not _is_of_environment(Path(folder))]
    if shutil.which(COMMAND, path=os.pathsep.join(folders)):
        return ""
    program = shutil.which(COMMAND)
    if program is None:
        return "is not on PATH"
    return f"is on PATH only in the environment {Path(program).parent.parent}"


def _is_of_environment(folder: Path) -> bool:
    """Return whether a folder of programs is on PATH only while an environment is active."""
    environment = folder.parent
    # The base environment of conda is always active.
    is_conda = str(environment) == os.environ.get("CONDA_PREFIX") and os.environ.get("CONDA_DEFAULT_ENV") != "base"
    return is_conda or (environment / "pyvenv.cfg").is_file()


def call_of(command: str) -> HookCommand | None:
    """Return how a command line calls our hook at its end, None if it does not."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        match = _LINE.fullmatch("\0".join(lexer))
    except ValueError:
        # A quotation is not closed.
        return None
    if match is None or PurePath(match["program"]).name not in _NAMES:
        return None
    python, folder, module = match["python"] or "", match["folder"] or "", STARTED.get(match["code"], "")
    before = match["before"].split("\0")[:-1]
    does_more = "\n" in command or any(word and _OPERATORS.issuperset(word) for word in before)
    return HookCommand(
        match["program"], python, folder, module, does_more=does_more, is_plain=not before and not does_more
    )


def find_fault(call: HookCommand) -> tuple[str, bool]:
    """Return what a call names that a new shell does not find, and whether the hook still runs where the agent does.

    Returns:
        The end of a sentence about the hooks, empty where nothing is wrong, and whether they run.
    """
    path = os.path.expandvars(os.path.expanduser(call.program))  # noqa: PTH111 - as a shell does it: a home may be unknown
    # Only the agent may know a variable in a path, so such a path is believed.
    is_here = "$" in path or shutil.which(path) is not None
    programs = (call.python, str(Path(call.folder, call.module))) if call.python else ()
    gone = [path for path in programs if not Path(path).is_file()]
    if gone and is_here:
        return f"start {gone[0]}, which is gone; they fall back on the slower `{call.program}`", True
    if gone:
        return f"name {gone[0]} and {call.program}, and neither exists, so they do nothing", False
    if call.python:
        return "", True
    if call.program == COMMAND and (why := why_not_found()):
        return f"call `{COMMAND}`, which {why}", is_here
    return ("", True) if is_here else (f"call {call.program}, which does not exist or is not on PATH", False)


def remark() -> str:
    """Return what ``init`` says about the command, empty if every shell finds it."""
    why, what = why_not_found(), "slash commands, and hooks that name no path,"
    return why and f"`{COMMAND}` {why}: {what} work once `{tool_command()}` has put it there for every shell"


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
        calls = [(entry, call_of(entry[files.key])) for _, entry in _entries({event: hooks.get(event)}, files)]
        for entry, call in calls:
            # A line that somebody extended is theirs.
            if call is not None and call.is_plain:
                # The timeout stays: Codex trusts a hook by its line and its timeout.
                entry[files.key] = command
        if not any(call for _, call in calls):
            hooks.setdefault(event, []).append(files.item(command, timeout))
    return _write(before, document, read(before, files, source))


def remove(data: bytes, files: Installation, source: str) -> bytes:
    """Return settings without our hooks, and without the groups, lists and objects that are empty then.

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
        if groups == []:
            del hooks[event]
    if document.get("hooks") == {}:
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
    return tuple((event, command) for event, command in entries if call_of(command) is not None)


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


# The environment that Tallybook runs in


def tool_command() -> str:
    """Return the command line that puts this Tallybook on PATH for every shell, whichever environment is active."""
    try:
        # An installer leaves this file where the package came from an address or a folder, not from an index.
        source = json.loads(distribution(COMMAND).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        source = {}
    url = str(source.get("url", COMMAND))
    place = f"git+{url}" if "vcs_info" in source else unquote(url.removeprefix("file://"))
    return shlex.join(["uv", "tool", "install", place])
