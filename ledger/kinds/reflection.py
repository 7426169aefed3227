"""The work on an agent's sessions: what is owed, what was begun, what was read, and how it ended.

The session that an event is about is the one that its line names.
"""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, Kind, free


@attrs.frozen(eq=False, repr=False)
class ReflectionRequested(Kind):
    """What a session said up to here is to be reflected on; what was reflected on before is left out.

    Attributes:
        end: Length of the transcript, in bytes.
        trigger: The agent's event that asked for it.
        transcript: The transcript's path.
    """

    end: int = attrs.field(validator=NOT_NEGATIVE)
    trigger: str
    transcript: str | None = free()


@attrs.frozen(eq=False, repr=False)
class ReflectionStarted(Kind):
    """A model is about to be asked. One that neither completes nor fails was broken off, and may have cost as much.

    Attributes:
        rater: Who is asked: claude, anthropic.
        tokens: What it is expected to cost, in tokens.
    """

    rater: str
    tokens: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class TranscriptRead(Kind):
    """A stretch of a transcript is done with: its evaluations stand in the same batch.

    Attributes:
        file: Empty for the session's own transcript, else the name of its subagent's: ``agent-a1b2``.
        begin: Where the stretch begins, in bytes.
        end: Where it ends, behind a line: the next one begins here.
        seen: How far the transcript is accounted for; more than ``end`` only by a last line that was half-written.
        last: The ``uuid`` of its last line, by which a copy of it is known; empty without one.
        rater: Who judged it; ``none`` where it was only searched for citations.
    """

    file: str
    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    seen: int = attrs.field(validator=NOT_NEGATIVE)
    last: str
    rater: str


@attrs.frozen(eq=False, repr=False)
class ReflectionCompleted(Kind):
    """A model's answer was taken in: the stretches and the evaluations of this batch come from it.

    Attributes:
        rater: Who was asked.
        input_tokens: What it was sent, in tokens, as it counted them.
        output_tokens: What it answered, likewise.
    """

    rater: str
    input_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    output_tokens: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class ReflectionFailed(Kind):
    """Nothing came of a reflection; it is tried again later, unless its transcript is gone.

    Attributes:
        rater: Who was asked, or was to be.
        cause: gone (no transcript), unavailable, refused, or unusable (an answer that says nothing to be recorded).
        input_tokens: What it cost all the same, in tokens; 0 where that is not known.
        output_tokens: Likewise.
        reason: What went wrong, in a few words.
    """

    rater: str
    cause: str
    input_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    output_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str | None = free()
