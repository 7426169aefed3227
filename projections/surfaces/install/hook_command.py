"""The hook's command line: the one that ``init`` writes, and how it recognises every line of an earlier version.

The line starts the interpreter directly, on a module whose name never changes (``tallybook.hook``). If that is gone,
because Python was upgraded or moved, the line runs the installed command by its name. If that is missing as well,
nothing happens: a hook always ends with 0. A file that git tracks gets only the last two parts, and so does an agent
that asks for trust again whenever the line changes. Where the active virtual environment alone has the command, every
other file names it by its path: the agent may be started in a shell without that environment.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath
import re
import shlex
import shutil
import sys
from typing import Final

import attrs

import tallybook
from tallybook.projections.surfaces.workspace import installation

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
class Call:
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
    folder = _installed_in()
    if os.name != "posix" or folder is None or not _is_direct(sys.executable, folder):
        return named
    words = [sys.executable, *_OPTIONS, _CODE, str(folder)]
    return f"{shlex.join(words)} || {named} || :"


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


def _installed_in() -> Path | None:
    """Return the folder that holds the installed package; None in a clone, where an import hook finds it."""
    package = Path(str(tallybook.__file__)).absolute().parent
    return package.parent if package.name == COMMAND and (package / "ledger").is_dir() else None


def _is_direct(python: str, folder: Path) -> bool:
    """Return whether this is an interpreter, not a frozen program, that can import from a folder of modules."""
    known = PurePath(python).name.startswith("python") and (folder / STARTED[_CODE]).is_file()
    return known and python.isprintable() and str(folder).isprintable()


def call_of(command: str) -> Call | None:
    """Return how a command line calls our hook at its end, None if it does not."""
    words = _split(command)
    match = _LINE.fullmatch("\0".join(words))
    if match is None or PurePath(match["program"]).name not in _NAMES:
        return None
    python, folder, module = match["python"] or "", match["folder"] or "", STARTED.get(match["code"], "")
    before = match["before"].split("\0")[:-1]
    does_more = "\n" in command or any(word and _OPERATORS.issuperset(word) for word in before)
    return Call(match["program"], python, folder, module, does_more=does_more, is_plain=not before and not does_more)


def _split(command: str) -> list[str]:
    """Return the words and operators of a command line, none where a quotation is not closed."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def find_fault(call: Call) -> tuple[str, bool]:
    """Return what a call names that a new shell does not find, and whether the hook still runs where the agent does.

    Returns:
        The end of a sentence about the hooks, empty where nothing is wrong, and whether they run.
    """
    is_here = is_there(call.program)
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


def remark(command: str) -> str:
    """Return a remark about a command line that calls our hook, empty if nothing is wrong with it."""
    call = call_of(command)
    if call is None:
        return ""
    fault, runs = find_fault(call)
    if not runs and call.program != COMMAND:
        return f"the hooks {fault}: `uninstall`, then `init`, names the one that is"
    why = why_not_found()
    if not why:
        return ""
    works = f"slash commands work once `{installation.tool_command()}` has put it there for every shell"
    if not call.python or fault:
        works = f"the hooks name {call.program}, and {works}" if call.program != COMMAND else f"hooks and {works}"
    return f"`{COMMAND}` {why}: {works}"


def is_there(program: str) -> bool:
    """Return whether a shell finds a program; a path with a variable, which only the agent may know, is believed."""
    path = os.path.expandvars(os.path.expanduser(program))  # noqa: PTH111 - as a shell does it: a home may be unknown
    return "$" in path or shutil.which(path) is not None
