"""The doctor's checks of what the ledger's own files hold; each says what it found and changes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.encoding.codec import decode, texts_of
from tallybook.ledger.errors import BadInputError
from tallybook.ledger.events import LogRecovered
from tallybook.ledger.line import START, head_field
from tallybook.ledger.reading import recover
from tallybook.ledger.reading.scan import Scan
from tallybook.ledger.storage import disk, spool
from tallybook.ledger.storage import redaction as redact
from tallybook.ledger.storage.log_ends import fits, read_at
from tallybook.ledger.verify import proven, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.surfaces import commands
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, age, counted, named, size
from tallybook.projections.surfaces.history import playbook_file
from tallybook.projections.surfaces.writing import requests
from tallybook.projections.surfaces.writing import secrets as screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.recorded import Batch
    from tallybook.ledger.storage.head import Head
    from tallybook.projections.surfaces.doctor.finding import Patient
    from tallybook.projections.surfaces.workspace.project import Project

_FIRST_LINE_BYTES = 1024
# A file that is written aside takes its name within a second; what is older was left by a process that was killed.
_LEFT_AFTER_US = 60 * clock.MICROSECONDS
# As much of a file that is no ledger's as is searched for secrets.
_SEARCHED_BYTES = 16 * 1024 * 1024


def ledger(patient: Patient) -> Iterator[Finding]:
    """Verify the ledger from its first byte to its last."""
    log = patient.log
    if not log.exists():
        hint = "the first command that writes begins one, and takes in a playbook.json that is there"
        yield Finding(NOTE, f"there is none yet in {patient.project.root}", hint)
        return
    verdict = verify(log, patient.progress)
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "`tallybook verify --salvage` shows what is whole", damage=True)
    for kind, number in verdict.unknown_kinds.items():
        hint = "a later Tallybook wrote it; upgrade to see what it says"
        yield Finding(NOTE, f"{counted(number, 'event')} of kind {kind} kept and ignored", hint)
    if verdict.ok and log.path.exists():
        events = "1 event verifies" if verdict.events == 1 else f"{verdict.events:,} events verify"
        last = f", the last as {verdict.head.seq}:{verdict.head.chain}" if verdict.events else ""
        yield Finding(OK, f"{events}{last}; {_dated(log.path, verdict.head.at, patient)}")


def _dated(path: Path, last: str, patient: Patient) -> str:
    """Return a verified log's size and age."""
    fd = disk.open_file(path, write=False)
    try:
        length = size(os.fstat(fd).st_size)
        first = head_field(read_at(fd, _FIRST_LINE_BYTES, 0).partition(b"\n")[0], b"at")
    finally:
        os.close(fd)
    if not last:
        return length
    begun, written = (age(clock.unix_us(at), patient.now) for at in (first, last))
    return f"{length}, begun {begun} and last written {written} ago"


def head(patient: Patient) -> Iterator[Finding]:
    """Look at how far the ledger is acknowledged, and at what lies behind that."""
    log = patient.log
    found = log.read_head()
    if not log.path.exists():
        return
    fd = disk.open_file(log.path, write=False)
    try:
        said = [*_flushes(found), *_behind(fd, log, found)]
    finally:
        os.close(fd)
    yield from said or [Finding(OK, f"acknowledged up to seq {0 if found is None else found.mark.seq:,}")]


def _flushes(found: Head | None) -> Iterator[Finding]:
    """Say what the head remembers of flushes that failed."""
    if found is None or not found.failures:
        return
    failed = "1 flush failed" if found.failures == 1 else f"{found.failures:,} flushes failed"
    if found.suspect >= 0:
        what = f"{failed}, and the disk may have lost what was written from offset {found.suspect:,} on"
        yield Finding(BAD, what, "mend the disk, then `tallybook replay` writes it again")
    else:
        what = f"{failed} since the ledger began; all of it was written again"
        yield Finding(NOTE, what, "the system's log may say what ails the disk")


