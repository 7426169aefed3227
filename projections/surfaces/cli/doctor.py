"""The verbs `doctor` and `check`: what each check finds, and how findings are printed.

To add a check of `doctor`: write a function that takes the project and yields findings, and give it a row in `CHECKS`.
A check changes nothing on disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
import os
from pathlib import Path
from shlex import quote
import shutil
import stat
from subprocess import SubprocessError
from typing import Any, Final, NamedTuple

import click

from tallybook.ledger import clock, errors
from tallybook.ledger.codec import texts_of
from tallybook.ledger.errors import BadInputError, CannotWriteError, DamagedLedgerError, TallybookError
from tallybook.ledger.names import format_names
from tallybook.ledger.sharing.book import SKIPPED
from tallybook.ledger.sharing.replica import find_ids
from tallybook.ledger.storage import caches, disk, redaction, spool
from tallybook.ledger.verification import salvage, verify
from tallybook.projections.history.event_rows import kind_of
from tallybook.projections.history.review import stale_words
from tallybook.projections.scores.trends import METHODS, GateQuery
from tallybook.projections.surfaces.agents import table
from tallybook.projections.surfaces.cli import review, selection
from tallybook.projections.surfaces.cli.parameters import Verb
from tallybook.projections.surfaces.cli.scores import gate_options
from tallybook.projections.surfaces.console.output import find_controls, format_count, reply, write
from tallybook.projections.surfaces.history import playbook_file, reading
from tallybook.projections.surfaces.history.reading import open_own_log
from tallybook.projections.surfaces.hooks import ledger_access, sync_results
from tallybook.projections.surfaces.install import hook_entries, places
from tallybook.projections.surfaces.install.hook_entries import COMMAND, tool_command
from tallybook.projections.surfaces.install.places import Installation
from tallybook.projections.surfaces.page.document import find_pages
from tallybook.projections.surfaces.reflection import raters, worker
from tallybook.projections.surfaces.scores import answers, configuration
from tallybook.projections.surfaces.scores import files as score_files
from tallybook.projections.surfaces.scores.answers import ScorePage, Table, markdown
from tallybook.projections.surfaces.sharing import ledger_copies, membership
from tallybook.projections.surfaces.workspace import git, personal, settings
from tallybook.projections.surfaces.workspace import project as projects
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import commands, secrets

OK, NOTE, BAD = "ok", "note", "bad"


class Finding(NamedTuple):
    """One result of a check. Printed, it reads: what is wrong, why it matters; the fix.

    Attributes:
        level: ``ok``; ``note``, better changed; or ``bad``, someone has to act.
        message: What the check found and, where it is not plain, why that matters.
        fix: The command or edit that fixes it; empty where there is nothing to do.
        check: Name of the check, ``spool``; the runner fills it in from the table of checks.
        is_damage: Whether acknowledged bytes are gone or changed.
    """

    level: str
    message: str
    fix: str = ""
    check: str = ""
    is_damage: bool = False


# The ledger and its files


def check_ledger(project: Project) -> Iterator[Finding]:
    """Verify the ledger from its first byte to its last."""
    log = open_own_log(project)
    if not log.exists():
        yield Finding(NOTE, f"there is no ledger yet in {project.root}", "`tallybook add TEXT` begins one")
        return
    verdict = verify(log)
    for problem in verdict.problems:
        yield Finding(BAD, str(problem), "run `tallybook verify --salvage` to see the intact part", is_damage=True)
    if verdict.problems:
        yield Finding(NOTE, "a damaged ledger takes no events", ledger_copies.repair_hint(project))
    for kind, number in verdict.unknown_kinds.items():
        message = f"{format_count(number, 'event')} of kind {kind}, of a later version of Tallybook, kept and ignored"
        yield Finding(NOTE, message, f"upgrade: run `{tool_command()}`")
    if verdict.ok:
        events = f"{format_count(verdict.events, 'event')} verified"
        yield Finding(OK, f"{events}; head {verdict.head.seq}:{verdict.head.chain}")


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


def check_spool(project: Project) -> Iterator[Finding]:
    """Check the payloads that wait in the spool."""
    payloads, problems = spool.read_files(project.ledger)
    for problem in problems:
        yield Finding(BAD, str(problem), "repair or move the file; until then its payload is not recorded")
    if payloads:
        message = f"{format_count(len(payloads), 'payload')} waiting"
        yield Finding(NOTE, message, "run `tallybook replay`, which records them, or says why it cannot")


def check_playbook_file(project: Project) -> Iterator[Finding]:
    """Compare ``playbook.json`` with the ledger, and name the files in its place that were no playbook."""
    data = playbook_file.read_bytes(project.playbook)
    try:
        legacy = None if data is None else playbook_file.read_playbook(project, data)
    except BadInputError as error:
        fix = "run `tallybook replay`, which sets it aside and writes a new one"
        yield Finding(BAD, str(error).removeprefix(f"{project.playbook.name}: "), fix)
        return
    if open_own_log(project).exists():
        yield from _compare(commands.check, project, NOTE)
    elif legacy is not None:
        message = f"{format_count(len(legacy.items), 'entry', 'entries')} not in the ledger yet"
        yield Finding(NOTE, message, "run `tallybook replay` to import them")
    # Of a damaged ledger they may be all that is left: it is raised above, and nobody is asked to delete them.
    for path in sorted(project.claude.glob("playbook.json.unreadable-*")):
        place = quote(str(path))
        fix = f"`tallybook import {place}` adds its entries if it is a playbook; then run `rm {place}`"
        yield Finding(NOTE, f"{path.name} was set aside", fix)


def check_redaction(project: Project) -> Iterator[Finding]:
    """Look for redacted texts that may still be on disk."""
    log = open_own_log(project)
    pending = redaction.read_pending(log.folder)
    if pending is not None:
        text = f"the text of {format_count(len(pending.ids), 'event')}" if pending.ids else "a text"
        fix = "run `tallybook replay` to finish; if it stays, `tallybook redact` says what prevents it"
        yield Finding(BAD, f"{text} is redacted and may still be on disk", fix)
    redacted = {id_ for raw in log.read() for id_ in redaction.read_redacted_ids(raw)}
    # A log that is restored from a backup can have a redacted text again.
    for raw in log.read() if redacted else ():
        erased = {id_ for _, id_ in redaction.find_erased(raw)}
        for id_ in sorted(redacted.intersection(find_ids(raw.data)) - erased):
            message = f"the text of event {id_} was redacted and is in the log again"
            yield Finding(BAD, message, f"run: tallybook redact {id_} --reason …")
    # Without a redaction there is nothing to look for in the project's folder.
    for path in find_pages(project) if redacted else ():
        message = f"{path.relative_to(project.root)} is a page, which no redaction reaches"
        yield Finding(NOTE, message, f"if it is older, write it again: run `tallybook page -o {quote(str(path))}`")


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
            f"[{section}] {field}"
            for (section, field), rule in settings.SETTINGS.items()
            if path != users and rule.narrows is not None and field in loaded.values
            if not rule.narrows(loaded.values[field], getattr(own, field))
        ]
        if refused:
            fix = f"set it in {users}; a project may only turn it off or lower it"
            yield Finding(NOTE, f"{path}: {format_names(refused)} does not count here", fix)
        if path == users and projects.has_own_ledger(path):
            fix = "move it into the settings of the folder that needs its own ledger"
            yield Finding(NOTE, f"{path}: [ledger] own counts for one folder and not for a user", fix)
    if os.path.lexists(project.root / configuration.PLACE):
        try:
            score_files.folder_of(project, configuration.load(project).storage.path)
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
    paths = (project.ledger, *project.ledger.rglob("*"))
    modes = {path: path.lstat().st_mode for path in paths if not path.is_symlink()}
    place = quote(str(project.ledger))

    def names(paths: list[Path]) -> str:
        return format_names(sorted(path.relative_to(project.claude).as_posix() for path in paths))

    if closed := [path for path in modes if not os.access(path, os.R_OK | os.W_OK)]:
        fix = f"run `chmod -R u+rwX {place}` as its owner; until then you record nothing here"
        yield Finding(NOTE, f"you may not read or write {names(closed)}", fix)
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
    if (folders := projects.repository_folders(str(start))) and projects.is_cut_off(folders[-1]):
        message = f"{folders[-1]} is a linked worktree that no repository lists, so it shares no ledger"
        yield Finding(NOTE, message, "if it or the repository was moved, run `git worktree repair` in it")
    root = next((folder for folder in (project.root, *project.root.parents) if (folder / ".git").exists()), None)
    if shutil.which("git") is None or root is None or not project.ledger.exists():
        return

    def list_files(path: Path, *options: str) -> list[str]:
        answer = git.ask(project.root, "ls-files", "-z", *options, "--", str(path)).decode(errors="replace")
        # A file with a conflict is listed once for each side.
        return list(dict.fromkeys(filter(None, answer.split("\0"))))

    try:
        ledgers = [name for name in list_files(project.ledger, "--cached") if not name.endswith(".gitignore")]
        playbooks = list_files(project.playbook, "--cached", "--ignored", "--exclude-standard")
        strays = list_files(project.playbook, "--others", "--exclude-standard")
    except git.FAILURES as error:
        fix = f"run `git -C {quote(str(project.root))} status`, which says more"
        yield Finding(NOTE, f"git could not be run: {error}", fix)
        return
    if ledgers:
        message = f"git tracks {format_names(ledgers)}: a checkout or a merge changes it, which is damage"
        fix = f"let one machine write, on one branch, or run `git rm -r --cached {quote(str(project.ledger))}`"
        yield Finding(NOTE, message, f"{fix}, which keeps the files")
    if playbooks:
        message = f"git tracks {format_names(playbooks)} although it is ignored: git stops at each change of it"
        yield Finding(NOTE, message, f"run `git rm --cached {quote(str(project.playbook))}`, which keeps the file")
    if strays:
        message = f"git does not ignore {format_names(strays)}, which each machine renders for itself"
        yield Finding(NOTE, message, "run `tallybook init`, which lists it in this clone's .git/info/exclude")
    # Where the repository lies elsewhere, this folder looks as if it could be removed.
    if (root / ".git").is_file() and (removal := git.removal(project)):
        yield Finding(NOTE, removal, "run `tallybook share git`")


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
    if part is not None and part.engine not in membership.ENGINES:
        yield Finding(BAD, f"{part.engine!r} is not an engine of this Tallybook", "run `tallybook share` with another")
    results = sync_results.read(project)
    last = results[-1]["problems"] if results and part is not None else ()
    for text in [text for text in last if SKIPPED not in text]:
        yield Finding(NOTE, f"the last sync: {text}", "run `tallybook share status` for the engine's present state")
    for text in dict.fromkeys(text for run in results for text in run["problems"] if SKIPPED in text):
        fix = "`tallybook share verify` says whether it is still there, `tallybook share repair` leaves it out"
        yield Finding(NOTE, f"the engine holds what every machine skips: {text}", fix)
    if part is None and (misfit := membership.find_misfit(project)):
        yield Finding(NOTE, f"nothing is sent or fetched here: {misfit[0]}", f"run: {misfit[1]}")
    elif part is None and reading.has_book(log):
        why = "nothing is sent or fetched here: the ledger has a shared book, and no settings of this user share it"
        yield Finding(NOTE, why, "run: tallybook share ENGINE ADDRESS")


def check_personal(project: Project) -> Iterator[Finding]:
    """Check the person's own playbook; where there is none, it is not mentioned."""
    mine = personal.find(project)
    if mine is None:
        return
    log = reading.open_log(mine)
    problems = verify(log).problems
    for problem in problems:
        yield Finding(BAD, f"{mine.root}: {problem}", "run `tallybook verify --mine`", is_damage=True)
    taken = reading.current(open_own_log(project)).used
    if hidden := [] if problems else [name for name in reading.current(log).entries if name in taken]:
        message = f"the project has entries of the same name, which hide your own {format_names(hidden)}"
        yield Finding(NOTE, message, "`tallybook retire NAME --mine` and `tallybook add --mine` give them other names")


