"""The doctor's checks of the files in ``.claude``: the log and its head, spool, quarantine, redactions, secrets."""

from __future__ import annotations

from contextlib import suppress
import os
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.encoding.codec import decode, texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import LogRecovered
from tallybook.ledger.line import START, head_field
from tallybook.ledger.reading import damage
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.ledger.storage.head import has_position, log_size
from tallybook.ledger.verification import read_verified, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names, format_size, read_part
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.writing import secrets, spooled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.storage.head import Head
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project

_FIRST_LINE_BYTES = 1024  # The fields of a line's head come first, so its end is not needed.
# A temporary file is renamed within a second; an older one was left by a process that was killed.
_ABANDONED_AFTER_US = 60 * clock.MICROSECONDS
# Of a file outside the log only so many bytes are searched for secrets.
_MAX_SEARCH_BYTES = 16 * 1024 * 1024


def check_ledger(context: Context) -> Iterator[Finding]:
    """Verify the ledger from its first byte to its last."""
    log = context.log
    if not log.exists():
        fix = "the first command that writes begins one and imports an existing playbook.json"
        yield Finding(NOTE, f"there is no ledger yet in {context.project.root}", fix)
        return
    verdict = verify(log, context.progress)
    if verdict.problems and (division := recognition.recognize(context.project)) is not None:
        yield Finding(BAD, f"{log.path.name}: {division.what}", division.fix, is_damage=True)
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "run `tallybook verify --salvage` to see the intact part", is_damage=True)
    for kind, number in verdict.unknown_kinds.items():
        fix = "a later version of Tallybook wrote it; upgrade to see it"
        yield Finding(NOTE, f"{format_count(number, 'event')} of kind {kind} kept and ignored", fix)
    if verdict.ok and log.path.exists():
        events = f"{format_count(verdict.events, 'event')} verified"
        size = format_size(log.path.stat().st_size)
        if not verdict.events:
            yield Finding(OK, f"{events}; {size}")
            return
        first = head_field(read_part(log.path, _FIRST_LINE_BYTES).partition(b"\n")[0], b"at")
        ages = f"begun {context.age(first)} and last written {context.age(verdict.head.at)} ago"
        yield Finding(OK, f"{events}; head {verdict.head.seq}:{verdict.head.chain}; {size}, {ages}")


def check_head(context: Context) -> Iterator[Finding]:
    """Check how far the ledger is acknowledged, and the bytes after that."""
    log = context.log
    recorded_head = log.read_head()
    if not log.path.exists():
        return
    fd = disk.open_file(log.path, write=False)
    try:
        findings = [*_failed_flushes(recorded_head), *_events_after_head(fd, log, recorded_head)]
    finally:
        os.close(fd)
    yield from findings or [
        Finding(OK, f"acknowledged up to event {0 if recorded_head is None else recorded_head.position.seq:,}")
    ]


def _failed_flushes(recorded_head: Head | None) -> Iterator[Finding]:
    """Report the failed flushes that the head has counted."""
    if recorded_head is None or not recorded_head.failures:
        return
    times = f"{format_count(recorded_head.failures, 'flush', 'flushes')} failed"
    if recorded_head.suspect >= 0:
        message = f"{times}, and the disk may have lost what was written from offset {recorded_head.suspect:,} on"
        yield Finding(BAD, message, "repair the disk, then run `tallybook replay` to write those events again")
    else:
        message = f"{times} since the ledger began; all of it was written again"
        yield Finding(NOTE, message, "look for disk errors in the system's log")


def _events_after_head(fd: int, log: JsonlLog, recorded_head: Head | None) -> Iterator[Finding]:
    """Report events and bytes after the head in the open log."""
    length = log_size(fd, os.fstat(fd).st_size, recorded_head)
    head_mark = START if recorded_head is None else recorded_head.position
    if recorded_head is None and length:
        message = "the head is missing or torn, so events cut off at the end would not be noticed"
        yield Finding(NOTE, message, "the next recorded event writes it again")
    if length < head_mark.offset or not has_position(fd, head_mark):
        return  # The check of the ledger reports this as damage.
    scan = Scan(fd, head_mark, length, log.path.name, redaction.pending_ids(log.folder))
    for _ in scan:
        pass
    unacknowledged, torn_bytes = scan.position.seq - head_mark.seq, length - scan.position.offset
    if recorded_head is not None and unacknowledged:
        message = f"{format_count(unacknowledged, 'event')} not acknowledged: a writer is at work, or was killed"
        yield Finding(NOTE, message, "the next recorded event acknowledges them as well")
    if scan.stop is not None and damage.is_unclean(fd, scan.stop.position, recorded_head, length):
        message = (
            f"{format_count(torn_bytes, 'byte')} at the end, unfinished and never acknowledged: a writer was killed"
        )
        yield Finding(NOTE, message, "the next command that writes seals them and keeps a copy")


