"""Requests as values: what can be recorded, how each kind is decided, and how it waits in the spool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.decisions.curation import Curation, decide_curation
from tallybook.ledger.decisions.update import (
    Decision,
    Edit,
    KnownPlaybook,
    decide_edit,
    decide_extraction,
    read_entries,
    read_extraction,
    rename_in_top,
)
from tallybook.ledger.encoding import strict_json
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.encoding.event_json import REFUSALS, structure
from tallybook.ledger.errors import BadInputError, UnknownEntryError
from tallybook.ledger.events import EventsVoided, PointNoted, ProposalDecided
from tallybook.ledger.fast_stdlib import dumps, import_lazily
from tallybook.ledger.line import BY_FIELDS
from tallybook.ledger.names import find_name
from tallybook.ledger.playbook_constants import PLAYBOOK_NEUTRAL
from tallybook.ledger.storage.redacted_digests import NO_REDACTIONS, RedactedTextError
from tallybook.projections.playbook.render import entry_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tallybook.ledger.decisions import legacy_import
    from tallybook.ledger.decisions.legacy_import import LegacyItem
    from tallybook.ledger.events import Entry, Event
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.playbook.view import Playbook
else:
    [legacy_import] = import_lazily("tallybook.ledger.decisions.legacy_import")

UNSCREENED: Final = frozenset({"human", "import", "test"})
"""Raters whose words are not masked: people, and files that already held them."""
# As many ids as fit into one line of the ledger with any reason and rater.
_IDS_A_LINE: Final = 1_000


@attrs.frozen
class Update:
    """An extraction result, as it was sent.

    Attributes:
        payload: The value from outside; nothing in it is trusted.
        names: Text → the name that the sending program has given it already.
        plain_events: Events that precede it in the same batch and change no entry.
    """

    payload: Any
    names: Mapping[str, str] = attrs.field(factory=dict)
    plain_events: tuple[Event, ...] = ()


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
        wish: The change that is accepted; None where it is rejected.
        reason: Why; empty for none.
    """

    id: str
    wish: Curation | None
    reason: str = ""


@attrs.frozen
class PlainEvents:
    """Events that are recorded as they are; nothing is decided about them.

    Attributes:
        events: The events.
    """

    events: tuple[Event, ...]


Action = Update | Rating | Change | Import | Curation | Undo | ProposalAnswer | PlainEvents
"""What can be recorded. Only an `Update` and a `Rating` can wait in the spool."""


@attrs.frozen
class Request:
    """Something to record as one batch.

    Attributes:
        action: What to record.
        by: Who records it; ``rater`` at least.
        key: The idempotency key; None for none.
        when: When it happened, if not now.
    """

    action: Action
    by: Mapping[str, str]
    key: str | None = None
    when: str | None = None


