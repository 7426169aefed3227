"""The doctor's checks of what the ledger stands on: files and who may use them, locks, the disk, git."""

from __future__ import annotations

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
from tallybook.projections.surfaces.doctor.finding import BAD, NOTE, OK, Finding, named, size
from tallybook.projections.surfaces.history.playbook_file import RENDER_WAIT_MS
from tallybook.projections.surfaces.workspace import git as asking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.projections.surfaces.doctor.finding import Patient
    from tallybook.projections.surfaces.workspace.project import Project

_LOCKS = {"lock": disk.LOCK_WAIT_MS, "head": disk.LOCK_WAIT_MS, "render.lock": RENDER_WAIT_MS}
_STOPPED = {"T", "t"}

# Below the first the largest batch may not fit, below the second hardly anything.
_TIGHT_BYTES = MAX_BATCH_BYTES
_FULL_BYTES = 1 << 20

_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "vmhgfs"}
)
_IN_MEMORY = frozenset({"ramfs", "tmpfs"})
_WITHOUT_MODES = frozenset({"9p", "drvfs", "exfat", "fuseblk", "msdos", "ntfs3", "vboxsf", "vfat"})

# FS_IOC_GETFLAGS of linux/fs.h, as most machines number it; it answers an int, whatever it asks room for.
_GETFLAGS = 0x80086601 if sys.maxsize > 1 << 32 else 0x80046601
_IMMUTABLE = 0x10
_APPEND_ONLY = 0x20


def _tree(project: Project) -> Iterator[tuple[Path, int]]:
    """Yield the ledger's folder and everything in it, with its mode."""
    for folder, folders, names in os.walk(project.ledger):
        found = [Path(folder, name) for name in (*folders, *names)]
        for path in [project.ledger, *found] if Path(folder) == project.ledger else found:
            try:
                yield path, path.lstat().st_mode
            except FileNotFoundError:
                continue  # A writer has taken it away meanwhile.


def _places(project: Project, paths: list[Path]) -> str:
    return named(sorted(path.relative_to(project.claude).as_posix() for path in paths))


def files(patient: Patient) -> Iterator[Finding]:
    """Look for links, pipes and other things that stand where a file of the ledger belongs."""
    project = patient.project
    tree = list(_tree(project))
    links = [path for path, mode in tree if stat.S_ISLNK(mode)]
    odd = [path for path, mode in tree if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))]
    if links:
        hint = "put what belongs there in its place: the ledger is never followed out of its folder"
        yield Finding(BAD, f"a symbolic link stands in place of {_places(project, links)}", hint)
    if odd:
        yield Finding(BAD, f"neither a file nor a folder: {_places(project, odd)}", "move it away")
    if tree and not (links or odd):
        yield Finding(OK, "regular files and folders")


def writing(patient: Patient) -> Iterator[Finding]:
    """Look whether this user may write to the ledger at all."""
    project = patient.project
    closed = [path for path, mode in _tree(project) if not stat.S_ISLNK(mode) and not os.access(path, os.W_OK)]
    folder = _standing(project.ledger)
    if closed or not os.access(folder, os.W_OK):
        where = _places(project, closed) if closed else str(folder)
        yield Finding(NOTE, f"you may read and not write {where}", "nothing can be recorded by you here")
    elif project.ledger.exists():
        yield Finding(OK, "you may write")


def _standing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that is there."""
    return next(one for one in (path, *path.parents) if one.exists())


def modes(patient: Patient) -> Iterator[Finding]:
    """Look for files that others may read or write although the project's folder is not shared with them."""
    project = patient.project
    if os.name != "posix" or not project.ledger.exists() or file_system(project.ledger)[0] in _WITHOUT_MODES:
        return
    others = 0o077 & ~rights.shared(project.claude)[0]
    tree = [(path, mode) for path, mode in _tree(project) if not stat.S_ISLNK(mode) and mode & others]
    writable = [path for path, mode in tree if mode & others & 0o022]
    readable = [path for path, mode in tree if not mode & others & 0o022]
    who = "go" if others & 0o070 else "o"
    hint = f"`chmod -R {who}-rwx {quote(str(project.ledger))}`"
    found = [Finding(BAD, f"others may write {_places(project, writable)}", hint)] if writable else []
    found += [Finding(NOTE, f"others may read {_places(project, readable)}", hint)] if readable else []
    if project.playbook.exists() and project.playbook.stat().st_mode & others & 0o022:
        hint = f"`chmod {who}-w {quote(str(project.playbook))}`"
        found.append(Finding(BAD, "others may write playbook.json, which agents obey", hint))
    yield from found or [Finding(OK, "no more is shared than the project's folder")]


