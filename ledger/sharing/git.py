"""A book in a git remote: a file a run, and a push that the remote takes at exactly one commit is the compare-and-swap.

The reference is ``refs/tallybook/BOOK``, which no ordinary fetch or list of branches shows. Run 4711 is the file
``000001/09/39.jsonl``: there are 64 folder names, so a push changes few folders.

    FOLDER/objects   commits and trees, never a text; may be deleted at any time
    FOLDER/tip       the commit whose trees are there

FOLDER is in the user's cache folder. The repository itself is temporary, so no other user can configure it to run
commands; it receives objects from the remote, and uses those in FOLDER.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
import os
import re
import shlex
import shutil
import tempfile
from time import sleep
from typing import Any, TypeVar
import weakref

from tallybook.ledger import clock
from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.sharing import engine, git_remote
from tallybook.ledger.sharing.git_remote import GitFailedError
from tallybook.ledger.storage import disk

_Answer = TypeVar("_Answer")
LIMIT_S = 60.0
REFERENCES = "refs/tallybook/"
_PATH = re.compile(rb"(\d{6,})/(\d\d)/(\d\d)\.jsonl")
_FOLDER = 64
"""How many names a folder has."""
_COMMITTER = b"committer Tallybook <noreply@tallybook.invalid> now"
_ALTERNATES = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
# What git says where another push holds the reference at this moment.
_BUSY = (b"failed to update ref", b"cannot lock ref", b"Unable to create", b"incorrect old value")
_PAUSES_S = (0.0, 0.1, 0.4)
# The user's configuration counts here, so what it could add to a fetch or a push is switched off one by one.
_SETTINGS = (
    "core.bare=true",
    # What is damaged or lost is fetched anew, so nothing is flushed.
    "core.fsync=none",
    "core.logAllRefUpdates=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "pack.compression=1",
    "pack.packSizeLimit=0",
)
_FETCH = ("fetch", "--quiet", "--depth=1", "--no-tags", "--no-prune", "--no-recurse-submodules")
_PUSH = ("push", "--porcelain", "--no-follow-tags", "--no-signed", "--no-recurse-submodules", "--no-thin")
# Longer than any sync takes.
_KEPT_S = 3600
# The whole of a long book takes longer than what is new.
_WHOLE = 10


def _id_of(text: bytes) -> str:
    """Return git's id of a text."""
    return sha1(b"blob %d\0%b" % (len(text), text), usedforsecurity=False).hexdigest()


_EMPTY = _id_of(b"")


class _DamagedError(GitFailedError):
    """A command failed, perhaps because an object is missing or changed in what is kept."""


def path_of(number: int) -> str:
    """Return the path of a run's file."""
    upper, low = divmod(number, _FOLDER)
    top, middle = divmod(upper, _FOLDER)
    return f"{top:06d}/{middle:02d}/{low:02d}.jsonl"


