"""A book in a branch of a git remote: a push that the remote takes at exactly one commit is the compare-and-swap.

The branch is ``tallybook/BOOK``. Its files ``000001.jsonl``, ``000002.jsonl`` and so on are the book's log in parts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from time import sleep
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.line import GENESIS
from tallybook.ledger.sharing.engines import git_files
from tallybook.ledger.sharing.engines.engine import (
    NOTHING,
    Appended,
    Contents,
    DamagedEngineError,
    End,
    Outcome,
    ReadOnlyError,
    Run,
    UnreachableError,
)
from tallybook.ledger.sharing.engines.git_address import check_book, parse_address
from tallybook.ledger.sharing.engines.git_files import START, File, Summary
from tallybook.ledger.sharing.engines.git_process import Done, GitFailedError, GitTimeoutError
from tallybook.ledger.sharing.engines.git_repository import AUTHOR, DamagedRepositoryError, GitRepository
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_Answer = TypeVar("_Answer")
RUN_BYTES = 2 * 1024 * 1024
LIMIT_S = 60.0
BRANCHES = "refs/heads/tallybook/"
_SHORT_CHARS = 8
_FILES_AT_ONCE = 128
_AUTHOR = re.compile(rb"\nauthor ([^\n]*>) ")
# What git says where another push holds the branch at this moment.
_BUSY = (b"failed to update ref", b"cannot lock ref", b"Unable to create", b"incorrect old value")
# What git says of a repository whose objects are missing, empty or changed.
_DAMAGE = re.compile(r"object file \S+ is empty|is corrupt|repository corruption|bad (tree )?object|unable to unpack")
_PAUSES_S = (0.0, 0.1, 0.4)


class _Commit(NamedTuple):
    """A commit of the branch.

    Attributes:
        id: Its id.
        author: Who authored it, empty if we did.
        files: The files of the book, in order.
        number: The largest number of a file, 0 without one.
    """

    id: str
    author: str
    files: Sequence[File]
    number: int


class _Base(NamedTuple):
    """What an append continues.

    Attributes:
        commit: Id of the commit.
        number: The number of its last file.
        content: What that holds.
    """

    commit: str
    number: int
    content: bytes


_NO_BASE = _Base("", 0, b"")


class _Memory(NamedTuple):
    """What a read notes in our repository, so that the next one need not read all files again.

    Attributes:
        tip: The commit that was read; empty if its files hold anything but batches that follow one another.
        whole: What its files hold together.
        files: What each of its files holds, by the id of the content.
    """

    tip: str
    whole: Summary
    files: Mapping[str, Summary]


class GitEngine:
    """A book in a branch of a git remote.

    Attributes:
        address: As in `Engine`.
        run_bytes: As in `Engine`.
    """

    def __init__(self, address: str, book: str, folder: str | None, *, limit_s: float = LIMIT_S) -> None:
        """Name the book; nothing is asked of the remote yet.

        Args:
            address: The address of the remote, which may hold a password.
            book: The book's name.
            folder: A folder of its own in the user's cache folder; None where there is none that is safe.
            limit_s: How long a call of git may take.

        Raises:
            BadInputError: The address or the name is not usable.
        """
        parsed = parse_address(address)
        check_book(book)
        self.address = parsed.shown
        self.run_bytes = RUN_BYTES
        self._temporary = tempfile.mkdtemp(prefix="tallybook-") if folder is None else None
        self._repository = GitRepository(self._temporary or folder or "", parsed, BRANCHES + book, limit_s)
        # Between reading and pushing another machine may be quicker, so what an append needs is remembered.
        self._base = _NO_BASE
        self._has_moved = False
        # The commit of which a limit left out files.
        self._unfinished = ""

    def read(self, after: int, limit: int | None = None) -> Contents:
        """Return what the branch holds after an event number."""
        return self._call(lambda: self._read(after, limit))

    def append(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Push a commit on top of the expected one."""
        return self._call(lambda: self._store(expected, runs, expected.token))

    def replace(self, expected: End, runs: Sequence[Run]) -> Appended:
        """Push a commit without a parent, if the branch is at the expected one."""
        return self._call(lambda: self._store(expected, runs, ""))

    def close(self) -> None:
        """Remove what was only needed for this engine."""
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def delete_cache(self) -> None:
        """Delete our repository, which may hold a text that was redacted; it is fetched again when it is needed."""
        with self._repository.lock():
            self._repository.delete()

    def _call(self, work: Callable[[], _Answer]) -> _Answer:
        """Do something with our repository, and once more in a new one if it was damaged."""
        here = self._repository
        try:
            with here.lock():
                try:
                    answer = work()
                except DamagedRepositoryError:
                    self._base = _NO_BASE
                    here.make()
                    answer = work()
                if here.is_too_large():
                    here.delete()
                return answer
        except GitFailedError as error:
            # Ours was made anew before.
            what = DamagedEngineError if _DAMAGE.search(str(error)) else UnreachableError
            raise what(self.address, str(error)) from error
        except OSError as error:
            raise CannotWriteError(here.path, disk.reason(error)) from error

    # ---- Reading ----

    def _read(self, after: int, limit: int | None) -> Contents:
        """Return what the branch holds after an event number, asking and fetching as little as possible."""
        # What the limit left out is of the same commit, which need not be asked for again.
        tip, self._unfinished = (limit and self._unfinished) or self._fetch(), ""
        if not tip:
            return Contents((), 0, NOTHING)
        memory = self._recall()
        if memory.tip == tip and memory.whole.last <= after:
            return Contents((), memory.whole.first, End(*memory.whole[1:], tip))
        commit = self._open(tip)
        begin = git_files.count_known(commit.files, memory.files, after)
        start, cut, linked = self._link(commit, begin, limit, memory.files)
        if linked is None:
            begin = 0
            start, cut, linked = self._link(commit, begin, limit, memory.files)
        runs = linked or []
        batches = [run for run in runs if run.after]
        first = memory.files[commit.files[0].id].first if begin else batches[0].first if batches else 0
        end = (batches[-1].last, batches[-1].after) if batches else start[1:]
        known = {file.id: memory.files[file.id] for file in commit.files[:begin]}
        new = {file.id: git_files.summarize(some) for file, some in zip(commit.files[begin:], cut, strict=False)}
        known |= {id_: summary for id_, summary in new.items() if summary}
        is_whole = git_files.count_known(commit.files, known, end[0]) == len(commit.files)
        self._remember(_Memory(tip if is_whole else "", Summary(first, *end), known))
        if more := begin + len(cut) < len(commit.files):
            self._unfinished = tip
            last = [run for run in self._cut(commit, commit.files[-1:])[0] if run.after]
            end = (last[-1].last, last[-1].after) if last else (0, GENESIS)
        return Contents(git_files.select(runs, after, start.last), first, End(*end, tip), more)

    def _fetch(self) -> str:
        """Return the last commit of the branch, which our repository has then; empty if there is no branch."""
        here = self._repository
        has_moved, self._has_moved = self._has_moved, False
        known = here.tip()
        if not (known and has_moved):
            tip = here.remote_tip()
            if tip in {"", known}:
                return tip
        try:
            return here.fetch()
        except GitTimeoutError:
            raise
        except GitFailedError:
            # The branch is missing, or our repository is damaged; else this raises why the remote does not answer.
            tip = here.remote_tip()
            if not tip:
                return ""
            here.make(tip)
            return here.fetch()

    def _open(self, id_: str) -> _Commit:
        """Return a commit that our repository has."""
        head, tree = self._repository.read_objects([id_, f"{id_}^{{tree}}"])
        author = _AUTHOR.search(head)
        name = author[1].decode("utf-8", "replace") if author else ""
        return _Commit(id_, "" if name == AUTHOR else name, *git_files.parse_tree(tree, len(id_) // 2))

    def _link(
        self, commit: _Commit, begin: int, limit: int | None, known: Mapping[str, Summary]
    ) -> tuple[Summary, list[list[Run]], list[Run] | None]:
        """Return what the files before one hold, the runs of each file from there on, and all of them linked."""
        start = known[commit.files[begin - 1].id] if begin else START
        files = commit.files[begin:]
        cut = self._cut(commit, files if limit is None else files[: max(1, limit // git_files.MAX_FILE_BYTES)])
        return start, cut, git_files.link([run for runs in cut for run in runs], start)

    def _cut(self, commit: _Commit, files: Sequence[File]) -> list[list[Run]]:
        """Return the runs of each file, without the chain value before them."""
        cut = []
        for begin in range(0, len(files), _FILES_AT_ONCE):
            some = files[begin : begin + _FILES_AT_ONCE]
            for file, data in zip(some, self._repository.read_objects([file.id for file in some]), strict=True):
                place = f"{file.name} in commit {commit.id[:_SHORT_CHARS]}"
                cut.append(git_files.cut(data, place, commit.author))
                if file.number == commit.number:
                    self._base = _Base(commit.id, file.number, data)
        return cut

    @property
    def _memory_path(self) -> str:
        return os.path.join(self._repository.path, "files.json")

    def _recall(self) -> _Memory:
        """Return what the last read noted; nothing where that is missing or damaged."""
        try:
            with open(self._memory_path, "rb") as file:
                fields = json.load(file)
            return _Memory(
                fields["tip"], Summary(*fields["whole"]), {id_: Summary(*row) for id_, row in fields["files"].items()}
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return _Memory("", START, {})

    def _remember(self, memory: _Memory) -> None:
        disk.replace_cache_file(self._memory_path, json.dumps(memory._asdict()).encode())

    # ---- Writing ----

    def _store(self, expected: End, runs: Sequence[Run], parent: str) -> Appended:
        """Push a commit with runs after a parent, empty for none, if the branch is at the expected commit."""
        base = self._find_base(parent) if parent else _Base("", 1, b"")
        if base is None:
            return Appended(Outcome.MOVED)
        files = git_files.append_runs(base.number, base.content, runs)
        first, last = (runs[0].first, runs[-1].last) if runs else (0, 0)
        what = "Append" if parent or not expected.token else "Replace the book by"
        commit = self._repository.commit(parent, files, f"{what} events {first} to {last}")
        end = End(last, runs[-1].after if runs else GENESIS, commit)
        answer = self._push(end, expected.token)
        if answer.outcome is Outcome.DONE and files:
            name, content = list(files.items())[-1]
            self._base = _Base(commit, int(name.partition(".")[0]), content)
        self._has_moved = answer.outcome is Outcome.MOVED
        return answer

    def _find_base(self, id_: str) -> _Base | None:
        """Return what an append after a commit continues; None if the branch moved."""
        if self._base.commit == id_:
            return self._base
        try:
            commit = self._open(id_)
        except DamagedRepositoryError:
            if self._fetch() != id_:
                return None
            commit = self._open(id_)
        last = commit.files[-1:]
        if not last or last[0].number < commit.number:
            return _Base(id_, commit.number + 1, b"")
        return _Base(id_, last[0].number, self._repository.read_objects([last[0].id])[0])

    def _push(self, end: End, expected: str) -> Appended:
        """Push a commit, and find out what became of it if the remote does not confirm it."""
        for pause in _PAUSES_S:
            sleep(pause)
            try:
                done = self._repository.push(end.token, expected)
                tip = self._repository.remote_tip() if done.code else end.token
            except GitFailedError:
                return Appended(Outcome.UNKNOWN)
            if tip == end.token:
                return Appended(Outcome.DONE, end)
            if tip != expected:
                return Appended(Outcome.MOVED)
            if not _may_pass(done, is_first=not pause):
                break
        if b"remote: " in done.errors and _DAMAGE.search(done.refusal):
            raise DamagedEngineError(self.address, done.refusal)
        raise ReadOnlyError(self.address, done.refusal)


def _may_pass(done: Done, *, is_first: bool) -> bool:
    """Return whether a refused push may succeed if it is tried again.

    Another push held the branch; or the remote said nothing of it, as where a connection breaks, or a right is missing.
    """
    is_silent = not any(line.startswith(b"!") for line in done.output.splitlines())
    return (is_silent and is_first) or any(words in done.output + done.errors for words in _BUSY)
