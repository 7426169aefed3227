"""The block of entries in a file that agents read, such as AGENTS.md: its place, and the entries that a session gets.

A person's command writes it; hooks only read it. Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import BadInputError, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.storage import disk
from tallybook.projections.playbook import inject
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.workspace.project import contains, repository_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from tallybook.projections.surfaces.agents.table import Payload
    from tallybook.projections.surfaces.workspace.project import AnyProject

BEGIN, END = b"<!-- tallybook:begin -->", b"<!-- tallybook:end -->"
AGENTS_MD, RULES = table.AGENTS_MD, table.CURSOR_RULES
"""The second is a file of Tallybook's own: all of it is the block, without markers."""
FILES = tuple(dict.fromkeys(name for row in table.AGENTS.values() for name in row.reads))
"""The files in the folder of a project that agents read at the start of a session."""
MAX_FILE_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_IMPORTS = (b"@AGENTS.md", b"@./AGENTS.md")


class Block(NamedTuple):
    """A block in a file.

    Attributes:
        name: The file, as in FILES.
        lines: Its lines.
    """

    name: str
    lines: frozenset[str]

    def has(self, entry: Mapping[str, Any]) -> bool:
        """Return whether it gives a session an entry with its present text."""
        return line(entry) in self.lines


def line(entry: Mapping[str, Any]) -> str:
    """Return the line of an entry; an agent would read the file that ``@NAME`` names into its requests."""
    return f"- {inject.blank_controls(entry['text']).replace('@', chr(92) + '@')} [{entry['name']}]"


def folder_of(project: AnyProject) -> str:
    """Return the folder whose files an agent reads: the project's, or the top of the linked worktree it works in."""
    root = os.path.realpath(project.root)
    folders = repository_folders(os.path.realpath(project.start or root))
    return root if root in folders or not folders else folders[-1]


def place_of(folder: str, name: str) -> str:
    """Return the path of a file, where a link leads to it in the project.

    Raises:
        BadInputError: A link leads out of the project.
    """
    path = os.path.realpath(os.path.join(folder, name))
    # A link must not lead the block into a file of another project.
    if not contains(folder, path):
        raise BadInputError(name, f"leads out of the project, to {path}", "name another file")
    return path


def find_read(project: AnyProject, payload: Payload) -> Block | None:
    """Return the block that a session reads, None without one; what a subagent reads is not known."""
    names = table.AGENTS[payload.agent].reads if payload.agent and not payload.subagent else ()
    return find(project, names)


def find(project: AnyProject, names: Iterable[str]) -> Block | None:
    """Return the block in the first of these files that has one, or imports AGENTS.md that has one; else None."""
    folder, names = folder_of(project), [*names]
    for name in names:
        # Markers that are no pair give nothing here: the hooks then inject the entries themselves.
        with suppress(OSError, ValueError, TallybookError):
            lines = disk.read_small(place_of(folder, name), MAX_FILE_BYTES).splitlines()
            span = (0, len(lines)) if name == RULES else find_span(name, lines)
            if span is not None:
                texts = (text.decode("utf-8", "replace") for text in lines[span[0] : span[1]])
                return Block(name, frozenset(texts))
            # Claude Code and Gemini read AGENTS.md only where their own file imports it.
            if imports(lines) and AGENTS_MD not in names:
                names.append(AGENTS_MD)
    return None


def find_span(name: str, lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Return the indexes of the two markers in the lines of a file, None without any; those in fences do not count.

    Raises:
        BadInputError: They are no pair.
    """
    if not any(BEGIN in text or END in text for text in lines):
        return None
    markers = [(index, text) for index, text in _skip_fences(lines) if text in {BEGIN, END}]
    if not markers:
        return None
    if [text for _, text in markers] != [BEGIN, END]:
        places = ", ".join(f"{text.decode()} in line {index + 1}" for index, text in markers)
        hint = "leave one pair, begin before end, or none; nothing was written"
        raise BadInputError(name, f"its markers are no pair: {places}", hint)
    return markers[0][0], markers[1][0]


def imports(lines: Iterable[bytes]) -> bool:
    """Return whether the lines of a file import AGENTS.md, which a fence or backticks prevent."""
    return any(word in _IMPORTS for _, text in _skip_fences(lines) for word in text.split())


def _skip_fences(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the index and text of each line outside of fenced code, without white space around it."""
    fence = b""
    for index, text in enumerate(lines):
        # An editor may have put a byte order mark before the first line.
        bare = (text.removeprefix(_BOM) if index == 0 else text).strip()
        mark = bare[:1]
        run = bare[: len(bare) - len(bare.lstrip(mark))] if mark in {b"`", b"~"} else b""
        if fence:
            fence = b"" if len(run) >= len(fence) and run[:1] == fence[:1] and bare == run else fence
        elif len(run) >= len(b"```") and b"`" not in bare[len(run) :]:
            fence = run
        else:
            yield index, bare
