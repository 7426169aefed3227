"""Questions to git: a commit's time, and the ledger in a commit. Git neither changes nor fetches anything for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
import os
from pathlib import Path
import tempfile
import time
from typing import Final

import attrs

from tallybook.ledger import damage
from tallybook.ledger.clock import MICROSECONDS
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.line import LOG_NAME, START, RawBatch
from tallybook.ledger.scan import Scan
from tallybook.ledger.sharing import git_remote
from tallybook.ledger.sharing.git_remote import GitFailedError
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage.head import check_format
from tallybook.projections.surfaces.workspace import project as projects
from tallybook.projections.surfaces.workspace.project import Project

FAILURES: Final = (GitFailedError, OSError)
"""What asking git raises, with the reason as text."""

# A file of hundreds of megabytes is unpacked and written within the second.
_TIMEOUT_S = 5
_COPY_TIMEOUT_S = 60
_SHORT_CHARS = 12
# A search for a version of the ledger looks at so many commits that changed it.
_MAX_COMMITS = 200
# A question fetches nothing. The list of allowed protocols is empty: unlike `protocol.allow`, it
# also counts where the repository allows one of them by name, and unlike GIT_NO_LAZY_FETCH, older versions have it.
_VARIABLES: Final = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_LITERAL_PATHSPECS": "1"}


@attrs.frozen
class Commit:
    """A commit.

    Attributes:
        id: Its whole id, in hex.
        unix_us: When it was committed, microseconds since 1970; git keeps whole seconds.
    """

    id: str
    unix_us: int

    @property
    def name(self) -> str:
        """Return what people call it."""
        return self.id[:_SHORT_CHARS]


def ask(folder: os.PathLike[str] | str, *words: str, given: bytes = b"", limit_s: float = _TIMEOUT_S) -> bytes:
    """Run git in a folder and return its standard output.

    Args:
        folder: Where git runs.
        words: Its arguments; input from outside comes after ``--end-of-options`` or ``--``.
        given: Its standard input.
        limit_s: How long it may take.

    Raises:
        GitFailedError: Git cannot be run, does not answer in time, or refuses.
    """
    done = git_remote.run_git(words, folder=os.fspath(folder), given=given, limit_s=limit_s, variables=_VARIABLES)
    if done.code:
        raise GitFailedError(done.reason)
    return done.output


def no_commit(error: Exception) -> str:
    """Return why a revision names no commit, in one line."""
    # Git's own words for an unknown revision do not say what to do.
    return "git names no such commit" + ("" if str(error) == "Needed a single revision" else f": {error}")


def commit_of(folder: os.PathLike[str] | str, revision: str) -> Commit:
    """Return the commit that a revision names, in whatever form git takes.

    Raises:
        GitFailedError: There is none, or git fails.
    """
    id_ = ask(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    seconds = ask(folder, "rev-list", "--max-count=1", "--timestamp", id_).split()[0]
    return Commit(id_, int(seconds) * MICROSECONDS)


def is_tracked(path: Path, *, unknown: bool = False) -> bool:
    """Return whether git tracks a file or files in a folder, or has a conflict of one.

    Args:
        path: The file or folder.
        unknown: What to return where git cannot tell.
    """
    if not any(os.path.lexists(folder / ".git") for folder in path.parents):
        return False
    # The folder of the file may not exist yet, and git must run in one that does.
    folder = next(folder for folder in path.parents if folder.is_dir())
    try:
        return bool(ask(folder, "ls-files", "-z", "--", str(path)))
    except FAILURES:
        return unknown


def removal(project: Project) -> str:
    """Return which commands of git delete a project's ledger without asking; empty where there is none.

    Git ignores the ledger, so that `git worktree remove` does not ask about it either.
    """
    top = _top(project)
    if not top or is_tracked(project.ledger):
        return ""
    is_linked = projects.is_linked(top)
    commands = "`git worktree remove` and `git clean -fdX` delete" if is_linked else "`git clean -fdX` deletes"
    return f"git does not track the ledger, and {commands} {project.ledger} without asking"


def find_gone(folder: os.PathLike[str] | str, paths: Sequence[str], limit: int) -> list[str]:
    """Return which of some paths, relative to a folder, are in the history of HEAD and not in the index.

    Args:
        folder: The folder, in a working tree.
        paths: The paths; of those that are not in the index so many are looked up in history.
        limit: This number.

    Raises:
        GitFailedError: Git fails, or does not answer in time.
    """
    tracked = os.fsdecode(ask(folder, "ls-files", "-z", "--", *paths)).split("\0")
    # A folder is in the index if anything in it is.
    present = {parent for path in tracked for parent in (path, *accumulate(path.split("/")[:-1], "{}/{}".format))}
    missing = [path for path in paths if path not in present]
    end = time.monotonic() + _TIMEOUT_S
    return [
        path
        for path in missing[:limit]
        if time.monotonic() < end and ask(folder, "rev-list", "--max-count=1", "--full-history", "HEAD", "--", path)
    ]


def versions(project: Project) -> Iterable[str]:
    """Return the id of each version of the ledger's log file that git has.

    Branches and tags come first, then every commit that changed the file, the newest first, those that only the
    reflog has included.

    Raises:
        GitFailedError: Git fails.
    """
    top, path = _find_log(project)
    listed = ask(top, "rev-list", "--no-walk", "--format=%T", "--branches", "--remotes", "--tags")
    # Without the full history, a merge that kept one side hides the commits of the other.
    options = (f"--max-count={_MAX_COMMITS}", "--full-history", "--all", "--reflog", "--format=%T")
    listed += ask(top, "rev-list", *options, "--", path)
    trees = [row for row in listed.splitlines() if not row.startswith(b"commit ")]
    empty = ask(top, "hash-object", "-t", "tree", "--stdin").strip()
    # Compared with nothing, a tree names the file's id and needs no file: a partial clone has some of them alone.
    given = b"".join(b"%b %b\n" % (empty, tree) for tree in trees)
    rows = ask(top, "diff-tree", "--stdin", "-r", "--", path, given=given, limit_s=_COPY_TIMEOUT_S)
    return dict.fromkeys(row.split()[3].decode() for row in rows.splitlines() if row.startswith(b":000000 100"))


@contextmanager
def ledger_of(blob: str, project: Project) -> Iterator[Copy]:
    """Open the ledger that git has under a file's id.

    Raises:
        GitFailedError: Git fails.
        NewerLedgerError: Its format is from the future.
    """
    # A file without a name, so that nothing of it is left however this process ends.
    with tempfile.TemporaryFile() as file:
        file.write(ask(project.root, "cat-file", "blob", blob, limit_s=_COPY_TIMEOUT_S))
        file.flush()
        check_format(file.fileno(), project.ledger / LOG_NAME)
        yield Copy(file.fileno(), os.fstat(file.fileno()).st_size, redaction.read_pending_ids(project.ledger))


def _find_log(project: Project) -> tuple[str, str]:
    """Return the top of a project's working tree as git names it, and the path of the log below it."""
    top = os.fsdecode(ask(project.root, "rev-parse", "--show-toplevel")).removesuffix("\n")
    return top, os.path.relpath(os.path.realpath(project.ledger / LOG_NAME), os.path.realpath(top))


