"""Requests as values: what can be recorded, how it is decided, which votes of agents count, and how it is spooled.

A request has a `Decide`, a callable that takes the playbook, the digests of redacted texts, and the names that its
sender had to change, and returns the events. A new kind of request is a class that is called with these arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
import json
from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from tallybook.ledger import clock, events
from tallybook.ledger.codec import REFUSALS, encode, structure
from tallybook.ledger.decisions import curation, update
from tallybook.ledger.decisions.update import Decision
from tallybook.ledger.errors import BadInputError, NothingToDoError, Problem
from tallybook.ledger.events import Event
from tallybook.ledger.line import BY_FIELDS, KNOWN_RATERS, digest, is_digest
from tallybook.ledger.names import section_by_name
from tallybook.ledger.playbook_constants import AGENT, PERSONAL_PREFIX, PLAYBOOK_NEUTRAL, RATE
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.history.votes import RETIRE, VOTES, Votes
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.history.checkpoints import Form

if TYPE_CHECKING:
    from tallybook.ledger.decisions.legacy_import import LegacyFile

UNSCREENED: Final = frozenset({"human", "import", "test"})
"""Raters whose words are not masked: people, and files that already held them."""
_SHOWN_CHARS: Final = 40
_TERMS: Final = frozenset({"", curation.APPLY, curation.PERSON})

Decide = Callable[[Playbook, Redactions, Mapping[str, str]], Decision]
"""Decides on the playbook, and leaves out texts that were redacted; what is recorded is decided under the lock.