# Agents


class HookFile(NamedTuple):
    """A file from which an agent reads hooks: settings, or a file of a plugin.

    Attributes:
        path: Its path.
        is_init_s: Whether ``init`` writes hooks into it.
        document: What the file says, empty where the agent cannot read it.
        calls: How its command lines call Tallybook.
    """

    path: Path
    is_init_s: bool
    document: dict[str, Any]
    calls: tuple[hook_entries.HookCommand, ...]


def check_hooks(project: Project) -> Iterator[Finding]:
    """Check, for each agent that is here, that its hooks are installed and can run; report the last hook error."""
    # An agent records nowhere in which folder it is started: mostly where `init` puts its hooks.
    start, named = project.start or project.root, os.environ.get(places.FOLDER)
    own = [file for file in _read_files(table.CLAUDE, start) if file.calls and file.path.is_relative_to(start)]
    is_start = own or (named and os.path.realpath(named) == os.path.realpath(start))
    folder = start if is_start else places.find_start_folder(start)
    read = {name: _read_files(name, folder) for name in table.AGENTS}
    calling = {name: [file for file in read[name] if file.calls] for name in table.AGENTS}
    for name in table.AGENTS:
        files, option = places.FILES[name], "" if name == table.CLAUDE else f" {name}"
        # Copilot also runs the hooks of Claude Code, those of the project and not of the user.
        served = files.runs and any(file.path.is_relative_to(folder) for file in calling[files.runs])
        if calling[name]:
            yield from _check_installed(files, calling[name], folder, option)
        elif not served and _is_used(name, read[name], folder):
            # An agent that is not wanted here is no fault where another gets the playbook.
            is_wanted = not any(calling.values())
            fix = f"run `tallybook init{option}` to install the hooks"
            if fault := _find_fault(files, read[name]):
                yield Finding(BAD if is_wanted else NOTE, fault, f"correct it, then {fix}")
                continue
            message = f"{files.title} is here, and none of its settings call Tallybook"
            yield Finding(NOTE if is_wanted else OK, message, fix)
    switches = [file for file in read[table.CLAUDE] if isinstance(file.document.get("disableAllHooks"), bool)]
    # The first file that has the switch decides: the agent lets local settings win.
    if calling[table.CLAUDE] and switches and switches[0].document["disableAllHooks"]:
        message = f'{switches[0].path}: "disableAllHooks" is true, so the agent calls no hook'
        yield Finding(NOTE, message, "remove it")
    path = project.ledger / ledger_access.ERROR_FILE
    with suppress(FileNotFoundError):
        message = disk.read_file(path).decode("utf-8", "replace").strip()
        yield Finding(NOTE, f"the last hook error: {message}", f"run `rm {quote(str(path))}` once that is fixed")


