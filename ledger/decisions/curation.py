"""Decisions about curation: the verbs of people, and the operations of a curator. Pure functions.

An extraction result of the later format may carry operations:

``{"operations": [{"type": "ADD" | "UPDATE" | "MERGE" | "DELETE", …}], "bullet_tags": [{"name", "tag", "rationale"}]}``

A tag is a rating and ADD is a new entry: both count at once. The other operations are proposals, unless the user allows
a curator to apply them; an operation that changes a protected entry is always a proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.decisions.update import Decision, IgnoredItem, day_fault, number_items, section_of, text_fault
from tallybook.ledger.errors import BadInputError, NothingToDoError, UnknownEntryError
from tallybook.ledger.events import Entry, Event
from tallybook.ledger.names import MAX_NAME_CHARS, find_name, parse_number
from tallybook.ledger.playbook_constants import RATE

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
    names = dict.fromkeys(find_used_name(name, state) for name in (curation.name, *curation.more_names))
    curation = attrs.evolve(curation, sources=tuple(find_used_name(name, state) for name in curation.sources))
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


def find_used_name(given: str, state: Playbook) -> str:
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
"""Verb of a curation request → function that decides it; a new last day is decided besides."""


# ---- Operations of a curator ----

OPERATIONS: Final = "operations"
TAGS: Final = "bullet_tags"
MOST: Final = 10
"""So many operations of one result count."""
PROPOSE, APPLY, PERSON = "propose", "apply", "person"
"""What becomes of UPDATE, MERGE and DELETE: proposals, changes unless an entry is protected, or changes in any case."""
REDACT: Final = "redact"
"""The verb of a proposal to erase the text of an event; accepted, it is erased before the acceptance is recorded."""
_TYPES: Final = ("ADD", "UPDATE", "MERGE", "DELETE")
_FEWEST_SOURCES: Final = 2


@attrs.define
class Translation:
    """The translation of a result of the later format into an update, and what its operations do before that.

    Attributes:
        state: The playbook after the operations so far.
        may: PROPOSE, APPLY or PERSON; empty where operations and tags do not count.
        shown: The names that the model's prompt showed; None where it is not known, and any name counts.
        places: The places in the result that count; None for all.
        refusal: Returns why a new text is refused because it was redacted; None where it may be recorded.
        changes: What the operations do or propose; notes of tags.
        ignored: The operations and tags that have no effect.
        payload: The result without its operations and tags.
        texts: Place of an ADD → its new entry, as an extraction result has it.
        tags: Place of a tag → its rating, as an extraction result has it.
        place: The operation that is being translated.
    """

    state: Playbook
    may: str = ""
    shown: Collection[str] | None = None
    places: Collection[str] | None = None
    refusal: Callable[[str], str | None] = lambda _: None
    changes: list[Event] = attrs.field(factory=list)
    ignored: list[IgnoredItem] = attrs.field(factory=list)
    payload: Any = None
    texts: dict[str, Any] = attrs.field(factory=dict)
    tags: dict[str, Any] = attrs.field(factory=dict)
    place: str = ""

    def target_fault(self, name: object) -> str:
        """Return why an entry cannot be named by an operation; empty where it can."""
        if not isinstance(name, str) or not name:
            return "names no entry"
        if name not in self.state.entries:
            return "no such entry in the playbook"
        # A name that the model was not shown is a guess.
        if self.shown is not None and name not in self.shown:
            return "the prompt did not show this entry"
        return ""

    def decide(self, change: events.PointProposed) -> None:
        """Propose a change, or make it."""
        entries = [self.state.entries[name] for name in change.merged or (change.name,)]
        cause = "" if self.may == APPLY else "the settings say propose"
        # Two entries at 0/2 that are merged into one at 3/1 give 3/5, which the next update prunes.
        if change.merged and self.state.prunes(_sum_up(entries, "", "")):
            cause = "the next update would prune the result"
        # Pinned entries and mostly helpful ones are a person's, whether they stay or are absorbed.
        if any(map(self.state.is_protected, entries)):
            cause = "protected"
        if cause and self.may != PERSON:
            self.changes.append(change.evolve(cause=cause))
        else:
            made, self.state = make_change(change, self.state)
            self.changes += made


def translate(payload: Any, step: Translation) -> Translation:
    """Return a translation with what a result says: new entries and ratings, and what its operations do.

    Where operations are given, its new entries do not count.
    """
    step.payload = payload
    if not step.may or not isinstance(payload, dict) or not ({OPERATIONS, TAGS} & payload.keys()):
        return step
    step.payload = flat = {key: value for key, value in payload.items() if key not in {OPERATIONS, TAGS}}
    if OPERATIONS in payload:
        _translate_items(step, OPERATIONS, payload[OPERATIONS])
        if flat.get("new_key_points"):
            step.ignored.append(IgnoredItem("new_key_points", "the result has operations, which count in their place"))
        flat["new_key_points"] = []
    if not isinstance(flat.get("evaluations"), list):
        flat["evaluations"] = []
    _translate_items(step, TAGS, payload.get(TAGS, []))
    return step


def _translate_items(step: Translation, field: str, items: Any) -> None:
    if not isinstance(items, list):
        step.ignored.append(IgnoredItem(field, f"expected a list, got {type(items).__name__}"))
        return
    counted = [*number_items(field, items)][:MOST]
    for place, item in number_items(field, items, step.places).items():
        fields = item if isinstance(item, dict) else {}
        step.place = place
        if field == TAGS:
            _take_tag(step, fields)
        elif fault := _take_operation(step, fields) if place in counted else f"at most {MOST} operations count":
            target = fields.get("target_id")
            step.ignored.append(IgnoredItem(place, fault, target if isinstance(target, str) else None))


def _reason(reason: Any) -> str:
    return reason[:MAX_REASON_CHARS] if isinstance(reason, str) and text_fault(reason) is None else ""


def _take_operation(step: Translation, fields: Mapping[str, Any]) -> str:
    """Add what an operation does; return why it has no effect, empty where it has one."""
    kind, name = fields.get("type"), fields.get("target_id")
    if kind == "ADD":
        if fault := text_fault(fields.get("text")):
            return fault
        step.texts[step.place] = {key: fields[key] for key in ("text", "section") if key in fields}
        return ""
    if kind == "MERGE":
        return _merge_entries(step, fields)
    if kind not in _TYPES:
        return f"expected a type of {', '.join(_TYPES)}"
    text, fault = fields.get("text"), step.target_fault(name)
    if kind == "UPDATE":
        fault = fault or text_fault(text) or _find_text_fault(step, text)
    if not fault:
        text = str(text) if kind == "UPDATE" else ""
        step.decide(events.PointProposed(kind.lower(), str(name), (), "", "", text, _reason(fields.get("reason"))))
    return fault


def _merge_entries(step: Translation, fields: Mapping[str, Any]) -> str:
    sources, text = fields.get("source_ids"), fields.get("merged_text")
    given = sources if isinstance(sources, list) else []
    names = tuple(dict.fromkeys(name for name in given if not step.target_fault(name)))
    fault = text_fault(text, "merged_text")
    if len(names) < _FEWEST_SOURCES:
        fault = "fewer than two of its entries are in the playbook, or were shown"
    fault = fault or _find_text_fault(step, text, names)
    if not fault:
        section = section_of(fields)
        step.decide(events.PointProposed("merge", "", names, "", section, str(text), _reason(fields.get("reason"))))
    return fault or ""


def _find_text_fault(step: Translation, text: Any, merged: Collection[str] = ()) -> str:
    same = [name for name, entry in step.state.entries.items() if entry.text == text and name not in merged]
    return f"already in the playbook as {same[0]}" if same else step.refusal(text) or ""


def _sum_up(entries: Sequence[Entry], name: str, text: str) -> Entry:
    """Return a new entry with the counts of others."""
    return Entry(name, text, sum(entry.helpful for entry in entries), sum(entry.harmful for entry in entries))


def _take_tag(step: Translation, fields: Mapping[str, Any]) -> None:
    """Add the rating of a tag; a rationale is noted with its entry."""
    # The reflector of the paper gives an entry's name as its id.
    name = fields.get("name", fields.get("id"))
    if fault := step.target_fault(name):
        short = name[:MAX_NAME_CHARS] if isinstance(name, str) else None
        step.ignored.append(IgnoredItem(step.place, fault, short))
        return
    step.tags[step.place] = {"name": name, "rating": fields.get("tag")}
    if rationale := _reason(fields.get("rationale", "")):
        step.changes.append(events.PointNoted(str(name), f"{fields.get('tag')}: {rationale}"))


# ---- Making a change ----


def make_change(change: events.PointProposed, state: Playbook) -> tuple[tuple[Event, ...], Playbook]:
    """Return the events of a proposed add, or of a curator's update, merge or delete, and the playbook after them.

    A redaction has none: it erases, and is recorded by itself. An update retires the entry and adds a new one without
    ratings. A merge adds a new entry, which gets the counts of its sources; their names lead to it.

    Raises:
        NothingToDoError: An entry that it names is not in the playbook any more, or one has its text meanwhile.
    """
    verb, reason, text = change.verb, change.reason or "", change.text or ""
    if verb == REDACT:
        return (), state
    sources = change.merged or tuple(filter(None, (change.name,)))
    for name in sources:
        _check_present(name, state)
    if verb == RATE:
        return (events.PointRated(change.name, text), events.PlaybookUpdated(0, 1, 0)), state
    entries = {name: entry for name, entry in state.entries.items() if name not in sources}
    if verb == "delete":
        return (events.PointRetired(change.name, reason),), attrs.evolve(state, entries=entries)
    if verb == "add" and (same := _names_with_text(text, state)):
        raise NothingToDoError(same[0], "has this text", "reject the proposal")
    # A new entry in place of others belongs where the first of them is.
    section = change.section or (state.sections.get(sources[0], "") if sources else "")
    new = state.name_giver().next(section)
    added = (events.PointAdded(new, text), *((events.PointPlaced(new, "", section),) if section else ()))
    entries[new] = _sum_up([state.entries[name] for name in change.merged], new, text)
    after = attrs.evolve(
        state,
        entries=entries,
        high_water=max(state.high_water, parse_number(new) or 0),
        used={*state.used, new},
        placed={**state.placed, new: section} if section else state.placed,
    )
    if verb == "add":
        return added, after
    if verb == "merge":
        return (*added, events.PointMerged(new, change.merged, reason)), after
    # Only a person's reword keeps the counts.
    return (events.PointRetired(change.name, reason or f"replaced by {new}"), *added), after
