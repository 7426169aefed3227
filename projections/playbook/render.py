"""The playbook as bytes, as rows and as the content of checkpoints. Pure: the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import json
from typing import Any, Final, TypeVar

from tallybook.ledger import names
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import BOOK_STAMP, FLAT, STAMP, UNTIL
from tallybook.projections.playbook.entry import MutableEntry, Past
from tallybook.projections.playbook.inject import interval
from tallybook.projections.playbook.view import Playbook


def entry_json(entry: Entry | MutableEntry) -> dict[str, Any]:
    """Return an entry with exactly the four keys of the specification (REQ-SCORE-001)."""
    return {"name": entry.name, "text": entry.text, "helpful": entry.helpful, "harmful": entry.harmful}


def playbook_dict(playbook: Playbook, form: str = FLAT) -> dict[str, Any]:
    """Return the playbook in the specification's format, or SECTIONED in the later one, without the ledger's stamp."""
    if form == FLAT:
        top = names.filter_sections(playbook.top, playbook.entries, playbook.placed)
        content: dict[str, Any] = {"key_points": [entry_json(entry) for entry in playbook.mutable.values()]}
    else:
        top = {key: value for key, value in playbook.top.items() if key not in names.SECTION_KEYS}
        sections = entries_by_section(playbook).items()
        content = {"sections": {heading: [entry_json(entry) for entry in entries] for heading, entries in sections}}
    # The last days of entries that hold until a date: no key without any.
    days = {name: day for name, day in playbook.until.items() if name in playbook.entries}
    until = {UNTIL: days} if days else {}
    # A version from the file replaces the default.
    return {"version": None, "last_updated": playbook.last_updated, **top, **until, **content}


def with_day(entry: Mapping[str, Any], until: Mapping[str, str], today: str) -> Mapping[str, Any]:
    """Return an entry as people are shown it: one that holds until a date says so after its text."""
    day = until.get(entry["name"])
    if day is None:
        return entry
    words = f"until {day}" if day >= today else f"not injected: held until {day}"
    return {**entry, "text": f"{entry['text']} ({words})"}


def entries_by_section(playbook: Playbook) -> dict[str, list[Entry]]:
    """Return the entries by section as the later format has them: an unknown heading, and none, is OTHERS."""
    sections = names.section_by_name(playbook.top, playbook.placed)
    found: dict[str, list[Entry]] = {heading: [] for heading in names.SECTIONS}
    for entry in playbook.entries.values():
        found[names.find_section(sections.get(entry.name)) or names.OTHERS].append(entry)
    return found


def stamp_text(stamp: tuple[int, str]) -> str:
    """Return the stamp of a rendering, ``SEQ:CHAIN`` of the last playbook event in it."""
    return f"{stamp[0]}:{stamp[1]}"


def read_stamp(text: str | None) -> tuple[int, str] | None:
    """Return the moment that a stamp names, None where it is none."""
    seq, _, chain = (text or "").partition(":")
    return (int(seq), chain) if seq.isascii() and seq.isdigit() and len(seq) < 20 and chain else None  # noqa: PLR2004


def playbook_bytes(playbook: Playbook, form: str = FLAT) -> bytes:
    """Return the bytes of ``playbook.json``, stamped with the last playbook event in it.

    Args:
        playbook: The playbook.
        form: FLAT, the specification's format, or SECTIONED, the later one.
    """
    document = playbook_dict(playbook, form)
    # At a moment of the book the file has the book's stamp alone, and so the same bytes on every machine.
    if playbook.stamp[0] or not playbook.shared_stamp[0]:
        document[STAMP] = stamp_text(playbook.stamp)
    if playbook.shared_stamp[0]:
        document[BOOK_STAMP] = stamp_text(playbook.shared_stamp)
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def needs_ratings(playbook: Playbook) -> list[dict[str, Any]]:
    """Return the entries of a playbook, the least certain first; of equals the older first.

    Returns:
        ``{name, text, helpful, harmful, low, high, width}``: the counts, and the 95 % interval of the share of helpful
        ratings and its width, all from 0 to 1.
    """
    rows = []
    for entry in playbook.entries.values():
        low, high = interval(entry.helpful, entry.harmful)
        rows.append(entry_json(entry) | {"low": low, "high": high, "width": high - low})
    return sorted(rows, key=lambda row: -float(row["width"]))


P = TypeVar("P", bound=Playbook)

PLAIN_FIELDS: Final = (
    "seq",
    "chain",
    "high_water",
    "adopted_at",
    "source",
    "adoption",
    "rewrites",
    "last_redaction",
    "has_begun",
    "pardons",
    "merged",
    "top",
    "placed",
    "until",
)
"""Fields that JSON can hold unchanged."""


# No checkpoint holds six fields: the policy is always the specification's, the last batch is read from the log again,
# no order is pending after a whole batch, `mutable` holds the values of `entries`, a state with a shared book in it is
# never stored, and the prefix is set by who decides.


def pack(state: Playbook) -> dict[str, Any]:
    """Return a state after a batch, under the specification's policy, as JSON values."""
    fields = {name: getattr(state, name) for name in PLAIN_FIELDS}
    return fields | {
        "entries": _rows(state.mutable.values()),
        "by_agents": _rows(state.by_agents.values()),
        "gone": _rows(state.gone.values()),
        "used": sorted(state.used - state.entries.keys() - state.gone.keys()),
        "due": list(state.due),
        "pruned": list(state.pruned),
        "pinned": sorted(state.pinned),
        "stamp": state.stamp,
        "latest": state.latest and state.latest.at,
    }


def unpack(values: Mapping[str, Any]) -> Playbook:
    """Return the playbook of packed values.

    Raises:
        ValueError, TypeError, KeyError: The values are not a packed state.
    """
    return unpack_as(Playbook, values)


def unpack_as(kind: type[P], values: Mapping[str, Any]) -> P:
    """Return a playbook, or a state that extends it, of packed values.

    Raises:
        ValueError, TypeError, KeyError: The values are not a packed state.
    """
    state = kind(**{name: values[name] for name in PLAIN_FIELDS})
    state.mutable.update((row[0], MutableEntry(*row)) for row in values["entries"])
    state.by_agents = {row[0]: Entry(*row) for row in values["by_agents"]}
    state.gone = {row[0]: Entry(*row) for row in values["gone"]}
    state.used = {*values["used"], *state.entries, *state.gone}
    state.due, state.pruned = dict.fromkeys(values["due"]), dict.fromkeys(values["pruned"])
    state.pinned = set(values["pinned"])
    seq, chain = values["stamp"]
    state.stamp = (seq, chain)
    state.latest = values["latest"] and Past(values["latest"])
    return state


def _rows(entries: Iterable[Entry | MutableEntry]) -> list[tuple[str, str, int, int]]:
    return [(entry.name, entry.text, entry.helpful, entry.harmful) for entry in entries]