def _find_fault(files: Installation, read: Sequence[HookFile]) -> str:
    """Return why ``init`` can add no hooks to an agent's files, such as that one is not JSON; empty where it can."""
    for path in (file.path for file in read if file.is_init_s):
        try:
            with suppress(OSError, CannotWriteError):
                hook_entries.read(disk.read_file(os.path.realpath(path)), files, str(path))
        except BadInputError as error:
            return str(error).removesuffix(f"; {places.UNCHANGED}")
    return ""


def _check_installed(files: Installation, own: Sequence[HookFile], folder: Path, option: str) -> Iterator[Finding]:
    """Report on the files of an agent that call Tallybook: events, programs, and hooks that the agent does not run."""
    init_s = [file for file in own if file.is_init_s]
    is_users = all(not file.path.is_relative_to(folder / files.folder) for file in init_s)
    scope = f"{' --user' if is_users else ''}{option}"
    called: set[str] = set()
    for file in own:
        events = {event for event, _ in hook_entries.own_calls(file.document, files)}
        called |= events
        yield Finding(OK, f"installed in {file.path}, for {files.title}")
        for call in file.calls:
            repair = f"run `tallybook init{scope}` to write a working command"
            if not call.is_plain:
                # `init` leaves alone a line that somebody extended.
                repair = f"run `tallybook uninstall{scope}`, then `tallybook init{scope}`"
            yield from _find_missing_programs(call, file.path, repair if file.is_init_s else "correct it there")
        # The file of a plugin has the name of that of `init`.
        if files.record_of_trust and file.path.name == files.file:
            running = places.find_running_events(files, file.path)
            # The agent skips such hooks without a word, so only its own record tells.
            if stopped := [event for event in files.events if event in events - running]:
                hooks = f"the hooks for {', '.join(stopped)}"
                message = f"{files.title} does not run {hooks}: they are not trusted, or switched off"
                yield Finding(NOTE, message, f"run `{files.programs[0]}` in {folder}, and trust or enable the hooks")
    if init_s and (missing := [event for event in files.events if event not in called]):
        where = " and ".join(str(file.path) for file in init_s)
        yield Finding(NOTE, f"{where}: no hook for {', '.join(missing)}", f"run `tallybook init{scope}` to add them")


