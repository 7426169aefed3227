"""From objects to the ledger: each is a batch of its own, recorded once however often its file is sent.

Nothing is folded for it and the playbook stays what it was, so a file of any length takes bounded memory: a chunk of
objects is appended in one transaction, with one flush.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger import clock
from tallybook.ledger.encoding.codec import encode
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, Problem
from tallybook.ledger.events import BaselineSet, FeedbackRecorded, TelemetryKept
from tallybook.ledger.storage import disk, spool
from tallybook.ledger.telemetry import intake
from tallybook.projections.scores.view import unknown_parts
from tallybook.projections.surfaces.history import cache_files
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.writing import secrets
from tallybook.projections.surfaces.writing.record import former_ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import tzinfo

    from tallybook.ledger.events import Event
    from tallybook.ledger.line import Draft
    from tallybook.ledger.log import JsonlLog
    from tallybook.projections.scores.configuration.model import Config
    from tallybook.projections.surfaces.scores.ingest_files import Item
    from tallybook.projections.surfaces.workspace.project import Project

CHUNK_OBJECTS: Final = 4_000
"""Objects that are appended in one transaction, at most."""
MOST_SPOOLED: Final = 1_000
"""A call with at most so many objects does not wait for the lock: the objects are spooled."""
LOCK_WAIT_MS: Final = 10_000
"""How long a longer one waits for the lock."""

PROBLEMS_SHOWN: Final = 200
_FUTURE: Final = "the time is in the future, so it counts for now; --tz gives the zone of a time without one, else UTC"
_SAME_SHOWN = 20
_TYPES_SHOWN = 500
_OTHERS = "others"
_FREE_TEXT: Final[dict[type[Any], str]] = {TelemetryKept: "original", FeedbackRecorded: "note", BaselineSet: "reason"}
_CHUNK_BYTES = 8 * 1024 * 1024
# Enough of a digest to tell a file's objects apart; where it did not, the second of them would count as a repetition
# of the first under a number of its own.
_SEEN_CHARS = 16


@attrs.define
class IngestReport:
    """The outcome of an ingestion so far.

    Attributes:
        recorded: Kind → events of it that were recorded.
        repeated: How many objects had been recorded before.
        unscored_types: Type of telemetry that measures no score, or cannot be used → how many were recorded.
        problems: Problems, as many as are shown.
        more: How many further ones there were.
        seq_from: Number of the first event recorded, None for none.
        seq_to: Number of the last one.
        spooled: How many objects wait, because another process held the ledger.
        unscored: Why the configuration scores nothing of an event → how many such events were sent.
    """

    recorded: Counter[str] = attrs.field(factory=Counter)
    repeated: int = 0
    unscored_types: Counter[str] = attrs.field(factory=Counter)
    problems: list[Problem] = attrs.field(factory=list)
    more: int = 0
    seq_from: int | None = None
    seq_to: int | None = None
    spooled: int = 0
    unscored: Counter[str] = attrs.field(factory=Counter)

    @property
    def read_count(self) -> int:
        """Return how many of the sent events and objects could be read."""
        return self.recorded.total() + self.repeated + self.spooled

    def note(self, problem: Problem) -> None:
        """Add a problem: only the first few of a kind are shown."""
        full = len(self.problems) >= PROBLEMS_SHOWN
        if full or sum(one.message == problem.message for one in self.problems) >= _SAME_SHOWN:
            self.more += 1
        else:
            self.problems.append(problem)

    def count(self, one: PreparedObject, seqs: tuple[int, int] | None) -> None:
        """Count an object, by the numbers of its first and last event; None where it was recorded before."""
        if seqs is None:
            self.repeated += 1
            return
        self.seq_from = seqs[0] if self.seq_from is None else self.seq_from
        self.seq_to = seqs[1]
        self.recorded.update(draft.kind for draft in one.drafts)
        type_, counts = one.unscored_type, self.unscored_types
        if type_ is not None:
            counts[type_ if type_ in counts or len(counts) < _TYPES_SHOWN else _OTHERS] += 1


class PreparedObject(NamedTuple):
    """An object, ready to be appended.

    Attributes:
        drafts: Its events.
        by: Who recorded it.
        key: Its idempotency key, None where it may be recorded twice.
        unscored_type: Its type where it counts in no score, None elsewhere.
        size: Its size, about, in bytes.
    """

    drafts: list[Draft]
    by: dict[str, str]
    key: str | None
    unscored_type: str | None
    size: int


@attrs.frozen
class Defaults:
    """The session, component and time zone of objects that name none.

    Attributes:
        session: The session; empty for none.
        component: The component; empty for none.
        zone: The zone of a time that names none.
    """

    session: str = ""
    component: str = ""
    zone: tzinfo = UTC


def feed(
    project: Project,
    sources: Iterable[Iterable[Item | Problem]],
    defaults: Defaults,
    progress: Callable[[int], None],
) -> IngestReport:
    """Record objects.

    Args:
        project: Where.
        sources: For each file what it holds.
        defaults: The session, component and time zone of objects that name none.
        progress: Called now and then with the number of objects that are done.

    Raises:
        TallybookError: The ledger is damaged, or could not be written; what was recorded by then says so.
    """
    report = IngestReport()
    config = _config(project)
    prepared_objects = (one for source in sources for one in _prepare(source, defaults, report, config))
    with closing(open_log(project)) as log:
        for problem in () if log.exists() else former_ledger(project):
            report.note(problem)
        chunk = _next_chunk(prepared_objects)
        first = True
        while chunk:
            following = _next_chunk(prepared_objects)
            _append(log, chunk, report, alone=first and not following and len(chunk) <= MOST_SPOOLED)
            progress(report.read_count)
            chunk, first = following, False
    return report


def _config(project: Project) -> Config | None:
    """Return the configuration of the scores, None where it is invalid: `doctor` and `score` report that."""
    try:
        return configuration.load(project)
    except BadInputError:
        return None


def _prepare(
    source: Iterable[Item | Problem], defaults: Defaults, report: IngestReport, config: Config | None
) -> Iterator[PreparedObject]:
    """Yield the objects of one file prepared to be appended; problems go to the report."""
    counts: Counter[int] = Counter()
    for item in source:
        if isinstance(item, Problem):
            report.note(item)
            continue
        value = intake.fill_defaults(item.value, defaults.session, defaults.component, defaults.zone)
        content = intake.read_object(value)
        for message in content.problems:
            report.note(Problem(item.place, message))
        if content.when is not None and content.when > clock.utc_now().at:
            report.note(Problem(item.place, _FUTURE))
        if config is not None:
            report.unscored.update(why for event in content.events for why in unknown_parts(config, event))
        key = intake.idempotency_key(value) if content.when is not None else _key_by_number(value, item.file, counts)
        rater = "import" if item.file else content.rater
        events = content.events
        if rater != "human":
            events = tuple(_mask_secrets(event, value, item.place, report) for event in events)
        unscored_type = next((event.type for event in events if isinstance(event, TelemetryKept)), None)
        by = {"rater": rater} | ({"session": content.session} if content.session else {})
        yield PreparedObject([encode(event, content.when) for event in events], by, key, unscored_type, item.size)


def _key_by_number(value: dict[str, Any], file: str, counts: Counter[int]) -> str | None:
    """Return the key of an object that names no time: which of those like it in its file it is; None outside of one."""
    if not file:
        return None
    # A number takes less room than a text, and a file may have a million of them.
    like = int(intake.idempotency_key(value, file)[-_SEEN_CHARS:], 16)
    before, counts[like] = counts[like], counts[like] + 1
    return intake.idempotency_key(value, file, before)


def _mask_secrets(event: Any, value: dict[str, Any], place: str, report: IngestReport) -> Event:
    """Return an event without the secrets in its free text."""
    field = _FREE_TEXT.get(type(event), "")
    whole = field == "original"
    clean, notes = secrets.mask_value(place, value if whole else getattr(event, field, None))
    for problem in notes:
        report.note(problem)
    masked_event: Event = (
        attrs.evolve(event, **{field: intake.encode_original(clean) if whole else clean}) if notes else event
    )
    return masked_event


def _next_chunk(prepared_objects: Iterator[PreparedObject]) -> list[PreparedObject]:
    """Return the next prepared, as many as one transaction takes."""
    chunk: list[PreparedObject] = []
    size = 0
    for one in prepared_objects:
        chunk.append(one)
        size += one.size
        if len(chunk) == CHUNK_OBJECTS or size > _CHUNK_BYTES:
            break
    return chunk


def _append(log: JsonlLog, chunk: Sequence[PreparedObject], report: IngestReport, *, alone: bool) -> None:
    """Append a chunk in one transaction; one that is a whole small call waits in the spool for a held lock.

    Raises:
        LockHeldError: Another process held the ledger all the while, and nothing was recorded.
        CannotWriteError: The same, and a part of the call was recorded before.
    """
    try:
        with log.transaction(disk.LOCK_WAIT_MS if alone else LOCK_WAIT_MS) as tx:
            tx.look_up(one.key for one in chunk if one.key is not None)
            results = [(one, tx.append(one.drafts, one.by, one.key)) for one in chunk]
        cache_files.remove_former(log.folder)
        cache_files.sweep(log.folder)
    except LockHeldError as error:
        if alone:
            _spool(log, chunk)
            report.spooled += len(chunk)
            return
        if not report.read_count:
            raise
        hint = f"{report.read_count:,} objects were recorded; run it again, nothing is recorded twice"
        raise CannotWriteError(log.path, f"held by another process for {LOCK_WAIT_MS} ms", hint) from error
    for one, batch in results:
        report.count(one, None if batch is None else (batch.first, batch.last))


def _spool(log: JsonlLog, chunk: Sequence[PreparedObject]) -> None:
    """Put objects where the next command that writes takes them in."""
    now = log.now()
    for one in chunk:
        spool.check(one.drafts, one.by, one.key, now.at)
    payloads = [
        {"facts": [[one.kind, one.v, one.body, one.free] for one in one.drafts], "by": one.by, "key": one.key}
        | ({"when": one.drafts[0].when} if one.drafts[0].when else {})
        for one in chunk
    ]
    spool.put(log.folder, now.at, clock.new_id(now.unix_us), payloads)
