"""What a lineage was given, by the ledger: the answer for hooks, for the worker, and for all that count a citation.

A lineage is a session with its resumes, forks, compactions and subagents. Standard library only.
"""

from __future__ import annotations

from contextlib import suppress
import os

from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import dumps, import_lazily, loads
from tallybook.ledger.log import JsonlLog
from tallybook.projections.surfaces.hooks import ledger_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from tallybook.ledger.storage import spool
    from tallybook.projections.surfaces.workspace.project import AnyProject
else:
    [spool] = import_lazily("tallybook.ledger.storage.spool")

KIND = "playbook.injected"
MAX_SEARCHED_BYTES = 256 * 1024 * 1024
"""So much of the end of a log is searched for what a session was given, some 800,000 events: a tenth of a second."""
MAX_SESSIONS = 16
"""So many forks of forks are followed."""


def find_given(project: AnyProject, session: str, names: Collection[str], subagent: str = "") -> set[str]:
    """Return which of some entries a ledger gave to the lineage of a session, or to a subagent in it.

    Args:
        project: Whose ledger is asked.
        session: The session.
        names: The entries, by the names that the session was given.
        subagent: The subagent's id; empty for the lineage.
    """
    given: set[str] = set()
    for agent, injection in _injections(project, session) if names else ():
        if subagent not in {"", agent}:
            continue
        given.update(name for name in injection.get("names") or () if name in names)
        if len(given) == len(set(names)):
            break
    return given


def injections(project: AnyProject, session: str) -> Iterator[Mapping[str, Any]]:
    """Yield what hooks, ``playbook`` and MCP recorded as given to the lineage of a session, in the log newest first."""
    return (body for _, body in _injections(project, session))


def _injections(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the same, each with the subagent that it was given to, empty for the session.

    Neither the log nor the spool is verified: the answer decides which citations are recorded, and changes no entry.
    """
    sessions = [session]
    for member in filter(None, sessions):
        for source in (_recorded, _waiting):
            for agent, body in source(project, member):
                yield agent, body
                before = body.get("lineage")
                if isinstance(before, str) and before not in sessions and len(sessions) < MAX_SESSIONS:
                    sessions.append(before)


def _recorded(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    needle = f'"session":{dumps(session)}'.encode("utf-8", "replace")
    path = JsonlLog(project.ledger).log_file
    with suppress(OSError, TallybookError):
        for line in ledger_access.lines_before(path, os.stat(path).st_size, needle, MAX_SEARCHED_BYTES):
            if ledger_access.kind_of(line) == KIND:
                with suppress(ValueError, KeyError, TypeError, RecursionError):
                    event = loads(line.decode("utf-8"))
                    if event["by"]["session"] == session and isinstance(event["body"], dict):
                        yield str(event["by"].get("agent", "")), event["body"]


def _waiting(project: AnyProject, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield what the spool holds of it: the ledger did not accept it yet."""
    if os.path.isdir(os.path.join(project.ledger, spool.FOLDER)):
        for file in spool.read_files(project.ledger)[0]:
            # Another program may have put a file there.
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                for request in file.requests:
                    if request["by"].get("session") == session:
                        agent = str(request["by"].get("agent", ""))
                        yield from ((agent, row[2]) for row in request.get("facts", ()) if row[0] == KIND)
