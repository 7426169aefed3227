"""One log passed to every path that reads a line, and their disagreements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import json
import os
from pathlib import Path
import shutil
import traceback
from typing import NamedTuple, TypeVar

from tallybook.ledger import clock, scan, search, strict_json
from tallybook.ledger.codec import decode, encode, parse_head
from tallybook.ledger.errors import BadInputError, DamagedLedgerError, Problem, TallybookError
from tallybook.ledger.events import Event, PointRated
from tallybook.ledger.line import (
    CHAIN_CHARS,
    CHAIN_END,
    GENESIS,
    LOG_NAME,
    START,
    Position,
    RawBatch,
    split_key,
    split_line,
)
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch, EventRecord
from tallybook.ledger.storage import head
from tallybook.ledger.verification import Verification, salvage, verify
from tallybook.projections.history.entry_history import entries_view, explain
from tallybook.projections.history.event_rows import row
from tallybook.projections.playbook.fold import fold
from tallybook.projections.playbook.render import playbook_bytes
from tallybook.projections.playbook.view import PLAYBOOK

T = TypeVar("T")
NOW = clock.moment(1_795_000_000_000_000)
BY = {"rater": "test"}
ENTRY = "kpt_001"
RATED = PointRated(ENTRY, "helpful")
KEY = "a key that no log has"
# What verify alone looks at: a fold keeps no set of ids and keys.
VERIFY_ALONE = ("repeats the id ", "repeats the key ")
# A fold may take JSON that is spelt in another way, as long as it says the same to every reader.
SPELLING = "not canonical JSON"


class BatchRead(NamedTuple):
    """A batch as a reader returns it."""

    last: int
    chain: str
    events: tuple[Event, ...]
    records: tuple[EventRecord, ...]


class ReadResult(NamedTuple):
    """The batches that a path returned, and its refusal after them; None at the end."""

    batches: list[BatchRead]
    refused: TallybookError | None


class LogResult(NamedTuple):
    """The result of one log.

    Attributes:
        whole: Whether ``verify`` finds nothing, all of it being acknowledged.
        taken: Whether a fold takes it then.
        complaints: What no path may do: disagree, or raise what is no error of ours.
    """

    whole: bool
    taken: bool
    complaints: tuple[str, ...]


class Case:
    """One log in a folder of its own, and the complaints so far."""

    def __init__(self, folder: Path, data: bytes, acknowledged: Position) -> None:
        """Make the ledger; the folder's old content is removed."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / LOG_NAME).write_bytes(data)
        (folder / "head").write_bytes(head.encode(head.Head(acknowledged)))
        self.log = JsonlLog(folder, lambda: NOW)
        self.complaints: list[str] = []

    def unless(self, holds: object, complaint: str) -> None:
        """Add a complaint unless a condition holds."""
        if not holds:
            self.complaints.append(complaint)

    def answer_of(self, path: str, question: Callable[[], T]) -> T | TallybookError | None:
        """Return the answer of a path, or its refusal; None, with a complaint, after any other exception."""
        try:
            return question()
        except TallybookError as error:
            self.unless(len(str(error).splitlines()) == 1, f"{path} refuses in more than one line")
            return error
        except Exception as error:  # noqa: BLE001 - whatever a reader lets through is what is looked for
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "tests" not in frame.filename]
            place = f"{os.path.basename(frames[-1].filename)}, {frames[-1].name}" if frames else "no frame"  # noqa: PTH119
            self.complaints.append(f"{path} raises {type(error).__name__} ({place})")
            return None

    def read_by(self, path: str, read: Callable[[], Iterable[Batch]]) -> ReadResult:
        """Return the batches that a path reads, headers included."""
        batches: list[BatchRead] = []

        def drain() -> None:
            for batch in read():
                batches.append(BatchRead(batch.last, batch.chain, tuple(batch.events), tuple(batch.records)))  # noqa: PERF401

        refused = self.answer_of(path, drain)
        return ReadResult(batches, refused)


