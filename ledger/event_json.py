"""The JSON of an event's body, and JSON that is read strictly: no key twice, no number that is none.

This is the only module of `ledger` that imports msgspec and cattrs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, lru_cache
import json
from math import isfinite, isinf
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import attrs
import msgspec

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import EVENT_TYPES, FREE, Event, LedgerOpened, Numbers
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.kinds.limits import MAX_INT

if TYPE_CHECKING:
    from cattrs import Converter

    T = TypeVar("T")


MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
# Every reader of JSON accepts this depth; their own limits differ, also between versions of Python.
MAX_DEPTH = 100
# As many characters as 2^53 has with a sign.
_MAX_DIGITS = 17
HINT = "nothing was recorded"


def loads(data: bytes, source: str, hint: str = HINT) -> Any:
    """Return the JSON value of these bytes.

    Args:
        data: UTF-8, at most MAX_PAYLOAD_BYTES.
        source: Their name in the error: a file's name, ``standard input``.
        hint: The end of the error's message.

    Raises:
        BadInputError: Not UTF-8, not JSON, nested too deeply, or with something that readers disagree about: a key
            twice in one object, NaN, Infinity, a number that overflows, or a whole number beyond 2^53.
    """
    if len(data) > MAX_PAYLOAD_BYTES:
        raise BadInputError(source, f"has more than {MAX_PAYLOAD_BYTES:,} bytes", hint)
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_check_keys,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            parse_float=_parse_float,
        )
    except (ValueError, RecursionError) as error:
        raise BadInputError(source, describe_error(error), hint) from error
    # Fewer brackets than that cannot nest so deep, so most payloads are not walked through.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and is_too_deep(value):
        raise BadInputError(source, f"is nested more than {MAX_DEPTH} deep", hint)
    return value


def describe_error(error: ValueError | RecursionError) -> str:
    """Return what is wrong with bytes that cannot be read as JSON."""
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text, from byte {error.start} on"
    if isinstance(error, json.JSONDecodeError):
        place = f"at line {error.lineno}, column {error.colno}"
        return f"is not JSON: {error.msg} {place}" if error.doc.strip() else "is empty"
    # The refusals below are errors of no special class.
    return "is nested too deeply" if isinstance(error, RecursionError) else str(error)


def is_canonical(value: bytes) -> bool:
    """Return whether JSON is in the spelling of the ledger, without values that readers disagree about."""
    try:
        return dumps(loads(value, "line")).encode() == value
    except (BadInputError, UnicodeEncodeError):
        return False


def is_too_deep(value: Any) -> bool:
    """Return whether a JSON value is nested more than MAX_DEPTH deep."""
    layer = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for part in layer:
            inner += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if not inner:
            return False
        layer = inner
    return True


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has the key {twice!r} twice in one object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"holds {name}, which is no JSON")


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or abs(int(digits)) > MAX_INT:
        raise ValueError(f"holds the number {digits[:20]}, beyond 2^53")
    return int(digits)


def _parse_float(digits: str) -> float:
    if isinf(number := float(digits)):
        raise ValueError(f"holds the number {digits[:20]}, which is too large")
    return number


def _lift_injection(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an injection of version 1, which left out entries for want of room alone."""
    names, left_out = fields.pop("names"), fields.pop("left_out")
    if fields:
        raise ValueError(f"expected names and left_out, got {', '.join(fields)}")
    empty = {"lowest": None, "candidates": "", "question": "", "lineage": "", "units": (), "probability": 0.0}
    return {"names": names, "held": (), "left_out": {"room": left_out}, **empty}


def _add_fields(**new: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the function that adds the fields that a version has and the one before it had not."""

    def lift(fields: dict[str, Any]) -> dict[str, Any]:
        if not fields.keys().isdisjoint(new):
            raise ValueError(f"has a field of a later version: {', '.join(new)}")
        return fields | new

    return lift


UPCASTS: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {
    ("playbook.injected", 1): _lift_injection,
    ("playbook.injected", 2): _add_fields(file=""),
    ("point.edited", 1): _add_fields(change="", helpful_before=0, harmful_before=0),
    ("point.proposed", 1): _add_fields(section=""),
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
    cls, version = EVENT_TYPES.get(kind, (LedgerOpened, 0))
    types = {field.type for field in attrs.fields(attrs.resolve_types(cls))}
    texts = FREE_FIELDS[cls]
    # The slow path checks the format of the ledger. With an object among the fields, the key of the first text could
    # stand in that object, where `decode_fast` would take it for the beginning of the texts.
    if begin != f'"kind":"{kind}","v":{version}'.encode() or cls is LedgerOpened or (texts and Numbers in types):
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
    # One comparison proves canonical form, no unknown field and no repeated key.
    return event if encode(event) == fields else None
