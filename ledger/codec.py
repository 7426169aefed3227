"""Lines to events and events to drafts: strict in both directions, tolerant of kinds and versions from the future.

A line is read on one of two paths, which agree wherever both give an event:

* The fast path, `decode_fast`, reads a line in exactly the form that this version writes, as nearly every line is.
* The slow path reads all other lines: old versions, unknown kinds, redacted texts, texts that continue on further
  lines. Only this path decides what is damage, and says why.

This is the only module of `ledger` that imports msgspec and cattrs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import date
from functools import cache, lru_cache, partial
import json
from math import isfinite
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import attrs
import msgspec

from tallybook.ledger.errors import BadInputError, DamagedLedgerError, NewerLedgerError, Problem
from tallybook.ledger.events import EVENT_TYPES, FREE, KIND_OF, Event, LedgerOpened, Numbers, UnknownEvent
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import CONTINUED, FORMAT, FREE_MARK, SECTION, Draft, RawBatch, split_key, split_line
from tallybook.ledger.playbook_constants import MAX_INT
from tallybook.ledger.records import Author, Batch, EventRecord
from tallybook.ledger.sharing.numbers import SharedNumber, format_shared_number
from tallybook.ledger.strict_json import is_canonical

if TYPE_CHECKING:
    from cattrs import Converter

    T = TypeVar("T")

# A rating's what-section is some 80 bytes, and there are few different ones; long ones hardly ever repeat.
MEMO_ENTRIES = 16_384
MEMO_BYTES = 256
# A full memo takes no more, because remembering bodies that never repeat takes a sixth of a replay of them. Each time
# that so many batches had an unknown body it is emptied, because in time other bodies repeat.
MEMO_MISSES = 16_384
_AT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z"
_TEXT = r'[^"\\\x00-\x1f]+'
_HEAD = re.compile(
    r'\{"crc":"[0-9a-f]{8}","seq":([1-9][0-9]{0,17}),"id":"(' + _TEXT + r')"'
    r'(?:,"key":"(' + _TEXT + r')")?,"at":"(' + _AT + r')"(?:,"when":"(' + _AT + r')")?'
    r',"part":\[([1-9][0-9]{0,8}),([1-9][0-9]{0,8})\],"by":(\{.*\})'
)

# ---- Fields of an event ----


def _lift_injection(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an injection of version 1, which left out entries for want of room alone."""
    names, left_out = fields.pop("names"), fields.pop("left_out")
    if fields:
        raise ValueError(f"expected names and left_out, got {', '.join(fields)}")
    empty = {"lowest": None, "candidates": "", "question": "", "lineage": "", "units": (), "probability": 0.0}
    return {"names": names, "held": (), "left_out": {"room": left_out}, **empty}


def _add_fields(fields: dict[str, Any], /, **new: Any) -> dict[str, Any]:
    """Return the fields with those that a version has and the one before it had not."""
    if not fields.keys().isdisjoint(new):
        raise ValueError(f"has a field of a later version: {', '.join(new)}")
    return fields | new


UPCASTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
    ("playbook.injected", 1): _lift_injection,
    ("playbook.injected", 2): partial(_add_fields, file=""),
    ("point.edited", 1): partial(_add_fields, change="", helpful_before=0, harmful_before=0),
    ("point.proposed", 1): partial(_add_fields, section=""),
}
"""(kind, old version) → a function from its fields to those of the next version; applied up to today's version."""

REFUSALS = (ValueError, TypeError, KeyError, AttributeError)
"""What `structure` raises where fields do not fit their kind."""

FREE_FIELDS = {
    cls: tuple(field.name for field in attrs.fields(cls) if FREE in field.metadata) for cls, _ in EVENT_TYPES.values()
}
"""Class of an event → the names of its free texts."""


class UnfitError(ValueError):
    """Fields do not fit their class; the message ends with the path to the first one that does not."""


# Hooks of cattrs, one for each type of field. A hook returns a value of exactly that type or raises TypeError or
# ValueError: by itself cattrs would turn None into "None" and 2.9 into 2.


