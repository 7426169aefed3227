"""Import of playbook files: from a file's bytes to entries, problems, and the events that record them.

The entries are read one by one. An item that is not an entry, or has more than an entry, is kept word for word in the
events as evidence. Besides the shapes that the specification names, files of other programs are read: tables of skills
or bullets by their ids, and lines of text under headings.

    {"skills": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    {"bullets": {ID: {"section", "content", "helpful", "harmful", …}}, "sections": {HEADING: [ID, …]}, …}
    ## HEADING
    [ID] helpful=5 harmful=0 :: TEXT

An entry of these files keeps its id as its name. A table can be a list of objects with an ``id`` as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
import json
import math
import re
from typing import Any, Final, TypeAlias

import attrs

from tallybook.ledger.errors import BadInputError, Problem
from tallybook.ledger.events import Entry, Event, ItemSkipped, PlaybookAdopted, PointLimited, PointSeeded, is_day
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.names import SECTION_NAMES, format_name, is_usable_name, next_free_number, parse_number
from tallybook.ledger.playbook_constants import BOOK_STAMP, MAX_INT, STAMP, UNTIL
from tallybook.ledger.strict_json import MAX_DEPTH, describe_error

ENTRY_KEYS: Final = ("name", "text", "helpful", "harmful", "score")
_STAMP_FORM: Final = re.compile(r"[0-9]{1,18}:[0-9a-f]{32}")
HEADING: Final = "is the heading of a section"
# The other top-level keys need the rest of the event's line.
MAX_SECTION_BYTES: Final = 32 * 1024
SHOWN_CHARS: Final = 40

TABLES: Final = ("skills", "bullets")
LINES: Final = "lines"
TOP_KEYS: Final = (*TABLES, LINES, "sections", "next_id", "similarity_decisions")
"""The top-level keys of the formats of other programs; the others, such as ``version``, are passed on."""

_FIELDS: Final = {"id": "name", "content": "text", "helpful_count": "helpful", "harmful_count": "harmful"}
"""Field of these formats → the field of an entry."""
_MORE_KEYS: Final = (
    "created_at",
    "embedding",
    "evidence",
    "justification",
    "neutral",
    "section",
    "sources",
    "status",
    "updated_at",
)
_REMOVED: Final = "invalid"
"""The ``status`` of a skill that its program has removed."""
_LINE: Final = re.compile(r"\s*(?:[-*]\s+)?\[([^\]\s][^\]]*)\]\s+helpful=(\d+)\s+harmful=(\d+)\s*::\s*(.*\S)\s*")
_HEADING: Final = re.compile(r"#{1,6}\s+(.*\S)\s*")


# ---- JSON as it was written ----


@attrs.frozen
class JsonNumber:
    """A JSON number as it was written, NaN and Infinity included, so that parsing loses no digit."""

    text: str

    @property
    def is_infinite(self) -> bool:
        """Return whether it is NaN or infinite, or so large that readers take it for infinite."""
        return not math.isfinite(float(self.text))


@attrs.frozen
class JsonObject:
    """A JSON object as it was written: every pair, repeated keys included."""

    pairs: tuple[tuple[str, Json], ...]

    def last(self) -> dict[str, Json]:
        """Return it as most readers read it: the last value of a repeated key counts."""
        return dict(self.pairs)


Json: TypeAlias = "str | bool | JsonNumber | list[Json] | JsonObject | None"
DECODER: Final = json.JSONDecoder(
    object_pairs_hook=lambda pairs: JsonObject(tuple(pairs)),
    parse_int=JsonNumber,
    parse_float=JsonNumber,
    parse_constant=JsonNumber,
)


def list_levels(value: Json) -> list[list[Json]]:
    """Return a value and everything in it, keys included, level by level."""
    levels, level = [], [value]
    while level:
        levels.append(level)
        inner: list[Json] = []
        for part in level:
            inner += chain.from_iterable(part.pairs) if isinstance(part, JsonObject) else ()
            inner += part if isinstance(part, list) else ()
        level = inner
    return levels


def find_flaws(value: Json) -> tuple[str, ...]:
    """Return what JSON readers disagree about in a value, each in a few words."""
    parts = list(chain.from_iterable(list_levels(value)))
    objects = [part for part in parts if isinstance(part, JsonObject)]
    numbers = [part for part in parts if isinstance(part, JsonNumber)]
    flaws = {
        "repeats a key, of which the last one counts": any(len(part.last()) < len(part.pairs) for part in objects),
        "contains a broken character, recorded as \ufffd": any(
            isinstance(part, str) and part != mend_text(part) for part in parts
        ),
        "holds a number that many cannot read": any(number.is_infinite for number in numbers),
    }
    return tuple(flaw for flaw, is_present in flaws.items() if is_present)


def mend_text(text: str) -> str:
    """Return a text with every half of a surrogate pair replaced, so that it can be written as UTF-8."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def to_plain(value: Json) -> Any:
    """Return a value as JSON that every reader accepts; an infinite number becomes its text."""
    if isinstance(value, JsonObject):
        return {mend_text(key): to_plain(child) for key, child in value.pairs}
    if isinstance(value, list):
        return [to_plain(child) for child in value]
    if isinstance(value, JsonNumber):
        read = str if value.is_infinite else int if value.text.lstrip("-").isdigit() else float
        return read(value.text)
    return mend_text(value) if isinstance(value, str) else value


