"""Our bare repository of a book: it has the last commit of the branch, and makes the next one.

    FOLDER/lock             one process at a time
    FOLDER/repository.git   may be deleted at any time; nothing but this module writes its configuration

It lies in the user's cache folder. A repository in the project could be someone else's, and its configuration can run
commands.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from tallybook.ledger import clock
from tallybook.ledger.sharing.engines.git_process import Done, GitFailedError, run_git, ssh_variables
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.ledger.sharing.engines.git_address import Address

AUTHOR = "Tallybook <noreply@tallybook.invalid>"
"""Who authors and commits every commit of ours."""
MAX_BYTES = 64 * 1024 * 1024
"""The repository is made anew when it grew by so much since the branch was fetched into it."""
_TIP = "refs/tallybook/tip"
_FRESH = "fetched-bytes"
_ID_CHARS = {"sha1": 40, "sha256": 64}
# A damaged or lost repository is fetched anew, so nothing of it is flushed.
_CONFIG = f"""\
[core]
\trepositoryformatversion = %d
\tbare = true
\tfsync = none
\tlogAllRefUpdates = false
\thooksPath = {os.devnull}
[gc]
\tauto = 0
[maintenance]
\tauto = false
[fetch]
\twriteCommitGraph = false
[pack]
\tcompression = 1
"""
_FORMAT = "[extensions]\n\tobjectFormat = sha256\n"
_FETCH = (
    *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-prune", "--no-recurse-submodules"),
    "--no-write-fetch-head",
)
_IMPORT = ("fast-import", "--quiet", "--force", "--done", "--depth=0")
# Many objects at once stay packed, which spares compressing them twice; few ones do not, for many packs are slow.
_PACKED_BYTES = 512 * 1024
_KEEP_PACK = ("-c", "fastimport.unpackLimit=1", "-c", "fetch.unpackLimit=1")
# The whole of a long book takes longer than what is new.
_FIRST_FETCH = 10
_PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--no-recurse-submodules")
# What could make git read a repository elsewhere.
_REDIRECTS = ("commondir", "objects/info/alternates", "config.worktree")


class DamagedRepositoryError(GitFailedError):
    """An object is missing or changed; the repository must be made anew."""


class GitRepository:
    """A bare repository with the last commit of one branch.

    Attributes:
        path: Its folder.
    """

    def __init__(self, folder: str, address: Address, branch: str, limit_s: float) -> None:
        """Take the folder for it, which need not exist, and the branch by its full name."""
        self.path = os.path.join(folder, "repository.git")
        self._folder = folder
        self._address = address
        self._branch = branch
        self._limit_s = limit_s
        self._ssh: Mapping[str, str] | None = None
        self._grew = False

    # ---- The folder ----

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the repository for this process alone, and make it if it is missing or not as we write it.

        Raises:
            LockHeldError: Another process holds it all the time.
            CannotWriteError: It cannot be written.
        """
        disk.make_folder(self._folder, durable=False)
        path = os.path.join(self._folder, "lock")
        fd = disk.open_file(path, write=True, create=True)
        try:
            disk.lock(fd, path, int(self._limit_s * 1000))
            if not self._is_ours():
                self.make()
            yield
        finally:
            os.close(fd)

    def _is_ours(self) -> bool:
        """Return whether the repository is there, with the configuration that we write, and points nowhere else."""
        if os.path.islink(self.path) or any(os.path.lexists(os.path.join(self.path, name)) for name in _REDIRECTS):
            return False
        with suppress(OSError), open(os.path.join(self.path, "config"), "rb") as file:
            return file.read(4096) in {_config(name).encode() for name in _ID_CHARS}
        return False

    def make(self, like: str = "") -> None:
        """Make the repository anew.

        Args:
            like: The id of a commit of the remote, which shows its object format; empty for git's usual one.

        Raises:
            OSError: The disk refuses.
        """
        self.delete()
        for name in ("objects", "refs"):
            os.makedirs(os.path.join(self.path, name), 0o700)
        format_ = next((name for name, chars in _ID_CHARS.items() if chars == len(like)), "sha1")
        for name, text in (("HEAD", "ref: refs/tallybook/none\n"), ("config", _config(format_))):
            with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
                file.write(text)

    def delete(self) -> None:
        """Remove the repository; what it has can be fetched again."""
        if os.path.islink(self.path) or os.path.isfile(self.path):
            os.unlink(self.path)
        # A git that a killed process left may still write to it, so it is moved away first.
        rest = f"{self.path}.deleted"
        shutil.rmtree(rest, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(self.path, rest)
        shutil.rmtree(rest, ignore_errors=True)

    def is_too_large(self) -> bool:
        """Return whether it grew by more than `MAX_BYTES` since the branch was fetched into it, if it did just now."""
        if not self._grew:
            return False
        self._grew = False
        with suppress(OSError, ValueError), open(os.path.join(self.path, _FRESH), encoding="ascii") as file:
            return self._size() > int(file.read()) + MAX_BYTES
        return self._size() > MAX_BYTES

    def _size(self) -> int:
        total = 0
        for folder, _, names in os.walk(os.path.join(self.path, "objects")):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total

    # ---- Questions to the remote ----

    def remote_tip(self) -> str:
        """Ask the remote for the last commit of the branch; empty if it has no such branch.

        Raises:
            GitFailedError: It cannot be reached.
        """
        done = self._run("ls-remote", "--quiet", "--", self._address.url, self._branch)
        if done.code:
            raise GitFailedError(done.reason)
        tips = (line.split("\t") for line in done.output.decode("ascii", "replace").splitlines())
        return next((id_ for id_, name in tips if name == self._branch), "")

    def fetch(self) -> str:
        """Fetch the last commit of the branch, without those before it, and return its id.

        Raises:
            GitFailedError: It cannot be reached, or it has no such branch, or this repository is damaged.
        """
        is_fresh = not self.tip()
        self._grew = True
        pack = _KEEP_PACK if is_fresh else ()
        limit_s = self._limit_s * (_FIRST_FETCH if is_fresh else 1)
        done = self._run(*pack, *_FETCH, "--", self._address.url, f"+{self._branch}:{_TIP}", limit_s=limit_s)
        if done.code:
            raise GitFailedError(done.reason)
        if is_fresh:
            disk.replace_cache_file(os.path.join(self.path, _FRESH), b"%d" % self._size())
        return self.tip()

    def push(self, commit: str, expected: str) -> Done:
        """Push a commit, if the branch of the remote is still at the expected one; empty if it must not exist.

        Raises:
            GitTimeoutError: The remote did not answer in time, so it may or may not have the commit.
        """
        lease = f"--force-with-lease={self._branch}:{expected}"
        return self._run(*_PUSH, lease, "--", self._address.url, f"{commit}:{self._branch}")

    # ---- Objects ----

    def tip(self) -> str:
        """Return the commit that was fetched or made last; empty without one."""
        with (
            suppress(OSError),
            open(os.path.join(self.path, *_TIP.split("/")), encoding="ascii", errors="replace") as file,
        ):
            return file.read(100).strip()
        return ""

    def read_objects(self, names: Sequence[str]) -> list[bytes]:
        """Return objects by their names, of which there is at least one, each compared with its id.

        Raises:
            DamagedRepositoryError: One is missing or changed.
        """
        done = self._run("cat-file", "--batch", given="".join(f"{name}\n" for name in names).encode())
        found: list[bytes] = []
        place = 0
        for name in names:
            head, _, _ = done.output[place : place + 200].partition(b"\n")
            words = head.split()
            if len(words) != len(("id", "type", "size")) or not words[2].isdigit():
                raise DamagedRepositoryError(f"{name} is missing or damaged in {self.path}")
            place += len(head) + 1
            data = done.output[place : place + int(words[2])]
            place += len(data) + 1
            format_ = next((name for name, chars in _ID_CHARS.items() if chars == len(words[0])), "sha1")
            hasher = hashlib.new(format_, b"%b %d\0" % (words[1], len(data)), usedforsecurity=False)
            hasher.update(data)
            if hasher.hexdigest().encode() != words[0]:
                raise DamagedRepositoryError(f"{name} is damaged in {self.path}")
            found.append(data)
        return found

    def commit(self, parent: str, files: Mapping[str, bytes], message: str) -> str:
        """Make a commit that adds or replaces files of its parent, and return its id.

        Args:
            parent: The commit before it, which this repository has; empty for a commit with these files alone.
            files: Their content by name.
            message: The first line of the commit's message.

        Raises:
            DamagedRepositoryError: The parent is missing or damaged.
        """
        self._grew = True
        now = clock.utc_now().unix_us
        who = f"{AUTHOR} {now // clock.MICROSECONDS} +0000"
        # The id keeps apart two pushes of the same bytes in the same second, of which only one may succeed.
        text = f"{message}\n\nPush {clock.new_id(now)} [skip ci]\n".encode()
        pieces = [f"commit {_TIP}\nmark :1\nauthor {who}\ncommitter {who}\ndata {len(text)}\n".encode(), text]
        if parent:
            pieces.append(f"\nfrom {parent}".encode())
        for name, data in files.items():
            pieces += [f"\nM 100644 inline {name}\ndata {len(data)}\n".encode(), data]
        given = b"".join([*pieces, b"\nget-mark :1\ndone\n"])
        done = self._run(*(_KEEP_PACK if len(given) > _PACKED_BYTES else ()), *_IMPORT, given=given)
        if done.code:
            raise DamagedRepositoryError(done.reason)
        return done.output.decode("ascii").strip()

    def _run(self, *words: str, given: bytes = b"", limit_s: float = 0.0) -> Done:
        if self._ssh is None:
            self._ssh = ssh_variables(self.path, self._limit_s)
        return run_git(
            [*self._address.options, f"--git-dir={self.path}", *words],
            folder=self._folder,
            given=given,
            limit_s=limit_s or self._limit_s,
            variables={**self._ssh, **dict(self._address.variables)},
        )


def _config(format_: str) -> str:
    """Return the configuration of a repository whose object ids are of this format."""
    return _CONFIG % (format_ == "sha256") + (_FORMAT if format_ == "sha256" else "")
