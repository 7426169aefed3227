"""The review view, and the items of a review: entries and proposals that a person should look at. Pure.

"No sign of use" needs sessions that would have shown one: those whose transcript was searched for citations, or in
whose messages the agent cited an entry. A prohibition that works is never cited, so this says nothing against an entry.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.comparison.similarity import find_pairs
from tallybook.projections.event_rows import summary
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.confidence import interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Entry
    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.playbook.view import Playbook

MAX_ITEMS: Final = 30
MIN_SESSIONS: Final = 10
"""Fewest sessions that were given an entry before its missing citations or ratings mean anything."""
DAYS: Final = 90
"""So long a decision holds, unless something changed for the entry."""
NEAR: Final = 2
"""A contested entry is near the bound if so many more harmful ratings would let it be pruned."""
FEW_RATINGS: Final = 3

CONTESTED: Final = "contested"
PROPOSAL: Final = "proposal"
DUPLICATE: Final = "duplicate"
UNPROVEN: Final = "unproven"
UNUSED: Final = "no sign of use"
GONE: Final = "gone path"
EXPIRED: Final = "expired"

_CHANGING: Final = (
    events.PointSeeded,
    events.PointAdded,
    events.PointRated,
    events.PointEdited,
    events.PointRemoved,
    events.PointReworded,
    events.PointRetired,
    events.PointRestored,
    events.PointPinned,
    events.PointUnpinned,
    events.PointMerged,
    events.PointMatched,
    events.PointLimited,
)
_NEW_TEXT: Final = (events.PointEdited, events.PointReworded)
_USES: Final = (events.PlaybookInjected, events.PointCited, events.TranscriptRead)

Moment = tuple[str, int]
"""When an event was recorded, and its number: in a shared history, numbers alone are not in the order of time."""


@attrs.define
class Reviews(State):
    """What a review needs to know of a ledger, besides the playbook.

    Attributes:
        sessions: Name → the sessions that were given the entry, with its present text, and whose citations are seen.
        cited: Names that an agent ever cited.
        changes: Name → when it last changed, or a change of it was last undone.
        decisions: Why entries were shown, and their names → when a person last decided about them.
        given: Session → the entries that it was given since its citations were last seen; of a session that ended
            before any prompt they never are, and a fork is given nothing.
        merged: Name of a merged entry → the entry that it was merged into.
        writer: Label of this machine in a shared book; empty without one.
    """

    sessions: dict[str, set[str]] = attrs.field(factory=dict)
    cited: set[str] = attrs.field(factory=set)
    changes: dict[str, Moment] = attrs.field(factory=dict)
    decisions: dict[tuple[str, tuple[str, ...]], Moment] = attrs.field(factory=dict)
    given: dict[str, set[str]] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    writer: str = ""

    def is_unused(self, entry: Entry) -> bool:
        """Return whether enough sessions were given an entry, and nothing shows that one of them used it."""
        return (
            len(self.sessions.get(entry.name, ())) >= MIN_SESSIONS
            and entry.name not in self.cited
            and not entry.helpful + entry.harmful
        )


def _apply_batch(state: Reviews, batch: Batch) -> None:
    for index, event in enumerate(batch.events):
        if isinstance(event, UndoneEvent):
            _note_change(state, event.event, _moment(state, event.by))
        elif isinstance(event, _CHANGING):
            _note_change(state, event, _moment(state, batch.records[index]))
            if isinstance(event, _NEW_TEXT):
                state.sessions.pop(event.name, None)
            elif isinstance(event, events.PointMerged):
                _merge(state, event)
        elif isinstance(event, events.PointReviewed):
            state.decisions[event.why, event.names] = _moment(state, _last_known(batch))
        elif isinstance(event, _USES):
            _note_use(state, event, batch.records[index].by.session or "")


def _last_known(batch: Batch) -> EventRecord:
    """Return the last record of a batch whose kind is known: a decision holds for the changes of its own batch too."""
    return next(record for record in reversed(batch.records) if not isinstance(record.event, events.UnknownEvent))


def _moment(state: Reviews, record: EventRecord) -> Moment:
    """Return when an event changed the playbook here; an own event of a shared book did so before it was published."""
    is_own = state.writer and record.by.writer == state.writer
    return (record.when or record.at, 0) if is_own else (record.at, record.seq)


def _note_change(state: Reviews, event: Any, moment: Moment) -> None:
    """Note that the entries of an event changed; a rating that counts nothing changes none."""
    if isinstance(event, _CHANGING) and getattr(event, "rating", "helpful") in {"helpful", "harmful"}:
        names = {event.name, getattr(event, "to", event.name), *getattr(event, "merged", ())}
        for name in {state.merged.get(name, name) for name in names}:
            state.changes[name] = max(moment, state.changes.get(name, moment))


def _merge(state: Reviews, event: events.PointMerged) -> None:
    """Let the later citations of merged entries, and their earlier ones, count for the entry that remains."""
    gone = {*event.merged, *(name for name, into in state.merged.items() if into in event.merged)} - {event.name}
    state.merged |= dict.fromkeys(gone, event.name)
    if not state.cited.isdisjoint(event.merged):
        state.cited.add(event.name)


def _note_use(state: Reviews, event: Any, session: str) -> None:
    """Note what a session was given or cited, or that its citations were seen."""
    if isinstance(event, events.PlaybookInjected):
        if session:
            state.given.setdefault(session, set()).update(event.names)
        return
    if isinstance(event, events.PointCited):
        state.cited.add(state.merged.get(event.name, event.name))
        # The input of a tool is seen also of clients whose messages are not.
        is_seen = event.where == "message"
    else:
        # Of a session that ended before any prompt nothing is read.
        is_seen = not event.file and event.end > 0
    if is_seen:
        for name in state.given.pop(session, ()):
            state.sessions.setdefault(name, set()).add(session)


def reviews_view(writer: str = "") -> View[Reviews]:
    """Return the view of the sessions that were given entries, of citations, and of decisions, on one machine."""
    kinds = (*_CHANGING, *_USES, events.PointReviewed, UndoneEvent)
    return batch_view(partial(Reviews, writer=writer), kinds, _apply_batch)


class Item(NamedTuple):
    """Something for a person to decide.

    Attributes:
        why: Why it is shown: CONTESTED, PROPOSAL, DUPLICATE, UNPROVEN, UNUSED, GONE or EXPIRED.
        names: The entries that it is about.
        says: What is known, in words.
        proposal: The event that proposes a change; None for other items.
    """

    why: str
    names: tuple[str, ...]
    says: str
    proposal: EventRecord | None = None


class Question(NamedTuple):
    """What items are selected from.

    Attributes:
        book: The playbook.
        reviews: The state of the review view.
        proposals: The open proposals, the oldest first.
        gone: Name → the paths that its text names and git no longer has.
        since: Time before which a decision no longer holds, as events write it.
        today: The day, as entries that hold until a date have it.
    """

    book: Playbook
    reviews: Reviews
    proposals: Sequence[EventRecord]
    gone: Mapping[str, Collection[str]]
    since: str
    today: str


def select_items(question: Question) -> list[Item]:
    """Return what a person should decide, what matters most first; what was decided is left out."""
    items = [*_contested(question.book), *_expired(question), *map(_proposal, question.proposals)]
    items += _duplicates(question.book)
    return [item for item in (*items, *_unproven(question), *_stale(question)) if not _is_decided(question, item)]


def _is_decided(question: Question, item: Item) -> bool:
    """Return whether a person decided about an item lately, and nothing changed for its entries since then."""
    moment = question.reviews.decisions.get((item.why, item.names))
    if item.proposal is not None or moment is None or moment[0] < question.since:
        return False
    return all(question.reviews.changes.get(name, moment) <= moment for name in item.names)


def _contested(book: Playbook) -> Iterator[Item]:
    for entry in book.entries.values():
        if entry.helpful and entry.harmful and not book.prunes(entry) and not book.protects(entry):
            more = next((n for n in range(1, NEAR + 1) if book.prunes(_with_harmful(entry, n))), None)
            if more is not None:
                ratings = "1 more harmful rating" if more == 1 else f"{more} more harmful ratings"
                says = f"rated helpful and harmful; {ratings} would let an update prune it"
                yield Item(CONTESTED, (entry.name,), says)


def _with_harmful(entry: Entry, more: int) -> Entry:
    return events.Entry(entry.name, entry.text, entry.helpful, entry.harmful + more)


def _proposal(record: EventRecord) -> Item:
    event: Any = record.event
    names = tuple(filter(None, (event.name, *event.merged)))
    return Item(PROPOSAL, names, f"{summary(event)} ({event.cause}; by {record.by.agent or record.by.rater})", record)


def _expired(question: Question) -> Iterator[Item]:
    for name, day in question.book.until.items():
        if day < question.today and name in question.book.entries:
            yield Item(EXPIRED, (name,), f"held until {day}, and is not injected since")


def _duplicates(book: Playbook) -> Iterator[Item]:
    for pair in find_pairs(book.entries.values()):
        first, second = pair.entries
        helpful, harmful = first.helpful + second.helpful, first.harmful + second.harmful
        pruned = book.prunes(events.Entry(first.name, first.text, helpful, harmful))
        end = ", which the next update prunes" if pruned else ""
        says = f"do they say the same? {pair.difference}; merged they would have +{helpful} -{harmful}{end}"
        yield Item(DUPLICATE, (first.name, second.name), says)


def _unproven(question: Question) -> Iterator[Item]:
    """Yield entries with few ratings that many sessions were given, those that ratings say least about first."""
    sessions = question.reviews.sessions
    found = [
        entry
        for entry in question.book.entries.values()
        if len(sessions.get(entry.name, ())) >= MIN_SESSIONS
        and entry.helpful + entry.harmful < FEW_RATINGS
        and not question.reviews.is_unused(entry)
    ]
    for entry in sorted(found, key=_certainty):
        number = entry.helpful + entry.harmful
        ratings = "1 rating" if number == 1 else f"{number or 'no'} ratings"
        yield Item(UNPROVEN, (entry.name,), f"given to {len(sessions[entry.name])} sessions, with {ratings}")


def _certainty(entry: Entry) -> float:
    low, high = interval(entry.helpful, entry.harmful)
    return low - high


def _stale(question: Question) -> Iterator[Item]:
    for entry in question.book.entries.values():
        why, says = stale_words(entry, question.reviews, question.gone.get(entry.name, ()))
        if why:
            yield Item(why, (entry.name,), says)


def stale_words(entry: Entry, reviews: Reviews, gone: Iterable[str]) -> tuple[str, str]:
    """Return why an entry may be stale, GONE or UNUSED, and what is known, in words; both empty where it is not."""
    parts = [f"names {path}, which git had and no longer has" for path in gone]
    why = GONE if parts else ""
    if reviews.is_unused(entry):
        number = len(reviews.sessions[entry.name])
        parts.append(f"no sign of use: given to {number} sessions whose citations are seen, cited and rated in none")
        parts.append("a prohibition that works is never cited")
        why = why or UNUSED
    return why, "; ".join(parts)
