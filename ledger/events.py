"""The schema of the ledger: one frozen class for each kind of event, and the table of the kinds.

The fields of a class, in their order, are the fields of the line's ``body``. Fields declared with ``FREE_TEXT`` hold
text that a person or a model wrote; they are written to the line's free section and are None once they were redacted.

To add a kind, follow "An event kind" in CONTRIBUTING.md: besides its class it needs rows in several tables.
"""

from __future__ import annotations

from datetime import date
import json
from typing import Any, ClassVar, Final, NoReturn, Self, TypeGuard, dataclass_transform

import attrs

from tallybook.ledger.playbook_constants import MAX_HOLD, MAX_INT

# ---- The base class, and types and bounds of fields ----

FREE: Final = "free"
FREE_TEXT: Final = {FREE: True}
"""Metadata of a field whose text is written to the free section of a line, where it can be redacted."""


def check_count(_event: object, field: attrs.Attribute[Any], value: int) -> None:
    """Refuse a count that is below 0, or that not every JSON reader keeps exact."""
    # One function, because it runs for every count of every event that is read: validators of attrs would take four.
    if not 0 <= value <= MAX_INT:
        raise ValueError(f"{field.name!r} must be from 0 to 2^53: {value}")


def check_exact(_event: object, field: attrs.Attribute[Any], value: float | None) -> None:
    """Refuse a number that not every JSON reader keeps exact."""
    if value is not None and not abs(value) <= MAX_INT:
        raise ValueError(f"{field.name!r} must be from -2^53 to 2^53: {value}")


PERCENT: Final = attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(100))
NAMES: Final = attrs.validators.deep_iterable(attrs.validators.instance_of(str), attrs.validators.instance_of(tuple))


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(attrs.field,))
class Event:
    """Base of every event class: events are shown, compared and hashed by the values of their fields."""

    # What makes a class one of attrs, for the type checker.
    __attrs_attrs__: ClassVar[Any]

    def evolve(self, **changes: Any) -> Self:
        """Return the same event with other values in these fields."""
        return type(self)(**attrs.asdict(self, recurse=False) | changes)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in attrs.fields(type(self)))

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class with the same values."""
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        """Equal events have equal hashes."""
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        """Render as ``PointRated(name='kpt_001', rating='helpful')``."""
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in attrs.fields(type(self)))
        return f"{type(self).__name__}({values})"


def check_json_object(_event: object, field: attrs.Attribute[Any], value: str | None) -> None:
    """Refuse a text that is neither empty nor a JSON object that can be encoded again."""
    try:
        decoded = json.loads(value or "{}")
        json.dumps(decoded, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{field.name} is not JSON: {error}") from error
    if not isinstance(decoded, dict):
        raise TypeError(f"{field.name} is not a JSON object")


def check_day(_event: object, field: attrs.Attribute[Any], value: str) -> None:
    """Refuse a text that is neither empty nor a day such as ``2026-12-31``."""
    if value and not is_day(value):
        raise ValueError(f"{field.name!r} must be a day such as 2026-12-31: {value!r}")


def is_day(value: object) -> TypeGuard[str]:
    """Return whether a value is a day of the calendar as events write it, ``2026-12-31``."""
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


class Numbers(dict[str, float]):
    """An immutable, hashable dict of numbers, as a field of an event. A value lies within 2^53, or is true or false."""

    def __init__(self, values: dict[str, float]) -> None:
        """Copy the numbers.

        Raises:
            TypeError: A name is not a text, or a value is not a number.
            ValueError: A value lies beyond 2^53, or is NaN.
        """
        for name, value in values.items():
            if type(name) is not str or type(value) not in {bool, int, float}:
                raise TypeError(f"expected numbers by name, got {name!r}: {type(value).__name__}")
            if not abs(value) <= MAX_INT:
                raise ValueError(f"expected a number from -2^53 to 2^53 as {name}")
        super().__init__(values)

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same; 1, 1.0 and true differ, because JSON writes each differently."""
        return isinstance(other, Numbers) and self._typed_items() == other._typed_items()

    def __ne__(self, other: object) -> bool:
        """Return the opposite of ``==``; without it dict's own comparison would be used."""
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        """Equal numbers have equal hashes, whatever their order."""
        return hash(self._typed_items())

    def _typed_items(self) -> frozenset[tuple[str, type, float]]:
        return frozenset((name, type(value), value) for name, value in self.items())

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        raise TypeError("numbers of an event are immutable")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse


