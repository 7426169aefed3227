r"""The line format: encoding drafts as a batch of lines, and checking lines. Standard library only.

One line is one JSON object in up to four sections, separated by a raw TAB, which is white space in JSON and cannot
occur raw inside a string:

    {"crc":…,"seq":…,"id":…,["key":…,]"at":…,["when":…,]"part":[3,5],"by":{…},      head: who and when
    ⇥"kind":…,"v":…,"body":{…}[,"sum":…],                                           what: repeats, so it is memoised
    ⇥"free":{…},                                                                    free text: null once redacted
    ⇥"chain":…}                                                                     on a batch's last line only

``chain`` proves the batch: the first 16 bytes, in hex, of SHA-256 over the previous chain value (32 zeros at first)
and every byte of the batch before the chain's own section, except the values of ``free``, which ``sum`` covers.
``key`` is on a batch's first line: the idempotency key, followed by " payload:" and the digest of what was delivered
where the caller gave the key.
``crc`` is CRC-32 over the rest of the first two sections: if the chain does not fit, it shows which line changed.
"""

from __future__ import annotations

import binascii
from io import BytesIO

from tallybook.ledger.errors import NOT_UNICODE, BadInputError, CannotWriteError
from tallybook.ledger.fast_stdlib import NamedTuple, dumps, sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from hashlib import _Hash as Hash
    from typing import Any

FORMAT = 1
LOG_NAME = "events.jsonl"
"""The file of the lines, in the ledger's folder."""
MAX_LINE_BYTES = 64 * 1024
MAX_BATCH_BYTES = 64 * 1024 * 1024
CHAIN_CHARS = 32
GENESIS = "0" * CHAIN_CHARS
CHAIN_MARK = b',\t"chain":"'
CHAIN_END = b'"}\n'
FREE_MARK = b',\t"free":'
PAYLOAD_MARK = " payload:"
SECTION = b",\t"
# The bytes after CHAIN_MARK: the chain value and the end of the line.
CHAIN_TAIL_BYTES = CHAIN_CHARS + len(CHAIN_END)
LINE_END = b"}\n"
# Bytes of a batch besides its data: the chain's mark, value and end.
FRAME_BYTES = len(CHAIN_MARK) + CHAIN_TAIL_BYTES
CRC_BYTES = len(b'{"crc":"00000000",')
_PART = b'"part":['
_PART_CHARS = 24
AT_CHARS = len("2026-11-21T20:17:03.123456Z")
FIRST_YEAR = "0001"
CONTINUED = "text.continued"
SEAL = b',\t"kind":"log.recovered","v":1,"body":{"begin":'
# Enough for the two offsets of a seal.
_SEALED_CHARS = 64
_HEX = frozenset("0123456789abcdef")
BY_FIELDS = ("rater", "session", "agent", "model", "place")
KNOWN_RATERS = ("human", "agent", "reflector", "import", "test", "tallybook")
"""The raters that a request may name; a ledger may hold others."""
MAX_PROVENANCE_CHARS = 200
"""Characters of a value of ``by``, such as a model's name, that a command takes."""
WRITER = "writer"
"""The further field of ``by`` in a shared book: the machine that recorded the event."""
# Free text per line, in characters: JSON needs up to six bytes for each, and the rest of the line must fit as well.
FREE_CHARS = 10_000


class Draft(NamedTuple):
    """An encoded event that is not yet in the ledger.

    Attributes:
        kind: The kind on disk, ``point.rated``.
        v: Version of the kind's fields, from 1.
        body: Its fields without free text, in the order in which they are written.
        free: Free text by field; None where the kind has none.
        when: When it happened (UTC, ``…Z``), if not when it is recorded; None otherwise.
    """

    kind: str
    v: int
    body: Mapping[str, Any]
    free: Mapping[str, str] | None = None
    when: str | None = None


class Position(NamedTuple):
    """A position between two batches of a ledger.

    Attributes:
        seq: Event number of the last line before it, 0 at the beginning.
        chain: Chain value of the last batch before it.
        offset: Bytes of the file before it.
        at: Time of the last line before it; empty at the beginning, or where it was not read.
    """

    seq: int
    chain: str
    offset: int
    at: str = ""


START = Position(0, GENESIS, 0)


