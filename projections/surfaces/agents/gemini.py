"""Gemini CLI: its own names of events, and a place for context after the prompt. Standard library only."""

from __future__ import annotations

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.agent import Agent, Payload, count_utf16, nested_answer, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

EVENTS = {
    "SessionStart": "SessionStart",
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "SessionEnd": "SessionEnd",
}
"""Its name of an event → Claude Code's. PreCompress comes at every turn, compressed or not, and means nothing."""


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload."""
    payload = claude.read(document)
    message = payload.text if document.get("tool_name") else text_of(document, "prompt_response")
    return payload._replace(event=EVENTS.get(payload.name, ""), text=message)


AGENT = Agent(
    title="Gemini CLI",
    read=read,
    # At a session's start the text would precede the first prompt, break a command there, and be lost on --resume.
    injects_at=("UserPromptSubmit",),
    answer=nested_answer,
    # No limit was met with 60,000 characters.
    size=count_utf16,
    max_size=60_000,
    # It does not wait for the hook of its end.
    awaits_at_stop=True,
)
