"""A book in a store: the operations of a store, and reading, appending and fresh runs, the same for every store.

A run is never changed. ``put`` stores one only if its number is free, which is the compare-and-swap of every engine.
An engine knows nothing about events. A run is one object, a line of JSON that is its head and then its bytes:

    {"first":12,"last":14,"before":"…","after":"…"}

``fresh`` in a head says that the book begins with this run, and where the last of the fresh runs ends.
``moved`` in the head of an empty run has the engine, address and name of the book's new place. It takes a
number like any run, so it seals exactly what was read before; after it only fresh runs count.
In a slow store, such as an object store, a segment holds a thousand runs in one object of a second series: a line of
JSON with their sizes, then their bytes. A reader of a full thousand puts it. Segments only save requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
import json
from typing import Any, Final, NamedTuple

from tallybook.ledger.errors import EXIT_NOT_WRITTEN, BadInputError, TallybookError
from tallybook.ledger.line import GENESIS, Position, digest
from tallybook.ledger.scan import choose_digest, verify_run


class StoredRun(NamedTuple):
    """A number that is in use.

    Attributes:
        number: The number.
        tag: What the store calls these bytes; other bytes have another tag.
        size: How many bytes they are; None where the store does not say.
        author: Who stored them, as far as the store knows; empty where it does not.
    """

    number: int
    tag: str
    size: int | None = None
    author: str = ""


class Store(ABC):
    """Holds the runs of one book.

    Attributes:
        address: Where it is, for messages, without a password.
        warnings: What in its settings endangers the book, as far as it said so in the last list.
        segments: The series of segments; None where the runs alone are read fast enough.
        knows_authors: Whether it says who stored a run.
    """

    address: str
    warnings: tuple[str, ...] = ()
    segments: Store | None = None
    knows_authors: bool = False

    @abstractmethod
    def list(self, after: int) -> Sequence[StoredRun]:
        """Return the numbers in use after a number, ascending.

        Raises:
            UnreachableError: It does not answer.
        """

    @abstractmethod
    def get(self, numbers: Sequence[int]) -> Mapping[int, bytes]:
        """Return the runs of these numbers; a number that is free, or that it does not return, is left out.

        Raises:
            UnreachableError: It does not answer.
        """

    @abstractmethod
    def put(self, number: int, data: bytes) -> str | None:
        """Store a run, if the number is free; what holds the book is created if this user may create it.

        A store that can tell answers a number that would leave a gap before it, after a loss, as one that is taken.

        Returns:
            The run's tag; None where it is not certain that it is stored. The number may be taken, perhaps by these
            bytes, because a client that tried twice refuses itself; or no answer came, and the run is stored, now or
            later, or not.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: It does not answer, and nothing was stored.
        """

    @abstractmethod
    def erase(self, before: int) -> None:
        """Replace the bytes of every run under a smaller number by nothing; the numbers stay in use.

        Raises:
            ReadOnlyError: This user may not do that.
            UnreachableError: It does not answer.
        """

    @abstractmethod
    def describe_remains(self) -> str:
        """Return what keeps the bytes of erased runs, and the command that removes them; empty where nothing does.

        Raises:
            UnreachableError: It does not answer.
        """

    def close(self) -> None:  # noqa: B027 - a store that keeps nothing open leaves it as it is
        """Close connections, and remove temporary files."""


READ_ONLY: Final = "is read-only here: "
"""What stands in a message before the reason for which an engine lets this user read, not write."""


class EngineError(TallybookError):
    """An engine did not do what was asked of it; the own ledger is as it was.

    Attributes:
        address: The engine's address, which never holds a password.
        why: Why it did not.
        what: What the message says of it: the error in a few words, and why.
        hint: What to do.
    """

    exit_code = EXIT_NOT_WRITTEN
    words = ""
    default_hint = "events wait in the own ledger"

    def __init__(self, address: str, why: str, hint: str = "") -> None:
        """Build the message ``address: what; hint``."""
        self.address = address
        self.why = why
        self.what = f"{self.words}{why}"
        self.hint = hint or self.default_hint
        super().__init__(f"{address}: {self.what}; {self.hint}")


class UnreachableError(EngineError):
    """The engine does not answer, or does not let this user read."""

    words = "cannot be reached: "
    default_hint = "check the address and the network, and run it again; events wait in the own ledger"


class FormerLayoutError(EngineError):
    """The engine holds a book as a version before the first release stored it."""

    exit_code = 2
    words = "holds a book of an earlier version: "
    default_hint = "every own ledger has all of its events: delete that book, then run `tallybook sync` on each machine"


class ReadOnlyError(EngineError):
    """The engine lets this user read, not write, for its own reason."""

    words = READ_ONLY


class MissingLibraryError(EngineError):
    """The client library of an engine is not installed: a package, and the command that installs it here."""

    exit_code = 2
    words = "needs the package "


RUN_BYTES: Final = 1024 * 1024
"""How many bytes a run has at most; a batch alone may have more."""
MAX_RUN_BYTES: Final = 64 * 1024 * 1024
"""What is larger is no run, and is not fetched."""
PAGE: Final = 1000
"""So many numbers share a digest of their tags, and a segment; a store of objects lists as many at once."""
_GET: Final = 64
"""So many runs are asked for at once."""
_HEAD_BYTES: Final = 1024
_PLACE: Final = "run "
READER: Final = "this machine joined with --read-only"
"""Why an engine that is opened for reading alone takes no run."""


class BookLocation(NamedTuple):
    """Where a book is now, as one of its members states it.

    Attributes:
        engine: Name of the engine.
        address: Its address.
        name: Name of the book there.
    """

    engine: str
    address: str
    name: str


class Run(NamedTuple):
    """Consecutive whole batches of a book, as bytes of its log file.

    The numbers and chain values are what its writer states. A reader verifies them with the bytes.

    Attributes:
        first: Event number of its first line; 0 for what is no run.
        last: Event number of its last line.
        before: Chain value before it.
        after: Chain value after it.
        data: Its bytes.
        place: Where the engine has it, for messages: ``run 57``; empty for a run that is not stored yet.
        author: Who stored it, as far as the engine knows; empty where it does not.
        fresh: Where the book begins with this run, the last event number and chain value of the runs that were put
            together; None of any other run.
        moved: Where the book is now, in a run that seals the engine; None of any other run.
    """

    first: int
    last: int
    before: str
    after: str
    data: bytes
    place: str = ""
    author: str = ""
    fresh: tuple[int, str] | None = None
    moved: BookLocation | None = None


class End(NamedTuple):
    """A place in what an engine holds, after a run.

    Attributes:
        seq: The last event number that the run states, 0 at the beginning.
        chain: The chain value after that.
        token: The run's number, and a digest of the tags of the runs up to it; empty at the beginning.
    """

    seq: int
    chain: str
    token: str = ""

    @property
    def number(self) -> int:
        """Return the run's number."""
        return int(self.token.partition(":")[0]) if self.token else 0

    def advance(self, seq: int, chain: str, tag: str) -> End:
        """Return the place after the next run."""
        number, _, tags = (self.token or "0:").partition(":")
        # A digest begins anew with each page, so that one list of a page shows all of it.
        before = "" if int(number) % PAGE == 0 else tags
        return End(seq, chain, f"{int(number) + 1}:{digest(f'{before}{tag}'.encode())}")


