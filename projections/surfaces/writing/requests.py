"""Requests as values: what can be recorded, how each kind is decided, and how it waits in the spool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.decisions import operations
from tallybook.ledger.decisions.curation import Curation, decide_curation
from tallybook.ledger.decisions.edit import Edit, decide_edit, rename_in_top
from tallybook.ledger.decisions.update import Decision, decide_extraction, read_extraction
from tallybook.ledger.encoding import strict_json
from tallybook.ledger.errors import BadInputError, UnknownEntryError
from tallybook.ledger.events import EventsVoided, PointAdded, PointNoted, PointProposed, PointReviewed, ProposalDecided
from tallybook.ledger.fast_stdlib import dumps, import_lazily
from tallybook.ledger.line import BY_FIELDS, KNOWN_RATERS, digest
from tallybook.ledger.names import find_name
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.ledger.storage.redacted_digests import NO_REDACTIONS, RedactedTextError
from tallybook.projections.playbook.view import Playbook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.ledger.decisions import legacy_import
    from tallybook.ledger.decisions.legacy_import import LegacyItem
    from tallybook.ledger.events import Entry, Event
    from tallybook.ledger.storage.redacted_digests import Redactions
else:
    [legacy_import] = import_lazily("tallybook.ledger.decisions.legacy_import")

UNSCREENED: Final = frozenset({"human", "import", "test"})
"""Raters whose words are not masked: people, and files that already held them."""
# As many ids as fit into one line of the ledger with any reason and rater.
_IDS_A_LINE: Final = 1_000
_SHOWN_CHARS: Final = 40


@attrs.frozen
class Update:
    """An extraction result, as it was sent.

    Attributes:
        payload: The value from outside; nothing in it is trusted.
        names: Text → the name that the sending program has given it already.
        plain_events: Events that precede it in the same batch and change no entry.
        may: What becomes of a curator's operations in it, as in `operations.Terms`; empty where they do not count.
        shown: The names that the model's prompt showed; None where that is not known.
        origin: Where its new entries come from, noted at each of them; empty where they are just new.
        is_addition: Whether it is one new entry and nothing else: it is refused where an entry has its text already.
    """

    payload: Any
    names: Mapping[str, str] = attrs.field(factory=dict)
    plain_events: tuple[Event, ...] = ()
    may: str = ""
    shown: tuple[str, ...] | None = None
    origin: str = ""
    is_addition: bool = False


@attrs.frozen
class Rating:
    """One rating of entries that are or were in the playbook.

    Attributes:
        names: The entries, as a person writes them; one that is named twice counts once.
        rating: One of RATINGS.
        reason: Why, noted at each of them; empty for none.
    """

    names: tuple[str, ...]
    rating: str
    reason: str = ""


@attrs.frozen
class Change:
    """Changes of a playbook that a program made in addition to its updates.

    Attributes:
        base: The entries before the change.
        found: The entries after it.
        top: The other top-level keys as a JSON object if they were changed, else empty.
    """

    base: tuple[Entry, ...]
    found: tuple[Entry, ...]
    top: str = ""


@attrs.frozen
class Import:
    """A legacy file.

    Attributes:
        data: Its bytes.
        source: The name that problems use for it.
    """

    data: bytes
    source: str


@attrs.frozen
class Undo:
    """The undoing of events.

    Attributes:
        ids: Ids of the events.
        session: A session of which all events so far are undone; None for the ids alone.
        reason: Why; empty for none.
    """

    ids: tuple[str, ...] = ()
    session: str | None = None
    reason: str = ""


@attrs.frozen
class ProposalAnswer:
    """A person's answer to a proposal.

    Attributes:
        id: Id of the event that proposed it.
        wish: The change that is accepted, a person's or a curator's; None where it is rejected.
        reason: Why; empty for none.
    """

    id: str
    wish: Curation | PointProposed | None
    reason: str = ""


@attrs.frozen
class ReviewAnswer:
    """A person's decision about entries in a review.

    Attributes:
        event: The decision.
        wish: The change of the entries; None where they stay as they are.
    """

    event: PointReviewed
    wish: Curation | None = None


@attrs.frozen
class PlainEvents:
    """Events that are recorded as they are; nothing is decided about them.

    Attributes:
        events: The events.
    """

    events: tuple[Event, ...]


Action = Update | Rating | Change | Import | Curation | Undo | ProposalAnswer | ReviewAnswer | PlainEvents
"""What can be recorded. Only an `Update` and a `Rating` can wait in the spool."""


@attrs.frozen
class Request:
    """Something to record as one batch.

    Attributes:
        action: What to record.
        by: Who records it; ``rater`` at least.
        key: The idempotency key; None for none.
        when: When it happened, if not now.
        payload: Digest of what is delivered, where the caller gave the key: under one key only this payload counts.
            Empty for keys of Tallybook's own, under which the first delivery counts.
        position: In a shared project, the own event number as of which its names were shown; None for now.
    """

    action: Action
    by: Mapping[str, str]
    key: str | None = None
    when: str | None = None
    position: int | None = None
    payload: str = ""


def digest_payload(action: Update | Rating) -> str:
    """Return the digest of what a caller delivers, which is JSON."""
    content = action.payload if isinstance(action, Update) else attrs.astuple(action)
    return digest(json.dumps(content, sort_keys=True).encode())


def check(request: Request) -> None:
    """Refuse a request that could never be recorded, before any file is opened.

    Raises:
        BadInputError: It is not an extraction result, has top-level keys that no file could hold, or names no known
            rater.
    """
    if isinstance(request.action, Update):
        read_extraction(_translated(request.action, Playbook()).payload)
    elif isinstance(request.action, Change) and request.action.top:
        _check_top(request.action.top)
    check_provenance(request.by)
    if request.key is not None and not request.key:
        raise BadInputError("key", "is empty", "leave it out, or name the delivery")


def check_provenance(by: object) -> None:
    """Refuse a provenance that no event could carry, or that names an unknown rater.

    Raises:
        BadInputError: It is one.
    """
    fields = by if isinstance(by, dict) and all(isinstance(value, str) and value for value in by.values()) else {}
    if "rater" not in fields or not fields.keys() <= set(BY_FIELDS):
        raise BadInputError(
            "by", "is not a provenance", f"give a rater, and of {', '.join(BY_FIELDS[1:])} what is known"
        )
    if fields["rater"] not in KNOWN_RATERS:
        raise BadInputError(
            "rater", f"{fields['rater'][:_SHOWN_CHARS]!r} is not a rater", f"use one of {', '.join(KNOWN_RATERS)}"
        )


def _check_top(top: str) -> None:
    """Refuse top-level keys that could be recorded but never rendered."""
    value = strict_json.loads(top.encode("utf-8", "surrogatepass"), "top")
    if not isinstance(value, dict):
        raise BadInputError("top", f"expected an object, got {type(value).__name__}", strict_json.HINT)
    try:
        dumps(value).encode()
    except UnicodeEncodeError as error:
        raise BadInputError(
            "top", "contains half of a surrogate pair, which is not Unicode text", strict_json.HINT
        ) from error


def decide(
    action: Action, state: Playbook, renamed: Mapping[str, str] | None = None, redactions: Redactions = NO_REDACTIONS
) -> Decision:
    """Return the events that an action brings, decided on the playbook under the lock.

    Args:
        action: What is to be recorded.
        state: The playbook.
        renamed: Name that the sender uses → the entry's name in the ledger, from its earlier requests. Only the
            deciders of updates and edits translate names.
        redactions: The redacted texts of this ledger; a new text that is one of them is refused.

    Raises:
        RedactedTextError: The only text of the request was redacted.
        UnknownEntryError: A rating names an entry that never was.
    """
    renamed = renamed or {}
    if isinstance(action, Rating):
        action = update_of(action, state)
    if isinstance(action, Undo | Curation | ProposalAnswer) and (why := redactions.refusal(action.reason)) is not None:
        raise RedactedTextError("reason", why)
    if isinstance(action, Undo | PlainEvents):
        return Decision(_undo(action) if isinstance(action, Undo) else redactions.filter_notes(action.events))
    if isinstance(action, Curation):
        if (why := redactions.refusal(action.text)) is not None:
            raise RedactedTextError("text", why)
        return decide_curation(action, state)
    if isinstance(action, ProposalAnswer | ReviewAnswer):
        return Decision((_answer(action), *_accepted(action.wish, state, redactions)))
    if isinstance(action, Import):
        legacy, refused = redactions.filter_legacy(_fresh(action, state))
        return Decision(legacy_import.seed_events(legacy), refused)
    if isinstance(action, Update):
        sent = _translated(action, state, redactions)
        decision = decide_extraction(
            read_extraction(sent.payload), sent.state, action.names, renamed, redactions.refusal
        )
        events = (*redactions.filter_notes((*action.plain_events, *sent.events)), *_with_origin(action, decision))
        ignored = (attrs.evolve(one, item=sent.places.get(one.item, one.item)) for one in decision.ignored)
        return attrs.evolve(decision, events=events, ignored=(*sent.ignored, *ignored))
    base = {renamed.get(entry.name, entry.name): entry for entry in action.base}
    drift = {
        name: (now.helpful - base[name].helpful, now.harmful - base[name].harmful)
        for name, now in state.entries.items()
        if name in base
    }
    top = action.top if redactions.refusal_in_json(action.top) is None else ""
    return decide_edit(Edit(action.base, action.found, top), state, drift, renamed, redactions.refusal)


def _with_origin(action: Update, decision: Decision) -> Iterator[Event]:
    """Yield the events of an update, each new entry followed by the note of its origin."""
    for event in decision.events:
        yield event
        if action.origin and isinstance(event, PointAdded):
            yield PointNoted(event.name, action.origin)


def _translated(action: Update, state: Playbook, redactions: Redactions = NO_REDACTIONS) -> operations.Translated:
    """Return an update whose operations and tags, where they count, are new entries, ratings and changes."""
    if not action.may:
        return operations.Translated(action.payload, (), state, ())
    return operations.translate(action.payload, state, operations.Terms(action.may, action.shown, redactions.refusal))


def _answer(action: ProposalAnswer | ReviewAnswer) -> Event:
    """Return the event of a person's answer itself."""
    if isinstance(action, ReviewAnswer):
        return action.event
    return ProposalDecided(action.id, "rejected" if action.wish is None else "accepted", action.reason)


