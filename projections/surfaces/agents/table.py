"""The table of agents, and which of them calls: told from the payload and the environment. Standard library only.

Agents run each other's settings files and inherit each other's variables, so neither the file that names a hook nor
one variable says who calls it.
"""

from __future__ import annotations

import os
import sys

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tallybook.projections.surfaces.agents.agent import Agent


class Marks(NamedTuple):
    """How to recognise an agent.

    Attributes:
        session_variable: Variable that holds the id of the session whose hook it calls, which is proof; empty if none.
        variables: Variables that it sets for its hooks. Agents that are started in its shell inherit them.
        fields: Fields that only its payloads have.
        transcripts: Its folder's variable, its folder below the home folder, and the folder of transcripts in there;
            empty if they are not known.
        has_timestamp: Whether each of its payloads has a ``timestamp``; None if that is not known.
    """

    session_variable: str = ""
    variables: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    has_timestamp: bool | None = False


CLAUDE = "claude"
AGENTS: dict[str, Marks] = {
    CLAUDE: Marks("CLAUDE_CODE_SESSION_ID", (), ("prompt_id",), ("CLAUDE_CONFIG_DIR", ".claude", "projects")),
    "codex": Marks(fields=("turn_id",), transcripts=("CODEX_HOME", ".codex", "sessions")),
    "gemini": Marks("GEMINI_SESSION_ID", ("GEMINI_SESSION_ID",), (), ("", ".gemini", "tmp"), has_timestamp=True),
    "copilot": Marks(
        variables=("COPILOT_CLI",),
        fields=("initial_prompt", "initialPrompt", "sessionId"),
        transcripts=("COPILOT_HOME", ".copilot", "session-state"),
        has_timestamp=True,
    ),
    "cursor": Marks(variables=("CURSOR_VERSION",), fields=("conversation_id", "workspace_roots"), has_timestamp=None),
}
"""Name of an agent → its marks. The module of the same name has the rest: its ``AGENT``."""

VARIABLES = tuple(
    variable
    for marks in AGENTS.values()
    for variable in (marks.session_variable, *marks.variables, *marks.transcripts[:1])
    if variable
)
"""Every variable that is read here."""

FOREIGN_FIELDS = ("hookEventName",)
"""Fields of the payloads of agents that are not in the table: of Visual Studio Code."""


class Caller(NamedTuple):
    """Who calls.

    Attributes:
        agent: A key of AGENTS; empty if it is not known.
        marks: The marks that were found, in words.
    """

    agent: str
    marks: tuple[str, ...] = ()


def load(name: str) -> Agent:
    """Return an agent of the table; its module is loaded only now, because a hook needs one of them."""
    module = f"{__package__}.{name}"
    __import__(module)
    agent: Agent = sys.modules[module].AGENT
    return agent


def transcripts_folder(name: str) -> str:
    """Return the folder where an agent keeps its transcripts, empty if it is not known."""
    if not AGENTS[name].transcripts:
        return ""
    variable, folder, below = AGENTS[name].transcripts
    return os.path.join(_variable(variable) or os.path.join(os.path.expanduser("~"), folder), below)


def recognise(document: Mapping[str, Any]) -> Caller:
    """Return who calls.

    A session's id in the environment that equals the payload's is proof: then inherited marks of others do not count.
    Otherwise the payload decides, and the environment only where the payload does not. Marks that contradict each
    other decide nothing. A payload of Claude Code's shape without any mark is Claude Code's, or Codex's if it says that
    there is no transcript.
    """
    by_payload = {name: fields for name in AGENTS if (fields := _payload_marks(name, document))}
    by_variable = {name: AGENTS[name].variables for name in AGENTS if any(map(_variable, AGENTS[name].variables))}
    foreign = tuple(field for field in FOREIGN_FIELDS if field in document)
    marks = (*sum([*by_payload.values(), *by_variable.values()], ()), *foreign)
    session = document.get("session_id")
    proven = [name for name in AGENTS if session and session == _variable(AGENTS[name].session_variable)]
    if len(proven) == 1:
        return Caller(proven[0], marks)
    if foreign:
        return Caller("", marks)
    # Codex has no transcript of a session that it does not save, and the start of one has no field of its own.
    unmarked = CLAUDE if document.get("transcript_path", "") is not None else "codex"
    agent, *others = by_payload or by_variable or (unmarked,)
    return Caller(agent if not others and (by_payload or _may_be(agent, document)) else "", marks)


def _may_be(name: str, document: Mapping[str, Any]) -> bool:
    """Return whether a payload without a field of its own can be an agent's.

    Not if the variable with its session's id names another session: then the caller inherited it.
    """
    has_timestamp = "timestamp" in document
    return AGENTS[name].has_timestamp in {None, has_timestamp} and not (
        name != CLAUDE and _variable(AGENTS[name].session_variable)
    )


def _variable(name: str) -> str:
    return os.environ.get(name, "") if name else ""


def _payload_marks(name: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of a payload that only this agent writes."""
    fields = tuple(field for field in AGENTS[name].fields if field in document)
    path, folder = document.get("transcript_path") or document.get("transcriptPath"), transcripts_folder(name)
    if isinstance(path, str) and folder and path.startswith(os.path.join(folder, "")):
        return (*fields, "transcript_path")
    return fields
