"""The status view: for every name ever used, its status, the event that last changed it, and all its texts.

It answers for entries of the playbook (`blame`) and for those that left it (`graveyard`), finds both by their words
(`find_by_words`), follows advice through merges and new names (`lineage`), and counts injections and citations.
"""

from __future__ import annotations

from functools import lru_cache
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
import unicodedata

import attrs

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.projections.event_rows import reference, summary
from tallybook.projections.fold import State, UndoneEvent, View, batch_view
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.prune import SPEC_POLICY, Policy
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import CHANGES, UNDONE, UNKNOWN, Playbook, settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.records import Batch, EventRecord

ADDING_KINDS: Final = (events.PointAdded, events.PointSeeded, events.PointEdited, events.PointMatched)
"""Kinds that give a name to a text; where such an event is undone, and no other one did, the entry is undone."""

SAME_TEXT: Final = "same text"
SAME_WORDS: Final = "same words"
WENT_INTO: Final = "went into"
TOOK_IN: Final = "took in"

_WORD: Final = re.compile(r"\w+")


class EventReference(Protocol):
    """A reference to an event."""

    @property
    def record(self) -> EventRecord:
        """Return the event with its author and time."""
        ...


class EventPlace(NamedTuple):
    """A reference to an event by its place in a batch: the head of its line is decoded only when asked for.

    Attributes:
        batch: The batch of the event.
        number: Its index in the batch, from 0.
    """

    batch: Batch
    number: int

    @property
    def record(self) -> EventRecord:
        """Return the event with its author and time."""
        return self.batch.records[self.number]


@attrs.frozen
class Uses:
    """How often an entry was injected, or cited.

    Attributes:
        count: How often, 0 or more.
        last: The last such event, None without one.
    """

    count: int = 0
    last: EventReference | None = None


@attrs.define
class EntryStatuses(State):
    """The status of every name as of a moment.

    Attributes:
        book: The playbook.
        last_changes: Name → the event that last changed its counts, text or status, in the order of first use.
        texts: Name → every text that it had, in order, without redacted ones.
        undone: Name whose addition was undone → its text and the undo; such a name counts as never added.
        injections: Name → how often it was injected into a session.
        citations: Name → how often an agent cited it.
    """

    book: Playbook = attrs.field(factory=Playbook)
    last_changes: dict[str, EventReference] = attrs.field(factory=dict)
    texts: dict[str, dict[str, None]] = attrs.field(factory=dict)
    undone: dict[str, tuple[str, EventRecord]] = attrs.field(factory=dict)
    injections: dict[str, Uses] = attrs.field(factory=dict)
    citations: dict[str, Uses] = attrs.field(factory=dict)

    @property
    def names(self) -> list[str]:
        """Return every name ever used; names whose addition was undone come last."""
        return [*self.last_changes, *(name for name in self.undone if name not in self.last_changes)]

    def status(self, name: str) -> str:
        """Return the status of a name, as the playbook has it."""
        return self.book.status_of(name)

    def last_event(self, name: str) -> EventRecord:
        """Return the event that last changed a name."""
        return self.last_changes[name].record

    def text(self, name: str) -> str:
        """Return the text that a name has, or had last."""
        entry = self.book.entries.get(name) or self.book.gone.get(name)
        return entry.text if entry is not None else self.undone[name][0]


def apply_event(state: EntryStatuses, batch: Batch, index: int) -> None:
    """Apply one event to the playbook, and record which names it changed."""
    event = batch.events[index]
    change = CHANGES.get(type(event))
    if change is None:
        return
    entries = state.book.entries
    if isinstance(event, events.PointRated):
        # The most frequent event takes a short way: a rating changes one entry's counts and no text.
        name = event.name if event.name in entries else state.book.merged.get(event.name, event.name)
        before_rating = entries.get(name)
        change(state.book, event, batch)
        if entries.get(name) is not before_rating:
            state.last_changes[name] = EventPlace(batch, index)
        return
    before = [(name, entries.get(name)) for name in affected_names(state.book, event)]
    change(state.book, event, batch)
    # A change of the order replaces the playbook's dict.
    entries = state.book.entries
    for name, old in before:
        new = entries.get(name)
        if new is not old and new != old:
            state.last_changes[name] = EventPlace(batch, index)
            _remember_text(state, new)
    if isinstance(event, UndoneEvent) and isinstance(event.event, ADDING_KINDS):
        text = event.event.text
        state.undone[event.event.name] = (REDACTED if text is None else text, event.by)


def affected_names(book: Playbook, event: Any) -> tuple[str, ...]:
    """Return the names that an event can change."""
    if isinstance(event, events.PlaybookUpdated):
        return tuple(book.due)
    name = getattr(event, "name", None)
    if name is None:
        return ()
    return (name, book.merged.get(name, name), *getattr(event, "merged", ()))


def _remember_text(state: EntryStatuses, new: Entry | None) -> None:
    """Record a text that an entry has had."""
    if new is not None and new.text != REDACTED:
        state.texts.setdefault(new.name, {})[new.text] = None


def _count_use(uses: dict[str, Uses], name: str, place: EventPlace) -> None:
    """Count an injection or a citation of an entry; neither changes its status."""
    uses[name] = Uses(uses[name].count + 1 if name in uses else 1, place)


def count_uses(state: EntryStatuses, batch: Batch, index: int) -> bool:
    """Count the uses in an event, and return whether it is an injection or a citation."""
    event = batch.events[index]
    if isinstance(event, events.PlaybookInjected):
        for name in dict.fromkeys(event.names):
            _count_use(state.injections, name, EventPlace(batch, index))
    elif isinstance(event, events.PointCited):
        _count_use(state.citations, event.name, EventPlace(batch, index))
    else:
        return False
    return True


