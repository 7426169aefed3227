"""The story of an entry: which entry is meant, the status of every name, and the batches that the story needs.

The status of every entry is saved in checkpoints, with the events that last changed it as answers name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallybook.ledger.errors import EXIT_NO, TallybookError
from tallybook.ledger.names import find_name
from tallybook.projections.entry_history.answers import entry_rows, find_by_words, name_event
from tallybook.projections.entry_history.view import ENTRIES, EntryStatuses, NamedEvent, Uses, entries_view
from tallybook.projections.fold import fold_history
from tallybook.projections.playbook.checkpoint import pack, unpack
from tallybook.projections.surfaces.history.as_of import state_at
from tallybook.projections.surfaces.history.entry_batches import history_of
from tallybook.projections.surfaces.history.reading import Form, fold_view, log_with_book, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallybook.projections.entry_history.view import Story
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
        return lambda until: fold_history(entries_view({name}), read, until).stories[name]

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


def _pack_uses(uses: Mapping[str, Uses]) -> dict[str, Any]:
    return {name: (use.count, use.last and name_event(use.last)) for name, use in uses.items()}


def _unpack_uses(values: Mapping[str, Any]) -> dict[str, Uses]:
    return {name: Uses(count, last and NamedEvent(*last)) for name, (count, last) in values.items()}


def _pack(state: EntryStatuses) -> dict[str, Any]:
    return {
        "place": (state.seq, state.chain),
        "book": pack(state.book),
        "changed": {name: name_event(place) for name, place in state.last_changes.items()},
        "texts": {name: list(texts) for name, texts in state.texts.items()},
        "undone": {name: (text, name_event(by)) for name, (text, by) in state.undone.items()},
        "uses": (_pack_uses(state.injections), _pack_uses(state.citations)),
    }


def _unpack(values: Mapping[str, Any]) -> EntryStatuses:
    seq, chain = values["place"]
    injections, citations = map(_unpack_uses, values["uses"])
    return EntryStatuses(
        seq,
        chain,
        book=unpack(values["book"]),
        last_changes={name: NamedEvent(*event) for name, event in values["changed"].items()},
        texts={name: dict.fromkeys(texts) for name, texts in values["texts"].items()},
        undone={name: (text, NamedEvent(*by)) for name, (text, by) in values["undone"].items()},
        injections=injections,
        citations=citations,
    )


STATUS_FORM: Final[Form[EntryStatuses]] = Form(
    "standing",
    ENTRIES,
    _pack,
    _unpack,
    lambda state: state.book,
    ("tallybook.projections.surfaces.history.entry_story",),
)