The mapping is of names that the sender uses → names in the ledger, from its earlier requests. Only updates and changes
translate names.
"""


@attrs.define
class Request:
    """Something to record as one batch. Making one refuses what could never be recorded, and masks secrets.

    Attributes:
        decide: What to record. Only an `Update` and plain events have a form in the spool; those of a verb do not wait.
        by: Who records it; ``rater`` at least.
        key: The idempotency key; None for none. A legacy file is its own.
        when: When it happened, if not now.
        digest: Of what is delivered, where the caller gave the key, as ``digest_delivery``: under one key only this
            delivery counts. Empty for keys of Tallybook's own, under which the first delivery counts.
        masked: The items in which secrets of models and transcripts were masked.

    Raises:
        BadInputError: It is not an extraction result, or names no known rater.
    """

    decide: Decide
    by: Mapping[str, str]
    key: str | None = None
    when: str | None = None
    digest: str = ""
    masked: tuple[Problem, ...] = attrs.field(default=(), eq=False)

    def __attrs_post_init__(self) -> None:
        """Check the parts, and mask secrets before anything can write them down."""
        # Before anything is opened, so that a bad request leaves no trace, not even a ledger.
        if isinstance(self.decide, Update) and not self.decide.is_typed:
            translation = curation.Translation(Playbook(), self.decide.may)
            update.check_extraction(curation.translate(self.decide.extraction, translation).payload)
        check_provenance(self.by)
        if self.key is not None and not self.key:
            raise BadInputError("key", "is empty", "leave it out, or name the delivery")
        if isinstance(self.decide, Import):
            self.key = playbook_file.adoption_key(self.decide.legacy.sha256)
        if self.by["rater"] not in UNSCREENED:
            problems = list(self.masked)
            self.decide = _mask(self.decide, problems)
            self.masked = tuple(problems)

    @property
    def has_votes(self) -> bool:
        """Return whether ratings in it are votes: those of an agent, and of a reflection on a session.

        People's and programs' ratings count as they are, as the specification says.
        """
        # A reflection on a session is known by the names that its prompt showed.
        return self.by["rater"] == AGENT or (isinstance(self.decide, Update) and self.decide.shown is not None)


def digest_delivery(delivered: Any, key: str | None) -> str:
    """Return the digest of what a caller delivers, JSON, under a key; empty without one."""
    # The same delivery may list the members of an object in another order.
    return "" if key is None else digest(json.dumps(delivered, sort_keys=True).encode())


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
    # A rater that no reader could read would be damage to the ledger for ever.
    if fields["rater"] not in KNOWN_RATERS:
        raise BadInputError(
            "rater", f"{fields['rater'][:_SHOWN_CHARS]!r} is not a rater", f"use one of {', '.join(KNOWN_RATERS)}"
        )


@attrs.frozen
class Update:
    """An extraction result, as it was sent.

    Attributes:
        extraction: The value from outside; nothing in it is trusted.
        names: Text → the name that the sending program has given it already.
        plain_events: Events that precede it in the same batch and change no entry.
        may: What becomes of a curator's operations in it, as in `Translation`; empty where they do not count.
        shown: The names that the model's prompt showed; None where that is not known.
        origin: Where its new entries come from, noted at each of them; empty where they are just new.
        is_addition: Whether it is one new entry and nothing else: it is refused where an entry has its text already.
        is_typed: Whether a person typed the names of its ratings, which then must be names of entries; those in its
            plain events are the same.
        by_marks: Whether an agent's marks gave the ratings.
        places: The places in it that count, such as ``evaluations[2]``; None for all.
    """

    extraction: Any
    names: Mapping[str, str] = attrs.field(factory=dict)
    plain_events: tuple[Event, ...] = ()
    may: str = ""
    shown: tuple[str, ...] | None = None
    origin: str = ""
    is_addition: bool = False
    is_typed: bool = False
    by_marks: bool = False
    places: frozenset[str] | None = None

    def __call__(self, state: Playbook, redactions: Redactions, renamed: Mapping[str, str]) -> Decision:
        """Decide it.

        Raises:
            NothingToDoError: It is an addition, and an entry has its text.
            UnknownEntryError: No entry ever had a name that a person typed.
        """
        if self.is_addition:
            [point] = self.extraction["new_key_points"]
            if name := update.find_equal(point["text"] if isinstance(point, dict) else point, state.entries):
                hint = f"nothing was recorded; to say that it helped, run: tallybook rate {name} helpful"
                raise NothingToDoError(name, "has this text", hint)
        exact = self.with_exact_names(state)
        translation = curation.Translation(state, self.may, self.shown, exact.places, redactions.refusal)
        curation.translate(exact.extraction, translation)
        decision = update.decide_extraction(
            translation.payload,
            translation.state,
            places=exact.places,
            texts=translation.texts,
            tags=translation.tags,
            wishes=self.names,
            renamed_before=renamed,
            refusal=redactions.refusal,
        )
        notes = (*exact.plain_events, *translation.changes)
        decided = [*redactions.filter_notes(notes)] if notes else []
        for event in decision.events:
            decided.append(event)
            if self.origin and isinstance(event, events.PointAdded):
                decided.append(events.PointNoted(event.name, self.origin))
        return attrs.evolve(decision, events=tuple(decided), ignored=(*translation.ignored, *decision.ignored))

    def with_exact_names(self, state: Playbook) -> Update:
        """Return it with the names that a person meant, each once; as it is where none were typed.

        Raises:
            UnknownEntryError: No entry ever had one of the names.
        """
        if not self.is_typed:
            return self
        items = update.number_items("evaluations", self.extraction["evaluations"], self.places)
        typed = {rating["name"]: rating["rating"] for rating in items.values()}
        exact = {name: curation.find_used_name(name, state) for name in typed}
        ratings = {exact[name]: rating for name, rating in typed.items()}
        extraction = {"evaluations": [{"name": name, "rating": rating} for name, rating in ratings.items()]}
        notes: Any = self.plain_events
        notes = tuple(dict.fromkeys(note.evolve(name=exact[note.name]) for note in notes))
        return attrs.evolve(self, extraction=extraction, plain_events=notes, is_typed=False, places=None)

    def with_names(self, names: Mapping[str, str]) -> Update:
        """Return it with other names of entries in its ratings and notes.

        Raises:
            BadInputError: It holds a curator's operations, in which names are not translated.
        """
        extraction: dict[str, Any] = dict(self.extraction)
        if extraction.get(curation.OPERATIONS) or extraction.get(curation.TAGS):
            raise BadInputError("names", "mean other entries since a sync", "record it again with the names of today")
        if isinstance(extraction.get("evaluations"), list):
            extraction["evaluations"] = [_rename_rating(rating, names) for rating in extraction["evaluations"]]
        notes = (
            event.evolve(name=names.get(event.name, event.name)) if isinstance(event, events.PointNoted) else event
            for event in self.plain_events
        )
        return attrs.evolve(self, extraction=extraction, plain_events=tuple(notes))


def _rename_rating(rating: Any, names: Mapping[str, str]) -> Any:
    """Return a rating of a payload, which is not trusted, with another name."""
    name = rating.get("name") if isinstance(rating, dict) else None
    return rating | {"name": names[name]} if isinstance(name, str) and name in names else rating


@attrs.frozen
class PlainEvents:
    """Events that are recorded as they are; nothing is decided about them.

    Attributes:
        events: The events.
    """

    events: tuple[Event, ...]

    def __call__(self, _state: Playbook, redactions: Redactions, _renamed: Mapping[str, str]) -> Decision:
        """Return the events, without redacted texts in notes.

        Raises:
            RedactedTextError: The reason of an undo was redacted.
        """
        # Under the lock: a redaction can have ended since the words were typed.
        for event in self.events:
            if isinstance(event, events.EventsVoided):
                redactions.check("reason", event.reason)
        return Decision(redactions.filter_notes(self.events))


@attrs.frozen
class Import:
    """A legacy file.

    Attributes:
        legacy: Its content.
    """

    legacy: LegacyFile

    def __call__(self, state: Playbook, redactions: Redactions, _renamed: Mapping[str, str]) -> Decision:
        """Return seed events of the entries whose text is not in the playbook, with names never used in this ledger."""
        from tallybook.ledger.decisions import legacy_import

        legacy = self.legacy
        by_text = {entry.text: name for name, entry in state.entries.items()}
        new = tuple(item for item in legacy.items if item.entry.text not in by_text)
        names = {item.entry.name: by_text[item.entry.text] for item in legacy.items if item.entry.text in by_text}
        sections = section_by_name(legacy.top_keys, {})
        names_given = state.name_giver({*state.used, *(item.entry.name for item in new)})
        for name in [item.entry.name for item in new]:
            # A name means one entry for ever, and one of a person's own playbook is my_NNN, whatever a file says.
            if name in state.used or state.prefix == PERSONAL_PREFIX:
                names[name] = names_given.next(sections.get(name, ""))
        items = tuple(
            attrs.evolve(item, entry=attrs.evolve(item.entry, name=names.get(item.entry.name, item.entry.name)))
            for item in new
        )
        until = {names.get(name, name): day for name, day in (legacy.until or {}).items()}
        legacy = attrs.evolve(legacy, items=items, top=update.rename_in_top(legacy.top, names), until=until)
        legacy, refused = redactions.filter_legacy(legacy)
        return Decision(legacy_import.seed_events(legacy), refused)


# Secrets


_WORDS: Final[dict[type, tuple[str, ...]]] = {
    curation.Curation: ("text", "reason"),
    events.EventsVoided: ("reason",),
    events.PointNoted: ("note",),
    events.PointProposed: ("text", "reason"),
    events.BaselineSet: ("reason",),
    events.ProposalDecided: ("reason",),
}
"""Class → its fields with words of its sender. Other events hold only paths and reasons of Tallybook."""


def _mask(value: Any, problems: list[Problem]) -> Any:
    """Return what is recorded with the secrets of models and transcripts masked; add a problem for each masked item.

    Texts that files held, or that a program saved in a dict, stay as they are.

    Raises:
        BadInputError: It is nested too deeply to look through.
    """
    from tallybook.projections.surfaces.writing import secrets

    if isinstance(value, tuple):
        return tuple(_mask(item, problems) for item in value)
    masked: dict[str, Any] = {}
    if isinstance(value, Update):
        names: dict[str, str] = {}
        for text, name in value.names.items():
            # Two texts that differ only in their secrets become one, under the first one's name.
            names.setdefault(secrets.mask(text), name)
        masked = {"names": names, "extraction": secrets.mask_extraction(value.extraction, problems)}
    for field in ("event", "events", "plain_events"):
        if hasattr(value, field):
            masked[field] = _mask(getattr(value, field), problems)
    for field in _WORDS.get(type(value), ()):
        place = f"note on {value.name}" if field == "note" else field
        masked[field] = secrets.mask_item(place, getattr(value, field) or "", problems)
    return attrs.evolve(value, **masked) if masked else value


# Votes: limits on agents' ratings

HELPFUL, HARMFUL, NEUTRAL = "helpful", "harmful", "neutral"
DISPUTE: Final = "a person's entry"
"""The cause of a proposal that stands for a vote which would have pruned what a person typed or imported."""
VOTES_FORM: Final[Form[Votes]] = Form("votes", VOTES)
"""How the votes are saved: a vote is decided under the lock, where folding all of a long history takes seconds."""
ALREADY_RATED: Final = "was rated in this session, or in one that it continues"


def count_votes(decision: Decision, request: Request, state: Playbook, read: Callable[[], Votes]) -> Decision:
    """Return a decision with what the votes in it come to, of an agent or a reflection on a session.

    One vote counts an entry and lineage, a session with those that resumed or forked it. A further vote has no effect,
    and one that would prune a person's entry is a proposal. By a mark, helpful counts only where the lineage cited the
    entry, and is neutral elsewhere. ``read`` returns the votes before it, which are read only where it has one.
    """
    if not any(_find_rated(event, state) for event in decision.events):
        return decision
    votes = read()
    notes = {event.name: event.note or "" for event in decision.events if isinstance(event, events.PointNoted)}
    counted = [(event, _count_vote(event, request, state, votes, notes)) for event in decision.events]
    dropped = {
        event.name
        for event, result in counted
        if isinstance(event, events.PointRated) and not isinstance(result, events.PointRated)
    }
    left: list[Event] = []
    for _, result in counted:
        if isinstance(result, events.PlaybookUpdated):
            left.append(result.evolve(rated=result.rated - len(dropped), ignored=result.ignored + len(dropped)))
        elif result is not None and not (isinstance(result, events.PointNoted) and result.name in dropped):
            left.append(result)
    if dropped and all(isinstance(event, events.PlaybookUpdated | events.PointProposed) for event in left):
        # Nothing is left that an update would close.
        left = [event for event in left if isinstance(event, events.PointProposed)]
    spent = (getattr(event, "name", "") for event, result in counted if result is None)
    ignored = (*decision.ignored, *(update.IgnoredItem(name, ALREADY_RATED, name) for name in spent))
    return attrs.evolve(decision, events=tuple(left), ignored=ignored)


def _find_rated(event: Event, state: Playbook) -> events.Entry | None:
    """Return the entry on which an event votes; None where it is no vote that can count."""
    is_vote = isinstance(event, events.PointRated) and event.rating in events.RATINGS
    if not is_vote and not (isinstance(event, events.PointProposed) and event.verb == RATE):
        return None
    name = getattr(event, "name", "")
    return state.entries.get(state.merged.get(name, name))


def _count_vote(event: Any, request: Request, state: Playbook, votes: Votes, notes: Mapping[str, str]) -> Any:
    """Return what a vote comes to, None where its lineage has voted on the entry; any other event as it is."""
    entry = _find_rated(event, state)
    if entry is None:
        return event
    name, session = event.name, request.by.get("session", "")
    if session:
        if votes.has("rated", session, name):
            return None
        # A second vote of the same batch is not in the ledger yet, and has no effect either.
        votes.session(session).rated[name] = None
    if request.by["rater"] != AGENT or not isinstance(event, events.PointRated):
        return event
    if event.rating == HARMFUL:
        worse = attrs.evolve(entry, harmful=entry.harmful + 1)
        if votes.maker_of(name).is_persons and state.prunes(worse):
            if name in votes.disputed:
                # A person is asked once.
                return event.evolve(rating=NEUTRAL)
            votes.disputed.add(name)
            return events.PointProposed(RETIRE, name, (), DISPUTE, "", "", notes.get(name, "").partition(": ")[2])
    by_marks = isinstance(request.decide, Update) and request.decide.by_marks
    is_courtesy = by_marks and event.rating == HELPFUL and not votes.has("cited", session, name)
    return event.evolve(rating=NEUTRAL) if is_courtesy else event


# As JSON in the spool


class _Row(msgspec.Struct, omit_defaults=True):
    """A request in the spool. The keys keep their spelling, because another version may read the file.

    Attributes:
        by, key, payload, when: As in `Request`, whose digest is the payload; the time of the file where ``when`` is
            missing.
        update: An `Update` without its plain events; the names of its fields are keys as well.
        beside: These, each as kind, version, body and free text.
        facts: Plain events in place of an update.
        position: The own event number as of which its names are meant, in a shared project.
    """

    by: Any = None
    key: str | None = None
    payload: str = ""
    when: str | None = None
    update: Update | None = None
    beside: list[Any] = []
    facts: list[Any] = []
    position: int = 0


def request_to_json(request: Request, position: int = 0) -> dict[str, Any]:
    """Return a request as JSON for the spool, its names as of an own event number in a shared project.

    Raises:
        BadInputError: It does not wait.
    """
    decide = request.decide
    row = _Row(dict(request.by), request.key, request.digest, request.when, position=position)
    if isinstance(decide, Update):
        shown = decide.shown if decide.may else None
        row.update = attrs.evolve(decide, names=dict(decide.names), plain_events=(), shown=shown)
        row.beside = [encode(event)[:4] for event in decide.plain_events]
    elif isinstance(decide, PlainEvents):
        row.facts = [encode(event)[:4] for event in decide.events]
    else:
        raise BadInputError("request", "is not in the spool")
    value: dict[str, Any] = msgspec.to_builtins(row)
    return value


def requests_from_json(
    values: Any, key: str, when: Any, names_since: Callable[[int], Mapping[str, str]] | None = None
) -> list[Request]:
    """Return the requests of one spool file.

    Args:
        values: A list of what `request_to_json` returned, read again and not trusted.
        key: Names the file, so that each request is recorded once.
        when: When they were sent, not trusted either.
        names_since: In a shared project: returns name as of an own event number → the entry's present name, where it
            changed since.

    Raises:
        BadInputError: One of them is not a request, or they are not a list; none of them may be recorded.
        MissingLinesError: Lines of the shared book as of then are missing.
    """
    try:
        rows = msgspec.convert(values, list[_Row])
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise BadInputError("requests", str(error)) from error
    requests = []
    for index, row in enumerate(rows):
        # A request that says itself when it happened happened then.
        at = when if row.when is None else row.when
        try:
            fits = isinstance(at, str) and clock.moment(clock.to_unix_us(at)).at == at
        except (ValueError, OverflowError, OSError):
            fits = False
        if not fits:
            # On a line it would be damage for ever.
            raise BadInputError("at", "is not a time as the ledger writes it")
        delivered = row.payload if row.key and is_digest(row.payload) else ""
        request = Request(_decide_from_row(row), row.by, row.key or f"{key}:{index}", at, delivered)
        if names_since and isinstance(request.decide, Update) and row.position > 0:
            # A sync can give pending entries other names.
            names = names_since(row.position)
            request.decide = request.decide.with_names(names) if names else request.decide
        requests.append(request)
    return requests


def _decide_from_row(row: _Row) -> Decide:
    if row.update is not None:
        return attrs.evolve(
            row.update,
            plain_events=_parse_plain_events(row.beside),
            # Operations are only ever proposed where it is unclear on which terms they count.
            may=row.update.may if row.update.may in _TERMS else curation.PROPOSE,
            is_addition=False,
            is_typed=False,
        )
    if not row.facts:
        raise BadInputError("request", "is neither an update nor facts")
    return PlainEvents(_parse_plain_events(row.facts))


def _parse_plain_events(value: list[Any]) -> tuple[Event, ...]:
    """Return plain events from the spool: a list of kind, version, body and free text."""
    try:
        rows = [(kind, version, {**body, **(free or {})}) for kind, version, body, free in value]
        if not all(kind in PLAYBOOK_NEUTRAL for kind, _, _ in rows):
            raise BadInputError("facts", "are not events without an effect on the playbook")
        return tuple(structure(*row) for row in rows)
    except REFUSALS as error:
        raise BadInputError("facts", f"do not fit their kind: {error}") from error