def _find_missing_programs(call: hook_entries.HookCommand, path: Path, repair: str) -> Iterator[Finding]:
    """Report the programs of a hook's command line that no shell finds, or that other machines do not have."""
    # A team shares its settings and not its paths.
    if (call.python or call.program != COMMAND) and git.is_tracked(path):
        message = f"git tracks {path}, whose hooks name programs of this machine"
        yield Finding(NOTE, message, f"{repair}, which other machines find as well")
    fault, runs = hook_entries.find_fault(call)
    if fault and call.program == COMMAND and not call.python:
        # In a file that git tracks, `init` writes this very command.
        repair = f"run `{tool_command()}`" + ("" if git.is_tracked(path, unknown=True) else f", or {repair}")
    elif fault and not call.python:
        repair = f"put its folder on PATH, or {repair}"
    if fault:
        yield Finding(NOTE if runs else BAD, f"{path}: the hooks {fault}", repair)


# The files that hold hooks


def _read_files(name: str, folder: Path) -> list[HookFile]:
    """Return the files from which an agent, started in a folder, reads hooks; Claude Code's local settings first."""
    files = places.FILES[name]
    users = places.users_folder(name)
    own = [folder / files.folder / files.file, users / files.file]
    others = [path for pattern in files.other_hooks for path in sorted(folder.glob(pattern))]
    others += [path for pattern in files.users_hooks for path in sorted(users.glob(pattern))]
    hook_files = []
    for path in filter(Path.exists, dict.fromkeys((*others, *own))):
        document = places.read_document(path)
        # Agents nest command lines at different depths.
        calls = map(hook_entries.call_of, table.collect_texts(document.get("hooks")).split("\n"))
        hook_files.append(HookFile(path, path in own, document, tuple(dict.fromkeys(filter(None, calls)))))
    if name != table.CLAUDE:
        return hook_files
    enabled: dict[str, object] = {}
    for file in reversed(hook_files):
        enabled |= table.object_of(file.document, "enabledPlugins")
    # MARKETPLACE/NAME/VERSION/hooks/hooks.json stays there when the plugin is disabled.
    pattern = files.users_hooks[0]
    is_on = {path: enabled.get("@".join(path.parts[-4:-6:-1])) is True for path in users.glob(pattern)}
    return [file for file in hook_files if is_on.get(file.path, True)]


