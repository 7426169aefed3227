"""Codex CLI: Claude Code's events, a limit in bytes, and no event when a person quits. Standard library only."""

from __future__ import annotations

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.agent import Agent, Payload, count_bytes, nested_answer, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload."""
    return claude.read(document)._replace(prompt=text_of(document, "turn_id"))


AGENT = Agent(
    title="Codex CLI",
    read=read,
    injects_at=("SessionStart", "UserPromptSubmit", "PreToolUse"),
    # An unknown field makes the whole answer fail.
    answer=nested_answer,
    # 2,500 tokens of four bytes each; of a longer text the model sees the beginning and the end.
    size=count_bytes,
    max_size=10_000,
    # Its terminal interface leaves the session to a daemon when a person quits.
    awaits_at_stop=True,
)
