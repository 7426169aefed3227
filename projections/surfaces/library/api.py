"""The ledger of one project as an object: each method calls the function that the verb of its name calls.

Every method raises `TallybookError` and nothing else, arguments of another type included; the message begins with the
argument's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
import json
import os
from typing import Any, Final, Literal, TypeAlias, TypeVar
import warnings

import attrs

from tallybook.ledger.decisions.curation import Curation
from tallybook.ledger.decisions.update import text_fault
from tallybook.ledger.errors import (
    BadInputError,
    CannotWriteError,
    DamagedLedgerError,
    LockHeldError,
    NewerLedgerError,
    NothingToDoError,
    OutcomeUnknownError,
    TallybookError,
    UnknownEntryError,
)
from tallybook.ledger.events import EVENT_TYPES, Entry, Event
from tallybook.ledger.records import Author, Batch, EventRecord
from tallybook.ledger.sharing.numbers import plain
from tallybook.ledger.storage.redacted_digests import RedactedTextError
from tallybook.projections.history.event_rows import EventFilter, author_json, is_of_kind
from tallybook.projections.playbook.fold import State, View, fold_history
from tallybook.projections.surfaces.history import moments, playbook_file, stories
from tallybook.projections.surfaces.history.checkpoints import PLAYBOOK_FORM
from tallybook.projections.surfaces.history.moments import Moment
from tallybook.projections.surfaces.history.stories import AmbiguousEntryError
from tallybook.projections.surfaces.workspace.project import Project, find_project
from tallybook.projections.surfaces.writing import commands, curation
from tallybook.projections.surfaces.writing.curation import ProposedError, UndoResult
from tallybook.projections.surfaces.writing.record import Outcome
from tallybook.projections.surfaces.writing.requests import check_provenance

__all__ = ["Author", "Batch", "Entry", "Ledger", "Outcome", "RatingWord", "RecordedEvent", "State", "UndoResult"]
__all__ += ["View", "open"]
__all__ += ["AmbiguousEntryError", "BadInputError", "CannotWriteError", "DamagedLedgerError", "LockHeldError"]
__all__ += ["NewerLedgerError", "NothingToDoError", "OutcomeUnknownError", "ProposedError", "RedactedTextError"]
__all__ += ["TallybookError", "UnknownEntryError"]

S = TypeVar("S", bound=State)
_AGENT: Final = Author("agent")
_MAX_NUMBER: Final = 10**18 - 1
"""No event number is larger."""

RatingWord: TypeAlias = Literal["helpful", "harmful", "neutral"]
"""The ratings that count."""


@attrs.frozen
class RecordedEvent:
    """An event of the ledger with its metadata.

    Attributes:
        seq: Its event number in this ledger.
        at: When it was recorded, in UTC.
        event: The event.
        id: Its UUIDv7, the same in every copy of the ledger.
        by: Who recorded it.
        key: Idempotency key of its batch, on the first event only; None without one.
        when: When it happened, if that was another time; None otherwise.
    """

    seq: int
    at: datetime
    event: Event
    id: str
    by: Author
    key: str | None
    when: datetime | None


def _make_event(record: EventRecord) -> RecordedEvent:
    at = datetime.fromisoformat(record.at)
    when = None if record.when is None else datetime.fromisoformat(record.when)
    return RecordedEvent(record.seq, at, record.event, record.id, record.by, record.key, when)


def open(project: str | os.PathLike[str] | None = None, *, by: Author = _AGENT) -> Ledger:  # noqa: A001 - as in `dbm.open`
    """Return the ledger of a project; nothing is created before the first write.

    Args:
        project: The project's folder; None for the one that ``CLAUDE_PROJECT_DIR`` or the current folder lies in.
        by: Who records through this ledger.

    Raises:
        BadInputError: There is no such folder, None leads to the root folder or the home folder, or ``by`` names an
            unknown rater.
    """
    check(str | os.PathLike | None, project=project)
    return Ledger(find_project(project), by)


class Ledger:
    """The ledger of one project.

    It keeps no file open and remembers nothing, so that it always answers with what other processes wrote as well.

    Attributes:
        project: The paths of the project.
        by: Who records.
    """

    def __init__(self, project: Project, by: Author = _AGENT) -> None:
        """Take the project and who records; `open` finds the project."""
        check(Project, project=project)
        check(Author, by=by)
        check_provenance(author_json(by))
        self.project = project
        self.by = by

    def add(self, text: str, *, until: str | None = None, key: str | None = None) -> Outcome:
        """Add an entry.

        Args:
            text: The guidance.
            until: The last day on which it is injected, in UTC, as ``2026-12-31``; None for no end.
            key: The idempotency key; the same call again adds nothing, and another one under it is refused.

        Raises:
            BadInputError: The text cannot be an entry, or ``until`` is no day.
            NothingToDoError: An entry has this text, but for case, white space and final punctuation.
            RedactedTextError: The text was redacted.
            UsedKeyError: The key was used for another payload.
        """
        check(str, text=text)
        check(str | None, until=until, key=key)
        return commands.add(self.project, {"text": text, "until": until} if until else text, author_json(self.by), key)

    def rate(self, name: str, rating: RatingWord, *, reason: str = "", key: str | None = None) -> Outcome:
        """Rate an entry ``helpful``, ``harmful`` or ``neutral``.

        Args:
            name: The entry; it may be gone.
            rating: The rating.
            reason: Why, in a few words.
            key: The idempotency key; the same call again rates nothing, and another one under it is refused.

        Raises:
            BadInputError: It is not a rating, or the reason cannot be recorded.
            UnknownEntryError: No entry ever had the name.
            UsedKeyError: The key was used for another payload.
        """
        check(str, name=name, rating=rating, reason=reason)
        check(str | None, key=key)
        # People mistype, so a name that no entry had is refused; record keeps it, because a reflector's words are
        # evidence.
        return commands.rate(self.project, name, rating, author_json(self.by), key, reason=reason)

    def record(self, extraction: Mapping[str, Any], *, key: str | None = None) -> Outcome:
        """Record an extraction result in one batch: new entries and ratings.

        Args:
            extraction: ``{"new_key_points": [TEXT, …], "evaluations": [{"name": NAME, "rating": RATING}, …]}``.
            key: The idempotency key; the same call again records nothing, and another one under it is refused.

        Raises:
            BadInputError: It is not an extraction result, or not JSON.
            UsedKeyError: The key was used for another payload.
        """
        check(Mapping, extraction=extraction)
        check(str | None, key=key)
        # The spool keeps payloads as JSON, so one that is none is refused whether or not it has to wait there.
        return commands.record(self.project, read_json(extraction=dict(extraction)), author_json(self.by), key)

    def retire(self, name: str, *, reason: str = "") -> Outcome:
        """Take an entry out of the playbook; `restore` brings it back.

        Raises:
            UnknownEntryError: No entry ever had the name.
            NothingToDoError: The entry is not in the playbook.
            ProposedError: The program runs inside an agent and the entry is protected: it was only proposed.
        """
        return self._curate("retire", name, reason)

    def restore(self, name: str, *, reason: str = "") -> Outcome:
        """Bring back an entry that was retired or pruned, with its name and its counts.

        Raises:
            UnknownEntryError: No entry ever had the name.
            NothingToDoError: The entry is in the playbook, or was merged.
        """
        return self._curate("restore", name, reason)

    def pin(self, name: str, *, reason: str = "") -> Outcome:
        """Pin an entry: it is never pruned.

        Raises:
            UnknownEntryError: No entry ever had the name.
            NothingToDoError: The entry is pinned already, or not in the playbook.
        """
        return self._curate("pin", name, reason)

    def unpin(self, name: str, *, reason: str = "") -> Outcome:
        """Unpin an entry.

        Raises:
            UnknownEntryError: No entry ever had the name.
            NothingToDoError: The entry is not pinned.
            ProposedError: The program runs inside an agent: it was only proposed.
        """
        return self._curate("unpin", name, reason)

    def reword(self, name: str, text: str | None = None, *, until: str | None = None, reason: str = "") -> Outcome:
        """Change the text of an entry, or its last day; its name and its counts stay.

        Args:
            name: The entry.
            text: The new text; None to leave it.
            until: The new last day, as for `add`, or ``never``; None to leave it.
            reason: Why.

        Raises:
            BadInputError: Neither was given, or ``until`` is no day.
            UnknownEntryError: No entry ever had the name.
            NothingToDoError: The entry is not in the playbook, or an entry has this text.
            ProposedError: The program runs inside an agent and the entry is protected: it was only proposed.
        """
        check(str | None, text=text, until=until)
        if text is None and until is None:
            raise BadInputError("reword", "needs a text or until", "give one of them; nothing was recorded")
        return self._curate("reword", name, reason, text=text or "", until=until or "")

    def merge(self, name: str, *merged: str, reason: str = "") -> Outcome:
        """Merge entries into the entry ``name``, which gets their counts and their later ratings.

        Raises:
            BadInputError: No entry to merge was named, or the entry itself.
            UnknownEntryError: No entry ever had one of the names.
            NothingToDoError: An entry is not in the playbook.
            ProposedError: The program runs inside an agent and an entry is protected: it was only proposed.
        """
        for source in merged:
            check(str, merged=source)
        if not merged:
            raise BadInputError("merged", "names no entry", "nothing was recorded")
        return self._curate("merge", name, reason, sources=merged)

    def _curate(self, verb: str, name: str, reason: str, **parts: Any) -> Outcome:
        check(str, name=name, reason=reason)
        wish = Curation(verb, name, reason, **parts)
        outcome, proposed = curation.make_or_propose(self.project, wish, author_json(self.by))
        if proposed is not None:
            raise proposed
        return outcome

    def undo(self, event: int | str | None = None, *, session: str | None = None, reason: str = "") -> UndoResult:
        """Undo an event by its number or id, all events of a session, or else the last change.

        Raises:
            BadInputError: There is no such event or session, or it cannot be undone.
            NothingToDoError: It is undone already, or there is nothing to undo.
        """
        check(int | str | None, event=event)
        check(str | None, session=session)
        check(str, reason=reason)
        if event is not None and session is not None:
            raise BadInputError("undo", "takes either event or session", "give one of them; nothing was recorded")
        target = None if event is None else str(event)
        return curation.undo(self.project, target, session, reason, author_json(self.by))

    def entries(self, *, at: int | str | None = None) -> tuple[Entry, ...]:
        """Return the entries of the playbook, now or as of a moment.

        Args:
            at: An event number, or a moment as ``--at`` takes it; None for now, which is the last rendering of
                ``playbook.json`` where lines of a shared book are missing, and a warning says so.

        Raises:
            BadInputError: There is no such moment.
        """
        check(int | str | None, at=at)
        if at is not None:
            return tuple(playbook_file.fold_as_of(self.project, PLAYBOOK_FORM, str(at), "at").state.entries.values())
        shown = commands.playbook(self.project)
        for note in shown.notes:
            warnings.warn(note, stacklevel=2)
        return tuple(shown.state.entries.values())

    def events(
        self,
        *,
        name: str | None = None,
        session: str | None = None,
        kinds: Iterable[str] = (),
        since: int = 0,
        until: int | None = None,
    ) -> Iterator[RecordedEvent]:
        """Yield the events of the ledger in order, undone ones included.

        Args:
            name: Only events about this entry.
            session: Only events of this session.
            kinds: Only these kinds, such as ``point.rated``, or families, such as ``point.*``.
            since: Only events after this event number.
            until: Only events up to and including this event number.

        Raises:
            BadInputError: There is no such kind.
            UnknownEntryError: No event is about the entry.
        """
        check(str | None, name=name, session=session)
        check(int, since=since)
        check(int | None, until=until)
        wanted = EventFilter(name, session, kinds=_select_known_kinds(kinds), since=since, until=until)
        return map(_make_event, moments.select_records(self.project, wanted))

    def fold(self, view: View[S], *, at: int | str | None = None) -> S:
        """Return the state of a view after all events, or as of a moment; undone events are left out.

        Args:
            view: Where the fold starts, and what each class of event does to the state.
            at: As for `entries`.

        Raises:
            BadInputError: There is no such moment.
        """
        check(View, view=view)
        return fold_history(view, moments.history_at(self.project, self._moment(at)))

    def why(self, words: str, *, at: int | str | None = None) -> dict[str, Any]:
        """Return the story of an entry as ``tallybook why --json`` prints it.

        Args:
            words: Its name, or words of its text.
            at: As for `entries`.

        Raises:
            UnknownEntryError: No entry ever had the name or the words.
            AmbiguousEntryError: The words fit several entries; ``matches`` lists them.
        """
        check(str, words=words)
        story = commands.why(self.project, words, self._moment(at))
        if story["status"] == "unknown":
            raise UnknownEntryError(words)
        return plain(story)

    def diff(self, first: int | str, second: int | str | None = None) -> dict[str, Any]:
        """Return what changed in the playbook between two moments as ``tallybook diff --json`` prints it.

        Args:
            first: The earlier moment, as for `entries`.
            second: The later one; None for now.

        Raises:
            BadInputError: There is no such moment.
        """
        check(int | str, first=first)
        check(int | str | None, second=second)
        when = None if second is None else str(second)
        return plain(stories.compare(self.project, str(first), when).json())

    def _moment(self, at: int | str | None) -> Moment | None:
        check(int | str | None, at=at)
        return None if at is None else moments.find(self.project, str(at), "at")


def _select_known_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return kinds, each a kind or a family that this Tallybook knows.

    Raises:
        BadInputError: There is none of that name.
    """
    # A text is iterable as well: each of its characters would be taken for a kind.
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise BadInputError("kinds", f"expected several kinds, got {type(kinds).__name__}", 'such as ["point.rated"]')
    wanted = tuple(kinds)
    for kind in wanted:
        check(str, kinds=kind)
        if not any(is_of_kind(known, kind) for known in EVENT_TYPES):
            raise BadInputError("kinds", f"{kind!r} is not a kind", "a kind is point.rated, a family is point.*")
    return wanted


