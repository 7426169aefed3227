"""What a person should decide: proposals, entries with contested ratings, stale ones, and those that resemble others.

Entries resemble each other if most of their words are the same, in any order. Nothing here decides that two texts say
the same: "before" and "after" differ in one word.

"No sign of use" needs sessions that would have shown one: those whose transcript was searched for citations, or in
whose messages the agent cited an entry. A prohibition that works is never cited, so this says nothing against an entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
import re
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple
import unicodedata

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.names import format_names
from tallybook.ledger.playbook_constants import AGENT, REDACTED
from tallybook.projections.history.event_rows import summary
from tallybook.projections.playbook.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.render import entry_json, needs_ratings
from tallybook.projections.playbook.view import CHANGES, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord


# Entries that resemble each other

LEAST: Final = 0.75
"""The similarity from which texts resemble each other, from 0 to 1: four words of which one is another have it."""
MAX_WORDS: Final = 8
"""Most words of a text that a difference lists."""
_WORD: Final = re.compile(r"\w+")
# The end of "don't" is a word, as in "do not": it makes a text the opposite of another.
_NOT: Final = re.compile(r"n['\u2019]t\b")


class Pair(NamedTuple):
    """Two entries that resemble each other.

    Attributes:
        entries: The entries, in the playbook's order.
        similarity: The share of their words that both have, from 0 to 1; 1 is the same words.
    """

    entries: tuple[Entry, Entry]
    similarity: float


def merge_command(entries: Iterable[Entry], option: str = "") -> str:
    """Return the command that merges entries into the first, with what it needs after the names."""
    return f"tallybook merge {' '.join(quote(entry.name) for entry in entries)}{option}"


def _words_of(text: str) -> dict[str, None]:
    """Return the words of a text without case, each once, in order; a text without words is its own word."""
    return dict.fromkeys(_WORD.findall(_NOT.sub(" not", unicodedata.normalize("NFKC", text).casefold())) or [text])


def describe_difference(first: Entry, second: Entry) -> str:
    """Return the words that only one of two entries has."""
    words, other_words = _words_of(first.text), _words_of(second.text)
    rows = (
        (first.name, [repr(word) for word in words if word not in other_words]),
        (second.name, [repr(word) for word in other_words if word not in words]),
    )
    parts = [f"only {name} has {format_names(different, MAX_WORDS)}" for name, different in rows if different]
    same = "they have the same words" + ("" if list(words) == list(other_words) else " in another order")
    return "; ".join(parts) or same


def find_similar(text: str, entries: Iterable[Entry], least: float = LEAST) -> list[Entry]:
    """Return the entries that resemble a text, the most similar first."""
    words = _words_of(text).keys()
    shares = [(_share(words, _words_of(entry.text).keys()), entry) for entry in entries]
    return [entry for share, entry in sorted(shares, key=lambda pair: -pair[0]) if share >= least]


def find_pairs(entries: Iterable[Entry], least: float = LEAST) -> Iterator[Pair]:
    """Yield the pairs of entries that resemble each other, in the playbook's order of the second entry."""
    listed = [(entry, frozenset(_words_of(entry.text))) for entry in entries]
    for place, (entry, words) in enumerate(listed):
        for other, other_words in listed[:place]:
            if (share := _share(words, other_words)) >= least:
                yield Pair((other, entry), share)


def _share(words: Any, others: Any) -> float:
    """Return the share of two sets of words that is in both, from 0 to 1."""
    return 2 * len(words & others) / (len(words) + len(others))


def pair_json(pair: Pair, option: str = "") -> dict[str, Any]:
    """Return a pair as ``{similarity, entries, merge}``."""
    return {
        "similarity": round(pair.similarity, 2),
        "entries": [entry_json(entry) for entry in pair.entries],
        "merge": merge_command(pair.entries, option),
    }


# What to decide

# A review is to take ten minutes a month.
MAX_ITEMS: Final = 30
MIN_SESSIONS: Final = 10
"""Fewest sessions that were given an entry before its missing citations or ratings mean anything."""
DAYS: Final = 90
"""So long a decision holds, unless something changed for the entry."""
NEAR: Final = 2
"""A contested entry is near the bound if so many more harmful ratings would let it be pruned."""
FEW_RATINGS: Final = 3

