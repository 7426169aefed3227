"""The stories of many entries in one fold, with the status of every name; faster than a fold of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger import events
from tallybook.projections.entry_history.status import EntryStatuses, affected_names, apply_event, count_uses
from tallybook.projections.entry_history.story import Story, add_event, is_about
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.view import CHANGES, settle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tallybook.ledger.records import Batch


@attrs.define
class Stories(State):
    """The stories of some names, and the status of every name.

    Attributes:
        statuses: The status of every name.
        stories: Name → its story; all share the playbook of the statuses.
    """

    statuses: EntryStatuses = attrs.field(factory=EntryStatuses)
    stories: dict[str, Story] = attrs.field(factory=dict)


def stories_view(names: Collection[str]) -> View[Stories]:
    """Return the view of the stories of these names."""

    def start() -> Stories:
        state = Stories()
        state.stories = {name: Story(name=name, book=state.statuses.book) for name in names}
        return state

    kinds = (*CHANGES, events.PointNoted, events.PlaybookInjected, events.PointCited)
    return batch_view(start, kinds, _apply_batch)


def _apply_batch(state: Stories, batch: Batch) -> None:
    """Apply a batch event by event."""
    concerned: dict[str, bool] = {}
    has_changes = False
    for index, event in enumerate(batch.events):
        if type(event) in CHANGES or isinstance(event, events.PointNoted):
            has_changes = type(event) in CHANGES or has_changes
            _apply_event(state, batch, index, concerned)
        else:
            count_uses(state.statuses, batch, index)
    for name, was_present in concerned.items():
        story = state.stories[name]
        if was_present or story.entry is not None:
            story.last_exit = story.decision
    if has_changes:
        settle(state.statuses.book, batch)


def _apply_event(state: Stories, batch: Batch, index: int, concerned: dict[str, bool]) -> None:
    """Apply an event, and add it to the stories that it is in; line heads are decoded only for these.

    Args:
        state: The state.
        batch: The batch of the event.
        index: Its index there.
        concerned: Name of a story → whether its entry was there before the batch; names are added.
    """
    event = batch.events[index]
    stories = [state.stories[name] for name in _names(state, event) if name in state.stories]
    before = [(story, story.entry) for story in stories]
    apply_event(state.statuses, batch, index)
    if isinstance(event, events.EventsVoided):
        for story in state.stories.values():
            story.last_undo_batch = batch
    for story, entry in before:
        concerned.setdefault(story.name, entry is not None)
        add_event(story, batch.records[index], entry, was_present=entry is not None)


def _names(state: Stories, event: Any) -> Iterable[str]:
    """Return the names whose stories an event can be in."""
    if isinstance(event, events.EventRedacted):
        return [name for name, story in state.stories.items() if is_about(story, event)]
    inner = event.event if isinstance(event, UndoneEvent) else event
    if inner is not event and isinstance(inner, events.PlaybookUpdated | events.EventsVoided):
        return ()
    return tuple(dict.fromkeys(affected_names(state.statuses.book, inner)))
