"""Two playbooks compared: at two moments, or the real one with that of history under other assumptions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.events import Entry, EventsVoided
from tallybook.projections.history.entry_history import EntryStatuses, name_event
from tallybook.projections.playbook.fold import UNDOABLE, View, fold_history, history
from tallybook.projections.playbook.render import entry_json, playbook_dict
from tallybook.projections.playbook.view import CHANGES, PLAYBOOK, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.records import Batch


_LEFT_OUT: Final = UNDOABLE & {*CHANGES, EventsVoided}


@attrs.frozen
class Exclusion:
    """The events to leave out, as if they had never been recorded; what depends on one of them has no effect.

    Only kinds that can be undone and change the playbook are left out, undos included: the events of such an undo count
    again.

    Attributes:
        names: Every event of these sessions, raters and machines of a shared book: ``session:ID``, ``rater:NAME``,
            ``writer:LABEL``.
        seqs: The whole batch of each of these sequence numbers.
    """

    names: frozenset[str] = frozenset()
    seqs: frozenset[int] = frozenset()

    def find(self, batch: Batch) -> dict[str, list[str]]:
        """Return id of each event of a batch that is left out → the values of ``--without`` that leave it out."""
        whole = [str(seq) for seq in sorted(self.seqs) if batch.first <= seq <= batch.last]
        # Most batches are not decoded to find out who recorded them.
        if not whole and not any(batch.may_contain_text(name.partition(":")[2]) for name in self.names):
            return {}
        found = {}
        for record in batch.records:
            authors = (f"session:{record.by.session}", f"rater:{record.by.rater}", f"writer:{record.by.writer}")
            reasons = [*whole, *(author for author in authors if author in self.names)]
            if reasons and type(record.event) in _LEFT_OUT:
                found[record.id] = reasons
        return found

    def apply(self, batch: Batch) -> Batch:
        """Return a batch without the events left out, even if none is left, so that event numbers do not shift."""
        found = self.find(batch)
        return batch.with_records([record for record in batch.records if record.id not in found]) if found else batch


@attrs.frozen
class Alternative:
    """The real playbook and the alternative one.

    Attributes:
        real: The real playbook.
        other: The alternative playbook.
        left_out: Value of ``--without`` → how many events it left out, undone ones not counted.
    """

    real: Playbook
    other: Playbook
    left_out: Mapping[str, int]


def fold_alternative(read: Callable[[], Iterable[Batch]], view: View[Playbook], without: Exclusion) -> Alternative:
    """Return the real and the alternative playbook at the end of a history.

    Args:
        read: Returns history from the beginning; called several times.
        view: A playbook view under another policy.
        without: The events to leave out. Without an undo, the events that it undid count again.
    """
    real = fold_history(PLAYBOOK, read)
    other = fold_history(view, lambda: map(without.apply, read()), real.seq)
    # To leave out what was undone changes nothing: an `UndoneEvent` is of no kind that can be undone.
    batches = history(read) if without != Exclusion() else ()
    reasons = chain.from_iterable(without.find(batch).values() for batch in batches)
    left_out = Counter(chain.from_iterable(reasons))
    return Alternative(real, other, left_out)


def difference_json(state: Alternative) -> dict[str, Any]:
    """Return how the entries of the alternative differ, in the stable shape; their order is not compared.

    Returns:
        ``{at, real, other, back, gone, changed}``: the moment; the number of entries in each; each entry of the
        alternative only, with its real ``status``; each entry of the real playbook only, with its alternative
        ``status`` and counts ``there``, None where it would never have existed; ``{name, real, other}`` of each entry
        with another text or other counts.
    """
    back, gone, changed = _compare(state.real, state.other)
    return {
        "at": state.real.seq,
        "real": len(state.real.entries),
        "other": len(state.other.entries),
        "back": [entry_json(entry) | {"status": state.real.status_of(entry.name)} for entry in back],
        "gone": [
            entry_json(entry) | {"status": state.other.status_of(entry.name), "there": _counts(state.other, entry.name)}
            for entry in gone
        ],
        "changed": [
            {"name": real.name, "real": entry_json(real), "other": entry_json(other)} for real, other in changed
        ],
    }


def _compare(old: Playbook, new: Playbook) -> tuple[list[Entry], list[Entry], list[tuple[Entry, Entry]]]:
    """Return the entries of the new playbook only, those of the old one only, and those that differ, old and new."""
    before, after = old.entries, new.entries
    added = [entry for name, entry in after.items() if name not in before]
    gone = [entry for name, entry in before.items() if name not in after]
    return added, gone, [(before[name], entry) for name, entry in after.items() if before.get(name, entry) != entry]


def _counts(playbook: Playbook, name: str) -> dict[str, int] | None:
    entry = playbook.gone.get(name)
    return None if entry is None else {"helpful": entry.helpful, "harmful": entry.harmful}


LEAVING_KINDS: Final = {
    "playbook.updated": "pruned",
    "point.removed": "removed",
    "point.retired": "retired",
    "point.merged": "merged",
}
"""Kind of an event that takes an entry out of the playbook → how the entry left."""


def diff(first: EntryStatuses, second: EntryStatuses) -> dict[str, Any]:
    """Return the changes that turn one playbook into another, in the stable shape.

    Args:
        first: The first playbook, with the last event of each entry.
        second: The second.

    Returns:
        ``{added, gone, changed, order, top}``: entries of the second only, in its order, each with ``was``; entries of
        the first only, in its order, each with ``left``; entries with another text or other counts as ``{name, before,
        after}``; the names in the order of the second, None where entries that stay keep their order and added ones
        follow; and the second's other top-level keys, None where they equal the first's. ``was`` and ``left`` say how
        an entry left the playbook that does not have it: ``{how, seq, helpful, harmful, into}``, ``seq`` None for a
        manual edit that is not recorded yet; None where no event took it out, because the event that added it was
        undone, or comes later.
    """
    added, gone, changed = _compare(first.book, second.book)
    names = [*second.book.entries]
    order = [name for name in first.book.entries if name in second.book.entries] + [entry.name for entry in added]
    old_top, new_top = _top(playbook_dict(first.book)), _top(playbook_dict(second.book))
    return {
        "added": [entry_json(entry) | {"was": _departure(first, entry.name)} for entry in added],
        "gone": [entry_json(entry) | {"left": _departure(second, entry.name)} for entry in gone],
        "changed": [{"name": old.name, "before": entry_json(old), "after": entry_json(new)} for old, new in changed],
        "order": None if order == names else names,
        # Compared in order, which a comparison of dicts ignores: the file has its keys in an order.
        "top": None if list(old_top.items()) == list(new_top.items()) else new_top,
    }


def _departure(state: EntryStatuses, name: str) -> dict[str, Any] | None:
    """Return how an entry left that is not in the playbook, None where it never was in it."""
    entry = state.book.gone.get(name)
    if entry is None:
        return None
    event = name_event(state.last_changes[name]).row
    counts = {"helpful": entry.helpful, "harmful": entry.harmful}
    return {"how": LEAVING_KINDS[event["kind"]], "seq": event["seq"]} | counts | {"into": state.book.merged.get(name)}


def _top(playbook: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in playbook.items() if key != "key_points"}