def _check_int(value: Any, _: object) -> int:
    if type(value) is not int or abs(value) > MAX_INT:
        raise TypeError
    return value


def _check_number(value: Any, _: object) -> float:
    if type(value) not in {int, float} or not isfinite(value) or abs(value) > MAX_INT:
        raise TypeError
    number: float = value
    return number


def check_text(value: Any, _: object = None) -> str:
    """Return a text.

    Raises:
        TypeError: It is something else.
    """
    if type(value) is not str:
        raise TypeError(f"expected str, got {type(value).__name__}")
    return value


def _check_texts(value: Any, _: object) -> tuple[str, ...]:
    # A class holds a tuple where JSON has a list.
    if type(value) not in {list, tuple}:
        raise TypeError
    return tuple(map(check_text, value))


def _check_numbers(value: Any, _: object) -> Numbers:
    if type(value) not in {Numbers, dict}:
        raise TypeError
    return Numbers(value)


_CHECKS: Final[dict[Any, Callable[[Any, object], Any]]] = {
    int: _check_int,
    float: _check_number,
    str: check_text,
    str | None: lambda value, _: None if value is None else check_text(value),
    int | None: lambda value, _: None if value is None else _check_int(value, None),
    float | None: lambda value, _: None if value is None else _check_number(value, None),
    tuple[str, ...]: _check_texts,
    Numbers: _check_numbers,
}
"""Type of a field → its hook."""


@cache
def _checks_of(cls: type[Any]) -> dict[str, Callable[[Any, object], Any]]:
    return {field.name: _CHECKS[field.type] for field in attrs.fields(attrs.resolve_types(cls))}


@cache
def _make_converter() -> Converter:
    # It takes 45 ms to load, as long as all the rest of a command that reads the ledger.
    from cattrs import Converter  # noqa: PLC0415 - as above

    converter = Converter(forbid_extra_keys=True)
    for type_ in (int, float, str, Numbers):
        converter.register_structure_hook(type_, _CHECKS[type_])
    converter.register_structure_hook_func(lambda type_: type_ == tuple[str, ...], _check_texts)
    return converter


def structure_fields(fields: dict[str, Any], cls: type[T], path: str) -> T:
    """Return the instance of a class with these fields.

    Raises:
        UnfitError: They do not fit; the message gives the place below ``path``.
    """
    try:
        checks = _checks_of(cast("Hashable", cls))
        return cls(**{name: checks[name](value, None) for name, value in fields.items()})
    except REFUSALS:
        # Slow to load, and seldom needed.
        from cattrs import BaseValidationError, transform_error  # noqa: PLC0415 - as above

    # The same checks again, by cattrs, which says where they fail.
    try:
        return _make_converter().structure(fields, cls)
    except BaseValidationError as error:
        raise UnfitError(transform_error(error, path=path)[0]) from error


def structure(kind: str, version: int, fields: dict[str, Any], path: str = "$") -> Event:
    """Return the event of these fields, lifted to today's version.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: They are not those of the kind.
    """
    cls, today = EVENT_TYPES[kind]
    for old in range(version, today):
        fields = UPCASTS[kind, old](fields)
    event: Event = structure_fields(fields, cls, path)
    return event


def encode(event: Event, when: str | None = None) -> Draft:
    """Return an event as a draft: the fields of its class, and its free text separately.

    Raises:
        BadInputError: A field does not have the type or is outside of the bounds that its class declares.
    """
    if isinstance(event, UnknownEvent):
        raise BadInputError(event.kind, "is not a kind that this version writes")
    cls = type(event)
    kind = KIND_OF[cls]
    # Not by cattrs: it would turn a text into a list of its characters where the class has a tuple of texts.
    fields = {name: getattr(event, name) for name in _checks_of(cast("Hashable", cls))}
    try:
        structure_fields(fields, cls, "$")
    except UnfitError as error:
        raise BadInputError(kind, str(error)) from error
    names = FREE_FIELDS[cls]
    texts = {name: fields.pop(name) or "" for name in names}
    return Draft(kind, EVENT_TYPES[kind][1], fields, texts if names else None, when)