def check_spool(context: Context) -> Iterator[Finding]:
    """Check the payloads that wait in the spool."""
    project = context.project
    payloads, problems = spool.read_files(project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "repair or move the file; until then its payload is not recorded")
    moments = []
    for payload in payloads:
        try:
            spooled.requests_from_json(payload.requests, f"spool:{payload.id}", payload.at)
            moments.append(clock.to_unix_us(payload.at))
        except BadInputError as error:
            fix = "repair or move the file; until then its payload cannot be recorded"
            yield Finding(BAD, f"spool/{payload.name}: {error}", fix)
    if moments:
        number, age = len(moments), context.age(min(moments))
        waits = f"1 payload waits, for {age}" if number == 1 else f"{number:,} payloads wait, the oldest for {age}"
        yield Finding(NOTE, waits, f"the next command that writes records {'it' if number == 1 else 'them'}")


def check_quarantine(context: Context) -> Iterator[Finding]:
    """Check that each sealed range of the log has its copy in quarantine."""
    log = context.log
    if not log.exists():
        return
    sealing = [raw for raw in log.read() if redaction.SEALS in raw.data and not raw.erased]
    ranges = [event for batch in decode(sealing) for event in batch.events if isinstance(event, LogRecovered)]
    folder = log.folder / "quarantine"
    # Only the begin is compared: a copy ends before the line feed that was written after the range.
    missing = [f"{sealed.begin}-{sealed.end}" for sealed in ranges if not any(folder.glob(f"{sealed.begin}-*.bin"))]
    in_all = format_size(sum(sealed.end - sealed.begin for sealed in ranges))
    summary = f"{format_count(len(ranges), 'sealed range')}, {in_all} in all"
    if missing:
        fix = f"the bytes are still in {log.path.name}, and readers skip them either way"
        yield Finding(NOTE, f"{summary}; no copy of {format_names(missing)}", fix)
    else:
        yield Finding(OK, f"{summary}, each with its copy" if ranges else "nothing was ever sealed")


def check_redaction(context: Context) -> Iterator[Finding]:
    """Look for redacted texts that may still be on disk."""
    log = context.log
    pending = redaction.read_pending(log.folder)
    if pending is not None:
        text = f"the text of {format_count(len(pending.ids), 'event')}" if pending.ids else "a text"
        message = f"{text} is redacted and may still be on disk"
        fix = "run `tallybook replay` to finish; if it stays, `tallybook redact` says what prevents it"
        yield Finding(BAD, message, fix)
    redacted: set[str] = set()
    erased: set[str] = set()
    for raw in log.read():
        redacted.update(redaction.redacted_ids(raw))
        erased.update(id_ for _, id_ in redaction.find_erased(raw))
    for id_ in sorted(redacted - erased):
        message = f"the text of event {id_} was redacted and is in the log again"
        yield Finding(BAD, message, f"run: tallybook redact {id_} --reason …")
    if redacted and redacted <= erased and pending is None:
        yield Finding(OK, f"the text of {format_count(len(redacted), 'event')} is gone")


def check_temporary_files(context: Context) -> Iterator[Finding]:
    """Look for temporary files of processes that were killed."""
    project = context.project
    abandoned = []
    for path in (*project.claude.glob(".*.tmp"), *project.ledger.rglob(".*.tmp")):
        try:
            changed_us = path.lstat().st_mtime_ns // 1000
        except FileNotFoundError:
            continue  # Its writer has renamed it meanwhile.
        if context.now.unix_us - changed_us > _ABANDONED_AFTER_US:
            abandoned.append(path.relative_to(project.claude).as_posix())
    if abandoned:
        message = f"{format_count(len(abandoned), 'file')} left by killed processes: {format_names(sorted(abandoned))}"
        yield Finding(NOTE, message, "delete them; their content was never acknowledged")


