"""The view of votes: which entries a lineage of sessions rated and cited, and who wrote an entry. Pure.

A lineage is a session with its resumes, forks, branches, compactions and subagents: the sessions that injections tie
together. It has one vote an entry, whichever of marks, MCP and reflection gave it, undone or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.ledger.playbook_constants import RATE
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.view import AGENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallybook.ledger.records import Batch, EventRecord

_MACHINES: Final = frozenset({AGENT, "reflector"})
_HUMAN: Final = "human"
_PERSONS: Final = frozenset({_HUMAN, "import"})
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

    @property
    def is_approved(self) -> bool:
        """Return whether a person typed or accepted its text."""
        # Files that agents read have what a person typed or accepted: who accepts a lesson saw it whole.
        return self.rater == _HUMAN


@attrs.define
class Votes(State):
    """The votes of a ledger.

    Attributes:
        makers: Name → where the entry comes from.
        merged: Name of a merged entry → the one that it was merged into.
        tied: Session → the sessions that it continues, or that continue it.
        rated: Session → the names that a machine rated in it, or proposed to rate or retire.
        cited: Session → the names that it cited.
        disputed: The names that an agent proposed to retire, whatever was decided.
    """

    makers: dict[str, Maker] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    # Lists, because sessions are many: their checkpoint is read at each vote, and a list needs no conversion.
    tied: dict[str, list[str]] = attrs.field(factory=dict)
    rated: dict[str, list[str]] = attrs.field(factory=dict)
    cited: dict[str, list[str]] = attrs.field(factory=dict)
    disputed: set[str] = attrs.field(factory=set)

    def add_vote(self, session: str, name: str) -> None:
        """Note that a session rated an entry, or proposed to."""
        _note(self.rated, session, name)

    def has_voted(self, session: str, name: str) -> bool:
        """Return whether the lineage of a session rated an entry, or proposed to."""
        # The first vote counts: for the last one to win, the ledger would have to undo the first.
        return self._has(self.rated, session, name)

    def has_cited(self, session: str, name: str) -> bool:
        """Return whether the lineage of a session cited an entry."""
        # A courtesy helpful kept bad entries in the simulation, so that it counts only with a citation.
        return self._has(self.cited, session, name)

    def maker_of(self, name: str) -> Maker:
        """Return where the entry of a name comes from; a merged one counts as the one that it was merged into."""
        seen = {""}
        while name in self.merged and name not in seen:
            seen.add(name)
            name = self.merged[name]
        return self.makers.get(name, Maker(name))

    def _has(self, names_by_session: dict[str, list[str]], session: str, name: str) -> bool:
        # By the id of the event that made the entry, because names change in a shared book.
        maker = self.maker_of(name).id
        sessions = self.lineage_of(session)
        return any(self.maker_of(name).id == maker for member in sessions for name in names_by_session.get(member, ()))

    def lineage_of(self, session: str) -> set[str]:
        """Return the sessions of a session's lineage."""
        lineage, open_ends = {session}, [session]
        while open_ends:
            new = set(self.tied.get(open_ends.pop(), ())) - lineage
            lineage |= new
            open_ends += new
        return lineage


def _note(names_by_session: dict[str, list[str]], session: str, name: str) -> None:
    names = names_by_session.setdefault(session, [])
    if name not in names:
        names.append(name)


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
            _note(state.tied, session, event.lineage)
            _note(state.tied, event.lineage, session)
        elif isinstance(event, events.PointCited) and session:
            _note(state.cited, session, event.name)
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
        state.add_vote(session, event.name)


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


# Checkpoints


def pack(state: Votes) -> dict[str, Any]:
    """Return a state after a batch as JSON values."""
    return {name: getattr(state, name) for name in _PLAIN_FIELDS} | {"disputed": sorted(state.disputed)}


def unpack(values: Mapping[str, Any]) -> Votes:
    """Return the votes of packed values.

    Raises:
        ValueError, TypeError, KeyError: The values are not a packed state.
    """
    fields = {name: values[name] for name in _PLAIN_FIELDS}
    fields["makers"] = {name: Maker(*maker) for name, maker in fields["makers"].items()}
    return Votes(**fields, disputed=set(values["disputed"]))


_PLAIN_FIELDS: Final = ("seq", "chain", "makers", "merged", "tied", "rated", "cited")
"""Fields that JSON can hold unchanged, a maker as a list."""
