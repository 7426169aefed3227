"""``log``: the events of the ledger, chosen by entry, time, session, rater and kind, and followed as they come.

What a batch's bytes rule out is not decoded: every writer writes a name, a session and a kind in one way alone.
"""

from __future__ import annotations

from contextlib import suppress
import select
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import click

from ledger.codec import decode
from ledger.errors import UnknownPointError
from ledger.events import EVENT_TYPES, KIND_OF, EventsVoided
from ledger.line import CONTINUED, SECTION, START, dumps, head_field
from projections.history import Wanted, brief, chosen, is_of_kind, row
from projections.surfaces import when as moments
from projections.surfaces.answers import answer, note
from projections.surfaces.options import as_json
from projections.surfaces.record import open_log
from projections.voids import Voids, voids_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from ledger.line import Mark, RawBatch
    from ledger.log import Log
    from ledger.recorded import Recorded
    from projections.surfaces.project import Project

FOLLOW_S: Final = 0.5
"""Seconds between two looks at a ledger that is followed."""


# What a batch's bytes tell


def _needles(wanted: Wanted) -> list[tuple[bytes, ...]]:
    """Return what the bytes of a batch hold if an event of it is asked for: one of each."""
    needles: list[tuple[bytes, ...]] = [
        (b'"%b":%b' % (field, _quoted(value)),)
        for field, value in ((b"session", wanted.session), (b"rater", wanted.rater))
        if value is not None
    ]
    if wanted.name is not None:
        needles.append((_quoted(wanted.name),))
    if wanted.kinds:
        needles.append(tuple(map(_of_kind, wanted.kinds)))
    return needles


def _of_kind(kind: str) -> bytes:
    return b'"kind":' + (_quoted(kind[:-1])[:-1] if kind.endswith(".*") else _quoted(kind))


def _quoted(value: str) -> bytes:
    return dumps(value).encode("utf-8", "replace")


def _may_match(batch: RawBatch, wanted: Wanted, needles: Iterable[tuple[bytes, ...]]) -> bool:
    return batch.last > wanted.since and all(any(one in batch.data for one in some) for some in needles)


# What was undone


@attrs.frozen
class Undone:
    """What is void in a stretch of the ledger, and the numbers of what it takes back.

    Attributes:
        voids: What is void at its end.
        seqs: Id of an event that was taken back → its sequence number.
    """

    voids: Voids = attrs.field(factory=Voids)
    seqs: dict[str, int] = attrs.field(factory=dict)

    def brief(self, record: Recorded) -> dict[str, Any]:
        """Return an event for people, marked where it was taken back."""
        by = self.voids.by(record)
        return brief(record, None if by is None else by.seq, self.seqs)


def undone(log: Log, mark: Mark = START) -> Undone:
    """Return what the undoings behind a place take back; where there is none, nothing else is decoded for it."""
    needle = _of_kind(KIND_OF[EventsVoided])
    telling = decode(batch for batch in log.read(mark) if needle in batch.data)
    told = [one for batch in telling for one in batch.records]
    ids = {id_ for one in told if isinstance(one.event, EventsVoided) for id_ in one.event.ids}
    return Undone(voids_of(told), _seqs(log, ids) if ids else {})


