"""The playbook that a manual edit changed, and what was added to its counts since."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.events import PointMerged, PointRated
from tallybook.projections.fold import fold, history
from tallybook.projections.playbook.view import PLAYBOOK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import RawBatch
    from tallybook.projections.playbook.view import Playbook


class Base(NamedTuple):
    """The playbook that a manual edit changed.

    Attributes:
        state: The playbook; ``drift_of`` folds it further.
        read: Reads the ledger from its beginning.
        names: Names then → present names, where they differ, in a history with a shared book; None elsewhere.
    """

    state: Playbook
    read: Callable[[], Iterator[RawBatch]]
    names: Mapping[str, str] | None


def drift_of(base: Base, state: Playbook) -> Mapping[str, tuple[int, int]]:
    """Return what was added to the counts of entries since the edited playbook: present name → (helpful, harmful)."""
    if base.names is None:
        return _ratings_since(base.state, base.read)
    names = base.names
    pairs = ((one, state.entries.get(names.get(name, name))) for name, one in base.state.entries.items())
    return {now.name: (now.helpful - one.helpful, now.harmful - one.harmful) for one, now in pairs if now is not None}


def _ratings_since(base: Playbook, read: Callable[[], Iterator[RawBatch]]) -> Mapping[str, tuple[int, int]]:
    """Count the ratings since a state, by name: (helpful, harmful). ``base`` is folded further."""
    counts: dict[str, tuple[int, int]] = {}
    for batch in history(lambda: decode(read())):
        if batch.last <= base.seq:
            continue
        for event in batch.events:
            for name, helpful, harmful in _counted(event, base):
                before = counts.get(name, (0, 0))
                counts[name] = (before[0] + helpful, before[1] + harmful)
        fold(PLAYBOOK, [batch], base)
    return counts


def _counted(event: Event, base: Playbook) -> Iterator[tuple[str, int, int]]:
    """Yield what an event adds to the counts of entries in the playbook: (name, helpful, harmful)."""
    if isinstance(event, PointRated):
        name = event.name if event.name in base.entries else base.merged.get(event.name)
        if name is not None and name in base.entries:
            yield name, event.rating == "helpful", event.rating == "harmful"
    elif isinstance(event, PointMerged) and event.name in base.entries:
        merged_entries = (base.entries[name] for name in set(event.merged) & base.entries.keys() - {event.name})
        yield from ((event.name, entry.helpful, entry.harmful) for entry in merged_entries)
