"""The doctor's checks of the system under the ledger: files and their modes, locks, the disk, git."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
from shlex import quote
import shutil
import stat
import sys
from typing import TYPE_CHECKING

from tallybook.ledger.errors import LockHeldError
from tallybook.ledger.line import MAX_BATCH_BYTES
from tallybook.ledger.storage import caches, disk, rights
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, format_names, format_size
from tallybook.projections.surfaces.history.playbook_file import RENDER_WAIT_MS
from tallybook.projections.surfaces.workspace import git

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Context
    from tallybook.projections.surfaces.workspace.project import Project

_LOCKS = {"lock": disk.LOCK_WAIT_MS, "head": disk.LOCK_WAIT_MS, "render.lock": RENDER_WAIT_MS}
_STOPPED_STATES = {"T", "t"}

# Below the first bound the largest batch may not fit, below the second hardly any event does.
_LOW_BYTES = MAX_BATCH_BYTES
_FULL_BYTES = 1 << 20

_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "vmhgfs"}
)
_IN_MEMORY = frozenset({"ramfs", "tmpfs"})
_MODELESS = frozenset({"9p", "drvfs", "exfat", "fuseblk", "msdos", "ntfs3", "vboxsf", "vfat"})

# FS_IOC_GETFLAGS of linux/fs.h; the kernel fills in an int although the number is defined for a long.
_GETFLAGS = 0x80086601 if sys.maxsize > 1 << 32 else 0x80046601
_IMMUTABLE = 0x10
_APPEND_ONLY = 0x20


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
    tree = list(_tree(project))
    links = [path for path, mode in tree if stat.S_ISLNK(mode)]
    odd = [path for path, mode in tree if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]
    if links:
        fix = "replace it by the file itself: Tallybook follows no link out of the ledger's folder"
        yield Finding(BAD, f"a symbolic link is in the place of {_relative_names(project, links)}", fix)
    if odd:
        yield Finding(BAD, f"neither a file nor a folder: {_relative_names(project, odd)}", "move it away")


def check_write_access(context: Context) -> Iterator[Finding]:
    """Check that this user may write to the ledger."""
    project = context.project
    closed = [path for path, mode in _tree(project) if not stat.S_ISLNK(mode) and not os.access(path, os.W_OK)]
    folder = _nearest_folder(project.ledger)
    if closed or not os.access(folder, os.W_OK):
        where = _relative_names(project, closed) if closed else str(folder)
        yield Finding(NOTE, f"you may read and not write {where}", "nothing can be recorded by you here")


def _nearest_folder(path: Path) -> Path:
    """Return a path, or the nearest folder above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def check_modes(context: Context) -> Iterator[Finding]:
    """Look for files that other users may read or write although the project's folder is not shared with them."""
    project = context.project
    if os.name != "posix" or not project.ledger.exists() or file_system(project.ledger)[0] in _MODELESS:
        return
    others = 0o077 & ~rights.folder_rights(project.claude.stat())[0]
    tree = [(path, mode) for path, mode in _tree(project) if not stat.S_ISLNK(mode) and mode & others]
    writable = [path for path, mode in tree if mode & others & 0o022]
    readable = [path for path, mode in tree if not mode & others & 0o022]
    owner = "go" if others & 0o070 else "o"
    fix = f"`chmod -R {owner}-rwx {quote(str(project.ledger))}`"
    findings = [Finding(BAD, f"others may write {_relative_names(project, writable)}", fix)] if writable else []
    findings += [Finding(NOTE, f"others may read {_relative_names(project, readable)}", fix)] if readable else []
    if project.playbook.exists() and project.playbook.stat().st_mode & others & 0o022:
        fix = f"`chmod {owner}-w {quote(str(project.playbook))}`"
        findings.append(Finding(BAD, "others may write playbook.json, which agents obey", fix))
    yield from findings or [Finding(OK, "no more is shared than the project's folder")]


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
    else:
        yield Finding(OK, "the cache folder is yours alone")


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
            yield _held_lock(path, wait_ms)
        finally:
            os.close(fd)


def _held_lock(path: Path, wait_ms: int) -> Finding:
    """Return the finding about a lock that is held for longer than a writer waits."""
    pid = holder(path)
    name, state = _process(pid)
    owner = f"process {pid}{f' ({name})' if name else ''}" if pid else "another process"
    is_stopped = state in _STOPPED_STATES
    effect = "; until then payloads wait in the spool" if path.name == "lock" else ""
    fix = f"run `kill -CONT {pid}` to let it go on" if is_stopped else "try again; if the lock stays, end that process"
    state_words = ", which is stopped," if is_stopped else ""
    message = f"{owner}{state_words} holds ledger/{path.name} for more than {wait_ms} ms{effect}"
    return Finding(BAD if is_stopped else NOTE, message, fix)


