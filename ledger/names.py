"""The names of key points: the form ``kpt_NNN``, the next free one, and their sections. Standard library only."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping
    from typing import Any

PREFIX = "kpt_"
STAMP = "ledger"
"""Top-level key of ``playbook.json`` that says which moment of the ledger the file shows, as ``SEQ:CHAIN``."""
SECTION_NAMES = "section_names"
"""Top-level key of ``playbook.json`` with the grouping of a later format: heading → names of the entries under it."""
MAX_NAME_CHARS = 200
# A longer number comes from nobody who counts, and would give its length to every name after it.
MAX_NUMBER_DIGITS = 9
# The control characters, and the two separators that many programs take for the end of a line.
UNPRINTABLE = frozenset(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029)))


def number_of(name: str) -> int | None:
    """Return the NNN of a ``kpt_NNN`` name; None for any other name, and for more than nine digits."""
    digits = name.removeprefix(PREFIX)
    if digits == name or len(digits) > MAX_NUMBER_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def point_name(number: int) -> str:
    """Return the name with this number, three digits wide or as wide as it takes."""
    return f"{PREFIX}{number:03d}"


def free_number(above: int, taken: Container[str]) -> int:
    """Return the lowest number above ``above`` whose name is not taken.

    A number alone cannot say so: names of more digits than ``number_of`` reads are taken all the same.
    """
    number = above + 1
    while point_name(number) in taken:
        number += 1
    return number


def generate_keypoint_name(existing_names: Iterable[str]) -> str:
    """Return the specification's next name: one more than the highest number among those given, else ``kpt_001``."""
    names = set(existing_names)
    highest = max((number_of(name) or 0 for name in names), default=0)
    return point_name(free_number(highest, names))


def usable_name(value: object) -> bool:
    """Tell whether a name that a file or a person gave can stand as it is.

    Returns:
        True for a text of 1 to 200 characters, not only blanks, that can be written as UTF-8 and stays on one
        line. Its form is free: names that people gave are kept.
    """
    if not isinstance(value, str) or len(value) > MAX_NAME_CHARS or not value.strip():
        return False
    return UNPRINTABLE.isdisjoint(value) and not any("\ud800" <= char <= "\udfff" for char in value)


def find_name(given: str, names: Collection[str]) -> str | None:
    """Return the name that a person meant.

    Args:
        given: What the person wrote.
        names: The names that there are.

    Returns:
        The name as it was given; else the only one that differs in case or in leading zeros alone, so that ``KPT_001``
        and ``kpt_01`` mean ``kpt_001``; None where there is none, or several.
    """
    if given in names:
        return given
    folded = given.casefold()
    number = number_of(folded)
    like = [name for name in names if name.casefold() == folded or (number is not None and number_of(name) == number)]
    return like[0] if len(like) == 1 else None


class Naming:
    """Gives each entry of a file its name.

    Attributes:
        avoid: Names that are not generated: those of the file and of the caller; those generated lie below.
        given: Names of the entries so far.
        highest: Highest number among the names seen so far; the specification counts on from there.
    """

    __slots__ = ("avoid", "given", "highest")

    def __init__(self, avoid: Iterable[str]) -> None:
        """Begin with no entry."""
        self.avoid = set(avoid)
        self.given: set[str] = set()
        self.highest = 0

    def see(self, name: str | None) -> None:
        """Count on from a name, given or not."""
        self.highest = max(self.highest, number_of(name or "") or 0)

    def give(self, own: str | None) -> str:
        """Return an entry's name: its own, if it has a usable one that is nobody's yet, or a generated one."""
        self.see(own)
        name = own
        if name is None or name in self.given:
            self.highest = free_number(self.highest, self.avoid)
            name = point_name(self.highest)
        self.given.add(name)
        return name


def sections_of(top: Mapping[str, Any]) -> dict[str, list[str]] | None:
    """Return the sections among a playbook's top-level keys; None where there are none in the form of ours."""
    sections = top.get(SECTION_NAMES)
    if not isinstance(sections, dict):
        return None
    fits = all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in sections.values())
    return sections if fits else None


def filter_sections(top: Mapping[str, Any], present: Container[str]) -> dict[str, Any]:
    """Return top-level keys whose sections name only entries that are present; the headings stay."""
    sections = sections_of(top)
    if sections is None:
        return dict(top)
    return {**top, SECTION_NAMES: {key: [name for name in names if name in present] for key, names in sections.items()}}


def rename_in_sections(top: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return top-level keys whose sections name entries by their new names."""
    sections = sections_of(top)
    if sections is None:
        return dict(top)
    new = {key: [renamed.get(name, name) for name in names] for key, names in sections.items()}
    return {**top, SECTION_NAMES: new}


def join_sections(top: Mapping[str, Any], imported: Mapping[str, Any]) -> dict[str, Any]:
    """Return top-level keys with imported sections added; an entry that is in a section stays in it."""
    added = sections_of(imported)
    if added is None:
        return dict(top)
    sections = {key: list(names) for key, names in (sections_of(top) or {}).items()}
    grouped = {name for names in sections.values() for name in names}
    for key, names in added.items():
        sections.setdefault(key, []).extend(name for name in names if name not in grouped)
    return {**top, SECTION_NAMES: sections}
