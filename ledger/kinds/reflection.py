"""Events about reflection: requested, started, what was read of a transcript, and the outcome.

Each is about the session that its line names in ``by``.
"""

from __future__ import annotations

import attrs

from tallybook.ledger.kinds.fields import NOT_NEGATIVE, Kind, free_text


@attrs.frozen(eq=False, repr=False)
class ReflectionRequested(Kind):
    """A transcript awaits reflection up to an offset; ranges that were read before are not read again.

    Attributes:
        end: Length of the transcript, in bytes.
        trigger: The agent's event that caused the request.
        transcript: Path of the transcript.
    """

    end: int = attrs.field(validator=NOT_NEGATIVE)
    trigger: str
    transcript: str | None = free_text()


@attrs.frozen(eq=False, repr=False)
class ReflectionStarted(Kind):
    """A model is about to be called. Without a later completion or failure the call was interrupted.

    Attributes:
        rater: Which rater is called: claude, anthropic.
        tokens: Expected cost, in tokens.
    """

    rater: str
    tokens: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class TranscriptRead(Kind):
    """A range of a transcript was evaluated; its ratings are in the same batch.

    Attributes:
        file: Empty for the session's own transcript, else the name of a subagent's: ``agent-a1b2``.
        begin: Offset of the first byte of the range.
        end: Offset after its last line, where the next range begins.
        seen: Offset up to which the transcript is accounted for; above ``end`` only where the last line was incomplete.
        last: ``uuid`` of the last line, which identifies a copy of the transcript; empty without one.
        rater: Which rater evaluated it; ``none`` where it was only searched for citations.
    """

    file: str
    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    seen: int = attrs.field(validator=NOT_NEGATIVE)
    last: str
    rater: str


@attrs.frozen(eq=False, repr=False)
class ReflectionCompleted(Kind):
    """A model's answer was recorded; the ranges and ratings of this batch come from it.

    Attributes:
        rater: Which rater was called.
        input_tokens: Tokens sent, as the rater counted them.
        output_tokens: Tokens received, as the rater counted them.
    """

    rater: str
    input_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    output_tokens: int = attrs.field(validator=NOT_NEGATIVE)


@attrs.frozen(eq=False, repr=False)
class ReflectionFailed(Kind):
    """A reflection gave no result; it is tried again later, unless its transcript is gone.

    Attributes:
        rater: Which rater was called, or was about to be.
        cause: gone (no transcript), unavailable, refused, or unusable (an answer without anything to record).
        input_tokens: Tokens sent all the same; 0 where not known.
        output_tokens: Tokens received all the same; 0 where not known.
        reason: What went wrong, in a few words.
    """

    rater: str
    cause: str
    input_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    output_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    reason: str | None = free_text()
