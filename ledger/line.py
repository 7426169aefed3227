r"""The bytes of the ledger: how a batch of drafts becomes lines, and what proves them. Standard library only.

One line is one JSON object in up to four sections, divided by a raw TAB (white space to every JSON reader, and a
byte that can never stand raw inside a string):

    {"crc":…,"seq":…,"id":…,["key":…,]"at":…,["when":…,]"part":[3,5],"by":{…},      who and when
    ⇥"kind":…,"v":…,"body":{…}[,"sum":…],                                           what: repeats, so it is memoised
    ⇥"free":{…},                                                                    free text: null once redacted
    ⇥"chain":…}                                                                     on a batch's last line only

``chain`` is the first 16 bytes, in hex, of SHA-256 over the previous chain value (32 zeros at first) and every byte
of the batch before the chain's own section, without the values of ``free``, for which ``sum`` stands: it proves.
``crc`` is CRC-32 over the first two sections behind it: it names the very line that was changed, once the chain says
that one was.
"""

from __future__ import annotations

import binascii

from tallybook.ledger.errors import BadInputError, CannotWriteError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from hashlib import _Hash as Hash
    from typing import Any

FORMAT = 1
MAX_LINE_BYTES = 64 * 1024
MAX_BATCH_BYTES = 64 * 1024 * 1024
CHAIN_CHARS = 32
GENESIS = "0" * CHAIN_CHARS
CHAIN_MARK = b',\t"chain":"'
CHAIN_END = b'"}\n'
FREE_MARK = b',\t"free":'
SECTION = b",\t"
# What follows a chain mark: the value and the end of the line.
CHAIN_TAIL_BYTES = CHAIN_CHARS + len(CHAIN_END)
CRC_BYTES = len(b'{"crc":"00000000",')
AT_CHARS = len("2026-11-21T20:17:03.123456Z")
FIRST_YEAR = "0001"
CONTINUED = "text.continued"
BY_FIELDS = ("rater", "session", "agent", "model", "place")
# Characters of free text a line may carry: JSON needs up to six bytes for one, and the rest of the line has room.
FREE_CHARS = 10_000


class Draft(NamedTuple):
    """An event on its way into the ledger: decided and encoded, not yet placed.

    Attributes:
        kind: Literal kind, ``point.rated``.
        v: Version of the kind's shape, from 1.
        body: What the kind says, without free text; keys in the order they are written.
        free: Free text by field, None where the kind has none.
        when: When it happened, if that was not when it is recorded (UTC, ``…Z``); None otherwise.
    """

    kind: str
    v: int
    body: Mapping[str, Any]
    free: Mapping[str, str] | None = None
    when: str | None = None


class Position(NamedTuple):
    """A place between two batches of one ledger.

    Attributes:
        seq: Sequence number of the last line before it, 0 at the beginning.
        chain: Chain value of the last batch before it.
        offset: Bytes of the file before it.
        at: Time of the last line before it, empty at the beginning or where nobody needed it.
    """

    seq: int
    chain: str
    offset: int
    at: str = ""


START = Position(0, GENESIS, 0)


class RawBatch(NamedTuple):
    """A batch as its bytes, chain verified unless the reader was told not to.

    Attributes:
        first: Sequence number of its first line.
        last: Sequence number of its last line.
        chain: Its chain value.
        offset: Where it begins in the file.
        data: Its lines, divided by LF, up to (and without) the chain section of the last.
        erased: Whether it seals a range that was blotted out since, and so proves it no more.
    """

    first: int
    last: int
    chain: str
    offset: int
    data: bytes
    erased: bool = False

    @property
    def end(self) -> int:
        """Return the offset of the byte behind it."""
        return self.offset + len(self.data) + len(CHAIN_MARK) + CHAIN_TAIL_BYTES

    @property
    def position(self) -> Position:
        """Return the place behind it."""
        return Position(self.last, self.chain, self.end, head_field(self.data[self.data.rfind(b"\n") + 1 :], b"at"))

    @property
    def raw(self) -> bytes:
        """Return every byte of it, as in the file."""
        return b"".join((self.data, CHAIN_MARK, self.chain.encode(), CHAIN_END))


def head_field(line: bytes, field: bytes) -> str:
    """Return a text field of a line's first section, empty where it is absent."""
    start = line.find(b'"' + field + b'":"')
    if start < 0:
        return ""
    start += len(field) + 4
    return line[start : line.find(b'"', start)].decode("ascii", "replace")


def batch_key(data: bytes) -> str:
    """Return the key of a batch, empty where it has none: it stands before the first line's time, or nowhere."""
    return head_field(data[: max(data.find(b',"at":"'), 0)], b"key")


def first_seq(data: bytes) -> int:
    """Return the sequence number of the first line in ``data``, -1 where there is none to read."""
    begin = CRC_BYTES + len(b'"seq":')
    end = data.find(b",", begin, begin + 20)
    digits = data[begin:end] if end > 0 else b""
    return int(digits) if digits.isdigit() else -1


