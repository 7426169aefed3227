"""Telling the story of an entry: which one is meant, how every name stood, and what its story is told from."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tallybook.ledger.errors import EXIT_NO, DamagedLedgerError, TallybookError
from tallybook.ledger.names import find_name
from tallybook.projections.entry_history.audit import audit_view
from tallybook.projections.entry_history.lineage import entry_rows, find_by_words
from tallybook.projections.entry_history.status import STATUS_VIEW
from tallybook.projections.surfaces.history import moments, reading
from tallybook.projections.surfaces.history.checkpoint_standing import STANDING_FORM
from tallybook.projections.surfaces.history.index import index_of
from tallybook.projections.surfaces.history.reading import batches, open_log
from tallybook.projections.undo import fold_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallybook.ledger.records import Batch
    from tallybook.projections.entry_history.audit import Story
    from tallybook.projections.entry_history.status import EntryStatuses
    from tallybook.projections.surfaces.history.index import Index
    from tallybook.projections.surfaces.history.moments import Moment
    from tallybook.projections.surfaces.workspace.project import Project


class SeveralPointsError(TallybookError):
    """Several entries have the words that were given."""

    exit_code = EXIT_NO

    def __init__(self, words: str, matches: list[dict[str, Any]]) -> None:
        """Keep the entries; the message says how to go on."""
        self.matches = matches
        super().__init__(f"{words!r}: {len(matches)} entries have these words; give the name of one, or more words")


def story_of(
    project: Project, words: str, when: str | Moment | None = None
) -> tuple[Story, EntryStatuses, Callable[[int], Story]]:
    """Return the story of the entry of a name, or of the only one that had a text with these words.

    Returns:
        The story, that of an unknown entry where nothing fits; how every name stood at its moment; and what tells the
        story up to another moment.

    Raises:
        SeveralPointsError: The words fit several.
    """
    moment = moments.meant(project, when)
    state, index = _standing_at(project, moment)
    history = moment.history if moment is not None else lambda: batches(project)
    tell = _teller(history, words, index)
    story = tell(state.seq)
    if not (story.trail or story.ignored):
        matching_name = find_name(words, state.book.used)
        names = find_by_words(state, words) if matching_name in {None, words} else [matching_name]
        if len(names) > 1:
            raise SeveralPointsError(words, entry_rows(state, names))
        if names:
            tell = _teller(history, names[0], index)
            story = tell(state.seq)
    return story, state, tell


def _standing_at(project: Project, moment: Moment | None) -> tuple[EntryStatuses, Index | None]:
    """Return the status of every name as of a moment, and the index of that history where there is one."""
    if moment is not None and moment.commit:
        return fold_history(STATUS_VIEW, moment.history, moment.seq), None
    log = open_log(project)
    return reading.fold_view(STANDING_FORM, log, None if moment is None else moment.seq), index_of(log)


def _teller(history: Callable[[], Iterator[Batch]], name: str, index: Index | None) -> Callable[[int], Story]:
    """Return what tells the story of an entry up to a moment, from what speaks of it where that is known."""
    view = audit_view(name)

    def tell(until: int) -> Story:
        if index is not None:
            # What is not as it was is told by whoever reads everything.
            with suppress(DamagedLedgerError):
                return fold_history(view, lambda: index.about({name}), until)
        return fold_history(view, history, until)

    return tell