def _behind(fd: int, log: JsonlLog, found: Head | None) -> Iterator[Finding]:
    """Say what lies behind the head in the open log."""
    length = os.fstat(fd).st_size
    known = START if found is None else found.mark
    if found is None and length:
        what = "it is missing or torn, so an end that is cut off would not be noticed"
        yield Finding(NOTE, what, "the next event that is recorded makes it anew")
    if length < known.offset or not fits(fd, known):
        return  # That is damage, and told as such.
    scan = Scan(fd, known, length, log.path.name, redact.owed_ids(log.folder))
    for _ in scan:
        pass
    behind, torn = scan.mark.seq - known.seq, length - scan.mark.offset
    if found is not None and behind:
        what = f"{counted(behind, 'event')} not acknowledged: the writer is at it just now, or was killed"
        yield Finding(NOTE, what, "the next event that is recorded acknowledges these, too")
    if scan.stop is not None and recover.is_unclean(fd, scan.stop, found, length):
        what = f"{counted(torn, 'byte')} at the end, never acknowledged and not whole: a writer was killed"
        yield Finding(NOTE, what, "the next command that writes seals them; nothing is cut off")


def waiting(patient: Patient) -> Iterator[Finding]:
    """Look at what waits in the spool."""
    project = patient.project
    payloads, problems = spool.waiting(project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "mend it or move it away: what it held is not recorded")
    moments = []
    for one in payloads:
        try:
            requests.all_from_wait(one.requests, f"spool:{one.id}", one.at)
            moments.append(clock.unix_us(one.at))
        except BadInputError as error:
            yield Finding(BAD, f"spool/{one.name}: {error}", "mend it or move it away: it cannot be taken in")
    if moments:
        what = "1 payload waits" if len(moments) == 1 else f"{len(moments):,} payloads wait"
        oldest = f"{what}, {'' if len(moments) == 1 else 'the oldest '}for {age(min(moments), patient.now)}"
        yield Finding(NOTE, oldest, f"the next command that writes takes {'it' if len(moments) == 1 else 'them'} in")
    elif not (payloads or problems) and patient.log.exists():
        yield Finding(OK, "nothing waits")


def quarantine(patient: Patient) -> Iterator[Finding]:
    """Look at the ranges that were sealed, and whether each has its copy."""
    log = patient.log
    if not log.exists():
        return
    sealing = [raw for raw in log.read() if redact.SEALS in raw.data and not raw.blotted]
    ranges = [one for batch in decode(sealing) for one in batch.events if isinstance(one, LogRecovered)]
    folder = log.folder / "quarantine"
    # Its end does not count: a copy ends before the line feed that was put behind the range.
    missing = [f"{one.begin}-{one.end}" for one in ranges if not any(folder.glob(f"{one.begin}-*.bin"))]
    sealed = f"{counted(len(ranges), 'sealed range')}, {size(sum(one.end - one.begin for one in ranges))} in all"
    if missing:
        hint = f"their bytes still stand in {log.path.name}; readers skip them either way"
        yield Finding(NOTE, f"{sealed}; no copy of {named(missing)}", hint)
    else:
        yield Finding(OK, f"{sealed}, each with its copy" if ranges else "nothing was ever sealed")


def redaction(patient: Patient) -> Iterator[Finding]:
    """Look for texts that were to go and may still stand on disk."""
    log = patient.log
    owed = redact.owed(log.folder)
    if owed is not None:
        text = f"the text of {counted(len(owed.ids), 'event')}" if owed.ids else "a text"
        what = f"{text} has to go and may still stand on disk"
        hint = "`tallybook replay` goes on; if it stays, `tallybook redact` again says what stands in the way"
        yield Finding(BAD, what, hint)
    if not log.exists():
        return
    said: set[str] = set()
    gone: set[str] = set()
    for raw in log.read():
        said.update(redact.redacted_by(raw))
        gone.update(id_ for _, id_ in redact.gone(raw))
    for id_ in sorted(said - gone):
        what = f"the text of event {id_} was redacted, and stands again"
        yield Finding(BAD, what, f"`tallybook redact {id_} --reason …` takes it out once more")
    if owed is None and not said - gone:
        yield Finding(OK, f"the text of {counted(len(said), 'event')} is gone" if said else "none is owed")


def leftovers(patient: Patient) -> Iterator[Finding]:
    """Look for files that killed processes left behind."""
    project = patient.project
    left = []
    for path in (*project.claude.glob(".*.tmp"), *project.ledger.rglob(".*.tmp")):
        try:
            changed_us = path.lstat().st_mtime_ns // 1000
        except FileNotFoundError:
            continue  # It has taken its name meanwhile.
        if patient.now.unix_us - changed_us > _LEFT_AFTER_US:
            left.append(path.relative_to(project.claude).as_posix())
    if left:
        what = f"{counted(len(left), 'file')} left by killed processes: {named(sorted(left))}"
        yield Finding(NOTE, what, "they may be deleted: what they held was never acknowledged")
    elif patient.log.exists():
        yield Finding(OK, "none")


