"""WHEN on the command line: the moment of history that it names, with notes on how it was found; events and writers.

A moment is an event number: the state after that event. For a time, an age, a session or a commit, this module searches
the bytes of the log and decodes only the events that decide the moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
import re
from typing import TYPE_CHECKING, Final

import attrs

from tallybook.ledger import clock
from tallybook.ledger.codec import decode, parse_head, parse_session
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.line import SECTION, RawBatch, head_field
from tallybook.ledger.names import format_names
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.scan import bytes_of
from tallybook.ledger.sharing import numbers
from tallybook.ledger.storage import redaction
from tallybook.projections.history.event_rows import EventFilter
from tallybook.projections.surfaces.console.output import format_count, format_time
from tallybook.projections.surfaces.history.reading import has_book, open_log, search
from tallybook.projections.surfaces.workspace.project import Project

if TYPE_CHECKING:
    from tallybook.ledger.log import JsonlLog, Log
    from tallybook.projections.surfaces.workspace.git import Commit, Copy

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_BACK = re.compile(r"~([0-9]+)")
_DAY = re.compile(r"((?:19|20)[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_SESSION: Final = "session:"
_COMMIT: Final = "git:"
# A number of more digits is beyond any ledger, and Python refuses to read one of thousands.
_SEQ_DIGITS = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HINT = "use an event number, ~N, a date, an age such as 2d, session:ID or git:REV"


@attrs.frozen
class Moment:
    """A place in a history.

    Attributes:
        seq: The last event in it, 0 for none. One inside a batch shows the state before that batch.
        read: Reads that history from its beginning to the moment: the project's, or that of a commit's ledger.
        named: What it was found by, where that says more than its number and time: "before session s1 began".
        notes: Notes for a person, a line each.
        commit: The commit whose own history it is a moment of; empty for the project's.
        in_book: The event number of the book of which it is a moment, None for one of this machine.
    """

    seq: int
    read: Callable[[], Iterable[RawBatch]]
    named: str = ""
    notes: tuple[str, ...] = ()
    commit: str = ""
    in_book: int | None = None

    @property
    def is_apart(self) -> bool:
        """Return whether it is a moment of another history than this machine's: of a commit, or of the book."""
        return bool(self.commit) or self.in_book is not None

    def history(self) -> Iterator[Batch]:
        """Yield its history, from the beginning to the moment, as folds take it."""
        return decode(self.read())


@attrs.frozen
class SessionSpan:
    """The range of a session's events.

    Attributes:
        session: Its whole id.
        first: Number of its first event.
        last: Number of the last event of its last batch.
        own: How many events in between, both included, are its own.
    """

    session: str
    first: int
    last: int
    own: int


@attrs.frozen
class _Question:
    """A WHEN, and where to look it up.

    Attributes:
        log: The ledger.
        when: What was typed.
        project: The project in whose repository commits are looked up.
        option: What an error calls it.
    """

    log: JsonlLog
    when: str
    project: Project
    option: str

    def refusal(self, problem: str, hint: str = "") -> BadInputError:
        """Return the error that says why there is no such moment."""
        return BadInputError(f"{self.option} {self.when}", problem, hint)

    def moment(self, seq: int, named: str = "", notes: tuple[str, ...] = ()) -> Moment:
        """Return a moment of the ledger."""
        return Moment(seq, lambda: takewhile(lambda batch: batch.last <= seq, self.log.read()), named, notes)