def _is_used(name: str, read: Sequence[HookFile], folder: Path) -> bool:
    """Say whether an agent is used here; every project has the folder of Claude Code."""
    if name != table.CLAUDE:
        return places.is_used(places.InstallTarget(folder), places.FILES[name])
    state = Path(os.environ.get("CLAUDE_CONFIG_DIR") or places.home()) / ".claude.json"
    return bool(read) or state.exists() or (places.users_folder() / "projects").exists()


# Reflection


_REFLECT: Final = "run `tallybook reflect`"


def check_reflection(project: Project) -> Iterator[Finding]:
    """Report what the chosen rater lacks, pending and failed sessions, a spent budget, and transcripts not read."""
    options, state = settings.read(project, store=False), worker.load_reflections(project)
    pending = {name: state.sessions[name] for name in worker.find_due(state, worker.Plan(options), ())}
    yield from _find_missing(options)
    tokens = state.tokens_by_day.get(clock.utc_now().at[:10], 0)
    if pending and tokens >= options.tokens_per_day:
        message = f"{worker.SPENT}, {tokens:,} of {options.tokens_per_day:,}, so pending sessions wait until tomorrow"
        yield Finding(NOTE, message, "run `tallybook reflect --tokens N`")
    elif pending:
        yield Finding(NOTE, f"{format_count(len(pending), 'session')} awaiting reflection", _REFLECT)
    for name, session in pending.items():
        failure, fix = session.failure, f"{_REFLECT} to try now"
        # A failure of another rater says nothing about the chosen one, but where the transcript lies.
        is_outside = failure is not None and failure.cause == worker.OUTSIDE
        if failure is None or (failure.rater != options.rater and not is_outside):
            continue
        if is_outside and session.transcript:
            fix = f"run `tallybook reflect --from {quote(str(Path(session.transcript).parent))}` to read it"
        why = ": ".join(filter(None, (failure.cause, failure.reason)))
        tries = "once" if failure.tries == 1 else f"{failure.tries} times"
        yield Finding(NOTE, f"session {name}: reflection failed {tries}: {why}", fix)