class RawBatch(NamedTuple):
    """A batch as bytes, split into lines for the codec. Readers verify its chain unless asked not to.

    Attributes:
        first: Event number of its first line.
        last: Event number of its last line.
        chain: Its chain value.
        offset: Where it begins in the file.
        lines: Its lines, each a complete JSON object and a line feed; the last one without its chain section.
        lacks_text: Whether a redaction erased a text of it, or the range that it seals.
    """

    first: int
    last: int
    chain: str
    offset: int
    lines: list[bytes]
    lacks_text: bool = False

    @property
    def data(self) -> bytes:
        """Return its bytes up to the chain section."""
        return b"".join(self.lines)[: -len(LINE_END)]

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return self.end - self.offset

    @property
    def end(self) -> int:
        """Return the offset after its last byte."""
        return self.offset + sum(map(len, self.lines)) - len(LINE_END) + FRAME_BYTES

    @property
    def position(self) -> Position:
        """Return the position after it."""
        return Position(self.last, self.chain, self.end, head_field(self.lines[-1], b"at"))

    @property
    def raw(self) -> bytes:
        """Return its bytes as in the file."""
        last = self.lines[-1][: -len(LINE_END)]
        return b"".join([*self.lines[:-1], last, CHAIN_MARK, self.chain.encode(), CHAIN_END])


def complete_lines(data: bytes) -> list[bytes]:
    """Return the bytes of a batch up to its chain section as a `RawBatch` has them."""
    return list(BytesIO(data + LINE_END))


def kind_of(line: bytes) -> str:
    """Return the kind of an event by its line in the log, empty if it has none."""
    _, _, rest = line.partition(b',\t"kind":"')
    return rest.partition(b'"')[0].decode("ascii", "replace")


def head_field(line: bytes, field: bytes) -> str:
    """Return a text field of a line's head; empty where it is absent."""
    start = line.find(b'"' + field + b'":"')
    if start < 0:
        return ""
    start += len(field) + 4
    return line[start : line.find(b'"', start)].decode("ascii", "replace")


def batch_delivery(data: bytes) -> tuple[str, str]:
    """Return the idempotency key of a batch and the digest of its payload; each is empty without one.

    Only the first line carries them, before ``at``.
    """
    return split_key(head_field(data[: max(data.find(b',"at":"'), 0)], b"key"))


def batch_key(data: bytes) -> str:
    """Return the idempotency key of a batch; empty without one."""
    return batch_delivery(data)[0]


def join_key(key: str, payload: str) -> str:
    """Return what a line has as its key: the key, and the digest of the payload where the caller gave the key."""
    return f"{key}{PAYLOAD_MARK}{payload}" if payload else key


def split_key(joined: str) -> tuple[str, str]:
    """Return the key and the digest in what ``join_key`` returned; the digest is empty where there is none."""
    key, mark, payload = joined.rpartition(PAYLOAD_MARK)
    return (key, payload) if mark and is_digest(payload) else (joined, "")


def is_digest(text: str) -> bool:
    """Return whether a text has the form that ``digest`` returns."""
    return len(text) == CHAIN_CHARS and _HEX.issuperset(text)


def first_seq(data: bytes) -> int:
    """Return the event number of the first line in ``data``; -1 where it cannot be read."""
    begin = CRC_BYTES + len(b'"seq":')
    end = data.find(b",", begin, begin + 20)
    digits = data[begin:end] if end > 0 else b""
    return int(digits) if digits.isdigit() else -1


def place_of(line: bytes) -> tuple[int, int, int]:
    """Return a line's event number, its part, and the parts of its batch; part 0 where it is no line of a ledger."""
    seq, at = first_seq(line), line.find(_PART)
    part, _, size = line[at + len(_PART) : at + _PART_CHARS].partition(b"]")[0].partition(b",")
    if seq < 1 or at < 0 or not (part.isdigit() and size.isdigit() and line.endswith(LINE_END)):
        return 0, 0, 0
    ends = line.endswith(CHAIN_END) and line.startswith(CHAIN_MARK, -FRAME_BYTES)
    return (seq, int(part), int(size)) if ends == (part == size) else (0, 0, 0)