def find(project: Project, when: str, option: str = "--at", log: JsonlLog | None = None) -> Moment:
    """Return the moment of a project's history that a WHEN names.

    Args:
        project: The project.
        when: ``812``; ``~3``, so many events back from the end; ``2026-11-21`` (its first moment) or
            ``2026-11-21T20:17``, UTC without a zone; an age such as ``2d``; ``session:ID``, before its first event, or
            ``session:ID+``, after its last, the id or the beginning of it; ``git:REV``. As of a time is the largest
            event number recorded at or before it.
        option: What an error calls it.
        log: The project's ledger where it is open already.

    Raises:
        BadInputError: It is none of these, it is ambiguous, or there is no such event, session or commit.
    """
    log = log or open_log(project)
    number = numbers.parse_book_number(when)
    if not has_book(log):
        if number is not None:
            raise BadInputError(f"{option} {when}", "this project shares no book", "see `tallybook share --help`")
        return _find(_Question(log, when, project, option))
    if number is not None:
        # The moment of the book alone after one of its events, which is the same on every machine.
        end = log.history.frontier.seq
        if number > end:
            hint = "run `tallybook sync`"
            raise BadInputError(f"{option} {when}", f"the playbook contains the book up to book:{end}", hint)
        from tallybook.projections.surfaces.history.shared_log import renumber

        begin = numbers.BOOK

        def read() -> Iterator[RawBatch]:
            return (renumber(raw, range(begin + raw.first, begin + raw.last + 1)) for raw in log.read_book(number))

        return Moment(numbers.SharedNumber(begin + number), read, in_book=number)
    # Any other moment of a shared history is an event number of the own ledger.
    moment = _find(_Question(log.own, when, project, option))
    return moment if moment.commit else attrs.evolve(moment, read=log.open_at(moment.seq).read)


def find_here(project: Project, when: str, option: str) -> Moment:
    """Return the moment of the project's own ledger that a WHEN names, as ``find``.

    Raises:
        BadInputError: As ``find``; or it is a moment of a commit's own ledger, or of the book.
    """
    moment = find(project, when, option)
    if moment.commit:
        raise BadInputError(f"{option} {when}", f"is {moment.named}", "give the commit's date and time")
    if moment.in_book is not None:
        what = "is a moment of the book, not of this machine"
        raise BadInputError(f"{option} {when}", what, "give its date and time")
    return moment


def _find(question: _Question) -> Moment:
    when, log = question.when, question.log
    if when.isascii() and when.isdigit():
        seq = int(when[: _SEQ_DIGITS + 1])
        if seq > log.head().seq and seq > (end := _end(log)):
            day = _DAY.fullmatch(when)
            hint = f"the date is written {'-'.join(day.groups())}" if day else ""
            raise question.refusal(f"the ledger ends at seq {end}" if end else "the ledger has no event yet", hint)
        return question.moment(seq)
    if back := _BACK.fullmatch(when):
        end, number = _end(log), int(back[1][: _SEQ_DIGITS + 1])
        if number > end:
            raise question.refusal(f"the ledger has {end} events", f"the furthest back is ~{end}, before the first")
        return question.moment(end - number)
    if when.startswith(_SESSION):
        prefix = when.removeprefix(_SESSION)
        span = find_session_span(log, prefix.removesuffix("+"), f"{question.option} {when}")
        if not prefix.endswith("+"):
            return question.moment(span.first - 1, f"before session {span.session} began")
        others = span.last - span.first + 1 - span.own
        note = f"of events {span.first} to {span.last}, {others} did not come from session {span.session}"
        return question.moment(span.last, f"after session {span.session}", (note,) if others else ())
    if when.startswith(_COMMIT):
        return _find_in_commit(question)
    return _as_of_time(question, _unix_us(question))


def _end(log: Log) -> int:
    """Return the last event number; the head of the log may be late, or missing."""
    head = log.head()
    return max([head.seq, *(batch.last for batch in log.read(head))])


# Times


def _as_of_time(question: _Question, unix_us: int, named: str = "") -> Moment:
    """Return the largest sequence number recorded at or before a time, also where the clock ran back meanwhile."""
    at = clock.moment(unix_us).at
    seq = later_count = within = last = 0
    first_at = last_at = ""
    # Clocks run back, so the search does not end at the first later time.
    for batch in question.log.read():
        # All events of a batch have one time.
        last, last_at = batch.last, head_field(batch.lines[0], b"at")
        first_at = first_at or last_at
        if last_at > at:
            later_count += batch.last - batch.first + 1
        else:
            seq, within = last, later_count
    notes = []
    if last and not seq:
        notes.append(f"{question.when} is before the ledger's first event, {format_time(first_at)}")
    if last and unix_us > question.log.now().unix_us:
        notes.append(f"{question.when} has not come yet; the ledger's last event is {last}, {format_time(last_at)}")
    if within:
        which = f"{format_count(within, 'event')} up to event {seq} have a later time than {format_time(at)}"
        notes.append(f"the clock ran back: {which}")
    return question.moment(seq, named, tuple(notes))