def texts_of(event: Event) -> dict[str, str]:
    """Return the free texts of an event by field, without those that are empty or were redacted."""
    if isinstance(event, UnknownEvent):
        texts: dict[str, Any] = json.loads(event.free or "{}")
    else:
        texts = {field: getattr(event, field) for field in FREE_FIELDS[type(event)]}
    return {field: text for field, text in texts.items() if isinstance(text, str) and text}


# ---- One line: the fast path ----


class _Shape(NamedTuple):
    """How the fast path reads lines of one kind.

    Attributes:
        first_text: How the first free text begins, ``,"text":``; empty where the kind has none.
        decode: Reads all fields of a line, as one JSON object, into the class of the kind.
        encode: Returns the fields of an event, in the order of the class, as canonical JSON.
    """

    first_text: bytes
    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]


def _encode_floats(event: Any) -> bytes:
    # msgspec writes 1e-7 where the ledger writes 1e-07.
    return dumps({field.name: getattr(event, field.name) for field in attrs.fields(type(event))}).encode()


# Bounded, because a damaged log may name any number of kinds.
@lru_cache(maxsize=128)
def _shape_of(begin: bytes) -> _Shape | None:
    """Return the shape of lines that begin with this kind and version; None where they take the slow path."""
    kind = begin.decode("latin-1").removeprefix('"kind":"').partition('"')[0]
    if kind not in EVENT_TYPES:
        return None
    cls, version = EVENT_TYPES[kind]
    types = {field.type for field in attrs.fields(attrs.resolve_types(cls))}
    texts = FREE_FIELDS[cls]
    # With an object among the fields, the key of the first text could stand in that object, where `decode_fast` would
    # take it for the beginning of the texts.
    if begin != f'"kind":"{kind}","v":{version}'.encode() or (texts and Numbers in types):
        return None
    return _Shape(
        f',"{texts[0]}":'.encode() if texts else b"",
        msgspec.json.Decoder(cls, dec_hook=lambda type_, value: _check_numbers(value, type_)).decode,
        _encode_floats if types & {float, float | None, Numbers} else msgspec.json.Encoder().encode,
    )


# The bytes between the fields of the body and the free texts.
_BETWEEN: Final = re.compile(rb'\},"sum":"[0-9a-f]{32}",\t"free":\{"salt":"[ !#-\[\]-~]*"')


def decode_fast(what: bytes) -> Event | None:
    """Return the event of a line in exactly the form that this version writes; None for any other line.

    msgspec reads the fields strictly into the class, and writes them again in the order of the class. If these are the
    bytes that were read, the JSON is canonical, no field is unknown and no key repeated.

    Args:
        what: The line after its first section, up to and with its end.
    """
    begin, _, rest = what.partition(b',"body":')
    shape = _shape_of(begin)
    if shape is None or not rest.endswith(b"}\n"):
        return None
    first_text, decode, encode = shape
    fields = rest[:-2]
    if first_text:
        body, *texts = _BETWEEN.split(fields, 1)
        if not (texts and texts[0].startswith(first_text)):
            return None
        fields = body + texts[0]
    try:
        event: Event = decode(fields)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    # The slow path refuses the format of a later version.
    if isinstance(event, LedgerOpened) and event.format > FORMAT:
        return None
    # One comparison proves canonical form, no unknown field and no repeated key.
    return event if encode(event) == fields else None


# ---- One line: the slow path ----


class _LineParts(NamedTuple):
    """The sections of a line as JSON values; ``texts`` is None where there are none, or where they were redacted."""

    kind: str
    version: int
    body: Any
    texts: dict[str, str] | None
    redacted: bool


def _loads(data: bytes) -> Any:
    """Return a JSON value in the spelling of the ledger; in another one, readers may disagree about the value."""
    if not is_canonical(data):
        raise ValueError("it is not canonical JSON")
    return json.loads(data)


