"""Events as rows: what `log` answers, as JSON-ready values and as one line for people. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import (
    EVENT_TYPES,
    FREE,
    KIND_OF,
    RATINGS,
    BaselineSet,
    BenchmarkRecorded,
    EventRedacted,
    EventsVoided,
    FeedbackRecorded,
    ItemSkipped,
    LedgerOpened,
    LogRecovered,
    MetricsRecorded,
    PlaybookAdopted,
    PlaybookEdited,
    PlaybookInjected,
    PlaybookOrdered,
    PlaybookUpdated,
    PointAdded,
    PointCited,
    PointEdited,
    PointMerged,
    PointNoted,
    PointPinned,
    PointRated,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
    PointUnpinned,
    ReflectionCompleted,
    ReflectionFailed,
    ReflectionRequested,
    ReflectionStarted,
    SessionEnded,
    TelemetryKept,
    TranscriptRead,
    UnknownEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Event
    from tallybook.ledger.records import Author, Batch, EventRecord

QUOTE_CHARS: Final = 60
"""Characters of a text that a summary quotes, the mark of the cut included."""


@attrs.frozen
class Wanted:
    """Which events are asked for: those that every field lets through.

    Attributes:
        name: They concern this entry; None for whatever they concern.
        session: They come from this session; None for any.
        rater: They come from this rater; None for any.
        kinds: They are of one of these kinds, ``point.rated``, or of the family ``point.*``; none for all.
        since: They come behind this sequence number.
        until: They come up to this sequence number, and with it; None to the end.
    """

    name: str | None = None
    session: str | None = None
    rater: str | None = None
    kinds: tuple[str, ...] = ()
    since: int = 0
    until: int | None = None

    def takes(self, record: EventRecord) -> bool:
        """Say whether an event is asked for."""
        return (
            record.seq > self.since
            and (self.until is None or record.seq <= self.until)
            and (self.name is None or about(record.event, self.name))
            and self.session in {None, record.by.session}
            and self.rater in {None, record.by.rater}
            and (not self.kinds or any(is_of_kind(kind_of(record.event)[0], kind) for kind in self.kinds))
        )


def is_of_kind(kind: str, wanted: str) -> bool:
    """Say whether a kind is the one that is asked for, or of the family: ``point.*``."""
    return kind == wanted or (wanted.endswith(".*") and kind.startswith(wanted[:-1]))


def chosen(batch: Batch, wanted: Wanted) -> Iterator[EventRecord]:
    """Yield the events of a batch that are asked for, in order."""
    # Heads are decoded only where there is something to show of the batch.
    if wanted.name is None or any(about(event, wanted.name) for event in batch.events):
        yield from filter(wanted.takes, batch.records)


def brief(record: EventRecord, undone_by: int | None = None, seqs: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return an event as ``{seq, at, by, summary, undone_by}``, for people.

    Args:
        record: The event.
        undone_by: Sequence number of what made it void, None where it stands.
        seqs: As for ``summary``.
    """
    told = {"seq": record.seq, "at": record.at, "by": by_json(record.by), "summary": summary(record.event, seqs)}
    return told | {"undone_by": undone_by}


def about(event: Event, name: str) -> bool:
    """Say whether an event concerns an entry: it is about that name, places it in an order or merges it."""
    if isinstance(event, UnknownEvent):
        body = json.loads(event.body) if name in event.body else None
        return isinstance(body, dict) and body.get("name") == name
    return name in {getattr(event, "name", None), *getattr(event, "names", ()), *getattr(event, "merged", ())}


def row(record: EventRecord) -> dict[str, Any]:
    """Return ``{seq, id, at, [when], kind, v, part, by, [key], body, [free]}`` of one record.

    Returns:
        ``when`` and ``key`` only where the event has them, ``free`` only for kinds with free text: text by field, or
        None where it was redacted.
    """
    event = record.event
    kind, version = kind_of(event)
    told: dict[str, Any] = {"seq": record.seq, "id": record.id, "at": record.at}
    if record.when is not None:
        told["when"] = record.when
    told |= {"kind": kind, "v": version, "part": list(record.part), "by": by_json(record.by)}
    if record.key is not None:
        told["key"] = record.key
    if isinstance(event, UnknownEvent):
        told["body"] = json.loads(event.body)
        return told if event.free is None else told | {"free": json.loads(event.free)}
    told["body"] = _fields(event, free=False)
    if free := _fields(event, free=True):
        told["free"] = free if any(text is not None for text in free.values()) else None
    return told


