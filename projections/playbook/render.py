"""The playbook as bytes and as rows. Pure: the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping
import json
from typing import Any

from tallybook.ledger import names
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import BOOK_STAMP, FLAT, STAMP, UNTIL
from tallybook.projections.playbook.inject import interval
from tallybook.projections.playbook.view import Playbook


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return an entry with exactly the four keys of the specification (REQ-SCORE-001)."""
    return {"name": entry.name, "text": entry.text, "helpful": entry.helpful, "harmful": entry.harmful}


def playbook_dict(playbook: Playbook, form: str = FLAT) -> dict[str, Any]:
    """Return the playbook in the specification's format, or SECTIONED in the later one, without the ledger's stamp."""
    if form == FLAT:
        top = names.filter_sections(playbook.top, playbook.entries, playbook.placed)
        content: dict[str, Any] = {"key_points": [entry_json(entry) for entry in playbook.entries.values()]}
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
