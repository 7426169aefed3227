"""Limits on agents' ratings: one vote an entry and lineage, and none prunes what a person wrote.

A lineage is a session with those that resumed or forked it.

Every batch is decided here before it is appended, whichever of marks, MCP, reflection, a verb and the spool it is from.
An extraction result that a program records as the rater reflector counts as it is, as the specification says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from tallybook.ledger import events
from tallybook.ledger.decisions.update import Decision, IgnoredItem
from tallybook.ledger.playbook_constants import RATE
from tallybook.projections.playbook.view import AGENT, Playbook
from tallybook.projections.surfaces.history.checkpoints import Form
from tallybook.projections.surfaces.writing.requests import Request, Update
from tallybook.projections.votes import RETIRE, VOTES, Votes, pack, unpack

HELPFUL, HARMFUL, NEUTRAL = "helpful", "harmful", "neutral"
DISPUTE: Final = "a person's entry"
"""The cause of a proposal that stands for a vote which would have pruned what a person typed or imported."""
VOTES_FORM: Final[Form[Votes]] = Form("votes", VOTES, pack, unpack)
"""How the votes are saved: a vote is decided under the lock, where folding all of a long history takes seconds."""
SPENT: Final = "was rated in this session, or in one that it continues"


def may_vote(request: Request) -> bool:
    """Return whether ratings in a request are votes: those of an agent, and of a reflection on a session.

    People's and programs' ratings count as they are, as the specification says.
    """
    # A reflection on a session is known by the names that its prompt showed.
    return request.by["rater"] == AGENT or (isinstance(request.decide, Update) and request.decide.shown is not None)


def count_votes(decision: Decision, request: Request, state: Playbook, read: Callable[[], Votes]) -> Decision:
    """Return a decision with what the votes in it come to, of an agent or a reflection on a session.

    A vote of a lineage that has voted has no effect, and one that would prune a person's entry is a proposal. By a
    mark, helpful counts only where the lineage cited the entry, and is neutral elsewhere.

    Args:
        decision: The decision.
        request: What was decided.
        state: The playbook.
        read: Returns the votes before it, which are read only where it has one.
    """
    if not may_vote(request):
        return decision
    by, by_marks = request.by, isinstance(request.decide, Update) and request.decide.by_marks
    entries = [_entry_of(event, state) for event in decision.events]
    if not any(entries):
        return decision
    notes = {event.name: event for event in decision.events if isinstance(event, events.PointNoted)}
    cast = _Cast(read(), state, by, notes)
    results: list[tuple[Any, Any]] = [
        (event, event if entry is None else cast.vote(event, entry, by_marks=by_marks))
        for event, entry in zip(decision.events, entries, strict=True)
    ]
    dropped = {
        event.name
        for event, result in results
        if isinstance(event, events.PointRated) and not isinstance(result, events.PointRated)
    }
    remaining = [
        result.evolve(rated=result.rated - len(dropped), ignored=result.ignored + len(dropped))
        if isinstance(result, events.PlaybookUpdated)
        else result
        for _, result in results
        if result is not None and not (isinstance(result, events.PointNoted) and result.name in dropped)
    ]
    if dropped and all(isinstance(event, events.PlaybookUpdated | events.PointProposed) for event in remaining):
        # Nothing is left that an update would close.
        remaining = [event for event in remaining if isinstance(event, events.PointProposed)]
    spent = tuple(IgnoredItem(event.name, SPENT, event.name) for event, result in results if result is None)
    return attrs.evolve(decision, events=tuple(remaining), ignored=(*decision.ignored, *spent))


def _entry_of(event: events.Event, state: Playbook) -> events.Entry | None:
    """Return the entry on which an event votes; None where it is no vote that can count."""
    is_vote = isinstance(event, events.PointRated) and event.rating in events.RATINGS
    if not is_vote and not (isinstance(event, events.PointProposed) and event.verb == RATE):
        return None
    name = getattr(event, "name", "")
    return state.entries.get(state.merged.get(name, name))


@attrs.frozen
class _Cast:
    """The votes of a batch of a machine, and those before it."""

    votes: Votes
    state: Playbook
    by: Mapping[str, str]
    notes: Mapping[str, events.PointNoted]

    def vote(self, event: Any, entry: events.Entry, *, by_marks: bool) -> Any:
        """Return what a vote comes to; None where its lineage has voted on the entry."""
        name, session = event.name, self.by.get("session", "")
        if session:
            if self.votes.has("rated", session, name):
                return None
            # A second vote of the same batch is not in the ledger yet, and has no effect either.
            self.votes.sessions[session].rated[name] = None
        if self.by["rater"] != AGENT or not isinstance(event, events.PointRated):
            return event
        if event.rating == HARMFUL:
            worse = attrs.evolve(entry, harmful=entry.harmful + 1)
            if self.votes.maker_of(name).is_persons and self.state.prunes(worse):
                if name in self.votes.disputed:
                    # A person is asked once.
                    return event.evolve(rating=NEUTRAL)
                self.votes.disputed.add(name)
                note = self.notes.get(name)
                reason = (note.note or "").partition(": ")[2] if note else ""
                return events.PointProposed(RETIRE, name, (), DISPUTE, "", "", reason)
        is_courtesy = by_marks and event.rating == HELPFUL and not self.votes.has("cited", session, name)
        return event.evolve(rating=NEUTRAL) if is_courtesy else event
