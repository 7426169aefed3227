"""Cursor, from descriptions by others: it was not run here, and no field that takes context is known.

Standard library only.
"""

from __future__ import annotations

from tallybook.projections.surfaces.agents import claude, table

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


def read(document: table.Document) -> table.Payload:
    """Return a payload; its transcripts are not known, so it names none."""
    # Only known fields are taken: Cursor also sends the person's mail address, which must not be stored.
    payload = claude.read(document)
    roots = document.get("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    command = table.text_of(document, "command")
    return payload._replace(
        event=EVENTS.get(payload.name, payload.name),
        session=table.text_of(document, "conversation_id", "session_id"),
        folder=payload.folder or first,
        transcript="",
        text=command or table.collect_texts(document.get("tool_input")) or table.text_of(document, "text"),
        where="Shell" if command else payload.where,
    )
