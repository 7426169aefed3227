"""Events to bodies and back: strict in both directions.

Kinds are looked up in EVENT_TYPES by hand, so that one that is not known is kept; their fields are taken by ``exact``,
and ``wire`` with cattrs, which takes longer to load than a short ledger to fold, says where they do not fit.
"""

from __future__ import annotations

from functools import lru_cache
import json
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from ledger import exact, strict
from ledger.errors import BadInputError, DamagedLedgerError, NewerLedgerError, Problem
from ledger.events import EVENT_TYPES, FREE, KIND_OF, LedgerOpened, UnknownEvent
from ledger.forms import event_of
from ledger.found import Batches, Run, found_of
from ledger.head_form import head_form
from ledger.light import NamedTuple, later
from ledger.line import CONTINUED, FORMAT, FREE_MARK, SECTION, Draft, dumps, lines_of, split_line
from ledger.recorded import Batch, By, Recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ledger.events import Event
    from ledger.forms import Forms
    from ledger.found import Found
    from ledger.head_form import HeadForm
    from ledger.line import RawBatch

    T = TypeVar("T")

wire = later("ledger.wire")

# A rating's what-section is some 80 bytes and there are few different ones; long ones are not worth remembering.
MEMO_ENTRIES = 16_384
MEMO_BYTES = 256
# A memo that is full is kept as it is, for what never comes again would only drive out what does; after so many batches
# with something that it did not know it is begun anew, for in time other things come again.
MEMO_MISSES = 16_384
# What a line says, before its free section; a sum stands where that does, and nowhere else.
_WHAT = {"kind", "v", "body"}
_WHAT_WITH_TEXT = {*_WHAT, "sum"}

UPCASTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""(kind, old version) → what lifts its fields to the next version; applied until the version is today's."""


REFUSALS = (ValueError, TypeError, KeyError, AttributeError)
"""What ``structure`` raises where fields do not fit their kind."""

FREE_FIELDS = {
    cls: tuple(field.name for field in attrs.fields(cls) if FREE in field.metadata) for cls, _ in EVENT_TYPES.values()
}


def encode(event: Event, when: str | None = None) -> Draft:
    """Return an event as a draft: what its class says, with the free text apart.

    Raises:
        BadInputError: A field does not have the type or the bound that its class names.
    """
    if isinstance(event, UnknownEvent):
        raise BadInputError(event.kind, "is a kind that this version does not write")
    cls = type(event)
    kind = KIND_OF[cls]
    try:
        fields = attrs.asdict(event, recurse=False)
        _taken(fields, cls)
    except REFUSALS as error:
        raise BadInputError(kind, _told(error, "$")) from error
    names = FREE_FIELDS[cls]
    text = {name: fields.pop(name) or "" for name in names}
    return Draft(kind, EVENT_TYPES[kind][1], fields, text if names else None, when)


def _taken(fields: dict[str, Any], cls: type[T]) -> T:
    """Return the value of these fields, or raise what says where they do not fit."""
    taken: T | None = exact.made(fields, cls)
    return wire.structured(fields, cls) if taken is None else taken


def _told(error: Exception, path: str) -> str:
    return error.told(path) if isinstance(error, exact.UnfitError) else str(error)


def texts_of(event: Event) -> dict[str, str]:
    """Return the free texts of an event by field, without those that are empty or were redacted."""
    if isinstance(event, UnknownEvent):
        said: dict[str, Any] = json.loads(event.free or "{}")
    else:
        said = {field: getattr(event, field) for field in FREE_FIELDS[type(event)]}
    return {field: text for field, text in said.items() if isinstance(text, str) and text}


def structure(kind: str, version: int, fields: dict[str, Any]) -> Event:
    """Return the event of these fields, lifted to today's version.

    Raises:
        ValueError, TypeError, KeyError: They are not those of the kind.
    """
    cls, today = EVENT_TYPES[kind]
    for old in range(version, today):
        fields = UPCASTS[kind, old](fields)
    event: Event = _taken(fields, cls)
    return event


