"""Our bare repository of a book: commits and trees, never a text; texts are in a temporary folder while needed.

    FOLDER/lock             one process at a time
    FOLDER/runs.json        the numbers of the last commit that was read, with the ids of their texts
    FOLDER/repository.git   may be deleted at any time; nothing but this module writes its configuration

It lies in the user's cache folder. A repository in the project could be someone else's, and its configuration can run
commands. What a remote sends with its texts, as the first fetch and a remote that cannot leave them out, is in a
repository of its own in the temporary folder.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
import json
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger import clock
from tallybook.ledger.sharing.engines.git_process import Done, GitFailedError, run_git, ssh_variables
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tallybook.ledger.sharing.engines.git_address import Address

AUTHOR = "Tallybook", "noreply@tallybook.invalid"
"""Who authors and commits every commit of ours."""
MAX_PACKS = 100
"""The repository is made anew when so many fetches were kept in it."""
_TIP = "refs/tallybook/tip"
_SHA256_CHARS = 64
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
_SHA256 = "[extensions]\n\tobjectFormat = sha256\n"
_FETCH = (
    *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-prune", "--no-recurse-submodules"),
    "--no-auto-maintenance",
)
_REMOTE = "book"
# The whole of a long book takes longer than what is new.
_FIRST_FETCH = 10
_PUSH = (
    *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--no-recurse-submodules"),
    "--no-thin",
)
# What could make git read a repository elsewhere.
_REDIRECTS = ("commondir", "objects/info/alternates", "config.worktree")


class DamagedRepositoryError(GitFailedError):
    """An object is missing or changed; the repository must be made anew."""


class Noted(NamedTuple):
    """What is noted of the last commit that was read or pushed.

    Attributes:
        tip: Its id; empty where nothing is noted.
        has_trees: Whether our repository has it, with its trees.
        texts: Number of a run → the id of its text.
    """

    tip: str
    has_trees: bool
    texts: Mapping[int, str]


class GitRepository:
    """A bare repository with the last commit of one reference of a remote.

    Attributes:
        path: Its folder.
    """

    def __init__(self, folder: str, address: Address, reference: str, limit_s: float) -> None:
        """Take the folder for it, which need not exist, and the reference by its full name."""
        self.path = os.path.join(folder, "repository.git")
        self._folder = folder
        self._address = address
        self._reference = reference
        self._limit_s = limit_s
        self._ssh: Mapping[str, str] | None = None
        # The temporary folder: texts that belong to our repository, or a repository that has them itself.
        self._temporary = ""
        self._is_whole = False

    # ---- The folders ----

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
        with suppress(OSError):
            if len(os.listdir(os.path.join(self.path, "objects", "pack"))) > MAX_PACKS:
                return False
        with suppress(OSError), open(os.path.join(self.path, "config"), "rb") as file:
            return file.read(4096) in {_config(chars).encode() for chars in (0, _SHA256_CHARS)}
        return False

    def make(self, like: str = "") -> None:
        """Make the repository anew, and forget what is in the temporary folder.

        Args:
            like: The id of a commit of the remote, which shows its object format; empty for git's usual one.

        Raises:
            OSError: The disk refuses.
        """
        self.drop_texts()
        self._delete()
        _make_bare(self.path, like)
        if (noted := self.recall()).has_trees:
            self._write_note(noted._replace(has_trees=False))

    def _delete(self) -> None:
        if os.path.islink(self.path) or os.path.isfile(self.path):
            os.unlink(self.path)
        # A git that a killed process left may still write to it, so it is moved away first.
        gone = f"{self.path}.deleted"
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(FileNotFoundError):
            os.rename(self.path, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def drop_texts(self) -> None:
        """Remove the temporary folder."""
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary, self._is_whole = "", False

    def recall(self) -> Noted:
        """Return what was noted last; nothing where that is missing or damaged."""
        try:
            with open(os.path.join(self._folder, "runs.json"), "rb") as file:
                tip, has_trees, runs = json.load(file)
            return Noted(str(tip), bool(has_trees), {int(number): str(id_) for number, id_ in runs})
        except (OSError, ValueError, TypeError):
            return Noted("", has_trees=False, texts={})

    def note(self, tip: str, texts: Mapping[int, str]) -> None:
        """Note a commit that was fetched or pushed just now."""
        self._write_note(Noted(tip, not self._is_whole, texts))

    def _write_note(self, noted: Noted) -> None:
        data = json.dumps([noted.tip, noted.has_trees, [*noted.texts.items()]]).encode()
        disk.replace_cache_file(os.path.join(self._folder, "runs.json"), data)

    # ---- The remote ----

    def remote_tips(self, *references: str) -> list[str]:
        """Ask the remote for the commit of our reference, and of others; empty for one that it does not have.

        Raises:
            GitFailedError: It cannot be reached.
        """
        wanted = (self._reference, *references)
        done = self._run("ls-remote", "--quiet", "--", self._address.url, *wanted)
        _require(done)
        rows = (line.split("\t") for line in done.output.decode("ascii", "replace").splitlines())
        tips = {name: id_ for id_, name in rows}
        return [tips.get(name, "") for name in wanted]

    def fetch(self, tip: str, *, texts: bool) -> str:
        """Fetch the last commit of the reference, without those before it, and return its id.

        Args:
            tip: Its id a moment ago, which shows the remote's object format.
            texts: Whether its texts are wanted as well. A remote that cannot leave them out sends them always.

        Raises:
            GitFailedError: It cannot be reached, or it has no such reference.
        """
        self.drop_texts()
        if texts:
            self._begin_whole(tip)
            _require(self._fetch("--no-filter", f"+{self._reference}:{_TIP}", limit_s=self._limit_s * _FIRST_FETCH))
            return self._tip()
        last = self._tip()
        if last and self._run("cat-file", "-e", f"{last}^{{tree}}").code:
            raise DamagedRepositoryError(f"{last} is missing or damaged in {self.path}")
        # Aside, so that no text can get into the repository.
        aside = tempfile.mkdtemp(prefix="tallybook-")
        try:
            _require(self._fetch("--filter=blob:none", self._reference, into=self._aside(aside)))
            with open(os.path.join(self.path, "FETCH_HEAD"), encoding="ascii") as file:
                fetched = file.read(len(tip))
            every = ("cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
            if b"blob" in self._objects(*every, into={"GIT_OBJECT_DIRECTORY": aside}).split():
                self._begin_whole(tip)
                shutil.copy(os.path.join(self.path, "shallow"), self._temporary)
            _move_files(aside, os.path.join(self._git_folder, "objects"))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._objects("update-ref", _TIP, fetched)
        return fetched

    def _begin_whole(self, tip: str) -> None:
        """Work from now on in a repository in the temporary folder."""
        self._temporary, self._is_whole = tempfile.mkdtemp(prefix="tallybook-"), True
        _make_bare(self._temporary, tip)

    def _fetch(
        self, option: str, *wanted: str, given: bytes = b"", into: Mapping[str, str] | None = None, limit_s: float = 0.0
    ) -> Done:
        """Fetch from the remote, which promises to have what is left out; texts are asked for by their ids."""
        settings = (f"url={self._address.url}", "promisor=true", "partialclonefilter=blob:none")
        # Given on the command line, so that no other command fetches what is missing.
        promises = [word for setting in settings for word in ("-c", f"remote.{_REMOTE}.{setting}")]
        # A remote that knew of our commit would take its texts for known.
        haves = () if wanted else ("-c", "fetch.negotiationAlgorithm=noop")
        words = (*promises, *haves, *_FETCH, option, _REMOTE, *wanted)
        return self._run(*words, given=given, into=into, limit_s=limit_s)

    def push(self, commit: str, expected: str) -> Done:
        """Push a commit, if the remote's reference is still at the expected one; empty if it must not exist.

        Raises:
            GitTimeoutError: The remote did not answer in time, so it may or may not have the commit.
        """
        lease = f"--force-with-lease={self._reference}:{expected}"
        words = (*_PUSH, lease, "--", self._address.url, f"{commit}:{self._reference}")
        return self._run(*words, into=self._texts())

    # ---- Objects ----

    def _tip(self) -> str:
        """Return the commit that was fetched last; empty without one."""
        path = os.path.join(self._git_folder, *_TIP.split("/"))
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            tip = file.read(100).strip()
            return tip if tip.isalnum() else ""
        return ""

    def list_files(self, commit: str) -> Iterator[tuple[str, str]]:
        """Yield the path and the id of each regular file of a commit.

        Raises:
            DamagedRepositoryError: It is missing or damaged.
        """
        for line in self._objects("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            fields, _, path = line.partition(b"\t")
            if fields.startswith(b"100"):
                yield path.decode("utf-8", "replace"), fields.split()[2].decode("ascii")

    def read_texts(self, ids: Sequence[str], most_bytes: int) -> dict[str, bytes]:
        """Return texts by their ids, fetched where they are not here; one that is larger than the limit is left out.

        Raises:
            GitFailedError: The remote cannot be reached, or does not send a text.
        """
        given = "".join(f"{id_}\n" for id_ in dict.fromkeys(ids)).encode()
        if not self._is_whole:
            _require(self._fetch("--stdin", given=given, into=self._texts()))
        sizes = self._objects("cat-file", "--batch-check", given=given).decode("ascii").splitlines()
        small = [words[0] for words in map(str.split, sizes) if words[-1].isdigit() and int(words[-1]) <= most_bytes]
        output = self._objects("cat-file", "--batch", given="".join(f"{id_}\n" for id_ in small).encode())
        found, place = {}, 0
        for id_ in small:
            end = output.index(b"\n", place)
            size = int(output[place:end].split()[-1])
            found[id_] = output[end + 1 : end + 1 + size]
            place = end + 1 + size + 1
        return found

    def write_text(self, data: bytes) -> str:
        """Store a text in the temporary folder, and return its id."""
        return self._objects("hash-object", "-w", "--stdin", given=data).decode().strip()

    def commit(self, last: str, files: Mapping[str, str], message: str, *, is_root: bool = False) -> str:
        """Make a commit that adds or replaces files of another, and return its id.

        Args:
            last: That commit, which is here with its trees; empty for a commit with these files alone.
            files: The ids of their texts by path.
            message: The first line of the commit's message.
            is_root: Whether it has no parent, so that the remote need not keep what was replaced.

        Raises:
            DamagedRepositoryError: The other commit is missing or damaged.
        """
        name, mail = AUTHOR
        author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail}
        committer = {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": mail}
        with tempfile.TemporaryDirectory(prefix="tallybook-") as folder:
            # Trees and commits are kept: their objects go into the repository itself.
            into = {"GIT_INDEX_FILE": os.path.join(folder, "index"), **author, **committer}
            if last:
                self._objects("read-tree", last, into=into)
            lines = "".join(f"100644 {id_}\t{path}\n" for path, id_ in files.items())
            self._objects("update-index", "--add", "--index-info", given=lines.encode(), into=into)
            tree = self._objects("write-tree", "--missing-ok", into=into).decode().strip()
            # The id keeps apart two pushes of the same bytes in the same second, of which only one may succeed.
            text = f"{message}\n\nPush {clock.new_id(clock.utc_now().unix_us)} [skip ci]\n".encode()
            parent = ("-p", last) if last and not is_root else ()
            return self._objects("commit-tree", tree, *parent, "-F", "-", given=text, into=into).decode().strip()

    # ---- How git is run ----

    @property
    def _git_folder(self) -> str:
        return self._temporary if self._is_whole else self.path

    def _texts(self) -> Mapping[str, str]:
        """Return the variables by which git stores objects in the temporary folder: our repository has no text."""
        if self._is_whole:
            return {}
        if not self._temporary:
            self._temporary = tempfile.mkdtemp(prefix="tallybook-")
        return self._aside(self._temporary)

    def _aside(self, folder: str) -> dict[str, str]:
        """Return the variables by which git stores objects in a folder, and finds those of our repository as well."""
        return {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(self.path, "objects"),
        }

    def _objects(self, *words: str, given: bytes = b"", into: Mapping[str, str] | None = None) -> bytes:
        """Return the output of a command that reads or writes objects, by default with the texts.

        Raises:
            DamagedRepositoryError: It failed.
        """
        done = self._run(*words, given=given, into=self._texts() if into is None else into)
        if done.code:
            raise DamagedRepositoryError(done.reason)
        return done.output

    def _run(
        self, *words: str, given: bytes = b"", into: Mapping[str, str] | None = None, limit_s: float = 0.0
    ) -> Done:
        if self._ssh is None:
            self._ssh = ssh_variables(self.path, self._limit_s)
        return run_git(
            [*self._address.options, f"--git-dir={self._git_folder}", *words],
            folder=self._folder,
            given=given,
            limit_s=limit_s or self._limit_s,
            variables={**self._ssh, **dict(self._address.variables), **(into or {})},
        )


def _require(done: Done) -> None:
    """Raise GitFailedError where git failed."""
    if done.code:
        raise GitFailedError(done.reason)


def _config(id_chars: int) -> str:
    """Return the configuration of a repository whose object ids have so many characters."""
    is_long = id_chars == _SHA256_CHARS
    return _CONFIG % is_long + (_SHA256 if is_long else "")


def _write_config(folder: str, id_chars: int) -> None:
    with open(os.path.join(folder, "config"), "w", encoding="utf-8") as file:
        file.write(_config(id_chars))


def _make_bare(folder: str, like: str) -> None:
    """Make a bare repository with the object format of a commit's id."""
    for name in ("objects", "refs"):
        os.makedirs(os.path.join(folder, name), 0o700)
    with open(os.path.join(folder, "HEAD"), "w", encoding="utf-8") as file:
        file.write("ref: refs/tallybook/none\n")
    _write_config(folder, len(like))


def _move_files(source: str, target: str) -> None:
    """Move all files of a folder and those below it."""
    for folder, _, names in os.walk(source):
        place = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(place, 0o700, exist_ok=True)
        for name in names:
            shutil.move(os.path.join(folder, name), os.path.join(place, name))