def _parse(what: bytes) -> _LineParts:
    _, what, free = split_line(SECTION + what)
    value = _loads(what)
    kind, version, body = value["kind"], value["v"], value["body"]
    if type(kind) is not str or type(version) is not int or version < 1:
        raise TypeError("expected a text as kind and a number from 1 as v")
    if value.keys() != ({"kind", "v", "body"} if free is None else {"kind", "v", "body", "sum"}):
        raise ValueError("expected kind, v and body, and a sum where there is free text")
    texts = None
    if free is not None and free != b"null":
        texts = _loads(free)
        check_text(texts.pop("salt"))
    return _LineParts(kind, version, body, texts, free == b"null")


def _is_known(kind: str, version: int) -> bool:
    return kind in EVENT_TYPES and version <= EVENT_TYPES[kind][1]


def _append_continuation(before: _LineParts | None, line: _LineParts) -> None:
    """Add a continued text to the line that it continues."""
    if before is None or not (before.redacted or before.texts) or not (line.redacted or line.texts):
        raise ValueError("it continues a text that is not there")
    if line.redacted or before.redacted:
        return
    texts, added = before.texts or {}, line.texts or {}
    if not added.keys() <= texts.keys():
        raise ValueError("it continues a text that is not there")
    for field, more in added.items():
        texts[field] = check_text(texts[field]) + check_text(more)


def _to_event(line: _LineParts) -> Event:
    """Return the event of a line; a kind or version from the future as an UnknownEvent."""
    kind, version, body, texts, redacted = line
    if not _is_known(kind, version):
        return UnknownEvent(kind, version, dumps(body), None if texts is None else dumps(texts))
    fields = FREE_FIELDS[EVENT_TYPES[kind][0]]
    if type(body) is not dict:
        raise TypeError("expected an object as body")
    # Free text in the body could never be redacted.
    if not body.keys().isdisjoint(fields):
        raise ValueError("its free text is in its body")
    # A redacted text is None, and the event remains.
    event = structure(kind, version, body | (dict.fromkeys(fields) if redacted else texts or {}), "$.body")
    if isinstance(event, LedgerOpened) and event.format > FORMAT:
        raise NewerLedgerError("events.jsonl", event.format, FORMAT)
    return event


# ---- Heads: who and when, in the exact form that Tallybook writes ----


class LineHead(NamedTuple):
    """The fields of a head.

    Attributes:
        seq: Event number.
        id: Id of the event.
        key: Idempotency key; None without one.
        at: When it was recorded.
        when: When it happened, if that was another time; None otherwise.
        part: Index in its batch, from 1, and the size of the batch.
        by: Who recorded it, in JSON.
    """

    seq: int
    id: str
    key: str | None
    at: str
    when: str | None
    part: tuple[int, int]
    by: bytes


def parse_head(head: bytes) -> LineHead | None:
    """Return the fields of a line's head; None where Tallybook did not write it."""
    try:
        match = _HEAD.fullmatch(head.decode())
        if match is None:
            return None
        seq, id_, key, at, when, part, size, by = match.groups()
        # Arithmetic with a day that is not in the calendar would fail.
        date.fromisoformat(at[:10])
        if when is not None:
            date.fromisoformat(when[:10])
        return LineHead(int(seq), id_, key, at, when, (int(part), int(size)), by.encode())
    except ValueError:
        return None


def parse_head_at(head: bytes, batch: RawBatch, index: int) -> LineHead | None:
    """Return the fields of the head of a batch's line; None where Tallybook did not write it in this place."""
    fields = parse_head(head)
    if fields is None or (index and fields.key):
        return None
    # A batch of a shared history lacks the lines that others show, and can have the numbers of another log.
    is_part = type(batch.first) is SharedNumber
    place = fields.seq, fields.part
    return fields if is_part or place == (batch.first + index, (index + 1, len(batch.lines))) else None


def parse_session(by: bytes) -> str | None:
    """Return the session in a head's ``by``; None without one, and where Tallybook did not write ``by``."""
    try:
        return decode_author(by).session
    except REFUSALS:
        # Decoding the head reports it.
        return None


# ---- Batches ----


