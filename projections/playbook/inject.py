"""What is injected into a session: the choice of entries, one line each. Standard library only, for hooks."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.names import UNPRINTABLE
from tallybook.ledger.playbook_constants import UNTIL
from tallybook.projections.playbook.confidence import lower_bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from typing import Any

PLACEHOLDER = "{key_points}"
MAX_ENTRY_CHARS = 1_000
UNTESTED_SHARE = 0.2
"""Share of the room reserved for unrated entries, so that they can be tried."""

OWN_HEADING = "\nFrom the user's own playbook, for all projects:"
"""The line before a person's own entries; an entry cannot forge it, for its line begins with its name."""

# Terminals act on some of these characters, and a model may read others as the end of a line.
_BLANK = dict.fromkeys(map(ord, UNPRINTABLE), " ")
_LEFT_OUT = "({} more key points were left out for want of room.)"


class Choice(NamedTuple):
    """The entries that are injected.

    Attributes:
        names: Their names, in the playbook's order.
        lines: Their lines, and a last line that counts the entries left out, if any.
        left_out: How many entries were left out.
        sections: The heading of each entry's section; empty for an entry of a playbook in the flat format.
    """

    names: tuple[str, ...]
    lines: tuple[str, ...]
    left_out: int
    sections: tuple[str, ...]


def leave_out_expired(entries: Sequence[Mapping[str, Any]], today: str) -> Sequence[Mapping[str, Any]]:
    """Return the entries that a session can be given: those whose last day, where they have one, is not past."""
    return [entry for entry in entries if entry.get(UNTIL, today) >= today]


def one_line(text: str) -> str:
    """Return a text with every character that could end a line or steer a terminal replaced by a blank."""
    # All of these are unprintable, and nearly every text is printable.
    return text if text.isprintable() else text.translate(_BLANK)


def line(entry: Mapping[str, Any]) -> str:
    """Return an entry as the line that a model reads (REQ-SCORE-003); nothing in it can forge another line."""
    text_line = f"[{entry['name']}] helpful={entry['helpful']} harmful={entry['harmful']} :: {entry['text']}"
    return one_line(text_line)


def choose(entries: Sequence[Mapping[str, Any]], room: int) -> Choice:
    """Choose the entries of a playbook to inject.

    Where all fit, all are injected. Otherwise unrated entries get UNTESTED_SHARE of the room, the newest first, and
    rated ones the rest, the best by ``lower_bound`` first and of equals the newer; room that one group leaves goes to
    the other. A line of more than MAX_ENTRY_CHARS is cut.

    Args:
        entries: The playbook's entries in their order, ``{name, text, helpful, harmful}``, and in the later format
            ``section``.
        room: How many characters the lines may take, line feeds and the headings of sections included.
    """
    # The headings of all sections, because which of them are shown follows only from the choice.
    room -= headings_size(entries)
    lines = _all_lines(entries, room)
    if lines is not None:
        return Choice(tuple(entry["name"] for entry in entries), tuple(lines), 0, sections_of(entries))
    room -= len(_LEFT_OUT.format(len(entries)))
    newest = range(len(entries) - 1, -1, -1)
    unrated = [index for index in newest if not (entries[index]["helpful"] or entries[index]["harmful"])]
    trial, room_left = _choose_fitting(unrated, entries, int(room * UNTESTED_SHARE))
    proven, room_left = _choose_fitting(
        _rated_indexes(entries, newest), entries, room - int(room * UNTESTED_SHARE) + room_left
    )
    rest, _ = _choose_fitting([index for index in unrated if index not in trial], entries, room_left)
    all_chosen = sorted((trial | proven | rest).items())
    names = tuple(entries[index]["name"] for index, _ in all_chosen)
    left_out = len(entries) - len(all_chosen)
    lines = [*(text for _, text in all_chosen), _LEFT_OUT.format(left_out)]
    return Choice(names, tuple(lines), left_out, sections_of([entries[index] for index, _ in all_chosen]))


def sections_of(entries: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the heading of each entry's section; empty for an entry of a playbook in the flat format."""
    return tuple(entry.get("section", "") for entry in entries)


def headings_size(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return the characters that the headings of all sections take, line feeds included."""
    return sum(len(_heading(section)) + 1 for section in {*sections_of(entries)} - {""})


def _heading(section: str) -> str:
    return f"## {section}"


def _all_lines(entries: Iterable[Mapping[str, Any]], room: int) -> list[str] | None:
    """Return the lines of all entries, None where they need more room."""
    lines = []
    # The last line has no line feed after it.
    room_left = room + 1
    for entry in entries:
        lines.append(_cut(line(entry)))
        room_left -= len(lines[-1]) + 1
        if room_left < 0:
            break
    return lines if room_left >= 0 else None


def _rated_indexes(entries: Sequence[Mapping[str, Any]], newest: Iterable[int]) -> list[int]:
    """Return the indexes of the rated entries, the highest lower bound first."""
    bounds: dict[tuple[int, int], float] = {}
    by_bound = []
    for index in newest:
        counts = (entries[index]["helpful"], entries[index]["harmful"])
        if counts[0] or counts[1]:
            if counts not in bounds:
                bounds[counts] = -lower_bound(*counts)
            by_bound.append((bounds[counts], index))
    # A stable sort: the newer of equals comes first.
    return [index for _, index in sorted(by_bound, key=lambda pair: pair[0])]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ENTRY_CHARS else text[: MAX_ENTRY_CHARS - 1] + "…"


def cut_line(entry: Mapping[str, Any], room: int) -> str | None:
    """Return the line of an entry, cut where it is too long; None where it and a line feed do not fit."""
    # A line is longer than its text unless it is cut, so most lines that do not fit are never built.
    if min(len(entry["text"]), MAX_ENTRY_CHARS) < room:
        text = _cut(line(entry))
        if len(text) + 1 <= room:
            return text
    return None


def _choose_fitting(
    indexes: Iterable[int], entries: Sequence[Mapping[str, Any]], room: int
) -> tuple[dict[int, str], int]:
    """Return each index whose line still fits, with that line, and the remaining room."""
    fitting = {}
    for index in indexes:
        if (text := cut_line(entries[index], room)) is not None:
            room -= len(text) + 1
            fitting[index] = text
    return fitting, room


def told_lines(choice: Choice, held: Container[str], own: Container[str] = ()) -> list[str]:
    """Return the lines of a choice without those of the entries that are withheld; their room stays empty.

    In the later format each section has its heading before its entries. The lines of a person's own entries, those
    named in ``own``, come last and under a heading.
    """
    by_section: dict[str, list[str]] = {}
    mine = []
    for name, section, text in zip(choice.names, choice.sections, choice.lines, strict=False):
        if name in own:
            mine.append(text)
        elif name not in held:
            by_section.setdefault(section, [_heading(section)] if section else []).append(text)
    told = [text for texts in by_section.values() for text in texts]
    told += [OWN_HEADING, *mine] if mine else []
    return [*told, *choice.lines[len(choice.names) :]] if told else []


def fill(template: str, lines: Sequence[str]) -> str:
    """Return a template with ``{key_points}`` replaced by the lines; an empty text without any (REQ-SCORE-003).

    Only that placeholder is replaced, so braces in a template or a text are harmless.
    """
    return template.replace(PLACEHOLDER, "\n".join(lines)) if lines else ""


def prompt(key_points: Iterable[Mapping[str, Any]], template: str) -> str:
    """Return the template filled with all entries, an empty text without any (REQ-SCORE-003)."""
    return fill(template, [line(entry) for entry in key_points])
