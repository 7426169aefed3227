"""Cursor, from descriptions by others: it was not run here, and no field that takes context is known.

Standard library only.
"""

from __future__ import annotations

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.table import (
    Agent,
    Payload,
    all_texts,
    count_utf16,
    flat_answer,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tallybook.projections.surfaces.agents.installation import Installation

EVENTS = {
    "sessionStart": "SessionStart",
    "beforeSubmitPrompt": "UserPromptSubmit",
    "postToolUse": "PostToolUse",
    "afterShellExecution": "PostToolUse",
    "afterMCPExecution": "PostToolUse",
    "afterAgentResponse": "Stop",
    "stop": "Stop",
    "sessionEnd": "SessionEnd",
}
"""Its name of an event → Claude Code's."""


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload; its transcripts are not known, so it names none."""
    # Only known fields are taken: Cursor also sends the person's mail address, which must not be stored.
    payload = claude.read(document)
    roots = document.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    command = text_of(document, "command")
    return payload._replace(
        event=EVENTS.get(payload.name, payload.name),
        session=text_of(document, "conversation_id", "session_id"),
        folder=payload.folder or first,
        transcript="",
        text=command or all_texts(document.get("tool_input")) or text_of(document, "text"),
        where="Shell" if command else payload.where,
    )


AGENT = Agent(
    title="Cursor",
    read=read,
    # No answer of its hooks is known to reach the model.
    injects_at=(),
    answer=flat_answer,
    size=count_utf16,
    max_size=0,
    awaits_at_stop=False,
)


def installation() -> Installation:
    """Return its files, by the same descriptions."""
    from tallybook.projections.surfaces.agents import installation as form

    return form.Installation(
        title=AGENT.title,
        folder=".cursor",
        home=("", ".cursor"),
        file="hooks.json",
        # As it is given nothing, only events with citations and ends are installed.
        events=dict.fromkeys(("postToolUse", "afterAgentResponse", "stop", "sessionEnd"), 0),
        group=lambda line, _: {"command": line},
        timeout="",
        is_nested=False,
        document={"version": 1},
        programs=("cursor", "cursor-agent"),
        remark="is not given the playbook, because no answer of its hooks is known to reach the model; "
        "its hooks record which entries it cites",
    )