def to_text(value: Json) -> str:
    """Return a value as it was written, without the white space between its parts."""
    if isinstance(value, JsonObject):
        return "{" + ",".join([f"{to_text(key)}:{to_text(child)}" for key, child in value.pairs]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([to_text(child) for child in value]) + "]"
    if isinstance(value, JsonNumber):
        return value.text
    return json.dumps(value, ensure_ascii=isinstance(value, str) and value != mend_text(value))


def shorten(value: Json) -> str:
    """Return a value short and on one line, for a message."""
    text = value if isinstance(value, str) else to_text(value)
    shown = repr(text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…")
    return shown if isinstance(value, str) else shown[1:-1]


# ---- The file ----


@attrs.frozen
class LegacyItem:
    """An entry of a legacy file.

    Attributes:
        index: Its index among the file's items, from 0.
        entry: The entry.
        origin: Shape that it had, as in PointSeeded.
        migrated: Shape that it was migrated from (OBS-SCORE-001): bare_string, dict_no_score or dict_with_score; empty
            for an entry that had both counters.
        score: The score that it was migrated from, or its JSON where that is not a count; None elsewhere.
        original: The item in JSON, where it has more than ``entry`` and ``origin`` show; empty elsewhere.
    """

    index: int
    entry: Entry
    origin: str
    migrated: str
    score: int | str | None
    original: str


@attrs.frozen
class LegacyFile:
    """The content of a legacy file.

    Attributes:
        items: Its entries in order; their names are unique.
        skipped: Its parts that are not entries: items without a text, headings of sections, unusual top-level keys.
        top: Its other top-level keys in order, as a JSON object that every reader accepts.
        stamp: The position that Tallybook wrote into it, ``SEQ:CHAIN``; None where it has no such text.
        sha256: SHA-256 of its bytes, in hex.
        problems: What a person should know about it, in the file's order.
        shared_stamp: The moment of a shared book that Tallybook wrote into it, ``SEQ:CHAIN``; None without one.
        sections: Heading → names of its entries, in a file of the later format; None in any other.
        until: Name → last day, for its entries that hold until a date; None where it has no such key.
        without_text: Name of an item that holds no text, and that no entry has → its index among the file's items.
    """

    items: tuple[LegacyItem, ...]
    skipped: tuple[ItemSkipped, ...]
    top: str
    stamp: str | None
    sha256: str
    problems: tuple[Problem, ...]
    shared_stamp: str | None = None
    sections: Mapping[str, list[str]] | None = None
    until: Mapping[str, str] | None = None
    without_text: Mapping[str, int] = attrs.field(factory=dict)

    @property
    def top_keys(self) -> dict[str, Any]:
        """Return ``top`` as a new dict: ``version``, ``last_updated`` and any other key of the file."""
        return dict(json.loads(self.top))

    @property
    def migrated(self) -> list[dict[str, int | str | None]]:
        """Return the migrated entries as the specification's diagnostic lists them (OBS-SCORE-001)."""
        return [
            {"name": item.entry.name, "from": item.migrated, "original_score": item.score}
            for item in self.items
            if item.migrated
        ]


@attrs.frozen
class _Slot:
    """An item of a file that may be an entry.

    Attributes:
        place: Where it is in the file: ``key_points[3]``.
        value: The item.
        section: The heading of its section, empty where that has none; None outside a section.
        skip: Why it cannot be an entry, whatever its value; empty where it may be one.
        written: The item as another format has it; None where that is ``value``.
    """

    place: str
    value: Json
    section: str | None = None
    skip: str = ""
    written: Json = None

    @property
    def original(self) -> str:
        """Return the item in JSON, as the file has it."""
        return to_text(self.value if self.written is None else self.written)

    @property
    def name(self) -> str | None:
        """Return its own name; None where it has none that can be used."""
        name = self.value.last().get("name") if isinstance(self.value, JsonObject) and not self.skip else None
        return name if isinstance(name, str) and is_usable_name(name) else None


_Counts = tuple[int, int, str, str, int | str | None, tuple[str, ...]]
"""The counters of an item, its shape, the shape and score that it is migrated from, and notes on unusual values."""


class NameAssigner:
    """Assigns a name to each entry of a file.

    Attributes:
        reserved: Names that must not be generated: those of the file and of the caller.
        used: Names of the entries so far.
        highest: Highest number among the names so far; generated names continue from there, as the specification says.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        """Start without entries."""
        self.reserved = set(reserved)
        self.used: set[str] = set()
        self.highest = 0

    def note_number(self, name: str | None) -> None:
        """Make later generated names continue after this one."""
        self.highest = max(self.highest, parse_number(name or "") or 0)

    def assign(self, own: str | None) -> str:
        """Return the name of the next entry: its own if it has one that no other entry has, else a generated one."""
        self.note_number(own)
        name = own
        # The first bearer of a name keeps it, so an old file that is put back renames nothing.
        if name is None or name in self.used:
            self.highest = next_free_number(self.highest, self.reserved)
            name = format_name(self.highest)
        self.used.add(name)
        return name


def read_legacy(data: bytes, source: str = "playbook.json", reserved: Collection[str] = ()) -> LegacyFile:
    """Read a playbook file in any shape that was ever written (REQ-SCORE-004, -005, -006).

    Args:
        data: The file's bytes.
        source: Name of the file in problems.
        reserved: Names that are not generated, even where no item of the file has them.

    Raises:
        BadInputError: It is empty, not JSON in UTF-8, nested too deeply, or not a playbook.
    """
    content = _parse_playbook(data, source)
    keys = content.last()
    own = _list_own_keys(keys)
    slots = list(_list_slots(content, own))
    naming = NameAssigner({*reserved, *(slot.name for slot in slots if slot.name)})
    items: list[LegacyItem] = []
    skipped: list[ItemSkipped] = []
    problems: list[Problem] = []
    sections: dict[str, list[str]] = {}
    without_text: dict[str, int] = {}
    if isinstance(keys.get("sections"), JsonObject | list) and "sections" not in own:
        problems.append(Problem(f"{source}: sections", "ignored, because the file also has key_points; kept unchanged"))
    for index, slot in enumerate(slots):
        text = slot.value.last().get("text") if isinstance(slot.value, JsonObject) else slot.value
        reason = slot.skip or ("" if isinstance(text, str) and text.strip() else "holds no text")
        names = sections.setdefault(slot.section, []) if slot.section else []
        # An odd item never costs the rest of the file.
        if reason:
            # Its number counts all the same: a generated name follows the highest one before it (REQ-SCORE-004).
            naming.note_number(slot.name)
            skipped.append(ItemSkipped(index, reason, slot.original))
            if slot.name:
                without_text[slot.name] = index
            notes: tuple[str, ...] = () if reason == HEADING else (f"{reason}; kept only in the ledger",)
        else:
            item, notes = _read_entry(index, slot, naming.assign(slot.name))
            items.append(item)
            names.append(item.entry.name)
        problems += [Problem(f"{source}: {slot.place}", note) for note in notes]
    others = {mend_text(key): to_plain(value) for key, value in keys.items() if key not in own}
    # A line holds at most 64 KiB, and the sections are part of one line.
    is_small = len(dumps(sections).encode()) <= MAX_SECTION_BYTES
    if not is_small:
        problems.append(Problem(f"{source}: sections", "too many to keep as sections; their entries are kept"))
    top = dumps(others | ({SECTION_NAMES: sections} if sections and is_small else {}))
    # The stamp says as of which event the file was rendered: a manual edit of it is compared with that moment.
    stamp, days = keys.get(STAMP), keys.get(UNTIL)
    return LegacyFile(
        items=tuple(items),
        skipped=tuple(skipped),
        top=top,
        stamp=mend_text(stamp) if isinstance(stamp, str) else None,
        sha256=sha256(data).hexdigest(),
        problems=tuple(problems),
        shared_stamp=_find_book_stamp(keys),
        sections=sections if "sections" in keys and "sections" in own else None,
        until={name: day for name, day in days.last().items() if is_day(day)} if isinstance(days, JsonObject) else None,
        without_text={name: index for name, index in without_text.items() if name not in naming.used},
    )


def seed_events(legacy: LegacyFile) -> tuple[Event, ...]:
    """Return the events that record a legacy file: its adoption, then each of its items in order."""
    seeds: dict[int, Event] = {skipped.index: skipped for skipped in legacy.skipped}
    for item in legacy.items:
        entry = item.entry
        seeds[item.index] = PointSeeded(
            entry.name, entry.helpful, entry.harmful, item.origin, entry.text, item.original
        )
    names = {item.entry.name for item in legacy.items}
    days = [PointLimited(name, "", day) for name, day in (legacy.until or {}).items() if name in names]
    adopted = PlaybookAdopted(legacy.sha256, len(legacy.items), legacy.top)
    return adopted, *(seeds[index] for index in sorted(seeds)), *days


def _parse_playbook(data: bytes, source: str) -> JsonObject:
    """Return the playbook in the file; lines of entries are an object with ``lines``.

    A byte order mark, which some editors write, is ignored.
    """
    too_deep = BadInputError(source, f"is nested more than {MAX_DEPTH} levels deep")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        lines = text.splitlines()
        has_lines = text.lstrip()[:1] != "{" and any(map(_LINE.fullmatch, lines))
        value: Json = JsonObject(((LINES, [*lines]),)) if has_lines else DECODER.decode(text)
    except ValueError as error:
        raise BadInputError(source, describe_error(error)) from error
    except RecursionError as error:
        raise too_deep from error
    # Python's own limit depends on its version and the stack, and other readers have limits of their own.
    if len(list_levels(value)) > MAX_DEPTH:
        raise too_deep
    if isinstance(value, JsonObject) and _find_form(value.last()):
        return value
    hint = 'put {"key_points": …} around it' if isinstance(value, list) else ""
    what = "is not a playbook, which is an object with key_points, sections, skills or bullets"
    raise BadInputError(source, what, hint)


def _find_form(top: dict[str, Json]) -> str:
    """Return the key under which a file has its entries: ``key_points``, ``skills``, …; empty where it has none."""
    if isinstance(top.get("key_points"), list):
        return "key_points"
    return next((key for key in (*TABLES, LINES, "sections") if isinstance(top.get(key), JsonObject | list)), "")


def _list_own_keys(top: dict[str, Json]) -> tuple[str, ...]:
    """Return the top-level keys that are not passed on; sections are read where there is no list of key_points."""
    stamps = (STAMP, UNTIL, BOOK_STAMP) if _find_book_stamp(top) is not None else (STAMP, UNTIL)
    own = {"key_points": ("key_points",), "sections": ("key_points", "sections")}
    return (*own.get(_find_form(top), TOP_KEYS), *stamps)


def _find_book_stamp(top: dict[str, Json]) -> str | None:
    """Return the stamp of a shared book; None where that key is the user's own."""
    value = top.get(BOOK_STAMP)
    is_stamped = isinstance(top.get(STAMP), str)
    return value if is_stamped and isinstance(value, str) and _STAMP_FORM.fullmatch(value) else None


def _list_slots(content: JsonObject, own: Collection[str]) -> Iterator[_Slot]:
    """Yield every item of the file that may be an entry, then the top-level keys that cannot be passed on.

    Args:
        content: The file.
        own: The top-level keys that are read here.
    """
    top = content.last()
    form = _find_form(top)
    table: Any = top[form]
    if form == "key_points":
        yield from (_Slot(f"key_points[{index}]", item) for index, item in enumerate(table))
    elif form == LINES and isinstance(table, list):
        yield from _list_line_slots(table)
    elif form == "sections":
        yield from _list_section_slots(table)
    else:
        yield from _list_table_slots(form, table, top.get("sections"))
    last_places = {key: place for place, (key, _) in enumerate(content.pairs)}
    for place, (key, value) in enumerate(content.pairs):
        pair = JsonObject(((key, value),))
        if place != last_places[key]:
            reason = "is repeated later, and the last one counts"
        elif key not in own:
            reason = "; ".join(find_flaws(pair))
        else:
            types = {"key_points": list, "sections": JsonObject, STAMP: str, UNTIL: JsonObject}
            fits = isinstance(value, types.get(key, object))
            reason = "" if fits else "is not what a playbook has there"
        if reason:
            yield _Slot(shorten(key), pair, skip=reason)


def _list_section_slots(sections: JsonObject | list[Json]) -> Iterator[_Slot]:
    """Yield the slots of the later format: a list of entries under each heading."""
    for heading, entries in sections.pairs if isinstance(sections, JsonObject) else ():
        place = f"sections[{shorten(heading)}]"
        if not isinstance(entries, list):
            yield _Slot(place, JsonObject(((heading, entries),)), skip="is not a list of entries")
            continue
        name = mend_text(heading)
        yield _Slot(place, JsonObject(((heading, []),)), name, skip=HEADING)
        yield from (_Slot(f"{place}[{index}]", entry, name) for index, entry in enumerate(entries))


def _list_table_slots(key: str, table: JsonObject | list[Json], sections: Json) -> Iterator[_Slot]:
    """Yield the slots of a table of skills or bullets, whose sections name them."""
    headings: dict[str, str] = {}
    for title, ids in sections.pairs if isinstance(sections, JsonObject) else ():
        for id_ in ids if isinstance(ids, list) else ():
            if isinstance(id_, str):
                headings[id_] = mend_text(title)
    rows = table.pairs if isinstance(table, JsonObject) else [(str(index), row) for index, row in enumerate(table)]
    for label, row in rows:
        place = f"{key}[{shorten(label) if isinstance(table, JsonObject) else label}]"
        if not isinstance(row, JsonObject):
            yield _Slot(place, row, skip="is not an object with its content")
            continue
        fields = {_FIELDS.get(field, field): value for field, value in row.pairs}
        if isinstance(table, JsonObject):
            fields.setdefault("name", label)
        name, section = fields.get("name"), fields.get("section")
        heading = headings.get(name) if isinstance(name, str) else None
        if heading is None and isinstance(section, str) and section.strip():
            heading = mend_text(section)
        why = "is removed there" if fields.get("status") == _REMOVED else ""
        yield _Slot(place, JsonObject(tuple(fields.items())), heading, why, row)


def _list_line_slots(lines: list[Json]) -> Iterator[_Slot]:
    """Yield the slots of lines of text."""
    heading = None
    for number, line in enumerate(lines, 1):
        text = line if isinstance(line, str) else ""
        if found := _LINE.fullmatch(text):
            name, helpful, harmful, rest = found.groups()
            # JSON writes a whole number without leading zeros.
            counts = [JsonNumber(digits.lstrip("0") or "0") for digits in (helpful, harmful)]
            entry = JsonObject((("name", name), ("text", rest), ("helpful", counts[0]), ("harmful", counts[1])))
            yield _Slot(f"line {number}", entry, heading, written=text)
        elif title := _HEADING.fullmatch(text):
            heading = title[1]
        elif text.strip():
            yield _Slot(f"line {number}", text, skip="is not a line of an entry")


# ---- One entry ----


def _read_entry(index: int, slot: _Slot, name: str) -> tuple[LegacyItem, tuple[str, ...]]:
    """Return the entry in a slot that has one, and notes on what is unusual about it."""
    fields = slot.value.last() if isinstance(slot.value, JsonObject) else {}
    text = mend_text(str(fields.get("text", slot.value)))
    helpful, harmful, origin, migrated, score, unusual = _read_counts(fields)
    flaws = find_flaws(slot.value)
    known = (*ENTRY_KEYS, *(_MORE_KEYS if slot.written is not None else ()))
    notes = flaws + unusual + _note_others(fields, name, known)
    origin = origin if slot.section is None else "section"
    if flaws or (notes and origin == "canonical"):
        origin = "odd"
    entry = Entry(name, text, helpful, harmful)
    # An item that can be rebuilt from its origin and its entry need not be kept.
    implied = {"bare_string": text, "dict_no_score": {"name": name, "text": text}}.get(origin, attrs.asdict(entry))
    original = slot.original if notes or to_plain(slot.value) != implied else ""
    return LegacyItem(index, entry, origin, migrated, score, original), notes


def _read_counts(fields: dict[str, Json]) -> _Counts:
    """Return the counters of an object by branches 0, 3 and 2 of the design's decision tree."""
    if not fields:
        return 0, 0, "bare_string", "bare_string", None, ()
    if "helpful" in fields and "harmful" in fields:
        helpful, notes = _read_whole_number(fields, "helpful", 0)
        harmful, more = _read_whole_number(fields, "harmful", 0)
        # An entry that only loses a residual score was migrated before, and is not reported (OBS-SCORE-001).
        return helpful, harmful, "canonical", "", None, notes + more
    half = tuple(f"has {key} alone, which does not count" for key in ("helpful", "harmful") if key in fields)
    if "score" in fields:
        score, notes = _read_whole_number(fields, "score", -MAX_INT)
        origin = "one_counter" if half else "dict_with_score"
        before = to_text(fields["score"]) if notes else score
        return max(score, 0), max(-score, 0), origin, "dict_with_score", before, half + notes
    return 0, 0, "one_counter" if half else "dict_no_score", "dict_no_score", None, half


def _read_whole_number(fields: dict[str, Json], key: str, floor: int) -> tuple[int, tuple[str, ...]]:
    """Return the whole number under a key, from ``floor`` to 2**53, and a note where the file has another value."""
    value = fields[key]
    text = value.text if isinstance(value, JsonNumber) else value if isinstance(value, str) else ""
    pattern = r"-?[0-9.]+([eE][+-]?[0-9]+)?" if isinstance(value, JsonNumber) else r"[+-]?[0-9]+"
    # Whole numbers up to 2**53 are exact as floats, and a float is read quickly however many digits it has.
    number = min(max(float(text), floor), MAX_INT) if re.fullmatch(pattern, text) else 0
    whole = int(number) if number == int(number) else 0
    if isinstance(value, JsonNumber) and text == str(whole):
        return whole, ()
    return whole, (f"{key} {shorten(value)} was read as {whole}",)


def _note_others(fields: dict[str, Json], name: str, known: Collection[str]) -> tuple[str, ...]:
    """Return notes on an item's own name where it is replaced, and on keys that its format does not have."""
    own = fields.get("name", name)
    why = "is another entry's" if is_usable_name(own) else "cannot stand"
    renamed = (f"name {shorten(own)} {why}; it is {name} from now on",) if own != name else ()
    extra = [key for key in fields if key not in known]
    more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
    unknown = (f"{shorten(extra[0])}{more} is not part of an entry; kept in the ledger only",) if extra else ()
    return renamed + unknown
