"""Redaction: find the events and files of a project that hold a text, and erase it from all of them.

A redaction is noted under the ledger's lock. Then its events are appended, the text is overwritten in the files, and
last in the log. Any command that writes finishes one that was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import attrs

from tallybook.ledger import codec, errors
from tallybook.ledger.decisions.update import text_fault
from tallybook.ledger.events import Event, LogRecovered, RedactionLinked
from tallybook.ledger.line import FREE_MARK, KNOWN_RATERS, SEAL, RawBatch, first_seq, join_chained_bytes
from tallybook.ledger.log import JsonlLog, Transaction
from tallybook.ledger.playbook_constants import REDACTED
from tallybook.ledger.records import EventRecord
from tallybook.ledger.sharing.landing import SHARED, redaction_links
from tallybook.ledger.sharing.numbers import BOOK, format_shared_number
from tallybook.ledger.storage import disk, redacted_digests, redaction
from tallybook.ledger.storage.redacted_digests import MIN_TEXT_CHARS
from tallybook.ledger.storage.redaction import NOTHING_PENDING
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace import personal
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import erasure
from tallybook.projections.surfaces.writing import record as recording
from tallybook.projections.surfaces.writing.erasure import RedactionResult, TextSearch
from tallybook.projections.surfaces.writing.requests import check_provenance

NOTHING = "nothing was redacted"


class NothingToRedactError(errors.TallybookError):
    """Neither an event nor a file holds the text."""

    exit_code = errors.EXIT_NO

    def __init__(self, what: str, mine: Path | None = None) -> None:
        """Name the text or the event, and the person's own playbook if that holds it."""
        hint = f"; your own playbook, {mine}, does: redact it with --mine" if mine else ""
        super().__init__(f"{what}: no event and no file of Tallybook in this project contains it{hint}")


class UnexpectedNumberError(errors.BadInputError):
    """A text is in another number of events than was expected, or no number was given."""

    def __init__(self, number: int) -> None:
        """Name the number and the options that redact them."""
        what = f"the text is in {number} event{'' if number == 1 else 's'}, and what is redacted cannot be restored"
        super().__init__("--expect", what, f"list them with --dry-run, then give --yes --expect {number}; {NOTHING}")


@attrs.frozen
class RedactionTarget:
    """What to redact: the text of one event, or a text wherever it occurs.

    Attributes:
        event: An event's id or sequence number, None where a text is given.
        text: The text, None where an event is given.
    """

    event: str | None = None
    text: str | None = None


def find_text(project: Project, target: RedactionTarget) -> RedactionResult:
    """Return what would be redacted, the spool and a manual edit included; nothing is written."""
    texts = _texts(project, reading.open_log(project).read(), target)
    return _require_match(_find(project, texts, target.event), target)


def _find(project: Project, texts: Collection[str], event: str | None) -> RedactionResult:
    """Return what holds one of these texts; ``event`` is the id or number of an event that is redacted in any case."""
    log, done = reading.open_log(project), erasure.search_files(project, texts, overwriting=False)
    pending = recording.preview(project, log)
    done.events, done.bodies = _search_all(log, texts, event, pending)
    ids = {record.id for record in _iter_records(pending)}
    done.unrecorded = sum(event.id in ids for event in done.events)
    # It is rendered again; a manual edit is recorded first.
    erasure.search_file(done, project.playbook, erasure.READ, TextSearch(texts))
    return _complete(project, texts, done)


def _complete(project: Project, texts: Collection[str], done: RedactionResult) -> RedactionResult:
    """Return a result with the events that hold only what looks the same, and the person's own playbook."""
    wanted = TextSearch(texts)
    # A sealed range is not told apart.
    events = [event.event for event in done.events if texts and not isinstance(event.event, LogRecovered)]
    done.alike = sum(not any(map(wanted.is_spelled_in, codec.texts_of(event).values())) for event in events)
    mine = personal.find(project)
    try:
        if mine is not None and not _find(mine, texts, None).is_empty:
            done.mine = mine.root
    except errors.TallybookError as error:
        done.unsearched.append(f"your own playbook: {error}")
    return done


def check_reason(project: Project, target: RedactionTarget, reason: str, by: Mapping[str, str]) -> None:
    """Refuse a reason or provenance that holds what is to be redacted, or that no event could carry.

    Raises:
        BadInputError: It does, or the target is not a text that can be redacted.
    """
    _check(reason, by, _texts(project, reading.open_log(project).read(), target))