def parse_sealed_range(data: bytes) -> tuple[int, int] | None:
    """Return the range that a ``log.recovered`` says it seals, as (begin, end) offsets; None for any other line."""
    at = data.find(SEAL) + len(SEAL)
    begin, mark, rest = data[at : at + _SEALED_CHARS].partition(b',"end":')
    end = rest.partition(b",")[0]
    return (int(begin), int(end)) if at >= len(SEAL) and mark and begin.isdigit() and end.isdigit() else None


def digest(value: bytes) -> str:
    """Return the first 16 bytes of SHA-256 in hex."""
    return sha256(value).hexdigest()[:CHAIN_CHARS]


def join_chained_bytes(lines: Iterable[bytes]) -> bytes:
    """Return the bytes of a batch that its chain covers: all but the free values, which their sums cover."""
    pieces = []
    for line in lines:
        core, mark, rest = line.partition(FREE_MARK)
        pieces.append(core + mark + rest[-len(LINE_END) :])
    return b"".join(pieces)[: -len(LINE_END)]


def prove(previous: str, lines: Iterable[bytes], sha: Callable[[bytes], Hash] = sha256) -> tuple[str, bool]:
    """Return the chain value that proves a batch and its texts, and whether a text of it is erased.

    The value is empty where a text that is not erased does not fit its ``sum``.

    Args:
        previous: The chain value before it.
        lines: The lines of the batch, as a `RawBatch` has them.
        sha: Implementation of SHA-256 to use.
    """
    pieces, lacks_text = [], False
    for line in lines:
        core, mark, rest = line.partition(FREE_MARK)
        if not mark:
            pieces.append(line)
            continue
        value = rest[: -len(LINE_END)]
        if is_erased(value):
            lacks_text = True
        elif not core.endswith(b'"sum":"%b"' % sha(value).hexdigest()[:CHAIN_CHARS].encode()):
            return "", False
        pieces.append(core + mark + rest[-len(LINE_END) :])
    chained = b"".join(pieces)[: -len(LINE_END)]
    return sha(previous.encode() + chained).hexdigest()[:CHAIN_CHARS], lacks_text


def is_erased(value: bytes) -> bool:
    """Return whether a free value was erased: a redaction writes blanks after ``null``, so that no offset moves."""
    return value.rstrip(b" ") == b"null"


def split_line(line: bytes) -> tuple[bytes, bytes, bytes | None]:
    """Return a line's head, its what-section as a JSON object, and its free value (None where it has none)."""
    head, _, rest = line.partition(SECTION)
    what, mark, free = rest.removesuffix(b"\n").partition(FREE_MARK)
    if mark:
        value = free[:-1]
        return head, b"{" + what + b"}", b"null" if is_erased(value) else value
    return head, b"{" + what, None


