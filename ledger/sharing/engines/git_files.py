"""The files of a book in git: how they are cut into runs, and how runs are appended to them.

A file is a part of the book's log, byte for byte, so it states no chain value before a batch. That is the one of the
run that the batch follows by its number, and where several do, the one whose chain it continues.
"""

from __future__ import annotations

from itertools import pairwise
import re
from typing import TYPE_CHECKING, NamedTuple

from tallybook.ledger.line import CHAIN_END, CHAIN_MARK, FRAME_BYTES, GENESIS, compute_chain, first_seq
from tallybook.ledger.sharing.engines.engine import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_FILE_BYTES = 256 * 1024
"""A file has more only if it holds a single batch."""
_NAME = re.compile(rb"(\d{6,12})\.jsonl")
_BATCH_END = re.compile(re.escape(CHAIN_MARK) + rb"[0-9a-f]{32}" + re.escape(CHAIN_END))
_FIRST_PART = re.compile(rb',"part":\[1,(\d{1,9})\],')
_REGULAR = b"100"


class File(NamedTuple):
    """A file of a commit.

    Attributes:
        number: The number that is its name.
        id: The id of its content.
    """

    number: int
    id: str

    @property
    def name(self) -> str:
        """Return its name."""
        return f"{self.number:06d}.jsonl"


class Summary(NamedTuple):
    """What a file holds that is nothing but batches which follow one another.

    Attributes:
        first: Its first event number.
        last: Its last event number.
        chain: The chain value at its end.
    """

    first: int
    last: int
    chain: str


START = Summary(0, 0, GENESIS)


def parse_tree(tree: bytes, id_bytes: int) -> tuple[list[File], int]:
    """Return the files of a book in a commit's tree by their numbers, and the largest number that is in use."""
    files, largest, place = [], 0, 0
    while place < len(tree):
        end = tree.index(b"\0", place)
        mode, _, name = tree[place:end].partition(b" ")
        place = end + 1 + id_bytes
        if match := _NAME.fullmatch(name):
            number = int(match[1])
            largest = max(largest, number)
            # A link or a folder is not ours, and neither is another spelling of a number.
            if mode.startswith(_REGULAR) and name == b"%06d.jsonl" % number:
                files.append(File(number, tree[end + 1 : place].hex()))
    return sorted(files), largest


def cut(data: bytes, place: str = "", author: str = "") -> list[Run]:
    """Return the batches in bytes, each as a run, and everything between them as runs without a chain value.

    Args:
        data: The bytes of a file, or of a run.
        place: Where they are, for messages.
        author: Who stored them.
    """
    runs: list[Run] = []
    begin, line = 0, 1
    ends = [match.end() for match in _BATCH_END.finditer(data)]
    for end in ends if ends and ends[-1] == len(data) else [*ends, len(data)]:
        for piece, batch in _split(data[begin:end]):
            first = max(first_seq(piece), 0)
            where = f"{place}, line {line}" if place else ""
            chain = piece[-len(CHAIN_END) - 32 : -len(CHAIN_END)].decode() if batch else ""
            runs.append(Run(first, first + max(batch - 1, 0), "", chain, piece, where, author))
            line += piece.count(b"\n")
        begin = end
    return runs


def _split(piece: bytes) -> Iterable[tuple[bytes, int]]:
    """Return a piece that may end with a batch as what is before that batch, and the batch; each with its lines.

    What is not a batch has no lines here.
    """
    if not piece:
        return []
    if size := _batch_size(piece):
        return [(piece, size)]
    starts = [match.start() for match in _FIRST_PART.finditer(piece)]
    begin = piece.rfind(b"\n", 0, starts[-1]) + 1 if starts else 0
    if begin and (size := _batch_size(piece[begin:])):
        return [(piece[:begin], 0), (piece[begin:], size)]
    return [(piece, 0)]


def _batch_size(piece: bytes) -> int:
    """Return how many lines a batch has; 0 for what is not a batch."""
    match = _FIRST_PART.search(piece, 0, 1024)
    size = int(match[1]) if match else 0
    is_batch = (
        size == piece.count(b"\n") and first_seq(piece) > 0 and _BATCH_END.fullmatch(piece, len(piece) - FRAME_BYTES)
    )
    return size if is_batch else 0


def link(runs: Sequence[Run], start: Summary = START) -> list[Run] | None:
    """Return runs with the chain value before each.

    Args:
        runs: What files hold, in order.
        start: What the files before them hold.

    Returns:
        None if that depends on what is inside the files before them.
    """
    chains = {start.last: [start.chain]}
    linked = []
    for run in runs:
        if not run.after:
            linked.append(run)
            continue
        candidates = chains.get(run.first - 1, [])
        if start.last and (not candidates or run.first <= start.last):
            return None
        linked.append(run._replace(before=_choose(candidates, run)))
        others = chains.setdefault(run.last, [])
        if run.after not in others:
            others.append(run.after)
    return linked


def _choose(candidates: Sequence[str], run: Run) -> str:
    """Return the chain value that a run continues; the first one if none, empty without any."""
    if len(candidates) > 1:
        data = run.data[:-FRAME_BYTES]
        return next((chain for chain in candidates if compute_chain(chain, data) == run.after), candidates[0])
    return candidates[0] if candidates else ""


def summarize(runs: Sequence[Run]) -> Summary | None:
    """Return the summary of the runs of a file; None unless they are batches that follow one another."""
    if not runs or not all(run.after for run in runs):
        return None
    if any(run.first != last.last + 1 for last, run in pairwise(runs)):
        return None
    return Summary(runs[0].first, runs[-1].last, runs[-1].after)


def count_known(files: Sequence[File], known: Mapping[str, Summary], after: int) -> int:
    """Return how many files at the beginning need not be read, because all that they hold is known and old."""
    last = 0
    for index, file in enumerate(files):
        summary = known.get(file.id)
        if summary is None or summary.first != last + 1 or summary.last > after:
            return index
        last = summary.last
    return len(files)


def select(runs: Iterable[Run], after: int, last: int) -> list[Run]:
    """Return the runs after an event number; one without numbers counts as part of the run that it follows.

    Args:
        runs: Runs in order.
        after: The event number.
        last: The last event number before them.
    """
    selected = []
    for run in runs:
        last = run.last or last
        if run.last > after or (not run.last and last >= after):
            selected.append(run)
    return selected


def append_runs(number: int, content: bytes, runs: Iterable[Run]) -> dict[str, bytes]:
    """Return the files that change when runs are appended, by name.

    Args:
        number: The number of the last file.
        content: What it holds.
        runs: The runs.
    """
    parts: dict[int, list[bytes]] = {}
    size = len(content)
    # A file that a stranger left torn is not continued, or the next batch would begin within its last line.
    is_closed = bool(content) and not content.endswith(b"\n")
    for piece in (piece.data for run in runs for piece in cut(run.data)):
        if is_closed or (size and size + len(piece) > MAX_FILE_BYTES):
            number += 1
            content, size, is_closed = b"", 0, False
        parts.setdefault(number, [content]).append(piece)
        size += len(piece)
    return {File(number, "").name: b"".join(pieces) for number, pieces in parts.items()}
