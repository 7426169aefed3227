"""What a check finds, and the checks of all but agents.

They are those of the ledger, playbook.json, settings, file modes, git, the shared book and a person's own playbook.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
import os
from pathlib import Path
from shlex import quote
import shutil
import stat

import attrs

from tallybook.ledger.codec import texts_of
from tallybook.ledger.decisions.legacy_import import read_legacy
from tallybook.ledger.errors import BadInputError, LockHeldError
from tallybook.ledger.names import format_names
from tallybook.ledger.sharing.book import SKIPPED
from tallybook.ledger.storage import caches, disk, redaction, spool
from tallybook.ledger.verification import salvage, verify
from tallybook.projections.event_rows import kind_of
from tallybook.projections.review import stale_words
from tallybook.projections.surfaces import commands, review
from tallybook.projections.surfaces.console.output import METER, find_controls, format_count
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.install.hook_entries import tool_command
from tallybook.projections.surfaces.page.document import find_pages
from tallybook.projections.surfaces.scores.configuration import PLACE
from tallybook.projections.surfaces.sharing import divisions, membership
from tallybook.projections.surfaces.sharing.membership import ENGINES, Membership
from tallybook.projections.surfaces.workspace import git, personal, settings
from tallybook.projections.surfaces.workspace.project import Project, has_own_ledger, is_cut_off, repository_folders
from tallybook.projections.surfaces.writing import secrets

OK, NOTE, BAD = "ok", "note", "bad"


@attrs.frozen
class Finding:
    """One result of a check. Printed, it reads: what is wrong, why it matters; the fix.

    Attributes:
        level: ``ok``; ``note``, better changed; or ``bad``, someone has to act.
        message: What the check found and, where it is not plain, why that matters.
        fix: The command or edit that fixes it; a check that is not ok always has one.
        check: Name of the check, ``spool``; the runner fills it in from the table of checks.
        is_damage: Whether acknowledged bytes are gone or changed.
    """

    level: str
    message: str
    fix: str = ""
    check: str = ""
    is_damage: bool = False


_LOCKS = {"lock": disk.LOCK_WAIT_MS, "head": disk.LOCK_WAIT_MS, "render.lock": playbook_file.RENDER_WAIT_MS}


def check_ledger(project: Project) -> Iterator[Finding]:
    """Verify the ledger from its first byte to its last."""
    log = open_own_log(project)
    if not log.exists():
        yield Finding(NOTE, f"there is no ledger yet in {project.root}", "`tallybook add TEXT` begins one")
        return
    verdict = verify(log, METER.update)
    # What git did to a log reads like damage, and has a command of its own.
    division = divisions.recognize(project) if verdict.problems else None
    if division is not None:
        yield Finding(BAD, f"{log.path.name}: {division.what}", division.fix, is_damage=True)
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "run `tallybook verify --salvage` to see the intact part", is_damage=True)
    if verdict.problems and division is None:
        yield Finding(NOTE, "a damaged ledger takes no events", divisions.repair_hint(project))
    for kind, number in verdict.unknown_kinds.items():
        message = f"{format_count(number, 'event')} of kind {kind}, of a later version of Tallybook, kept and ignored"
        yield Finding(NOTE, message, f"upgrade: run `{tool_command()}`")
    if verdict.ok and log.path.exists():
        events = f"{format_count(verdict.events, 'event')} verified"
        yield Finding(OK, f"{events}; head {verdict.head.seq}:{verdict.head.chain}" if verdict.events else events)


def check_head(project: Project) -> Iterator[Finding]:
    """Check that the head is there, and that no flush failed since it was written."""
    log = open_own_log(project)
    head = log.read_head()
    if head is None and log.path.exists() and log.path.stat().st_size:
        message = "the head is missing or torn, so events cut off at the end would not be noticed"
        yield Finding(NOTE, message, "the next command that records an event writes it again")
    elif head is not None and head.failures and head.suspect >= 0:
        times = f"{format_count(head.failures, 'flush', 'flushes')} failed"
        message = f"{times}, and the disk may have lost what was written from offset {head.suspect:,} on"
        yield Finding(BAD, message, "repair the disk, then run `tallybook replay` to write those events again")


def check_locks(project: Project) -> Iterator[Finding]:
    """Take each lock, waiting as long as a writer does, and release it at once."""
    for name, wait_ms in _LOCKS.items():
        path = project.ledger / name
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


def check_spool(project: Project) -> Iterator[Finding]:
    """Check the payloads that wait in the spool."""
    payloads, problems = spool.read_files(project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "repair or move the file; until then its payload is not recorded")
    if payloads:
        message = f"{format_count(len(payloads), 'payload')} waiting"
        yield Finding(NOTE, message, "run `tallybook replay`, which records what waits, or says why it cannot")


def check_playbook_file(project: Project) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger, and name the files in its place that were no playbook."""
    data = playbook_file.read_bytes(project.playbook)
    files = sorted(project.claude.glob("playbook.json.unreadable-*"))
    is_whole = not files or verify(open_own_log(project)).ok
    for path in files:
        what, fix = "was no playbook", "look at what is in it, then"
        with suppress(BadInputError):
            read_legacy(playbook_file.read_bytes(path) or b"", path.name)
            # That of a history that is lost may be all that is left of it.
            command = f"`tallybook import {quote(str(path))}`"
            what, fix = "is not of this ledger", f"run {command}, which adds the entries that are not here, then"
        fix = f"{fix} run `rm {quote(str(path))}`" if is_whole else "keep it until the ledger is repaired"
        yield Finding(NOTE, f"{path.name} {what}, and was set aside", fix)
    try:
        legacy = None if data is None else read_legacy(data, project.playbook.name)
    except BadInputError as error:
        fix = "run `tallybook replay`, which sets it aside and writes a new one"
        yield Finding(BAD, str(error).removeprefix(f"{project.playbook.name}: "), fix)
        return
    if open_own_log(project).exists():
        if drift := commands.drift(project):
            message, _, fix = drift.rpartition("; ")
            yield Finding(NOTE, message, fix)
    elif legacy is not None:
        message = f"{format_count(len(legacy.items), 'entry', 'entries')} not in the ledger yet"
        yield Finding(NOTE, message, "run `tallybook replay` to import them")