NOTHING: Final = End(0, GENESIS)
"""The beginning, and the end of an engine that holds nothing."""


class Contents(NamedTuple):
    """What an engine holds after an event number.

    Attributes:
        runs: Every run whose last event number is larger, in the engine's order, whether or not it counts.
        end: The place after the last run that was read; where the book moved, the place before the seal, so that each
            later read meets it again, and nothing can be appended.
        more: Whether further runs follow, which the limit left out.
        is_fresh: Whether fresh runs were among those that were read: earlier ones count no more.
        moved: Where the book is now, as a run says that seals the engine; None where it did not move.
        after_seal: Of a book that moved, the place after that run, where fresh runs bring it back; else ``end``.
    """

    runs: Sequence[Run]
    end: End
    more: bool = False
    is_fresh: bool = False
    moved: BookLocation | None = None
    after_seal: End = NOTHING


class Engine:
    """Reads and appends the runs of one book, in whatever store.

    Attributes:
        store: What holds the runs.
        address: Where it is, for messages, without a password.
        run_bytes: How many bytes the runs of one append should have together, at most; a batch alone may have more.
        read_only: Whether nothing is written to it.
    """

    def __init__(self, store: Store, run_bytes: int = RUN_BYTES, *, read_only: bool = False) -> None:
        """Take the store, to which nothing is written if it is opened for reading alone; nothing is asked of it yet."""
        self.address = store.address
        self.run_bytes = run_bytes
        self.read_only = read_only
        self.store = store

    def read(self, after: int, limit: int | None = None, since: End = NOTHING) -> Contents:
        """Return what the engine holds after an event number.

        Args:
            after: The event number.
            limit: About how many bytes to return, of whole runs from the first one on; None for all.
            since: Where an earlier read ended whose runs the caller has. Where the engine no longer holds what that
                read returned, or it went beyond ``after``, all is read again.

        Raises:
            UnreachableError: The engine does not answer.
        """
        since, entries = self._list_new(since if since.seq <= after else NOTHING)
        found: list[tuple[Run, End]] = []
        size, count, end, is_sealed = 0, 0, since, False
        for entry, data in self._get(entries):
            # All runs after a seal are read at once, because fresh ones among them lift it.
            if limit is not None and size >= limit and not is_sealed:
                break
            count, size = count + 1, size + len(data)
            run, before = _parse(entry, data), end
            is_sealed = is_sealed or run.moved is not None
            # What is no run holds its number all the same, and the next writer goes on after it.
            end = end.advance(*((run.last, run.after) if run.first else end[:2]), entry.tag)
            # An erased run is left out; one that is too large has a size and no bytes, and is named as no run.
            if data or entry.size:
                found.append((run, before))
        runs = _select_from_fresh([run for run, _ in found])
        more, is_fresh = count < len(entries), bool(runs and runs[0].fresh)
        for index, (run, before) in enumerate(found[len(found) - len(runs) :]):
            if run.moved is not None:
                return Contents(_select(runs[:index], after, since.seq), before, more, is_fresh, run.moved, end)
        return Contents(_select(runs, after, since.seq), end, more, is_fresh, None, end)

    def append(self, expected: End, runs: Sequence[Run]) -> End | None:
        """Store runs in order after the expected end, if nobody else appended there, and return the end after them.

        None says that not all of them are known to be stored: another writer was quicker, or the engine did not
        answer. What is stored is found by the next read.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: The engine cannot be reached, so that nothing was stored.
        """
        if self.read_only:
            raise ReadOnlyError(self.address, READER)
        end = expected
        for run in runs:
            data = _encode(run)
            tag = self.store.put(end.number + 1, data)
            if tag is None and (tag := self._find_tag(end.number + 1, data)) is None:
                return None
            end = end.advance(run.last, run.after, tag)
        return end

    def seal(self, expected: End, place: BookLocation) -> End | None:
        """State after the expected end that the book is in another place now, and return the end, as `append` does.

        Raises:
            BadInputError: The address and the name are too long together.
            ReadOnlyError: This user may not write.
            UnreachableError: The engine cannot be reached, so that nothing was stored.
        """
        run = Run(expected.seq + 1, expected.seq, expected.chain, expected.chain, b"", moved=place)
        # A head that is too long is no head, and the book would go on here.
        if len(_encode(run)) > _HEAD_BYTES:
            raise BadInputError(place.address, "is too long", "use a shorter address; nothing was moved")
        return self.append(expected, [run])

    def replace(self, expected: End, runs: Sequence[Run]) -> End | None:
        """Let the book begin with these runs, in place of all before, and return the end after them, as `append` does.

        Raises:
            ReadOnlyError: This user may not write.
            UnreachableError: The engine cannot be reached.
        """
        first, *others = runs or [Run(1, 0, GENESIS, GENESIS, b"")]
        # Several runs are not stored at once: readers go on with the former ones until the last of these is there.
        whole = (runs[-1].last, runs[-1].after) if runs else (0, GENESIS)
        return self.append(expected, [first._replace(fresh=whole), *others])

    def erase_former(self) -> bool:
        """Replace the bytes of runs that fresh ones replaced by nothing; return whether there were any.

        Where that is interrupted, a further call does the rest.

        Raises:
            ReadOnlyError: This user may not do that.
            UnreachableError: The engine cannot be reached.
        """
        runs = self.read(0).runs
        if not runs or not runs[0].fresh:
            return False
        first = int(runs[0].place.removeprefix(_PLACE))
        if all(entry.size == 0 for entry in self.store.list(0) if entry.number < first):
            return False
        if self.read_only:
            raise ReadOnlyError(self.address, READER)
        if (segments := self.store.segments) is not None:
            last = -(-(first - 1) // PAGE)
            for number in range(1, last + 1):
                # Not free either: who has read these runs could still put them.
                segments.put(number, b"")
            segments.erase(last + 1)
        # Last, because they show whether all is done.
        self.store.erase(first)
        return True

    def false_segments(self) -> Sequence[int]:
        """Return the numbers of the segments that are not what their runs make.

        Raises:
            UnreachableError: The engine cannot be reached.
        """
        segments, (_, entries) = self.store.segments, self._list_new(NOTHING)
        if segments is None:
            return []
        false = []
        for segment in segments.list(0):
            group = entries[(segment.number - 1) * PAGE : segment.number * PAGE]
            # An emptied segment is not false: it says that the runs are to be read.
            if segment.size:
                found = dict(self._get_runs(group))
                stored = segments.get([segment.number]).get(segment.number)
                if stored != _join([found.get(entry, b"") for entry in group]):
                    false.append(segment.number)
        return false

    def close(self) -> None:
        """Close connections."""
        self.store.close()

    def _list_new(self, since: End) -> tuple[End, list[StoredRun]]:
        """Return a place and the numbers after it up to the first gap; all where the engine no longer holds it."""
        number = since.number
        # A page is listed from its beginning: after a roll-back the last number alone may have the same bytes again.
        page = (number - 1) // PAGE * PAGE if number else 0
        place = End(0, "", f"{page}:")
        new = []
        for entry in self.store.list(page):
            # A number after a gap may be a late put of somebody who had seen what was lost since.
            if entry.number != place.number + 1:
                break
            place = place.advance(0, "", entry.tag)
            if entry.number == number and place.token != since.token:
                return self._list_new(NOTHING)
            if entry.number > number:
                new.append(entry)
        return self._list_new(NOTHING) if place.number < number else (since, new)

    def _get(self, entries: Sequence[StoredRun]) -> Iterator[tuple[StoredRun, bytes]]:
        """Yield runs with their bytes, a full thousand from its segment where there is one."""
        segments, place = self.store.segments, 0
        if segments is not None and entries:
            place = -(entries[0].number - 1) % PAGE
            yield from self._get_runs(entries[:place])
            # The run after a segment proves it.
            while len(entries) > place + PAGE:
                group, number = entries[place : place + PAGE], entries[place].number // PAGE + 1
                place += PAGE
                # After a redaction a thousand has erased runs, and its segment was emptied for good.
                if not all(entry.size for entry in group) or sum(entry.size or 0 for entry in group) > MAX_RUN_BYTES:
                    yield from self._get_runs(group)
                    continue
                stored = segments.get([number]).get(number)
                runs = _split(stored or b"", group, next(iter(self._get_runs(entries[place : place + 1])))[1])
                runs = runs or [data for _, data in self._get_runs(group)]
                if stored is None and all(runs) and not self.read_only:
                    # It is only a help, which this user may not be allowed to give.
                    with suppress(EngineError):
                        segments.put(number, _join(runs))
                yield from zip(group, runs, strict=True)
        yield from self._get_runs(entries[place:])

    def _get_runs(self, entries: Sequence[StoredRun]) -> Iterator[tuple[StoredRun, bytes]]:
        """Yield runs with their bytes: none for those that were erased, and those that are too large."""
        for begin in range(0, len(entries), _GET):
            group = entries[begin : begin + _GET]
            wanted = [entry.number for entry in group if entry.size is None or 0 < entry.size <= MAX_RUN_BYTES]
            found = self.store.get(wanted) if wanted else {}
            for entry in group:
                yield entry, found.get(entry.number, b"")

    def _find_tag(self, number: int, data: bytes) -> str | None:
        """Return the tag of a run whose put was not confirmed and that is stored nevertheless; None for another one."""
        with suppress(UnreachableError):
            tags = [entry.tag for entry in self.store.list(number - 1) if entry.number == number]
            if tags and self.store.get([number]).get(number) == data:
                return tags[0]
        return None


def _encode(run: Run) -> bytes:
    head: dict[str, Any] = {"first": run.first, "last": run.last, "before": run.before, "after": run.after}
    head |= {name: mark for name, mark in (("fresh", run.fresh), ("moved", run.moved)) if mark is not None}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + run.data


def _parse(entry: StoredRun, data: bytes) -> Run:
    """Return the run of an object; one without event numbers for what is no run."""
    place = f"{_PLACE}{entry.number}"
    line, mark, remaining = data.partition(b"\n")
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        head: Any = json.loads(line) if mark and len(line) <= _HEAD_BYTES else None
        first, last, before, after = (head[name] for name in ("first", "last", "before", "after"))
        fresh, moved = tuple(head.get("fresh") or ()), tuple(head.get("moved") or ())
        kinds = [type(value) for value in (first, last, before, after, *(fresh or (0, "")), *(moved or ("", "", "")))]
        if kinds == [int, int, str, str, int, str, str, str, str] and 0 < first <= last + 1:
            marks = fresh or None, BookLocation(*moved) if moved else None
            return Run(first, last, before, after, remaining, place, entry.author, *marks)
    return Run(0, 0, "", "", data, place, entry.author)


def _join(runs: Sequence[bytes]) -> bytes:
    """Return the segment of runs."""
    return json.dumps([len(data) for data in runs], separators=(",", ":")).encode() + b"\n" + b"".join(runs)


def _split(segment: bytes, entries: Sequence[StoredRun], following: bytes) -> Sequence[bytes]:
    """Return the runs of a segment; none where the run after it does not prove each byte of it.

    That run names the chain value before it, which depends on all that it follows.
    """
    sizes = [entry.size or 0 for entry in entries]
    line = json.dumps(sizes, separators=(",", ":")).encode() + b"\n"
    if len(segment) != len(line) + sum(sizes) or not segment.startswith(line):
        return []
    ends = [*accumulate(sizes, initial=len(line))]
    found = [segment[begin:end] for begin, end in pairwise(ends)]
    runs = [_parse(entry, data) for entry, data in zip(entries, found, strict=True)]
    last, chain = runs[0].first - 1, runs[0].before
    for run, data in zip(runs, found, strict=True):
        batches = verify_run(run.data, Position(last, chain, 0), (), choose_digest(len(run.data)))
        end = (batches[-1].last, batches[-1].chain, batches[-1].end) if batches else None
        # The chain proves no head, and a false one would part readers of the segment from readers of the runs.
        is_head = _encode(run._replace(first=last + 1, before=chain, fresh=None, moved=None)) == data
        if not is_head or end != (run.last, run.after, len(run.data)):
            return []
        last, chain = run.last, run.after
    return found if _parse(entries[0], following).before == chain else []


def _select_from_fresh(runs: Sequence[Run]) -> Sequence[Run]:
    """Return the runs from the last fresh ones on that are whole; all where there are none.

    Who puts fresh runs may be interrupted, and what others append then follows the runs before.
    """
    for begin in reversed(range(len(runs))):
        before = GENESIS if runs[begin].fresh else None
        for run in runs[begin:]:
            if run.before != before:
                break
            before = run.after
            if (run.last, run.after) == runs[begin].fresh:
                return runs[begin:]
    return runs


def _select(runs: Sequence[Run], after: int, last: int) -> list[Run]:
    """Return the runs after an event number; what is no run counts as part of the one that it follows.

    Args:
        runs: Runs in order.
        after: The event number.
        last: The last event number before them.
    """
    selected = []
    for run in runs:
        last = run.last or last
        if run.last > after or (not run.first and last >= after):
            selected.append(run)
    return selected
