"""Events as the rows that `log` prints: JSON-ready values, and one line for people. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.names import format_name
from tallybook.projections.playbook.fold import UndoneEvent

if TYPE_CHECKING:
    from tallybook.ledger.records import Author, EventRecord
    from tallybook.projections.playbook.view import Playbook

QUOTE_CHARS: Final = 60
"""Most characters of a text in a summary, including the ellipsis of a cut text."""


@attrs.frozen
class EventFilter:
    """A filter of events: an event passes if it matches every field.

    Attributes:
        name: The entry that it concerns; None for any.
        session: Its session; None for any.
        rater: Its rater; None for any.
        kinds: Kinds, ``point.rated``, or families of kinds, ``point.*``, of which it has one; empty for any.
        since: Its number is above this one.
        until: Its number is at most this one; None for no bound.
        writers: Its machine is one of these, by their labels in a shared book; empty for any.
        is_earlier: Says whether it was in the history of an earlier moment; None for none.
    """

    name: str | None = None
    session: str | None = None
    rater: str | None = None
    kinds: tuple[str, ...] = ()
    since: int = 0
    until: int | None = None
    writers: frozenset[str] = frozenset()
    is_earlier: Callable[[EventRecord], bool] | None = None

    def takes(self, record: EventRecord) -> bool:
        """Say whether an event passes."""
        return (
            record.seq > self.since
            and (self.until is None or record.seq <= self.until)
            and (self.name is None or concerns(record.event, self.name))
            and self.session in {None, record.by.session}
            and self.rater in {None, record.by.rater}
            and (not self.writers or record.by.writer in self.writers)
            and (self.is_earlier is None or not self.is_earlier(record))
            and (not self.kinds or any(is_of_kind(kind_of(record.event)[0], kind) for kind in self.kinds))
        )


def is_of_kind(kind: str, wanted: str) -> bool:
    """Say whether a kind equals the pattern, or is of its family: ``point.*``."""
    return kind == wanted or (wanted.endswith(".*") and kind.startswith(wanted[:-1]))


def brief(record: EventRecord, seqs: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return an event as answers name it: ``{seq, id, at, [when], kind, by, summary}``.

    Args:
        record: The event, undone or not; one that is not recorded yet has no number and id.
        seqs: As for ``summary``.
    """
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    result: dict[str, Any] = {"seq": record.seq, "id": record.id} if record.id else {"seq": None, "id": None}
    result |= {"at": record.at} | ({} if record.when is None else {"when": record.when})
    return result | {"kind": kind_of(event)[0], "by": author_json(record.by), "summary": summary(event, seqs)}


def concerns(event: events.Event, name: str) -> bool:
    """Say whether an event concerns an entry: by its name, in an order or in a merge."""
    if isinstance(event, events.UnknownEvent):
        # What the text rules out is not parsed.
        body = json.loads(event.body) if name in event.body else None
        return isinstance(body, dict) and body.get("name") == name
    return name in {getattr(event, "name", None), *getattr(event, "names", ()), *getattr(event, "merged", ())}


def row(record: EventRecord) -> dict[str, Any]:
    """Return ``{seq, id, at, [when], kind, v, part, by, [key, [payload]], body, [free]}`` of one record.

    Returns:
        ``when``, ``key`` and ``payload`` only where the event has them, ``free`` only for kinds with free text: text by
        field, or None where it was redacted.
    """
    event = record.event
    kind, version = kind_of(event)
    result: dict[str, Any] = {"seq": record.seq, "id": record.id, "at": record.at}
    result |= {} if record.when is None else {"when": record.when}
    result |= {"kind": kind, "v": version, "part": list(record.part), "by": author_json(record.by)}
    result |= {} if record.key is None else {"key": record.key}
    result |= {"payload": record.payload} if record.payload else {}
    if isinstance(event, events.UnknownEvent):
        result["body"] = json.loads(event.body)
        return result if event.free is None else result | {"free": json.loads(event.free)}
    result["body"] = _fields(event, free=False)
    if free := _fields(event, free=True):
        result["free"] = free if any(text is not None for text in free.values()) else None
    return result


