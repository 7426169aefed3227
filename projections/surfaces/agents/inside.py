"""Whether a command was typed inside an agent, by the variables that agents set in their shells.

What an agent types is the agent's: it is recorded as such and screened for secrets, and never is a person's consent.
"""

from __future__ import annotations

import os

from tallybook.ledger.errors import EXIT_NO, TallybookError
from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SHELL_VARIABLES: dict[str, tuple[tuple[str, ...], str]] = {
    "claude": (("CLAUDECODE", "CLAUDE_CODE_SESSION_ID"), "CLAUDE_CODE_SESSION_ID"),
    "codex": (("CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_CI", "CODEX_SANDBOX"), "CODEX_THREAD_ID"),
    "gemini": (("GEMINI_CLI", "GEMINI_SESSION_ID"), "GEMINI_SESSION_ID"),
    "copilot": (("COPILOT_CLI",), ""),
    "cursor": (("CURSOR_AGENT", "CURSOR_VERSION"), ""),
}
"""Name of an agent → the variables that it sets for its commands, and the one that holds the session's id."""


class PersonsOnlyError(TallybookError):
    """An agent typed what only a person may do."""

    exit_code = EXIT_NO


class RunningAgent(NamedTuple):
    """The agent in whose shell a command was typed.

    Attributes:
        agent: Its name; the first of the table where several run within each other.
        session: Id of its session; empty where it does not say.
        variable: The variable by which it was recognised.
    """

    agent: str
    session: str
    variable: str


def find_agent(environment: Mapping[str, str] | None = None) -> RunningAgent | None:
    """Return the agent in whose shell this process runs; None outside of one."""
    environment = os.environ if environment is None else environment
    for agent, (variables, session) in SHELL_VARIABLES.items():
        for variable in variables:
            if environment.get(variable):
                return RunningAgent(agent, environment.get(session, "") if session else "", variable)
    return None


def require_person(verb: str, rater: str | None = "human") -> None:
    """Refuse a verb that only a person may use, inside an agent and for another rater.

    Raises:
        PersonsOnlyError: An agent typed it.
    """
    # A hook that names itself as the rater decides nothing either.
    agent = find_agent()
    if agent is not None or rater != "human":
        who = f"it was typed inside {agent.agent} ({agent.variable} is set)" if agent else f"the rater is {rater}"
        raise PersonsOnlyError(f"{verb}: only a person may do this, and {who}; nothing was recorded")