def check_redaction(project: Project) -> Iterator[Finding]:
    """Look for redacted texts that may still be on disk."""
    log = open_own_log(project)
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


def check_secrets(project: Project) -> Iterator[Finding]:
    """Look for texts that look like secrets: what people type and import is recorded unchanged."""
    # Of a damaged ledger the intact batches are searched.
    for batch in salvage(open_own_log(project)) if open_own_log(project).path.exists() else ():
        for record in batch.records:
            if formats := secrets.list_formats("\n".join(texts_of(record.event).values())):
                # An imported file may use a secret as the name of an entry.
                name = secrets.mask(getattr(record.event, "name", "") or kind_of(record.event)[0])
                looks = f"looks like it holds a secret ({', '.join(dict.fromkeys(formats))})"
                fix = f"run: tallybook redact {record.seq} --reason …"
                yield Finding(NOTE, f"event {record.seq} ({name}) {looks}", fix)


def check_entries(project: Project) -> Iterator[Finding]:
    """Name the entries that may be stale, and those with characters that people do not see."""
    if not open_own_log(project).exists():
        return
    entries = commands.playbook(project).state.entries.values()
    reviews, gone = review.load_reviews(project), review.find_gone(project, entries)
    for entry in entries:
        if says := stale_words(entry, reviews, gone.get(entry.name, ()))[1]:
            yield Finding(NOTE, f"{entry.name}: {says}", "run `tallybook review` to decide about it")
        # White space is no surprise in a text.
        if hidden := find_controls(entry.text) - set("\n\r\t"):
            codes = format_names([f"U+{ord(char):04X}" for char in sorted(hidden)])
            fix = f"run `tallybook reword {entry.name} TEXT`, or `tallybook retire {entry.name}`"
            yield Finding(NOTE, f"{entry.name} has invisible characters: {codes}", fix)


