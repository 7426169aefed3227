"""A book in a git remote: a file a run, and a push that the remote takes at exactly one commit is the compare-and-swap.

The reference is ``refs/tallybook/BOOK``, which no ordinary fetch or list of branches shows. Run 4711 is the file
``000001/09/39.jsonl``: folders have 64 names, so that a push sends few of them again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from tallybook.ledger.errors import CannotWriteError
from tallybook.ledger.sharing.engines.engine import MAX_RUN_BYTES
from tallybook.ledger.sharing.engines.git_address import check_book, parse_address
from tallybook.ledger.sharing.engines.git_process import Done, GitFailedError, GitTimeoutError
from tallybook.ledger.sharing.engines.git_repository import DamagedRepositoryError, GitRepository
from tallybook.ledger.sharing.engines.store import (
    DamagedEngineError,
    Entry,
    FormerLayoutError,
    Put,
    PutOutcome,
    ReadOnlyError,
    UnreachableError,
)
from tallybook.ledger.storage import disk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_Answer = TypeVar("_Answer")
LIMIT_S = 60.0
REFERENCES = "refs/tallybook/"
_FORMER = "refs/heads/tallybook/"
_PATH = re.compile(r"(\d{6,})/(\d\d)/(\d\d)\.jsonl")
_FOLDER = 64
"""How many names a folder has."""
# What git says where another push holds the reference at this moment.
_BUSY = (b"failed to update ref", b"cannot lock ref", b"Unable to create", b"incorrect old value")
# What git says of a repository whose objects are missing, empty or changed.
_DAMAGE = re.compile(r"object file \S+ is empty|is corrupt|repository corruption|bad (tree )?object|unable to unpack")
_PAUSES_S = (0.0, 0.1, 0.4)
_TRIES = 5


def path_of(number: int) -> str:
    """Return the path of a run's file."""
    upper, low = divmod(number, _FOLDER)
    top, middle = divmod(upper, _FOLDER)
    return f"{top:06d}/{middle:02d}/{low:02d}.jsonl"