def _accepted(wish: Curation | PointProposed | None, state: Playbook, redactions: Redactions) -> tuple[Event, ...]:
    """Return the events of an accepted change, none of a rejected one.

    Raises:
        RedactedTextError: Its text was redacted meanwhile.
        NothingToDoError: It cannot be made any more.
    """
    if isinstance(wish, PointProposed):
        if (why := redactions.refusal(wish.text or "")) is not None:
            raise RedactedTextError("text", why)
        return operations.make(wish, state)[0]
    return () if wish is None else decide(wish, state, redactions=redactions).events


def _undo(action: Undo) -> tuple[Event, ...]:
    """Return the events of an undo; without a session each names as many ids as a line can hold."""
    ids = [action.ids[begin : begin + _IDS_A_LINE] for begin in range(0, len(action.ids), _IDS_A_LINE)] or [()]
    return tuple(EventsVoided(some, action.session, action.reason) for some in ids)


def update_of(rating: Rating, state: Playbook) -> Update:
    """Return the extraction result that rates these entries by their exact names, with the reason as notes.

    Raises:
        UnknownEntryError: No entry ever had one of the names.
    """
    names: dict[str, None] = {}
    for name in rating.names:
        if (exact := find_name(name, state.used)) is None:
            raise UnknownEntryError(name)
        names[exact] = None
    notes = [PointNoted(name, f"{rating.rating}: {rating.reason}") for name in names if rating.reason]
    return Update(
        {"evaluations": [{"name": name, "rating": rating.rating} for name in names]}, plain_events=tuple(notes)
    )


