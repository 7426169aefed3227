"""The replica: this machine's copy of a book, the same bytes on every machine up to its end.

    <ledger>/book/current          which copy is the present one, and up to where the own ledger is in the book
    <ledger>/book/1/events.jsonl   the copy, a log file like the ledger's own, and its head

A copy is only appended to. Another history of the book is a new copy, chosen by replacing ``current``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import dropwhile
import json
import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from tallybook.ledger.errors import CannotWriteError, TallybookError
from tallybook.ledger.line import START, WRITER, Position, RawBatch, first_seq, head_field, split_key
from tallybook.ledger.log import JsonlLog, LogFiles
from tallybook.ledger.scan import Scan
from tallybook.ledger.search import Delivery, find_deliveries
from tallybook.ledger.sharing.engine import NOTHING, End
from tallybook.ledger.storage import disk, redaction
from tallybook.ledger.storage import head as heads

if TYPE_CHECKING:
    from tallybook.ledger.fast_stdlib import StrPath


FOLDER = "book"
CURRENT = "current"
ASIDE = ".aside-"
_READ_BYTES = 1024 * 1024
_KEY = re.compile(rb'"key":"([^"]*)"')
_ID = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":[0-9]+,"id":"([^"]*)"')
_BLOCK = re.compile(rb'\t"kind":"book\.block","v":1,"body":\{"first":([0-9]+),')
# No text and no body has a raw TAB, so this is the kind of a line, and the number is that of the same line.
_RULES = re.compile(rb'\t"kind":"book\.(?:opened|rules)","v":1,[^\t\n]*"rules":([0-9]+)\}')
_WAIT_MS = 250


def find_ids(data: bytes) -> list[str]:
    """Return the id of each line in some bytes of a log; much faster than one line after another."""
    return [id_.decode("utf-8", "replace") for id_ in _ID.findall(data)]


@attrs.frozen
class Current:
    """Which copy of the book is the present one, and how far the own ledger is in the book.

    The latter saves reading the own ledger from its beginning; it is used only if the own ledger has that position.

    Attributes:
        copy: Name of the folder of the copy.
        upto: The position in the own ledger up to which its batches are in the book.
        taken: The book's event number that the machine's playbook contained at that position.
        block: First and last number of the names that this machine gives; (0, 0) before it knows any.
        is_given: Whether the book gave it that block; before it has published anything it only expects to get it.
        erased: The book's event number up to which texts that it says are redacted were erased on this machine.
        read_to: Up to where the engine's runs were read; the copy has what of them counts.
    """

    copy: str
    upto: Position = START
    taken: int = 0
    block: tuple[int, int] = (0, 0)
    erased: int = 0
    read_to: End = NOTHING
    is_given: bool = True


def read_current(ledger: StrPath) -> Current:
    """Return which copy is the present one, and how far it is; the first one, which has nothing, where nothing says."""
    with suppress(OSError, CannotWriteError, ValueError, TypeError, KeyError, AttributeError):
        fields: Any = json.loads(disk.read_file(os.path.join(ledger, FOLDER, CURRENT)))
        upto, read_to, (first, last) = Position(*fields.pop("upto")), End(*fields.pop("read_to")), fields.pop("block")
        current = Current(upto=upto, read_to=read_to, block=(first, last), **fields)
        numbers = upto.seq, upto.offset, current.taken, first, last, current.erased, read_to.seq, read_to.number
        texts = current.copy, upto.chain, *read_to[1:]
        if {*map(type, numbers)} == {int} and {*map(type, texts)} == {str} and current.copy.isdigit():
            return current
    return Current("1")


def write_current(ledger: StrPath, current: Current) -> None:
    """Choose the present copy.

    Raises:
        CannotWriteError: The disk refuses.
    """
    folder = os.path.join(ledger, FOLDER)
    disk.make_folder(folder)
    fields = attrs.asdict(current, recurse=False) | {"upto": current.upto[:3]}
    # Replaced as a whole: a sync that is killed leaves the former pointer or the new one.
    disk.replace_file(os.path.join(folder, CURRENT), json.dumps(fields).encode() + b"\n")


def find_copy(ledger: StrPath, chain: str) -> Replica:
    """Return the copy that has a place of the book: the present one, or one that was set aside.

    Args:
        ledger: The ledger's folder.
        chain: The chain value of the book there; empty for the beginning.

    Returns:
        The present copy where none has that place.
    """
    present = Replica(ledger, read_current(ledger).copy)
    if not chain or present.has(chain):
        return present
    # Moments from before a rejoin are in the copy of the former history.
    others = (Replica(ledger, name) for name in reversed(copy_names(ledger)))
    return next((other for other in others if other.has(chain)), present)


def copy_names(ledger: StrPath) -> list[str]:
    """Return the names of all copies, the oldest first."""
    return sorted((name for name in _list_names(ledger) if name.isdigit()), key=int)


def aside_names(ledger: StrPath) -> list[str]:
    """Return the names of all copies that were set aside because they were damaged or not of this machine."""
    return sorted(name for name in _list_names(ledger) if ASIDE in name)


def _list_names(ledger: StrPath) -> list[str]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.listdir(os.path.join(ledger, FOLDER))
    return []


def next_copy(ledger: StrPath) -> Replica:
    """Return a new copy, which holds nothing yet."""
    return Replica(ledger, str(max(map(int, copy_names(ledger)), default=0) + 1))


def set_aside(copy: Replica) -> str:
    """Give a copy another name, under which it is read no more, and return its folder.

    Raises:
        CannotWriteError: The disk refuses.
    """
    number = 1
    while os.path.lexists(place := f"{copy.folder}{ASIDE}{number}"):
        number += 1
    try:
        os.rename(copy.folder, place)
        disk.flush_folder(os.path.dirname(place))
    except OSError as error:
        raise CannotWriteError(copy.folder, disk.reason(error)) from error
    return place


@contextmanager
def lock(ledger: StrPath, wait_ms: int = _WAIT_MS) -> Iterator[None]:
    """Hold the lock of syncs: one at a time for a project.

    No copy has the rest of an interrupted append by then, for no redaction would find a text in it.

    Raises:
        LockHeldError: Another sync of this project runs.
        CannotWriteError: The disk refuses.
    """
    with disk.hold_lock(os.path.join(ledger, FOLDER, "lock"), wait_ms):
        for name in (*copy_names(ledger), *aside_names(ledger)):
            Replica(ledger, name).cut_unfinished()
        yield


class Replica:
    """One copy of a book.

    Attributes:
        name: Name of its folder.
        folder: Its folder.
        log: The copy as a log, for reading.
    """

    def __init__(self, ledger: StrPath, copy: str) -> None:
        """Take the ledger's folder and the name of the copy; nothing is created yet."""
        self.name = copy
        self.folder = os.path.join(ledger, FOLDER, copy)
        self.log = JsonlLog(self.folder)
        # Its end, and what may be the keys up to there.
        self._keys: tuple[int, frozenset[str]] = (0, frozenset())

    def is_whole(self) -> bool:
        """Return whether every byte of it up to its end verifies."""
        with suppress(TallybookError, OSError):
            for _ in self.log.read():
                pass
            return True
        return False

    def has(self, chain: str) -> bool:
        """Return whether a batch of it has this chain value; nothing is verified."""
        try:
            head = self.log.read_head()
        except OSError:
            return False
        if head is not None and head.position.chain == chain:
            return True
        return self.log.may_contain(b'"chain":"%b"' % chain.encode())

    def end(self) -> Position:
        """Return the position after its last whole batch."""
        with suppress(FileNotFoundError), disk.hold_open(self.log.log_file) as fd:
            return self._end(fd)
        return START

    def _end(self, fd: int) -> Position:
        head = self.log.head()
        size = os.fstat(fd).st_size
        if size < head.offset or not heads.has_position(fd, head):
            head = START
        elif size == head.offset:
            return head
        scan = Scan(fd, head, size)
        for _ in scan:
            pass
        return scan.position

    def cut_unfinished(self) -> None:
        """Remove what an append that was interrupted left after its end; a copy that lacks its end is left as it is.

        Raises:
            CannotWriteError: The disk refuses, or it is a link to something else.
        """
        disk.refuse_link(self.folder)
        try:
            with suppress(FileNotFoundError), disk.hold_open(self.log.log_file, write=True) as fd:
                end, size = self._end(fd).offset, os.fstat(fd).st_size
                disk.refuse_hard_link(fd, self.log.log_file, lambda: end > 0)
                if self.log.head().offset <= end < size:
                    # Overwritten, because what is only cut off stays on the disk.
                    os.lseek(fd, end, os.SEEK_SET)
                    disk.write_all(fd, b" " * (size - end), self.log.log_file)
                    disk.flush(fd, self.log.log_file)
                    os.ftruncate(fd, end)
        except OSError as error:
            raise CannotWriteError(self.log.log_file, disk.reason(error)) from error

    def read(self, until: int | None = None, after: Position = START) -> Iterator[RawBatch]:
        """Yield its batches, verified, after a position, up to an event number of the book.

        Raises:
            DamagedLedgerError: Its bytes are missing or changed.
        """
        # While a first sync goes on, texts can be erased whose redaction is in a later piece.
        if until == 0:
            return
        for batch in self.log.read(after):
            if until is not None and batch.last > until:
                return
            yield batch

    def find_delivery(self, key: str) -> Delivery | None:
        """Return the batch that has an idempotency key; None where none has."""
        with suppress(FileNotFoundError), disk.hold_open(self.log.log_file) as fd:
            end = self._end(fd).offset
            # The copy is searched once for all keys, and again only after it grew.
            if self._keys[0] != end:
                self._keys = end, frozenset(self._find_keys())
            # The same bytes can be in the body of an event.
            return find_deliveries(fd, (key,), end).get(key) if key in self._keys[1] else None
        return None

    def _find_keys(self) -> Iterator[str]:
        for data in self.pieces():
            for key in _KEY.findall(data):
                yield split_key(key.decode("utf-8", "replace"))[0]

    def ids(self, after: int = 0) -> set[str]:
        """Return the id of every event after a number; what follows its end is of an append that was interrupted."""
        first = b'","seq":%d,' % (after + 1)
        rest = dropwhile(lambda data: after and first not in data, self.pieces())
        return {id_ for data in rest for id_ in find_ids(data)}

    def blocks(self) -> set[int]:
        """Return the first number of each block of names that machines of the book were given."""
        return {int(first) for data in self.pieces() for first in _BLOCK.findall(data)}

    def rules(self) -> int:
        """Return the number of the rules in force at its end; 0 where it holds nothing."""
        return max((int(number) for data in self.pieces() for number in _RULES.findall(data)), default=0)

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes up to its end, some whole lines at a time; nothing is verified."""
        left = self.end().offset
        with suppress(FileNotFoundError), os.fdopen(disk.open_file(self.log.log_file, write=False), "rb") as file:
            while left > 0 and (lines := file.readlines(min(left, _READ_BYTES))):
                data = b"".join(lines)[:left]
                yield data
                left -= len(data)

    def append(self, batches: Sequence[RawBatch]) -> None:
        """Append batches, at least one, that follow its end and were verified, and flush them.

        The caller holds the lock of syncs.

        Bytes after its end are of an append that was interrupted; the engine has the batches still.

        Raises:
            CannotWriteError, OutcomeUnknownError: The disk refuses, or another program wrote to it meanwhile.
        """
        files = LogFiles(self.folder)
        try:
            end, head = self._end(files.log), self.log.read_head()
            files.failures = 0 if head is None else head.failures
            os.ftruncate(files.log, end.offset)
            data = b"".join(batch.raw for batch in batches)
            disk.write_all(files.log, data, files.path)
            disk.check_place(files.log, data, files.path, end.offset)
            files.confirm(batches[-1].position, end.offset, end)
        except OSError as error:
            raise CannotWriteError(files.path, disk.reason(error)) from error
        finally:
            files.close()


# Each begins with literal bytes: without them a search tries every byte of a line as its beginning.
_REDACTION: Final = re.compile(rb'\{"crc":"[^\n\t]*,\t"kind":"event\.redacted","v":1,"body":\{"id":"([^"]*)"\}')
_LINE: Final = re.compile(rb'\{"crc":"[0-9a-f]{8}","seq":[0-9]+,"id":"([^"]*)"[^\n]*')


class BookRedaction(NamedTuple):
    """A redaction in a book.

    Attributes:
        seq: Its event number of the book.
        writer: The machine that published it.
        of: The machine that had published the text; empty where the book does not say.
        name: The entry that the text was given; empty where it was none.
    """

    seq: int
    writer: str
    of: str
    name: str


def find_redactions(read: Callable[[], Iterable[bytes]], after: int = 0) -> list[BookRedaction]:
    """Return the redactions of a book after an event number.

    Args:
        read: Returns the book's bytes, some whole lines at a time.
        after: The event number.
    """
    writer = WRITER.encode()
    found = [match for data in read() for match in _REDACTION.finditer(data) if first_seq(match[0]) > after]
    ids = {match[1] for match in found}
    # Without a redaction the book is read once.
    lines = {match[1]: match[0] for data in read() for match in _LINE.finditer(data) if match[1] in ids} if ids else {}
    return [
        BookRedaction(
            first_seq(match[0]),
            head_field(match[0], writer),
            head_field(lines.get(match[1], b"").partition(b"\t")[0], writer),
            head_field(lines.get(match[1], b""), b"name"),
        )
        for match in found
    ]


def erase_listed(copy: Replica, seq: int) -> None:
    """Erase the texts that a copy of a book lists as redacted, where they came in again after an event number.

    Raises:
        CannotWriteError, OutcomeUnknownError: The disk refuses.
    """
    # A copy that is fetched again brings back texts that were erased here, and that the engine still holds.
    ids = redaction.read_pending_ids(copy.folder)
    if ids and not ids.isdisjoint(copy.ids(seq)):
        redaction.erase(copy.log.path, copy.read(), ids)


def list_lost(copy: Replica, batches: Sequence[RawBatch], by: Mapping[str, str]) -> None:
    """List in a copy of a book the texts that came in erased, and whose redaction these batches do not have.

    A machine that gives an engine back what it lost can be ahead of its own ``event.redacted``, and another history may
    lack it.

    Args:
        copy: The copy.
        batches: What is appended to it next: a copy whose texts are missing without a reason could not be read.
        by: Who lists them.

    Raises:
        CannotWriteError, OutcomeUnknownError: The disk refuses.
    """
    erased = {id_ for batch in batches for _, id_ in redaction.find_erased(batch)}
    if lost := sorted(erased.difference(*map(redaction.read_redacted_ids, batches))):
        disk.make_folder(copy.folder)
        redaction.add_pending(copy.folder, lost, (), "redacted", by)