def digest(value: bytes) -> str:
    """Return the first 16 bytes of SHA-256 in hex."""
    return sha256(value).hexdigest()[:CHAIN_CHARS]


def free_spans(data: bytes) -> list[tuple[int, int]]:
    """Return where each free value of a batch begins and ends; the brace that closes its line is no part of it."""
    values: list[tuple[int, int]] = []
    line_end = -1
    # From behind, which takes half as long: few bytes look like the mark's first, and many like its last.
    mark = data.rfind(FREE_MARK)
    while mark >= 0:
        begin = mark + len(FREE_MARK)
        end = data.find(b"\n", begin)
        if values and end == line_end:
            # A second mark is a part of the first one's value.
            values.pop()
        # The last line's brace comes with the chain.
        values.append((begin, len(data) if end < 0 else max(end - 1, begin)))
        line_end = end
        mark = data.rfind(FREE_MARK, 0, mark)
    values.reverse()
    return values


def chained_bytes(data: bytes, values: Sequence[tuple[int, int]] | None = None) -> bytes:
    """Return the bytes of a batch that its chain covers: all but the free values, for which their sums stand.

    Args:
        data: The batch.
        values: Where they begin and end, if that is known.
    """
    pieces, kept = [], 0
    for begin, end in free_spans(data) if values is None else values:
        pieces.append(data[kept:begin])
        kept = end
    return b"".join([*pieces, data[kept:]]) if kept else data