EDITS: Final = ("", "kept", "changed", "new", "copied")
"""What a manual edit did to the text of an entry; see ``PointEdited``."""

# ---- The ledger ----


class LedgerOpened(Event):
    """The first line of every ledger.

    Attributes:
        ledger: The ledger's own id, a UUIDv7; a copy keeps it.
        format: Number of the line format, from 1.
    """

    ledger: str
    format: int = attrs.field(validator=check_count)


class EventRedacted(Event):
    """The free text of an earlier event is erased from disk; its proof remains.

    From this line on readers accept that the text is missing. A missing text without such a line is damage.

    Attributes:
        id: Id of the earlier event.
        reason: Why it was redacted.
    """

    id: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class LogRecovered(Event):
    """A range of bytes that was never acknowledged and does not verify is sealed: readers skip exactly this range.

    Attributes:
        begin: Offset of the first sealed byte.
        end: Offset after the last one, where this line begins.
        digest: First 16 bytes of the range's SHA-256, in hex.
    """

    # Recovery never truncates, so readers must know what to skip.
    begin: int = attrs.field(validator=check_count)
    end: int = attrs.field(validator=check_count)
    digest: str


class UnknownEvent(Event):
    """An event of a kind or version that this Tallybook does not know: kept byte for byte, ignored by every view.

    Attributes:
        kind: Its kind.
        v: Its version.
        body: Its body, in JSON.
        free: Its free text by field, in JSON; None where it has none or was redacted.
    """

    kind: str
    v: int
    body: str
    free: str | None = None


# ---- The playbook: import, updates, manual edits ----


@attrs.frozen
class Entry:
    """An entry of the playbook (PlaybookEntry of the specification).

    Attributes:
        name: Unique in its playbook, never used again.
        text: Its text, or a placeholder where it was redacted.
        helpful: Count of helpful ratings, 0 or more (INV-SCORE-001).
        harmful: Count of harmful ratings, 0 or more (INV-SCORE-002).
    """

    name: str
    text: str
    helpful: int = 0
    harmful: int = 0


class PlaybookAdopted(Event):
    """A legacy ``playbook.json`` is imported; a ``point.seeded`` follows for each entry in the same batch.

    Attributes:
        source: SHA-256 of the file's bytes, in hex.
        entries: How many entries follow, 0 or more.
        top: The file's top-level keys other than ``key_points``, as a JSON object in the file's order; ``sections`` of
            entries as ``section_names``, heading → names.
    """

    source: str
    entries: int = attrs.field(validator=check_count)
    top: str | None = attrs.field(metadata=FREE_TEXT, validator=check_json_object)


class PointSeeded(Event):
    """An entry of a legacy file, a synthetic event for its history before the ledger.

    Attributes:
        name: Its name, from the file or generated.
        helpful: Count of helpful ratings before the ledger, 0 or more.
        harmful: Count of harmful ratings before the ledger, 0 or more.
        origin: Shape it had: canonical, bare_string, dict_no_score, dict_with_score, one_counter, section, or odd.
        text: Its text.
        original: The item of the file in JSON, where it differs from what was read; empty elsewhere.
    """

    name: str
    helpful: int = attrs.field(validator=check_count)
    harmful: int = attrs.field(validator=check_count)
    origin: str
    text: str | None = attrs.field(metadata=FREE_TEXT)
    original: str | None = attrs.field(metadata=FREE_TEXT)


class ItemSkipped(Event):
    """An item of a legacy or edited file that is not an entry; kept as evidence, ignored by every view.

    Attributes:
        index: Its index among the file's items, from 0.
        reason: Why it is not an entry, in a few words.
        original: The item of the file, in JSON.
    """

    index: int = attrs.field(validator=check_count)
    reason: str
    original: str | None = attrs.field(metadata=FREE_TEXT)


class PointAdded(Event):
    """A new entry; it starts without ratings.

    Attributes:
        name: Its name, never used before.
        text: Its text.
    """

    name: str
    text: str | None = attrs.field(metadata=FREE_TEXT)


RATINGS: Final = ("helpful", "harmful", "neutral")
"""The ratings that Tallybook knows; any other is recorded and has no effect."""