def end_of(data: bytes) -> Position:
    """Return the position after a log, for a head that acknowledges every byte."""
    chain = data[-CHAIN_CHARS - len(CHAIN_END) : -len(CHAIN_END)]
    known = len(chain) == CHAIN_CHARS and chain.isalnum() and data.endswith(CHAIN_END)
    return Position(data.count(b"\n"), chain.decode() if known else GENESIS, len(data))


def judge(folder: Path, data: bytes) -> LogResult:
    """Pass a log to every path that reads it, in a new ledger: first all of it acknowledged, then nothing."""
    settled = Case(folder, data, end_of(data))
    verdict, answer = _readers(settled)
    fresh = Case(folder, data, START)
    before = _readers(fresh)
    try:
        if before[1].refused is None:
            _writer_looks(fresh)
        _writer_appends(fresh, *before)
    finally:
        fresh.log.close()
    whole = isinstance(verdict, Verification) and verdict.ok
    return LogResult(whole, answer.refused is None, tuple(dict.fromkeys(settled.complaints + fresh.complaints)))


def _readers(case: Case) -> tuple[Verification | TallybookError | None, ReadResult]:
    """Return the answers of verify and a fold, after comparing them with each other and with salvage."""
    verdict = case.answer_of("verify", lambda: verify(case.log))
    answer = case.read_by("a fold", lambda: decode(case.log.read()))
    kept = case.read_by("salvage", lambda: salvage(case.log))
    if verdict is not None and not case.complaints:
        _order(case, answer.batches)
        _compare(case, verdict, answer)
        _compare_salvage(case, verdict, answer, kept)
    if answer.refused is None:
        _views(case)
    return verdict, answer


def _order(case: Case, batches: Sequence[BatchRead]) -> None:
    """Check that a fold gives the same with headers as without, in order and without a gap."""
    last = 0
    for batch in batches:
        seqs = [record.seq for record in batch.records]
        case.unless(batch.events == tuple(record.event for record in batch.records), "records are not the events")
        case.unless(seqs == sorted({*seqs}) and all(last < seq <= batch.last for seq in seqs), "seqs out of order")
        last = batch.last


def _compare(case: Case, verdict: Verification | TallybookError, answer: ReadResult) -> None:
    """Check that a fold agrees with verify."""
    refused = answer.refused
    if isinstance(verdict, TallybookError):
        case.unless(refused is not None, f"a fold takes what verify refuses with {type(verdict).__name__}")
    elif isinstance(refused, DamagedLedgerError):
        case.unless(not verdict.ok, "a fold refuses what verify calls whole")
        found = {problem.seq for problem in verdict.problems}
        case.unless(verdict.ok or refused.problems[0].seq in found, "a fold names a line that verify does not")
    elif refused is not None:
        case.unless(not verdict.ok, f"a fold refuses with {type(refused).__name__} what verify calls whole")
    else:
        lines = {seq: line for batch in case.log.read() for seq, line in enumerate(batch.lines, batch.first)}
        for problem in verdict.problems:
            case.unless(_verify_alone(problem, lines), f"a fold takes what verify calls damage: {_kind_of(problem)}")
        end = (answer.batches[-1].last, answer.batches[-1].chain) if answer.batches else (0, GENESIS)
        case.unless(not verdict.ok or end == verdict.head[:2], "verify ends elsewhere than a fold")


def _kind_of(problem: Problem) -> str:
    """Return the kind of fault, without the parts that differ from log to log."""
    return "".join(char for char in problem.message if not char.isdigit())[:80]


def _verify_alone(problem: Problem, lines: dict[int, bytes]) -> bool:
    """Return whether only verify reports a problem: a repetition, or a spelling with one meaning."""
    if problem.message.startswith(VERIFY_ALONE):
        return True
    if SPELLING not in problem.message or problem.seq not in lines:
        return False
    first, what, free = split_line(lines[problem.seq])
    form = parse_head(first)
    try:
        for section in (what, b"{}" if form is None else form.by, free or b"null"):
            strict_json.loads(section, "section")
    except BadInputError:
        return False
    return form is not None