def check_playbook_file(context: Context) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger."""
    project = context.project
    path = project.playbook
    data = playbook_file.read_bytes(path)
    try:
        legacy = None if data is None else read_legacy(data, path.name)
    except BadInputError as error:
        fix = "the next command that writes sets it aside and writes a new one"
        yield Finding(BAD, str(error).removeprefix(f"{path.name}: "), fix)
        return
    if context.log.exists():
        if drift := commands.drift(project):
            message, _, fix = drift.rpartition("; ")
            yield Finding(NOTE, message, fix)
    elif legacy is not None:
        entries = format_count(len(legacy.items), "entry", "entries")
        odd = f", {format_count(len(legacy.problems), 'odd item')}" if legacy.problems else ""
        yield Finding(NOTE, f"{entries}{odd}, not in the ledger yet", "run `tallybook replay` to import it")


def check_unreadable_playbooks(context: Context) -> Iterator[Finding]:
    """Look for unreadable playbook files that were set aside."""
    unreadable = [path.name for path in _unreadable_playbooks(context.project)]
    if unreadable:
        message = f"unreadable as a playbook and set aside: {format_names(unreadable)}"
        yield Finding(NOTE, message, "look at what is in them, then delete them")


def _unreadable_playbooks(project: Project) -> list[Path]:
    return sorted(project.claude.glob("playbook.json.unreadable-*"))


def check_clock(context: Context) -> Iterator[Finding]:
    """Name the events of a later time than the machine's clock, and those that happened after they were recorded."""
    newest = ""
    ahead: list[int] = []
    unlikely: list[int] = []
    for batch in read_verified(context.log) if context.log.path.exists() else ():
        for record in batch.records:
            newest = max(newest, record.at)
            if record.at > context.now.at:
                ahead.append(record.seq)
            if record.when and record.when > record.at and _is_far(record.when, record.at):
                unlikely.append(record.seq)
    # Read only now: a hook may have recorded an event since the checks began.
    now = clock.utc_now().at
    if newest > now:
        message = f"the newest event is of {newest}, and this machine's clock says {now}; {_numbered(ahead)} later"
        yield Finding(NOTE, message, "set the clock; until then `--at` with a time or an age may be wrong")
    if unlikely:
        message = f"{_numbered(unlikely)} dated far ahead of the time of recording, which counts"
        fix = "`tallybook undo NUMBER` undoes an event, so that it can be sent with its right time"
        yield Finding(NOTE, message, fix)


def _is_far(later: str, earlier: str) -> bool:
    return clock.to_unix_us(later) - clock.to_unix_us(earlier) > clock.CLOCK_SLACK_US


def _numbered(numbers: list[int]) -> str:
    """Return ``event 5 is``, or ``events 5, 6, 7 and 9 more are``."""
    names = format_names([str(number) for number in numbers])
    return f"event {names} is" if len(numbers) == 1 else f"events {names} are"


def check_pages(context: Context) -> Iterator[Finding]:
    """List the pages in the project: they hold texts that a redaction does not reach."""
    from tallybook.projections.surfaces.page.exported import find_pages

    for path in find_pages(context.project):
        fix = "after a redaction delete it, or write it again with `tallybook page`"
        yield Finding(NOTE, f"{path.relative_to(context.project.root)} is a page, which `redact` does not reach", fix)


def check_secrets(context: Context) -> Iterator[Finding]:
    """Look for texts that look like secrets: what people type and import is recorded unchanged."""
    project, log = context.project, context.log
    # Of a damaged ledger the intact batches are searched.
    for batch in read_verified(log) if log.path.exists() else ():
        for index, event in enumerate(batch.events):
            if formats := _secret_formats("\n".join(texts_of(event).values())):
                seq = batch.records[index].seq
                # An imported file may use a secret as the name of an entry.
                name = secrets.mask(getattr(event, "name", "") or kind_of(event)[0]).text
                message = f"event {seq} ({name}) looks like it holds a secret ({formats})"
                yield Finding(NOTE, message, f"run: tallybook redact {seq} --reason …")
    files = [*sorted((project.ledger / spool.FOLDER).glob("*.json")), *_unreadable_playbooks(project)]
    for path in files if log.exists() else [*files, project.playbook]:
        with suppress(FileNotFoundError):  # The spool's files come and go.
            if formats := _secret_formats(read_part(path, _MAX_SEARCH_BYTES).decode("utf-8", "replace")):
                place = path.relative_to(project.claude).as_posix()
                fix = "run: tallybook redact --text - --reason …" if log.exists() else "remove it from the file"
                yield Finding(NOTE, f"{place} looks like it holds a secret ({formats})", fix)


def _secret_formats(text: str) -> str:
    return ", ".join(dict.fromkeys(secrets.list_formats(text)))
