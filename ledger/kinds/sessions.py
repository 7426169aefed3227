"""Events about sessions: what an agent saw and cited, reflection on it, and measurements.

Each is about the session that its line names in ``by``.
"""

from __future__ import annotations

from typing import Any

import attrs

from tallybook.ledger.kinds.fields import EXACT, FREE_TEXT, NAMES, NOT_NEGATIVE, PERCENT, Event, Numbers
from tallybook.ledger.kinds.limits import MAX_HOLD

# ---- What an agent saw and cited ----


def _check_counts(_event: object, field: attrs.Attribute[Any], counts: Numbers) -> None:
    """Refuse a count that is not an integer from 0."""
    if not all(type(count) is int and count >= 0 for count in counts.values()):
        raise ValueError(f"{field.name!r} must have integers from 0: {dict(counts)}")


def _check_draw(event: PlaybookInjected, _field: object, probability: float) -> None:
    """Refuse half a draw: a question has units and a probability, and without one there is neither."""
    if not 0 <= probability <= MAX_HOLD or {bool(probability), bool(event.units)} != {bool(event.question)}:
        raise ValueError(f"a draw needs a question, units and a probability up to {MAX_HOLD}: {probability}")
    if event.held and not event.question:
        raise ValueError("entries are held for a question only")


class PlaybookInjected(Event, kind="playbook.injected", version=3):
    """A session received the playbook, or what a draw left of it; a fork, nothing: it has what its parent was given.

    Attributes:
        names: The entries that it received, in order.
        held: The entries that were selected for it and then withheld by the draw, in order.
        left_out: Cause → how many further entries were not selected; ``room``: they did not fit.
        lowest: The lowest score of a selected entry; None without one, and where entries were not ranked by a task.
        candidates: Digest of the names that were selected from, in order; empty where unknown.
        question: Id of the ``lift.asked`` that the draw is for; empty without a draw.
        lineage: With a draw, the session with which the conversation began; for a fork, the session that it continues;
            empty otherwise.
        units: What was drawn for: ``playbook``, ``new``, or entries' names; empty without a draw.
        probability: With which each unit was held, up to MAX_HOLD; 0 without a draw.
        file: The file whose block of entries the session read by itself, ``AGENTS.md``; empty where it was given them.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    held: tuple[str, ...] = attrs.field(validator=NAMES)
    left_out: Numbers = attrs.field(validator=_check_counts)
    lowest: float | None = attrs.field(validator=EXACT)
    candidates: str
    question: str
    lineage: str
    units: tuple[str, ...] = attrs.field(validator=NAMES)
    # Verdicts of lift are computed from it, whatever the settings say by then.
    probability: float = attrs.field(validator=_check_draw)
    file: str = ""


class PointCited(Event, kind="point.cited"):
    """An agent named an entry in a message or in a tool call. It shows use, not approval, so it is not a rating.

    Attributes:
        name: The entry.
        where: ``message``, or the name of the tool.
    """

    name: str
    where: str


# ---- Reflection: a model rates a session ----


class ReflectionRequested(Event, kind="reflection.requested"):
    """A transcript awaits reflection up to an offset; ranges that were read before are not read again.

    Attributes:
        end: Length of the transcript, in bytes.
        trigger: The agent's event that caused the request.
        transcript: Path of the transcript.
    """

    end: int = attrs.field(validator=NOT_NEGATIVE)
    trigger: str
    transcript: str | None = attrs.field(metadata=FREE_TEXT)


class ReflectionStarted(Event, kind="reflection.started"):
    """A model is about to be called. Without a later completion or failure the call was interrupted.

    Attributes:
        rater: Which rater is called: claude, anthropic.
        tokens: Expected cost, in tokens.
    """

    # Recorded before the request is sent: a process that dies meanwhile would leave no trace of the cost.
    rater: str
    tokens: int = attrs.field(validator=NOT_NEGATIVE)


class TranscriptRead(Event, kind="transcript.read"):
    """A range of a transcript was evaluated; its ratings are in the same batch.

    Attributes:
        file: Empty for the session's own transcript, else the name of a subagent's: ``agent-a1b2``.
        begin: Offset of the first byte of the range.
        end: Offset after its last line, where the next range begins; 0 where nobody has said anything yet.
        seen: Offset up to which the transcript is accounted for; above ``end`` where the last line was incomplete, or
            nobody has said anything yet.
        last: ``uuid`` of the last line, which identifies a copy of the transcript; empty without one.
        rater: Which rater evaluated it; ``none`` where it was only searched for citations.
    """

    # In one batch with the results, so that a kill loses both or neither and no part is rated twice.
    file: str
    begin: int = attrs.field(validator=NOT_NEGATIVE)
    end: int = attrs.field(validator=NOT_NEGATIVE)
    seen: int = attrs.field(validator=NOT_NEGATIVE)
    last: str
    rater: str


class ReflectionCompleted(Event, kind="reflection.completed"):
    """A model's answer was recorded; the ranges and ratings of this batch come from it.

    Attributes:
        rater: Which rater was called.
        input_tokens: Tokens sent, as the rater counted them.
        output_tokens: Tokens received, as the rater counted them.
    """

    rater: str
    input_tokens: int = attrs.field(validator=NOT_NEGATIVE)
    output_tokens: int = attrs.field(validator=NOT_NEGATIVE)


class ReflectionFailed(Event, kind="reflection.failed"):
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
    reason: str | None = attrs.field(metadata=FREE_TEXT)


# ---- Measurements of an agent's components and sessions ----

# They count for the line's ``when``, or else its ``at``. The name of a component is recorded as received; the score
# configuration maps it to a component.


class MetricsRecorded(Event, kind="metrics.recorded"):
    """Metrics of a component.

    Attributes:
        component: The component, ``ac01``; empty where none was named, and then the metrics have no effect.
        metrics: Name → value: a number, or true or false. The score configuration decides whether values add up or
            the last one counts.
        source: Type of the telemetry event that they come from; empty for metrics that were sent as such.
    """

    component: str
    metrics: Numbers
    source: str


def _check_passed(event: BenchmarkRecorded, _field: object, total: int) -> None:
    """Refuse more passed cases than there are cases."""
    if event.passed > total:
        raise ValueError(f"{event.passed} of {total} cases cannot have passed")


class BenchmarkRecorded(Event, kind="benchmark.recorded"):
    """The result of a benchmark of a component.

    Attributes:
        component: The component.
        benchmark: Name of the benchmark; empty where it has none.
        passed: How many of its cases passed, from 0 to ``total``.
        total: How many cases it has, 0 or more.
    """

    component: str
    benchmark: str
    passed: int = attrs.field(validator=NOT_NEGATIVE)
    total: int = attrs.field(validator=(NOT_NEGATIVE, _check_passed))


class FeedbackRecorded(Event, kind="feedback.recorded"):
    """A person's judgement of a component, or of a session as a whole.

    Attributes:
        component: The component; empty for the session.
        score: From 0 to 100.
        verdict: The word that was given for the score: helpful, harmful or neutral; empty where it was a number.
        note: Why; empty where no reason was given.
    """

    component: str
    score: float = attrs.field(validator=PERCENT)
    verdict: str
    note: str | None = attrs.field(metadata=FREE_TEXT)


class BaselineSet(Event, kind="baseline.set"):
    """The value that a score is compared with from now on; earlier drops of the score are accepted.

    Attributes:
        score: Which score: a component, ``ac06``, or one of a session, ``session.overall``.
        value: From 0 to 100.
        reason: Why; empty where no reason was given.
    """

    # A drop that was acknowledged must not close gates for ever.
    score: str
    value: float = attrs.field(validator=PERCENT)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


def _check_measures(_event: object, _field: object, numbers: Numbers) -> None:
    """Refuse a number below 0, and more failed calls or tests than there are."""
    pairs = (("failed", "calls"), ("tests_failed", "tests"))
    if min(numbers.values(), default=0) < 0 or any(numbers.get(part, 0) > numbers.get(all_, 0) for part, all_ in pairs):
        raise ValueError(f"numbers must be from 0, and no more can fail than there are: {dict(numbers)}")


class SessionMeasured(Event, kind="session.measured"):
    """What the transcript of a session says about its work, without its subagents; a later event replaces it.

    Attributes:
        numbers: ``prompts``; ``calls`` of tools, and how many ``failed``; ``aborted``, how often a person interrupted;
            ``tokens_in`` and ``tokens_out``, where the transcript has them; ``seconds``, from each prompt to the last
            line before the next; ``first_answer_s``, from the first prompt to the first answer; ``compactions``;
            runs of ``tests``, ``tests_failed``, and ``last_test_failed``, where tests ran; ``ended``, whether the
            agent reported the session's end.
    """

    # Numbers alone: nothing of a prompt or a command is kept.
    numbers: Numbers = attrs.field(validator=_check_measures)


class SessionEnded(Event, kind="session.ended"):
    """A session ended.

    Attributes:
        version: Version of the agent or of its project, by which scores are compared; empty where unknown.
    """

    version: str


class TelemetryKept(Event, kind="telemetry.kept"):
    """A telemetry event without a scored value; kept as evidence, and counted.

    Attributes:
        component: The component that it names; empty without one.
        type: Its type as received; empty without one.
        reason: Why it is not scored, in a few words.
        original: The event as received, in JSON.
    """

    component: str
    type: str
    reason: str
    original: str | None = attrs.field(metadata=FREE_TEXT)


_SHARE = attrs.validators.and_(attrs.validators.gt(0), attrs.validators.le(1))


class LiftAsked(Event, kind="lift.asked"):
    """A person asks whether something helps; sessions that begin from here on are drawn for it.

    Attributes:
        question: About what: ``playbook``, all that is not pinned; ``new``, some entries as one group; ``names``,
            each of some entries.
        names: The entries that it is about; empty for ``playbook``.
        outcome: By what sessions are compared: ``clean``, the share of calls that did not fail, or a score.
        share: The error share: with which probability at most its verdict is ever false.
        scoring: Digest of the configuration by which a score is computed; empty for ``clean``.
    """

    question: str
    names: tuple[str, ...] = attrs.field(validator=NAMES)
    # Fixed before the first draw: another outcome is another question, with a series of its own.
    outcome: str
    share: float = attrs.field(validator=_SHARE)
    # After a change of the configuration there is no verdict until it is as it was.
    scoring: str


class LiftStopped(Event, kind="lift.stopped"):
    """A question is closed: nothing is withheld for it any more, and what is known stays.

    Attributes:
        id: Id of the event that asked it.
    """

    id: str