class _Parsed(NamedTuple):
    """A line's sections, read: its kind and what it says; ``texts`` is None where there is no text, or no more."""

    kind: str
    version: int
    body: Any
    texts: dict[str, str] | None
    redacted: bool


def _loads(data: bytes) -> Any:
    """Return what JSON says that is written as the ledger writes it: anything else some readers read otherwise.

    What is written back as it stood is canonical but for numbers beyond 2^53 and deep nesting, which no known kind can
    hold.
    """
    said = data.decode()
    try:
        loaded = json.loads(said)
        canonical = dumps(loaded) == said
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not canonical:
        raise ValueError("it is not canonical JSON")
    return loaded


def _parse(said: bytes) -> _Parsed:
    _, what, free = split_line(SECTION + said.removesuffix(b"\n"))
    loaded = _loads(what)
    kind, version, body = loaded["kind"], loaded["v"], loaded["body"]
    if type(kind) is not str or type(version) is not int or version < 1:
        raise TypeError("expected a text as kind and a number from 1 as v")
    if loaded.keys() != (_WHAT if free is None else _WHAT_WITH_TEXT):
        raise ValueError("expected kind, v and body, and a sum where there is free text")
    texts = None
    if free is not None and free != b"null":
        texts = _loads(free)
        exact.text(texts.pop("salt"))
    if kind != CONTINUED and not _is_known(kind, version):
        # Nothing else looks into it.
        for part in (what, free):
            if part is not None and not strict.is_canonical(part):
                raise ValueError("it is not canonical JSON")
    return _Parsed(kind, version, body, texts, free == b"null")


def _is_known(kind: str, version: int) -> bool:
    return kind in EVENT_TYPES and version <= EVENT_TYPES[kind][1]


def _continue(begun: list[tuple[int, Event | _Parsed]], whats: Sequence[bytes], line: _Parsed) -> None:
    """Add a continued text to the line that it continues, the last of those that were begun."""
    if not begun:
        raise ValueError("it continues a text that is not there")
    index, said = begun[-1]
    before = said if isinstance(said, _Parsed) else _parse(whats[index])
    if not (before.redacted or before.texts) or not (line.redacted or line.texts):
        raise ValueError("it continues a text that is not there")
    begun[-1] = index, before
    if line.redacted or before.redacted:
        return
    texts, added = before.texts or {}, line.texts or {}
    if not added.keys() <= texts.keys():
        raise ValueError("it continues a text that is not there")
    for field, more in added.items():
        texts[field] = exact.text(texts[field]) + exact.text(more)


def _event(line: _Parsed) -> Event:
    """Return the event of a line; a kind or version from the future as an UnknownEvent."""
    kind, version, body, texts, redacted = line
    if kind == CONTINUED:
        raise ValueError("it continues a text that is not there")
    if not _is_known(kind, version):
        return UnknownEvent(kind, version, dumps(body), None if texts is None else dumps(texts))
    fields = FREE_FIELDS[EVENT_TYPES[kind][0]]
    if type(body) is not dict:
        raise TypeError("expected an object as body")
    if not body.keys().isdisjoint(fields):
        raise ValueError("its free text stands in its body")
    # Where the text was redacted it is gone, and the event stands.
    said = dict.fromkeys(fields) if redacted else texts or {}
    event = structure(kind, version, body | said)
    if isinstance(event, LedgerOpened) and event.format > FORMAT:
        raise NewerLedgerError("events.jsonl", event.format, FORMAT)
    return event


def _fault(raw: Found | RawBatch, index: int, error: Exception) -> DamagedLedgerError:
    seq = raw.first + index
    message = f"its chain fits, but no Tallybook wrote this: {_told(error, '$.body')}"
    return DamagedLedgerError([Problem(f"seq {seq}", message, seq)])