HARMFUL: Final = "harmful"
CONTESTED: Final = "contested"
DISPUTED: Final = "in dispute"
LEFT: Final = "left"
LESSON: Final = "lesson"
PROPOSAL: Final = "proposal"
DUPLICATE: Final = "duplicate"
UNPROVEN: Final = "unproven"
UNUSED: Final = "no sign of use"
GONE: Final = "gone path"
EXPIRED: Final = "expired"
_ORDER: Final = (CONTESTED, DISPUTED, EXPIRED, LEFT, LESSON, PROPOSAL, DUPLICATE, UNPROVEN, GONE, UNUSED)
MAX_REASONS: Final = 3
"""So many of the latest reasons of harmful ratings are shown."""

_CHANGING: Final = tuple(
    kind for kind in CHANGES if "name" in attrs.fields_dict(kind) and kind is not events.PointPlaced
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
        reasons: Name → why it was rated harmful.
        disputes: Id of an open proposal to retire an entry → its name.
        blame: Name → who rated it harmful last, and when.
        writer: Label of this machine in a shared book; empty without one.
    """

    sessions: dict[str, set[str]] = attrs.field(factory=dict)
    cited: set[str] = attrs.field(factory=set)
    changes: dict[str, Moment] = attrs.field(factory=dict)
    decisions: dict[tuple[str, tuple[str, ...]], Moment] = attrs.field(factory=dict)
    given: dict[str, set[str]] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    reasons: dict[str, list[str]] = attrs.field(factory=dict)
    disputes: dict[str, str] = attrs.field(factory=dict)
    blame: dict[str, tuple[str, str]] = attrs.field(factory=dict)
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
            _note_effect(state, event, batch.records[index])
        elif isinstance(event, events.PointNoted):
            # An agent says why an entry is harmful, so that a person can judge the rating.
            if (event.note or "").startswith(f"{HARMFUL}: "):
                state.reasons.setdefault(state.merged.get(event.name, event.name), []).append(str(event.note))
        elif isinstance(event, events.PointProposed) and why_shown(batch.records[index]) == DISPUTED:
            state.disputes[batch.records[index].id] = event.name
        elif isinstance(event, events.PointReviewed):
            _note_decision(state, event.why, event.names, batch)
        elif isinstance(event, events.ProposalDecided) and event.id in state.disputes:
            # Who rejects that an entry leaves decides about the ratings against it.
            _note_decision(state, CONTESTED, (state.disputes.pop(event.id),), batch)
        elif isinstance(event, _USES):
            _note_use(state, event, batch.records[index].by.session or "")


def _note_decision(state: Reviews, why: str, names: tuple[str, ...], batch: Batch) -> None:
    """Note a decision of a person, which holds for the changes of its own batch too."""
    known = [record for record in batch.records if not isinstance(record.event, events.UnknownEvent)]
    state.decisions[why, names] = _moment(state, known[-1])


def _moment(state: Reviews, record: EventRecord) -> Moment:
    """Return when an event changed the playbook here; an own event of a shared book did so before it was published."""
    is_own = state.writer and record.by.writer == state.writer
    return (record.when or record.at, 0) if is_own else (record.at, record.seq)


def _note_change(state: Reviews, event: Any, moment: Moment) -> None:
    """Note that the entries of an event changed; a rating that has no effect changes none."""
    if isinstance(event, _CHANGING) and getattr(event, "rating", "helpful") in {"helpful", "harmful"}:
        names = {event.name, getattr(event, "to", event.name), *getattr(event, "merged", ())}
        for name in {state.merged.get(name, name) for name in names}:
            state.changes[name] = max(moment, state.changes.get(name, moment))


def _note_effect(state: Reviews, event: Any, record: EventRecord) -> None:
    """Note what else a change says: uses of an earlier text do not count, and a harmful rating has an author."""
    if isinstance(event, _NEW_TEXT):
        # Sessions that were given the earlier text say nothing of the new one.
        state.sessions.pop(event.name, None)
    elif isinstance(event, events.PointMerged):
        # Later citations of the merged entries, and their earlier ones, count for the entry that remains.
        gone = {*event.merged, *(name for name, into in state.merged.items() if into in event.merged)} - {event.name}
        state.merged |= dict.fromkeys(gone, event.name)
        if not state.cited.isdisjoint(event.merged):
            state.cited.add(event.name)
    elif isinstance(event, events.PointRated) and event.rating == HARMFUL:
        state.blame[state.merged.get(event.name, event.name)] = record.by.rater, record.at


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
    decisions = (events.PointReviewed, events.PointProposed, events.ProposalDecided)
    kinds = (*_CHANGING, *_USES, *decisions, events.PointNoted, UndoneEvent)
    return batch_view(partial(Reviews, writer=writer), kinds, _apply_batch)


class Item(NamedTuple):
    """Something for a person to decide.

    Attributes:
        why: Why it is shown, one of _ORDER.
        names: The entries that it is about.
        says: What is known, in words.
        proposal: The event that proposes a change; None for other items.
    """

    why: str
    names: tuple[str, ...]
    says: str
    proposal: EventRecord | None = None


class ReviewInput(NamedTuple):
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


def select_items(question: ReviewInput) -> list[Item]:
    """Return what a person should decide; what was decided is left out.

    In the order of _ORDER, and of one kind first what a decision changes for most sessions.
    """
    book = question.book
    items = [*_find_contested(question), *_duplicates(book), *_unproven(question)]
    for entry in book.entries.values():
        why, says = stale_words(entry, question.reviews, question.gone.get(entry.name, ()))
        items += [Item(why, (entry.name,), says)] if why else []
    for name, day in book.until.items():
        if day < question.today and name in book.entries:
            items.append(Item(EXPIRED, (name,), f"held until {day}, and is not injected since"))
    items += select_agents_items(question)
    sessions = question.reviews.sessions

    def rank(item: Item) -> tuple[int, int]:
        return _ORDER.index(item.why), -max((len(sessions.get(name, ())) for name in item.names), default=0)

    return sorted((item for item in items if not _is_decided(question, item)), key=rank)


def select_agents_items(question: ReviewInput) -> list[Item]:
    """Return what agents proposed, and the entries that their ratings pruned, without what was decided."""
    items = []
    for record in question.proposals:
        event: Any = record.event
        names = tuple(filter(None, (event.name, *event.merged)))
        items.append(Item(why_shown(record), names, "\n".join(proposal_lines(record)), record))
    items += _find_pruned(question)
    return [item for item in items if not _is_decided(question, item)]


def _is_decided(question: ReviewInput, item: Item) -> bool:
    """Return whether a person decided about an item lately, and nothing changed for its entries since then."""
    moment = question.reviews.decisions.get((item.why, item.names))
    # A proposal is open until its own decision is recorded.
    if item.proposal is not None or moment is None or moment[0] < question.since:
        return False
    return all(question.reviews.changes.get(name, moment) <= moment for name in item.names)


def _find_contested(question: ReviewInput) -> Iterator[Item]:
    """Yield the entries with more harmful than helpful ratings, with the reasons, and those that are near the bound."""
    book = question.book
    # A proposal to retire the entry shows it already.
    disputed = {getattr(shown.event, "name", "") for shown in question.proposals if why_shown(shown) == DISPUTED}
    for entry in book.entries.values():
        # At once: simulated at a mark rate of one half, 97 % of bad entries left in a month, 75 % if no person looked.
        is_worse = entry.harmful > entry.helpful
        if entry.name in disputed or not (is_worse or (entry.helpful and entry.harmful)):
            continue
        near = _nearness(book, entry)
        if is_worse or near:
            what = "more harmful than helpful ratings" if is_worse else "rated helpful and harmful"
            says = filter(None, (what, near, *_reasons(question.reviews, entry.name)))
            yield Item(CONTESTED, (entry.name,), "; ".join(says))


def _nearness(book: Playbook, entry: Entry) -> str:
    """Return in words how near an entry is to being pruned; empty where NEAR more harmful ratings leave it."""
    worse = [attrs.evolve(entry, harmful=entry.harmful + more) for more in range(NEAR + 1)]
    more = next((more for more, rated in enumerate(worse) if book.prunes(rated)), None)
    if more is None or book.is_exempt(entry):
        return ""
    if not more:
        return "the next update prunes it"
    return f"{more} more harmful rating{'s' if more > 1 else ''} would let an update prune it"


def _reasons(reviews: Reviews, name: str) -> Iterator[str]:
    """Return the latest reasons for which an entry was rated harmful, each once."""
    return islice(dict.fromkeys(reversed(reviews.reasons.get(name, ()))), MAX_REASONS)


def why_shown(record: EventRecord) -> str:
    """Return why a proposal is shown: the wish that an entry leaves disputes it."""
    if is_lesson(record):
        return LESSON
    return DISPUTED if getattr(record.event, "verb", "") in {"retire", "delete"} else PROPOSAL


def _find_pruned(question: ReviewInput) -> Iterator[Item]:
    """Yield the entries that an agent's rating pruned lately."""
    for name in question.book.pruned:
        rater, at = question.reviews.blame.get(name, ("", ""))
        # A hostile file can make agents rate an entry harmful, so that a person sees what their ratings pruned.
        if rater == AGENT and at >= question.since:
            entry = question.book.gone[name]
            what = f"an agent's rating pruned it, at +{entry.helpful} -{entry.harmful}: {entry.text}"
            back = f"`tallybook restore {name}` brings it back"
            yield Item(LEFT, (name,), "; ".join((what, *_reasons(question.reviews, name), back)))


def _duplicates(book: Playbook) -> Iterator[Item]:
    # A question, and never a merge: one other word can make the opposite.
    for pair in find_pairs(book.entries.values()):
        first, second = pair.entries
        helpful, harmful = first.helpful + second.helpful, first.harmful + second.harmful
        pruned = book.prunes(events.Entry(first.name, first.text, helpful, harmful))
        end = ", which the next update prunes" if pruned else ""
        merged = f"merged they would have +{helpful} -{harmful}{end}"
        says = f"do they say the same? {describe_difference(first, second)}; {merged}"
        yield Item(DUPLICATE, (first.name, second.name), says)


def _unproven(question: ReviewInput) -> Iterator[Item]:
    """Yield entries with few ratings that many sessions were given, those that ratings say least about first."""
    for row in needs_ratings(question.book):
        name, number = row["name"], row["helpful"] + row["harmful"]
        given = len(question.reviews.sessions.get(name, ()))
        is_unused = question.reviews.is_unused(question.book.entries[name])
        if given >= MIN_SESSIONS and number < FEW_RATINGS and not is_unused:
            ratings = "1 rating" if number == 1 else f"{number or 'no'} ratings"
            yield Item(UNPROVEN, (name,), f"given to {given} sessions, with {ratings}")


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


LESSON_VERB: Final = "add"
ACCEPTED: Final = "accepted"


@attrs.define
class Proposals(State):
    """The proposals of a ledger.

    Attributes:
        open: Id → the event that proposed it, in order, for each that was not decided.
        lessons: The texts of all lessons, whatever became of them.
        accepted: How many lessons were accepted.
    """

    open: dict[str, EventRecord] = attrs.field(factory=dict)
    lessons: set[str] = attrs.field(factory=set)
    accepted: int = 0


def _apply(state: Proposals, batch: Batch) -> None:
    for record in batch.records:
        if isinstance(record.event, events.PointProposed):
            state.open[record.id] = record
            if is_lesson(record):
                # An agent proposed again what a person had rejected, so that the text stays known.
                state.lessons.add(record.event.text or "")
        elif isinstance(record.event, events.ProposalDecided):
            decided = state.open.pop(record.event.id, None)
            if decided is not None and record.event.verdict == ACCEPTED and is_lesson(decided):
                state.accepted += 1


def is_lesson(record: EventRecord) -> bool:
    """Return whether a proposal is a lesson: a new entry by an agent's mark, which a person sees whole."""
    return getattr(record.event, "verb", "") == LESSON_VERB


def proposal_lines(record: EventRecord) -> Iterator[str]:
    """Yield a proposal for people: what it would do; of a lesson its whole text, and the message it came from."""
    event: Any = record.event
    by = record.by.agent or record.by.rater
    session = f" in session {record.by.session}" if record.by.session else ""
    if not is_lesson(record):
        yield f"{summary(event)}  ({event.cause}; by {by}{session})"
        return
    # Whole, because later sessions get the text as it is accepted here.
    yield f"{event.text or REDACTED}  (lesson; by {by}{session})"
    yield f"    in its message: {event.reason or REDACTED}"


PROPOSALS: Final[View[Proposals]] = batch_view(Proposals, (events.PointProposed, events.ProposalDecided), _apply)
