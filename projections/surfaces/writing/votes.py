"""What the ratings of an agent come to: one vote an entry and lineage, and none that prunes what a person wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger.errors import MissingLinesError, NothingToDoError
from tallybook.ledger.events import PointNoted, PointProposed
from tallybook.ledger.names import find_name
from tallybook.ledger.playbook_constants import RATE
from tallybook.projections.fold import fold_history
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request, Update
from tallybook.projections.votes import RETIRE, VOTES, Votes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tallybook.projections.playbook.view import Playbook
    from tallybook.projections.surfaces.reflection.marks import Mark
    from tallybook.projections.surfaces.workspace.project import Project
    from tallybook.projections.surfaces.writing.requests import Rating

HELPFUL, HARMFUL, NEUTRAL = "helpful", "harmful", "neutral"
_VOTED: Final = "was rated in this session, or in one that it continues"


@attrs.define
class Ballot:
    """The votes of a ledger, to which those of agents are added before they are recorded.

    Attributes:
        votes: The votes so far.
        book: The playbook.
        only_proposes: Whether each vote is a proposal to a person.
        harmful: Name → how many harmful votes were added.
    """

    votes: Votes
    book: Playbook
    only_proposes: bool = False
    harmful: dict[str, int] = attrs.field(factory=dict)

    def cast(self, session: str, vote: Mark, *, must_cite: bool = False) -> str | PointProposed:
        """Return what a vote comes to: a rating, or a proposal; empty where it does not count.

        Args:
            session: The session.
            vote: The vote.
            must_cite: Whether helpful counts only where the lineage cited the entry, and is neutral elsewhere.
        """
        name, rating = vote.name, vote.rating
        entry = self.book.entries.get(self.book.merged.get(name, name))
        if entry is None or self.votes.has_voted(session, name):
            return ""
        self.votes.rated.setdefault(session, set()).add(name)
        if self.only_proposes:
            return PointProposed(RATE, name, (), "marks propose", "", rating, vote.reason) if rating != NEUTRAL else ""
        if rating == HARMFUL:
            more = self.harmful[name] = self.harmful.get(name, 0) + 1
            worse = attrs.evolve(entry, harmful=entry.harmful + more)
            if self.votes.maker_of(name).is_persons and self.book.prunes(worse):
                return self._dispute(name, vote.reason)
        is_courtesy = must_cite and rating == HELPFUL and not self.votes.has_cited(session, name)
        return NEUTRAL if is_courtesy else rating

    def _dispute(self, name: str, reason: str) -> str | PointProposed:
        """Return the proposal to retire an entry; a person is asked once."""
        if name in self.votes.disputed:
            return NEUTRAL
        self.votes.disputed.add(name)
        return PointProposed(RETIRE, name, (), "a person's entry", "", "", reason)


def load(project: Project) -> Votes:
    """Return the votes of a ledger."""
    return fold_history(VOTES, lambda: reading.batches(project))


@attrs.frozen
class MarkedMessage:
    """A message of an agent with marks.

    Attributes:
        ratings: Its ratings, of entries that its lineage was given.
        lessons: Its lessons.
        text: The whole message.
        by: Who wrote it.
        key: The idempotency key of what is recorded.
        when: When it was written; None where that is unknown.
    """

    ratings: tuple[Mark, ...]
    lessons: tuple[str, ...]
    text: str
    by: Mapping[str, str]
    key: str
    when: str | None = None


def requests_of(ballot: Ballot, messages: Iterable[MarkedMessage]) -> Iterator[Request]:
    """Yield a request for each message whose marks count, with all of its votes."""
    for message in messages:
        results = [(mark, ballot.cast(message.by["session"], mark, must_cite=True)) for mark in message.ratings]
        ratings = [(mark, result) for mark, result in results if isinstance(result, str) and result]
        events = [
            *(PointNoted(mark.name, f"{mark.rating}: {mark.reason}") for mark, _ in ratings if mark.reason),
            *(result for _, result in results if isinstance(result, PointProposed)),
        ]
        if ratings:
            evaluations = [{"name": mark.name, "rating": result} for mark, result in ratings]
            content = Update({"new_key_points": [], "evaluations": evaluations}, plain_events=tuple(events))
            yield Request(content, message.by, message.key, message.when)
        elif events:
            yield Request(PlainEvents(tuple(events)), message.by, message.key, message.when)


def screen(project: Project, given: Rating, session: str) -> tuple[dict[str, str], tuple[PointProposed, ...]]:
    """Return what an agent's rating comes to, by the names that it gave, and what is proposed in place of others.

    Raises:
        NothingToDoError: The session's lineage rated all of the entries before.
    """
    from tallybook.projections.surfaces.reflection.marks import Mark

    try:
        ballot = Ballot(load(project), reading.current(reading.open_log(project)))
    except MissingLinesError:
        # The rating waits in the spool until a sync brings the lines.
        return dict.fromkeys(given.names, given.rating), ()
    counted: dict[str, str] = {}
    proposals: list[PointProposed] = []
    for word in given.names:
        name = find_name(word, ballot.book.used)
        if name is not None and ballot.votes.has_voted(session, name):
            continue
        result = "" if name is None else ballot.cast(session, Mark(name, given.rating, given.reason))
        if isinstance(result, PointProposed):
            proposals.append(result)
        else:
            counted[word] = result or given.rating
    if not counted and not proposals:
        raise NothingToDoError(given.names[0], _VOTED, "nothing was recorded")
    return counted, tuple(proposals)