def kind_of(event: events.Event) -> tuple[str, int]:
    """Return the literal kind and the version of an event."""
    if isinstance(event, events.UnknownEvent):
        return event.kind, event.v
    kind = events.KIND_OF[type(event)]
    return kind, events.EVENT_TYPES[kind][1]


def author_json(by: Author) -> dict[str, Any]:
    """Return the author of an event as JSON, without unknown fields."""
    return attrs.asdict(by, filter=lambda _, value: value is not None)


def _fields(event: events.Event, *, free: bool) -> dict[str, Any]:
    """Return the fields that hold free text, or those that do not."""
    return attrs.asdict(
        event,
        filter=lambda field, _: (events.FREE in field.metadata) is free,
        value_serializer=lambda _event, _field, value: list(value) if isinstance(value, tuple) else value,
    )


def summary(event: events.Event, seqs: Mapping[str, int] | None = None) -> str:
    """Return one event as one line for people, without author and time.

    Args:
        event: The event.
        seqs: Id of an event → its number, as far as known; an undo and a redaction name their events by number.
    """
    # A person names events by number, and the ledger by id.
    if isinstance(event, events.EventsVoided):
        return _join_lines(_summarise_undo(event, seqs or {}))
    if isinstance(event, events.EventRedacted):
        number = (seqs or {}).get(event.id)
        what = "an event" if number is None else f"event {number}"
        return f"text of {what} redacted: {_quote(event.reason)}"
    return _join_lines(SUMMARIES[type(event)](event))


def number_rows(numbers: Sequence[int], of: Sequence[events.Event]) -> list[dict[str, Any]]:
    """Return events that were just recorded under these numbers, each as ``{seq, summary}``."""
    return [{"seq": seq, "summary": summary(event)} for seq, event in zip(numbers, of, strict=True)]


def entry_line(entry: events.Entry) -> str:
    """Return an entry as one line for people: its name, its counts and its whole text."""
    return f"{entry.name}  +{entry.helpful} -{entry.harmful}  {_join_lines(entry.text)}"


def name_line(book: Playbook, name: str) -> str:
    """Return the entry of a name as one line for people, or its status where it is not in the playbook."""
    entry = book.entries.get(name)
    return f"{name} is not in the playbook: {book.status_of(name)}" if entry is None else entry_line(entry)


def _join_lines(text: str) -> str:
    """Return a text with every run of white space, all kinds of line breaks included, as one space."""
    return " ".join(text.split())


def _quote(text: str | None) -> str:
    """Return the beginning of a text in quotes."""
    if text is None:
        return "[redacted]"
    line = _join_lines(text)
    return f'"{line}"' if len(line) <= QUOTE_CHARS else f'"{line[: QUOTE_CHARS - 1].rstrip()}…"'


def _counts(event: events.PointSeeded | events.PointEdited) -> str:
    return f"{event.helpful} helpful, {event.harmful} harmful"


def _summarise_update(event: events.PlaybookUpdated) -> str:
    counts = [f"{event.added} added"] if event.added else []
    counts += [_count(event.rated, "rating", "ratings")] if event.rated else []
    counts += [f"{event.ignored} ignored"] if event.ignored else []
    return f"update: {', '.join(counts) or 'nothing new'}"


def _summarise_rating(event: events.PointRated) -> str:
    """Summarise a rating, with a remark where it is not one of RATINGS."""
    *others, last = events.RATINGS
    remark = "" if event.rating in events.RATINGS else f" (has no effect: a rating is {', '.join(others)} or {last})"
    return f"{event.name} rated {event.rating}{remark}"


def _summarise_decision(event: Any, verb: str) -> str:
    return f"{event.name} {verb}{_why(event.reason)}"