def _seqs(log: Log, ids: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for batch in log.read():
        for seq, line in enumerate(batch.data.split(b"\n"), batch.first):
            id_ = head_field(line.partition(SECTION)[0], b"id")
            if id_ in ids:
                found[id_] = seq
        if len(found) == len(ids):
            break
    return found


# The events


class _Place:
    """How far a log was read.

    Attributes:
        mark: The place behind the last batch.
        found: Whether anything that was asked for came.
    """

    def __init__(self) -> None:
        """Begin at the beginning."""
        self.mark = START
        self.found = False

    def records(self, log: Log, wanted: Wanted) -> Iterator[Recorded]:
        """Yield the events behind the place that are asked for, up to the log's end by now."""
        for batch in decode(self._batches(log, wanted)):
            for record in chosen(batch, wanted):
                self.found = True
                yield record

    def _batches(self, log: Log, wanted: Wanted) -> Iterator[RawBatch]:
        needles = _needles(wanted)
        last = None
        for batch in log.read(self.mark):
            if wanted.until is not None and batch.first > wanted.until:
                break
            last = batch
            if _may_match(batch, wanted, needles):
                yield batch
        if last is not None:
            self.mark = last.mark


def stretches(
    log: Log, wanted: Wanted, wait: Callable[[], bool] | None = None
) -> Iterator[tuple[Mark, Iterator[Recorded]]]:
    """Yield the events that are asked for, newest last, each stretch with the place behind which it begins.

    Args:
        log: The ledger.
        wanted: What is asked for.
        wait: Called at the end of each stretch; returns where there may be another, and says whether anybody still
            listens. None for one stretch alone.

    Raises:
        UnknownPointError: There is one stretch, and no event of the whole log concerns the entry that is asked for.
    """
    place = _Place()
    yield START, place.records(log, wanted)
    while wait is not None and wanted.until is None and wait():
        yield place.mark, place.records(log, wanted)
    if wait is None and not place.found and wanted.name is not None and not _is_told_of(log, wanted.name):
        raise UnknownPointError(wanted.name)


def events(log: Log, wanted: Wanted) -> Iterator[Recorded]:
    """Yield the events of a log that are asked for, in one stretch, as ``stretches``."""
    for _, records in stretches(log, wanted):
        yield from records


def _is_told_of(log: Log, name: str) -> bool:
    """Say whether any event concerns an entry."""
    return any(True for _ in _Place().records(log, Wanted(name)))


# The verb


def wanted_of(project: Project, options: Mapping[str, Any]) -> Wanted:
    """Return what the options of the command ask for.

    Raises:
        BadInputError: One of them names no moment or session of this ledger.
    """
    session = options["session"]
    if session is not None and not options["follow"]:
        session = moments.session_of(open_log(project), session, f"--session {session}").session
    since = _bound(project, "--since", options["since"])
    until = _bound(project, "--until", options["until"])
    return Wanted(options["name"], session, options["rater"], options["kinds"], since or 0, until)


def _bound(project: Project, option: str, when: str | None) -> int | None:
    """Return the moment that an option names, None without one; what is odd about it goes to standard error."""
    if when is None:
        return None
    moment = moments.find_here(project, when, option)
    for line in moment.notes:
        note(line)
    return moment.seq


def wait_for_more() -> bool:
    """Wait a little, with all shown that there is; say whether anybody still reads standard output."""
    sys.stdout.flush()
    if not hasattr(select, "poll"):  # Windows
        time.sleep(FOLLOW_S)
        return True
    watch = select.poll()
    # Asked for nothing, it tells alone of an end: the reader of a pipe that is gone, a terminal that hung up.
    watch.register(sys.stdout.fileno(), 0)
    told = watch.poll(FOLLOW_S * 1000)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in told):
        return False
    if told:
        # What cannot be watched is told of at once.
        time.sleep(FOLLOW_S)
    return True


@click.command(epilog="Example: tallybook log kpt_001 --since 2d --kind 'point.*' --rater reflector --json")
@click.argument("name", required=False)
@click.option("--since", metavar="WHEN", help="Only what came behind that moment.")
@click.option("--until", metavar="WHEN", help="Only what came up to that moment.")
@click.option("--session", metavar="ID", help="Only what comes from this session; the beginning of its id will do.")
@click.option("--rater", metavar="R", help="Only what comes from this rater: human, agent, reflector, import, …")
@click.option(
    "--kind", "kinds", metavar="K", multiple=True, help="Only events of this kind, or of point.*; repeatable."
)
@click.option(
    "--follow", is_flag=True, help="Go on with what is appended, until interrupted; --since '~0' for that alone."
)
@as_json
@click.pass_obj
def log(project: Project, /, *, follow: bool, as_json: bool, **options: Any) -> None:
    """List the events of the ledger, newest last; with a NAME, those that concern it.

    WHEN is as for `show --at`; --since A --until B lists what `diff A B` comes of.
    """
    ledger, wanted = open_log(project), wanted_of(project, options | {"follow": follow})
    for kind in wanted.kinds:
        if not any(is_of_kind(known, kind) for known in (*EVENT_TYPES, CONTINUED)):
            note(f"--kind {kind}: no kind that this Tallybook knows")
    # There is no other end to following than this.
    with suppress(*[KeyboardInterrupt] if follow else []):
        for mark, records in stretches(ledger, wanted, wait_for_more if follow else None):
            _tell(ledger, mark, records, as_json=as_json)


def _tell(ledger: Log, mark: Mark, records: Iterator[Recorded], *, as_json: bool) -> None:
    """Print a stretch of the ledger's events, each as it comes."""
    if as_json:
        for record in records:
            answer(row(record))
        return
    from projections.surfaces import terminal

    terminal.log_rows(terminal.console_for(sys.stdout), map(undone(ledger, mark).brief, records))


VERBS: Final = (log,)