def ledger_blob(commit: Commit, project: Project) -> str | None:
    """Return the id of the file that a commit has as the ledger, None where it has none or something else there."""
    _, path = _find_log(project)
    if path.startswith(os.pardir):
        return None
    entry = ask(project.root, "ls-tree", "-z", "--full-tree", commit.id, "--", path.replace(os.sep, "/"))
    mode, _, blob = entry.partition(b"\t")[0].decode().rpartition(" blob ")
    # Regular files have the modes 100644 and 100755; links and submodules have others.
    return blob if mode.startswith("100") else None


@attrs.frozen
class Copy:
    """A log in an open file, without a head that says what was acknowledged.

    Attributes:
        fd: The file.
        size: Bytes in it.
        pending_ids: Events whose redaction in the project is not finished.
    """

    fd: int
    size: int
    pending_ids: Collection[str] = ()

    def read(self, redacted: Collection[str] = ()) -> Iterator[RawBatch]:
        """Yield its batches without the texts of these events.

        Raises:
            ValueError: It is damaged, or no ledger at all.
        """
        scan = Scan(self.fd, START, self.size, redacted)
        yield from scan
        if scan.stop is not None and not damage.is_torn_tail(self.fd, scan.stop.position, None, self.size):
            raise ValueError(f"is damaged: {scan.stop.problem}")
        if self.size and not scan.position.seq:
            raise ValueError("was not written by Tallybook")


