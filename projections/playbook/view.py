"""The playbook view: the entries and their counts as of a moment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger import events, names
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.playbook.entry import SPEC_POLICY, Policy, add_rating
from tallybook.projections.playbook.fold import State, UndoneEvent, View

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch


VERSION = "1.0"
UNDONE: Final = "undone"
UNKNOWN: Final = "unknown"
PROTECTING_RATINGS: Final = 3


@attrs.define
class Playbook(State):
    """The playbook as of a moment.

    Attributes:
        policy: Decides what an update prunes.
        entries: The entries by name, in their order.
        high_water: Highest number of a ``kpt_NNN`` ever used, 0 for none; names are never used again (REQ-SCORE-005).
        used: Every name that an entry ever had.
        due: Names that the next update prunes, unless their counts change before it.
        gone: Entries that left the playbook, as they were last.
        pruned: Names of those that an update pruned. Where the policy is not permanent, their ratings go on counting.
        pinned: Names that are never pruned.
        pardons: Name of a restored entry → its harmful count then; it is pruned only above that.
        merged: Name of a merged entry → the entry that it was merged into.
        top: Top-level keys of the file other than key_points and last_updated, in order.
        placed: Name → heading of its section, for entries put into one since ``top`` was set; the last one last.
        until: Name → the last day on which the entry is injected, for entries that hold until a date.
        adopted_at: ``last_updated`` of the adopted legacy file, None without one.
        source: SHA-256 of the adopted file, empty without one.
        adoption: Last event number of the batch that adopted a legacy file, 0 without one.
        latest: The last batch that changed the playbook after it was adopted, or its time where a checkpoint has it;
            None before the first.
        stamp: Event number and chain of the last playbook batch, (0, "") before the first.
        shared_stamp: Event number and chain of the shared book up to which it contains that, (0, "") without one.
        by_agents: Name → how many of its helpful and harmful ratings agents gave, for those that they rated.
        order: Names of a new order, collected until the edit that they belong to closes.
        rewrites: How often earlier events were redacted or undone. A reader that holds an older state folds again from
            the beginning when this number has grown.
        redactions: How many events redacted a text.
        has_begun: Whether any playbook event that was not undone has been folded; a rating alone begins nothing.
        prefix: The beginning of new names, or BY_SECTION; whoever decides sets it, no event does.
    """

    policy: Policy = SPEC_POLICY
    entries: dict[str, Entry] = attrs.field(factory=dict)
    high_water: int = 0
    used: set[str] = attrs.field(factory=set)
    due: dict[str, None] = attrs.field(factory=dict)
    gone: dict[str, Entry] = attrs.field(factory=dict)
    pruned: dict[str, None] = attrs.field(factory=dict)
    pinned: set[str] = attrs.field(factory=set)
    pardons: dict[str, int] = attrs.field(factory=dict)
    merged: dict[str, str] = attrs.field(factory=dict)
    top: dict[str, Any] = attrs.field(factory=lambda: {"version": VERSION})
    placed: dict[str, str] = attrs.field(factory=dict)
    until: dict[str, str] = attrs.field(factory=dict)
    adopted_at: Any = None
    source: str = ""
    adoption: int = 0
    latest: Batch | str | None = None
    stamp: tuple[int, str] = (0, "")
    shared_stamp: tuple[int, str] = (0, "")
    by_agents: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    order: list[str] = attrs.field(factory=list)
    rewrites: int = 0
    redactions: int = 0
    has_begun: bool = False
    prefix: str = attrs.field(default=names.PREFIX, eq=False)

    def is_exempt(self, entry: Entry) -> bool:
        """Say whether an entry is exempt from pruning: it is pinned, or was restored with so many harmful ratings."""
        return entry.name in self.pinned or entry.harmful <= self.pardons.get(entry.name, -1)

    def is_protected(self, entry: Entry) -> bool:
        """Return whether only a person may change an entry: it is pinned, or proven by people and reflectors."""
        # The votes of agents protect nothing, so they are taken off.
        votes = self.by_agents.get(entry.name, (0, 0))
        helpful, harmful = entry.helpful - votes[0], entry.harmful - votes[1]
        return entry.name in self.pinned or (helpful >= PROTECTING_RATINGS and helpful > harmful)

    @property
    def highest(self) -> int:
        """Return the highest number that a name of its form ever had, 0 for none."""
        if self.prefix in {names.PREFIX, names.BY_SECTION}:
            return self.high_water
        return max((names.parse_number(name, self.prefix) or 0 for name in self.used), default=0)

    @property
    def sections(self) -> dict[str, str]:
        """Return the heading of the section of each entry that has one."""
        return names.section_by_name(self.top, self.placed)

    def name_giver(self, taken: Collection[str] | None = None) -> names.NameGiver:
        """Return what gives new entries their names; ``taken`` are names in place of those ever used."""
        return names.NameGiver(self.highest, self.used if taken is None else taken, self.prefix)

    def prunes(self, entry: Entry) -> bool:
        """Say whether the next update prunes an entry if its counts stay the same."""
        return self.policy.prunes(entry) and not self.is_exempt(entry)

    def status_of(self, name: str) -> str:
        """Return kept, pruned, retired, merged, undone, or unknown where no entry ever had the name.

        Every answer that names a status asks this method.
        """
        if name in self.entries:
            return "kept"
        if name in self.merged:
            return "merged"
        if name in self.pruned:
            return "pruned"
        if name in self.gone:
            return "retired"
        # Only the undo of its addition leaves nothing of an entry but its name.
        return UNDONE if name in self.used else UNKNOWN

    @property
    def last_updated(self) -> Any:
        """Return when it last changed: the adopted value until the first playbook event after the adoption."""
        if self.latest is None:
            return self.adopted_at
        return self.latest if isinstance(self.latest, str) else self.latest.at


def text_of(event: Any) -> str:
    """Return the text that an event gives an entry."""
    return REDACTED if event.text is None else str(event.text)


def _put(state: Playbook, entry: Entry) -> None:
    """Put an entry in, and note whether the next update prunes it."""
    state.entries[entry.name] = entry
    # No policy prunes an entry that is not more harmful than helpful, which saves asking most of the time.
    if entry.harmful > entry.helpful and state.prunes(entry):
        state.due[entry.name] = None
    else:
        state.due.pop(entry.name, None)


def _put_new(state: Playbook, entry: Entry) -> None:
    """Put an entry in that may be new."""
    _put(state, entry)
    state.gone.pop(entry.name, None)
    state.pruned.pop(entry.name, None)
    # A merged entry that a manual edit brings back is an entry of its own again, with its own ratings.
    state.merged.pop(entry.name, None)
    _reserve_name(state, entry.name)


def _reserve_name(state: Playbook, name: str) -> None:
    state.used.add(name)
    state.high_water = max(state.high_water, names.parse_number(name) or 0)


def _take_out(state: Playbook, name: str) -> None:
    """Take an entry out, if it is in, and remember its last state for a later restore."""
    entry = state.entries.pop(name, None)
    state.due.pop(name, None)
    state.pardons.pop(name, None)
    if entry is not None:
        state.gone[name] = entry
    if not state.policy.is_permanent:
        # A retired or removed entry comes back only by a restore or an edit, not by later ratings.
        state.pruned.pop(name, None)


def _apply_undone(state: Playbook, event: UndoneEvent, batch: Batch) -> None:
    """Reserve the name of an added entry although the event is undone: names are never used again."""
    if isinstance(event.event, events.MAKERS):
        _reserve_name(state, event.event.name)
    elif isinstance(event.event, events.EventsVoided):
        _rewrite(state, event.event, batch)


def _add(state: Playbook, event: Any, _: Batch) -> None:
    if event.name not in state.entries:
        counts = getattr(event, "helpful", 0), getattr(event, "harmful", 0)
        _put_new(state, Entry(event.name, text_of(event), *counts))


def _match(state: Playbook, event: events.PointMatched, batch: Batch) -> None:
    """Add what a matched entry brings with it to the one that has its text, which also gets its later ratings."""
    to = state.merged.get(event.to, event.to)
    entry = state.entries.get(to)
    if entry is None and to not in state.gone:
        # The adding of the other one was undone.
        _add(state, events.PointAdded(event.name, event.text), batch)
        _put(state, Entry(event.name, state.entries[event.name].text, event.helpful, event.harmful))
        return
    _reserve_name(state, event.name)
    state.merged[event.name] = to
    if entry is not None and (event.helpful or event.harmful):
        _put(state, Entry(to, entry.text, entry.helpful + event.helpful, entry.harmful + event.harmful))


def _edit_entry(state: Playbook, event: events.PointEdited, _: Batch) -> None:
    before = state.entries.get(event.name)
    if before is not None and (before.helpful, before.harmful) != (event.helpful, event.harmful):
        # A manual edit of the counts ends the pardon of a restore, and the new ones are a person's.
        state.pardons.pop(event.name, None)
        state.by_agents.pop(event.name, None)
    # Where an edit left the text, its own copy of that may be redacted, or be another one's by now.
    stays = before is not None and event.change == "kept" and event.text in {None, REDACTED}
    text = before.text if before is not None and stays else text_of(event)
    _put_new(state, Entry(event.name, text, event.helpful, event.harmful))


def _rate(state: Playbook, event: events.PointRated, batch: Batch) -> None:
    name = state.merged.get(event.name, event.name)
    entry = state.entries.get(name)
    if entry is None:
        if name in state.pruned and not state.policy.is_permanent:
            state.gone[name] = add_rating(state.gone[name], event.rating)
    elif event.rating in {"helpful", "harmful"}:
        _put(state, add_rating(entry, event.rating))
    if entry is not None and batch.is_by_agent():
        _add_votes(state, name, (event.rating == "helpful", event.rating == "harmful"))


def _add_votes(state: Playbook, name: str, votes: tuple[int, int]) -> None:
    helpful, harmful = state.by_agents.get(name, (0, 0))
    state.by_agents[name] = helpful + votes[0], harmful + votes[1]


def _reword(state: Playbook, event: events.PointReworded, _: Batch) -> None:
    entry = state.entries.get(event.name)
    if entry is not None:
        _put(state, Entry(entry.name, text_of(event), entry.helpful, entry.harmful))
    elif event.name in state.pruned and not state.policy.is_permanent:
        state.gone[event.name] = attrs.evolve(state.gone[event.name], text=text_of(event))


def _restore(state: Playbook, event: events.PointRestored, _: Batch) -> None:
    entry = state.gone.get(event.name)
    if entry is not None and event.name not in state.merged:
        # By its counts alone the next update would prune it at once again.
        state.pardons[event.name] = entry.harmful
        _put_new(state, entry)


def _pin(state: Playbook, event: events.PointPinned | events.PointUnpinned, _: Batch) -> None:
    if isinstance(event, events.PointPinned):
        state.pinned.add(event.name)
    else:
        state.pinned.discard(event.name)
    # Its counts did not change, and the next update may prune it now, or no longer.
    if event.name in state.entries:
        _put(state, state.entries[event.name])


def _place(state: Playbook, event: events.PointPlaced, _: Batch) -> None:
    state.placed.pop(event.name, None)
    state.placed[event.name] = event.section


def _limit(state: Playbook, event: events.PointLimited, _: Batch) -> None:
    state.until.pop(event.name, None)
    if event.until:
        state.until[event.name] = event.until


def _merge(state: Playbook, event: events.PointMerged, _: Batch) -> None:
    """Add the counts of the merged entries to the one that stays."""
    entry = state.entries.get(event.name)
    for name in event.merged:
        source = state.entries.get(name)
        if entry is None or source is None or name == event.name:
            continue
        helpful, harmful = entry.helpful + source.helpful, entry.harmful + source.harmful
        entry = Entry(entry.name, entry.text, helpful, harmful)
        if name in state.by_agents:
            _add_votes(state, event.name, state.by_agents.pop(name))
        if name in state.pardons:
            state.pardons[entry.name] = state.pardons.get(entry.name, 0) + state.pardons[name]
        _take_out(state, name)
        state.merged[name] = event.name
        # Entries merged earlier into this source now count for the entry that stays.
        state.merged |= {old: event.name for old, into in state.merged.items() if into == name}
        _put(state, entry)


def _update(state: Playbook, _event: events.PlaybookUpdated, _: Batch) -> None:
    """Prune every entry that is due, rated in this update or not (REQ-SCORE-007)."""
    for name in tuple(state.due):
        _take_out(state, name)
        state.pruned[name] = None
    if state.policy.is_permanent:
        return
    # Pruned entries to which the policy no longer applies come back.
    for entry in [state.gone[name] for name in state.pruned]:
        if not state.prunes(entry):
            _put_new(state, entry)


def _adopt(state: Playbook, event: events.PlaybookAdopted, batch: Batch) -> None:
    top = json.loads(event.top or "{}")
    if state.has_begun:
        # A file imported into a playbook that has entries adds entries and sections, not its version or date.
        state.top = names.join_sections(state.top, top)
    else:
        state.adoption, state.source = batch.last, event.source
        state.adopted_at = top.pop("last_updated", None)
        state.top = {"version": VERSION} | top


def _close_edit(state: Playbook, event: events.PlaybookEdited, _: Batch) -> None:
    if state.order:
        first = {name: state.entries[name] for name in state.order if name in state.entries}
        state.entries = first | {name: entry for name, entry in state.entries.items() if name not in first}
        state.order.clear()
    if event.top:
        top = json.loads(event.top)
        top.pop("last_updated", None)
        state.top = {"version": VERSION} | top
        # It has the sections as well, as the edit left them.
        state.placed.clear()


def _rewrite(state: Playbook, event: events.EventRedacted | events.EventsVoided, _: Batch) -> None:
    # Redaction and undo change how earlier events read, so cached states from before are stale.
    state.rewrites += 1
    state.redactions += isinstance(event, events.EventRedacted)


def settle(state: Playbook, batch: Batch) -> None:
    """Note after a batch that it changed the playbook."""
    state.has_begun = state.has_begun or any(
        type(event) in CHANGES and type(event) not in NO_BEGINNING for event in batch.events
    )
    # What is left of an order belongs to an edit that was undone.
    state.order.clear()
    if state.adoption != batch.last:
        state.latest = batch
    state.stamp = (batch.last, batch.chain)


CHANGES: Final[dict[type[Any], Callable[[Playbook, Any, Batch], None]]] = {
    events.PointRated: _rate,
    events.PlaybookUpdated: _update,
    events.PointAdded: _add,
    events.PointSeeded: _add,
    events.PointEdited: _edit_entry,
    events.PointRemoved: lambda state, event, _: _take_out(state, event.name),
    events.PointReworded: _reword,
    events.PointRetired: lambda state, event, _: _take_out(state, event.name),
    events.PointRestored: _restore,
    events.PointPinned: _pin,
    events.PointUnpinned: _pin,
    events.PointPlaced: _place,
    events.PointLimited: _limit,
    events.PointMerged: _merge,
    events.PointMatched: _match,
    events.PlaybookAdopted: _adopt,
    events.PlaybookOrdered: lambda state, event, _: state.order.extend(event.names),
    events.PlaybookEdited: _close_edit,
    events.EventRedacted: _rewrite,
    events.EventsVoided: _rewrite,
    # What the book brought is folded before, and the file shows another moment from here on.
    events.BookTaken: lambda *_: None,
    UndoneEvent: _apply_undone,
}
"""Class of an event → its effect on the playbook. Other kinds change nothing."""

NO_BEGINNING: Final = (events.EventRedacted, events.EventsVoided, UndoneEvent, events.PointRated)
"""Kinds that only take back, erase, or count for an entry that is there, and so do not begin a playbook."""


def playbook_view(policy: Policy = SPEC_POLICY) -> View[Playbook]:
    """Return the playbook view under a policy."""
    return View(partial(Playbook, policy=policy), CHANGES, settle)


PLAYBOOK = playbook_view()
