"""What agents tell their hooks, in one shape: a row and a small function for each agent. Standard library only."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Payload(NamedTuple):
    """What happened in a session.

    Attributes:
        event: What the agent calls it.
        session: The session's id, empty where it has none.
        folder: The folder that the agent works in, empty where it does not say.
        transcript: Path of the session's transcript, empty without one.
        source: Why a session begins: startup, resume, clear, compact, fork; empty at other events.
        subagent: Id of the subagent that it happened in, empty in the session itself.
        said: What the agent said last, or handed to a tool.
        where: ``message``, or the name of the tool.
        occasion: What tells this occasion from others of its kind in the session, empty where nothing does.
        prompt: Id of the prompt that it happened at, empty where the agent gives none.
    """

    event: str
    session: str
    folder: str = ""
    transcript: str = ""
    source: str = ""
    subagent: str = ""
    said: str = ""
    where: str = "message"
    occasion: str = ""
    prompt: str = ""


def claude(found: Mapping[str, Any]) -> Payload:
    """Return what Claude Code tells; fields that are missing, or no texts, are empty."""

    def text(field: str) -> str:
        value = found.get(field)
        return value if isinstance(value, str) else ""

    tool = text("tool_name")
    return Payload(
        text("hook_event_name"),
        text("session_id"),
        text("cwd"),
        text("transcript_path"),
        text("source"),
        text("agent_id"),
        "\n".join(_texts(found.get("tool_input"))) if tool else text("last_assistant_message"),
        tool or "message",
        text("tool_use_id"),
        text("prompt_id"),
    )


def _texts(value: object) -> list[str]:
    """Return every text in a JSON value, in order, keys left out."""
    texts, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict | list):
            left += reversed(list(one.values() if isinstance(one, dict) else one))
    return texts


AGENTS: dict[str, Callable[[Mapping[str, Any]], Payload]] = {"claude": claude}
"""Agent → what turns its payloads into that shape."""
