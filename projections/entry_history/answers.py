"""What is answered about the history of entries: `why`, the last changes, what left, and entries by their words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
import re
from typing import TYPE_CHECKING, Any, Final
import unicodedata

from tallybook.ledger import events
from tallybook.ledger.events import Entry
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.projections.entry_history.view import EntryStatuses, EventPlace, EventReference, NamedEvent, Story, Uses
from tallybook.projections.event_rows import by_json, kind_of, reference, summary, when_json
from tallybook.projections.fold import UndoneEvent
from tallybook.projections.playbook.entry import text_of
from tallybook.projections.playbook.render import entry_json
from tallybook.projections.playbook.view import UNDONE, UNKNOWN

if TYPE_CHECKING:
    from tallybook.ledger.records import EventRecord

SAME_TEXT: Final = "same text"
SAME_WORDS: Final = "same words"
WENT_INTO: Final = "went into"
TOOK_IN: Final = "took in"
MAX_RATINGS: Final = 10
"""Most ratings among the events that decided: the last ones."""

_NEUTRAL_KINDS: Final = (events.EventRedacted, events.PointNoted)
"""Kinds of steps that never add an entry or take it out."""
_LEAVING_KINDS: Final = (events.PlaybookUpdated, events.PointRemoved, events.PointRetired, events.PointMerged)
"""Kinds of steps that take an entry out of the playbook."""
_WORD: Final = re.compile(r"\w+")


# Events as answers name them


def brief(record: EventRecord, seqs: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return an event as answers name it: ``{seq, id, at, by, summary}``; ``seqs`` is as for ``summary``."""
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    return reference(record) | {"summary": summary(event, seqs)}


def name_event(place: EventReference | EventRecord) -> NamedEvent:
    """Return the event of a reference as answers name it."""
    if isinstance(place, NamedEvent):
        return place
    record = place.record if isinstance(place, EventPlace) else place
    event: Any = record.event
    into = event.name if isinstance(event, events.PointMerged) else None
    return NamedEvent(brief(record), kind_of(event)[0], getattr(event, "reason", None) or None, into)


def _describe_prune(entry: Entry, rule: str) -> str:
    """Return what an update did to an entry that it pruned; its own summary counts what it had of all entries."""
    return f"{entry.name} pruned with {entry.helpful} helpful and {entry.harmful} harmful: {rule}"


# The status of every name