def _damage(batch: RawBatch, index: int, error: Exception) -> DamagedLedgerError:
    seq = batch.first + index
    message = f"its chain fits, but no Tallybook wrote this: {error}"
    return DamagedLedgerError([Problem(f"seq {seq}", message, seq)])


def _decode_lines(batch: RawBatch, whats: Sequence[bytes], events: list[Any], memo: dict[bytes, Event]) -> list[Event]:
    """Return the events of a batch, and remember those that may come again.

    Args:
        batch: The batch.
        whats: Each of its lines after the first section, with its end.
        events: The event of each line that the memo has, None for the others; changed in place.
        memo: The end of a line → its event, as read before.
    """
    for index, event in enumerate(events):
        if event is None:
            what = whats[index]
            events[index] = decoded = decode_fast(what)
            if decoded is None:
                # The whole batch, because a continued text belongs to the line before it.
                return _decode_lines_slowly(batch, whats)
            if len(memo) < MEMO_ENTRIES and len(what) <= MEMO_BYTES and FREE_MARK not in what:
                memo[what] = decoded
    return events


def _decode_lines_slowly(batch: RawBatch, whats: Sequence[bytes]) -> list[Event]:
    """Return the events of a batch, all on the slow path; continued texts are joined."""
    lines: dict[int, _LineParts] = {}
    events: dict[int, Event] = {}
    index = 0
    try:
        for index, what in enumerate(whats):
            parts = _parse(what)
            if parts.kind == CONTINUED:
                _append_continuation(next(reversed(lines.values()), None), parts)
            else:
                lines[index] = parts
        for index, parts in lines.items():
            events[index] = _to_event(parts)
    except REFUSALS as error:
        raise _damage(batch, index, error) from error
    return list(events.values())


def _decode_records(batch: RawBatch, events: Sequence[Event]) -> list[EventRecord]:
    """Return the events of a batch with their metadata, which is decoded here."""
    records: list[EventRecord] = []
    remaining = iter(events)
    continued = b'"kind":"%b"' % CONTINUED.encode()
    for index, line in enumerate(batch.lines):
        head, _, rest = line.partition(SECTION)
        try:
            fields = parse_head_at(head, batch, index)
            if fields is None:
                raise ValueError("its head is not one that Tallybook writes here")
            seq, id_, joined, at, when, part, by = fields
            author = decode_author(by)
            if not rest.startswith(continued):
                key, payload = split_key(joined) if joined else (None, "")
                event, number = next(remaining), format_shared_number(seq)
                records.append(EventRecord(number, at, event, id_, author, key, when, part, payload))
        except (*REFUSALS, StopIteration) as error:
            raise _damage(batch, index, error) from error
    return records


@lru_cache(maxsize=1024)
def decode_author(by: bytes) -> Author:
    """Return the author of an event; most events of a session have the same one."""
    return structure_fields(_loads(by), Author, "$.by")


def decode(batches: Iterable[RawBatch]) -> Iterator[Batch]:
    """Yield each batch with its events; heads are decoded when first used.

    Raises:
        DamagedLedgerError: A body does not fit its kind, although its chain does.
        NewerLedgerError: The ledger's format is from the future.
    """
    memo: dict[bytes, Event] = {}
    recall, misses = memo.get, 0
    for batch in batches:
        whats = [line.partition(b"\t")[2] for line in batch.lines]
        # Most batches have only lines that were read before: finding them in the memo checks and decodes them.
        events: list[Any] = list(map(recall, whats))
        if not all(events):
            events = _decode_lines(batch, whats, events, memo)
            misses += 1
            if misses % MEMO_MISSES == 0:
                memo.clear()
        yield Batch(batch.last, batch.chain, events, _decode_records, batch)


def join(raw: RawBatch, events: Sequence[Event]) -> Batch:
    """Return an appended batch with the events that were encoded into it last, which are not decoded again."""
    if len(raw.lines) == len(events):
        return Batch(raw.last, raw.chain, events, _decode_records, raw, raw.position.at)
    # Its texts go on on further lines, or it ends with the names that it means.
    return next(decode([raw]))