def check_settings(project: Project) -> Iterator[Finding]:
    """Name what is ignored in the settings files, and what makes the configuration of the scores invalid."""
    users = settings.users_file()
    own = settings.merge({users: settings.load(users)})
    for path in settings.files(project):
        loaded = settings.load(path)
        for problem in loaded.wrong:
            yield Finding(BAD, str(problem), "correct it; until then the default counts")
        if loaded.unknown:
            fix = "correct or remove it; `tallybook init` writes a commented file with every setting"
            yield Finding(NOTE, f"{path}: there is no setting {format_names(loaded.unknown)}", fix)
        # The files of a project come with a clone, and a clone must not cost its user more.
        refused = [
            f"[reflection] {field}"
            for field, narrows in settings.SPENDING.items()
            if path != users and field in loaded.values and not narrows(loaded.values[field], getattr(own, field))
        ]
        if refused:
            fix = f"set it in {users}; a project may only turn reflection off or lower its cost"
            yield Finding(NOTE, f"{path}: {format_names(refused)} does not count here", fix)
        if path == users and has_own_ledger(path):
            fix = "move it into the settings of the folder that needs its own ledger"
            yield Finding(NOTE, f"{path}: [ledger] own counts for one folder and not for a user", fix)
    # PyYAML takes a while to import, so projects without a configuration skip it.
    if os.path.lexists(project.root / PLACE):
        from tallybook.projections.surfaces.scores import configuration, files

        try:
            files.folder_of(project, configuration.load(project).storage.path)
        except BadInputError as error:
            message, _, fix = str(error).partition("; ")
            yield Finding(BAD, message, f"{fix or 'correct it'}; until then every command of the scores fails")


def check_modes(project: Project) -> Iterator[Finding]:
    """Look for files that this user may not write, or others may, although they do not share the project's folder."""
    base = caches.user_folder()
    if base and (fault := caches.find_fault(base, os.path.realpath(project.ledger))):
        fix = f"run `chmod 700 {quote(base)}` if it is yours, or set {caches.VARIABLE} to another folder"
        yield Finding(NOTE, f"no cache is used, so commands take longer: {base} {fault}", fix)
    if os.name != "posix" or not project.ledger.exists():
        return
    modes = {
        path: path.lstat().st_mode for path in (project.ledger, *project.ledger.rglob("*")) if not path.is_symlink()
    }
    place = quote(str(project.ledger))

    def names(paths: list[Path]) -> str:
        return format_names(sorted(path.relative_to(project.claude).as_posix() for path in paths))

    if closed := [path for path in modes if not os.access(path, os.W_OK)]:
        fix = f"run `chmod -R u+rwX {place}` as its owner; until then you record nothing here"
        yield Finding(NOTE, f"you may read and not write {names(closed)}", fix)
    # A file system that keeps no modes shows every file as executable; Tallybook creates none.
    if any(stat.S_ISREG(mode) and mode & stat.S_IXUSR for mode in modes.values()):
        return
    others = 0o077 & ~disk.folder_rights(project.claude.stat())[0]
    owner = "go" if others & 0o070 else "o"
    if writable := [path for path, mode in modes.items() if mode & others & 0o022]:
        yield Finding(BAD, f"others may write {names(writable)}", f"`chmod -R {owner}-rwx {place}`")
    if readable := [path for path, mode in modes.items() if mode & others and not mode & others & 0o022]:
        yield Finding(NOTE, f"others may read {names(readable)}", f"`chmod -R {owner}-rwx {place}`")
    if project.playbook.exists() and project.playbook.stat().st_mode & others & 0o022:
        fix = f"`chmod {owner}-w {quote(str(project.playbook))}`"
        yield Finding(BAD, "others may write playbook.json, which agents obey", fix)


