"""The doctor's checks of the ledger and the playbook: damage, locks, what waits, redactions, secrets, entries."""

from __future__ import annotations

import os
from shlex import quote
from typing import TYPE_CHECKING

from tallybook.ledger.codec import texts_of
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, LockHeldError
from tallybook.ledger.storage import disk, redaction, spool
from tallybook.ledger.verification import salvage, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.review import stale_words
from tallybook.projections.surfaces import commands, review
from tallybook.projections.surfaces.console.output import find_controls, format_count
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.histories import recognition
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.page.document import find_pages
from tallybook.projections.surfaces.workspace.installation import tool_command
from tallybook.projections.surfaces.writing import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context

_LOCKS = {"lock": disk.LOCK_WAIT_MS, "head": disk.LOCK_WAIT_MS, "render.lock": playbook_file.RENDER_WAIT_MS}


def check_ledger(context: Context) -> Iterator[Finding]:
    """Verify the ledger from its first byte to its last."""
    log = context.log
    if not log.exists():
        yield Finding(NOTE, f"there is no ledger yet in {context.project.root}", "`tallybook add TEXT` begins one")
        return
    verdict = verify(log, context.progress)
    # What git did to a log reads like damage, and has a command of its own.
    if verdict.problems and (division := recognition.recognize(context.project)) is not None:
        yield Finding(BAD, f"{log.path.name}: {division.what}", division.fix, is_damage=True)
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "run `tallybook verify --salvage` to see the intact part", is_damage=True)
    for kind, number in verdict.unknown_kinds.items():
        message = f"{format_count(number, 'event')} of kind {kind}, of a later version of Tallybook, kept and ignored"
        yield Finding(NOTE, message, f"upgrade: run `{tool_command()}`")
    if verdict.ok and log.path.exists():
        events = f"{format_count(verdict.events, 'event')} verified"
        yield Finding(OK, f"{events}; head {verdict.head.seq}:{verdict.head.chain}" if verdict.events else events)


def check_head(context: Context) -> Iterator[Finding]:
    """Check that the head is there, and that no flush failed since it was written."""
    log = context.log
    head = log.read_head()
    if head is None and log.path.exists() and log.path.stat().st_size:
        message = "the head is missing or torn, so events cut off at the end would not be noticed"
        yield Finding(NOTE, message, "the next command that records an event writes it again")
    elif head is not None and head.failures and head.suspect >= 0:
        times = f"{format_count(head.failures, 'flush', 'flushes')} failed"
        message = f"{times}, and the disk may have lost what was written from offset {head.suspect:,} on"
        yield Finding(BAD, message, "repair the disk, then run `tallybook replay` to write those events again")


def check_locks(context: Context) -> Iterator[Finding]:
    """Take each lock, waiting as long as a writer does, and release it at once."""
    for name, wait_ms in _LOCKS.items():
        path = context.project.ledger / name
        try:
            fd = disk.open_file(path, write=False)
        except FileNotFoundError:
            continue
        try:
            disk.lock(fd, path, wait_ms)
            disk.unlock(fd)
        except LockHeldError:
            message = f"another process holds ledger/{name} for more than {wait_ms} ms"
            fix = f"`fuser {quote(str(path))}` gives its id; `kill -CONT ID` lets it go on, and `kill ID` ends it"
            yield Finding(NOTE, message, fix)
        finally:
            os.close(fd)


def check_spool(context: Context) -> Iterator[Finding]:
    """Check the payloads that wait in the spool."""
    payloads, problems = spool.read_files(context.project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "repair or move the file; until then its payload is not recorded")
    if payloads:
        message = f"{format_count(len(payloads), 'payload')} waiting"
        yield Finding(NOTE, message, "run `tallybook replay`, which records what waits, or says why it cannot")


def check_playbook_file(context: Context) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger, and name the files in its place that were no playbook."""
    project = context.project
    data = playbook_file.read_bytes(project.playbook)
    for path in sorted(project.claude.glob("playbook.json.unreadable-*")):
        message = f"{path.name} was no playbook, and was set aside"
        yield Finding(NOTE, message, f"look at what is in it, then run `rm {quote(str(path))}`")
    try:
        legacy = None if data is None else read_legacy(data, project.playbook.name)
    except BadInputError as error:
        fix = "run `tallybook replay`, which sets it aside and writes a new one"
        yield Finding(BAD, str(error).removeprefix(f"{project.playbook.name}: "), fix)
        return
    if context.log.exists():
        if drift := commands.drift(project):
            message, _, fix = drift.rpartition("; ")
            yield Finding(NOTE, message, fix)
    elif legacy is not None:
        message = f"{format_count(len(legacy.items), 'entry', 'entries')} not in the ledger yet"
        yield Finding(NOTE, message, "run `tallybook replay` to import them")


def check_redaction(context: Context) -> Iterator[Finding]:
    """Look for redacted texts that may still be on disk."""
    log, project = context.log, context.project
    pending = redaction.read_pending(log.folder)
    if pending is not None:
        text = f"the text of {format_count(len(pending.ids), 'event')}" if pending.ids else "a text"
        fix = "run `tallybook replay` to finish; if it stays, `tallybook redact` says what prevents it"
        yield Finding(BAD, f"{text} is redacted and may still be on disk", fix)
    # A log that is restored from a backup can have a redacted text again.
    redacted: set[str] = set()
    erased: set[str] = set()
    for raw in log.read():
        redacted.update(redaction.redacted_ids(raw))
        erased.update(id_ for _, id_ in redaction.find_erased(raw))
    for id_ in sorted(redacted - erased):
        message = f"the text of event {id_} was redacted and is in the log again"
        yield Finding(BAD, message, f"run: tallybook redact {id_} --reason …")
    # Without a redaction there is nothing to look for in the project's folder.
    for path in find_pages(project) if redacted else ():
        message = f"{path.relative_to(project.root)} is a page, which no redaction reaches"
        yield Finding(NOTE, message, f"run `tallybook page -o {quote(str(path))}` to write it again")


def check_secrets(context: Context) -> Iterator[Finding]:
    """Look for texts that look like secrets: what people type and import is recorded unchanged."""
    # Of a damaged ledger the intact batches are searched.
    for batch in salvage(context.log) if context.log.path.exists() else ():
        for record in batch.records:
            if formats := secrets.list_formats("\n".join(texts_of(record.event).values())):
                # An imported file may use a secret as the name of an entry.
                name = secrets.mask(getattr(record.event, "name", "") or kind_of(record.event)[0]).text
                looks = f"looks like it holds a secret ({', '.join(dict.fromkeys(formats))})"
                fix = f"run: tallybook redact {record.seq} --reason …"
                yield Finding(NOTE, f"event {record.seq} ({name}) {looks}", fix)


def check_entries(context: Context) -> Iterator[Finding]:
    """Name the entries that may be stale, and those with characters that people do not see."""
    if not context.log.exists():
        return
    entries = commands.playbook(context.project).state.entries.values()
    reviews, gone = review.load_reviews(context.project), review.find_gone(context.project, entries)
    for entry in entries:
        if says := stale_words(entry, reviews, gone.get(entry.name, ()))[1]:
            yield Finding(NOTE, f"{entry.name}: {says}", "run `tallybook review` to decide about it")
        # White space is no surprise in a text.
        if hidden := find_controls(entry.text) - set("\n\r\t"):
            codes = format_names([f"U+{ord(char):04X}" for char in sorted(hidden)])
            fix = f"run `tallybook reword {entry.name} TEXT`, or `tallybook retire {entry.name}`"
            yield Finding(NOTE, f"{entry.name} has invisible characters: {codes}", fix)
