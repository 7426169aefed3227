"""What an agent is told of its playbook: the entries that earn their room, a line each. Standard library only."""

from __future__ import annotations

from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.names import UNPRINTABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

PLACEHOLDER = "{key_points}"
MAX_ENTRY_CHARS = 1_000
UNTESTED_SHARE = 0.2
"""What part of the room entries that nobody rated may have, so that they get their trial."""
_Z = 1.959963984540054
"""The normal distribution's quantile for an interval of 95 %, both tails."""

# A terminal obeys some of them, and a model may take others for the end of a line.
_BLANK = dict.fromkeys(map(ord, UNPRINTABLE), " ")
_LEFT_OUT = "({} more key points were left out for want of room.)"


def lower_bound(helpful: int, harmful: int) -> float:
    """Return the lower end of the 95 % interval in which an entry's share of helpful ratings lies.

    Returns:
        Wilson's score interval for helpful / (helpful + harmful), from 0 to 1; 0 without a helpful rating.
    """
    number = helpful + harmful
    if not helpful:
        # Worked out, it would be as little as floats can tell from nothing, or nothing.
        return 0.0
    share, square = helpful / number, _Z * _Z
    # A power and no square root: a hook would load a module for that alone.
    spread: float = _Z * ((share * (1 - share) + square / (4 * number)) / number) ** 0.5
    return (share + square / (2 * number) - spread) / (1 + square / number)


class Choice(NamedTuple):
    """What is told.

    Attributes:
        names: Names of the entries that are told, in the playbook's order.
        lines: Their lines, and a last one where others were left out.
        left_out: How many were.
    """

    names: tuple[str, ...]
    lines: tuple[str, ...]
    left_out: int


def one_line(text: str) -> str:
    """Return a text with a blank in the place of everything that a terminal or a model could take for a line's end."""
    # Whatever is to go is unprintable, and hardly a text has any of that.
    return text if text.isprintable() else text.translate(_BLANK)


def line(entry: Mapping[str, Any]) -> str:
    """Return an entry as the line that a model reads (REQ-SCORE-003); nothing in it can forge another line."""
    said = f"[{entry['name']}] helpful={entry['helpful']} harmful={entry['harmful']} :: {entry['text']}"
    return one_line(said)


def choose(entries: Sequence[Mapping[str, Any]], room: int) -> Choice:
    """Return what is told of a playbook in so many characters.

    All of it where that fits. Else the best by ``lower_bound``, the newer first of equals, while entries that nobody
    rated keep UNTESTED_SHARE of the room for the newest of them; what one kind leaves free goes to the other. A line of
    more than MAX_ENTRY_CHARS is cut.
    """
    lines = _whole(entries, room)
    if lines is not None:
        return Choice(tuple(entry["name"] for entry in entries), tuple(lines), 0)
    room -= len(_LEFT_OUT.format(len(entries)))
    newest = range(len(entries) - 1, -1, -1)
    untested = [place for place in newest if not (entries[place]["helpful"] or entries[place]["harmful"])]
    kept, left = _fitting(untested, entries, int(room * UNTESTED_SHARE))
    best, left = _fitting(_rated(entries, newest), entries, room - int(room * UNTESTED_SHARE) + left)
    more, _ = _fitting([place for place in untested if place not in kept], entries, left)
    told = sorted((kept | best | more).items())
    names = tuple(entries[place]["name"] for place, _ in told)
    out = len(entries) - len(told)
    return Choice(names, (*(text for _, text in told), _LEFT_OUT.format(out)), out)


def _whole(entries: Iterable[Mapping[str, Any]], room: int) -> list[str] | None:
    """Return the lines of all entries, None where they need more room."""
    lines = []
    # None follows the last, so that its end of a line counts as room.
    left = room + 1
    for entry in entries:
        lines.append(_cut(line(entry)))
        left -= len(lines[-1]) + 1
        if left < 0:
            break
    return lines if left >= 0 else None


def _rated(entries: Sequence[Mapping[str, Any]], newest: Iterable[int]) -> list[int]:
    """Return the places of the entries that were rated, those that are surest to help first."""
    bounds: dict[tuple[int, int], float] = {}
    ranked = []
    for place in newest:
        counts = (entries[place]["helpful"], entries[place]["harmful"])
        if counts[0] or counts[1]:
            if counts not in bounds:
                bounds[counts] = -lower_bound(*counts)
            ranked.append((bounds[counts], place))
    # A stable sort: the newer of equals comes first.
    return [place for _, place in sorted(ranked, key=lambda one: one[0])]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ENTRY_CHARS else text[: MAX_ENTRY_CHARS - 1] + "…"


def _fitting(places: Iterable[int], entries: Sequence[Mapping[str, Any]], room: int) -> tuple[dict[int, str], int]:
    """Return the places whose lines fit, each taken that still does, with its line; and the room that is left."""
    fitting = {}
    for place in places:
        # A line is longer than its text, unless it is cut: most that do not fit need not be put together.
        if min(len(entries[place]["text"]), MAX_ENTRY_CHARS) < room:
            text = _cut(line(entries[place]))
            if len(text) + 1 <= room:
                room -= len(text) + 1
                fitting[place] = text
    return fitting, room


def fill(template: str, lines: Sequence[str]) -> str:
    """Return a template with the lines in the place of ``{key_points}``; an empty text where there are none.

    Only that placeholder is replaced, so braces in a template or a text are harmless.
    """
    return template.replace(PLACEHOLDER, "\n".join(lines)) if lines else ""