def cache_folder(patient: Patient) -> Iterator[Finding]:
    """Look whether this user has a cache folder that is safe to use."""
    base = caches.user_folder()
    found = (
        caches.fault(base, os.path.realpath(patient.project.ledger)) if base else "the system names no folder for it"
    )
    if found:
        hint = f"everything works, but takes longer; `chmod 700` it if it is yours, or set {caches.VARIABLE} to another"
        yield Finding(NOTE, f"no cache is used: {f'{base} ' if base else ''}{found}", hint)
    else:
        yield Finding(OK, "the cache folder is yours alone")


def locks(patient: Patient) -> Iterator[Finding]:
    """Wait for each lock as long as a writer does, and give it back at once."""
    looked = False
    free = True
    for name, wait_ms in _LOCKS.items():
        path = patient.project.ledger / name
        try:
            fd = disk.open_file(path, write=False)
        except FileNotFoundError:
            continue
        looked = True
        try:
            disk.lock(fd, path, wait_ms)
            disk.unlock(fd)
        except LockHeldError:
            free = False
            yield _held(path, wait_ms)
        finally:
            os.close(fd)
    if looked and free:
        yield Finding(OK, "nobody holds the ledger")


def _held(path: Path, wait_ms: int) -> Finding:
    """Say who holds a lock for longer than a writer waits."""
    pid = holder(path)
    name, state = _process(pid)
    who = f"process {pid}{f' ({name})' if name else ''}" if pid else "another process"
    stopped = state in _STOPPED
    waits = "; what is sent meanwhile waits in the spool" if path.name == "lock" else ""
    hint = f"`kill -CONT {pid}` lets it go on" if stopped else "try again; if it stays, end that process"
    what = f"{who}{', which is stopped,' if stopped else ''} holds ledger/{path.name} for more than {wait_ms} ms{waits}"
    return Finding(BAD if stopped else NOTE, what, hint)


def holder(path: Path) -> int:
    """Return the id of the process that has the lock of a file, 0 where the system does not tell."""
    found = path.stat()
    here = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    pids = {}
    for line in _system_text("/proc/locks").splitlines():
        fields = line.split()
        # Those that wait for a lock have an arrow in the second field.
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].endswith(f":{found.st_ino}"):  # noqa: PLR2004
            pids[fields[5].rpartition(":")[0]] = int(fields[4])
    # Some file systems give their files other numbers of a device than the kernel's own.
    return pids.get(here) or next(iter(pids.values()), 0)


def _process(pid: int) -> tuple[str, str]:
    """Return a process's name and the letter of its state, both empty where the system does not tell."""
    before, _, after = _system_text(f"/proc/{pid}/stat").rpartition(")")
    return before.partition("(")[2], after.strip()[:1]