# What git ignores in a clone

_COMMENT: Final = b"# Tallybook: each machine has its own\n"
_SPECIAL: Final = "\\*?[ "


def exclude_file(project: Project) -> Path | None:
    """Return the clone's ``info/exclude``; None outside of a repository, or where it is not this user's to change."""
    top = _top(project)
    folder = _common_folder(top) if top else ""
    if not folder:
        return None
    # Not .gitignore, so that no file of the team changes.
    path = Path(folder, "info", "exclude")
    with suppress(OSError):
        present = [part for part in (path.parent, path) if os.path.lexists(part)]
        # A link may lead to somebody else's file.
        is_users = os.name != "posix" or all(part.stat().st_uid == os.geteuid() for part in (Path(folder), *present))
        if is_users and not any(part.is_symlink() for part in present):
            return path
    return None


def exclude_patterns(project: Project) -> tuple[bytes, ...]:
    """Return the lines that make git ignore the project's playbook, and its ledger unless that ignores itself."""
    top = os.path.realpath(_top(project))
    paths = [(project.playbook, "")]
    if project.ledger.is_dir() and not _ignores_itself(project.ledger):
        paths.append((project.ledger, "/"))
    lines = []
    for path, end in paths:
        real = os.path.realpath(path)
        place = os.path.relpath(real, top).replace(os.sep, "/")
        if projects.contains(top, real) and place.isprintable():
            escaped = "".join("\\" + part if part in _SPECIAL else part for part in place)
            lines.append(f"/{escaped}{end}\n")
    return tuple(map(os.fsencode, lines))


def with_patterns(data: bytes, lines: tuple[bytes, ...]) -> bytes:
    """Return the bytes of the file with these lines in it, each once."""
    present = data.splitlines(keepends=True)
    missing = [line for line in lines if line not in present and line.rstrip(b"\n") not in present[-1:]]
    if not missing:
        return data
    feed = b"" if not data or data.endswith(b"\n") else b"\n"
    return b"".join((data, feed, _COMMENT, *missing))


def without_patterns(data: bytes, lines: tuple[bytes, ...]) -> bytes:
    """Return the bytes of the file without what ``with_patterns`` added."""
    left: list[bytes] = []
    is_ours = False
    for line in data.splitlines(keepends=True):
        if is_ours and line in lines:
            if left and left[-1] == _COMMENT:
                left.pop()
            continue
        is_ours = line == _COMMENT
        left.append(line)
    return b"".join(left)


def _top(project: Project) -> str:
    """Return the top of the repository around a project, empty outside of one."""
    folders = projects.repository_folders(os.path.realpath(project.root))
    return folders[-1] if folders else ""


def _common_folder(top: str) -> str:
    """Return the folder of git's own files that all working trees of a clone share.

    Args:
        top: The top of a working tree, without symbolic links in its path.

    Returns:
        The folder; empty where ``.git`` is a link, or leads to a repository that is not known to be this one's.
    """
    git = Path(top, ".git")
    if git.is_dir():
        return "" if git.is_symlink() else str(git)
    # Not enough by itself: an archive can bring a file that leads to any repository of this machine.
    own = projects.gitdir_of(top)
    # A submodule's is among the files of a repository around it.
    modules = (folder / ".git" / "modules" for folder in Path(top).parents)
    is_submodule = any(projects.contains(str(folder), own) for folder in modules)
    return projects.repository_of(top) or (own if is_submodule else "")


def _ignores_itself(folder: Path) -> bool:
    with suppress(OSError, TallybookError):
        return b"*" in disk.read_file(folder / ".gitignore").split(b"\n")
    return False
