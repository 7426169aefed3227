"""Row ``forging``: a member of a book who forges lines, against two honest machines.

Whoever may write to a book can put any bytes there, well chained: as an older program would, as a newer one, or as none
ever would. The honest machines go on, agree, name the runs that do not count, and lose nothing of their own.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import attrs

from faults import FaultCounts, FaultOptions
from helpers.events import HUMAN
from helpers.ledger_codec import BAD, CONTINUATION, line_of, sections
from helpers.ledger_lines import compute_chain, forge
from helpers.memory_store import MemoryStore
from helpers.shared_machines import SharedMachine, make_machines
from tallybook.ledger.events import EVENT_TYPES
from tallybook.ledger.line import Position, RawBatch
from tallybook.ledger.sharing import book
from tallybook.ledger.sharing.engine import Run
from tallybook.ledger.sharing.replica import Replica
from tallybook.projections.surfaces.writing import commands

MALLORY = "mallory-0a1b2c3d"
BY = json.dumps({"rater": "human", "writer": MALLORY}, separators=(",", ":"))
GROUP = 12
"""So many forged runs come in with one sync."""
RATED = ("point.rated", '"kind":"point.rated","v":1,"body":{"name":"kpt_001","rating":"harmful"}')
DEEP = 5_000


class Forgery(NamedTuple):
    """A forged run.

    Attributes:
        name: What is forged, for a failure's message.
        fits: Whether the run counts, by the table of the rules.
        make: Returns the run after a position, with ids that begin with a text.
    """

    name: str
    fits: bool
    make: Callable[[Position, str], Run]


def _run(batch: RawBatch, after: Position) -> Run:
    return Run(batch.first, batch.last, after.chain, batch.chain, batch.raw)


def _lines(
    name: str, *lines: tuple[str, str | None], fits: bool = False, head: Mapping[str, str] | None = None
) -> Forgery:
    def make(after: Position, id_: str) -> Run:
        # Each line of a batch gets the same id in `forge`, so a batch of several is put together of single ones.
        ids = [f'"{id_}-{number}"' for number in range(len(lines))]
        return _run(_give_ids(lines, after, ids, {"by": BY, **(head or {})}), after)

    return Forgery(name, fits, make)


def _give_ids(
    lines: Sequence[tuple[str, str | None]], after: Position, ids: Sequence[str], head: Mapping[str, str]
) -> RawBatch:
    """Return a batch of lines whose proofs all fit, each with an id of its own."""
    if len(lines) == 1:
        return forge(*lines, mark=after, head={"id": ids[0], **head})
    pieces = []
    for part, (line, id_) in enumerate(zip(lines, ids, strict=True), 1):
        place = f"[{part},{len(lines)}]"
        position = Position(after.seq + part - 1, after.chain, 0)
        forged = forge(line, mark=position, head={"id": id_, "part": place, **head})
        pieces.append(forged.data + (b"}" if part < len(lines) else b""))
    data = b"\n".join(pieces)
    return _chain_lines(data, after, len(lines))


def _chain_lines(data: bytes, after: Position, size: int = 1) -> RawBatch:
    chain = compute_chain(after.chain, data)
    return RawBatch(
        after.seq + 1, after.seq + size, chain, after.offset, [*map(bytes, (data + b"}\n").splitlines(keepends=True))]
    )


def _change_after_checksum(name: str, change: Callable[[bytes], bytes]) -> Forgery:
    """Return a rating whose bytes before the chain are changed after its checksum was made."""

    def make(after: Position, id_: str) -> Run:
        batch = forge((RATED[1], None), mark=after, head={"id": f'"{id_}"', "by": BY})
        return _run(_chain_lines(change(batch.data), after), after)

    return Forgery(name, fits=False, make=make)


def _change_head(name: str, **changes: Any) -> Forgery:
    def make(after: Position, id_: str) -> Run:
        batch = forge((RATED[1], None), mark=after, head={"id": f'"{id_}"', "by": BY})
        return _run(batch, after)._replace(**changes)

    return Forgery(name, fits=False, make=make)


# ---- Every kind, every field ----


def _fields(kind: str) -> Iterator[Forgery]:
    """Yield every way to get a field of a kind wrong."""
    body, free = sections(kind)
    for field in attrs.fields(attrs.resolve_types(EVENT_TYPES[kind][0])):
        is_body = field.name in body
        part = body if is_body else free or {}
        values = [*BAD[field.type], *([-1, book.MAX_NUMBER + 1, 2**53] if field.type is int else [])]
        less = {name: value for name, value in part.items() if name != field.name}
        changes = [(f"{kind} without {field.name}", less, field.default is not attrs.NOTHING)]
        changes += [(f"{kind} with {field.name} {value!r}", {**part, field.name: value}, False) for value in values]
        if not is_body:
            # Nobody redacted it, but every program reads it as if somebody had.
            changes.append((f"{kind} with no {field.name}", {**part, field.name: None}, True))
            yield _lines(f"{kind} with {field.name} in its body", line_of(kind, {**body, field.name: "x"}, free))
        for name, changed, fits in changes:
            yield _lines(name, line_of(kind, *((changed, free) if is_body else (body, changed))), fits=fits)


def _forms(kind: str) -> Iterator[Forgery]:
    """Yield a sample of a kind, which fits, and what an older and a newer program might make of it."""
    body, free = sections(kind)
    if not kind.startswith("book."):
        yield _lines(f"{kind}, as it should be", line_of(kind, body, free), fits=True)
    yield _lines(f"{kind} with a further field", line_of(kind, {**body, "stars": 5}, free))
    if free is None:
        yield _lines(f"{kind} with texts", line_of(kind, body, {"salt": "5a17", "text": "x"}))
    else:
        yield _lines(f"{kind} with a further text", line_of(kind, body, {**free, "more": "x"}))
        yield _lines(f"{kind} without texts", line_of(kind, body))
        yield _lines(f"{kind} without a salt", line_of(kind, body, {**free, "salt": 1}))
    for version in (0, -1):
        yield _lines(f"{kind} of version {version}", line_of(kind, body, free, version=version))
    for version in (book.KINDS[kind] + 1, 10**6):
        what = line_of(kind, {**body, "stars": [5]}, free, version=version)
        yield _lines(f"{kind} of version {version}", what, fits=True)


def _kinds() -> Iterator[Forgery]:
    """Yield what only an own ledger has, what no version has, and what concerns the book itself."""
    for kind in sorted(book.OWN_KINDS):
        yield _lines(f"{kind} of an own ledger", line_of(kind, *sections(kind)))
        yield _lines(f"{kind} of a later version", line_of(kind, {}, version=99))
    new = "point.starred"
    yield _lines("a kind of a newer program", line_of(new, {"name": "kpt_001", "stars": 5}, version=1), fits=True)
    yield _lines(
        "the same with a text", line_of(new, {"name": "kpt_001"}, {"salt": "5a17", "why": "x"}, version=1), fits=True
    )
    like = {"kind": "book.rules", "v": 1, "body": {"rules": 7}}
    yield _lines("the same, like a line", line_of(new, like, {"salt": "5a17", "text": "x"}, version=1), fits=True)
    for depth in (book.MAX_DEPTH - 2, book.MAX_DEPTH + 1, DEEP):
        what = f'"kind":"{new}","v":1,"body":{"[" * depth}{"]" * depth}'
        yield _lines(f"{depth} brackets deep", (what, None), fits=depth < book.MAX_DEPTH)
        top = {"salt": "5a17", "top": '{"x":' * depth + "1" + "}" * depth}
        body = {"base": None, "source": None}
        yield _lines(f"keys {depth} deep", line_of("playbook.edited", body, top), fits=depth < book.MAX_DEPTH)
    for first, last in ((2**53 - 100, 2**53 - 1), (1, 1), (0, 99), (5, 104), (999_999_901, 10**9), (1, 10**9 - 1)):
        yield _lines(f"block {first} to {last}", line_of("book.block", {"first": first, "last": last}))
    yield _lines("a far block", line_of("book.block", {"first": 999_999_801, "last": 999_999_900}), fits=True)
    for number in (0, 1, 3, 99, 10**9):
        yield _lines(f"rules {number}", line_of("book.rules", {"rules": number}))
    yield _lines("another opening", line_of("book.opened", sections("book.opened")[0]))
    block = line_of("book.block", {"first": 501, "last": 600})
    yield _lines("a block beside a rating", block, (RATED[1], None))
    yield _lines("rules after a rating", (RATED[1], None), line_of("book.rules", {"rules": 2}))
    # As programs wrote them before `point.edited` said what its writer saw.
    body, free = sections("point.edited")
    old = {name: body[name] for name in ("name", "helpful", "harmful")}
    yield _lines("a manual edit of an older program", line_of("point.edited", old, free, version=1), fits=True)
    yield _lines("the same with newer fields", line_of("point.edited", body, free, version=1))
    for name in ("", "\x1b[31m", "kpt_999999999", "kpt_99999999999999999999", "x" * 5_000, "mis-999999999", "\u2028"):
        added = line_of("point.added", {"name": name}, {"salt": "5a17", "text": f"By {name!a}"})
        yield _lines(f"an entry {name[:20]!a}", added, fits=True)


def _continue_text() -> Iterator[Forgery]:
    more = (CONTINUATION, '{"salt":"5a17","text":" more"}')
    added = line_of("point.added", {"name": "kpt_700"}, {"salt": "5a17", "text": "A text that goes on"})
    yield _lines("a continued text alone", more)
    yield _lines("a continued text after a rating", (RATED[1], None), more)
    yield _lines("a continued text of another field", added, (CONTINUATION, '{"salt":"5a17","why":"x"}'))
    yield _lines("a continued number", added, (CONTINUATION, '{"salt":"5a17","text":1}'))
    yield _lines("a text that goes on", added, more, fits=True)


# ---- Every part of a line and of a run ----


def _heads() -> Iterator[Forgery]:
    heads = {
        "seq": ("0", "7", '"1"', "-1", "1.0"),
        "id": ("1", '""', "null", '"a\\"b"', '"\x01"'),
        "at": ('"2026-13-01T00:00:00.000000Z"', '"2026-11-23"', '"0000-01-01T00:00:00.000000Z"', "1", '""'),
        "part": ("[1,2]", "[0,1]", "[2,1]", "[1]", "1", "[1,-1]"),
        "by": (
            "{}",
            "[]",
            "1",
            '{"rater":1}',
            '{"rater":"x","role":"y"}',
            '{"rater": "x"}',
            '{"rater":"x"',
            '"\\ud800"',
        ),
        "more": ("1",),
        "key": ('"a"', '"\x7f"'),
        "when": ('"2026-02-30T00:00:00.000000Z"', '"x"'),
    }
    for field, values in heads.items():
        for value in values:
            # A key or a time comes in its own place of a head, and these come last.
            yield _lines(f"a line with {field} {value[:30]!a}", (RATED[1], None), head={field: value})
    for at in ("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000000Z"):
        yield _lines(f"a line at {at}", (RATED[1], None), head={"at": f'"{at}"'}, fits=True)
    yield _lines("the same id twice", (RATED[1], None), (RATED[1], None), head={"id": '"twice"'})
    for what in (
        RATED[1].replace(",", ", "),
        RATED[1].replace('"v":1', '"v":1,"v":1'),
        RATED[1].replace('"v":1', '"v":1.0'),
        RATED[1].replace('"v":1', '"v":true'),
        RATED[1].replace('"v":1', '"v":"1"'),
        RATED[1].replace('"kind":"point.rated"', '"kind":1'),
        RATED[1].replace('"harmful"', '"harm\\u0066ul"'),
        RATED[1].replace('"harmful"', '"\\ud800"'),
        RATED[1].replace('"harmful"', "NaN"),
        RATED[1].replace('"harmful"', "9" * DEEP),
        RATED[1].removesuffix("}"),
        RATED[1] + ',"more":1',
        "",
        "x" * 70_000,
        '"kind":"point.starred","v":1,"body":{"x":1e999}',
        '"kind":"point.starred","v":1,"body":{"x":1,"x":2}',
        f'"kind":"point.starred","v":1,"body":"{"x" * 70_000}"',
    ):
        yield _lines(f"a line with {what[:60]!a}", (what, None))
    yield _change_after_checksum(
        "a wrong checksum", lambda data: data.replace(b'"crc":"', b'"crc":"0', 1).replace(b'",', b",", 1)
    )
    yield _change_after_checksum("bytes after the checksum", lambda data: data.replace(b"harmful", b"helpful"))
    yield _change_after_checksum("no JSON", lambda data: data.replace(b"{", b"<"))
    yield _change_after_checksum("CRLF", lambda data: data + b"\r")
    yield _change_after_checksum("bytes of no UTF-8", _reseal(b"harmful", b"harm\xff"))
    yield _change_after_checksum("a NUL byte", _reseal(b"harmful", b"harm\0"))


def _reseal(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        core = data[len(b'{"crc":"00000000",') :].replace(old, new)
        return b'{"crc":"%08x",%b' % (binascii.crc32(core), core)

    return change


RUNS: dict[str, dict[str, Any]] = {
    "first 0": {"first": 0},
    "first too large": {"first": 10**6},
    "first too small": {"first": 2},
    "last too large": {"last": 10**6},
    "last of 400 digits": {"last": 10**400},
    "another chain before": {"before": "0" * 32},
    "another chain after": {"after": "0" * 32},
    "no bytes": {"data": b""},
    "a blank more": {"data": b" "},
}
"""What is wrong with a run → its fields."""
NO_RUNS = (b"\n", b"{}", b"[]\n", b'{"first":1}\n', b"\xff" * 100, b"[" * 100_000, b"null\nx", b"x" * 100_000)


def _bytes(data: bytes) -> Forgery:
    return Forgery(f"a run of {data[:20]!r}", fits=False, make=lambda _after, _id: Run(0, 0, "", "", data))


def forgeries() -> list[Forgery]:
    """Return every forgery."""
    kinds = [form for kind in sorted(book.KINDS) for form in (*_forms(kind), *_fields(kind))]
    return [
        *kinds,
        *_kinds(),
        *_continue_text(),
        *_heads(),
        *(_change_head(f"a run with {name}", **changes) for name, changes in RUNS.items()),
        *map(_bytes, NO_RUNS),
    ]


# ---- Two honest machines ----


class ForgingTrial:
    """Two honest machines, and the book that Mallory writes to."""

    def __init__(self, folder: Path) -> None:
        """Let both share a book, each with an entry of its own."""
        self.machines = make_machines(folder, "anna", "ben")
        self.store: MemoryStore = self.machines[0].engine.store  # type: ignore[assignment]  # that of memory
        self.rated = 0
        self.problems: list[str] = []
        self._numbers = 0
        for machine in self.machines:
            text = f"By {machine.project.root.name}"
            commands.add(machine.project, text, HUMAN)
            machine.sync()
        self._rate()
        self._sync()

    def suffer(self, forged: Sequence[Forgery]) -> int:
        """Let Mallory put runs there, then both machines rate and sync; return how many ratings are lost."""
        end, expected = self._end(), {}
        for forgery in forged:
            run = forgery.make(end, f"forged-{self._numbers}")
            self._numbers += 1
            number = len(self.store.runs) + 1
            self.store.runs[number] = _read_stored(run)
            expected[f"run {number}"] = forgery
            if forgery.fits:
                end = Position(run.last, run.after, 0)
        self._rate()
        before = len(self.problems)
        skipped = self._sync()
        if before == len(self.problems):
            for place, forgery in expected.items():
                if forgery.fits is (place in skipped):
                    self.problems.append(f"{forgery.name}: {'skipped' if forgery.fits else 'taken in'}")
                elif place in skipped and MALLORY in _read_stored_text(self.store, place) and not skipped[place]:
                    self.problems.append(f"{forgery.name}: nobody says by whom")
        if before < len(self.problems):
            self.problems[before:] = [
                f"{text} (among {', '.join(forgery.name for forgery in forged)})" for text in self.problems[before:]
            ]
        return self._count_lost()

    def _end(self) -> Position:
        current = Replica(self.machines[0].project.ledger, "1").end()
        return Position(current.seq, current.chain, 0)

    def _rate(self) -> None:
        for machine in self.machines:
            commands.rate(machine.project, self._name(machine), "helpful", HUMAN)
        self.rated += 1

    def _name(self, machine: SharedMachine) -> str:
        text = f"By {machine.project.root.name}"
        return next(name for name, entry in machine.entries().items() if entry[0] == text)

    def _sync(self) -> dict[str, str]:
        """Sync until both have all; return the runs that either skipped, with their authors."""
        skipped: dict[str, str] = {}
        for machine in (*self.machines, *self.machines):
            try:
                skipped |= {run.place: run.author for run in machine.sync().skipped}
            except Exception as error:  # noqa: BLE001 - whatever it is, it stops a machine
                self.problems.append(f"{machine.project.root.name} is stopped: {type(error).__name__}: {error}")
        first, second = (Replica(machine.project.ledger, "1").log.path.read_bytes() for machine in self.machines)
        if first != second:
            self.problems.append("the copies of the book differ")
        if self.machines[0].entries() != self.machines[1].entries():
            self.problems.append("the playbooks differ")
        return skipped

    def ask(self) -> None:
        """Ask both machines what people ask."""
        for machine in self.machines:
            for words in ("verify", "log --json", "show --gone", "show --at book:40", "why kpt_001", "diff 2"):
                done = machine.run(*words.split())
                if done.code:
                    self.problems.append(f"{words}: {done}")

    def _count_lost(self) -> int:
        texts = {f"By {machine.project.root.name}" for machine in self.machines}
        counts = {entry[0]: entry[1] for entry in self.machines[0].entries().values()}
        return sum(abs(self.rated - counts.get(text, 0)) for text in texts)


def _read_stored(run: Run) -> bytes:
    if not run.after:
        return run.data
    head = {"first": run.first, "last": run.last, "before": run.before, "after": run.after}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + run.data


def _read_stored_text(store: MemoryStore, place: str) -> str:
    return store.runs[int(place.removeprefix("run "))].decode("utf-8", "replace")


def suffer(setting: FaultOptions, count: int | None = None) -> FaultCounts:
    """Make all forgeries, or so many of them, and return the tally."""
    made = forgeries()
    if count is not None and count < len(made):
        made = Random(setting.seed).sample(made, count)  # noqa: S311 - a seeded choice, no secret
    trial = ForgingTrial(setting.folder / "forging")
    lost = 0
    groups = (made[begin : begin + GROUP] for begin in range(0, len(made), GROUP))
    for group in groups:
        lost = trial.suffer(group)
    trial.ask()
    counts = {"acknowledged": 2 * trial.rated, "lost": lost, "doubled": 0, "believed": len(trial.problems)}
    return FaultCounts("forging", "a member of a book", len(made), counts, "", tuple(trial.problems))


def rows(setting: FaultOptions) -> Iterator[FaultCounts]:
    """Yield the tally."""
    yield suffer(setting, setting.count)