def _find_missing(options: settings.Settings) -> Iterator[Finding]:
    """Yield what the chosen rater needs and does not have, and how it gets it."""
    rater, key, is_address = options.rater, options.key_variable, options.rater == raters.ADDRESS
    command = rater if rater in raters.CLIENTS else next(iter(options.command), "") if rater == raters.OWN else ""
    key_fault = f"{key}, which `key_variable` names, is not set"
    for is_missing, what, fix in (
        (rater == raters.OWN and not command, "no command is set", "set `command`"),
        (command and shutil.which(command) is None, f"`{command}` is not on PATH", f"install `{command}`"),
        (is_address and not options.address, "no address is set", "set `address`"),
        (is_address and not options.model, "no model is set", "set `model`"),
        (is_address and key and not os.environ.get(key), key_fault, f"set {key} where the agent starts"),
    ):
        if is_missing:
            choice = f"or choose another `rater`, in the settings {settings.users_file()}"
            yield Finding(BAD, f"the rater is {rater}, and {what}", f"{fix}, {choice}")


# The verbs

Check = Callable[[Project], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "ledger": check_ledger,
    "playbook.json": check_playbook_file,
    "head": check_head,
    "spool": check_spool,
    "hooks": check_hooks,
    "reflection": check_reflection,
    "entries": check_entries,
    "redaction": check_redaction,
    "secrets": check_secrets,
    "settings": check_settings,
    "modes": check_modes,
    "git": check_git,
    "sharing": check_sharing,
    "own playbook": check_personal,
}
"""Name of a check, as findings show it → its function. Checks run in this order and do not depend on each other."""