def split_long_texts(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """Return the drafts with every text that does not fit its line continued in ``text.continued`` drafts."""
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
        # The first line has every field, so that readers can treat a missing field as damage.
        longer.append(draft._replace(free={**dict.fromkeys(free, ""), **pieces[0]}))
        longer.extend(Draft(CONTINUED, 1, {}, piece, draft.when) for piece in pieces[1:])
    return longer


class Stamp(NamedTuple):
    """What lines contain besides their drafts: who, when, where, and random parts.

    Attributes:
        position: The position after which the batch is appended.
        at: When it is recorded.
        by: Who records it, in BY_FIELDS and WRITER; keys in the order in which they are written.
        new_id: Returns a new id for each line.
        new_salt: Returns a new salt for each free section.
        key: What ``join_key`` returns: printable ASCII without quotes and backslashes; None where a batch cannot come
            twice.
    """

    position: Position
    at: str
    by: Mapping[str, Any]
    new_id: Callable[[], str]
    new_salt: Callable[[], str]
    key: str | None = None


_MAX_KEY_CHARS = 200


def _encode_by(by: Mapping[str, Any]) -> str:
    """Return ``by`` as JSON, checked."""
    hint = f"use texts for {', '.join(BY_FIELDS)}"
    for field, value in by.items():
        if field not in {*BY_FIELDS, WRITER} or type(value) is not str or not value:
            raise BadInputError("by", f"{field!r}: {value!r} is not valid", hint)
    if "rater" not in by:
        raise BadInputError("by", "has no rater", hint)
    return dumps(by)


def normalize_key(key: str) -> str:
    """Return a key as the ledger writes it: itself if it is short printable ASCII without quotes, else its digest."""
    if 0 < len(key) <= _MAX_KEY_CHARS and key.isascii() and key.isprintable() and {'"', "\\"}.isdisjoint(key):
        return key
    return "digest:" + digest(key.encode("utf-8", "surrogatepass"))


def frame(drafts: Sequence[Draft], stamp: Stamp) -> RawBatch:
    """Return the drafts as one batch after ``stamp.position``.

    Raises:
        BadInputError: A line would exceed 64 KiB or the batch 64 MiB, a text is not Unicode (a lone surrogate), or
            ``key`` or ``by`` is invalid.
        CannotWriteError: The clock shows a year outside of 1 to 9999.
    """
    if len(stamp.at) != AT_CHARS or stamp.at < FIRST_YEAR:
        raise CannotWriteError("clock", f"is at {stamp.at}", "set it to a year from 1 to 9999; nothing was recorded")
    drafts = split_long_texts(drafts)
    by = _encode_by(stamp.by)
    seq = stamp.position.seq
    size = len(drafts)
    key = ""
    if stamp.key:
        # Readers find a key by the quotes around it, so it must not contain escapes.
        if not (stamp.key.isascii() and stamp.key.isprintable()) or '"' in stamp.key or "\\" in stamp.key:
            raise BadInputError("key", f"{stamp.key!a} is not printable ASCII without quotes", "call normalize_key")
        key = f',"key":"{stamp.key}"'
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
            raise BadInputError("text", NOT_UNICODE) from error
        line = b'{"crc":"%08x",%b' % (binascii.crc32(core), core)
        if len(line) + len(free) + FRAME_BYTES > MAX_LINE_BYTES:
            raise BadInputError("event", f"{draft.kind} would need more than {MAX_LINE_BYTES:,} bytes on its line")
        lines.append(line + free + LINE_END)
    if sum(map(len, lines)) - len(LINE_END) > MAX_BATCH_BYTES:
        raise BadInputError("batch", f"would need more than {MAX_BATCH_BYTES:,} bytes", "send it in parts")
    chain = digest(stamp.position.chain.encode() + join_chained_bytes(lines))
    return RawBatch(seq + 1, seq + size, chain, stamp.position.offset, lines)


def complete_line(line: bytes) -> bytes:
    """Return a line of the file, without its line feed, as a `RawBatch` has it."""
    return line.partition(CHAIN_MARK)[0] + LINE_END if CHAIN_MARK in line else line + b"\n"


def has_checksum(line: bytes) -> bool:
    """Return whether the bytes of a complete line before its free text fit the checksum that it begins with."""
    core, free, _ = line.partition(FREE_MARK)
    core = core[CRC_BYTES:] if free else core[CRC_BYTES : -len(LINE_END)]
    return line.startswith(b'{"crc":"%08x",' % binascii.crc32(core)) and line.endswith(LINE_END)


def line_fault(line: bytes, seq: int) -> str | None:
    """Return what is wrong with one line of a batch that does not verify; None where the line itself is intact."""
    if line.startswith(b"<<<<<<< "):
        return "is a conflict marker of a merge"
    if not line.startswith(b'{"crc":"') or SECTION not in line:
        return "is not a line of this ledger" if line.strip(b"\0") or not line else "is a hole of NUL bytes"
    if line.endswith(b"\r"):
        return 'ends in CRLF: put "events.jsonl -text" into .gitattributes and check the file out again'
    complete = complete_line(line)
    if not has_checksum(complete):
        return "was changed: its bytes do not fit its checksum"
    core, free, rest = complete.partition(FREE_MARK)
    value = rest[: -len(LINE_END)]
    if free and not is_erased(value) and not core.endswith(b'"sum":"%b"' % digest(value).encode()):
        return "its text was changed: it does not fit its digest"
    own = first_seq(line)
    return None if own == seq else f"has seq {own} where {seq} is due: lines were moved, repeated, removed or added"


def diagnose(lines: Sequence[bytes], seq: int) -> tuple[int, str]:
    """Return the index of the damaged line in a batch whose chain does not fit, and its damage.

    The index is 0 where only the batch as a whole does not fit. The lines are as in the file, without line feeds, and
    the first should have the event number ``seq``.
    """
    for index, line in enumerate(lines):
        fault = line_fault(line, seq + index)
        if fault is not None:
            return index, fault
    return 0, "the chain does not fit: this batch, or the one before it, was changed, swapped or cut"