def playbook(patient: Patient) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger."""
    project = patient.project
    path = project.playbook
    data = playbook_file.read_bytes(path)
    begun = patient.log.exists()
    try:
        legacy = None if data is None else read_legacy(data, path.name)
    except BadInputError as error:
        hint = "the next command that writes sets it aside and writes it anew"
        yield Finding(BAD, str(error).removeprefix(f"{path.name}: "), hint)
        return
    if not begun and legacy is not None:
        entries = "1 entry" if len(legacy.items) == 1 else f"{len(legacy.items):,} entries"
        odd = f", {counted(len(legacy.problems), 'odd item')}" if legacy.problems else ""
        yield Finding(NOTE, f"{entries}{odd}, not in the ledger yet", "`tallybook replay` takes it in")
    if begun:
        message, _, hint = (commands.drift(project) or "").rpartition("; ")
        yield Finding(NOTE, message, hint) if message else Finding(OK, "what the ledger says")


def set_aside(patient: Patient) -> Iterator[Finding]:
    """Look for files that were no playbook and were set aside."""
    aside = [path.name for path in _set_aside(patient.project)]
    if aside:
        what = f"{counted(len(aside), 'file')} that {'was' if len(aside) == 1 else 'were'} no playbook: {named(aside)}"
        yield Finding(NOTE, what, "look at what they hold, then delete them")
    elif patient.log.exists():
        yield Finding(OK, "none")


def _set_aside(project: Project) -> list[Path]:
    return sorted(project.claude.glob("playbook.json.unreadable-*"))


def time(patient: Patient) -> Iterator[Finding]:
    """Compare the ledger's time with the machine's."""
    newest = max((raw.mark.at for raw in patient.log.read()), default="")
    if newest > patient.now.at:
        what = f"the newest event is of {newest}, and this machine's clock says {patient.now.at}"
        yield Finding(NOTE, what, "set the clock right; `--at` with a time or an age may be wrong until then")
    elif newest:
        yield Finding(OK, "no event lies in the future")


def secrets(patient: Patient) -> Iterator[Finding]:
    """Look for texts that look like secrets: what people typed and files held was recorded as it was."""
    none = True
    log = patient.log
    # What is whole of a damaged ledger is looked at, too.
    for batch in proven(log) if log.path.exists() else ():
        for one in _secrets_of(batch):
            none = False
            yield one
    project = patient.project
    files = [*sorted((project.ledger / spool.FOLDER).glob("*.json")), *_set_aside(project)]
    if not log.exists():
        files.append(project.playbook)
    for path in files:
        names = _found_in(path)
        if names:
            none = False
            place = path.relative_to(project.claude).as_posix()
            hint = "`tallybook redact --text - --reason …` takes it out" if log.exists() else "take it out by hand"
            yield Finding(NOTE, f"{place} looks like it holds a secret ({names})", hint)
    if none and log.exists():
        yield Finding(OK, "no text looks like one")


def _secrets_of(batch: Batch) -> Iterator[Finding]:
    """Name the events of a batch whose texts look like secrets, and never the secrets."""
    for index, event in enumerate(batch.events):
        names = _names("\n".join(texts_of(event).values()))
        if names:
            seq = batch.records[index].seq
            # Nobody keeps a file from naming an entry like a secret.
            name = screen.mask(getattr(event, "name", "") or kind_of(event)[0]).text
            what = f"event {seq} ({name}) looks like it holds a secret ({names})"
            yield Finding(NOTE, what, f"`tallybook redact {seq} --reason …` takes it out")


def _found_in(path: Path) -> str:
    """Return the formats of the secrets in a file, empty where there is none, or no file."""
    try:
        fd = disk.open_file(path, write=False)
    except FileNotFoundError:
        return ""
    try:
        return _names(read_at(fd, _SEARCHED_BYTES, 0).decode("utf-8", "replace"))
    finally:
        os.close(fd)


def _names(text: str) -> str:
    return ", ".join(dict.fromkeys(screen.found(text)))