def redact(
    project: Project, target: RedactionTarget, reason: str, by: Mapping[str, str], expected: int | None = None
) -> RedactionResult:
    """Erase a text from the ledger and from every file of the project.

    Args:
        project: The project.
        target: What to redact.
        reason: Why; stored in the ledger.
        by: Who redacts it.
        expected: How many events someone was shown; where others hold it, nothing is redacted. None where a person
            confirmed it.

    Raises:
        BadInputError: The event has no text, the text is too short, the reason repeats it, or the number differs.
        NothingToRedactError: Nothing holds it.
        TallybookError: The ledger is held, damaged, or could not be written.
    """
    _check(reason, by, ())
    # The spool and a manual edit become events first, and are searched with the others.
    if recording.write(project, []).state is None:
        raise errors.LockHeldError(project.ledger, disk.LOCK_WAIT_MS)
    with closing(reading.open_log(project)) as log:
        if not log.exists():
            # It raises if nothing holds the text, so that no ledger is created.
            find_text(project, target)
        with log.transaction() as tx:
            texts = _texts(project, tx.read(), target)
            _check(reason, by, texts)
            events, bodies = _search_all(log, texts, target.event)
            before = redaction.read_pending(log.folder) or NOTHING_PENDING
            # The events of a redaction that could not be finished hold the text no more.
            if expected not in {None, len(events)} and not {*texts} <= {*before.texts}:
                find_text(project, target)
                raise UnexpectedNumberError(len(events))
            found = RedactionResult(events) if events else erasure.search_files(project, texts, overwriting=False)
            if found.events or found.files or found.remaining:
                _remember(log, target.text, events)
            if reading.has_book(log):
                _append_links(tx, _find_links(events), by)
            redaction.add_pending(log.folder, (event.id for event in events), texts, reason, by)
        done = erasure.finish(project, log)
    done.events, done.bodies = events, bodies
    try:
        error: Exception | None = recording.write(project, []).unrendered
    except errors.TallybookError as failed:
        error = failed
    erasure.search_file(rendered := RedactionResult(), project.playbook, erasure.READ, TextSearch(texts))
    if not rendered.is_empty:
        why = f" ({error})" if error else ""
        done.remaining.append(f"{project.playbook}: still holds it{why}; `tallybook replay` writes it")
    return _require_match(_complete(project, texts, done), target)


def redact_linked(project: Project, ids: Collection[str], by: Mapping[str, str]) -> None:
    """Erase what a shared book redacts, what brings back a text redacted here, and own texts that are equal to it.

    Args:
        project: The project.
        ids: Ids of the events that are redacted.
        by: Who records it.
    """
    # Also in a first sync, before the own ledger says that it is in a book.
    with closing(reading.open_own_log(project)) as log:
        # All copies: another history of the book is read before it becomes the present one.
        rows = [*log.read(), *_read_copies(erasure.list_copies(log.folder))]
        known = redacted_digests.load(log.folder)
        texts = {
            text
            for record in _iter_records(rows)
            if record.id in ids
            for text in codec.texts_of(record.event).values()
            # A manual edit that left the text has that of its entry, which others may have changed.
            if getattr(record.event, "change", "") != "kept" or known.refusal(text) is not None
            # A text that was redacted before it was published equals no other one.
            if text != REDACTED
        }
        records = _iter_records(rows)
        events = {record.id: record for record in records if texts & {*codec.texts_of(record.event).values()}}
        if events:
            with log.transaction() as tx:
                links = redaction_links(rows)
                groups = _find_links(events.values(), rows, known)
                _append_links(tx, (group for group in groups if not any(link.issuperset(group) for link in links)), by)
                _remember(log, None, events.values())
                before = redaction.read_pending(log.folder) or NOTHING_PENDING
                reason = before.reason or "equals a text that was redacted, here or on another machine"
                erasable = (text for text in texts if len(text) >= MIN_TEXT_CHARS)
                redaction.add_pending(log.folder, events, erasable, reason, before.by or by)
        erasure.finish(project, log)


def _read_copies(folders: Iterable[Path]) -> Iterator[RawBatch]:
    """Yield the batches of copies of a shared book, as far as they verify."""
    for folder in folders:
        with suppress(errors.TallybookError):
            yield from JsonlLog(folder).read()


def make_returning_finder(project: Project) -> Callable[[RawBatch], Iterable[str]]:
    """Return a function that yields the ids of a batch's events that bring back a text that was redacted here."""
    redactions = redacted_digests.load(project.ledger)

    def find(batch: RawBatch) -> Iterator[str]:
        if redactions.digests and FREE_MARK in batch.data:
            for record in _iter_records([batch]):
                if any(redactions.refusal(text) is not None for text in codec.texts_of(record.event).values()):
                    yield record.id

    return find


def _append_links(tx: Transaction, groups: Iterable[tuple[str, ...]], by: Mapping[str, str]) -> None:
    """Record which events had the same text, while that can be compared."""
    if links := [codec.encode(RedactionLinked(group)) for group in groups]:
        tx.append(links, by)


def _find_links(
    records: Iterable[EventRecord],
    rows: Iterable[RawBatch] = (),
    known: redacted_digests.Redactions = redacted_digests.NO_REDACTIONS,
) -> list[tuple[str, ...]]:
    """Return the ids of shared events whose texts are equal, with those that had the same text before.

    Args:
        records: The events.
        rows: Where an event may be that had such a text before.
        known: The texts that were redacted here before.
    """
    groups: dict[str, dict[str, None]] = {}
    for record in records:
        text = getattr(record.event, "text", None)
        if text and text != REDACTED and type(record.event) in SHARED:
            groups.setdefault(text, {})[record.id] = None
    earlier = {id_: text for text in groups if (id_ := known.former(text))}
    for record in _iter_records(rows if earlier else ()):
        if record.id in earlier and type(record.event) in SHARED:
            groups[earlier[record.id]][record.id] = None
    return [tuple(group) for group in groups.values() if len(group) > 1]