class PointRated(Event):
    """A rating of an entry, recorded as received.

    Attributes:
        name: The entry; the rating of a name that is not in the playbook is recorded and has no effect.
        rating: helpful (+1 helpful), harmful (+1 harmful), or anything else, which has no effect.
    """

    # Any text is a rating here: what a reflector says is evidence, also where it has no effect.
    name: str
    rating: str


class PlaybookUpdated(Event):
    """The end of an update, the only event that prunes (REQ-SCORE-007), even where the update was empty.

    Attributes:
        added: How many entries the update added.
        rated: How many ratings counted.
        ignored: How many parts had no effect, such as a rating of an unknown entry.
    """

    # Nothing else prunes, so that a replay equals load, update and save of the specification.
    added: int = attrs.field(validator=check_count)
    rated: int = attrs.field(validator=check_count)
    ignored: int = attrs.field(validator=check_count)


class PointEdited(Event):
    """A manual edit of ``playbook.json`` gave an entry these values.

    Attributes:
        name: The entry; one that is not in the playbook is added to it, even if it was pruned before.
        helpful: Its new count, 0 or more.
        harmful: Its new count, 0 or more.
        change: What its writer did to the text: "kept", "changed", "new" for an entry that he did not have, "copied"
            for such an entry whose text another one had; empty in version 1, which did not say.
        helpful_before: The count that its writer saw; 0 for a new entry.
        harmful_before: The count that its writer saw; 0 for a new entry.
        text: Its new text. A kept one that is redacted leaves the entry the text that it has.
    """

    name: str
    # Values and not differences: the same edit, recorded again, changes nothing.
    helpful: int = attrs.field(validator=check_count)
    harmful: int = attrs.field(validator=check_count)
    change: str = attrs.field(default="", validator=attrs.validators.in_(EDITS), kw_only=True)
    helpful_before: int = attrs.field(default=0, validator=check_count, kw_only=True)
    harmful_before: int = attrs.field(default=0, validator=check_count, kw_only=True)
    text: str | None = attrs.field(metadata=FREE_TEXT)


class PointRemoved(Event):
    """A manual edit removed an entry from ``playbook.json``.

    Attributes:
        name: The entry; its name is not used again.
    """

    name: str


class PlaybookOrdered(Event):
    """A new order of entries, in effect from the ``playbook.edited`` of the same batch.

    A long order is split over several events; their names are concatenated.

    Attributes:
        names: Names in their new order; entries that no part names follow in their old order.
    """

    # A line has at most 64 KiB, and a large playbook has more names than fit.
    names: tuple[str, ...] = attrs.field(validator=NAMES)


class PlaybookEdited(Event):
    """The end of a manual edit, or of a save that changed nothing. It prunes nothing.

    Attributes:
        base: Event number of the rendering that was edited; None where unknown.
        source: SHA-256 of the edited file's bytes; None where a program saved a dict.
        top: The new top-level keys other than ``key_points``, as a JSON object; empty where they did not change.
    """

    # Apart from an update, because loading and saving must give the same entries (INV-SCORE-005).
    base: int | None = attrs.field(validator=check_exact)
    source: str | None
    top: str | None = attrs.field(metadata=FREE_TEXT, validator=check_json_object)


# ---- Curation, by people and curators ----


class PointNoted(Event):
    """A remark that came with a rating or a citation; it has no effect.

    Attributes:
        name: The entry.
        note: The reason that was given, or a quote that shows it.
    """

    name: str
    note: str | None = attrs.field(metadata=FREE_TEXT)


class CurationEvent(Event):
    """What the curation events below have in common.

    Attributes:
        name: The entry.
        reason: Why; empty where none was given.
    """

    name: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointReworded(CurationEvent):
    """An entry gets another text; its counts stay.

    Attributes:
        text: Its new text.
    """

    text: str | None = attrs.field(metadata=FREE_TEXT)


class PointRetired(CurationEvent):
    """An entry leaves the playbook by decision; it can be restored."""


class PointRestored(CurationEvent):
    """An entry returns with its last text and counts, exempt from pruning until a harmful rating or edited counts."""


class PointPinned(CurationEvent):
    """An entry is exempt from pruning, whatever its ratings."""


class PointUnpinned(CurationEvent):
    """A pinned entry can be pruned again, from the next update on."""


class PointPlaced(CurationEvent):
    """An entry is put into a section of the playbook, in place of the one that it had.

    Attributes:
        section: The heading, one of SECTIONS; a heading that a later version has is kept as it is.
    """

    # No field of the event that adds an entry: an older Tallybook would lose the entry.
    section: str


