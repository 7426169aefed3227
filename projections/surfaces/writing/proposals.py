"""Proposals: changes that an agent asks for and a person accepts or rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import errors, events
from tallybook.ledger.codec import decode
from tallybook.ledger.decisions.curation import CURATIONS, REDACT, Curation, make_change
from tallybook.ledger.decisions.update import Decision
from tallybook.ledger.records import EventRecord
from tallybook.ledger.storage import redacted_digests
from tallybook.ledger.storage.redacted_digests import Redactions
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.view import Playbook
from tallybook.projections.review import LESSON_VERB, PROPOSALS, Proposals
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.agents.table import find_agent, require_person
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import curation
from tallybook.projections.surfaces.writing.record import Outcome
from tallybook.projections.surfaces.writing.requests import PlainEvents, Request

if TYPE_CHECKING:
    from tallybook.projections.surfaces.sharing.shared_log import SharedLog
    from tallybook.projections.surfaces.writing.redact import RedactionTarget

# A pin is a person's decision, and so is its end.
PERSONS_ONLY = frozenset({"unpin"})
"""Verbs of curation that an agent can only propose."""
OF_PROTECTED = frozenset({"retire", "reword", "merge"})
"""Verbs that an agent can only propose where they change a protected entry."""


_BY_NUMBER: Final = frozenset({REDACT, LESSON_VERB})
"""Verbs of proposals that a person accepts by their number: after seeing the whole text, or because of no way back."""


class ProposedError(errors.TallybookError):
    """What an agent typed became a proposal."""

    exit_code = errors.EXIT_NO


@attrs.frozen
class PersonAnswer:
    """A person's decision about a proposal, or about entries in a review.

    Attributes:
        event: The decision.
        wish: The change that it makes, a person's or a curator's; None where it makes none.
    """

    event: events.ProposalDecided | events.PointReviewed
    wish: Curation | events.PointProposed | None = None

    def __call__(self, state: Playbook, redactions: Redactions, renamed: Mapping[str, str]) -> Decision:
        """Return the decision and the events of the change, in one batch.

        Raises:
            RedactedTextError: Its text was redacted meanwhile.
            NothingToDoError: It cannot be made any more.
        """
        if isinstance(self.event, events.ProposalDecided):
            redactions.check("reason", self.event.reason)
        changes: tuple[events.Event, ...] = ()
        if isinstance(self.wish, events.PointProposed):
            redactions.check("text", self.wish.text)
            changes = make_change(self.wish, state)[0]
        elif self.wish is not None:
            changes = self.wish(state, redactions, renamed).events
        return Decision((self.event, *changes))


def make_or_propose(project: Project, wish: Curation, by: Mapping[str, str]) -> tuple[Outcome, ProposedError | None]:
    """Make a change, or propose it where only a person may make it.

    Returns:
        The outcome, and the error that says that it was only proposed; None where it was made.
    """
    names = (wish.name, *wish.more_names, *wish.sources)
    # A command that runs inside an agent is the agent's, whoever typed the words.
    is_agents = find_agent() is not None
    if is_agents and wish.verb in PERSONS_ONLY:
        cause, what = "only a person may", "is a person's"
    elif is_agents and wish.verb in OF_PROTECTED and _protected_names(project, names):
        cause, what = "protected", "names a protected entry"
    else:
        return curation.curate(project, wish, by), None
    hint = f"a person accepts it: tallybook proposals{personal.option(project)}"
    error = ProposedError(f"{wish.verb}: {what}, so inside an agent it was only proposed; {hint}")
    return propose(project, wish, cause, by), error


def propose(project: Project, wish: Curation, cause: str, by: Mapping[str, str]) -> Outcome:
    """Record a change as a proposal, after the same checks as the change itself.

    Raises:
        BadInputError, UnknownEntryError, NothingToDoError, RedactedTextError: The change itself would be refused.
    """
    # The event of a proposal has no field for a day.
    if wish.until:
        raise errors.BadInputError("--until", "cannot be proposed", "a person runs the command; nothing was recorded")
    wish(reading.current(reading.open_log(project)), redacted_digests.load(project.ledger), {})
    names = (wish.name, *wish.more_names)
    proposed = [
        events.PointProposed(wish.verb, name, wish.sources, cause, "", wish.text, wish.reason) for name in names
    ]
    return commands.record_request(project, Request(PlainEvents(tuple(proposed)), by))


def propose_redaction(project: Project, target: RedactionTarget, reason: str, by: Mapping[str, str]) -> None:
    """Record the redaction of a protected entry's text as a proposal, if an agent types it; else do nothing.

    Raises:
        ProposedError: It was proposed, or refused: a proposal of a text would write that text down once more.
    """
    if find_agent() is None:
        return
    # Slow to load, and seldom needed.
    from tallybook.projections.surfaces.writing import redact

    found = redact.find_text(project, target).events
    events_with_text = (record.event for record in found if isinstance(record.event, events.TEXT_GIVERS))
    names = _protected_names(project, [event.name for event in events_with_text])
    if not names:
        return
    redact.check_reason(project, target, reason, by)
    what = f"redact: is a text of {names[0]}, which is protected"
    if target.event is None:
        hint = "a person runs, outside the agent: tallybook redact --text - --reason WHY"
        raise ProposedError(f"{what}, and a proposal would record the text; nothing was recorded; {hint}")
    [event] = [record.id for record in found if target.event in {record.id, str(record.seq)}]
    proposed = events.PointProposed(REDACT, names[0], (), "protected", "", event, reason)
    commands.record_request(project, Request(PlainEvents((proposed,)), by))
    hint = f"a person accepts it: tallybook proposals{personal.option(project)}"
    raise ProposedError(f"{what}, so inside an agent it was only proposed; {hint}")


def _protected_names(project: Project, names: Sequence[str]) -> list[str]:
    """Return which of these entries, or of those that they were merged into, are protected."""
    state = reading.current(reading.open_log(project))
    present = dict.fromkeys(state.merged.get(name, name) for name in names)
    return [name for name in present if name in state.entries and state.is_protected(state.entries[name])]


def load(project: Project) -> Proposals:
    """Return the proposals of a ledger, as of now."""
    own = reading.open_own_log(project)
    return fold_history(PROPOSALS, lambda: decode(own.read()))


def open_proposals(project: Project) -> list[EventRecord]:
    """Return the proposals that nobody has decided, the oldest first, with the present names of what they meant.

    Raises:
        MissingLinesError: Lines of the shared book are missing.
    """
    log, found = reading.open_log(project), list(load(project).open.values())
    return [*_with_present_names(log, found)] if found and reading.has_book(log) else found


def _with_present_names(log: SharedLog, found: Sequence[EventRecord]) -> Iterator[EventRecord]:
    """Yield proposals with the present names of entries, without those of which the book as of then is gone."""
    log.ids()
    for record in found:
        event: Any = record.event
        with suppress(errors.MissingLinesError):
            present = log.names_since(record.seq)
            merged = tuple(present.get(name, name) for name in event.merged)
            yield attrs.evolve(
                record, event=attrs.evolve(event, name=present.get(event.name, event.name), merged=merged)
            )


def select(
    project: Project, numbers: Sequence[str], session: str | None, *, everything: bool, is_acceptance: bool
) -> tuple[list[EventRecord], list[EventRecord]]:
    """Return the open proposals that a person means, by number, of a session, or all, and those left out of these.

    Args:
        project: The project.
        numbers: Their numbers.
        session: The session that proposed them.
        everything: Whether all are meant.
        is_acceptance: Whether they are to be accepted: those of _BY_NUMBER are then meant by their number alone.

    Raises:
        BadInputError: None or several ways to choose them were given.
        NothingToDoError: There is no such open proposal.
    """
    if [bool(numbers), session is not None, everything].count(True) != 1:
        raise errors.BadInputError(
            "NUMBER", "or --of SESSION or --all is needed", "give one of them; nothing was recorded"
        )
    found, hint = open_proposals(project), f"see `tallybook proposals{personal.option(project)}`"
    if numbers:
        by_number = {str(record.seq): record for record in found}
        for number in numbers:
            if number not in by_number:
                raise errors.NothingToDoError(f"event {number}", "is not an open proposal", hint)
        return [by_number[number] for number in dict.fromkeys(numbers)], []
    found = [record for record in found if everything or record.by.session == session]
    chosen = [row for row in found if not (is_acceptance and getattr(row.event, "verb", "") in _BY_NUMBER)]
    if not chosen:
        alone = "only lessons and redactions are open, and each is accepted by its number"
        what = alone if found else "none is open"
        raise errors.NothingToDoError("proposals", what, hint)
    return chosen, [row for row in found if row not in chosen]


def wish_of(event: events.PointProposed) -> Curation | events.PointProposed:
    """Return the change that a proposal would make: one of a person's verbs, or a curator's operation."""
    if event.verb in CURATIONS and event.name:
        return Curation(event.verb, event.name, event.reason or "", event.text or "", event.merged)
    return event


def accept(project: Project, proposal: EventRecord, reason: str, by: Mapping[str, str]) -> Outcome:
    """Make the change that was proposed, in one batch with its acceptance.

    Raises:
        PersonsOnlyError: An agent accepts.
        NothingToDoError, UnknownEntryError: The change cannot be made any more.
    """
    require_person("proposals accept", by.get("rater"))
    event: Any = proposal.event
    remaining: tuple[str, ...] = ()
    if event.verb == REDACT:
        # First: a text that is gone with an open proposal is better than a closed proposal without its redaction.
        from tallybook.projections.surfaces.writing import redact

        target = redact.RedactionTarget(event.text)
        remaining = redact.redact(project, target, event.reason, by).erased.remaining
    answer = PersonAnswer(events.ProposalDecided(proposal.id, "accepted", reason), wish_of(event))
    outcome = commands.record_request(project, Request(answer, by))
    notes = (*outcome.notes, *(f"not erased: {line}" for line in remaining))
    return attrs.evolve(outcome, notes=notes)


def reject(project: Project, proposal: EventRecord, reason: str, by: Mapping[str, str]) -> Outcome:
    """Close a proposal without making its change.

    Raises:
        PersonsOnlyError: An agent rejects.
    """
    require_person("proposals reject", by.get("rater"))
    answer = PersonAnswer(events.ProposalDecided(proposal.id, "rejected", reason))
    return commands.record_request(project, Request(answer, by))