# Checks read files that other programs may have written, so they can fail in all these ways.
_FAILURES = (TallybookError, OSError, ValueError, LookupError, TypeError, RuntimeError, MemoryError, SubprocessError)
# A terminal shows so many findings of one check; JSON has them all.
_MAX_LINES_PER_CHECK = 8


@click.command(cls=Verb, example="tallybook doctor --json")
def doctor(project: Project, /, *, as_json: bool) -> int:
    """Check the ledger, hooks and settings, and suggest fixes.

    The command changes nothing.

    --json answers {ok, findings}, a finding {check, level, message, hint}
    """
    return _print(run_checks(project, CHECKS), as_json=as_json)


@click.command(cls=Verb, example="tallybook check --min 75 --markdown")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for the summary of a job.")
@click.option("--if-present", is_flag=True, help="Pass where there is no ledger, for git hooks.")
@gate_options
def check(project: Project, /, *, as_markdown: bool, if_present: bool, as_json: bool, **options: Any) -> int:
    """Run verify, replay --check and score gate at once, for CI.

    Exit code 1: a file differs from the ledger, the gate is closed, or there is no ledger. Exit code 3: the ledger is
    damaged. A project without measurements has no gate.

    --json answers like `doctor`
    """
    if options["score_id"] is not None:
        # A wrong name is an error of the command line, not a finding.
        configuration.score_named(configuration.load(project), options["score_id"], "--component")
    table: dict[str, Check] = {
        "ledger": partial(_check_tracked, if_present=if_present),
        "head": check_head,
        "playbook.json": partial(_compare, commands.check),
        "score files": partial(_compare, score_files.check),
        "files of agents": _check_exports,
        "gate": partial(_check_gate, GateQuery(**options)),
    }
    findings = run_checks(project, table, needs_ledger=True)
    if not as_markdown or as_json:
        return _print(findings, as_json=as_json)
    code = exit_code(findings)
    rows = tuple((finding.check, finding.level, finding.message, finding.fix) for finding in findings)
    title = f"Tallybook: {'failed' if code else 'ok'}"
    write(markdown(ScorePage(title, tables=(Table("", ("Check", "Result", "Finding", "Fix"), rows),))))
    return code


def _check_tracked(project: Project, *, if_present: bool) -> Iterator[Finding]:
    """Verify the ledger; without one there is nothing that a check could rely on."""
    if open_own_log(project).exists():
        yield from check_ledger(project)
    elif if_present:
        yield Finding(NOTE, "no ledger here, so nothing is checked")
    else:
        files = ".claude/ledger/events.jsonl .claude/ledger/head .claude/playbook.json"
        fix = f"run `git add -f {files}` where the ledger is, and commit"
        yield Finding(BAD, "no ledger in this checkout: track it", fix)


def _compare(check: Callable[[Project], None], project: Project, level: str = BAD) -> Iterator[Finding]:
    """Report a file that differs from the ledger."""
    try:
        check(project)
    except commands.DriftError as error:
        message, _, fix = str(error).rpartition("; ")
        # Where git does not track the file, each machine renders its own.
        commit = "; then commit the file" if git.is_tracked(error.path) else ""
        yield Finding(level, message, fix + commit)


def _check_exports(project: Project) -> Iterator[Finding]:
    """Report a file of agents whose block is not what the playbook says."""
    for name, what, fix in selection.find_old_blocks(project):
        yield Finding(BAD, f"{name}: {what}", f"{fix}, then commit the file")


def _check_gate(query: GateQuery, project: Project) -> Iterator[Finding]:
    """Ask the gate, unless nothing was ever measured."""
    if not score_files.has_scores(project):
        yield Finding(NOTE, "nothing was measured, so there is no score to judge")
        return
    answered, _ = answers.ask_gate(project, query)
    if answered.open:
        yield Finding(OK, "open", "`tallybook score gate` shows its bounds")
    for reason in answered.reasons:
        fix = f"`tallybook score baseline {reason.score_id}` acknowledges it" if reason.rule in METHODS else ""
        if reason.closes and reason.bound is None:
            fix = answers.FEED
        yield Finding(BAD if reason.closes else NOTE, reason.text, fix)


