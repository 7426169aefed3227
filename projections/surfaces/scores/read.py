"""From files to the ledger: each object in them is a batch of its own, recorded once however often its file is sent.

Files hold JSON Lines, arrays and single objects, plain or gzip. A bad line stops nothing: a Problem is yielded in its
place. Nothing is folded and the playbook stays what it was, so a file of any length takes bounded memory: a chunk of
objects is appended in one transaction, with one flush.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC
from functools import partial
from gzip import GzipFile
from io import BufferedReader, BytesIO
from itertools import islice
import json
from math import isinf
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
import zlib

import attrs

from tallybook.ledger import clock, events
from tallybook.ledger.codec import encode
from tallybook.ledger.errors import BadInputError, LockHeldError, Problem
from tallybook.ledger.line import Draft, RawBatch
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.playbook_constants import MAX_INT
from tallybook.ledger.storage import disk, spool
from tallybook.ledger.strict_json import MAX_DEPTH, MAX_PAYLOAD_BYTES, is_too_deep
from tallybook.ledger.telemetry import read as telemetry
from tallybook.projections.scores.config import Config
from tallybook.projections.scores.view import unknown_parts
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.history.reading import open_log
from tallybook.projections.surfaces.scores import configuration
from tallybook.projections.surfaces.workspace.project import Project
from tallybook.projections.surfaces.writing import secrets
from tallybook.projections.surfaces.writing.record import former_ledger

if TYPE_CHECKING:
    Fill = Callable[[Mapping[str, Any]], dict[str, Any]]
    """Adds the defaults that an object lacks."""
    Prepared = tuple[list[Draft], dict[str, str], str | None]
    """The events of an object, who recorded it, and its idempotency key; None where it may be recorded twice."""

MAX_DOCUMENT_BYTES: Final = MAX_PAYLOAD_BYTES
"""What is not one object a line is read as a whole, up to here; a single line may be as long."""

_CHUNK_BYTES = 1024 * 1024
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
# 2^53 has sixteen digits; with its sign, no number within the bound is longer.
_MOST_DIGITS = 17
# An array that has each of its objects on a line of its own is read line by line where it is too long, or cut off.
_BRACKETS = frozenset((b"", b"[", b"]", b"],"))
_NO_OBJECT = "is not a JSON object; it is not recorded"
_BLANK = " \t\r\n"
_BLANKS = frozenset(_BLANK)
_DEEP = f"is nested more than {MAX_DEPTH} deep"


class SentItem(NamedTuple):
    """An object that was sent.

    Attributes:
        value: The object; numbers that JSON readers may read differently are texts in it.
        place: Where it is, for people: ``events.jsonl:3``.
        file: The base name of its file, the same whether that is packed; empty where it was typed or piped in.
    """

    value: dict[str, Any]
    place: str
    file: str


def items(file: str) -> Iterator[SentItem | Problem]:
    """Yield the objects of a file, or of standard input for ``-``, and what is wrong with the rest, in order."""
    if file == "-":
        # A terminal ends at the first end of its input: to read again would wait for another.
        source = BytesIO(sys.stdin.buffer.read()) if sys.stdin.isatty() else sys.stdin.buffer
        reader = BufferedReader(cast("Any", source))
        yield from _unpack(reader, "standard input", "")
        # Standard input stays open for the rest of the process.
        reader.detach()
        return
    path = Path(file)
    try:
        with path.open("rb") as stream:
            # A log that was packed since it was sent brings nothing new.
            yield from _unpack(stream, file, path.name.removesuffix(".gz"))
    except OSError as error:
        yield Problem(file, f"cannot be read: {disk.reason(error)}")


def _unpack(stream: BufferedReader, name: str, file: str) -> Iterator[SentItem | Problem]:
    """Yield the objects of a stream, decompressed where it begins as gzip does; after a broken end the rest is lost."""
    is_packed = stream.peek(len(_GZIP)).startswith(_GZIP)
    try:
        yield from _objects(GzipFile(fileobj=stream) if is_packed else stream, name, file)
    except (EOFError, zlib.error, OSError) as error:
        why = disk.reason(error) if isinstance(error, OSError) and error.errno else str(error)
        yield Problem(name, f"cannot be read to its end: {why}; everything before that was read")


def _objects(stream: BufferedReader | GzipFile, name: str, file: str) -> Iterator[SentItem | Problem]:
    """Yield the objects of a stream: of one document, or else of each line."""
    begin = stream.read(_CHUNK_BYTES).removeprefix(_BOM)
    first = begin.lstrip().partition(b"\n")[0]
    if not begin.strip() and not stream.peek(1):
        yield Problem(name, "is empty")
        return
    # A document that continues in the next line.
    if first[:1] in {b"[", b"{"} and _values(first)[1]:
        begin += stream.read(MAX_DOCUMENT_BYTES)
        values, fault = _values(begin)
        if not fault:
            yield from _spread(values, name, file)
            return
    numbered = enumerate(_lines(begin, stream), 1)
    objects = (item for number, line in numbered for item in _line(line.strip(), f"{name}:{number}", file))
    # The beginning of an array without any object is not an object either.
    yield next(objects, Problem(name, _NO_OBJECT))
    yield from objects


def _lines(begin: bytes, stream: BufferedReader | GzipFile) -> Iterator[bytes]:
    """Yield the lines of a stream after its beginning; of one that is too long only as much as shows that it is."""
    rest = b""
    while begin:
        *whole, rest = (rest + begin).split(b"\n")
        yield from whole
        rest = rest[: MAX_DOCUMENT_BYTES + 1]
        begin = stream.read(_CHUNK_BYTES)
    yield rest


def _line(text: bytes, place: str, file: str) -> Iterator[SentItem | Problem]:
    """Yield the objects of a line: two writers may have welded theirs."""
    if text in _BRACKETS:
        return
    values, fault = _values(text.removesuffix(b","))
    yield from _spread(values, place, file)
    if fault:
        yield Problem(place, f"{fault}; it is not recorded")


def _spread(values: Sequence[Any], place: str, file: str) -> Iterator[SentItem | Problem]:
    """Yield the objects of JSON values that stand in one place: themselves, or those in a list."""
    for index, value in enumerate(values):
        where = f"{place}[{index}]" if len(values) > 1 else place
        members = [(where, value)]
        if isinstance(value, list):
            members = [(f"{where}[{at}]", member) for at, member in enumerate(value)]
        if not members:
            yield Problem(where, "is an empty list")
        for at, member in members:
            yield SentItem(member, at, file) if isinstance(member, dict) else Problem(at, _NO_OBJECT)


def _values(data: bytes) -> tuple[list[Any], str]:
    """Return the JSON values of a text, and what is wrong after the last of them, empty for nothing.

    A number that JSON readers may read differently, such as NaN, is returned as text.
    """
    values: list[Any] = []
    if len(data) > MAX_DOCUMENT_BYTES:
        return values, f"has more than {MAX_DOCUMENT_BYTES:,} bytes"
    try:
        text = data.decode().strip(_BLANK)
        end = 0
        while end < len(text) or not values:
            value, end = _DECODER.raw_decode(text, end)
            if is_too_deep(value):
                return values, _DEEP
            values.append(value)
            while text[end : end + 1] in _BLANKS:
                end += 1
    except UnicodeDecodeError as error:
        return values, f"is not UTF-8 text, from byte {error.start} on"
    except json.JSONDecodeError as error:
        return values, f"is not JSON: {error.msg} (character {error.pos + 1})"
    except RecursionError:
        return values, _DEEP
    return values, ""


def _parse_whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS and abs(int(digits)) <= MAX_INT else digits


_DECODER = json.JSONDecoder(
    parse_constant=str,
    parse_int=_parse_whole,
    parse_float=lambda digits: digits if isinf(float(digits)) else float(digits),
)


# By so many at a time, a file of any length takes bounded memory.
CHUNK_OBJECTS: Final = 1_000
"""Objects that are appended in one transaction, or spooled together, at most."""

PROBLEMS_SHOWN: Final = 200
_FUTURE: Final = "the time is in the future, so it counts for now; one without a zone is of scoring.timezone, else UTC"
_SAME_SHOWN = 20
_KEPT = "telemetry.kept"
_FREE_TEXT: Final[dict[type[Any], str]] = {
    events.TelemetryKept: "original",
    events.FeedbackRecorded: "note",
    events.BaselineSet: "reason",
}


@attrs.define
class IngestReport:
    """The outcome of an ingestion so far.

    Attributes:
        recorded: Kind → events of it that were recorded.
        repeated: How many objects had been recorded before.
        kept: Type of telemetry that measures no score, or cannot be used → how many were recorded.
        problems: Problems, as many as are shown.
        more_problems: How many further ones there were.
        seq_from: Number of the first event recorded, None for none.
        seq_to: Number of the last one.
        spooled: How many objects wait, because another process held the ledger.
        unscored: Why the configuration scores nothing of an event → how many such events were sent.
    """

    recorded: Counter[str] = attrs.field(factory=Counter)
    repeated: int = 0
    kept: Counter[str] = attrs.field(factory=Counter)
    problems: list[Problem] = attrs.field(factory=list)
    more_problems: int = 0
    seq_from: int | None = None
    seq_to: int | None = None
    spooled: int = 0
    unscored: Counter[str] = attrs.field(factory=Counter)

    @property
    def read_count(self) -> int:
        """Return how many of the sent events and objects could be read."""
        return self.recorded.total() + self.repeated + self.spooled

    def as_json(self) -> dict[str, Any]:
        """Return the report as ``--json`` prints it, its counts by their frequency."""
        values = attrs.asdict(self, recurse=False) | {"spooled": bool(self.spooled)}
        values["problems"] = [{"source": problem.source, "message": problem.message} for problem in self.problems]
        for name in ("recorded", "kept", "unscored"):
            values[name] = dict(getattr(self, name).most_common())
        return values

    def note(self, problem: Problem) -> None:
        """Add a problem: only the first few of a kind are shown."""
        full = len(self.problems) >= PROBLEMS_SHOWN
        if full or sum(noted.message == problem.message for noted in self.problems) >= _SAME_SHOWN:
            self.more_problems += 1
        else:
            self.problems.append(problem)

    def count(self, drafts: Sequence[Draft], batch: RawBatch | None) -> None:
        """Count the events of an object, by what was recorded of it; None where it was recorded before."""
        if batch is None:
            self.repeated += 1
            return
        self.seq_from = self.seq_from or batch.first
        self.seq_to = batch.last
        for draft in drafts:
            self.recorded[draft.kind] += 1
            if draft.kind == _KEPT:
                self.kept[str(draft.body["type"])] += 1


def parse_typed(words: Sequence[str]) -> Iterator[SentItem]:
    """Yield the metrics that were typed as NAME=VALUE, all as one object.

    Raises:
        BadInputError: A value is no number.
    """
    pairs = [word.partition("=")[::2] for word in words]
    for name, value in pairs:
        if not name or telemetry.read_number(value) is None:
            hint = "give NAME=NUMBER, or true or false; there is no file of that name"
            raise BadInputError(f"{name}={value}", "is not a metric", hint)
    if pairs:
        yield SentItem({"metrics": dict(pairs)}, "command line", "")


def is_typed(word: str) -> bool:
    """Return whether an argument is a metric rather than a file."""
    # A file may have the sign in its name.
    return "=" in word and not os.path.exists(word)  # noqa: PTH110 - what is no path at all is no file either


def feed(
    project: Project,
    sources: Iterable[Iterable[SentItem | Problem]],
    progress: Callable[[int], None],
    session: str = "",
    component: str | None = None,
) -> IngestReport:
    """Record objects.

    Args:
        project: Where.
        sources: For each file what it holds.
        progress: Called now and then with the number of objects that are done.
        session: The session of objects that name none.
        component: Their component.

    Raises:
        BadInputError: The component is not a valid name.
        TallybookError: The ledger is damaged, or could not be written; what was recorded by then says so.
    """
    name = telemetry.read_name(component)
    if component is not None and (not name or name.startswith(telemetry.DIGEST_PREFIX)):
        most = telemetry.MAX_NAME_CHARS
        raise BadInputError("--component", f"needs 1 to {most} printable characters", "nothing was recorded")
    report, config = IngestReport(), None
    # `doctor` and `score` report a configuration that is invalid.
    with suppress(BadInputError):
        config = configuration.load(project)
    zone = UTC if config is None else config.timezone
    fill = partial(telemetry.fill_defaults, session=session, component=component or "", zone=zone)
    prepared = (batch for source in sources for batch in _prepare(source, fill, report, config))
    with closing(open_log(project)) as log:
        for problem in () if log.exists() else former_ledger(project):
            report.note(problem)
        while chunk := list(islice(prepared, CHUNK_OBJECTS)):
            _append(log, chunk, report)
            progress(report.read_count)
    return report


def _prepare(
    source: Iterable[SentItem | Problem], fill: Fill, report: IngestReport, config: Config | None
) -> Iterator[Prepared]:
    """Yield the objects of one file, each as a batch to append; problems go to the report."""
    counts: Counter[str] = Counter()
    for item in source:
        if isinstance(item, Problem):
            report.note(item)
            continue
        value = fill(item.value)
        content = telemetry.read_object(value)
        for message in content.problems:
            report.note(Problem(item.place, message))
        if content.when is not None and content.when > clock.utc_now().at:
            report.note(Problem(item.place, _FUTURE))
        # A misspelt metric is recorded and in no score, so that its sender is told.
        if config is not None:
            report.unscored.update(why for event in content.events for why in unknown_parts(config, event))
        # With a time the same object is a repetition; typed or piped in twice without one, it happened twice.
        key = telemetry.idempotency_key(value) if content.when is not None else _key_by_number(value, item.file, counts)
        rater = "import" if item.file else content.rater
        recorded = content.events
        if rater != "human":
            recorded = tuple(_mask_secrets(event, value, item.place, report) for event in recorded)
        by = {"rater": rater} | ({"session": content.session} if content.session else {})
        yield [encode(event, content.when) for event in recorded], by, key


def _key_by_number(value: Mapping[str, Any], file: str, counts: Counter[str]) -> str | None:
    """Return the key of an object that names no time: which of those like it in its file it is; None outside of one."""
    if not file:
        return None
    like = telemetry.idempotency_key(value, file)
    counts[like] += 1
    return telemetry.idempotency_key(value, file, counts[like] - 1)


def _mask_secrets(event: Any, value: Mapping[str, Any], place: str, report: IngestReport) -> Any:
    """Return an event without the secrets in its free text."""
    field = _FREE_TEXT.get(type(event), "")
    whole = field == "original"
    notes: list[Problem] = []
    clean = secrets.mask_item(place, value if whole else getattr(event, field, None), notes)
    for problem in notes:
        report.note(problem)
    if not notes:
        return event
    masked_event: events.Event = attrs.evolve(event, **{field: telemetry.encode_original(clean) if whole else clean})
    return masked_event


def _append(log: JsonlLog, chunk: Sequence[Prepared], report: IngestReport) -> None:
    """Append a chunk in one transaction; while another process holds the lock it waits in the spool."""
    try:
        with log.transaction() as tx:
            tx.look_up(key for *_, key in chunk if key is not None)
            batches = [tx.append(*prepared) for prepared in chunk]
        checkpoints.sweep(log.folder)
    except LockHeldError:
        spool.put_batches(log.folder, log.now(), chunk)
        report.spooled += len(chunk)
        return
    for (drafts, *_), batch in zip(chunk, batches, strict=True):
        report.count(drafts, batch)