# The checks of arguments: one that cannot be used is refused by its name


def check_type(kind: Any, **arguments: object) -> None:
    """Refuse arguments of another type.

    Args:
        kind: A class, or several as ``int | str | None``.
        arguments: Name → value.

    Raises:
        BadInputError: One is of another type; the message begins with its name.
    """
    for name, value in arguments.items():
        # To Python a bool is an int; no argument is meant to be one.
        if isinstance(value, bool) or not isinstance(value, kind):
            expected = getattr(kind, "__name__", kind)
            raise BadInputError(name, f"expected {expected}, got {type(value).__name__}", "nothing was recorded")


def check(kind: Any, **arguments: object) -> None:
    """Refuse arguments of another type, empty texts, texts that are not Unicode, and what is no event number.

    An empty ``reason`` is no reason, and passes. Otherwise as `check_type`.
    """
    check_type(kind, **arguments)
    for name, value in arguments.items():
        fault = None
        if isinstance(value, int) and not 0 <= value <= _MAX_NUMBER:
            fault = "is not an event number"
        elif isinstance(value, str) and (value or name != "reason"):
            fault = text_fault(value)
        if fault is not None:
            raise BadInputError(name, fault, "nothing was recorded")


def read_json(**arguments: object) -> Any:
    """Return the value of the only argument as JSON reads it back: with lists for tuples.

    Raises:
        BadInputError: It is not JSON.
    """
    [(name, value)] = arguments.items()
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInputError(name, f"is not JSON: {error}", "nothing was recorded") from error
