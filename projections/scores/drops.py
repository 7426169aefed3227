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

from tallybook.ledger.events import (
    EventsVoided,
    PlaybookInjected,
    PlaybookUpdated,
    PointAdded,
    PointEdited,
    PointMerged,
    PointRemoved,
    PointRestored,
    PointRetired,
    PointReworded,
    PointSeeded,
)
from tallybook.projections.entry_history.answers import brief
from tallybook.projections.entry_history.view import affected_names
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.view import CHANGES, Playbook, settle
from tallybook.projections.scores.view import PERIODS, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallybook.ledger.events import Entry
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
    """

    period: str
    score: int


class Drop(NamedTuple):
    """A score that is lower in one period than in the one with data before it.

    Attributes:
        before: The earlier one.
        after: The later one, whose score is less.
    """

    before: PeriodScore
    after: PeriodScore

    @property
    def points(self) -> int:
        """Return the size of the drop in points, 1 or more."""
        return self.before.score - self.after.score


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


class DropInterval(NamedTuple):
    """From the last session that was as good as before to the one in which it was worst.

    Attributes:
        good: The last session before that one with at least the earlier period's score.
        bad: The one with the least score of the later period, the first of several.
    """

    good: ScoredSession
    bad: ScoredSession


def score_levels(days: Mapping[str, Tally], score: str, period: str) -> list[PeriodScore]:
    """Return a score over each period that has it, in order.

    Args:
        days: Day → its sessions' scores.
        score: The score's id.
        period: One of ``PERIODS``: daily, weekly or monthly.
    """
    ranges = [(name, tally.range(score)) for name, tally in grouped(days, PERIODS[period][1]).items()]
    return [PeriodScore(name, one.avg) for name, one in ranges if one is not None]


def find_drop(levels: Sequence[PeriodScore], name: str | None = None) -> Drop | None:
    """Return the greatest drop between two periods that follow on each other, the last of several; None without one.

    Args:
        levels: The periods that have the score, in order.
        name: The later of the two; None for whichever it is.
    """
    # Periods without data are not in the list: a drop may lie between two days with a gap.
    drops = [Drop(*pair) for pair in pairwise(levels) if name in {None, pair[1].period}]
    return max((drop for drop in reversed(drops) if drop.points > 0), key=lambda drop: drop.points, default=None)


def find_interval(state: Scores, score: str, period: str, drop: Drop) -> DropInterval:
    """Return between which sessions a score dropped; the state is counted, and the drop is one of its periods."""
    return interval_of(
        takewhile(lambda one: one.period >= drop.before.period, scored_sessions(state, score, period)), drop
    )


def interval_of(sessions: Iterable[ScoredSession], drop: Drop) -> DropInterval:
    """Return between which sessions a score dropped, of all its sessions from the earlier period on."""
    seen = list(sessions)
    # What changed after the worst session cannot have caused the drop, so that the interval ends there.
    bad = min((one for one in seen if one.period == drop.after.period), key=lambda one: (one.score, one))
    # A time zone can move a session to another day, so there may be none before the drop.
    good = max((one for one in seen if one.score >= drop.before.score and one < bad), default=bad)
    return DropInterval(good, bad)


def scored_sessions(state: Scores, score: str, period: str) -> Iterator[ScoredSession]:
    """Yield the sessions that have a score, the latest first."""
    name_of = PERIODS[period][1]
    for session in state.sessions.latest():
        if session.contribution and score in session.scores:
            yield ScoredSession(session.at, session.id, session.scores[score], name_of(session.contribution.day))


# What changed


class Change(NamedTuple):
    """The effect of an event on the texts of the playbook, or on what is injected.

    Attributes:
        how: One of ``LEADS``.
        added: Names of added entries; of an injection, of those that the one before did not have.
        removed: Name → last text of entries that left; of an injection, of those that it no longer has.
        changed: Names of reworded entries; of an undo, of those that it concerns.
    """

    how: str
    added: tuple[str, ...] = ()
    removed: Mapping[str, str] = MappingProxyType({})
    changed: tuple[str, ...] = ()


class Lead(NamedTuple):
    """An event and its effect.

    Attributes:
        record: The event.
        change: Its effect.
    """

    record: EventRecord
    change: Change


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

    def text(self, name: str) -> str:
        """Return the current or last text of an entry, empty where there was none."""
        point = self.book.entries.get(name) or self.book.gone.get(name)
        return "" if point is None else point.text


def leads_view(since: str, until: str) -> View[Leads]:
    """Return the view of what changed in the playbook after one time and up to another.

    Folded up to a moment it has what there was to see by then, whatever was undone later. What was undone by then is
    left out, and the undo is a lead.
    """
    return batch_view(partial(Leads, since=since, until=until), (*CHANGES, PlaybookInjected), _add_leads)


def _add_leads(state: Leads, batch: Batch) -> None:
    within = state.since < batch.unverified_at <= state.until
    for index, event in enumerate(batch.events):
        if isinstance(event, PlaybookInjected):
            change = _injection(state, event)
        elif isinstance(event, EventsVoided):
            change = _undo(state, event, batch, index)
        elif type(event) in CHANGES:
            change = _apply(state, event, batch)
        else:
            continue
        # Changes before the interval are applied as well: a lead compares with the playbook as it was.
        if within and change is not None:
            state.leads.append(Lead(batch.records[index], change))
    settle(state.book, batch)


def _injection(state: Leads, event: PlaybookInjected) -> Change | None:
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
    removed = {name: state.text(name) for name in before if name not in now}
    return Change(LEADS[PlaybookInjected], added, removed) if added or removed else None


def _undo(state: Leads, event: EventsVoided, batch: Batch, index: int) -> Change | None:
    """Return the entries that an undo concerns, None where it does not concern the playbook."""
    CHANGES[EventsVoided](state.book, event, batch)
    names = state.undone.get(batch.records[index].seq)
    return None if names is None else Change(LEADS[EventsVoided], changed=tuple(names))


def _apply(state: Leads, event: Any, batch: Batch) -> Change | None:
    """Apply an event to the playbook, and return which entries it adds, takes out or rewords, None for none."""
    how = LEADS.get(type(event))
    names = dict.fromkeys(affected_names(state.book, event)) if how else ()
    points = state.book.entries
    before = {name: points.get(name) for name in names}
    CHANGES[type(event)](state.book, event, batch)
    if isinstance(event, UndoneEvent) and type(event.event) in CHANGES:
        # An undone event comes before its undo, so that the names wait under the number of the undo.
        concerned = state.undone.setdefault(event.by.seq, {})
        concerned.update(dict.fromkeys(filter(None, [getattr(event.event, "name", None)])))
    points = state.book.entries
    added = tuple(name for name in names if before[name] is None and name in points)
    removed = {name: was.text for name, was in before.items() if was is not None and name not in points}
    changed = tuple(name for name in names if _reworded(before[name], points.get(name)))
    return Change(how, added, removed, changed) if how and (added or removed or changed) else None


def _reworded(before: Entry | None, after: Entry | None) -> bool:
    return before is not None and after is not None and before.text != after.text


# Programs read these words, so that they keep their spelling.
LEADS: Final[dict[type[Any], str]] = {
    PointAdded: "added",
    PointSeeded: "added",
    PointEdited: "edited",
    PointReworded: "reworded",
    PlaybookUpdated: "pruned",
    PointRetired: "retired",
    PointRemoved: "removed",
    PointRestored: "restored",
    PointMerged: "merged",
    EventsVoided: "undone",
    PlaybookInjected: "told",
}
"""Class of an event that changes texts or injections → how. Ratings only change counts and are not in it."""


def lead_json(lead: Lead) -> dict[str, Any]:
    """Return a lead as ``{seq, id, at, by, summary, change, came, went, changed}``, the last three lists of names."""
    record, (how, added, removed, changed) = lead
    names = {"came": list(added), "went": list(removed), "changed": list(changed)}
    return brief(record) | {"summary": _summary(lead), "change": how} | names


def _summary(lead: Lead) -> str:
    """Return the summary of an event, with the names of its entries where the summary lacks them."""
    summary: str = brief(lead.record)["summary"]
    match lead.record.event:
        case PlaybookUpdated():
            return f"pruned {_some([_quoted(*one) for one in lead.change.removed.items()])}"
        case PlaybookInjected():
            # A draw of lift takes an entry from a session without any change in the playbook, and is named as such.
            held = set(lead.record.event.held)
            gone = tuple(name for name in lead.change.removed if name not in held)
            withheld = tuple(name for name in lead.change.removed if name in held)
            parts = {"newly": lead.change.added, "no more": gone, "withheld for a question of lift": withheld}
            return "; ".join([summary, *(f"{what} {_some(names)}" for what, names in parts.items() if names)])
    return summary


def _quoted(name: str, text: str) -> str:
    cut = shorten(text, TEXT_CHARS, placeholder="…")
    return f'{name} "{cut}"'


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
