"""Names of entries: the forms ``kpt_NNN`` and ``my_NNN``, the next free name, and sections. Standard library only."""

from __future__ import annotations

from tallybook.ledger.playbook_constants import PERSONAL_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence
    from typing import Any

PREFIX = "kpt_"
BY_SECTION = ""
"""In place of a beginning of new names: each has the slug of its entry's section."""
SECTION_NAMES = "section_names"
"""Top-level key of ``playbook.json`` with the sections of a later legacy format: heading → names of its entries."""
SECTION_KEYS = (SECTION_NAMES, "sections")
"""Top-level keys that say which section an entry has, in the flat format and in the later one."""
SECTIONS = {
    "PATTERNS & APPROACHES": "pat",
    "MISTAKES TO AVOID": "mis",
    "USER PREFERENCES": "pref",
    "PROJECT CONTEXT": "ctx",
    "OTHERS": "oth",
}
"""Heading of a section of the later format, in its order → the slug of its new names: ``pat-001``."""
OTHERS = "OTHERS"
MAX_NAME_CHARS = 200
# A longer number was not assigned by counting, and every later name would become as long.
MAX_NUMBER_DIGITS = 9
# Control characters, and the two Unicode separators that many programs treat as the end of a line.
UNPRINTABLE = frozenset(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029)))


def format_names(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names for a sentence, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def parse_number(name: str, prefix: str = PREFIX) -> int | None:
    """Return the NNN of a ``kpt_NNN`` name; None for any other name, and for more than nine digits."""
    digits = name.removeprefix(prefix)
    if digits == name or len(digits) > MAX_NUMBER_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def next_slug_name(slug: str, taken: Iterable[str]) -> str:
    """Return the name of this slug with the number after the highest taken one: ``pat-001`` is the first."""
    numbers = (parse_number(name, f"{slug}-") or 0 for name in taken)
    return f"{slug}-{max(numbers, default=0) + 1:03d}"


def slug_of(name: str) -> str | None:
    """Return the slug of a name such as ``pat-001``; None for any other name."""
    slug = name.partition("-")[0]
    return slug if slug in SECTIONS.values() and parse_number(name, f"{slug}-") is not None else None


def find_section(text: object) -> str | None:
    """Return the heading of the later format that a text is, whatever its case; None for any other value."""
    folded = text.casefold() if isinstance(text, str) else ""
    return next((heading for heading in SECTIONS if heading.casefold() == folded), None)


def format_name(number: int, prefix: str = PREFIX) -> str:
    """Return the name with this number, at least three digits wide."""
    return f"{prefix}{number:03d}"


def next_free_number(above: int, taken: Container[str], prefix: str = PREFIX) -> int:
    """Return the lowest number above ``above`` whose name is not taken."""
    # Comparing numbers alone would miss taken names that have more digits than `parse_number` reads.
    number = above + 1
    while format_name(number, prefix) in taken:
        number += 1
    return number


class NameGiver:
    """Gives new entries names that no entry ever had: ``kpt_NNN``, ``my_NNN``, or by their section ``pat-NNN``."""

    def __init__(self, above: int, taken: Collection[str], prefix: str) -> None:
        """Take the highest number so far, the names that are taken, and the beginning of new names, or BY_SECTION."""
        self._highest = above
        self._taken = taken
        self._prefix = prefix
        self._last_of_slug: dict[str, str] = {}

    def next(self, section: str = "", wish: str = "") -> str:
        """Return the next name.

        Args:
            section: The heading of the entry's section; empty for none.
            wish: The name that a program has given it already; kept if its number is above the highest so far.
        """
        wished = parse_number(wish) or 0
        if self._prefix != BY_SECTION or wished > self._highest:
            prefix = self._prefix or PREFIX
            self._highest = next_free_number(max(self._highest, wished - 1), self._taken, prefix)
            return format_name(self._highest, prefix)
        slug = SECTIONS.get(section, SECTIONS[OTHERS])
        given = self._last_of_slug.get(slug)
        self._last_of_slug[slug] = next_slug_name(slug, self._taken if given is None else (given,))
        return self._last_of_slug[slug]


def generate_keypoint_name(existing_names: Iterable[str]) -> str:
    """Return the specification's next name: one above the highest number among the given names, else ``kpt_001``."""
    names = set(existing_names)
    highest = max((parse_number(name) or 0 for name in names), default=0)
    return format_name(next_free_number(highest, names))


def is_usable_name(value: object) -> bool:
    """Return whether a name from a file or a person can be kept as it is.

    Any form is allowed, not only ``kpt_NNN``: a text of 1 to 200 characters, not only blanks, that can be encoded as
    UTF-8 and takes one line.
    """
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS or not value.strip():
        return False
    return UNPRINTABLE.isdisjoint(value) and not any("\ud800" <= char <= "\udfff" for char in value)


def find_name(text: str, names: Collection[str]) -> str | None:
    """Return the name that a person meant.

    Args:
        text: What the person wrote.
        names: The existing names.

    Returns:
        The name itself if it exists; else the only name that differs just in case or leading zeros, so that
        ``KPT_001`` and ``kpt_01`` mean ``kpt_001``; None where no name or several match.
    """
    if text in names:
        return text
    folded = text.casefold()
    prefix = PERSONAL_PREFIX if folded.startswith(PERSONAL_PREFIX) else PREFIX
    number = parse_number(folded, prefix)
    like = [
        name
        for name in names
        if name.casefold() == folded or (number is not None and parse_number(name, prefix) == number)
    ]
    # Several names that fit would make the answer a guess.
    return like[0] if len(like) == 1 else None


def read_sections(top: Mapping[str, Any]) -> dict[str, list[str]] | None:
    """Return the sections among a playbook's top-level keys: heading → names; None without valid ones."""
    sections = top.get(SECTION_NAMES)
    if not isinstance(sections, dict):
        return None
    fits = all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in sections.values())
    return sections if fits else None