def _system_text(path: str) -> str:
    """Return a file in which the system says something, empty where there is none to read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def room(patient: Patient) -> Iterator[Finding]:
    """Look at how much room the disk has."""
    free = shutil.disk_usage(_standing(patient.project.ledger)).free
    if free >= _TIGHT_BYTES:
        yield Finding(OK, f"{size(free)} free")
        return
    level = BAD if free < _FULL_BYTES else NOTE
    yield Finding(level, f"the disk has {size(free)} left", "make room: on a full disk nothing is recorded")


def kind(patient: Patient) -> Iterator[Finding]:
    """Name a file system on which the ledger keeps less than it promises."""
    name, place = file_system(_standing(patient.project.ledger))
    if name in _REMOTE or name.startswith("fuse"):
        hint = "use it from one machine at a time, or put the project on a local disk"
        yield Finding(NOTE, f"{name} at {place}: locks, appends and flushes may not hold there", hint)
    elif name in _IN_MEMORY:
        what = f"{name} at {place}: what stands there is gone when the machine restarts"
        yield Finding(NOTE, what, "put the project on a disk")
    elif name:
        yield Finding(OK, name)


def file_system(path: Path, mounts: str | None = None) -> tuple[str, str]:
    """Return the kind of the file system that a path lies on, and where that is mounted; empty where nobody tells.

    Args:
        path: The path.
        mounts: What is mounted, as Linux tells it in /proc/self/mountinfo; None asks it.
    """
    real = Path(os.path.realpath(path))
    found = ("", "")
    for line in (_system_text("/proc/self/mountinfo") if mounts is None else mounts).splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split()[4].encode().decode("unicode_escape") if rest else ""
        # Of two at the same place the later one covers the earlier.
        if place and real.is_relative_to(place) and len(place) >= len(found[1]):
            found = (rest.split()[0], place)
    return found


def flags(patient: Patient) -> Iterator[Finding]:
    """Look for the marks of ``chattr`` that keep files from being changed."""
    folder = patient.project.ledger
    marks = {name: _flags(folder / name) for name in ("", "events.jsonl", "head", "lock", "spool")}
    fixed = sorted(name or "the folder" for name, mark in marks.items() if mark & _IMMUTABLE)
    # The head is written in place.
    stuck = [name for name in ("head",) if marks[name] & _APPEND_ONLY]
    kept = sorted(name or "the folder" for name, mark in marks.items() if mark & _APPEND_ONLY and name not in stuck)
    if fixed or stuck:
        what = f"{named([*fixed, *stuck])} cannot be changed ({'chattr +i' if fixed else 'chattr +a'})"
        yield Finding(BAD, what, "nothing can be recorded; `chattr -i -a` takes the mark away")
    if kept:
        what = f"{named(kept)} may only be appended to (chattr +a)"
        yield Finding(NOTE, what, "a redaction cannot blot out anything there; `chattr -a` takes the mark away")
    if not (fixed or stuck or kept) and folder.exists():
        yield Finding(OK, "none")


def _flags(path: Path) -> int:
    """Return the marks that ``chattr`` set on a file or folder, 0 where there are none or nobody tells."""
    if sys.platform != "linux":
        return 0
    import fcntl

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(fd, _GETFLAGS, bytes(8))[:4], sys.byteorder)
    except OSError:
        return 0
    finally:
        os.close(fd)


def git(patient: Patient) -> Iterator[Finding]:
    """Look whether git keeps what it is told to leave alone."""
    project = patient.project
    within = any((folder / ".git").exists() for folder in (project.root, *project.root.parents))
    if shutil.which("git") is None or not within or not project.ledger.exists():
        return
    try:
        ledgers = [name for name in _tracked(project, project.ledger) if not name.endswith(".gitignore")]
        playbooks = _tracked(project, project.playbook, "--ignored", "--exclude-standard")
    except asking.FAILURES as error:
        yield Finding(NOTE, f"git could not be asked: {asking.said(error)}")
        return
    if ledgers:
        what = f"git tracks {named(ledgers)}: a checkout or a merge changes it, which is damage"
        yield Finding(NOTE, what, f"`git rm -r --cached {quote(str(project.ledger))}` keeps the files")
    if playbooks:
        what = f"git tracks {named(playbooks)} although it is told to ignore it"
        yield Finding(NOTE, what, f"`git rm --cached {quote(str(project.playbook))}` keeps the file")
    if not (ledgers or playbooks):
        yield Finding(OK, "nothing of the ledger is tracked")


def _tracked(project: Project, path: Path, *options: str) -> list[str]:
    """Return the files at a path that git tracks, as it names them from the project.

    Raises:
        OSError, SubprocessError: Git cannot be run, does not answer in time, or refuses.
    """
    words = ["ls-files", "-z", "--cached", *options, "--", str(path)]
    return [name for name in asking.ask(project.root, *words).decode(errors="replace").split("\0") if name]
