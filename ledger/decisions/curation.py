"""Decisions about curation: retire, restore, pin, unpin, reword and merge. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.decisions.update import Decision, day_fault, text_fault
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import Event
from tallybook.ledger.names import find_name

if TYPE_CHECKING:
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.playbook.view import Playbook

MAX_REASON_CHARS = 1_000
NEVER = "never"
"""In place of the last day of an entry that is to hold without an end."""


@attrs.frozen
class Curation:
    """A request to change an entry, or several entries in the same way.

    Attributes:
        verb: A key of CURATIONS.
        name: The entry.
        reason: Why; empty where none was given.
        text: Its new text, for ``reword``.
        sources: Names of the entries that are merged into it, for ``merge``.
        more_names: Names of further entries to change in the same batch.
        section: The heading of their new section, for ``move``.
        until: The new last day, or NEVER for no end, for ``reword``; with an empty text that alone changes.
    """

    verb: str
    name: str
    reason: str = ""
    text: str = ""
    sources: tuple[str, ...] = ()
    more_names: tuple[str, ...] = ()
    section: str = ""
    until: str = ""

    def __call__(self, state: Playbook, redactions: Redactions, _renamed: Mapping[str, str]) -> Decision:
        """Decide it as ``decide_curation``.

        Raises:
            RedactedTextError: Its text or reason was redacted.
        """
        redactions.check("reason", self.reason)
        redactions.check("text", self.text)
        return decide_curation(self, state)


def decide_curation(curation: Curation, state: Playbook) -> Decision:
    """Decide a curation request.

    Raises:
        BadInputError: The text or reason is invalid, or an entry would be merged into itself.
        UnknownEntryError: No entry ever had one of the names.
        NothingToDoError: The request is already fulfilled, or impossible for an entry in its present state.
    """
    check_reason(curation.reason)
    names = dict.fromkeys(_find_used_name(name, state) for name in (curation.name, *curation.more_names))
    curation = attrs.evolve(curation, sources=tuple(_find_used_name(name, state) for name in curation.sources))
    changes: list[Event] = []
    for name in names:
        wish = attrs.evolve(curation, name=name)
        # These two say themselves why an entry that is not in the playbook cannot be changed.
        if curation.verb not in {"restore", "unpin"}:
            _check_present(name, state)
        if wish.text or not wish.until:
            changes.append(CURATIONS[curation.verb](wish, state))
        if wish.until:
            changes.append(_limit(wish, state))
        if curation.verb == "restore":
            # Two entries with the same text are not both restored.
            state = attrs.evolve(state, entries={**state.entries, name: state.gone[name]})
    return Decision(tuple(changes))


def _find_used_name(given: str, state: Playbook) -> str:
    """Return the name of the entry that a person meant.

    Raises:
        UnknownEntryError: No entry ever had it.
    """
    name = find_name(given, state.used)
    if name is None:
        raise UnknownEntryError(given)
    return name


def check_reason(reason: str) -> None:
    """Refuse a text that cannot be a reason; an empty one is none.

    Raises:
        BadInputError: It is too long, blank, or not Unicode text.
    """
    if not reason:
        return
    fault = text_fault(reason)
    if len(reason) > MAX_REASON_CHARS:
        fault = f"the reason has {len(reason):,} characters, at most {MAX_REASON_CHARS:,} are taken"
    if fault is not None:
        raise BadInputError("reason", fault, "nothing was recorded")


def _check_present(name: str, state: Playbook) -> None:
    if name not in state.entries:
        into = state.merged.get(name)
        what = "is not in the playbook" if into is None else f"was merged into {into}"
        raise NothingToDoError(name, what, "see `tallybook why`")


def _names_with_text(text: str, state: Playbook) -> list[str]:
    """Return the names of the entries that have this text."""
    return [name for name, entry in state.entries.items() if entry.text == text]


def _restore(request: Curation, state: Playbook) -> Event:
    if request.name in state.entries:
        raise NothingToDoError(request.name, "is in the playbook")
    # Its counts and later ratings are part of the other entry: a restore would count them twice.
    if request.name in state.merged:
        into = state.merged[request.name]
        raise NothingToDoError(request.name, f"was merged into {into}", "undo that merge instead")
    if request.name not in state.gone:
        raise NothingToDoError(request.name, "was undone", "find that undo with `tallybook log` and undo it")
    # The text may have been added again under another name since.
    if same := _names_with_text(state.gone[request.name].text, state):
        raise NothingToDoError(request.name, f"would have the text of {same[0]}", f"`tallybook retire {same[0]}` first")
    return events.PointRestored(request.name, request.reason)


def _pin(request: Curation, state: Playbook) -> Event:
    if request.name in state.pinned:
        raise NothingToDoError(request.name, "is pinned")
    return events.PointPinned(request.name, request.reason)


def _unpin(request: Curation, state: Playbook) -> Event:
    if request.name not in state.pinned:
        raise NothingToDoError(request.name, "is not pinned")
    return events.PointUnpinned(request.name, request.reason)


def _reword(request: Curation, state: Playbook) -> Event:
    if (fault := text_fault(request.text)) is not None:
        raise BadInputError("text", fault, "nothing was recorded")
    same = _names_with_text(request.text, state)
    if request.name in same:
        raise NothingToDoError(request.name, "already has this text")
    if same:
        hint = f"`tallybook merge {same[0]} {request.name}`"
        raise NothingToDoError(request.name, f"would have the text of {same[0]}", hint)
    return events.PointReworded(request.name, request.reason, request.text)


def _limit(request: Curation, state: Playbook) -> Event:
    day = "" if request.until == NEVER else request.until
    if (fault := day_fault(day)) is not None:
        raise BadInputError(request.until, fault, f"or give {NEVER}; nothing was recorded")
    if state.until.get(request.name, "") == day:
        raise NothingToDoError(request.name, f"already holds until {day}" if day else "holds without an end")
    # An event of its own, so that older versions keep the text and an undo takes back the day alone.
    return events.PointLimited(request.name, request.reason, day)


def _move(request: Curation, state: Playbook) -> Event:
    if state.sections.get(request.name) == request.section:
        raise NothingToDoError(request.name, f"is in the section {request.section}")
    # An event for this entry alone: whole sections would replace what another machine moved.
    return events.PointPlaced(request.name, request.reason, request.section)


def _merge(request: Curation, state: Playbook) -> Event:
    for name in request.sources:
        _check_present(name, state)
    if request.name in request.sources:
        raise BadInputError(request.name, "cannot be merged into itself", "nothing was recorded")
    return events.PointMerged(request.name, tuple(dict.fromkeys(request.sources)), request.reason)


CURATIONS: Final[dict[str, Callable[[Curation, Playbook], Event]]] = {
    "retire": lambda request, _: events.PointRetired(request.name, request.reason),
    "restore": _restore,
    "pin": _pin,
    "unpin": _unpin,
    "reword": _reword,
    "move": _move,
    "merge": _merge,
}
"""Verb of a curation request → function that decides it."""
