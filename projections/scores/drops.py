"""Possible causes of a drop of a score: its periods and sessions, and what changed in the playbook between. Pure.

That one came before the other does not make it the cause: these are leads.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise, takewhile
from textwrap import shorten
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import events
from tallybook.projections.entry_history.answers import brief
from tallybook.projections.entry_history.view import affected_names
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.scores.view import PERIODS, group_days

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tallybook.ledger.records import Batch, EventRecord
    from tallybook.projections.scores.view import Scores, Tally

TEXT_CHARS: Final = 60
"""Most characters of a pruned text in a lead, including the ellipsis of a cut text."""

NAMED: Final = 5
"""Most names in a lead for people; the others are counted."""


# The drop


class PeriodScore(NamedTuple):
    """A score over a period.

    Attributes:
        period: ``2026-01-16``, ``2026-W03`` or ``2026-01``.
        score: The average of its sessions, 0 to 100.
        measured: How much of its weight was measured, 0 to 100 percent.
    """

    period: str
    score: int
    measured: int


class Drop(NamedTuple):
    """A score that is lower in one period than in the one with data before it.

    Attributes:
        points: The size of the drop, 1 or more.
        before: The earlier one.
        after: The later one, whose score is less.
    """

    points: int
    before: PeriodScore
    after: PeriodScore


class ScoredSession(NamedTuple):
    """A session that has a score; the later of two is the greater.

    Attributes:
        at: When it was.
        session: Its id.
        score: The score, 0 to 100.
        period: Its period.
    """

    at: str
    session: str
    score: int
    period: str


def score_levels(days: Mapping[str, Tally], score: str, period: str) -> list[PeriodScore]:
    """Return a score over each period that has it, in order.

    Args:
        days: Day → its sessions' scores.
        score: The score's id.
        period: One of ``PERIODS``: daily, weekly or monthly.
    """
    return [
        PeriodScore(name, average.avg, tally.measured(score))
        for name, tally in group_days(days, PERIODS[period][1]).items()
        if (average := tally.range(score)) is not None
    ]


def find_drop(levels: Sequence[PeriodScore], name: str | None = None) -> Drop | None:
    """Return the greatest drop between two periods that follow on each other, the last of several; None without one.

    Args:
        levels: The periods that have the score, in order.
        name: The later of the two; None for whichever it is.
    """
    # Periods without data are not in the list: a drop may lie between two days with a gap.
    pairs = [(before, after) for before, after in pairwise(levels) if name in {None, after.period}]
    drops = [Drop(before.score - after.score, before, after) for before, after in reversed(pairs)]
    return max((drop for drop in drops if drop.points > 0), key=lambda drop: drop.points, default=None)


def find_interval(state: Scores, score: str, period: str, drop: Drop) -> tuple[ScoredSession, ScoredSession]:
    """Return between which sessions a score dropped; the state is counted, and the drop is one of its periods.

    The later one has the least score of the later period, the first of several; the earlier one is the last session
    before it that was as good as the earlier period.
    """
    latest = _scored_sessions(state, score, PERIODS[period][1])
    seen = list(takewhile(lambda session: session.period >= drop.before.period, latest))
    # What changed after the worst session cannot have caused the drop, so that the interval ends there.
    later = [session for session in seen if session.period == drop.after.period]
    worst = min(later, key=lambda session: (session.score, session))
    # A time zone can move a session to another day, so there may be none before the drop.
    good = [session for session in seen if session.score >= drop.before.score and session < worst]
    return max(good, default=worst), worst


def _scored_sessions(state: Scores, score: str, name_of: Callable[[str], str]) -> Iterator[ScoredSession]:
    """Yield the sessions that have a score, the latest first."""
    for session in state.sessions.latest():
        if session.contribution and score in session.scores:
            yield ScoredSession(session.at, session.id, session.scores[score], name_of(session.contribution.day))


# What changed


class Lead(NamedTuple):
    """An event, and its effect on the texts of the playbook or on what is injected.

    Attributes:
        record: The event.
        added: Names of added entries; of an injection, of those that the one before did not have.
        removed: Name → last text of entries that left; of an injection, the names that it no longer has.
        changed: Names of reworded entries; of an undo, of those that it concerns.
    """

    record: EventRecord
    added: tuple[str, ...] = ()
    removed: Mapping[str, str] = MappingProxyType({})
    changed: tuple[str, ...] = ()


@attrs.define
class Leads(State):
    """What changed between two times.

    Attributes:
        since: After this time.
        until: Up to and including this time.
        book: The playbook.
        injected: The entries of the last injection, none before the first.
        undone: Number of an undo → names of the entries that it concerns, where it concerns the playbook.
        leads: The leads, in the order of the ledger.
    """

    since: str = attrs.field(kw_only=True)
    until: str = attrs.field(kw_only=True)
    book: Playbook = attrs.field(factory=Playbook)
    injected: tuple[str, ...] = ()
    undone: dict[int, dict[str, None]] = attrs.field(factory=dict)
    leads: list[Lead] = attrs.field(factory=list)


def leads_view(since: str, until: str) -> View[Leads]:
    """Return the view of what changed in the playbook after one time and up to another.

    Folded up to a moment it has what there was to see by then, whatever was undone later. What was undone by then is
    left out, and the undo is a lead.
    """
    return batch_view(partial(Leads, since=since, until=until), (*CHANGES, events.PlaybookInjected), _add_leads)


def _add_leads(state: Leads, batch: Batch) -> None:
    for record in batch.records:
        if isinstance(record.event, events.PlaybookInjected):
            lead = _find_injected(state, record, record.event)
        elif isinstance(record.event, events.EventsVoided):
            CHANGES[events.EventsVoided](state.book, record.event, batch)
            names = state.undone.get(record.seq)
            lead = None if names is None else Lead(record, changed=tuple(names))
        elif type(record.event) in CHANGES:
            lead = _apply(state, record, batch)
        else:
            continue
        # Changes before the interval are applied as well: a lead compares with the playbook as it was.
        if lead is not None and state.since < batch.unverified_at <= state.until:
            state.leads.append(lead)
    settle(state.book, batch)


def _find_injected(state: Leads, record: EventRecord, event: events.PlaybookInjected) -> Lead | None:
    """Return how an injection differs from the one before it, None where it does not.

    What a prompt was given follows from the prompt, and says nothing of a change in the playbook; nor does what a file
    gave. Where none of the project's entries was selected, only some of the person's own playbook were given.
    """
    # Only a change is a lead: a day of a thousand sessions must not list a thousand injections.
    if event.file or event.lowest is not None or not (event.names or event.held):
        return None
    before, now = dict.fromkeys(state.injected), dict.fromkeys(event.names)
    state.injected = event.names
    added = tuple(name for name in now if name not in before)
    # The texts of what an injection no longer has are in no summary.
    removed = dict.fromkeys((name for name in before if name not in now), "")
    return Lead(record, added, removed) if added or removed else None


def _apply(state: Leads, record: EventRecord, batch: Batch) -> Lead | None:
    """Apply an event to the playbook, and return which entries it adds, takes out or rewords, None for none."""
    event: Any = record.event
    names = dict.fromkeys(affected_names(state.book, event)) if type(event) in LEADS else ()
    before = {name: state.book.entries.get(name) for name in names}
    CHANGES[type(event)](state.book, event, batch)
    if isinstance(event, UndoneEvent) and type(event.event) in CHANGES:
        # An undone event comes before its undo, so that the names wait under the number of the undo.
        concerned = state.undone.setdefault(event.by.seq, {})
        concerned.update(dict.fromkeys(filter(None, [getattr(event.event, "name", None)])))
    after = state.book.entries
    added = tuple(name for name, entry in before.items() if entry is None and name in after)
    removed = {name: entry.text for name, entry in before.items() if entry is not None and name not in after}
    changed = tuple(
        name for name, entry in before.items() if entry and name in after and entry.text != after[name].text
    )
    return Lead(record, added, removed, changed) if added or removed or changed else None


# Programs read these words, so that they keep their spelling.
LEADS: Final[dict[type[Any], str]] = {
    events.PointAdded: "added",
    events.PointSeeded: "added",
    events.PointEdited: "edited",
    events.PointReworded: "reworded",
    events.PlaybookUpdated: "pruned",
    events.PointRetired: "retired",
    events.PointRemoved: "removed",
    events.PointRestored: "restored",
    events.PointMerged: "merged",
    events.EventsVoided: "undone",
    events.PlaybookInjected: "told",
}
"""Class of an event that changes texts or injections → how. Ratings only change counts and are not in it."""


def lead_json(lead: Lead) -> dict[str, Any]:
    """Return a lead as ``{seq, id, at, by, summary, change, came, went, changed}``, the last three lists of names."""
    names = {"came": list(lead.added), "went": list(lead.removed), "changed": list(lead.changed)}
    return brief(lead.record) | {"summary": _summarize(lead), "change": LEADS[type(lead.record.event)]} | names


def _summarize(lead: Lead) -> str:
    """Return the summary of an event, with the names of its entries where the summary lacks them."""
    summary: str = brief(lead.record)["summary"]
    match lead.record.event:
        case events.PlaybookUpdated():
            texts = {name: shorten(text, TEXT_CHARS, placeholder="…") for name, text in lead.removed.items()}
            pruned = [f'{name} "{text}"' for name, text in texts.items()]
            return f"pruned {_join(pruned)}"
        case events.PlaybookInjected(held=held):
            # A draw of lift takes an entry from a session without any change in the playbook, and is named as such.
            gone = [name for name in lead.removed if name not in held]
            withheld = [name for name in lead.removed if name in held]
            parts = {"newly": lead.added, "no more": gone, "withheld for a question of lift": withheld}
            return "; ".join([summary, *(f"{what} {_join(names)}" for what, names in parts.items() if names)])
    return summary


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
