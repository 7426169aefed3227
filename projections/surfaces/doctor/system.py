"""The doctor's checks of the system under the ledger: files and their modes, locks, git."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
from shlex import quote
import shutil
import stat
from typing import TYPE_CHECKING

from tallybook.ledger.errors import LockHeldError
from tallybook.ledger.storage import caches, disk
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names
from tallybook.projections.surfaces.history.playbook_file import RENDER_WAIT_MS
from tallybook.projections.surfaces.workspace import git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project

_LOCKS = {"lock": disk.LOCK_WAIT_MS, "head": disk.LOCK_WAIT_MS, "render.lock": RENDER_WAIT_MS}


def _tree(project: Project) -> Iterator[tuple[Path, int]]:
    """Yield the ledger's folder and everything in it, with its mode."""
    for folder, folders, names in os.walk(project.ledger):
        first = [project.ledger] if Path(folder) == project.ledger else []
        for path in [*first, *(Path(folder, name) for name in (*folders, *names))]:
            with suppress(FileNotFoundError):  # A writer may have removed it meanwhile.
                yield path, path.lstat().st_mode


def _relative_names(project: Project, paths: list[Path]) -> str:
    return format_names(sorted(path.relative_to(project.claude).as_posix() for path in paths))


def check_files(context: Context) -> Iterator[Finding]:
    """Look for links, pipes and devices in place of the ledger's files."""
    project = context.project
    odd = [path for path, mode in _tree(project) if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))]
    if odd:
        fix = "move it away, or put the file itself there: Tallybook follows no link out of the ledger's folder"
        yield Finding(BAD, f"neither a file nor a folder: {_relative_names(project, odd)}", fix)


def check_write_access(context: Context) -> Iterator[Finding]:
    """Check that this user may write to the ledger."""
    project = context.project
    closed = [path for path, mode in _tree(project) if not stat.S_ISLNK(mode) and not os.access(path, os.W_OK)]
    if closed:
        fix = f"run `chmod -R u+rwX {quote(str(project.ledger))}` as its owner; until then you record nothing here"
        yield Finding(NOTE, f"you may read and not write {_relative_names(project, closed)}", fix)


def check_modes(context: Context) -> Iterator[Finding]:
    """Look for files that other users may read or write although the project's folder is not shared with them."""
    project = context.project
    if os.name != "posix" or not project.ledger.exists():
        return
    others = 0o077 & ~disk.folder_rights(project.claude.stat())[0]
    tree = [(path, mode) for path, mode in _tree(project) if not stat.S_ISLNK(mode)]
    # A file system that keeps no modes shows every file as executable; Tallybook creates none.
    if any(stat.S_ISREG(mode) and mode & stat.S_IXUSR for _, mode in tree):
        return
    owner = "go" if others & 0o070 else "o"
    fix = f"`chmod -R {owner}-rwx {quote(str(project.ledger))}`"
    if writable := [path for path, mode in tree if mode & others & 0o022]:
        yield Finding(BAD, f"others may write {_relative_names(project, writable)}", fix)
    if readable := [path for path, mode in tree if mode & others and not mode & others & 0o022]:
        yield Finding(NOTE, f"others may read {_relative_names(project, readable)}", fix)
    if project.playbook.exists() and project.playbook.stat().st_mode & others & 0o022:
        fix = f"`chmod {owner}-w {quote(str(project.playbook))}`"
        yield Finding(BAD, "others may write playbook.json, which agents obey", fix)


def check_cache_folder(context: Context) -> Iterator[Finding]:
    """Check that this user has a cache folder that is safe to use."""
    base = caches.user_folder()
    fault = "the system has no folder for caches"
    if base:
        fault = caches.find_fault(base, os.path.realpath(context.project.ledger))
    if fault:
        remedy = f"run `chmod 700` on it if it is yours, or set {caches.VARIABLE} to another"
        message = f"no cache is used: {f'{base} ' if base else ''}{fault}"
        yield Finding(NOTE, message, f"commands work, but take longer; {remedy}")


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


def check_git(context: Context) -> Iterator[Finding]:
    """Look for files of the ledger that git tracks."""
    project = context.project
    paths = (folder / ".git" for folder in (project.root, *project.root.parents))
    place = next((path for path in paths if path.exists()), None)
    if shutil.which("git") is None or place is None or not project.ledger.exists():
        return
    try:
        ledgers = [name for name in _tracked_files(project, project.ledger) if not name.endswith(".gitignore")]
        playbooks = _tracked_files(project, project.playbook, "--ignored", "--exclude-standard")
        strays = _tracked_files(project, project.playbook, "--others", "--exclude-standard")
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
        is_apart = place.is_file()
        fix = "keep a copy, or share the playbook: `tallybook share git`" if is_apart else ""
        yield Finding(NOTE if is_apart else OK, removal, fix)


def _tracked_files(project: Project, path: Path, *options: str) -> list[str]:
    """Return the tracked files at a path, relative to the project.

    Raises:
        OSError, SubprocessError: Git cannot be run, does not answer in time, or fails.
    """
    words = ["ls-files", "-z", *(options if "--others" in options else ("--cached", *options)), "--", str(path)]
    # A file with a conflict is listed once for each side.
    return list(
        dict.fromkeys(name for name in git.ask(project.root, *words).decode(errors="replace").split("\0") if name)
    )