def kind_of(event: Event) -> tuple[str, int]:
    """Return the literal kind and the version of an event."""
    if isinstance(event, UnknownEvent):
        return event.kind, event.v
    kind = KIND_OF[type(event)]
    return kind, EVENT_TYPES[kind][1]


def by_json(by: Author) -> dict[str, Any]:
    """Return who says so, without what is not known."""
    return attrs.asdict(by, filter=lambda _, value: value is not None)


def _fields(event: Event, *, free: bool) -> dict[str, Any]:
    """Return the fields that hold free text, or those that do not."""
    return attrs.asdict(
        event,
        filter=lambda field, _: (FREE in field.metadata) is free,
        value_serializer=lambda _event, _field, value: list(value) if isinstance(value, tuple) else value,
    )


def summary(event: Event, seqs: Mapping[str, int] | None = None) -> str:
    """Return one event as one line for people, without who and when.

    Args:
        event: The event.
        seqs: Id of an event → its sequence number, as far as known; an undo names its events by it.
    """
    if seqs and isinstance(event, EventsVoided):
        return _one_line(_voided(event, seqs))
    return _one_line(SUMMARIES[type(event)](event))


def _one_line(text: str) -> str:
    """Return a text with every stretch of white space, line breaks of all kinds included, as one space."""
    return " ".join(text.split())


def _quoted(text: str | None) -> str:
    """Return the beginning of a text in quotes."""
    if text is None:
        return "[redacted]"
    line = _one_line(text)
    return f'"{line}"' if len(line) <= QUOTE_CHARS else f'"{line[: QUOTE_CHARS - 1].rstrip()}…"'


def _counts(event: PointSeeded | PointEdited) -> str:
    return f"{event.helpful} helpful, {event.harmful} harmful"


def _updated(event: PlaybookUpdated) -> str:
    counts = {"added": event.added, "rated": event.rated, "ignored": event.ignored}
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f"update closed: {told or 'nothing new'}"


def _edited(event: PlaybookEdited) -> str:
    return "edit closed" if event.base is None else f"edit closed, of the playbook at event {event.base}"


def _idle(rating: str) -> str:
    """Return the mark of a rating that is not one of RATINGS, empty for one that is."""
    return "" if rating in RATINGS else f" (counts nothing: a rating is {', '.join(RATINGS[:-1])} or {RATINGS[-1]})"


def _curated(what: str) -> Callable[[Any], str]:
    """Return what tells a decision about an entry, with its reason where one was given."""
    return lambda e: f"{e.name} {what}{_why(e.reason)}"


def _why(reason: str | None) -> str:
    return "" if reason == "" else f": {_quoted(reason)}"


def _number(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _left_out(number: int) -> str:
    return f", {number} left out" if number else ""


def _tokens(event: ReflectionCompleted | ReflectionFailed) -> str:
    return f"{event.input_tokens + event.output_tokens:,} tokens"


def _metrics(event: MetricsRecorded) -> str:
    said = ", ".join(f"{name} {json.dumps(value)}" for name, value in event.metrics.items())
    return f"{event.component or 'no component'} measured: {said or 'nothing'}" + (
        event.source and f" ({event.source})"
    )


def _feedback(event: FeedbackRecorded) -> str:
    return f"{event.component or 'session'} judged {event.verdict or f'{event.score:g}'}{_why(event.note)}"


def _voided(event: EventsVoided, seqs: Mapping[str, int] | None = None) -> str:
    """Say what is undone: a session, or which events as far as their numbers are known, else how many."""
    known = [] if seqs is None else sorted(seqs[one] for one in event.ids if one in seqs)
    if event.session is not None:
        what = f"session {event.session}"
    elif known and len(known) == len(event.ids):
        what = f"{'event' if len(known) == 1 else 'events'} {_ranges(known)}"
    else:
        what = f"event {event.ids[0]}" if len(event.ids) == 1 else f"{len(event.ids)} events"
    return f"{what} undone{_why(event.reason)}"


def _ranges(seqs: Sequence[int]) -> str:
    """Return rising numbers with those that follow on each other as one: ``4 to 6, 9``."""
    told: list[list[int]] = []
    for seq in seqs:
        if told and seq == told[-1][-1] + 1:
            told[-1].append(seq)
        else:
            told.append([seq])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in told)