class PointLimited(CurationEvent):
    """An entry holds until a day, in place of the one that it had: after it, it stays and is not injected.

    Attributes:
        until: The last day on which it is injected, ``2026-12-31``, in UTC; empty for no end.
    """

    # No field of other events: an older Tallybook reads theirs as they are, and ignores this one.
    until: str = attrs.field(validator=check_day)


class PointMerged(Event):
    """Entries that say the same are merged into one, which gets their counts and their later ratings.

    Attributes:
        name: The entry that remains.
        merged: Names of the entries that are merged into it.
        reason: Why; empty where none was given.
    """

    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class EventsVoided(Event):
    """Undo: from this line on views fold the log without these events; ids, keys and names remain used.

    Attributes:
        ids: Ids of the events; an earlier undo can be among them.
        session: A session whose playbook and score events before this one are all undone; None without one.
        reason: Why; empty where none was given.
    """

    # Not numbers, because an event has its id in every copy.
    ids: tuple[str, ...] = attrs.field(validator=NAMES)
    session: str | None
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointProposed(Event):
    """A change of an entry is proposed; it changes nothing until a person accepts it.

    Attributes:
        verb: What would be done: retire, reword, merge, unpin, rate, add or redact; update, merge or delete by a
            curator.
        name: The entry; empty for a new one.
        merged: Names of the entries that would be merged into it; empty for other verbs.
        cause: Why it is only proposed, in a few words: ``protected``.
        section: Heading of the section that a new entry is put into; empty for none, or that of the first source.
        text: The new text; for redact, the id of the event whose text would be erased; for rate, the rating; empty for
            verbs without one.
        reason: Why it is proposed; empty where none was given.
    """

    verb: str
    name: str
    merged: tuple[str, ...] = attrs.field(validator=NAMES)
    cause: str
    section: str
    # A redaction gives an id here, because its text would be written down once more.
    text: str | None = attrs.field(metadata=FREE_TEXT)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class ProposalDecided(Event):
    """A proposal was accepted, with the change in the same batch, or rejected.

    Attributes:
        id: Id of the event that proposed it.
        verdict: accepted or rejected.
        reason: Why; empty where none was given.
    """

    id: str
    verdict: str
    reason: str | None = attrs.field(metadata=FREE_TEXT)


