"""The doctor's checks of the files in ``.claude``: the log and its head, spool, quarantine, redactions, secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.encoding.codec import decode, texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import LogRecovered
from tallybook.ledger.line import START, head_field
from tallybook.ledger.reading import recovery
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage import disk, spool
from tallybook.ledger.storage import redaction as redact
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.head import has_position
from tallybook.ledger.verification import read_verified, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import (
    BAD,
    NOTE,
    OK,
    Finding,
    format_age,
    format_names,
    format_size,
)
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.writing import requests
from tallybook.projections.surfaces.writing import secrets as screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.records import Batch
    from tallybook.ledger.storage.head import Head
    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project

_FIRST_LINE_BYTES = 1024
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
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "run `tallybook verify --salvage` to see the intact part", is_damage=True)
    for kind, number in verdict.unknown_kinds.items():
        fix = "a later version of Tallybook wrote it; upgrade to see it"
        yield Finding(NOTE, f"{format_count(number, 'event')} of kind {kind} kept and ignored", fix)
    if verdict.ok and log.path.exists():
        events = f"{format_count(verdict.events, 'event')} verified"
        last = f"; head {verdict.head.seq}:{verdict.head.chain}" if verdict.events else ""
        yield Finding(OK, f"{events}{last}; {_size_and_age(log.path, verdict.head.at, context)}")


def _size_and_age(path: Path, last: str, context: Context) -> str:
    """Return the size of a verified log, when it began and when it was written last."""
    fd = disk.open_file(path, write=False)
    try:
        length = format_size(os.fstat(fd).st_size)
        first = head_field(read_at(fd, _FIRST_LINE_BYTES, 0).partition(b"\n")[0], b"at")
    finally:
        os.close(fd)
    if not last:
        return length
    first_age, last_age = (format_age(clock.to_unix_us(at), context.now) for at in (first, last))
    return f"{length}, begun {first_age} and last written {last_age} ago"


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
    times = "1 flush failed" if recorded_head.failures == 1 else f"{recorded_head.failures:,} flushes failed"
    if recorded_head.suspect >= 0:
        message = f"{times}, and the disk may have lost what was written from offset {recorded_head.suspect:,} on"
        yield Finding(BAD, message, "repair the disk, then run `tallybook replay` to write those events again")
    else:
        message = f"{times} since the ledger began; all of it was written again"
        yield Finding(NOTE, message, "look for disk errors in the system's log")


def _events_after_head(fd: int, log: JsonlLog, recorded_head: Head | None) -> Iterator[Finding]:
    """Report events and bytes after the head in the open log."""
    length = os.fstat(fd).st_size
    head_mark = START if recorded_head is None else recorded_head.position
    if recorded_head is None and length:
        message = "the head is missing or torn, so events cut off at the end would not be noticed"
        yield Finding(NOTE, message, "the next recorded event writes it again")
    if length < head_mark.offset or not has_position(fd, head_mark):
        return  # The check of the ledger reports this as damage.
    scan = Scan(fd, head_mark, length, log.path.name, redact.pending_ids(log.folder))
    for _ in scan:
        pass
    unacknowledged, torn_bytes = scan.position.seq - head_mark.seq, length - scan.position.offset
    if recorded_head is not None and unacknowledged:
        message = f"{format_count(unacknowledged, 'event')} not acknowledged: a writer is at work, or was killed"
        yield Finding(NOTE, message, "the next recorded event acknowledges them as well")
    if scan.stop is not None and recovery.is_unclean(fd, scan.stop, recorded_head, length):
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
            requests.requests_from_json(payload.requests, f"spool:{payload.id}", payload.at)
            moments.append(clock.to_unix_us(payload.at))
        except BadInputError as error:
            yield Finding(
                BAD,
                f"spool/{payload.name}: {error}",
                "repair or move the file; until then its payload cannot be recorded",
            )
    if moments:
        message = "1 payload waits" if len(moments) == 1 else f"{len(moments):,} payloads wait"
        oldest = f"{message}, {'' if len(moments) == 1 else 'the oldest '}for {format_age(min(moments), context.now)}"
        yield Finding(NOTE, oldest, f"the next command that writes records {'it' if len(moments) == 1 else 'them'}")
    elif not (payloads or problems) and context.log.exists():
        yield Finding(OK, "nothing waits")


def check_quarantine(context: Context) -> Iterator[Finding]:
    """Check that each sealed range of the log has its copy in quarantine."""
    log = context.log
    if not log.exists():
        return
    sealing = [raw for raw in log.read() if redact.SEALS in raw.data and not raw.erased]
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
    owed = redact.read_pending(log.folder)
    if owed is not None:
        text = f"the text of {format_count(len(owed.ids), 'event')}" if owed.ids else "a text"
        message = f"{text} is redacted and may still be on disk"
        fix = "run `tallybook replay` to finish; if it stays, `tallybook redact` says what prevents it"
        yield Finding(BAD, message, fix)
    if not log.exists():
        return
    redacted: set[str] = set()
    erased: set[str] = set()
    for raw in log.read():
        redacted.update(redact.redacted_ids(raw))
        erased.update(id_ for _, id_ in redact.find_erased(raw))
    for id_ in sorted(redacted - erased):
        message = f"the text of event {id_} was redacted and is in the log again"
        yield Finding(BAD, message, f"run: tallybook redact {id_} --reason …")
    if owed is None and not redacted - erased:
        yield Finding(
            OK, f"the text of {format_count(len(redacted), 'event')} is gone" if redacted else "none is pending"
        )


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
    elif context.log.exists():
        yield Finding(OK, "none")


def check_playbook_file(context: Context) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger."""
    project = context.project
    path = project.playbook
    data = playbook_file.read_bytes(path)
    has_ledger = context.log.exists()
    try:
        legacy = None if data is None else read_legacy(data, path.name)
    except BadInputError as error:
        fix = "the next command that writes sets it aside and writes a new one"
        yield Finding(BAD, str(error).removeprefix(f"{path.name}: "), fix)
        return
    if not has_ledger and legacy is not None:
        entries = "1 entry" if len(legacy.items) == 1 else f"{len(legacy.items):,} entries"
        odd = f", {format_count(len(legacy.problems), 'odd item')}" if legacy.problems else ""
        yield Finding(NOTE, f"{entries}{odd}, not in the ledger yet", "run `tallybook replay` to import it")
    if has_ledger:
        message, _, fix = (commands.drift(project) or "").rpartition("; ")
        yield Finding(NOTE, message, fix) if message else Finding(OK, "equals the replay of the ledger")