def _fresh(action: Import, state: Playbook) -> Any:
    """Return a legacy file without entries whose text is in the playbook, and with names never used in this ledger."""
    legacy = legacy_import.read_legacy(action.data, action.source, state.used)
    by_text = {entry.text: name for name, entry in state.entries.items()}
    new = tuple(item for item in legacy.items if item.entry.text not in by_text)
    items = _renamed(new, state)
    names = {item.entry.name: by_text[item.entry.text] for item in legacy.items if item.entry.text in by_text}
    names |= {old.entry.name: new.entry.name for old, new in zip(new, items, strict=True)}
    until = {names.get(name, name): day for name, day in (legacy.until or {}).items()}
    return attrs.evolve(legacy, items=items, top=rename_in_top(legacy.top, names), until=until)


def _renamed(items: Sequence[LegacyItem], state: Playbook) -> tuple[LegacyItem, ...]:
    """Give new names to entries whose names this ledger has used: a name means one entry for ever."""
    naming = legacy_import.NameAssigner({*state.used, *(item.entry.name for item in items)}, state.prefix)
    naming.highest = state.highest
    naming.used = set(state.used)
    is_personal = state.prefix == PERSONAL_PREFIX
    entries = [attrs.evolve(item.entry, name=naming.assign(None if is_personal else item.entry.name)) for item in items]
    return tuple(attrs.evolve(item, entry=entry) for item, entry in zip(items, entries, strict=True))