def _why(reason: str | None) -> str:
    return "" if reason == "" else f": {_quote(reason)}"


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _injection(event: events.PlaybookInjected) -> str:
    if event.file:
        return f"{_count(len(event.names), 'entry', 'entries')} read in {event.file}"
    left_out = sum(event.left_out.values())
    causes = ", ".join(f"{number:g} {CAUSES.get(cause, cause)}" for cause, number in event.left_out.items())
    is_by_task = event.lowest is not None
    return (
        f"{_count(len(event.names), 'entry', 'entries')} injected"
        + (" for a prompt" if is_by_task else "")
        + (f", {len(event.held)} withheld" if event.held else "")
        + (f", {left_out:g} left out{f': {causes}' if is_by_task else ''}" if left_out else "")
        + (f"; lowest score {event.lowest:.2f}" if is_by_task else "")
    )


CAUSES: Final = {"room": "for want of room", "told": "given before", "unrelated": "unrelated"}
"""Cause of leaving an entry out → the words for it."""


def _tokens(event: events.ReflectionCompleted | events.ReflectionFailed) -> str:
    return f"{event.input_tokens + event.output_tokens:,} tokens"


def _metrics(event: events.MetricsRecorded) -> str:
    values = ", ".join(f"{name} {json.dumps(value)}" for name, value in event.metrics.items())
    return f"{event.component or 'no component'} measured: {values or 'nothing'}" + (
        event.source and f" ({event.source})"
    )


def _feedback(event: events.FeedbackRecorded) -> str:
    return f"feedback on {event.component or 'session'}: {event.verdict or f'{event.score:g}'}{_why(event.note)}"


def _summarise_undo(event: events.EventsVoided, seqs: Mapping[str, int]) -> str:
    """Summarise an undo: its session, or its events by number where known, else how many they are."""
    known_seqs = sorted(seqs[id_] for id_ in event.ids if id_ in seqs)
    if event.session is not None:
        verb = f"session {event.session}"
    elif known_seqs and len(known_seqs) == len(event.ids):
        verb = f"{'event' if len(known_seqs) == 1 else 'events'} {_ranges(known_seqs)}"
    else:
        verb = _count(len(event.ids), "event", "events")
    return f"{verb} undone{_why(event.reason)}"


def _ranges(seqs: Sequence[int]) -> str:
    """Return rising numbers with consecutive ones as a range: ``4 to 6, 9``."""
    pairs = groupby(enumerate(seqs), lambda pair: pair[1] - pair[0])
    runs = ([seq for _, seq in run] for _, run in pairs)
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _question(event: events.LiftAsked) -> str:
    about = f"the new entries {', '.join(event.names)}" if event.question == "new" else ", ".join(event.names)
    verb = "help" if event.question == "new" or len(event.names) > 1 else "helps"
    return f"asked whether {about or 'the playbook'} {verb}, by {event.outcome}"


def _summarise_proposal(event: events.PointProposed) -> str:
    """Summarise a proposal by what it would do."""
    names = ", ".join(event.merged)
    what = f"proposed: {event.verb} {event.name or names}".rstrip()
    if event.name and names:
        what += f" with {names}"
    if event.verb == "redact":
        return f"{what}, the text of event {event.text}{_why(event.reason)}"
    to = " to" if event.name or names else ""
    what += f" in {event.section}" if event.section else ""
    return f"{what}{f'{to} {_quote(event.text)}' if event.text != '' else ''}{_why(event.reason)}"