def check_unreadable_playbooks(context: Context) -> Iterator[Finding]:
    """Look for unreadable playbook files that were set aside."""
    unreadable = [path.name for path in _unreadable_playbooks(context.project)]
    if unreadable:
        message = f"unreadable as a playbook and set aside: {format_names(unreadable)}"
        yield Finding(NOTE, message, "look at what is in them, then delete them")
    elif context.log.exists():
        yield Finding(OK, "none")


def _unreadable_playbooks(project: Project) -> list[Path]:
    return sorted(project.claude.glob("playbook.json.unreadable-*"))


def check_clock(context: Context) -> Iterator[Finding]:
    """Compare the time of the newest event with the machine's clock."""
    newest = max((raw.position.at for raw in context.log.read()), default="")
    if newest > context.now.at:
        message = f"the newest event is of {newest}, and this machine's clock says {context.now.at}"
        yield Finding(NOTE, message, "set the clock; until then `--at` with a time or an age may be wrong")
    elif newest:
        yield Finding(OK, "no event lies in the future")


def check_secrets(context: Context) -> Iterator[Finding]:
    """Look for texts that look like secrets: what people type and import is recorded unchanged."""
    is_clean = True
    log = context.log
    # Of a damaged ledger the intact batches are searched.
    for batch in read_verified(log) if log.path.exists() else ():
        for finding in _secrets_of(batch):
            is_clean = False
            yield finding
    project = context.project
    files = [*sorted((project.ledger / spool.FOLDER).glob("*.json")), *_unreadable_playbooks(project)]
    if not log.exists():
        files.append(project.playbook)
    for path in files:
        names = _secrets_in(path)
        if names:
            is_clean = False
            place = path.relative_to(project.claude).as_posix()
            fix = "run: tallybook redact --text - --reason …" if log.exists() else "remove it from the file"
            yield Finding(NOTE, f"{place} looks like it holds a secret ({names})", fix)
    if is_clean and log.exists():
        yield Finding(OK, "no text looks like one")


def _secrets_of(batch: Batch) -> Iterator[Finding]:
    """Yield the events of a batch whose texts look like secrets, without the secrets."""
    for index, event in enumerate(batch.events):
        names = _names("\n".join(texts_of(event).values()))
        if names:
            seq = batch.records[index].seq
            # An imported file may use a secret as the name of an entry.
            name = screen.mask(getattr(event, "name", "") or kind_of(event)[0]).text
            message = f"event {seq} ({name}) looks like it holds a secret ({names})"
            yield Finding(NOTE, message, f"run: tallybook redact {seq} --reason …")


def _secrets_in(path: Path) -> str:
    """Return the formats of the secrets in a file, empty without any or without the file."""
    try:
        fd = disk.open_file(path, write=False)
    except FileNotFoundError:
        return ""
    try:
        return _names(read_at(fd, _MAX_SEARCH_BYTES, 0).decode("utf-8", "replace"))
    finally:
        os.close(fd)


def _names(text: str) -> str:
    return ", ".join(dict.fromkeys(screen.list_formats(text)))
