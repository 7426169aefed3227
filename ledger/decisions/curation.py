"""What people decide about entries: pure functions of the wish and the known facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.decisions.update import Decision, Known, text_fault
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownPointError
from tallybook.ledger.events import (
    PointMerged,
    PointPinned,
    PointRestored,
    PointRetired,
    PointReworded,
    PointUnpinned,
)
from tallybook.ledger.names import find_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallybook.ledger.events import Event

MAX_REASON_CHARS = 1_000


@attrs.frozen
class Wish:
    """What somebody wants to become of an entry, or the same of several.

    Attributes:
        verb: A key of WISHES.
        name: The entry.
        reason: Why, empty where none was given.
        text: Its new text, for ``reword``.
        merged: Names of the entries that go into it, for ``merge``.
        others: Names of further entries of which the same is wanted, in the same batch.
    """

    verb: str
    name: str
    reason: str = ""
    text: str = ""
    merged: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def decide_wish(wish: Wish, known: Known) -> Decision:
    """Decide what a wish comes to.

    Raises:
        BadInputError: A text or the reason could not stand in the playbook, or an entry would go into itself.
        UnknownPointError: No entry ever had one of the names.
        NothingToDoError: It is so already, or cannot be done to an entry as this one stands.
    """
    if wish.reason and (fault := reason_fault(wish.reason)) is not None:
        raise BadInputError("--reason", fault, "nothing was recorded")
    names = dict.fromkeys(_used_name(name, known) for name in (wish.name, *wish.others))
    wish = attrs.evolve(wish, merged=tuple(_used_name(name, known) for name in wish.merged))
    events = []
    for name in names:
        events.append(WISHES[wish.verb](attrs.evolve(wish, name=name), known))
        if wish.verb == "restore":
            # Two entries with the same text are not both restored.
            known = attrs.evolve(known, points={**known.points, name: known.gone[name]})
    return Decision(tuple(events))


def _used_name(given: str, known: Known) -> str:
    """Return the name of the entry that was meant.

    Raises:
        UnknownPointError: There never was one.
    """
    name = find_name(given, known.used)
    if name is None:
        raise UnknownPointError(given)
    return name


def reason_fault(reason: str) -> str | None:
    """Say why something cannot be a reason, None where it can."""
    if len(reason) > MAX_REASON_CHARS:
        return f"the reason has {len(reason):,} characters, at most {MAX_REASON_CHARS:,} are taken"
    return text_fault(reason)


def _standing(name: str, known: Known) -> None:
    if name not in known.points:
        into = known.merged.get(name)
        what = "is not in the playbook" if into is None else f"went into {into}"
        raise NothingToDoError(name, what, "`tallybook why` tells how it left")


def _saying(text: str, known: Known) -> list[str]:
    """Return the names of the entries that say this already."""
    return [name for name, point in known.points.items() if point.text == text]


def _retire(wish: Wish, known: Known) -> Event:
    _standing(wish.name, known)
    return PointRetired(wish.name, wish.reason)


def _restore(wish: Wish, known: Known) -> Event:
    if wish.name in known.points:
        raise NothingToDoError(wish.name, "stands in the playbook")
    if wish.name in known.merged:
        raise NothingToDoError(wish.name, f"went into {known.merged[wish.name]}", "undo that merge instead")
    if wish.name not in known.gone:
        raise NothingToDoError(wish.name, "was undone", "undo that undoing; `tallybook log` shows its number")
    if same := _saying(known.gone[wish.name].text, known):
        raise NothingToDoError(wish.name, f"would say what {same[0]} says", f"`tallybook retire {same[0]}` first")
    return PointRestored(wish.name, wish.reason)


def _pin(wish: Wish, known: Known) -> Event:
    _standing(wish.name, known)
    if wish.name in known.pinned:
        raise NothingToDoError(wish.name, "is pinned")
    return PointPinned(wish.name, wish.reason)


def _unpin(wish: Wish, known: Known) -> Event:
    if wish.name not in known.pinned:
        raise NothingToDoError(wish.name, "is not pinned")
    return PointUnpinned(wish.name, wish.reason)


def _reword(wish: Wish, known: Known) -> Event:
    _standing(wish.name, known)
    if (fault := text_fault(wish.text)) is not None:
        raise BadInputError("TEXT", fault, "nothing was recorded")
    same = _saying(wish.text, known)
    if wish.name in same:
        raise NothingToDoError(wish.name, "says that already")
    if same:
        raise NothingToDoError(wish.name, f"would say what {same[0]} says", f"`tallybook merge {same[0]} {wish.name}`")
    return PointReworded(wish.name, wish.reason, wish.text)


def _merge(wish: Wish, known: Known) -> Event:
    for name in (wish.name, *wish.merged):
        _standing(name, known)
    if wish.name in wish.merged:
        raise BadInputError(wish.name, "cannot go into itself", "nothing was recorded")
    return PointMerged(wish.name, tuple(dict.fromkeys(wish.merged)), wish.reason)


WISHES: Final[dict[str, Callable[[Wish, Known], Event]]] = {
    "retire": _retire,
    "restore": _restore,
    "pin": _pin,
    "unpin": _unpin,
    "reword": _reword,
    "merge": _merge,
}
"""What can be wished for → what decides it."""
