"""The view of votes: which entries a lineage of sessions rated and cited, and who wrote an entry. Pure.

A lineage is a session with its resumes, forks, branches, compactions and subagents: the sessions that injections tie
together. It has one vote an entry, whichever of marks, MCP and reflection gave it, undone or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.playbook_constants import AGENT, RATE
from tallybook.projections.playbook.fold import State, UndoneEvent, View, batch_view

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch, EventRecord

_MACHINES: Final = frozenset({AGENT, "reflector"})
HUMAN: Final = "human"
_PERSONS: Final = frozenset({HUMAN, "import"})
RETIRE: Final = "retire"
_MAKING: Final = (events.PointAdded, events.PointSeeded, events.PointEdited)


class Maker(NamedTuple):
    """Where an entry comes from.

    Attributes:
        id: Id of the event that made it; its name can change in a shared book.
        rater: Who recorded its present text; empty where unknown.
        is_accepted: Whether that was the acceptance of a proposal.
    """

    id: str = ""
    rater: str = ""
    is_accepted: bool = False

    @property
    def is_persons(self) -> bool:
        """Return whether a person typed or imported its text; an accepted proposal is no text of a person."""
        # Three sessions that quoted a hostile file pruned an entry that a person had typed: such a text needs a person.
        return self.rater in _PERSONS and not self.is_accepted


class SessionVotes(NamedTuple):
    """What is known of a session.

    Attributes:
        tied: The sessions that it continues, or that continue it.
        rated: The names that a machine rated in it, or proposed to rate or retire.
        cited: The names that it cited.
    """

    tied: dict[str, None]
    rated: dict[str, None]
    cited: dict[str, None]


@attrs.define
class Votes(State):
    """The votes of a ledger.

    Attributes:
        makers: Name → where the entry comes from.
        merged: Name of a merged entry → the one that it was merged into.
        sessions: Session → what is known of it.
        disputed: The names that an agent proposed to retire, whatever was decided.
    """

    makers: dict[str, Maker] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    sessions: dict[str, SessionVotes] = attrs.field(factory=dict)
    disputed: set[str] = attrs.field(factory=set)

    def session(self, id_: str) -> SessionVotes:
        """Return what is known of a session, to add to it."""
        return self.sessions.setdefault(id_, SessionVotes({}, {}, {}))

    def has(self, field: Literal["rated", "cited"], session: str, name: str) -> bool:
        """Return whether the lineage of a session rated an entry, or proposed to; or cited it."""
        # The first vote counts: for the last one to win, the ledger would have to undo the first. A courtesy helpful
        # kept bad entries in the simulation, so that it counts only with a citation.
        # By the id of the event that made the entry, because names change in a shared book.
        maker = self.maker_of(name).id
        lineage, open_ends = {session}, [session]
        while open_ends:
            new = set(self.session(open_ends.pop()).tied) - lineage
            lineage |= new
            open_ends += new
        voted = (other for member in lineage for other in getattr(self.session(member), field))
        return any(self.maker_of(other).id == maker for other in voted)

    def maker_of(self, name: str) -> Maker:
        """Return where the entry of a name comes from; a merged one counts as the one that it was merged into."""
        seen = {""}
        while name in self.merged and name not in seen:
            seen.add(name)
            name = self.merged[name]
        return self.makers.get(name, Maker(name))


def _apply(state: Votes, batch: Batch) -> None:
    is_accepted = any(isinstance(event, events.ProposalDecided) for event in batch.events)
    for record in batch.records:
        event: Any = record.event
        session = record.by.session or ""
        if isinstance(event, UndoneEvent):
            # A vote that a person undid is spent: its lineage would give it again.
            _count_vote(state, record, event.event, session)
        elif isinstance(event, _MAKING) and event.name not in state.makers:
            state.makers[event.name] = Maker(record.id, record.by.rater, is_accepted)
        elif isinstance(event, events.PointEdited | events.PointReworded):
            state.makers[event.name] = Maker(state.maker_of(event.name).id, record.by.rater, is_accepted)
        elif isinstance(event, events.PointMerged):
            state.merged |= dict.fromkeys(set(event.merged) - {event.name}, event.name)
        elif isinstance(event, events.PointMatched):
            state.merged[event.name] = event.to
        elif isinstance(event, events.PlaybookInjected) and event.lineage not in {"", session}:
            # A fork is given nothing again: its injection of no entry names the session that it continues.
            state.session(session).tied[event.lineage] = None
            state.session(event.lineage).tied[session] = None
        elif isinstance(event, events.PointCited) and session:
            state.session(session).cited[event.name] = None
        else:
            _count_vote(state, record, event, session)


def _count_vote(state: Votes, record: EventRecord, event: Any, session: str) -> None:
    # What a person rates counts as often as it is said.
    if not session or record.by.rater not in _MACHINES:
        return
    is_dispute = isinstance(event, events.PointProposed) and event.verb == RETIRE and record.by.rater == AGENT
    # Where marks only propose, the proposal is the lineage's vote.
    is_wish = isinstance(event, events.PointProposed) and event.verb == RATE
    if is_dispute:
        # A later harmful vote of an agent on this entry is recorded as neutral, whatever was decided.
        state.disputed.add(event.name)
    if is_dispute or is_wish or isinstance(event, events.PointRated):
        state.session(session).rated[event.name] = None


VOTES: Final[View[Votes]] = batch_view(
    Votes,
    (
        *_MAKING,
        events.PointReworded,
        events.PointMerged,
        events.PointMatched,
        events.PlaybookInjected,
        events.PointCited,
        events.PointRated,
        events.PointProposed,
        UndoneEvent,
    ),
    _apply,
)