SUMMARIES: Final[dict[type[Any], Callable[[Any], str]]] = {
    events.LedgerOpened: lambda e: f"ledger {e.ledger} opened, format {e.format}",
    events.PlaybookAdopted: lambda e: f"legacy playbook imported: {_count(e.entries, 'entry', 'entries')}",
    events.PointSeeded: lambda e: f"seeded {e.name} {_quote(e.text)} at {_counts(e)}",
    events.ItemSkipped: lambda e: f"item {e.index} skipped: {e.reason}",
    events.PointAdded: lambda e: f"learned {e.name} {_quote(e.text)}",
    events.PointRated: _summarise_rating,
    events.PlaybookUpdated: _summarise_update,
    events.PointEdited: lambda e: f"edited {e.name} {_quote(e.text)} to {_counts(e)}",
    events.PointRemoved: lambda e: f"removed {e.name}",
    events.PlaybookOrdered: lambda e: f"ordered {', '.join(e.names)}",
    events.PlaybookEdited: lambda e: (
        "manual edit" if e.base is None else f"manual edit of the playbook as of event {e.base}"
    ),
    events.PointNoted: lambda e: f"{e.name} noted: {_quote(e.note)}",
    events.PointReworded: lambda e: f"{e.name} reworded {_quote(e.text)}{_why(e.reason)}",
    events.PointRetired: lambda e: _summarise_decision(e, "retired"),
    events.PointRestored: lambda e: _summarise_decision(e, "restored"),
    events.PointPinned: lambda e: _summarise_decision(e, "pinned"),
    events.PointUnpinned: lambda e: _summarise_decision(e, "unpinned"),
    events.PointPlaced: lambda e: f"{e.name} moved to {e.section}{_why(e.reason)}",
    events.PointLimited: lambda e: (
        f"{e.name} holds {f'until {e.until}' if e.until else 'without an end'}{_why(e.reason)}"
    ),
    events.PointMerged: lambda e: f"{', '.join(e.merged)} merged into {e.name}{_why(e.reason)}",
    events.PlaybookInjected: _injection,
    events.PointCited: lambda e: f"{e.name} cited in {'a message' if e.where == 'message' else e.where}",
    events.ReflectionRequested: lambda e: (
        f"reflection requested by {e.trigger}, up to byte {e.end:,} of the transcript"
    ),
    events.ReflectionStarted: lambda e: f"reflection started by {e.rater}, expected cost {e.tokens:,} tokens",
    events.TranscriptRead: lambda e: f"{e.file or 'transcript'} read from byte {e.begin:,} to {e.end:,}",
    events.ReflectionCompleted: lambda e: f"reflection done by {e.rater} for {_tokens(e)}",
    events.ReflectionFailed: lambda e: f"reflection by {e.rater} failed, {e.cause}, for {_tokens(e)}{_why(e.reason)}",
    events.MetricsRecorded: _metrics,
    events.BenchmarkRecorded: lambda e: (
        f"{e.component} benchmark{e.benchmark and ' '}{e.benchmark}: {e.passed} of {e.total} passed"
    ),
    events.FeedbackRecorded: _feedback,
    events.BaselineSet: lambda e: f"baseline of {e.score} set to {e.value:g}{_why(e.reason)}",
    events.SessionEnded: lambda e: "session ended" + (e.version and f", version {e.version}"),
    events.SessionMeasured: lambda e: (
        f"session measured: {', '.join(f'{name} {value:g}' for name, value in e.numbers.items())}"
    ),
    events.TelemetryKept: lambda e: f"telemetry {e.type or 'without a type'} kept: {e.reason}",
    events.LogRecovered: lambda e: f"log recovered: bytes {e.begin} to {e.end} sealed",
    events.LiftAsked: _question,
    events.LiftStopped: lambda _: "the question of lift is closed",
    events.PointProposed: _summarise_proposal,
    events.PointReviewed: lambda e: f"{', '.join(e.names)} reviewed ({e.why}): {e.decision}",
    events.ProposalDecided: lambda e: f"proposal {e.verdict}{_why(e.reason)}",
    events.BookOpened: lambda e: f"shared book {e.name} opened, epoch {e.epoch}",
    events.BookRules: lambda e: f"from here on the book is folded by rules {e.rules}",
    events.BookBlock: lambda e: f"names {format_name(e.first)} to {format_name(e.last)} given to this writer",
    events.PointMatched: lambda e: f"{e.name} joined to {e.to}, which has its text {_quote(e.text)}",
    events.EventRepeated: lambda e: f"{e.kind} repeated: another machine delivered it before, so it has no effect",
    events.RedactionLinked: lambda e: f"{_count(len(e.ids), 'event', 'events')} had the same text before its redaction",
    events.BookTaken: lambda e: f"shared book taken in up to event {e.seq}",
    events.NamesMeant: lambda e: f"entries by id: {', '.join(e.names)}",
    events.UnknownEvent: lambda e: f"{e.kind}: a kind (v{e.v}) that this Tallybook does not know",
}
"""Class of an event → the function that summarises it."""