def compute_chain(previous: str, data: bytes) -> str:
    """Return the chain value of a batch behind ``previous``."""
    hasher = sha256(previous.encode())
    hasher.update(chained_bytes(data))
    return hasher.hexdigest()[:CHAIN_CHARS]


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a batch, each a whole JSON object (the last one's chain section left out)."""
    return (data + b"}").split(b"\n")


def _strip_redacted(free: bytes) -> bytes:
    """Return a free value; one that was redacted is ``null`` and as many blanks as keep every offset where it was."""
    return b"null" if free.startswith(b"null") and not free[len(b"null") :].strip(b" ") else free


def split_line(line: bytes) -> tuple[bytes, bytes, bytes | None]:
    """Return a line's head, its what-section as a JSON object, and its free value (None where it has none)."""
    head, _, rest = line.partition(SECTION)
    what, mark, free = rest.partition(FREE_MARK)
    if mark:
        return head, b"{" + what + b"}", _strip_redacted(free[:-1])
    return head, b"{" + what, None


def split_long_texts(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """Return the drafts with every text too long for its line carried on by ``text.continued`` lines."""
    if all(draft.free is None or sum(map(len, draft.free.values())) <= FREE_CHARS for draft in drafts):
        return drafts
    longer: list[Draft] = []
    for draft in drafts:
        free = draft.free or {}
        if sum(map(len, free.values())) <= FREE_CHARS:
            longer.append(draft)
            continue
        pieces = [
            {field: text[begin : begin + FREE_CHARS]}
            for field, text in free.items()
            for begin in range(0, len(text) or 1, FREE_CHARS)
        ]
        # The first line names every field, so that a field that is missing there is a fault.
        longer.append(draft._replace(free={**dict.fromkeys(free, ""), **pieces[0]}))
        longer.extend(Draft(CONTINUED, 1, {}, piece, draft.when) for piece in pieces[1:])
    return longer


class Stamp(NamedTuple):
    """Everything that turns drafts into lines and is not the drafts': who, when, where, and the random parts.

    Attributes:
        position: The place behind which the batch goes.
        at: When it is recorded.
        by: Who says so; keys in the order they are written.
        new_id: Gives a fresh id for each line.
        new_salt: Gives a fresh salt for each free section.
        key: What turns away a second delivery of the same batch, printable ASCII without quotes or backslashes; None
            where there can be none.
    """

    position: Position
    at: str
    by: Mapping[str, Any]
    new_id: Callable[[], str]
    new_salt: Callable[[], str]
    key: str | None = None


# What says who, as JSON, by its fields: whoever appends once mostly does so again.
_encoded_by: dict[tuple[tuple[str, Any], ...], str] = {}
_MAX_ENCODED_BY = 64


def _encode_by(by: Mapping[str, Any]) -> str:
    """Return who says so as JSON."""
    fields = tuple(by.items())
    try:
        return _encoded_by[fields]
    except (KeyError, TypeError):
        pass
    for field, value in fields:
        if field not in BY_FIELDS or type(value) is not str or not value:
            raise BadInputError("by", f"{field!r}: {value!r} does not say who", f"it takes {', '.join(BY_FIELDS)}")
    if "rater" not in by:
        raise BadInputError("by", "no rater is named", f"it takes {', '.join(BY_FIELDS)}")
    if len(_encoded_by) >= _MAX_ENCODED_BY:
        _encoded_by.clear()
    said = _encoded_by[fields] = dumps(by)
    return said


def _encode_key(key: str | None) -> str:
    """Return a key as its place in the first line's head, empty without one."""
    if not key:
        return ""
    # Readers find a key by the quotes around it, so nothing in it may need an escape.
    if not (key.isascii() and key.isprintable()) or '"' in key or "\\" in key:
        raise BadInputError("key", f"{key!a} is not printable ASCII without quotes", "keys.plain() gives one that is")
    return f',"key":"{key}"'


def frame(drafts: Sequence[Draft], stamp: Stamp) -> RawBatch:
    """Return the drafts as one batch behind ``stamp.mark``.

    Raises:
        BadInputError: A line or the batch would be too long, a text is not Unicode (a lone surrogate), the key is not
            a plain one, or ``by`` does not say who.
        CannotWriteError: The clock is outside of the years 1 to 9999, which a line can hold.
    """
    if len(stamp.at) != AT_CHARS or stamp.at < FIRST_YEAR:
        raise CannotWriteError("clock", f"is at {stamp.at}", "set it to a year from 1 to 9999; nothing was recorded")
    drafts = split_long_texts(drafts)
    by = _encode_by(stamp.by)
    seq = stamp.position.seq
    size = len(drafts)
    key = _encode_key(stamp.key)
    lines: list[bytes] = []
    for part, draft in enumerate(drafts, 1):
        when = f',"when":"{draft.when}"' if draft.when else ""
        head = f'"seq":{seq + part},"id":"{stamp.new_id()}"{key},"at":"{stamp.at}"{when},"part":[{part},{size}]'
        key = ""
        what = f'"kind":"{draft.kind}","v":{draft.v},"body":{dumps(draft.body)}'
        try:
            free = b""
            if draft.free is not None:
                value = dumps({"salt": stamp.new_salt(), **draft.free}).encode()
                what += f',"sum":"{digest(value)}"'
                free = FREE_MARK + value
            core = f'{head},"by":{by},\t{what}'.encode()
        except UnicodeEncodeError as error:
            raise BadInputError("text", "holds half of a surrogate pair, which is no Unicode text") from error
        end = b"}" if part < size else b""
        line = b'{"crc":"%08x",%b' % (binascii.crc32(core), core)
        if len(line) + len(free) + len(CHAIN_MARK) + CHAIN_TAIL_BYTES > MAX_LINE_BYTES:
            raise BadInputError("event", f"{draft.kind} would need more than {MAX_LINE_BYTES:,} bytes on its line")
        lines.append(line + free + end)
    data = b"\n".join(lines)
    if len(data) > MAX_BATCH_BYTES:
        raise BadInputError("batch", f"would need more than {MAX_BATCH_BYTES:,} bytes", "send it in parts")
    return RawBatch(seq + 1, seq + size, compute_chain(stamp.position.chain, data), stamp.position.offset, data)


def line_fault(line: bytes, seq: int) -> str | None:
    """Say what is wrong with one line of a batch that does not verify, None where it stands for itself."""
    if not line.startswith(b'{"crc":"') or SECTION not in line:
        return "is not a line of this ledger" if line.strip(b"\0") or not line else "is a hole of NUL bytes"
    whole = line.partition(CHAIN_MARK)[0] + b"}" if CHAIN_MARK in line else line
    core, free, value = whole.partition(FREE_MARK)
    core = core[CRC_BYTES:] if free else core[CRC_BYTES:-1]
    if not whole.endswith(b"}") or not line.startswith(b'{"crc":"%08x",' % binascii.crc32(core)):
        return "was changed: its bytes do not fit its checksum"
    if (
        free
        and _strip_redacted(value[:-1]) != b"null"
        and not core.endswith(b'"sum":"%b"' % digest(value[:-1]).encode())
    ):
        return "its text was changed: it does not fit its digest"
    found = first_seq(line)
    return None if found == seq else f"has seq {found} where {seq} is due: lines were moved, repeated, removed or added"


def diagnose(lines: Sequence[bytes], seq: int) -> tuple[int, str]:
    """Say what is wrong with a batch whose chain does not fit.

    Args:
        lines: The batch's lines as they stand in the file, without line feeds.
        seq: The sequence number that is due first.

    Returns:
        How many lines lie before the faulty one, and the fault; the whole batch's is told at its first line.
    """
    for index, line in enumerate(lines):
        fault = line_fault(line, seq + index)
        if fault is not None:
            return index, fault
    return 0, "the chain does not fit: this batch, or the one before it, was changed, swapped or cut"


def sum_fault(
    data: bytes, values: Sequence[tuple[int, int]] | None = None, sha: Callable[[bytes], Hash] = sha256
) -> int | None:
    """Check every free text of a batch against its digest.

    Args:
        data: The batch.
        values: Where the texts begin and end, if that is known.
        sha: What begins a SHA-256 of some bytes.

    Returns:
        How many lines lie before the first that does not fit; None where all fit or were redacted.
    """
    for begin, end in free_spans(data) if values is None else values:
        value = data[begin:end]
        told = b'"sum":"%b"' % sha(value).hexdigest()[:CHAIN_CHARS].encode()
        if not data.endswith(told, 0, begin - len(FREE_MARK)) and _strip_redacted(value) != b"null":
            return data.count(b"\n", 0, begin)
    return None