def _compare_salvage(case: Case, verdict: Verification | TallybookError, answer: ReadResult, kept: ReadResult) -> None:
    """Check that salvage returns the batches of a fold, and continues after damage."""
    case.unless(not isinstance(kept.refused, DamagedLedgerError), "salvage gives a batch whose head cannot be read")
    case.unless(
        kept.refused or kept.batches[: len(answer.batches)] == answer.batches, "salvage leaves out what a fold gives"
    )
    if isinstance(verdict, Verification) and verdict.ok:
        case.unless(kept.batches == answer.batches, "salvage gives more than a fold of what verify calls whole")


def _views(case: Case) -> None:
    """Fold a reader's batches into every view, and write its document."""

    def seen() -> None:
        batches = list(decode(case.log.read()))
        playbook_bytes(fold(PLAYBOOK, batches))
        rows = [row(record) for batch in batches for record in batch.records]
        told = [(fold(entries_view({name}), batches), name) for name in (ENTRY, "")]
        stories = [explain(state.stories[name], state) for state, name in told]
        json.dumps([rows, stories], ensure_ascii=False).encode()

    case.unless(case.answer_of("a view", seen) is None, "a view refuses what a fold takes")


# The writer's paths, on a log of which nothing is acknowledged: whatever is torn at its end is the writer's to seal


def _writer_looks(case: Case) -> None:
    """Check that a writer's check of the end and its search for keys see the readers' batches."""
    path = case.log.path
    batches = case.answer_of("reading", lambda: list(case.log.read()))
    with path.open("rb") as file:
        size, fd = path.stat().st_size, file.fileno()
        tail = case.answer_of("the writer's look", lambda: scan.find_tail(fd, path, size, case.log.read_head()))
        if not isinstance(batches, list) or not isinstance(tail, scan.Scan):
            case.unless(holds=False, complaint="the writer's look refuses what readers take")
            return
        end = batches[-1].position if batches else START
        case.unless(tail.position == end, "the writer finds another end than its readers")
        case.unless(not _is_known(case, KEY, fd, end.offset), "the writer finds a key that no log has")
        for key in _keys(batches):
            case.unless(_is_known(case, key, fd, end.offset), "the writer does not find a key that verify knows")


def _keys(batches: Iterable[RawBatch]) -> set[str]:
    """Return the keys in the headers of batches, as verify finds them."""
    lines = (line for batch in batches for line in batch.lines)
    forms = (parse_head(split_line(line)[0]) for line in lines)
    return {split_key(form.key)[0] for form in forms if form is not None and form.key is not None}


def _is_known(case: Case, key: str, fd: int, end: int) -> bool:
    return case.answer_of("the search for keys", lambda: bool(search.find_deliveries(fd, (key,), end))) is True


def _writer_appends(case: Case, verdict: Verification | TallybookError | None, before: ReadResult) -> None:
    """Check that an append seals a torn end, changes nothing that readers saw, and is read by the resident ones."""

    def append() -> None:
        with case.log.transaction() as tx:
            tx.append([encode(RATED)], BY, KEY)

    known = len(case.complaints)
    refused = case.answer_of("an append", append)
    if refused is not None or len(case.complaints) > known:
        case.unless(refused is None or before.refused is not None, "an append refuses what readers take")
        return
    after = case.read_by("a fold after an append", lambda: decode(case.log.read()))
    case.unless(before.batches == after.batches[: len(before.batches)], "an append changes earlier events")
    case.unless(type(before.refused) is type(after.refused), "an append changes what a fold refuses")
    if after.refused is None:
        case.unless((RATED,) == after.batches[-1].events, "an append is not read again")
    again = case.answer_of("verify behind an append", lambda: verify(case.log))
    if isinstance(verdict, Verification) and isinstance(again, Verification):
        found = {(problem.seq, problem.message) for problem in verdict.problems}
        fresh = [problem for problem in again.problems if (problem.seq, problem.message) not in found]
        case.unless(not fresh, f"an append is damage: {_kind_of(fresh[0]) if fresh else ''}")
