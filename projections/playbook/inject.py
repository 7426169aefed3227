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


class OwnEntry(dict[str, object]):
    """An entry of the person's own playbook, which no draw withholds and the project does not record."""


class Draw(NamedTuple):
    """A draw; without an open question all of it is empty.

    Attributes:
        held: The selected entries that are withheld, in order.
        question: Id of the event that asked.
        lineage: The session with which the conversation began.
        units: What was drawn for.
        probability: With which each unit is held.
    """

    held: tuple[str, ...] = ()
    question: str = ""
    lineage: str = ""
    units: tuple[str, ...] = ()
    probability: float = 0.0


class Selection(NamedTuple):
    """What is selected for a session, before a draw withholds some of it.

    Attributes:
        chosen: The entries that were selected, in the order in which they are injected.
        lines: Their lines, and a last line that counts the entries left out, if any.
        candidates: The entries that were selected from.
        left_out: For the project's entries (False) and the person's own (True), cause → how many were left out for it.
        lowest: For either, the lowest score of one that was selected; nothing where no task ranked them.
        template: The text around the lines.
    """

    chosen: Sequence[Mapping[str, Any]] = ()
    lines: tuple[str, ...] = ()
    candidates: Sequence[Mapping[str, Any]] = ()
    left_out: Mapping[bool, Mapping[str, int]] = {}
    lowest: Mapping[bool, float] = {}
    template: str = ""

    def text_without(self, held: Container[str] = ()) -> str:
        """Return the text for a model without the entries that are withheld; their room stays empty.

        In the later format each section has its heading before its entries. The person's own entries come last and
        under a heading.
        """
        by_section: dict[str, list[str]] = {}
        mine = []
        for entry, text in zip(self.chosen, self.lines, strict=False):
            section = entry.get("section", "")
            if isinstance(entry, OwnEntry):
                mine.append(text)
            elif entry["name"] not in held:
                by_section.setdefault(section, [_heading(section)] if section else []).append(text)
        lines = [text for texts in by_section.values() for text in texts]
        lines += [OWN_HEADING, *mine] if mine else []
        return fill(self.template, [*lines, *self.lines[len(self.chosen) :]] if lines else [])


def names_of(entries: Iterable[Mapping[str, Any]], *, own: bool = False) -> tuple[str, ...]:
    """Return the names of the project's entries, or of the person's own."""
    return tuple(entry["name"] for entry in entries if isinstance(entry, OwnEntry) is own)


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


def choose(entries: Sequence[Mapping[str, Any]], room: int) -> Selection:
    """Choose the entries of a playbook to inject.

    Where all fit, all are injected. Otherwise unrated entries get UNTESTED_SHARE of the room, the newest first, and
    rated ones the rest, the best by ``lower_bound`` first and of equals the newer; room that one group leaves goes to
    the other. A line of more than MAX_ENTRY_CHARS is cut.

    Args:
        entries: The playbook's entries in their order, ``{name, text, helpful, harmful}``, in the later format
            ``section``; OwnEntry where they are the person's own.
        room: How many characters the lines may take, line feeds and headings included.
    """
    # The headings of all sections, because which of them are shown follows only from the choice.
    room -= headings_size(entries)
    # The last line has no line feed after it.
    fitting, _ = _choose_fitting(range(len(entries)), entries, room + 1)
    has_all = len(fitting) == len(entries)
    if not has_all:
        room -= len(_LEFT_OUT.format(len(entries)))
        newest = range(len(entries) - 1, -1, -1)
        unrated = [index for index in newest if not (entries[index]["helpful"] or entries[index]["harmful"])]
        rated = [index for index in newest if entries[index]["helpful"] or entries[index]["harmful"]]
        # A stable sort: the newer of equals comes first.
        rated.sort(key=lambda index: -lower_bound(entries[index]["helpful"], entries[index]["harmful"]))
        trial_room = int(room * UNTESTED_SHARE)
        fitting, room_left = _choose_fitting(unrated, entries, trial_room)
        proven, room_left = _choose_fitting(rated, entries, room - trial_room + room_left)
        more, _ = _choose_fitting([index for index in unrated if index not in fitting], entries, room_left)
        fitting |= proven | more
    chosen = [entries[index] for index in sorted(fitting)]
    lines = [fitting[index] for index in sorted(fitting)]
    lines += [] if has_all else [_LEFT_OUT.format(len(entries) - len(chosen))]
    own_left_out = len(names_of(entries, own=True)) - len(names_of(chosen, own=True))
    left_out = {False: {"room": len(entries) - len(chosen) - own_left_out}, True: {"room": own_left_out}}
    return Selection(chosen, tuple(lines), entries, left_out)


def headings_size(entries: Sequence[Mapping[str, Any]]) -> int:
    """Return the characters that the headings of all sections and of the own entries take, line feeds included."""
    headings = {entry.get("section", "") for entry in entries if not isinstance(entry, OwnEntry)} - {""}
    own_size = len(OWN_HEADING) + 1 if names_of(entries, own=True) else 0
    return sum(len(_heading(heading)) + 1 for heading in headings) + own_size


def _heading(section: str) -> str:
    return f"## {section}"


def cut_line(entry: Mapping[str, Any], room: int) -> str | None:
    """Return the line of an entry, cut where it is too long; None where it and a line feed do not fit."""
    # A line is longer than its text unless it is cut, so most lines that do not fit are never built.
    if min(len(entry["text"]), MAX_ENTRY_CHARS) < room:
        text = line(entry)
        text = text if len(text) <= MAX_ENTRY_CHARS else text[: MAX_ENTRY_CHARS - 1] + "…"
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


def fill(template: str, lines: Sequence[str]) -> str:
    """Return a template with ``{key_points}`` replaced by the lines; an empty text without any (REQ-SCORE-003).

    Only that placeholder is replaced, so braces in a template or a text are harmless.
    """
    return template.replace(PLACEHOLDER, "\n".join(lines)) if lines else ""


def prompt(key_points: Iterable[Mapping[str, Any]], template: str) -> str:
    """Return the template filled with all entries, an empty text without any (REQ-SCORE-003)."""
    return fill(template, [line(entry) for entry in key_points])
