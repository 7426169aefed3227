"""What the module of an agent describes: its payloads and the answers that it takes. Standard library only."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple, dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


class Payload(NamedTuple):
    """What happened in a session.

    Attributes:
        event: The event by its name in Claude Code, a key of ACTIONS; empty if it means nothing to Tallybook.
        session: The session's id, empty if it has none.
        folder: The folder that the agent works in, empty if it is not given.
        transcript: Path of the session's transcript, empty without one.
        source: Why a session begins: startup, resume, clear, compact, fork, new; empty for other events.
        subagent: Id of the subagent that it happened in, empty in the session itself.
        text: The agent's last message, or the input of a tool.
        where: ``message``, or the name of the tool.
        occasion: An id that is unique in the session, such as the tool call's; empty if there is none.
        prompt: Id of the prompt that it happened at, empty if the agent gives none.
        name: The event by the agent's own name, which an answer repeats.
        agent: The caller, a key of AGENTS; empty if it was not recognised.
        marks: What spoke for this caller, and for others, in words; only for a caller that was not recognised.
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
    name: str = ""
    agent: str = ""
    marks: tuple[str, ...] = ()

    @property
    def by(self) -> dict[str, str]:
        """Return the author of the event, as the ledger writes it."""
        by = {"rater": "tallybook", "session": self.session, "agent": self.subagent}
        return {field: value for field, value in by.items() if value}


class Agent(NamedTuple):
    """One agent.

    Attributes:
        title: Its name for people.
        read: Reads one of its payloads; a field that is missing or not a text is empty.
        injects_at: The events, by their names in Claude Code, whose answers give the model context; empty if no answer
            of it is known to do so.
        answer: Returns the answer that gives the model a text, from the event's own name and the text.
        size: Measures a text as the agent does.
        max_size: The longest text that the agent passes on whole, by ``size``.
        awaits_at_stop: Whether a session awaits reflection after each stop, because the agent may end without a hook.
    """

    title: str
    read: Callable[[Mapping[str, Any]], Payload]
    injects_at: tuple[str, ...]
    answer: Callable[[str, str], str]
    size: Callable[[str], int]
    max_size: int
    awaits_at_stop: bool


def nested_answer(event: str, text: str) -> str:
    """Return an answer as Claude Code, Codex and Gemini take it."""
    return dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def flat_answer(_event: str, text: str) -> str:
    """Return an answer as Copilot takes it."""
    return dumps({"additionalContext": text})


def count_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


def count_utf16(text: str) -> int:
    """Return the length of a text as JavaScript counts it: a character beyond the first 65,536 counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2


def text_of(document: Mapping[str, Any], *fields: str) -> str:
    """Return the first of these fields that holds a text, empty without one."""
    return next((value for field in fields if isinstance(value := document.get(field), str)), "")


def all_texts(value: object) -> str:
    """Return every text in a JSON value, a line each, in order and without the keys of objects."""
    texts, stack = [], [value]
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            texts.append(one)
        elif isinstance(one, dict | list):
            stack += reversed(list(one.values() if isinstance(one, dict) else one))
    return "\n".join(texts)