def check_git(project: Project) -> Iterator[Finding]:
    """Look for files of the ledger that git tracks or deletes, and for a worktree that lost its repository."""
    start = (project.start or project.root).resolve()
    if (folders := repository_folders(str(start))) and is_cut_off(folders[-1]):
        message = f"{folders[-1]} is a linked worktree that no repository lists, so it shares no ledger"
        yield Finding(NOTE, message, "if it or the repository was moved, run `git worktree repair` in it")
    root = next((folder for folder in (project.root, *project.root.parents) if (folder / ".git").exists()), None)
    if shutil.which("git") is None or root is None or not project.ledger.exists():
        return

    def listed(path: Path, *options: str) -> list[str]:
        answer = git.ask(project.root, "ls-files", "-z", *options, "--", str(path)).decode(errors="replace")
        # A file with a conflict is listed once for each side.
        return list(dict.fromkeys(filter(None, answer.split("\0"))))

    try:
        ledgers = [name for name in listed(project.ledger, "--cached") if not name.endswith(".gitignore")]
        playbooks = listed(project.playbook, "--cached", "--ignored", "--exclude-standard")
        strays = listed(project.playbook, "--others", "--exclude-standard")
    except git.FAILURES as error:
        fix = f"run `git -C {quote(str(project.root))} status`, which says more"
        yield Finding(NOTE, f"git could not be run: {git.failure_reason(error)}", fix)
        return
    if ledgers:
        message = f"git tracks {format_names(ledgers)}: a checkout or a merge changes it, which is damage"
        yield Finding(NOTE, message, f"run `git rm -r --cached {quote(str(project.ledger))}`, which keeps the files")
    if playbooks:
        message = f"git tracks {format_names(playbooks)} although it is ignored: git stops at each change of it"
        yield Finding(NOTE, message, f"run `git rm --cached {quote(str(project.playbook))}`, which keeps the file")
    if strays:
        message = f"git does not ignore {format_names(strays)}, which each machine renders for itself"
        yield Finding(NOTE, message, "run `tallybook init`, which lists it in this clone's .git/info/exclude")
    if removal := git.removal(project):
        # Where the repository lies elsewhere, this folder looks as if it could be removed.
        level = NOTE if (root / ".git").is_file() else OK
        yield Finding(level, removal, "run `tallybook share git`" if level == NOTE else "")


def check_sharing(project: Project) -> Iterator[Finding]:
    """Check the part of a project in a shared book; a project that shares none is not mentioned."""
    log, part = reading.open_log(project), membership.load(project)
    sync = "run `tallybook sync`"
    if reading.has_book(log):
        verdict, taken = verify(log.copy.log), log.history.frontier.seq
        for problem in verdict.problems:
            yield Finding(BAD, f"the copy of the book: {problem}", sync, is_damage=True)
        if not verdict.problems and verdict.head.seq < taken:
            message = f"the copy of the book ends at book:{verdict.head.seq}, and the playbook needs it to book:{taken}"
            yield Finding(BAD, message, sync)
    elif part is not None:
        yield Finding(NOTE, f"the book {part.name} was never taken in", sync)
    if part is not None and part.engine not in ENGINES:
        yield Finding(BAD, f"{part.engine!r} is not an engine of this Tallybook", "run `tallybook share` with another")
    yield from _check_syncs(project, part)
    misfit = None if part is not None else membership.find_misfit(project)
    if misfit is not None:
        yield Finding(NOTE, f"nothing is sent or fetched here: {misfit[0]}", f"run: {misfit[1]}")
    elif part is None and reading.has_book(log):
        why = "nothing is sent or fetched here: the ledger has a shared book, and no settings of this user share it"
        yield Finding(NOTE, why, "run: tallybook share ENGINE ADDRESS")


def _check_syncs(project: Project, part: Membership | None) -> Iterator[Finding]:
    """Say what the last sync met, and which runs syncs skipped."""
    results = sync_results.read(project)
    for text in results[-1]["problems"] if results and part is not None else ():
        if SKIPPED not in text:
            yield Finding(NOTE, f"the last sync: {text}", "run `tallybook share status` for the engine's present state")
    runs = [text for run in results for text in run["problems"] if SKIPPED in text]
    for text in dict.fromkeys(runs):
        fix = "`tallybook share verify` says whether it is still there, `tallybook share repair` leaves it out"
        yield Finding(NOTE, f"the engine holds what every machine skips: {text}", fix)


def check_personal(project: Project) -> Iterator[Finding]:
    """Check the person's own playbook; where there is none, it is not mentioned."""
    mine = personal.find(project)
    if mine is None:
        fault = personal.fault(project)
        if fault and Path(personal.folder()).exists():
            yield Finding(NOTE, f"{personal.folder()} is left out here: {fault}", personal.FIXES[fault])
        return
    log = reading.open_log(mine)
    problems = verify(log).problems
    for problem in problems:
        yield Finding(BAD, f"{mine.root}: {problem}", "run `tallybook verify --mine`", is_damage=True)
    if problems:
        return
    own, theirs = reading.current(log), reading.current(open_own_log(project))
    if hidden := [name for name in own.entries if name in theirs.used]:
        message = f"the project has entries of the same name, which hide your own {format_names(hidden)}"
        yield Finding(NOTE, message, "`tallybook retire NAME --mine` and `tallybook add --mine` give them other names")
