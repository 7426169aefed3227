"""The payloads of agents' hooks, in one form: a row and a small function for each agent. Standard library only."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Payload(NamedTuple):
    """What happened in a session.

    Attributes:
        event: The agent's name for it.
        session: The session's id, empty if it has none.
        folder: The folder that the agent works in, empty if it is not given.
        transcript: Path of the session's transcript, empty without one.
        source: Why a session begins: startup, resume, clear, compact, fork; empty for other events.
        subagent: Id of the subagent that it happened in, empty in the session itself.
        text: The agent's last message, or the input of a tool.
        where: ``message``, or the name of the tool.
        occasion: An id that is unique in the session, such as the tool call's; empty if there is none.
        prompt: Id of the prompt that it happened at, empty if the agent gives none.
    """

    event: str
    session: str
    folder: str = ""
    transcript: str = ""
    source: str = ""
    subagent: str = ""
    text: str = ""
    where: str = "message"
    occasion: str = ""
    prompt: str = ""

    @property
    def by(self) -> dict[str, str]:
        """Return who reports the event, as the ledger writes it."""
        by = {"rater": "tallybook", "session": self.session, "agent": self.subagent}
        return {field: value for field, value in by.items() if value}


def read_claude(document: Mapping[str, Any]) -> Payload:
    """Return a payload of Claude Code; a field that is missing or not a text is empty."""

    def text(field: str) -> str:
        value = document.get(field)
        return value if isinstance(value, str) else ""

    tool = text("tool_name")
    return Payload(
        text("hook_event_name"),
        text("session_id"),
        text("cwd"),
        text("transcript_path"),
        text("source"),
        text("agent_id"),
        "\n".join(_texts(document.get("tool_input"))) if tool else text("last_assistant_message"),
        tool or "message",
        text("tool_use_id"),
        text("prompt_id"),
    )


def _texts(value: object) -> list[str]:
    """Return every text in a JSON value, in order, without the keys of objects."""
    texts, stack = [], [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict | list):
            stack += reversed(list(one.values() if isinstance(one, dict) else one))
    return texts


AGENTS: dict[str, Callable[[Mapping[str, Any]], Payload]] = {"claude": read_claude}
"""Name of an agent → the function that reads its payloads."""