def holder(path: Path) -> int:
    """Return the id of the process that has the lock of a file, 0 where the system does not tell."""
    status = path.stat()
    here = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    pids = {}
    for line in _system_text("/proc/locks").splitlines():
        fields = line.split()
        # A line of a process that waits for a lock has an arrow in the second field.
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{status.st_ino}"):  # noqa: PLR2004
            pids[fields[5].rpartition(":")[0]] = int(fields[4])
    # Some file systems report another device number in stat() than in /proc/locks.
    return pids.get(here) or next(iter(pids.values()), 0)


def _process(pid: int) -> tuple[str, str]:
    """Return a process's name and the letter of its state, both empty where the system does not tell."""
    before, _, after = _system_text(f"/proc/{pid}/stat").rpartition(")")
    return before.partition("(")[2], after.strip()[:1]


def _system_text(path: str) -> str:
    """Return the text of a file under /proc, empty where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def check_disk_space(context: Context) -> Iterator[Finding]:
    """Check the free space on the disk."""
    free = shutil.disk_usage(_nearest_folder(context.project.ledger)).free
    if free >= _LOW_BYTES:
        yield Finding(OK, f"{format_size(free)} free")
        return
    message = f"the disk has {format_size(free)} left, and on a full disk nothing is recorded"
    yield Finding(BAD if free < _FULL_BYTES else NOTE, message, "free some space")


def check_file_system(context: Context) -> Iterator[Finding]:
    """Warn of a file system on which the ledger's promises do not hold."""
    name, place = file_system(_nearest_folder(context.project.ledger))
    if name in _REMOTE or name.startswith("fuse"):
        fix = "use it from one machine at a time, or put the project on a local disk"
        yield Finding(NOTE, f"{name} at {place}: locks, appends and flushes may not hold there", fix)
    elif name in _IN_MEMORY:
        message = f"{name} at {place}: its files are lost when the machine restarts"
        yield Finding(NOTE, message, "put the project on a disk")
    elif name:
        yield Finding(OK, name)


def file_system(path: Path, mounts: str | None = None) -> tuple[str, str]:
    """Return the kind of the file system that a path lies on, and its mount point; empty where unknown.

    Args:
        path: The path.
        mounts: The text of Linux's /proc/self/mountinfo; None reads it.
    """
    real = Path(os.path.realpath(path))
    mount = ("", "")
    for line in (_system_text("/proc/self/mountinfo") if mounts is None else mounts).splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split()[4].encode().decode("unicode_escape") if rest else ""
        # Of two mounts at the same place the later covers the earlier.
        if place and real.is_relative_to(place) and len(place) >= len(mount[1]):
            mount = (rest.split()[0], place)
    return mount


def check_file_flags(context: Context) -> Iterator[Finding]:
    """Look for flags of ``chattr`` that make files unchangeable."""
    folder = context.project.ledger
    names = {"the folder": folder} | {name: folder / name for name in ("events.jsonl", "head", "lock", "spool")}
    flags = {name: _flags(path) for name, path in names.items()}
    immutable = sorted(name for name in flags if flags[name] & _IMMUTABLE)
    append_only = sorted(name for name in flags if flags[name] & _APPEND_ONLY)
    if immutable or "head" in append_only:
        # The head is written in place, so append-only blocks it entirely.
        blocked = format_names([*immutable, *(name for name in append_only if name == "head")])
        message = f"{blocked} cannot be changed ({'chattr +i' if immutable else 'chattr +a'})"
        yield Finding(BAD, message, "nothing can be recorded; run `chattr -i -a` on it")
    if others := [name for name in append_only if name != "head"]:
        message = f"{format_names(others)} may only be appended to (chattr +a)"
        yield Finding(NOTE, message, "a redaction cannot erase text there; run `chattr -a` on it")


def _flags(path: Path) -> int:
    """Return the flags that ``chattr`` set on a file or folder, 0 without any or where unknown."""
    if sys.platform != "linux":
        return 0
    import fcntl

    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            return int.from_bytes(fcntl.ioctl(fd, _GETFLAGS, bytes(8))[:4], sys.byteorder)
        finally:
            os.close(fd)
    return 0


def check_git(context: Context) -> Iterator[Finding]:
    """Look for files of the ledger that git tracks."""
    project = context.project
    places = (folder / ".git" for folder in (project.root, *project.root.parents))
    place = next((path for path in places if path.exists()), None)
    if shutil.which("git") is None or place is None or not project.ledger.exists():
        return
    try:
        ledgers = [name for name in _tracked_files(project, project.ledger) if not name.endswith(".gitignore")]
        playbooks = _tracked_files(project, project.playbook, "--ignored", "--exclude-standard")
        strays = _tracked_files(project, project.playbook, "--others", "--exclude-standard")
    except git.FAILURES as error:
        yield Finding(NOTE, f"git could not be run: {git.failure_reason(error)}")
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
    removal = git.removal(project)
    if removal and place.is_file():
        # The repository lies elsewhere, so that this folder looks as if it could be removed.
        yield Finding(NOTE, removal, "keep a copy, or share the playbook: `tallybook share git`")
    elif not (ledgers or playbooks or strays):
        yield Finding(OK, removal or "nothing of the ledger is tracked")


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
