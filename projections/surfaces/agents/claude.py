"""Claude Code. Standard library only."""

from __future__ import annotations

from tallybook.projections.surfaces.agents.agent import (
    Agent,
    Payload,
    all_texts,
    count_utf16,
    nested_answer,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload."""
    name, tool = text_of(document, "hook_event_name"), text_of(document, "tool_name")
    return Payload(
        name,
        text_of(document, "session_id"),
        text_of(document, "cwd"),
        text_of(document, "transcript_path"),
        text_of(document, "source"),
        text_of(document, "agent_id"),
        all_texts(document.get("tool_input")) if tool else text_of(document, "last_assistant_message"),
        tool or "message",
        text_of(document, "tool_use_id"),
        text_of(document, "prompt_id"),
        name,
    )


AGENT = Agent(
    title="Claude Code",
    read=read,
    injects_at=("SessionStart", "UserPromptSubmit", "PreToolUse", "SubagentStart"),
    answer=nested_answer,
    # A longer text goes into a file, and the model sees its beginning.
    size=count_utf16,
    max_size=10_000,
    awaits_at_stop=False,
)