def blame(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return each entry of the playbook with the event that last changed its counts, text or status.

    Returns:
        ``{name, text, helpful, harmful, event}`` in the playbook's order; ``event`` as ``brief``.
    """
    return [
        entry_json(entry) | {"event": name_event(state.last_changes[entry.name]).row}
        for entry in state.book.entries.values()
    ]


def graveyard(state: EntryStatuses) -> list[dict[str, Any]]:
    """Return every entry that left the playbook and why, the last to leave at the end.

    Returns:
        ``{name, text, helpful, harmful, status, rule, reason, into, event}``: the counts when it left; ``rule``, None
        unless it was pruned; ``reason`` of the event, or None; ``into``, the entry that it was merged into, or None;
        ``event`` that took it out, as ``brief``.
    """
    rows = []
    for name in state.names:
        if name in state.book.entries:
            continue
        # Of an entry whose addition was undone the playbook has the name alone.
        entry = state.book.gone.get(name) or Entry(name, state.text(name))
        status = state.book.status_of(name)
        event = name_event(state.undone[name][1] if status == UNDONE else state.last_changes[name])
        rule = state.book.policy.rule if status == "pruned" else None
        summary_of_prune = {} if rule is None else {"summary": _describe_prune(entry, rule)}
        rows.append(
            entry_json(entry)
            | {"status": status, "rule": rule, "reason": event.reason, "into": state.book.merged.get(name)}
            | {"event": event.row | summary_of_prune}
        )
    return sorted(rows, key=lambda row: int(row["event"]["seq"]))


# Entries by their words, and the other names of their advice


# A lineage compares every text of an entry with those of all names, so each text comes up again and again.
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
    return [{"name": name, "status": state.book.status_of(name), "text": state.text(name)} for name in names]


def lineage(state: EntryStatuses, name: str) -> list[dict[str, Any]]:
    """Return the other names that the advice of an entry has had, the nearest first.

    Names are related where one was merged into the other or both had a text with the same words; relations chain.

    Returns:
        ``{name, status, text, relation, of}`` each: ``relation`` is its relation to the name ``of``: SAME_TEXT,
        SAME_WORDS (differing in case, white space or punctuation), WENT_INTO or TOOK_IN.
    """
    if state.book.status_of(name) == UNKNOWN:
        return []
    kin = {name: ("", "")}
    queue = [name]
    # The list grows while it is read, so the nearest names come first.
    for current in queue:
        for other, relation in _kin(state, current):
            if other not in kin:
                kin[other] = (relation, current)
                queue.append(other)
    del kin[name]
    rows = entry_rows(state, list(kin))
    return [row | {"relation": kin[row["name"]][0], "of": kin[row["name"]][1]} for row in rows]


def _kin(state: EntryStatuses, name: str) -> Iterator[tuple[str, str]]:
    """Yield the names directly related to another, each with the relation."""
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


# What `why` answers


def explain(
    story: Story, statuses: EntryStatuses, story_as_of: Callable[[int], Story]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the story of an entry in its stable shape, and the additions of `why`.

    Args:
        story: The story.
        statuses: The status of every name as of the same moment.
        story_as_of: Returns the story as of an earlier event number; called where something was undone.

    Returns:
        The additions are ``{origin, original, notes, told, cited, stood, vanished_by, deciding, lineage}``. A note is
        ``{seq, at, by, note}``, ``note`` None once redacted. ``told`` (injections) and ``cited`` are
        ``{count, last}``; ``last`` is an event as in ``deciding``, a list of ``{seq, id, at, by, summary}`` in order.
        ``stood`` says whether the entry was in the playbook at any moment. ``vanished_by`` is the deciding event
        whose batch took it out, None where it is in the playbook or never existed. ``lineage`` is that of
        ``lineage``. Only an entry that holds until a date has ``until``.
    """
    last: EventRecord | None = None
    exit_event: EventRecord | None = None
    if story.entry is None:
        last = find_exit(story, story_as_of)
        # An entry added and taken out in one batch has no exit, but an event still took it out or undid it.
        addition = story.undone_addition
        exit_event = last or story.decision or (None if addition is None else addition.by)
    notes = [
        {"seq": record.seq, "at": record.at, "by": by_json(record.by), "note": record.event.note}
        for record in (*story.early_notes, *(step.record for step in story.trail))
        if isinstance(record.event, events.PointNoted)
    ]
    seeds = [step.record.event for step in story.trail if isinstance(step.record.event, events.PointSeeded)]
    # By number, because one rating can be among the last ones and the one before a prune.
    deciding = {record.seq: record for record in _deciding_events(story)}
    if exit_event is not None:
        deciding[exit_event.seq] = exit_event
    injections, citations = (uses.get(story.name, Uses()) for uses in (statuses.injections, statuses.citations))
    return story_json(story), {
        "origin": seeds[-1].origin if seeds else None,
        "original": seeds[-1].original if seeds else None,
        "notes": notes,
        "told": {"count": injections.count, "last": injections.last and name_event(injections.last).row},
        "cited": {"count": citations.count, "last": citations.last and name_event(citations.last).row},
        "stood": story.entry is not None or last is not None,
        "vanished_by": None if exit_event is None else _brief(story, exit_event),
        "deciding": [_brief(story, deciding[seq]) for seq in sorted(deciding)],
        "lineage": lineage(statuses, story.name),
    } | ({"until": day} if (day := story.book.until.get(story.name)) else {})


def _brief(story: Story, record: EventRecord) -> dict[str, Any]:
    """Return an event as `brief`; of an update, which pruned the entry, by which counts and rule."""
    known = [row.record for row in (*story.trail, *story.ignored)]
    row = brief(record, {event.id: event.seq for event in known})
    if isinstance(record.event, events.PlaybookUpdated):
        step = next((step for step in story.trail if step.record.seq == record.seq), None)
        last = step or story.last or Entry(story.name, "")
        row["summary"] = _describe_prune(Entry(story.name, "", last.helpful, last.harmful), story.book.policy.rule)
    return row


def find_exit(story: Story, story_as_of: Callable[[int], Story]) -> EventRecord | None:
    """Return the event whose batch took an absent entry out of the playbook, None where it never was in it.

    The playbook as of the moment before that batch has the entry, and no later one has. An undo changes how the
    history before it reads; where one comes after the exit in the story, the story as of before the undo decides.
    """
    while (batch := story.last_undo_batch) is not None:
        begin = batch.records[0].seq
        if story.last_exit is not None and story.last_exit.seq > batch.last:
            break
        before = story_as_of(begin - 1)
        if before.entry is not None:
            is_later = story.last_exit is not None and story.last_exit.seq >= begin
            undo = next(record for record in batch.records if isinstance(record.event, events.EventsVoided))
            return story.last_exit if is_later else undo
        story = before
    return story.last_exit


def _deciding_events(story: Story) -> Iterator[EventRecord]:
    """Yield the events that decided about an entry, in no order.

    These are the events that added it, took it out or brought it back; its last ratings that count, MAX_RATINGS at
    most, and the last harmful one before a prune; the undos of its events, and the undone event that had added it.
    """
    ratings = [step.record for step in story.trail if isinstance(step.record.event, events.PointRated)]
    yield from ratings[-MAX_RATINGS:]
    yield from _turning_points(story)
    for ignored in story.ignored:
        undone_event: Any = ignored.record.event
        if isinstance(undone_event, UndoneEvent):
            yield undone_event.by
            if isinstance(undone_event.event, events.MAKERS):
                yield ignored.record


def _turning_points(story: Story) -> Iterator[EventRecord]:
    """Yield the events that added the entry or took it out, and the last harmful rating before each prune."""
    is_present, last_harmful = False, None
    for step in story.trail:
        record, event = step.record, step.record.event
        is_merge_into_it = isinstance(event, events.PointMerged) and event.name == story.name
        # An entry that is out can have a note or a redaction, which does not bring it back.
        if isinstance(event, _NEUTRAL_KINDS):
            continue
        if not is_present:
            yield record
            is_present = True
        elif isinstance(event, _LEAVING_KINDS) and not is_merge_into_it:
            if isinstance(event, events.PlaybookUpdated) and last_harmful is not None:
                yield last_harmful
            yield record
            is_present = False
        elif isinstance(event, events.PointRated) and event.rating == "harmful":
            last_harmful = record


def story_json(story: Story) -> dict[str, Any]:
    """Return a story in the stable shape that ``why --json`` answers.

    Returns:
        ``{name, text, status, helpful, harmful, rule, decided_by, trail, ignored}``. Counts are the last ones;
        ``rule`` is None unless it is pruned; ``decided_by`` is the event that took it out, or undid its addition.
    """
    last, decision = story.last, story.decision
    text = None if last is None else last.text
    if (addition := story.undone_addition) is not None:
        text, decision = text_of(addition.event), addition.by
    return {
        "name": story.name,
        "text": text,
        "status": story.status,
        "helpful": 0 if last is None else last.helpful,
        "harmful": 0 if last is None else last.harmful,
        "rule": story.book.policy.rule if story.status == "pruned" else None,
        "decided_by": None if decision is None else reference(decision),
        "trail": [_head(step.record) | {"helpful": step.helpful, "harmful": step.harmful} for step in story.trail],
        "ignored": [_head(ignored.record) | {"reason": ignored.reason} for ignored in story.ignored],
    }


def _head(record: EventRecord) -> dict[str, Any]:
    """Return number, time, kind and author of a row of the trail; of a merge also the entries."""
    event = record.event.event if isinstance(record.event, UndoneEvent) else record.event
    merge = {"name": event.name, "merged": list(event.merged)} if isinstance(event, events.PointMerged) else {}
    if isinstance(event, events.PointMatched):
        # A join reads as what it is to people: a merge into the entry that has the text.
        merge = {"name": event.to, "merged": [event.name]}
    return (
        merge
        | when_json(record)
        | {
            "seq": record.seq,
            "at": record.at,
            "kind": events.KIND_OF[type(event)],
            "by": by_json(record.by),
            "rating": getattr(event, "rating", None),
        }
    )
