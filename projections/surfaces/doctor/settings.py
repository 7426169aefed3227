"""The doctor's checks of choices: settings, modes, git, a shared book, a person's own playbook."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
import shutil
import stat
from typing import TYPE_CHECKING

from tallybook.ledger.errors import BadInputError
from tallybook.ledger.sharing.book import SKIPPED
from tallybook.ledger.storage import caches, disk
from tallybook.ledger.verification import verify
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.hooks import sync_results
from tallybook.projections.surfaces.scores.configuration import PLACE
from tallybook.projections.surfaces.sharing import membership
from tallybook.projections.surfaces.sharing.membership import ENGINES
from tallybook.projections.surfaces.workspace import git, personal, settings
from tallybook.projections.surfaces.workspace.project import has_own_ledger, is_cut_off, repository_folders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context


def check_settings(context: Context) -> Iterator[Finding]:
    """Name what is ignored in the settings files, and what makes the configuration of the scores invalid."""
    users = settings.users_file()
    own = settings.merge({users: settings.load(users)})
    for path in settings.files(context.project):
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
    if os.path.lexists(context.project.root / PLACE):
        from tallybook.projections.surfaces.scores import configuration, files

        try:
            files.folder_of(context.project, configuration.load(context.project).storage.path)
        except BadInputError as error:
            message, _, fix = str(error).partition("; ")
            yield Finding(BAD, message, f"{fix or 'correct it'}; until then every command of the scores fails")


def check_modes(context: Context) -> Iterator[Finding]:
    """Look for files that this user may not write, or others may, although they do not share the project's folder."""
    project = context.project
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


def check_git(context: Context) -> Iterator[Finding]:
    """Look for files of the ledger that git tracks or deletes, and for a worktree that lost its repository."""
    project = context.project
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


def check_sharing(context: Context) -> Iterator[Finding]:
    """Check the part of a project in a shared book; a project that shares none is not mentioned."""
    log, part = reading.open_log(context.project), membership.load(context.project)
    sync = "run `tallybook sync`"
    if reading.log_with_book(log):
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
    runs = [text for run in sync_results.read(context.project) for text in run["problems"] if SKIPPED in text]
    for text in dict.fromkeys(runs):
        fix = "`tallybook share verify` says whether it is still there, `tallybook share repair` leaves it out"
        yield Finding(NOTE, f"the engine holds what every machine skips: {text}", fix)
    misfit = None if part is not None else membership.find_misfit(context.project)
    if misfit is not None:
        yield Finding(NOTE, f"nothing is sent or fetched here: {misfit[0]}", f"run: {misfit[1]}")
    elif part is None and reading.log_with_book(log):
        why = "nothing is sent or fetched here: the ledger has a shared book, and no settings of this user share it"
        yield Finding(NOTE, why, "run: tallybook share ENGINE ADDRESS")


def check_personal(context: Context) -> Iterator[Finding]:
    """Check the person's own playbook; where there is none, it is not mentioned."""
    mine = personal.find(context.project)
    if mine is None:
        fault = personal.fault(context.project)
        if fault and Path(personal.folder()).exists():
            yield Finding(NOTE, f"{personal.folder()} is left out here: {fault}", personal.FIXES[fault])
        return
    log = reading.open_log(mine)
    problems = verify(log).problems
    for problem in problems:
        yield Finding(BAD, f"{mine.root}: {problem}", "run `tallybook verify --mine`", is_damage=True)
    if problems:
        return
    own, theirs = reading.current(log), reading.current(context.log)
    if hidden := [name for name in own.entries if name in theirs.used]:
        message = f"the project has entries of the same name, which hide your own {format_names(hidden)}"
        yield Finding(NOTE, message, "`tallybook retire NAME --mine` and `tallybook add --mine` give them other names")