class PointReviewed(Event):
    """A person decided about entries in a review; a change of them is in the same batch.

    Attributes:
        names: The entries, in order; two where they resemble each other.
        why: Why they were shown: contested, duplicate, unproven, no sign of use, or gone path.
        decision: keep, retire, reword or merge.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    why: str
    decision: str


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


class PlaybookInjected(Event):
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
    lowest: float | None = attrs.field(validator=check_exact)
    candidates: str
    question: str
    lineage: str
    units: tuple[str, ...] = attrs.field(validator=NAMES)
    # Verdicts of lift are computed from it, whatever the settings say by then.
    probability: float = attrs.field(validator=_check_draw)
    file: str = ""


class PointCited(Event):
    """An agent named an entry in a message or in a tool call. It shows use, not approval, so it is not a rating.

    Attributes:
        name: The entry.
        where: ``message``, or the name of the tool.
    """

    name: str
    where: str


# ---- Reflection: a model rates a session ----


class ReflectionRequested(Event):
    """A transcript awaits reflection up to an offset; ranges that were read before are not read again.

    Attributes:
        end: Length of the transcript, in bytes.
        trigger: The agent's event that caused the request.
        transcript: Path of the transcript.
    """

    end: int = attrs.field(validator=check_count)
    trigger: str
    transcript: str | None = attrs.field(metadata=FREE_TEXT)


class ReflectionStarted(Event):
    """A model is about to be called. Without a later completion or failure the call was interrupted.

    Attributes:
        rater: Which rater is called, such as claude.
        tokens: Expected cost, in tokens.
    """

    # Recorded before the request is sent: a process that dies meanwhile would leave no trace of the cost.
    rater: str
    tokens: int = attrs.field(validator=check_count)


class TranscriptRead(Event):
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
    begin: int = attrs.field(validator=check_count)
    end: int = attrs.field(validator=check_count)
    seen: int = attrs.field(validator=check_count)
    last: str
    rater: str


class ReflectionCompleted(Event):
    """A model's answer was recorded; the ranges and ratings of this batch come from it.

    Attributes:
        rater: Which rater was called.
        input_tokens: Tokens sent, as the rater counted them.
        output_tokens: Tokens received, as the rater counted them.
    """

    rater: str
    input_tokens: int = attrs.field(validator=check_count)
    output_tokens: int = attrs.field(validator=check_count)


class ReflectionFailed(Event):
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
    input_tokens: int = attrs.field(validator=check_count)
    output_tokens: int = attrs.field(validator=check_count)
    reason: str | None = attrs.field(metadata=FREE_TEXT)


# ---- Measurements of an agent's components and sessions ----

# They count for the line's ``when``, or else its ``at``. The name of a component is recorded as received; the score
# configuration maps it to a component.


class MetricsRecorded(Event):
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


class BenchmarkRecorded(Event):
    """The result of a benchmark of a component.

    Attributes:
        component: The component.
        benchmark: Name of the benchmark; empty where it has none.
        passed: How many of its cases passed, from 0 to ``total``.
        total: How many cases it has, 0 or more.
    """

    component: str
    benchmark: str
    passed: int = attrs.field(validator=check_count)
    total: int = attrs.field(validator=(check_count, _check_passed))


class FeedbackRecorded(Event):
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


class BaselineSet(Event):
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


class SessionMeasured(Event):
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


class SessionEnded(Event):
    """A session ended.

    Attributes:
        version: Version of the agent or of its project, by which scores are compared; empty where unknown.
    """

    version: str


class TelemetryKept(Event):
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


class LiftAsked(Event):
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


class LiftStopped(Event):
    """A question is closed: nothing is withheld for it any more, and what is known stays.

    Attributes:
        id: Id of the event that asked it.
    """

    id: str


# ---- A book that several machines share, and what landing in it makes of an event ----


class BookOpened(Event):
    """The first line of every book.

    Attributes:
        book: The book's own id, a UUIDv7.
        name: Its name, which keeps the projects of one engine apart.
        epoch: 1 at first; one higher each time that the book is begun anew on purpose.
        rules: Number of the rules by which the book is folded, from 1.
    """

    book: str
    name: str
    epoch: int = attrs.field(validator=check_count)
    rules: int = attrs.field(validator=check_count)


class BookRules(Event):
    """From here on the book is folded by other rules; a program that does not know them stops here.

    Attributes:
        rules: Number of the rules.
    """

    rules: int = attrs.field(validator=check_count)


class BookBlock(Event):
    """Numbers of names that belong to the writer of this line, so that two machines never give an entry the same name.

    Attributes:
        first: The first number of the block, from 1.
        last: The last number of the block.
    """

    # Counted from the same last number, three quarters of the new entries had to be renamed.
    first: int = attrs.field(validator=check_count)
    last: int = attrs.field(validator=check_count)


class PointMatched(Event):
    """An added or imported entry whose text another entry has already; its later ratings count for that one.

    If the other entry was undone, this event adds the entry itself.

    Attributes:
        name: The name that the entry would have; it is not used again.
        to: The entry that has the text.
        helpful: Count of helpful ratings that it brings with it, 0 or more.
        harmful: Count of harmful ratings that it brings with it, 0 or more.
        text: The text.
    """

    name: str
    # Only the very same text joins two entries: one word can make an opposite.
    to: str
    helpful: int = attrs.field(validator=check_count)
    harmful: int = attrs.field(validator=check_count)
    text: str | None = attrs.field(metadata=FREE_TEXT)


class EventRepeated(Event):
    """An event of a delivery that the book has already from another machine; it has no effect.

    Attributes:
        kind: The kind that the event has in its machine's own ledger.
    """

    kind: str


class RedactionLinked(Event):
    """Events whose text was equal before it was redacted; landing takes their texts as equal.

    Attributes:
        ids: Ids of the events.
    """

    ids: tuple[str, ...] = attrs.field(validator=NAMES)


# ---- In the own ledger of a machine that shares a book ----


class BookTaken(Event):
    """From here on this machine's playbook contains the book up to an event: the machine's frontier.

    Attributes:
        seq: The last event number of the book that is contained.
        chain: The chain value of the book there.
        upto: The own batches up to this event number are in the book.
        names: Own names of entries that have another name in the book.
        new_names: Their names in the book, in the same order.
    """

    seq: int = attrs.field(validator=check_count)
    chain: str
    upto: int = attrs.field(validator=check_count)
    names: tuple[str, ...] = attrs.field(validator=NAMES)
    new_names: tuple[str, ...] = attrs.field(validator=NAMES)


class NamesMeant(Event):
    """The names in this batch, in a project that shares a book, and the entries that they mean.

    A name of a pending entry can mean another one once the book has moved on, so the ids decide.

    Attributes:
        names: The names.
        ids: Ids of the events that made the entries, in the same order.
    """

    names: tuple[str, ...] = attrs.field(validator=NAMES)
    ids: tuple[str, ...] = attrs.field(validator=NAMES)


# ---- The table of kinds ----

EVENT_TYPES: Final[dict[str, tuple[type[Any], int]]] = {
    "ledger.opened": (LedgerOpened, 1),
    "event.redacted": (EventRedacted, 1),
    "log.recovered": (LogRecovered, 1),
    "playbook.adopted": (PlaybookAdopted, 1),
    "point.seeded": (PointSeeded, 1),
    "item.skipped": (ItemSkipped, 1),
    "point.added": (PointAdded, 1),
    "point.rated": (PointRated, 1),
    "playbook.updated": (PlaybookUpdated, 1),
    "point.edited": (PointEdited, 2),
    "point.removed": (PointRemoved, 1),
    "playbook.ordered": (PlaybookOrdered, 1),
    "playbook.edited": (PlaybookEdited, 1),
    "point.noted": (PointNoted, 1),
    "point.reworded": (PointReworded, 1),
    "point.retired": (PointRetired, 1),
    "point.restored": (PointRestored, 1),
    "point.pinned": (PointPinned, 1),
    "point.unpinned": (PointUnpinned, 1),
    "point.placed": (PointPlaced, 1),
    "point.limited": (PointLimited, 1),
    "point.merged": (PointMerged, 1),
    "events.voided": (EventsVoided, 1),
    "point.proposed": (PointProposed, 2),
    "playbook.decided": (ProposalDecided, 1),
    "point.reviewed": (PointReviewed, 1),
    "playbook.injected": (PlaybookInjected, 3),
    "point.cited": (PointCited, 1),
    "reflection.requested": (ReflectionRequested, 1),
    "reflection.started": (ReflectionStarted, 1),
    "transcript.read": (TranscriptRead, 1),
    "reflection.completed": (ReflectionCompleted, 1),
    "reflection.failed": (ReflectionFailed, 1),
    "metrics.recorded": (MetricsRecorded, 1),
    "benchmark.recorded": (BenchmarkRecorded, 1),
    "feedback.recorded": (FeedbackRecorded, 1),
    "baseline.set": (BaselineSet, 1),
    "session.measured": (SessionMeasured, 1),
    "session.ended": (SessionEnded, 1),
    "telemetry.kept": (TelemetryKept, 1),
    "lift.asked": (LiftAsked, 1),
    "lift.stopped": (LiftStopped, 1),
    "book.opened": (BookOpened, 1),
    "book.rules": (BookRules, 1),
    "book.block": (BookBlock, 1),
    "point.matched": (PointMatched, 1),
    "event.repeated": (EventRepeated, 1),
    "redaction.linked": (RedactionLinked, 1),
    "book.taken": (BookTaken, 1),
    "names.meant": (NamesMeant, 1),
}
"""Kind on disk → its class, and the version that this Tallybook writes; the codec upcasts older versions."""
KIND_OF: Final = {cls: kind for kind, (cls, _) in EVENT_TYPES.items()}
"""Class of an event → its kind on disk."""

for _cls in (UnknownEvent, CurationEvent, *KIND_OF):
    # Here and not by a decorator on each class, so that making a class calls nothing. attrs would generate and compile
    # the methods of `Event` for each class, which takes longer than to make the class itself, and every command makes
    # all the classes. No slots: attrs makes such a class twice, and msgspec would write its fields in the order of the
    # alphabet.
    attrs.frozen(_cls, eq=False, repr=False, slots=False)

MAKERS: Final = (PointAdded, PointSeeded, PointEdited, PointMatched)
"""Classes of the events that make an entry; a manual edit only where its writer had no entry of that name."""
TEXT_GIVERS: Final = (*MAKERS, PointReworded)
"""Classes of the events that give an entry its text."""
