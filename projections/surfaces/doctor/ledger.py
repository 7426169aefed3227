"""The doctor's checks of the files in ``.claude``: the log and its head, spool, redactions, secrets."""

from __future__ import annotations

from contextlib import suppress
import os
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.encoding.codec import texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.ledger.verification import read_verified, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.console.output import format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.writing import requests, secrets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project

# Of a file outside the log only so many bytes are searched for secrets, NULs apart, which take a second a megabyte.
_MAX_SEARCH_BYTES = 1024 * 1024


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
        message = f"{format_count(number, 'event')} of kind {kind} kept and ignored"
        yield Finding(NOTE, message, "a later version of Tallybook wrote it; upgrade to see it")
    if verdict.ok and log.path.exists():
        events = f"{format_count(verdict.events, 'event')} verified"
        yield Finding(OK, f"{events}; head {verdict.head.seq}:{verdict.head.chain}" if verdict.events else events)


def check_head(context: Context) -> Iterator[Finding]:
    """Check that the head is there, and that no flush failed since it was written."""
    log = context.log
    head = log.read_head()
    if head is None and log.path.exists() and log.path.stat().st_size:
        message = "the head is missing or torn, so events cut off at the end would not be noticed"
        yield Finding(NOTE, message, "the next recorded event writes it again")
    elif head is not None and head.failures and head.suspect >= 0:
        times = f"{format_count(head.failures, 'flush', 'flushes')} failed"
        message = f"{times}, and the disk may have lost what was written from offset {head.suspect:,} on"
        yield Finding(BAD, message, "repair the disk, then run `tallybook replay` to write those events again")


def check_spool(context: Context) -> Iterator[Finding]:
    """Check the payloads that wait in the spool."""
    project = context.project
    payloads, problems = spool.read_files(project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "repair or move the file; until then its payload is not recorded")
    waiting = 0
    for payload in payloads:
        try:
            requests.requests_from_json(payload.requests, f"spool:{payload.id}", payload.at)
            waiting += 1
        except BadInputError as error:
            fix = "repair or move the file; until then its payload cannot be recorded"
            yield Finding(BAD, f"spool/{payload.name}: {error}", fix)
    if waiting:
        message = f"{format_count(waiting, 'payload')} waiting"
        yield Finding(NOTE, message, "run `tallybook replay`, or any command that writes, to record what waits")


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


def check_playbook_file(context: Context) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger."""
    project = context.project
    path = project.playbook
    data = playbook_file.read_bytes(path)
    try:
        legacy = None if data is None else read_legacy(data, path.name)
    except BadInputError as error:
        fix = "run `tallybook replay`, which sets it aside and writes a new one"
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


def check_dates(context: Context) -> Iterator[Finding]:
    """Name the events that say they happened long after they were recorded."""
    if not context.log.exists():
        return
    records = (record for batch in read_verified(context.log) for record in batch.records)
    numbers = [str(record.seq) for record in records if record.when and _is_far(record.when, record.at)]
    if numbers:
        are = f"event {numbers[0]} is" if len(numbers) == 1 else f"events {format_names(numbers)} are"
        fix = "`tallybook undo NUMBER` undoes an event, so that it can be sent with its right time"
        yield Finding(NOTE, f"{are} dated far ahead of the time of recording, which counts", fix)


def _is_far(later: str, earlier: str) -> bool:
    return clock.to_unix_us(later) - clock.to_unix_us(earlier) > clock.CLOCK_SLACK_US


def check_pages(context: Context) -> Iterator[Finding]:
    """List the pages in the project: they hold texts that a redaction does not reach."""
    from tallybook.projections.surfaces.page.document import find_pages

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
            if formats := _secret_formats(_read_start(path).replace(b"\0", b"").decode("utf-8", "replace")):
                place = path.relative_to(project.claude).as_posix()
                fix = "run: tallybook redact --text - --reason …" if log.exists() else "remove it from the file"
                yield Finding(NOTE, f"{place} looks like it holds a secret ({formats})", fix)


def _read_start(path: Path) -> bytes:
    """Return the first bytes of a regular file."""
    fd = disk.open_file(path, write=False)
    try:
        return disk.read_at(fd, _MAX_SEARCH_BYTES, 0)
    finally:
        os.close(fd)


def _secret_formats(text: str) -> str:
    return ", ".join(dict.fromkeys(secrets.list_formats(text)))
