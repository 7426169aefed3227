"""Finding bytes in a log, and the deliveries that hold them. Standard library only.

A writer finds the batch that has an idempotency key by the bytes of the key, from the end of the log, because a
repeated delivery mostly comes soon. Nothing is saved between two searches: an index would cost more to build than all
the searches that it saves.
"""

from __future__ import annotations

from tallybook.ledger import line
from tallybook.ledger.fast_stdlib import NamedTuple
from tallybook.ledger.storage.disk import read_at

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


# Windows of this size stay in the CPU's cache while they are searched.
WINDOW_BYTES = 256 * 1024
_FIRST_BYTES = 4096
_KEY = b',"key":"'
_PAYLOAD = line.PAYLOAD_MARK.encode()
_KEY_ENDS = (b'"', _PAYLOAD)
# Most lines are shorter.
_SHORT_BYTES = 1024
# No key that a ledger has is longer, with its mark and its quotes.
_MAX_KEY_BYTES = 512
_PART = b',"part":[1,'
# More keys than these are found faster by one pass over every key of the log.
_MAX_SEARCHED_KEYS = 7


# ---- Bytes ----


def find_all(
    fd: int,
    needles: Collection[bytes],
    begin: int,
    end: int,
    watch: Callable[[int, int], None] = lambda _done, _size: None,
) -> Iterator[int]:
    """Yield each offset at which one of these byte strings begins, ascending.

    Args:
        fd: The log, open for reading.
        needles: The byte strings.
        begin: Where to begin.
        end: Up to where the log is read.
        watch: Called with the progress: bytes done, and bytes in all.
    """
    # It starts small, because mostly the next few lines suffice, and there may be many places to search from.
    size, longest = _FIRST_BYTES, max(map(len, needles), default=1)
    while begin < end:
        size = min(size, WINDOW_BYTES)
        # An occurrence may lie across two windows.
        window = read_at(fd, min(size + longest - 1, end - begin), begin)
        places = []
        for needle in needles:
            place = window.find(needle)
            while 0 <= place < size:
                places.append(begin + place)
                place = window.find(needle, place + 1)
        yield from sorted(places)
        begin += size
        size *= 2
        watch(min(begin, end), end)


def _find_backwards(fd: int, needle: bytes, begin: int, end: int) -> Iterator[int]:
    """Yield the offset of each occurrence of these bytes from ``begin`` up to ``end``, the last one first."""
    while end > begin:
        start = max(end - WINDOW_BYTES, begin)
        # It may lie across two windows.
        window = read_at(fd, end - start + len(needle), start)
        for place in _find_in_window(window, needle, end - start + len(needle) - 1):
            yield start + place
        end = start


def _find_in_window(window: bytes, needle: bytes, until: int, followed_by: tuple[bytes, ...] = (b"",)) -> Iterator[int]:
    """Yield where these bytes begin in a window and end before ``until``, the last place first.

    Only those count that one of the bytes ``followed_by`` follow.
    """
    while (place := window.rfind(needle, 0, until)) >= 0:
        if window.startswith(followed_by, place + len(needle)):
            yield place
        until = place + len(needle) - 1


def find_sealed_ranges(fd: int, place: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a log that end after a place and were sealed, the last one first.

    What such a range has inside counts for nothing, other seals included.
    """
    for mention in _find_backwards(fd, line.SEAL, place, end):
        if mention < end:
            until, raw_line = read_line(fd, mention)
            span = line.parse_sealed_range(raw_line)
            # A seal that came with another ledger's events names other offsets.
            if span is not None and span[0] < span[1] == until:
                end = span[0]
                yield span


def read_line(fd: int, place: int) -> tuple[int, bytes]:
    """Return the line around a place, and its offset; an empty line where it is not an intact one."""
    start, begin, raw_line = 0, 0, b""
    for size in (_SHORT_BYTES, line.MAX_LINE_BYTES):
        start = max(place - size, 0)
        data = read_at(fd, 2 * size, start)
        begin = data.rfind(b"\n", 0, place - start) + 1
        raw_line, end, _ = data[begin:].partition(b"\n")
        if end and (begin or not start):
            break
    return start + begin, raw_line if line.has_checksum(line.complete_line(raw_line)) else b""


# ---- Deliveries ----


class Delivery(NamedTuple):
    """A batch that has an idempotency key.

    Attributes:
        first: Event number of its first line.
        last: Event number of its last line.
        payload: Digest of what was delivered; empty under a key of Tallybook's own, or of an earlier version.
    """

    first: int
    last: int
    payload: str = ""


def find_deliveries(fd: int, keys: Collection[str], end: int) -> dict[str, Delivery]:
    """Return the batches of a log that have one of these keys, by key; of equal keys the last batch.

    Bytes that look like a key count only in the head of an intact line, outside of every sealed range.

    Args:
        fd: The log, open for reading.
        keys: Keys as `normalize_key` returns them.
        end: The offset after the last batch of the log.
    """
    unknown = {key.encode() for key in keys}
    found: dict[str, Delivery] = {}
    # Sealed ranges are looked for from the end down to the first place that may be in one.
    sealed: list[tuple[int, int]] = []
    searched = end
    while unknown and end > 0:
        start = max(end - WINDOW_BYTES, 0)
        # A key may lie across two windows.
        window = read_at(fd, end - start + _MAX_KEY_BYTES, start)
        for key in _filter_keys(unknown, window):
            for place in _find_in_window(window, _KEY + key, end - start + len(_KEY + key) - 1, _KEY_ENDS):
                delivery = _read_delivery(fd, start + place, key.decode())
                if delivery is None:
                    continue
                if start + place < searched:
                    sealed += find_sealed_ranges(fd, start + place, searched)
                    searched = min([start + place, *(begin for begin, _ in sealed)])
                if not any(begin <= start + place < until for begin, until in sealed):
                    found[key.decode()] = delivery
                    unknown.discard(key)
                    break
        end = start
    return found


def _filter_keys(keys: set[bytes], window: bytes) -> Collection[bytes]:
    """Return the keys of which the bytes may be in a window."""
    if len(keys) <= _MAX_SEARCHED_KEYS:
        return tuple(keys)
    stored = [piece.partition(b'"')[0] for piece in window.split(_KEY)[1:]]
    # The digest of the payload follows the key, where the caller gave the key.
    return keys.intersection(stored) | keys.intersection([key.rpartition(_PAYLOAD)[0] for key in stored])


def _read_delivery(fd: int, place: int, key: str) -> Delivery | None:
    """Return the batch whose first line has this key around a place; None where no line does."""
    _, raw_line = read_line(fd, place)
    stored, payload = line.batch_delivery(raw_line)
    first, size = line.first_seq(raw_line), raw_line.partition(_PART)[2].partition(b"]")[0]
    return Delivery(first, first + int(size) - 1, payload) if stored == key and first > 0 and size.isdigit() else None


# Most batches are shorter; for a longer one the read is doubled until both its ends are found.