SUMMARIES: Final[dict[type[Any], Callable[[Any], str]]] = {
    LedgerOpened: lambda e: f"ledger {e.ledger} opened, format {e.format}",
    PlaybookAdopted: lambda e: f"legacy playbook taken in: {e.entries} entries",
    PointSeeded: lambda e: f"seeded {e.name} {_quoted(e.text)} at {_counts(e)}",
    ItemSkipped: lambda e: f"item {e.index} skipped: {e.reason}",
    PointAdded: lambda e: f"learned {e.name} {_quoted(e.text)}",
    PointRated: lambda e: f"{e.name} rated {e.rating}" + _idle(e.rating),
    PlaybookUpdated: _updated,
    PointEdited: lambda e: f"edited {e.name} {_quoted(e.text)} to {_counts(e)}",
    PointRemoved: lambda e: f"removed {e.name}",
    PlaybookOrdered: lambda e: f"ordered {', '.join(e.names)}",
    PlaybookEdited: _edited,
    PointNoted: lambda e: f"{e.name} noted: {_quoted(e.note)}",
    PointReworded: lambda e: f"{e.name} reworded {_quoted(e.text)}{_why(e.reason)}",
    PointRetired: _curated("retired"),
    PointRestored: _curated("restored"),
    PointPinned: _curated("pinned"),
    PointUnpinned: _curated("unpinned"),
    PointMerged: lambda e: f"{', '.join(e.merged)} merged into {e.name}{_why(e.reason)}",
    EventsVoided: _voided,
    PlaybookInjected: lambda e: f"told of {_number(len(e.names), 'entry', 'entries')}" + _left_out(e.left_out),
    PointCited: lambda e: f"{e.name} cited in {'a message' if e.where == 'message' else e.where}",
    ReflectionRequested: lambda e: f"reflection asked for by {e.trigger}, up to byte {e.end:,} of the transcript",
    ReflectionStarted: lambda e: f"reflection begun by {e.rater}, expected to cost {e.tokens:,} tokens",
    TranscriptRead: lambda e: f"{e.file or 'transcript'} read from byte {e.begin:,} to {e.end:,}",
    ReflectionCompleted: lambda e: f"reflection done by {e.rater} for {_tokens(e)}",
    ReflectionFailed: lambda e: f"reflection by {e.rater} failed, {e.cause}, for {_tokens(e)}{_why(e.reason)}",
    MetricsRecorded: _metrics,
    BenchmarkRecorded: lambda e: (
        f"{e.component} benchmark{e.benchmark and ' '}{e.benchmark}: {e.passed} of {e.total} passed"
    ),
    FeedbackRecorded: _feedback,
    BaselineSet: lambda e: f"baseline of {e.score} set to {e.value:g}{_why(e.reason)}",
    SessionEnded: lambda e: "session ended" + (e.version and f", version {e.version}"),
    TelemetryKept: lambda e: f"telemetry {e.type or 'without a type'} kept: {e.reason}",
    EventRedacted: lambda e: f"text of event {e.id} redacted: {_quoted(e.reason)}",
    LogRecovered: lambda e: f"log recovered: bytes {e.begin} to {e.end} sealed",
    UnknownEvent: lambda e: f"{e.kind}: a kind (v{e.v}) that this Tallybook does not know",
}
"""Class of event → how its line reads; what has no row is told by its kind and fields."""