# How checks run


def run_checks(project: Project, table: Mapping[str, Check], *, needs_ledger: bool = False) -> list[Finding]:
    """Run the checks of a table by their names, in order, changing nothing; one without a finding has passed.

    Args:
        project: The project.
        table: Name → check.
        needs_ledger: Whether only the first check runs where there is no ledger.
    """
    findings = _find_closed_folder(project)
    for name, check in () if findings else table.items():
        before = len(findings)
        try:
            if not (needs_ledger and findings) or open_own_log(project).exists():
                findings.extend(finding._replace(check=name) for finding in check(project))
            if len(findings) == before and open_own_log(project).exists():
                findings.append(Finding(OK, "passed", check=name))
        except DamagedLedgerError as error:
            # The check of the ledger has named the damage to its line; the others only meet it.
            is_reported = any(finding.is_damage for finding in findings)
            message = "not checked, because the ledger is damaged" if is_reported else str(error)
            findings.append(Finding(NOTE if is_reported else BAD, message, check=name, is_damage=not is_reported))
        except _FAILURES as error:
            message = f"could not be checked: {_reason(error)}"
            if all(finding.message != message for finding in findings):
                findings.append(Finding(BAD, message, check=name))
    return findings


def _find_closed_folder(project: Project) -> list[Finding]:
    """Return why no check can run, once; nothing where the folders can be read."""
    try:
        for folder in (project.claude, project.ledger):
            if folder.exists() and not (folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)):
                fix = "ask its owner for access, or put a folder in its place"
                return [Finding(BAD, f"{folder} is not a folder that you may read", fix, "project")]
    except (CannotWriteError, OSError) as error:
        return [Finding(BAD, _reason(error), check="project")]
    return []


def _reason(error: BaseException) -> str:
    if isinstance(error, TallybookError):
        # What follows only concerns commands that write.
        return str(error).partition("; nothing was recorded")[0]
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 3 where acknowledged bytes are gone or changed, 1 where something else is bad, else 0."""
    if any(finding.is_damage for finding in findings):
        return errors.EXIT_DAMAGED
    return errors.EXIT_NO if any(finding.level == BAD for finding in findings) else 0


# How findings are printed


def _print(findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print findings, as JSON ``{ok, findings}`` of ``{check, level, message, hint}``; return the exit code."""
    rows = [
        {"check": finding.check, "level": finding.level, "message": finding.message, "hint": finding.fix}
        for finding in findings
    ]
    value = {"ok": all(finding.level != BAD for finding in findings), "findings": rows}
    reply(value, _lines(findings), as_json=as_json)
    return exit_code(findings)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines for people: what is bad, what else can be acted on, and how many checks passed."""
    counts: Counter[str] = Counter()
    for finding in sorted(findings, key=lambda finding: (BAD, NOTE, OK).index(finding.level)):
        # A fact that a person can change has its line, although nothing is wrong.
        if finding.level != OK or finding.fix:
            counts[finding.check] += 1
            if counts[finding.check] <= _MAX_LINES_PER_CHECK:
                fix = f"; {finding.fix}" if finding.fix else ""
                yield f"{finding.level:<5} {finding.check}: {finding.message}{fix}"
    for name, count in counts.items():
        if count > _MAX_LINES_PER_CHECK:
            yield f"{'':<5} {name}: and {count - _MAX_LINES_PER_CHECK:,} more; --json lists them all"
    failed = {finding.check for finding in findings if finding.level != OK}
    if passed := {finding.check for finding in findings} - failed:
        yield f"{format_count(len(passed), 'check')} passed"