def _remember(log: JsonlLog, part: str | None, events: Iterable[EventRecord]) -> None:
    """Remember what is redacted, so that it is refused later; call it under the ledger's lock."""
    texts = {event.id: codec.texts_of(event.event).values() for event in events}
    redacted_digests.remember(log.folder, part, texts, log.now().at)


def _check(reason: str, by: Mapping[str, str], texts: Collection[str]) -> None:
    """Refuse a reason or provenance that no event could carry, or that holds one of the texts."""
    check_provenance(by)
    if (fault := text_fault(reason)) is not None:
        raise errors.BadInputError("--reason", fault, NOTHING)
    for option, value in {"reason": reason, **by}.items():
        if value not in KNOWN_RATERS and TextSearch(texts).is_in(value):
            raise errors.BadInputError(f"--{option}", "contains the text itself", "use other words")


def _require_match(done: RedactionResult, target: RedactionTarget) -> RedactionResult:
    """Return the result, or raise if nothing holds the text."""
    if done.is_empty:
        raise NothingToRedactError("--text" if target.event is None else target.event, done.mine)
    return done


def _texts(project: Project, batches: Iterable[RawBatch], target: RedactionTarget) -> tuple[str, ...]:
    """Return the texts to redact."""
    if target.text is not None:
        if len(target.text.strip()) < MIN_TEXT_CHARS:
            raise errors.BadInputError("--text", f"has fewer than {MIN_TEXT_CHARS} characters", NOTHING)
        if target.text == REDACTED:
            raise errors.BadInputError("--text", "is what takes the place of a redacted text", NOTHING)
        if (fault := text_fault(target.text)) is not None:
            raise errors.BadInputError("--text", fault, NOTHING)
        return (target.text,)
    hint = f"see `tallybook log{personal.option(project)} --json`"
    for record in _iter_records(batches):
        if target.event in {record.id, str(record.seq)}:
            texts = [text for text in codec.texts_of(record.event).values() if text != REDACTED]
            if not texts and not isinstance(record.event, LogRecovered):
                raise errors.BadInputError(f"event {record.seq}", "has no text", hint)
            return tuple(text for text in texts if len(text.strip()) >= MIN_TEXT_CHARS)
    raise errors.BadInputError(f"event {target.event}", "is not in the ledger", hint)


def _iter_records(batches: Iterable[RawBatch]) -> Iterator[EventRecord]:
    """Yield every event of the batches."""
    for batch in codec.decode(batches):
        yield from batch.records


def _search_all(
    log: JsonlLog, texts: Collection[str], event: str | None, pending: Iterable[RawBatch] = ()
) -> tuple[tuple[EventRecord, ...], tuple[int, ...]]:
    """Return what ``_search`` does, of the ledger and of every copy of a shared book."""
    own = log.own.read() if reading.has_book(log) else ()
    events, bodies = _search(log, chain(log.read(), own, pending), texts, event)
    # A copy may go further than what is shown: a sync was interrupted, or a history was set aside.
    copied, _ = _search(log, _read_copies(erasure.list_copies(log.folder)), texts, None)
    shown = {event.id for event in events}
    # A number of a copy is one of the book.
    others = (attrs.evolve(copy, seq=format_shared_number(BOOK + copy.seq)) for copy in copied if copy.id not in shown)
    return (*events, *others), bodies


def _search(
    log: JsonlLog, batches: Iterable[RawBatch], texts: Collection[str], event: str | None
) -> tuple[tuple[EventRecord, ...], tuple[int, ...]]:
    """Return the events to redact, and the numbers of events that hold a text outside their free text."""
    wanted = TextSearch(texts)
    events: list[EventRecord] = []
    bodies: list[int] = []
    for raw in batches:
        # Line by line only where it matters: most batches do not hold the text.
        unredactable = join_chained_bytes(raw.lines)
        if wanted.is_in_values(unredactable):
            lines = filter(wanted.is_in_values, unredactable.split(b"\n"))
            bodies += [format_shared_number(first_seq(line)) for line in lines]
        # Other events neither have free text nor seal bytes that may be text.
        if FREE_MARK in raw.data or SEAL in raw.data:
            events += [
                record
                for record in _iter_records([raw])
                if event in {record.id, str(record.seq)} or _holds(log, raw, record.event, wanted)
            ]
    # In a shared project an event can be in the own ledger and in the book.
    return tuple({event.id: event for event in reversed(events)}.values())[::-1], tuple(dict.fromkeys(bodies))


def _holds(log: JsonlLog, raw: RawBatch, event: Event, wanted: TextSearch) -> bool:
    """Return whether the text of an event, or the range that it seals, holds one of the texts."""
    if isinstance(event, LogRecovered):
        return not raw.lacks_text and erasure.holds(log.path, wanted, (event.begin, event.end))
    return any(map(wanted.is_in, codec.texts_of(event).values()))
