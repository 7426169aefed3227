r"""Citations: the entries that a text names in square brackets, and whether its lineage was given them.

Hooks, the worker and all that count a citation ask here. The forms are ``[kpt_001]``, ``[kpt_001, kpt_002]`` with
commas, semicolons, slashes, ampersands, blanks or "and", ``[KPT_1]`` in any case and without leading zeros, and those
with the escapes of Markdown, ``\[kpt\_001\]``. A line that rates, ``[kpt_001] helpful``, cites nothing. A lineage is a
session with its resumes, forks, compactions and subagents. Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.fast_stdlib import dumps, loads
from tallybook.ledger.line import kind_of
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import PREFIX, format_name, parse_number
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.head import lines_before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from tallybook.projections.surfaces.workspace.project import AnyProject

KIND = "playbook.injected"
MAX_SEARCHED_BYTES = 256 * 1024 * 1024
"""So much of the end of a log is searched for what a session was given, some 800,000 events: a tenth of a second."""
MAX_SESSIONS = 16
"""So many forks of forks are followed."""


MAX_CHARS = 200
"""Longer brackets hold no names."""
_SEPARATORS = ",;/&"
_AND = "and"
_RATINGS = ("helpful", "harmful", "neutral")
# What may stand around a name: blanks, and Markdown's marks of code and of emphasis.
_AROUND = " \t\u00a0\u200b`*\"'"


def brackets(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the insides of square brackets begin and end, of the innermost ones that take one line."""
    end = text.find("]")
    begin = 0
    while end >= 0:
        start = text.rfind("[", begin, end) + 1
        if start and 0 < end - start <= MAX_CHARS and "\n" not in text[start:end]:
            yield start, end
        begin, end = end + 1, text.find("]", end + 1)


def find_cited(text: str, names: Collection[str]) -> dict[str, tuple[int, int]]:
    """Return each entry that a text cites, with the place of the first brackets that name it."""
    cited: dict[str, tuple[int, int]] = {}
    by_form: dict[str, str] = {}
    for begin, end in brackets(text):
        for name in names_in(text[begin:end], names, by_form):
            # A mark must not vouch for itself: it counts as helpful only where a sentence cites the entry.
            if name not in cited and not _is_rating(text, begin, end):
                cited[name] = (begin - 1, end + 1)
    return cited


def _is_rating(text: str, begin: int, end: int) -> bool:
    """Return whether brackets begin their line, and a rating follows them."""
    before = text[text.rfind("\n", 0, begin) + 1 : begin]
    after = text[end + 1 : end + MAX_CHARS].lstrip(_AROUND + ":-\u2013\u2014").casefold()
    return after.startswith(_RATINGS) and not any(map(str.isalpha, before))


def _fold(name: str) -> str:
    """Return a name in lower case and with the usual zeros."""
    folded = name.casefold()
    for prefix in (PREFIX, PERSONAL_PREFIX):
        number = parse_number(folded, prefix)
        if number is not None:
            return format_name(number, prefix)
    return folded


def names_in(inside: str, names: Collection[str], by_form: dict[str, str], *, all_known: bool = False) -> list[str]:
    """Return the entries that brackets name: a name of a legacy file may hold a separator or a backslash itself.

    Args:
        inside: The text in the brackets.
        names: The entries that can be named.
        by_form: Their forms, which are added to an empty one once a word needs them.
        all_known: Whether a word that is no name makes the others have no effect.
    """

    def find(word: str) -> str:
        word = word.strip(_AROUND)
        if word in names:
            return word
        # Most texts write names as they are, and need no forms of all the others.
        for name in () if by_form else names:
            # Where case alone distinguishes two entries, only the exact name cites one of them.
            form = _fold(name)
            by_form[form] = "" if form in by_form else name
        return by_form.get(_fold(word), "")

    if inside in names:
        return [inside]
    text = inside.replace("\\", "")
    for separator in _SEPARATORS:
        text = text.replace(separator, ",")
    found: list[str] = []
    for piece in (text, *text.split(",")):
        words = [piece] if find(piece) else [word for word in piece.split() if word.casefold() != _AND]
        meant = list(map(find, words))
        # Of several words each is a name: `[kpt_001 helpful]` is a mark, and `[see kpt_001]` a remark.
        if all(meant):
            found += meant
        elif all_known and piece is not text:
            return []
    return list(dict.fromkeys(found))


# What a lineage was given


def find_given(project: AnyProject, session: str, names: Collection[str], subagent: str = "") -> set[str]:
    """Return which of some entries a ledger gave to the lineage of a session, or to a subagent in it.

    Args:
        project: Whose ledger is asked.
        session: The session.
        names: The entries, by the names that the session was given.
        subagent: The subagent's id; empty for the lineage.

    Raises:
        CannotWriteError: The log cannot be read.
    """
    given: set[str] = set()
    for agent, injection in injections(project, session) if names else ():
        if subagent in {"", agent}:
            given.update(name for name in injection.get("names") or () if name in names)
        if len(given) == len(set(names)):
            break
    return given


def injections(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what hooks, ``playbook`` and MCP recorded as given to the lineage of a session, in the log newest first.

    Each comes after the subagent that it was given to, empty for the session. Neither the log nor the spool is
    verified: the answer decides which citations are recorded, and changes no entry.

    Raises:
        CannotWriteError: The log cannot be read; what waits in the spool and cannot be read is passed over.
    """
    sessions = [session]
    for member in filter(None, sessions):
        for source in (_read_recorded, _read_spooled):
            for agent, body in source(project, member):
                yield agent, body
                before = body.get("lineage")
                # A planted ledger can tie lineages into a ring.
                if isinstance(before, str) and before not in sessions and len(sessions) < MAX_SESSIONS:
                    sessions.append(before)


def _read_recorded(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    needle = f'"session":{dumps(session)}'.encode("utf-8", "replace")
    path = JsonlLog(project.ledger).log_file
    try:
        for line in lines_before(path, os.stat(path).st_size, needle, MAX_SEARCHED_BYTES):
            # A text, damage or another kind of event may hold the session's id as well.
            if kind_of(line) == KIND:
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    event = loads(line.decode("utf-8"))
                    if event["by"]["session"] == session and isinstance(event["body"], dict):
                        yield str(event["by"].get("agent", "")), event["body"]
    except FileNotFoundError:
        return
    except OSError as error:
        # Taken for an empty log, it would lose the citations: the transcript counts as read.
        raise CannotWriteError(path, f"cannot be read: {disk.reason(error)}") from error


def _read_spooled(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what the spool holds of it: the ledger did not accept it yet."""
    from tallybook.ledger.storage import spool

    if os.path.isdir(os.path.join(project.ledger, spool.FOLDER)):
        for file in spool.read_files(project.ledger)[0]:
            # Another program may have put a file there.
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                for request in file.requests:
                    if request["by"].get("session") == session:
                        agent = str(request["by"].get("agent", ""))
                        yield from ((agent, row[2]) for row in request.get("facts", ()) if row[0] == KIND)
