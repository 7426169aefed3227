"""The story of an entry: which entry is meant, the status of every name, and the batches that the story needs.

The status of every entry is saved in checkpoints, with the events that last changed it, each as it was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from tallybook.ledger.encoding.event_json import structure
from tallybook.ledger.errors import EXIT_NO, TallybookError
from tallybook.ledger.events import EVENT_TYPES, KIND_OF
from tallybook.ledger.names import find_name
from tallybook.ledger.records import Author, EventRecord
from tallybook.projections.entry_history.status import STATUS_VIEW, EntryStatuses, Uses, entry_rows, find_by_words
from tallybook.projections.entry_history.story import audit_view
from tallybook.projections.fold import UndoneEvent, fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.surfaces.history.as_of import state_at
from tallybook.projections.surfaces.history.entry_batches import history_of
from tallybook.projections.surfaces.history.reading import Form, fold_view, log_with_book, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.entry_history.status import EventReference
    from tallybook.projections.entry_history.story import Story
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project


class AmbiguousEntryError(TallybookError):
    """Several entries have the words that were given."""

    exit_code = EXIT_NO

    def __init__(self, words: str, matches: list[dict[str, Any]]) -> None:
        """Keep the entries; the message says how to go on."""
        self.matches = matches
        super().__init__(f"{words!r}: {len(matches)} entries have these words; give the name of one, or more words")


def story_of(
    project: Project, words: str, when: str | Moment | None = None
) -> tuple[Story, EntryStatuses, Callable[[int | None], Story]]:
    """Return the story of the entry of a name, or of the only one that had a text with these words.

    Returns:
        The story, that of an unknown entry where nothing fits; the status of every name at its moment; and a function
        that returns the story as of an earlier event number, None for that moment.

    Raises:
        AmbiguousEntryError: The words fit several.
    """
    log = open_log(project)
    if isinstance(when, str):
        from tallybook.projections.surfaces.history import moments

        when = moments.find(project, when, log=log)
    moment: Moment | None = when
    state = fold_view(STATUS_FORM, log) if moment is None else state_at(STATUS_FORM, log, moment)
    # The history of a shared moment ends at it.
    end = None if (log_with_book(log) if moment is None else moment.shared) else state.seq

    def tell_about(name: str) -> Callable[[int | None], Story]:
        read = moment.history if moment is not None and (moment.shared or moment.commit) else history_of(log, {name})
        return lambda until: fold_history(audit_view(name), read, until)

    story_as_of = tell_about(words)
    story = story_as_of(end)
    if not (story.trail or story.ignored):
        matching_name = find_name(words, state.book.used)
        names = find_by_words(state, words) if matching_name in {None, words} else [matching_name]
        if len(names) > 1:
            raise AmbiguousEntryError(words, entry_rows(state, names))
        if names:
            story_as_of = tell_about(names[0])
            story = story_as_of(end)
    return story, state, story_as_of


def is_known(project: Project, words: str, *, by_words: bool = False) -> bool:
    """Return whether an entry ever had a name, or with ``by_words`` a text with these words."""
    state = fold_view(STATUS_FORM, open_log(project))
    return bool(find_by_words(state, words)) if by_words else find_name(words, state.book.used) is not None


def add_arrivals(project: Project, *answers: dict[str, Any]) -> None:
    """Add to each row about an event of a shared book when it came in here; without a book do nothing."""
    log = open_log(project)
    if log_with_book(log):
        from tallybook.projections.surfaces.sharing import own_history

        for value in answers:
            own_history.add_arrivals(log, value)


# Checkpoints


_PLAIN: Final = ("seq", "at", "id", "key", "when", "part")


@attrs.frozen(eq=False)
class StoredEvent:
    """An event as a checkpoint has it; it is decoded on demand, and most never are.

    Attributes:
        values: The event as JSON values.
    """

    values: Any

    @property
    def record(self) -> EventRecord:
        """Decode and return the event with its author and time."""
        return _decode(self.values)


def _encode(record: EventRecord) -> Any:
    """Return an event as JSON values."""
    event, undo_record = record.event, None
    if isinstance(event, UndoneEvent):
        event, undo_record = event.event, _encode(event.by)
    body = (KIND_OF[type(event)], attrs.asdict(event, recurse=False))
    return [[getattr(record, name) for name in _PLAIN], attrs.astuple(record.by), body, undo_record]


def _decode(values: Any) -> EventRecord:
    """Return the event of JSON values."""
    (seq, at, id_, key, when, part), author, (kind, fields), undo_record = values
    event: Any = structure(kind, EVENT_TYPES[kind][1], fields)
    if undo_record is not None:
        event = UndoneEvent(event, _decode(undo_record))
    return EventRecord(seq, at, event, id_, Author(*author), key, when, (part[0], part[1]))


def _values_of(reference: EventReference) -> Any:
    return reference.values if isinstance(reference, StoredEvent) else _encode(reference.record)


def _pack_uses(*by_name: Mapping[str, Uses]) -> Any:
    """Return the last injections and citations as JSON: a list of events without repeats, then a dict for each mapping.

    It maps an entry's name to a count and an index into the list, because one event may be the last use of many.
    """
    places = dict.fromkeys(use.last for uses in by_name for use in uses.values() if use.last is not None)
    numbers = {place: number for number, place in enumerate(places)}
    rows = [{name: (use.count, numbers[use.last]) for name, use in uses.items() if use.last} for uses in by_name]
    return [_values_of(place) for place in places], *rows


def _unpack_uses(places: Any, *rows: Mapping[str, Any]) -> list[dict[str, Uses]]:
    events = [StoredEvent(one) for one in places]
    return [{name: Uses(count, events[number]) for name, (count, number) in uses.items()} for uses in rows]


def _pack(state: EntryStatuses) -> dict[str, Any]:
    return {
        "place": (state.seq, state.chain),
        "book": pack(state.book),
        "changed": {name: _values_of(place) for name, place in state.last_changes.items()},
        "texts": {name: list(texts) for name, texts in state.texts.items()},
        "undone": {name: (text, _encode(by)) for name, (text, by) in state.undone.items()},
        "uses": _pack_uses(state.injections, state.citations),
    }


def _unpack(values: Mapping[str, Any]) -> EntryStatuses:
    seq, chain = values["place"]
    injections, citations = _unpack_uses(*values["uses"])
    return EntryStatuses(
        seq,
        chain,
        book=unpack(values["book"]),
        last_changes={name: StoredEvent(one) for name, one in values["changed"].items()},
        texts={name: dict.fromkeys(texts) for name, texts in values["texts"].items()},
        undone={name: (text, _decode(by)) for name, (text, by) in values["undone"].items()},
        injections=injections,
        citations=citations,
    )


STATUS_FORM: Final[Form[EntryStatuses]] = Form(
    "standing",
    STATUS_VIEW,
    _pack,
    _unpack,
    lambda state: state.book,
    ("tallybook.projections.surfaces.history.entry_story",),
)