def _unix_us(question: _Question) -> int:
    when = question.when
    if age := _AGE.fullmatch(when):
        return max(question.log.now().unix_us - int(age[1]) * _UNITS_S[age[2]] * clock.MICROSECONDS, 0)
    try:
        # Answers show times so, and what they show is accepted.
        moment = datetime.fromisoformat(when.removesuffix(" UTC"))
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return (utc - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise BadInputError(question.option, f"{question.when!r} is not a moment", _HINT) from error


# Sessions


def find_session_span(log: Log, beginning: str, where: str) -> SessionSpan:
    """Return the session with an id, or else the only one whose id begins with it.

    Args:
        log: The ledger.
        beginning: The id, or the beginning of one.
        where: What an error calls it.

    Raises:
        BadInputError: There is none, or there are several.
    """
    spans = find_session_spans(log, beginning)
    # A whole id counts, also where another one begins with it.
    if beginning in spans:
        return spans[beginning]
    if not beginning or not spans:
        problem = "no session has an id that begins with it" if beginning else "names no session"
        span = max(find_session_spans(log, "").values(), key=lambda span: span.last, default=None)
        latest = span and f"the last is {span.session!r}, events {span.first} to {span.last}"
        raise BadInputError(where, problem, latest or "no event in this ledger has a session")
    if len(spans) > 1:
        names = format_names([*map(repr, spans)], 5)
        raise BadInputError(where, f"several sessions have an id that begins with it: {names}", "give more of the id")
    return next(iter(spans.values()))


def find_session_spans(log: Log, beginning: str) -> dict[str, SessionSpan]:
    """Return the sessions whose id begins with something, by their whole id, in the order they began."""
    needle = bytes_of("session", beginning)[:-1]
    spans: dict[str, SessionSpan] = {}
    for batch in search(log, (needle,)):
        for seq, line in enumerate(batch.lines, batch.first):
            head = line.partition(SECTION)[0]
            form = parse_head(head) if needle in head else None
            session = None if form is None else parse_session(form.by)
            if session is not None and session.startswith(beginning):
                before = spans.get(session, SessionSpan(session, numbers.format_shared_number(seq), seq, 0))
                spans[session] = attrs.evolve(before, last=batch.last, own=before.own + 1)
    return spans


# Commits


def _find_in_commit(question: _Question) -> Moment:
    """Return the end of the ledger in a commit, or without one the moment of the commit."""
    from tallybook.projections.surfaces.workspace import git

    project = question.project
    try:
        # In a linked worktree HEAD is that of the folder where the command is typed.
        commit = git.commit_of(project.start or project.root, question.when.removeprefix(_COMMIT))
        # The commit's own ledger is more exact than its time: later events of the same second do not belong to it.
        if (blob := git.ledger_blob(commit, project)) is not None:
            with git.ledger_of(blob, project) as copy:
                return _find_in_copy(question, copy, commit)
    except git.FAILURES as error:
        raise question.refusal(git.no_commit(error), "give a time or a number") from error
    named = f"the last before commit {commit.name} of {format_time(clock.moment(commit.unix_us).at)}"
    return _as_of_time(question, commit.unix_us, named)


def _find_in_copy(question: _Question, copy: Copy, commit: Commit) -> Moment:
    """Return the end of a commit's own ledger: a moment of the project's ledger where that continues it.

    Texts that were redacted since are left out of the copy in git as well.
    """
    try:
        end = next(iter(deque(copy.read(), 1)), None)
    except ValueError as error:
        hint = f"give the time it was committed at, {clock.moment(commit.unix_us).at}"
        raise question.refusal(f"the ledger in commit {commit.name} {error}", hint) from error
    named = f"the end of the ledger in commit {commit.name}"
    if end is None:
        return question.moment(0, named)
    redacted, ours = set(copy.pending_ids), (0, "")
    for batch in question.log.read():
        ours = (batch.last, batch.chain)
        if ours == (end.last, end.chain):
            return question.moment(end.last, named)
        redacted.update(redaction.read_redacted_ids(batch))
    batches = list(copy.read(redacted))
    continues = not ours[0] or any((batch.last, batch.chain) == ours for batch in batches)
    relation = "goes on where this one ends" if continues else "has another history than this one"
    return Moment(end.last, lambda: batches, f"{named}, which {relation}", commit=commit.name)


# ---- Events and writers that people name ----

_MAX_DIGITS: Final = 11


def find_event(log: Log, target: str) -> str:
    """Return the id of the event that an own number or ``book:N`` names; in a ledger without a book, the text itself.

    An own number also names an event that is in the book meanwhile.

    Raises:
        BadInputError: There is no such event.
    """
    number = numbers.parse_book_number(target)
    if not has_book(log):
        if number is not None:
            raise BadInputError(f"event {target}", "this project shares no book", "see `tallybook log`")
        return target
    if number is not None:
        found = _id_at(log, numbers.BOOK + number) if number <= log.history.frontier.seq else None
    elif target.isdecimal() and len(target) <= _MAX_DIGITS:
        found = _id_at(log.own, int(target))
    else:
        return target
    if found is None:
        raise BadInputError(f"event {target}", "is not in the ledger", "see `tallybook log`")
    return found


def find_number(log: Log, target: str) -> int:
    """Return the number in a shared history of the event that an own number or ``book:N`` names.

    Raises:
        BadInputError: There is no such event.
    """
    id_ = find_event(log, target)
    for batch in decode(log.read()):
        if batch.may_contain_text(id_):
            for record in batch.records:
                if numbers.own_id(record.id) == numbers.own_id(id_):
                    return record.seq
    raise BadInputError(f"event {target}", "is not in the shared history", "see `tallybook log`")


def _id_at(log: Log, seq: int) -> str | None:
    for batch in decode(log.read()):
        if batch.last >= seq:
            return next((record.id for record in batch.records if record.seq == seq), None)
    return None


def find_writers(log: Log, wanted: str, option: str) -> frozenset[str]:
    """Return the writers of the book with a label, given without its random characters or by its user alone.

    Raises:
        BadInputError: There is none, or the project shares no book.
    """
    if not has_book(log):
        raise BadInputError(f"{option} {wanted}", "this project shares no book", "see `tallybook share --help`")
    # A batch of the book is of one machine, so its first line is enough.
    writers = {record.by.writer for batch in decode(log.read_book()) for record in batch.records[:1]} - {None}
    # Whole parts between hyphens: a name is not the beginning of another one.
    found = frozenset(writer for writer in writers if writer and f"{writer}-".startswith(f"{wanted}-"))
    if not found:
        names = ", ".join(sorted(writer for writer in writers if writer)) or "none yet"
        raise BadInputError(f"{option} {wanted}", "is not a writer of the book", f"its writers: {names}")
    return found


def make_containment_test(moment: Moment) -> Callable[[EventRecord], bool]:
    """Return a function that says whether an event was in the history of a moment of a shared ledger."""
    ids = {numbers.own_id(head_field(line, b"id")) for batch in moment.read() for line in batch.lines}
    number, end = numbers.own_number, 0 if moment.commit else moment.seq
    if moment.in_book is not None:
        number, end = numbers.book_number, moment.in_book
    # A history has whole batches, and the moment may be inside one.
    return lambda record: numbers.own_id(record.id) in ids or 0 < (number(record.seq) or 0) <= end


def history_at(project: Project, moment: Moment | None) -> Callable[[], Iterator[Batch]]:
    """Return a reader of history, from its beginning to a moment, None for its end."""
    return (lambda: decode(open_log(project).read())) if moment is None else moment.history


def select_records(project: Project, wanted: EventFilter) -> Iterator[EventRecord]:
    """Yield the events that pass a filter, whose bounds are event numbers of this machine.

    Raises:
        UnknownEntryError: No event is about the entry.
        BadInputError: There is no such event number.
    """
    from tallybook.projections.surfaces.history import events

    log, since, until = open_log(project), wanted.since, wanted.until
    if has_book(log) and (since or until is not None):
        log = log if until is None else log.open_at(until)
        earlier = make_containment_test(find(project, str(since), "since")) if since else None
        wanted = attrs.evolve(wanted, since=0, until=None, is_earlier=earlier)
    return events.events(log, wanted)