def _number_of(path: str) -> int | None:
    """Return the number of the run in a file; None for a file that is not ours."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    top, middle, low = map(int, match.groups())
    number = (top * _FOLDER + middle) * _FOLDER + low
    return number if number and path_of(number) == path else None


class GitStore:
    """Holds the runs of a book in a reference of a git remote.

    Attributes:
        address: As in `Store`.
        warnings: As in `Store`; none.
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
        self.warnings: tuple[str, ...] = ()
        self._book = book
        self._temporary = tempfile.mkdtemp(prefix="tallybook-") if folder is None else None
        self._repository = GitRepository(self._temporary or folder or "", parsed, REFERENCES + book, limit_s)
        # The commit that was read or pushed last, None before; whether it is here; number of a run → id of its text.
        self._tip: str | None = None
        self._has_trees = False
        self._runs: Mapping[int, str] = {}

    def list(self, after: int) -> Sequence[Entry]:
        """Return the numbers of the reference's last commit."""
        self._call(self._look)
        return [Entry(number, id_) for number, id_ in self._runs.items() if number > after]

    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of numbers of the commit that was listed last."""
        ids = {number: self._runs[number] for number in numbers if number in self._runs}
        if not ids:
            return {}
        texts = self._call(lambda: self._read(list(ids.values())))
        return {number: texts[id_] for number, id_ in ids.items() if id_ in texts}

    def put(self, number: int, data: bytes) -> Put:
        """Push a commit with one more file."""
        return self._call(lambda: self._put(number, data))

    def erase(self, before: int) -> None:
        """Push a commit without a parent in which earlier files are empty."""
        self._call(lambda: self._erase(before))

    def close(self) -> None:
        """Remove the texts, and what was only needed for this store."""
        self._repository.drop_texts()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _call(self, work: Callable[[], _Answer]) -> _Answer:
        """Do something with our repository, and once more in a new one if it was damaged."""
        here = self._repository
        try:
            with here.lock():
                try:
                    return work()
                except DamagedRepositoryError:
                    here.make(self._tip or "")
                    self._tip, self._has_trees = None, False
                    return work()
        except GitFailedError as error:
            # Ours was made anew before.
            what = DamagedEngineError if _DAMAGE.search(str(error)) else UnreachableError
            raise what(self.address, str(error)) from error
        except OSError as error:
            raise CannotWriteError(here.path, disk.reason(error)) from error

    # ---- Reading ----

    def _look(self) -> None:
        """Learn the reference's last commit and its numbers, asking and fetching as little as possible."""
        former = _FORMER + self._book
        tip, branch = self._repository.remote_tips(former)
        if not tip and branch:
            removal = f"git push {self.address} --delete {former.removeprefix('refs/heads/')}"
            raise FormerLayoutError(self.address, f"the branch tallybook/{self._book}", removal)
        if tip == self._tip:
            return
        noted = self._repository.recall()
        if not tip:
            self._tip, self._runs = "", {}
        elif noted.tip == tip:
            self._tip, self._runs, self._has_trees = tip, noted.texts, noted.has_trees
        else:
            self._fetch(tip, texts=not noted.tip)

    def _fetch(self, tip: str, *, texts: bool) -> None:
        """Fetch the last commit, and note its numbers with the ids of their texts."""
        here = self._repository
        try:
            tip = here.fetch(tip, texts=texts)
        except GitTimeoutError:
            raise
        except GitFailedError:
            # Our repository may be damaged, or of another object format.
            here.make(tip)
            tip = here.fetch(tip, texts=texts)
        found = ((_number_of(path), id_) for path, id_ in here.list_files(tip))
        self._runs = dict(sorted((number, id_) for number, id_ in found if number is not None))
        self._tip, self._has_trees = tip, True
        here.note(tip, self._runs)

    def _read(self, ids: Sequence[str]) -> dict[str, bytes]:
        try:
            return self._repository.read_texts(ids, MAX_RUN_BYTES)
        except GitTimeoutError:
            raise
        except GitFailedError:
            # The remote sends no single texts, or the reference was replaced since.
            tip, *_ = self._repository.remote_tips()
            if tip:
                self._fetch(tip, texts=True)
            held = {*self._runs.values()} if tip else set()
            return self._repository.read_texts([id_ for id_ in ids if id_ in held], MAX_RUN_BYTES)

    # ---- Writing ----

    def _put(self, number: int, data: bytes) -> Put:
        for is_new_try in (False, *[True] * _TRIES):
            # What is known may be old: another machine may have pushed, perhaps another number.
            if is_new_try or self._tip is None or self._is_out(number):
                self._look()
            if not self._is_out(number):
                # That can bring a newer commit, in which the number is in use.
                self._have_trees()
            if self._is_out(number):
                return Put(PutOutcome.TAKEN)
            id_ = self._repository.write_text(data)
            commit = self._repository.commit(self._tip or "", {path_of(number): id_}, f"Append run {number}")
            outcome = self._push(commit, {**self._runs, number: id_})
            if outcome is not PutOutcome.TAKEN:
                return Put(outcome, id_ if outcome is PutOutcome.DONE else "")
        return Put(PutOutcome.UNKNOWN)

    def _is_out(self, number: int) -> bool:
        """Return whether a number is in use, or would leave a gap before it."""
        return number in self._runs or (number > 1 and number - 1 not in self._runs)

    def _erase(self, before: int) -> None:
        for _ in range(_TRIES):
            self._look()
            if not self._tip:
                return
            # A push of a commit without a parent sends what it has anew, texts and all.
            self._fetch(self._tip, texts=True)
            empty = self._repository.write_text(b"")
            gone = {number: empty for number, id_ in self._runs.items() if number < before and id_ != empty}
            if not gone:
                return
            files = {path_of(number): empty for number in gone}
            commit = self._repository.commit(self._tip, files, f"Erase runs before {before}", is_root=True)
            if self._push(commit, {**self._runs, **gone}) is PutOutcome.DONE:
                return
        raise UnreachableError(self.address, "others push all the time")

    def _have_trees(self) -> None:
        """Fetch the last commit where only its numbers are known."""
        if self._tip and not self._has_trees:
            self._fetch(self._tip, texts=False)

    def _push(self, commit: str, runs: Mapping[int, str]) -> PutOutcome:
        """Push a commit, and find out what became of it if the remote does not confirm it."""
        expected = self._tip or ""
        for pause in _PAUSES_S:
            sleep(pause)
            try:
                done = self._repository.push(commit, expected)
                tip = self._repository.remote_tips()[0] if done.code else commit
            except GitFailedError:
                self._tip = None
                return PutOutcome.UNKNOWN
            if tip == commit:
                self._tip, self._runs, self._has_trees = commit, runs, True
                self._repository.note(commit, runs)
                return PutOutcome.DONE
            if tip != expected:
                return PutOutcome.TAKEN
            if not _may_pass(done, is_first=not pause):
                break
        if b"remote: " in done.errors and _DAMAGE.search(done.refusal):
            raise DamagedEngineError(self.address, done.refusal)
        raise ReadOnlyError(self.address, done.refusal)


def _may_pass(done: Done, *, is_first: bool) -> bool:
    """Return whether a refused push may succeed if it is tried again.

    Another push held the reference; or the remote said nothing of it, as where a connection breaks, or a right is
    missing.
    """
    is_silent = not any(line.startswith(b"!") for line in done.output.splitlines())
    return (is_silent and is_first) or any(words in done.output + done.errors for words in _BUSY)