def check(request: Request) -> None:
    """Refuse a request that could never be recorded, before any file is opened.

    Raises:
        BadInputError: It is not an extraction result, has top-level keys that no file could hold, or names no rater.
    """
    if isinstance(request.action, Update):
        read_extraction(request.action.payload)
    elif isinstance(request.action, Change) and request.action.top:
        _check_top(request.action.top)
    by = request.by
    named = isinstance(by, dict) and all(isinstance(value, str) and value for value in by.values())
    if not named or "rater" not in by or not by.keys() <= set(BY_FIELDS):
        raise BadInputError(
            "by", "is not a provenance", f"give a rater, and of {', '.join(BY_FIELDS[1:])} what is known"
        )
    if request.key is not None and not request.key:
        raise BadInputError("key", "is empty", "leave it out, or name the delivery")


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
            deciders of `tallybook.ledger.decisions.update` translate names.
        redactions: The redacted texts of this ledger; a new text that is one of them is refused.

    Raises:
        RedactedTextError: The only text of the request was redacted.
        UnknownEntryError: A rating names an entry that never was.
    """
    renamed = renamed or {}
    if isinstance(action, Rating):
        action = update_of(action, state)
    known = known_of(state, redactions)
    if isinstance(action, Undo | Curation | ProposalAnswer) and (why := redactions.refusal(action.reason)) is not None:
        raise RedactedTextError("--reason", why)
    if isinstance(action, Undo | PlainEvents):
        return Decision(_undo(action) if isinstance(action, Undo) else redactions.filter_notes(action.events))
    if isinstance(action, Curation):
        if (why := redactions.refusal(action.text)) is not None:
            raise RedactedTextError("TEXT", why)
        return decide_curation(action, known)
    if isinstance(action, ProposalAnswer):
        verdict = "rejected" if action.wish is None else "accepted"
        changes = () if action.wish is None else decide(action.wish, state, renamed, redactions).events
        return Decision((ProposalDecided(action.id, verdict, action.reason), *changes))
    if isinstance(action, Import):
        legacy, refused = redactions.filter_legacy(_fresh(action, state))
        return Decision(legacy_import.seed_events(legacy), refused)
    if isinstance(action, Update):
        decision = decide_extraction(read_extraction(action.payload), known, action.names, renamed)
        return attrs.evolve(decision, events=(*redactions.filter_notes(action.plain_events), *decision.events))
    base = {renamed.get(entry.name, entry.name): entry for entry in action.base}
    drift = {
        name: (now.helpful - base[name].helpful, now.harmful - base[name].harmful)
        for name, now in state.entries.items()
        if name in base
    }
    top = action.top if redactions.refusal_in_json(action.top) is None else ""
    return decide_edit(Edit(action.base, action.found, top), known, drift, renamed)


def _undo(action: Undo) -> tuple[Event, ...]:
    """Return the events of an undo; without a session each names as many ids as a line can hold."""
    ids = [action.ids[begin : begin + _IDS_A_LINE] for begin in range(0, len(action.ids), _IDS_A_LINE)] or [()]
    return tuple(EventsVoided(some, action.session, action.reason) for some in ids)


def known_of(state: Playbook, redactions: Redactions = NO_REDACTIONS) -> KnownPlaybook:
    """Return what decisions need to know of a playbook."""
    return KnownPlaybook(
        state.entries, state.high_water, state.used, state.pinned, state.merged, state.gone, redactions.refusal
    )


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
    return attrs.evolve(legacy, items=items, top=rename_in_top(legacy.top, names))


def _renamed(items: Sequence[LegacyItem], state: Playbook) -> tuple[LegacyItem, ...]:
    """Give new names to entries whose names this ledger has used: a name means one entry for ever."""
    naming = legacy_import.NameAssigner({*state.used, *(item.entry.name for item in items)})
    naming.highest = state.high_water
    naming.used = set(state.used)
    entries = [attrs.evolve(item.entry, name=naming.assign(item.entry.name)) for item in items]
    return tuple(attrs.evolve(item, entry=entry) for item, entry in zip(items, entries, strict=True))


def request_to_json(request: Request) -> dict[str, Any]:
    """Return a request as JSON for the spool; an import does not wait."""
    action = request.action
    fields: dict[str, Any] = {"by": dict(request.by), "key": request.key}
    if isinstance(action, Update):
        drafts = map(encode, action.plain_events)
        rows = [[one.kind, one.v, one.body, one.free] for one in drafts]
        return fields | {"update": action.payload, "names": dict(action.names), "beside": rows}
    if isinstance(action, Change):
        base, found = ([entry_json(entry) for entry in entries] for entries in (action.base, action.found))
        return fields | {"base": base, "found": found, "top": action.top}
    raise BadInputError("request", "is not in the spool")


def requests_from_json(values: Any, key: str, when: Any) -> list[Request]:
    """Return the requests of one spool file.

    Args:
        values: A list of what `request_to_json` returned, read again and not trusted.
        key: Names the file, so that each request is recorded once.
        when: When they were sent, not trusted either.

    Raises:
        BadInputError: One of them is not a request, or they are not a list; none of them may be recorded.
    """
    if not isinstance(values, list):
        raise BadInputError("requests", f"expected a list, got {type(values).__name__}")
    return [request_from_json(value, f"{key}:{index}", when) for index, value in enumerate(values)]


def request_from_json(value: Any, key: str, when: Any) -> Request:
    """Return a request from the spool.

    Args:
        value: What `request_to_json` returned, read again and not trusted.
        key: The key for a request without one, so that it is recorded once.
        when: When it was sent, not trusted either; a request that says itself when it happened happened then.

    Raises:
        BadInputError: It is not a request.
    """
    fields = value if isinstance(value, dict) else {}
    when = fields.get("when", when)
    _check_moment(when)
    given, names, top = fields.get("key"), fields.get("names"), fields.get("top")
    if "update" in fields:
        pairs = names.items() if isinstance(names, dict) else ()
        texts = {text: name for text, name in pairs if isinstance(name, str)}
        action: Action = Update(fields["update"], texts, _parse_plain_events(fields.get("beside", ())))
    elif "facts" in fields:
        action = PlainEvents(_parse_plain_events(fields["facts"]))
        if not action.events:
            raise BadInputError("facts", "are none")
    elif "found" in fields and isinstance(top, str):
        action = Change(read_entries(fields.get("base"), "base"), read_entries(fields["found"], "found"), top)
    else:
        raise BadInputError("request", "is not an update, a change or facts")
    request = Request(action, fields.get("by", {}), given if isinstance(given, str) and given else key, when)
    check(request)
    return request


def _check_moment(when: Any) -> None:
    """Refuse a time that the ledger would not write: on a line it would be damage for ever."""
    try:
        fits = isinstance(when, str) and clock.moment(clock.to_unix_us(when)).at == when
    except (ValueError, OverflowError, OSError):
        fits = False
    if not fits:
        raise BadInputError("at", "is not a time as the ledger writes it")


def _parse_plain_events(value: Any) -> tuple[Event, ...]:
    """Return plain events from the spool: a list of kind, version, body and free text."""
    try:
        rows = [(kind, version, {**body, **(free or {})}) for kind, version, body, free in value]
        if not all(kind in PLAYBOOK_NEUTRAL for kind, _, _ in rows):
            raise BadInputError("facts", "are not events without an effect on the playbook")
        return tuple(structure(*row) for row in rows)
    except REFUSALS as error:
        raise BadInputError("facts", f"do not fit their kind: {error}") from error