def _apply_batch(state: EntryStatuses, batch: Batch) -> None:
    changes = False
    for index, event in enumerate(batch.events):
        if not count_uses(state, batch, index):
            changes = changes or type(event) in CHANGES
            apply_event(state, batch, index)
    if changes:
        settle(state.book, batch)


def status_view(policy: Policy = SPEC_POLICY) -> View[EntryStatuses]:
    """Return the view of the status of every name, under a policy."""
    # References need the index of an event, so whole batches are applied.
    kinds = (*CHANGES, events.PlaybookInjected, events.PointCited)
    return batch_view(lambda: EntryStatuses(book=Playbook(policy=policy)), kinds, _apply_batch)


STATUS_VIEW: Final = status_view()


def brief(record: EventRecord) -> dict[str, Any]:
    """Return an event as answers name it: ``{seq, id, at, by, summary}``."""
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    return reference(record) | {"summary": summary(event)}


def prune_summary(entry: Entry, rule: str) -> str:
    """Return what an update did to an entry that it pruned; its own summary counts what it had of all entries."""
    return f"{entry.name} pruned with {entry.helpful} helpful and {entry.harmful} harmful: {rule}"


def blame(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return each entry of the playbook with the event that last changed its counts, text or status.

    Returns:
        ``{name, text, helpful, harmful, event}`` in the playbook's order; ``event`` as ``brief``.
    """
    return [entry_json(entry) | {"event": brief(state.last_event(entry.name))} for entry in state.book.entries.values()]


def graveyard(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return every entry that left the playbook and why, the last to leave at the end.

    Returns:
        ``{name, text, helpful, harmful, status, rule, reason, into, event}``: the counts when it left; ``rule``, None
        unless it was pruned; ``reason`` of the event, or None; ``into``, the entry that it was merged into, or None;
        ``event`` that took it out, as ``brief``.
    """
    gone = [_grave(state, name) for name in state.names if name not in state.book.entries]
    return sorted(gone, key=lambda row: int(row["event"]["seq"]))


def _grave(state: EntryStatuses, name: str) -> dict[str, Any]:
    entry = state.book.gone.get(name) or Entry(name, state.text(name))
    status = state.status(name)
    record = state.undone[name][1] if status == UNDONE else state.last_event(name)
    rule = state.book.policy.rule if status == "pruned" else None
    pruned = {"summary": prune_summary(entry, rule)} if rule is not None else {}
    return entry_json(entry) | {
        "status": status,
        "rule": rule,
        "reason": getattr(record.event, "reason", None) or None,
        "into": state.book.merged.get(name),
        "event": brief(record) | pruned,
    }


# Entries by their words, and the other names of their advice


@lru_cache(maxsize=4096)
def normalize_words(text: str) -> str:
    """Return a text's words without case, white space, punctuation and Unicode variants, to compare texts by.

    A text without any word stays as it is.
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold())) or text


def find_by_words(state: EntryStatuses, words: str) -> list[str]:
    """Return the names that had a text with these words, in the order of first use.

    Args:
        state: The status of every name.
        words: Parts of words, in any order; no words match nothing. Where exactly one entry had these words and no
            others, it is the only match.
    """
    normalized = normalize_words(words)
    texts = {name: {normalize_words(text) for text in _texts(state, name)} for name in state.names}
    exact = [name for name, normalized_texts in texts.items() if normalized in normalized_texts]
    if len(exact) == 1 or not normalized.strip():
        return exact
    parts = normalized.split()
    return [
        name
        for name, normalized_texts in texts.items()
        if any(all(part in text for part in parts) for text in normalized_texts)
    ]


def _texts(state: EntryStatuses, name: str) -> list[str]:
    """Return every text that a name had, undone ones included, redacted ones not."""
    undone = [state.undone[name][0]] if name in state.undone else []
    return [*state.texts.get(name, ()), *(text for text in undone if text != REDACTED)]


def entry_rows(state: EntryStatuses, names: list[str]) -> list[dict[str, Any]]:
    """Return entries as a list to choose from: ``{name, status, text}`` each."""
    return [{"name": name, "status": state.status(name), "text": state.text(name)} for name in names]


def lineage(state: EntryStatuses, name: str) -> list[dict[str, Any]]:
    """Return the other names that the advice of an entry has had, the nearest first.

    Names are related where one was merged into the other or both had a text with the same words; relations chain.

    Returns:
        ``{name, status, text, relation, of}`` each: ``relation`` is its relation to the name ``of``: SAME_TEXT,
        SAME_WORDS (differing in case, white space or punctuation), WENT_INTO or TOOK_IN.
    """
    if state.status(name) == UNKNOWN:
        return []
    kin = {name: ("", "")}
    queue = [name]
    for current in queue:
        for other, relation in _kin(state, current):
            if other not in kin:
                kin[other] = (relation, current)
                queue.append(other)
    del kin[name]
    rows = entry_rows(state, list(kin))
    return [row | {"relation": kin[row["name"]][0], "of": kin[row["name"]][1]} for row in rows]


def _kin(state: EntryStatuses, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names directly related to one, each with the relation."""
    texts = set(_texts(state, name))
    words = set(map(normalize_words, texts))
    into = state.book.merged
    for other in state.names:
        if other == name:
            continue
        if into.get(other) == name:
            yield other, WENT_INTO
        elif into.get(name) == other:
            yield other, TOOK_IN
        elif theirs := _texts(state, other):
            if not texts.isdisjoint(theirs):
                yield other, SAME_TEXT
            elif not words.isdisjoint(map(normalize_words, theirs)):
                yield other, SAME_WORDS