def section_by_name(top: Mapping[str, Any], placed: Mapping[str, str]) -> dict[str, str]:
    """Return the heading of the section that each entry has.

    Args:
        top: The playbook's top-level keys.
        placed: Name → heading, for entries that were put into a section since, the last one last.
    """
    return {name: heading for heading, names in (read_sections(top) or {}).items() for name in names} | dict(placed)


def filter_sections(top: Mapping[str, Any], present: Container[str], placed: Mapping[str, str]) -> dict[str, Any]:
    """Return top-level keys with the present entries in their sections; headings among the keys stay, even empty ones.

    Args:
        top: The playbook's top-level keys.
        present: The names of its entries.
        placed: As for ``section_by_name``; these come after the others of their section.
    """
    own = read_sections(top)
    placed = {name: heading for name, heading in placed.items() if name in present}
    if own is None and not placed:
        return dict(top)
    sections = {
        heading: [name for name in names if name in present and name not in placed]
        for heading, names in (own or {}).items()
    }
    for heading in dict.fromkeys((*SECTIONS, *placed.values())):
        names = [name for name, section in placed.items() if section == heading]
        if names:
            sections.setdefault(heading, []).extend(names)
    return {**top, SECTION_NAMES: sections}


def rename_in_sections(top: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return top-level keys with the entries of sections renamed: old name → new name."""
    sections = read_sections(top)
    if sections is None:
        return dict(top)
    new = {key: [renamed.get(name, name) for name in names] for key, names in sections.items()}
    return {**top, SECTION_NAMES: new}


def join_sections(top: Mapping[str, Any], imported: Mapping[str, Any]) -> dict[str, Any]:
    """Return top-level keys with imported sections added; an entry that already has a section stays in it."""
    added = read_sections(imported)
    if added is None:
        return dict(top)
    sections = {key: list(names) for key, names in (read_sections(top) or {}).items()}
    grouped = {name for names in sections.values() for name in names}
    for key, names in added.items():
        sections.setdefault(key, []).extend(name for name in names if name not in grouped)
    return {**top, SECTION_NAMES: sections}
