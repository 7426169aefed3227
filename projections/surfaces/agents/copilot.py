"""Copilot CLI: fields in camelCase or as in Claude Code, by the spelling of the event, and a flat answer.

Standard library only.
"""

from __future__ import annotations

import os

from tallybook.projections.surfaces.agents import claude
from tallybook.projections.surfaces.agents.agent import (
    Agent,
    Payload,
    all_texts,
    count_utf16,
    flat_answer,
    text_of,
)
from tallybook.projections.surfaces.agents.table import transcripts_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def read(document: Mapping[str, Any]) -> Payload:
    """Return a payload; it names no transcript at a session's start and end, and one in camelCase names no event."""
    payload = claude.read(document) if "hook_event_name" in document else _read_camel_case(document)
    transcript = payload.transcript or _transcript_of(payload.session)
    return payload._replace(transcript=transcript, subagent="", text=payload.text if payload.where != "message" else "")


def _read_camel_case(document: Mapping[str, Any]) -> Payload:
    tool = text_of(document, "toolName")
    return Payload(
        _guess_event(document),
        text_of(document, "sessionId"),
        text_of(document, "cwd"),
        text_of(document, "transcriptPath"),
        text_of(document, "source"),
        text=all_texts(document.get("toolArgs")) if tool else "",
        where=tool or "message",
        name=_guess_event(document),
    )


def _guess_event(document: Mapping[str, Any]) -> str:
    """Return the event whose payload has these fields, by its name in Claude Code."""
    if "toolName" in document:
        return "PostToolUse" if "toolResult" in document else "PreToolUse"
    for field, event in (
        ("source", "SessionStart"),
        ("initialPrompt", "SessionStart"),
        ("stopReason", "Stop"),
        ("prompt", "UserPromptSubmit"),
        ("trigger", "PreCompact"),
        ("reason", "SessionEnd"),
    ):
        if field in document:
            return event
    return ""


def _transcript_of(session: str) -> str:
    """Return the path of a session's transcript, empty if there is none."""
    plain = session and not {"/", "\\", "\0"}.intersection(session) and session not in {".", ".."}
    path = os.path.join(transcripts_folder("copilot"), session, "events.jsonl") if plain else ""
    return path if path and os.path.isfile(path) else ""


AGENT = Agent(
    title="Copilot CLI",
    read=read,
    # It reads no context from its other answers, and announces no end of a compaction.
    injects_at=("SessionStart",),
    answer=flat_answer,
    # No limit is documented; this much was seen to pass.
    size=count_utf16,
    max_size=10_000,
    awaits_at_stop=True,
)
