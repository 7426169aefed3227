"""The ledger of one project as an object: each method calls the function that the verb of its name calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
import warnings

from tallybook.ledger.errors import UnknownEntryError
from tallybook.ledger.events import Entry
from tallybook.ledger.records import Author
from tallybook.ledger.sharing.numbers import plain
from tallybook.projections.event_rows import EventFilter, by_json
from tallybook.projections.fold import State, fold_history
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.history import events, moments, reading
from tallybook.projections.surfaces.sharing.targets import contained_in
from tallybook.projections.surfaces.workspace.project import Project, find_project
from tallybook.projections.surfaces.writing.requests import Rating

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    import os

    from tallybook.ledger.records import EventRecord
    from tallybook.projections.fold import View
    from tallybook.projections.surfaces.writing.curation import UndoResult
    from tallybook.projections.surfaces.writing.record import Outcome

__all__ = ["Entry", "Ledger", "open"]

S = TypeVar("S", bound=State)
_AGENT: Final = Author("agent")


def open(project: str | os.PathLike[str] | None = None, *, by: Author = _AGENT) -> Ledger:  # noqa: A001 - as in `dbm.open`
    """Return the ledger of a project; nothing is created before the first write.

    Args:
        project: The project's folder; None for the one that ``CLAUDE_PROJECT_DIR`` or the current folder lies in.
        by: Who records through this ledger.

    Raises:
        BadInputError: There is no such folder.
    """
    return Ledger(find_project(project, must_exist=True), by)


class Ledger:
    """The ledger of one project.

    It keeps no file open and remembers nothing, so that it always answers with what other processes wrote as well.

    Attributes:
        project: The paths of the project.
        by: Who records.
    """

    def __init__(self, project: Project, by: Author = _AGENT) -> None:
        """Take the project and who records; `open` finds the project."""
        self.project = project
        self.by = by

    def add(self, text: str, *, key: str | None = None) -> Outcome:
        """Add an entry.

        Args:
            text: The guidance.
            key: The idempotency key; a later call with the same key adds nothing.

        Raises:
            BadInputError: The text cannot be an entry.
            NothingToDoError: An entry has this text, but for case, white space and final punctuation.
            RedactedTextError: The text was redacted.
        """
        return commands.add(self.project, text, by_json(self.by), key)

    def rate(self, name: str, rating: str, *, reason: str = "", key: str | None = None) -> Outcome:
        """Rate an entry ``helpful``, ``harmful`` or ``neutral``.

        Args:
            name: The entry; it may be gone.
            rating: The rating.
            reason: Why, in a few words.
            key: The idempotency key; a later call with the same key rates nothing.

        Raises:
            BadInputError: It is not a rating, or the reason cannot be recorded.
            UnknownEntryError: No entry ever had the name.
        """
        return commands.rate_all(self.project, Rating((name,), rating, reason), by_json(self.by), key)

    def record(self, extraction: Mapping[str, Any], *, key: str | None = None) -> Outcome:
        """Record an extraction result in one batch: new entries and ratings.

        Args:
            extraction: ``{"new_key_points": [TEXT, …], "evaluations": [{"name": NAME, "rating": RATING}, …]}``.
            key: The idempotency key; a later call with the same key records nothing.

        Raises:
            BadInputError: It is not an extraction result.
        """
        return commands.record(self.project, dict(extraction), by_json(self.by), key)

    def undo(self, event: int | str | None = None, *, session: str | None = None, reason: str = "") -> UndoResult:
        """Undo an event by its number or id, all events of a session, or else the last change.

        Raises:
            BadInputError: There is no such event or session, or it cannot be undone.
            NothingToDoError: It is undone already, or there is nothing to undo.
        """
        from tallybook.projections.surfaces.writing import curation

        target = None if event is None else str(event)
        return curation.undo(self.project, target, session, reason, by_json(self.by))

    def entries(self, *, at: int | str | None = None) -> tuple[Entry, ...]:
        """Return the entries of the playbook, now or as of a moment.

        Args:
            at: An event number, or a moment as ``--at`` takes it; None for now, which is the last rendering of
                ``playbook.json`` where lines of a shared book are missing, and a warning says so.

        Raises:
            BadInputError: There is no such moment.
        """
        found = commands.playbook(self.project, None if at is None else str(at))
        for note in found.notes if at is None else ():
            warnings.warn(note, stacklevel=2)
        return tuple(found.state.entries.values())

    def events(
        self,
        *,
        name: str | None = None,
        session: str | None = None,
        kinds: Iterable[str] = (),
        since: int = 0,
        until: int | None = None,
    ) -> Iterator[EventRecord]:
        """Yield the events of the ledger in order, undone ones included.

        Args:
            name: Only events about this entry.
            session: Only events of this session.
            kinds: Only these kinds, such as ``point.rated``, or families, such as ``point.*``.
            since: Only events after this event number.
            until: Only events up to and including this event number.

        Raises:
            UnknownEntryError: No event is about the entry.
        """
        log = reading.open_log(self.project)
        if reading.log_with_book(log) and (since or until is not None):
            log = log if until is None else log.at(until)
            earlier = contained_in(log, moments.find(self.project, str(since), "since")) if since else None
            return events.events(log, EventFilter(name, session, kinds=tuple(kinds), is_earlier=earlier))
        wanted = EventFilter(name, session, kinds=tuple(kinds), since=since, until=until)
        return events.events(log, wanted)

    def fold(self, view: View[S], *, at: int | str | None = None) -> S:
        """Return the state of a view after all events, or as of a moment; undone events are left out.

        Args:
            view: Where the fold starts, and what each class of event does to the state.
            at: As for `entries`.

        Raises:
            BadInputError: There is no such moment.
        """
        read, until = commands.up_to(self.project, None if at is None else str(at))
        return fold_history(view, read, until)

    def why(self, words: str, *, at: int | str | None = None) -> dict[str, Any]:
        """Return the story of an entry as ``tallybook why --json`` prints it.

        Args:
            words: Its name, or words of its text.
            at: As for `entries`.

        Raises:
            UnknownEntryError: No entry ever had the name or the words.
            AmbiguousEntryError: The words fit several entries; ``matches`` lists them.
        """
        story, more = commands.why(self.project, words, None if at is None else str(at))
        if story["status"] == "unknown":
            raise UnknownEntryError(words)
        return plain(story | more)