def _read(raw: Found, whats: Sequence[bytes], events: list[Any], memo: dict[bytes, Event], forms: Forms) -> list[Event]:
    """Return the events of a batch, and remember those that may come again.

    Args:
        raw: The batch.
        whats: What each of its lines says, up to and with its end.
        events: The event of each line that was said before, None for the others; it is changed.
        memo: What was said before.
        forms: The forms of the kinds that were met before.
    """
    for index, event in enumerate(events):
        if event is None:
            what = whats[index]
            events[index] = said = event_of(what, forms)
            if said is None:
                return _read_at_length(raw, whats, memo, forms)
            if len(memo) < MEMO_ENTRIES and len(what) <= MEMO_BYTES and FREE_MARK not in what:
                memo[what] = said
    return events


def _read_at_length(raw: Found, whats: Sequence[bytes], memo: dict[bytes, Event], forms: Forms) -> list[Event]:
    """Return the events of a batch of which not all lines have the form of their kind, continued lines joined."""
    begun: list[tuple[int, Event | _Parsed]] = []
    for index, what in enumerate(whats):
        event = memo.get(what) or event_of(what, forms)
        if event is not None:
            begun.append((index, event))
            continue
        try:
            parsed = _parse(what)
            if parsed.kind == CONTINUED:
                _continue(begun, whats, parsed)
            else:
                begun.append((index, parsed))
        except REFUSALS as error:
            raise _fault(raw, index, error) from error
    return [_finished(raw, index, whats[index], said, memo) for index, said in begun]


def _finished(raw: Found, index: int, what: bytes, said: Event | _Parsed, memo: dict[bytes, Event]) -> Event:
    """Return the event of a line, made now if it had not the form of its kind."""
    if not isinstance(said, _Parsed):
        return said
    try:
        event = _event(said)
    except REFUSALS as error:
        raise _fault(raw, index, error) from error
    if len(memo) < MEMO_ENTRIES and len(what) <= MEMO_BYTES and FREE_MARK not in what:
        memo[what] = event
    return event


def _records(raw: RawBatch, events: Sequence[Event]) -> list[Recorded]:
    """Decode who and when of a batch whose events are known."""
    records: list[Recorded] = []
    known = iter(events)
    continued = b'"kind":"%b"' % CONTINUED.encode()
    for index, line in enumerate(lines_of(raw.data)):
        head, _, rest = line.partition(SECTION)
        try:
            form = _head(head, raw, index)
            by = _by(form.by)
            if not rest.startswith(continued):
                event = next(known)
                records.append(Recorded(form.seq, form.at, event, form.id, by, form.key, form.when, form.part))
        except (*REFUSALS, StopIteration) as error:
            raise _fault(raw, index, error) from error
    return records


@lru_cache(maxsize=1024)
def _by(said: bytes) -> By:
    """Return who says so; a session says it again and again."""
    return _taken(_loads(said), By)


def _head(head: bytes, raw: RawBatch, index: int) -> HeadForm:
    form = head_form(head)
    place = (raw.first + index, (index + 1, raw.last - raw.first + 1))
    if form is None or (form.seq, form.part) != place or (index and form.key is not None):
        raise ValueError("its head is not one that Tallybook writes here")
    return form


def decode(batches: Iterable[RawBatch]) -> Iterator[Batch]:
    """Yield each batch with its events; heads are decoded when asked for.

    Raises:
        DamagedLedgerError: A body does not fit its kind, although its chain does.
        NewerLedgerError: The ledger's format is from the future.
    """
    memo: dict[bytes, Event] = {}
    forms: Forms = {}
    known, misses = memo.get, 0
    for run in batches.runs if isinstance(batches, Batches) else map(_alone, batches):
        for found in run.found:
            whats = [line.partition(b"\t")[2] for line in found.lines]
            # Most batches hold nothing but what was seen before, and a look into the memo proves and decodes it.
            events: list[Any] = list(map(known, whats))
            if not all(events):
                events = _read(found, whats, events, memo, forms)
                misses += 1
                if misses % MEMO_MISSES == 0:
                    memo.clear()
            yield Batch(found.last, found.chain, events, _records, found)


def _alone(raw: RawBatch) -> Run:
    return Run([found_of(raw)])