class GitStore(engine.Store):
    """Holds the runs of a book in a reference of a git remote.

    Attributes:
        address: As in `Store`.
    """

    def __init__(
        self, address: str, book: str, folder: str | None, *, login: str = "", limit_s: float = LIMIT_S
    ) -> None:
        """Name the book; nothing is asked of the remote yet.

        Args:
            address: The address of the remote.
            book: The book's name.
            folder: A folder of its own in the user's cache folder; None where there is none that is safe.
            login: The name of the variable that has a token for an address over https; empty for git's own credentials.
            limit_s: How long a call of git may take.

        Raises:
            BadInputError: The address or the name is not usable, or the variable is not set.
        """
        git_remote.check_book(book)
        self.address = git_remote.check_address(address)
        self._options = [*_options(_SETTINGS), *git_remote.token_options(self.address, login)]
        self._reference = REFERENCES + book
        self._limit_s = limit_s
        # Texts are received there, so it goes with the store even where nobody closes that.
        aside = tempfile.mkdtemp(prefix="tallybook-")
        self._drop = weakref.finalize(self, shutil.rmtree, aside, ignore_errors=True)
        self._path = os.path.join(aside, "repository.git")
        self._folder = folder or os.path.join(aside, "kept")
        self._objects = os.path.join(self._folder, "objects")
        # The commit that was read or pushed last, None before, and number of each of its runs → id of the text.
        self._tip: str | None = None
        self._runs: Mapping[int, str] = {}

    def list(self, after: int) -> Sequence[engine.StoredRun]:
        """Return the numbers of the reference's last commit."""
        self._call(self._look)
        new = ((number, id_) for number, id_ in self._runs.items() if number > after)
        return [engine.StoredRun(number, id_, 0 if id_ == _EMPTY else None) for number, id_ in new]

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers of the commit that was listed last."""
        ids = {number: self._runs[number] for number in numbers if number in self._runs}
        # Who reads some of the runs goes on to the later ones.
        later = [id_ for number, id_ in self._runs.items() if ids and number >= min(ids)]
        texts = self._call(lambda: self._read({*ids.values()}, later)) if ids else {}
        return {number: texts[id_] for number, id_ in ids.items() if id_ in texts}

    def put(self, number: int, data: bytes) -> str | None:
        """Push a commit with one more file."""
        return self._call(lambda: self._put(number, data))

    def erase(self, before: int) -> None:
        """Push a commit without a parent in which earlier files are empty."""
        self._call(lambda: self._erase(before))

    def describe_remains(self) -> str:
        """Say that git keeps what no commit has until it collects it."""
        folder = self.address.removeprefix("file://")
        place = shlex.quote(folder) if folder.startswith("/") else "REPOSITORY"
        return (
            "the server keeps erased runs until git collects them; its operator, or the support of a service, runs: "
            f"git --git-dir={place} gc --prune=now"
        )

    def close(self) -> None:
        """Remove the texts, and what was only needed for this store."""
        self._drop()

    # ---- Reading ----

    def _look(self) -> None:
        """Learn the reference's last commit and its numbers, asking and fetching as little as possible."""
        tip = self._ask_tip()
        if tip != self._tip:
            if tip and tip != self._read_kept_tip().strip():
                tip = self._fetch()
            self._tip, self._runs = tip, self._list_runs(tip) if tip else {}

    def _ask_tip(self) -> str:
        """Ask the remote for the reference's commit; empty where it does not have it."""
        former = "refs/heads/tallybook/" + self._reference.removeprefix(REFERENCES)
        done = self._git("ls-remote", "--quiet", "--", self.address, self._reference, former)
        if done.code:
            raise GitFailedError(done.reason)
        rows = (line.split("\t") for line in done.output.decode("ascii", "replace").splitlines())
        tips = {name: id_ for id_, name in rows}
        if self._reference not in tips and former in tips:
            raise engine.FormerLayoutError(self.address, f"the branch {former.removeprefix('refs/heads/')}")
        return tips.get(self._reference, "")

    def _fetch(self) -> str:
        """Fetch the reference's last commit, keep it, and return its id."""
        self._receive(is_whole=not self._read_kept_tip())
        # Another machine may have pushed since the question for the commit, so what was fetched counts.
        tip = self._local("rev-parse", "FETCH_HEAD").decode().strip()
        self._keep(tip)
        return tip

    def _keep(self, tip: str) -> None:
        """Keep a commit and its folders, and nothing that is older than any sync."""
        # No text: what is redacted later would have to be found there.
        options = ("--objects", "--filter=blob:none", "--no-object-names", "--max-count=1")
        objects = self._local("rev-list", *options, tip)
        packs = os.path.join(self._objects, "pack")
        name = self._local("pack-objects", "--quiet", os.path.join(packs, "pack"), given=objects, is_kept=True)
        self._keep_tip(tip)
        # Syncs of other projects with the same book use the folder too, and may be at an earlier commit.
        oldest = clock.utc_now().unix_us / clock.MICROSECONDS - _KEPT_S
        for path in (os.path.join(packs, file) for file in os.listdir(packs) if name.decode().strip() not in file):
            with suppress(FileNotFoundError):
                if os.stat(path).st_mtime < oldest:
                    os.unlink(path)

    def _receive(self, *wanted: str, is_whole: bool = False) -> None:
        """Fetch: texts by their ids, or the reference's last commit, perhaps with its texts.

        A remote that cannot leave texts out sends them always.
        """
        # Settings of this command alone, so that no other one fetches what is missing.
        remote = (f"url={self.address}", "promisor=true", "partialclonefilter=blob:none")
        settings = [f"remote.book.{setting}" for setting in remote]
        if wanted or is_whole:
            # A remote that knew of our commit would take its texts for known.
            settings.append("fetch.negotiationAlgorithm=noop")
        words = (*_FETCH, "--no-filter" if is_whole else "--filter=blob:none", "book")
        what = "--stdin" if wanted else self._reference
        limit_s = self._limit_s * (_WHOLE if is_whole else 1)
        self._local(*_options(settings), *words, what, given=_lines(wanted), limit_s=limit_s)

    def _list_runs(self, commit: str) -> dict[int, str]:
        """Return number → id of the text for each run of a commit."""
        runs = {}
        for line in self._local("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            fields, _, path = line.partition(b"\t")
            # Not a link of that name.
            if fields.startswith(b"100") and (match := _PATH.fullmatch(path)):
                top, middle, low = map(int, match.groups())
                number = (top * _FOLDER + middle) * _FOLDER + low
                if path_of(number).encode() == path:
                    runs[number] = fields.split()[2].decode("ascii")
        return dict(sorted(runs.items()))

    def _read(self, ids: set[str], later: Sequence[str]) -> dict[str, bytes]:
        """Return texts, fetched with later ones where they are not here; one that is too large is left out."""
        if self._tip is None:
            # A remote that sends no single texts has sent all of them when nothing is kept.
            self._look()
        sizes = self._sizes(later)
        if missing := [id_ for id_ in later if id_ not in sizes]:
            # All in one fetch: to read a text that is missing would open a connection for each.
            self._receive(*missing)
            sizes |= self._sizes(missing)
        small = [id_ for id_ in ids if sizes.get(id_, engine.MAX_RUN_BYTES + 1) <= engine.MAX_RUN_BYTES]
        output = self._local("cat-file", "--batch", given=_lines(small)) if small else b""
        found, place = {}, 0
        for id_ in small:
            begin = output.index(b"\n", place) + 1
            place = begin + sizes[id_] + 1
            found[id_] = output[begin : place - 1]
        return found

    def _sizes(self, ids: Sequence[str]) -> dict[str, int]:
        """Return id → bytes of the texts that are here."""
        rows = map(bytes.split, self._local("cat-file", "--batch-check", given=_lines(ids)).splitlines())
        return {words[0].decode(): int(words[-1]) for words in rows if words[-1].isdigit()}

    # ---- Writing ----

    def _put(self, number: int, data: bytes) -> str | None:
        # What is known may be old: another machine may have pushed.
        if self._tip is None or self._is_out(number):
            self._look()
        is_put = not self._is_out(number) and self._push({number: data}, f"Append run {number}")
        return _id_of(data) if is_put else None

    def _is_out(self, number: int) -> bool:
        """Return whether a number is in use, or would leave a gap before it."""
        return number in self._runs or (number > 1 and number - 1 not in self._runs)

    def _erase(self, before: int) -> None:
        self._look()
        gone = {number: b"" for number, id_ in self._runs.items() if number < before and id_ != _EMPTY}
        if gone:
            # A push of a commit without a parent sends what it has anew, texts and all.
            self._receive(is_whole=True)
            if not self._push(gone, f"Erase runs before {before}", is_root=True):
                raise engine.UnreachableError(self.address, "another machine pushed", "run it again")

    def _push(self, texts: Mapping[int, bytes], message: str, *, is_root: bool = False) -> bool:
        """Push a commit with other texts of runs; return whether the remote has it for certain.

        Args:
            texts: Number → text.
            message: The first line of the commit's message.
            is_root: Whether it has no parent, so that the remote need not keep what was replaced.
        """
        expected = self._tip or ""
        commit = self._commit(texts, message, is_root=is_root)
        lease = f"--force-with-lease={self._reference}:{expected}"
        for pause in _PAUSES_S:
            sleep(pause)
            try:
                done = self._git(*_PUSH, lease, "--", self.address, f"{commit}:{self._reference}")
                tip = self._ask_tip() if done.code else commit
            except GitFailedError:
                self._tip = None
                return False
            if tip == commit:
                ids = {number: _id_of(text) for number, text in texts.items()}
                self._tip, self._runs = commit, {**self._runs, **ids}
                self._keep(commit)
                return True
            # Whatever the remote says: many lost races read like a refusal.
            if tip != expected:
                self._tip = None
                return False
            # Another push may hold the reference, or a connection broke.
            is_busy = any(words in done.output + done.errors for words in _BUSY)
            if not is_busy and (pause or b"\n!\t" in done.output):
                break
        raise engine.ReadOnlyError(self.address, done.reason)

    def _commit(self, texts: Mapping[int, bytes], message: str, *, is_root: bool) -> str:
        """Make a commit that adds or replaces texts of the last one, and return its id."""
        # The id keeps apart two pushes of the same bytes in the same second, of which only one may succeed.
        text = f"{message}\n\nPush {clock.new_id(clock.utc_now().unix_us)} [skip ci]\n".encode()
        lines = [b"commit refs/next", b"mark :1", _COMMITTER, b"data %d" % len(text), text]
        if self._tip and is_root:
            lines.append(b"M 040000 %b " % self._local("rev-parse", f"{self._tip}^{{tree}}").strip())
        elif self._tip:
            lines.append(b"from " + self._tip.encode())
        for number, data in texts.items():
            lines += [b"M 100644 inline " + path_of(number).encode(), b"data %d" % len(data), data]
        given = b"\n".join([*lines, b"get-mark :1\n"])
        return self._local("fast-import", "--quiet", "--force", "--date-format=now", given=given).decode().strip()

    # ---- The repository, and what is kept ----

    def _call(self, work: Callable[[], _Answer]) -> _Answer:
        """Do something, and once more without what was kept if that was damaged."""
        try:
            self._prepare()
            try:
                return work()
            except _DamagedError:
                self._forget()
                return work()
        except GitFailedError as error:
            raise engine.UnreachableError(self.address, str(error)) from error
        except OSError as error:
            raise CannotWriteError(self._folder, disk.reason(error)) from error

    def _prepare(self) -> None:
        """Make what is missing of the repository and of the folder of what is kept."""
        for folder in (self._folder, self._objects, os.path.join(self._objects, "pack")):
            disk.make_folder(folder, durable=False)
        if not os.path.exists(self._path):
            tip = self._read_kept_tip()
            os.makedirs(os.path.join(self._path, "objects"))
            os.makedirs(os.path.join(self._path, "refs"))
            # The remote is told which commit is here, and that those before it are not.
            for name, text in (("HEAD", "ref: refs/heads/none\n"), ("refs/tip", tip), ("shallow", tip)):
                if text:
                    with open(os.path.join(self._path, name), "w", encoding="utf-8") as file:
                        file.write(text)

    def _forget(self) -> None:
        """Delete what is kept, and begin with an empty repository."""
        for path in (self._path, self._objects):
            shutil.rmtree(path, ignore_errors=True)
        self._keep_tip("")
        self._tip = None
        self._prepare()

    def _read_kept_tip(self) -> str:
        """Return the commit whose trees are kept; empty without one."""
        with suppress(OSError), open(os.path.join(self._folder, "tip"), encoding="ascii", errors="replace") as file:
            tip = file.read(100)
            return tip if tip.strip().isalnum() else ""
        return ""

    def _keep_tip(self, commit: str) -> None:
        disk.replace_cache_file(os.path.join(self._folder, "tip"), f"{commit}\n".encode())

    # ---- How git is run ----

    def _local(self, *words: str, **options: Any) -> bytes:
        """Return the output of a command that reads or writes objects; the options are those of ``_git``.

        Raises:
            _DamagedError: It failed.
        """
        done = self._git(*words, **options)
        if done.code:
            raise _DamagedError(done.reason)
        return done.output

    def _git(self, *words: str, is_kept: bool = False, **options: Any) -> git_remote.Done:
        """Run git; objects are stored in the repository, or where they are kept, and found in either."""
        folders = [os.path.join(self._path, "objects"), self._objects][:: -1 if is_kept else 1]
        places = dict(zip(("GIT_OBJECT_DIRECTORY", _ALTERNATES), folders, strict=True))
        words = (*self._options, f"--git-dir={self._path}", *words)
        options = {"limit_s": self._limit_s, "variables": places, **options}
        return git_remote.run_git(words, folder=self._folder, **options)


def _options(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _lines(ids: Iterable[str]) -> bytes:
    return "".join(f"{id_}\n" for id_ in ids).encode()
