"""Checkpoints: saved states of views, from which a fold goes on, as blobs in a ledger's cache.

A blob is a checksum, a digest of the code that wrote it, and a body. It is used only if both fit. The caller compares
the position in its body with the ledger. So a blob that is missing, stale, foreign or damaged costs time and changes
no answer. What lies before its position is not read again: damage there is found by ``verify``.

This module also removes caches of redacted texts, and of ledgers that no longer exist or are unused.

A checkpoint is the saved state of a view after a batch near the end of the ledger: a fold goes on from it instead of
reading all of history. It is bound to that batch by the event number, the chain value and the place, and the batch is
read again before the state is used.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
import os
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar, get_type_hints

import attrs
import msgspec

from tallybook.ledger import clock
from tallybook.ledger.codec import decode
from tallybook.ledger.errors import DamagedLedgerError, TallybookError
from tallybook.ledger.events import KIND_OF, EventRedacted, EventsVoided
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.line import LOG_NAME, START, Position
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.records import Batch
from tallybook.ledger.scan import bytes_of, read_batch_at
from tallybook.ledger.storage import caches, disk, redaction
from tallybook.ledger.storage.head import ledger_id
from tallybook.projections.playbook.fold import State, View, fold, fold_history
from tallybook.projections.playbook.view import PLAYBOOK, Playbook

if TYPE_CHECKING:
    from tallybook.ledger.log import Log


LOCK: Final = "checkpoints.lock"
SUFFIX: Final = ".blob"
TAIL_BYTES: Final = 64 * 1024
"""A shorter ledger needs no blobs: folding it takes a millisecond or two."""
FAULTS: Final = (
    *(OSError, TallybookError, msgspec.MsgspecError),
    *(ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError),
)
"""What reading or writing a blob can end with. The caller then does without it."""

SWEEP_STAMP: Final = "swept"
"""File in the user's cache folder whose time says when that was last swept."""
MAX_UNUSED_US: Final = 30 * caches.DAY_US
_FOLDER: Final = re.compile(rf"[0-9a-f-]+/[0-9a-f]{{{caches.DIGEST_CHARS}}}")
_SUM_CHARS: Final = 32
_LARGE_BYTES: Final = 4 * 1024 * 1024


def is_long(log: Log) -> TypeGuard[JsonlLog]:
    """Return whether the file of a ledger is so long that a blob or a search of its bytes saves time."""
    try:
        return type(log) is JsonlLog and Path(log.log_file).stat().st_size > TAIL_BYTES
    except OSError:
        return False


@cache
def _code_digest(key: str) -> str:
    """Return a digest of a text, and of place, size and time of every module that can decide a state.

    So a blob that other code wrote is never used.
    """
    here = Path(__file__).parent
    hasher = sha256(key.encode())
    for top in (Path(str(clock.__file__)).parent, here.parents[1], here, here.parent / "scores"):
        for folder, folders, files in os.walk(top):
            folders[:] = sorted(set(folders) - {"surfaces", "__pycache__"})
            for name in sorted(files):
                status = Path(folder, name).stat()
                hasher.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return hasher.hexdigest()[:_SUM_CHARS]


@attrs.frozen
class Blob:
    """A blob of a ledger, for one reading of that ledger.

    Attributes:
        log: The ledger.
        path: The file.
        code: Digest of the code, and of what else, that decides what is in it.
        head: The acknowledged end of the ledger when the reading began. A redaction after it may have been missed.
    """

    log: JsonlLog
    path: Path
    code: str
    head: Position

    @classmethod
    def locate(cls, log: Log, name: str, key: str = "") -> Blob | None:
        """Return the blob of a name before the ledger is read.

        Returns:
            None where nothing may be stored: the ledger is short, this user has no cache folder, or a redaction is
            unfinished.
        """
        try:
            if not is_long(log):
                return None
            # It is outside of the project: a cache that came with one would be believed.
            folder, code = caches.find_folder(log.folder), _code_digest(key)
        except OSError:
            return None
        # The head comes first: a redaction that begins after it is found when the blob is written.
        head = log.head()
        if folder is None or head == START or redaction.read_pending(log.folder) is not None:
            return None
        return cls(log, Path(folder, f"{name}{SUFFIX}"), code, head)

    def read(self) -> memoryview | None:
        """Return the body, None where the file is missing, damaged or was written by other code."""
        try:
            data = memoryview(disk.read_file(self.path, sys.maxsize))
        except FAULTS:
            return None
        is_intact = data[: 2 * _SUM_CHARS] == _checksum(data[_SUM_CHARS:]) + self.code.encode()
        return data[2 * _SUM_CHARS :] if is_intact else None

    def write(self, seq: int, body: bytes) -> None:
        """Write the file, unless another process writes now, or its last event is not acknowledged yet.

        A redaction removes every blob. It waits for the lock that is held here and is announced before, so a text that
        it removes is not written again after it.

        Args:
            seq: Number of the last event in it.
            body: What ``read`` returns.

        Raises:
            OSError, TallybookError: The disk refuses.
        """
        log, content = self.log, self.code.encode() + body
        caches.make_folder(self.path.parent, log.folder)
        with disk.hold_open(self.path.with_name(LOCK), write=True, create=True) as fd:
            if (
                disk.try_lock(fd)
                and log.head().seq >= seq
                and redaction.read_pending(log.folder) is None
                and not any(map(redaction.read_redacted_ids, log.read(self.head)))
            ):
                disk.replace_cache_file(self.path, _checksum(content) + content)


def _checksum(content: bytes | memoryview) -> bytes:
    make_digest: Any = sha256
    if len(content) > _LARGE_BYTES:
        # OpenSSL takes a while to load, and is several times as fast.
        from hashlib import sha256 as make_digest

    return bytes(make_digest(content).hexdigest()[:_SUM_CHARS].encode())


def begin(ledger: Path) -> None:
    """Make the cache folder of a new ledger, so that this user's caches know it once it is gone."""
    folder = caches.find_folder(ledger)
    if folder is not None:
        with suppress(OSError, TallybookError):
            caches.make_folder(folder, ledger)


# Removal


def sweep(ledger: Path) -> None:
    """Remove, once a day, the caches of ledgers that are gone or were not used for 30 days."""
    now_us, stamp = clock.utc_now().unix_us, Path(caches.user_folder(), SWEEP_STAMP)
    with suppress(OSError):
        # Nearly always it was done within a day.
        if stamp.exists() and now_us - stamp.stat().st_mtime_ns // 1000 < caches.DAY_US:
            return
        if stamp.parent.exists() and caches.find_folder(ledger) is not None:
            stamp.touch(0o600)
            for folder in stamp.parent.glob("*/*"):
                # Other files in the user's cache folder stay, whatever their age.
                with suppress(OSError):
                    is_cache = (
                        _FOLDER.fullmatch(folder.relative_to(stamp.parent).as_posix()) and not folder.is_symlink()
                    )
                    if is_cache and _is_unneeded(folder, now_us):
                        _remove(folder)
                        folder.parent.rmdir()


def _remove(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as the system lets this user."""
    # Slow to load, and hardly ever needed.
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def clear(ledger: Path) -> tuple[str, ...]:
    """Remove every cache that this user has of a ledger and of its copies.

    Returns:
        What could not be removed, a line each.
    """
    base = Path(caches.user_folder())
    id_ = ledger_id(ledger / LOG_NAME) if base.is_absolute() and _is_own(base) else ""
    if not id_:
        return ()
    # A folder that others can read by now is used no more, and still holds redacted texts.
    _remove(base / id_)
    return (f"{base / id_}: this cache could not be removed; delete it",) if (base / id_).exists() else ()


def _is_own(base: Path) -> bool:
    """Return whether a folder is this user's, however open it is by now."""
    try:
        return os.name != "posix" or base.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_unneeded(folder: Path, now_us: int) -> bool:
    """Return whether the ledger of a cache folder is gone, or the folder was not used for 30 days."""
    owner = folder / caches.OWNER
    if not owner.exists():
        return now_us - _read_change_time(folder) > MAX_UNUSED_US
    log = Path(os.fsdecode(owner.read_bytes())) / LOG_NAME
    # Where the system does not say, the ledger may be there.
    with suppress(PermissionError):
        if not log.exists() or ledger_id(log) not in {"", folder.parent.name}:
            return True
    return now_us - _read_change_time(owner) > MAX_UNUSED_US


def _read_change_time(path: Path) -> int:
    return path.stat().st_mtime_ns // 1000


S = TypeVar("S", bound=State)

REWRITING: Final = frozenset({EventRedacted, EventsVoided})
"""Classes of events that change what earlier ones mean."""
_TAIL_PART: Final = 8
"""A checkpoint is written anew when the ledger has grown by this part of its size: writing it takes time, too."""


@attrs.frozen
class Form(Generic[S]):
    """How the state of a view is stored in its checkpoint.

    Attributes:
        name: Name of the checkpoint.
        view: The view.
        book: Returns the playbook in a state; an empty one for a view that holds none.
        key: What else decides the state, such as a configuration.
        number_in_book: Gives the events in a state of a shared book the numbers of a shared history, which then goes on
            from its checkpoint, and own ones their reasons, by a function from an event's id; None for a view that
            depends on the order of own and shared events.
    """

    name: str
    view: View[S]
    book: Callable[[S], Playbook] = lambda _: Playbook()
    key: str = ""
    number_in_book: Callable[[S, Callable[[str], str | None]], None] | None = None


PLAYBOOK_FORM: Final[Form[Playbook]] = Form("playbook", PLAYBOOK, lambda state: state)

_LEFT_OUT: Final = frozenset(
    ("latest_batch", "policy", "config", "order", "shared_stamp", "prefix", "uncounted", "days", "stories")
)
"""Fields of states that no checkpoint holds.

The last batch is read from the log again; policy and configuration are those of the view. No order is pending after a
whole batch, a state with a shared book in it is never stored, and who decides sets the prefix. Days are sums of
their sessions.
"""


def pack(state: State) -> dict[str, Any]:
    """Return the fields of a state after a batch that its checkpoint holds; of a state in it, in the same way."""
    state.seal()
    values: dict[str, Any] = {}
    for field in attrs.fields(type(state)):
        if field.name not in _LEFT_OUT:
            value = getattr(state, field.name)
            value = value.at if isinstance(value, Batch) else value
            values[field.name] = pack(value) if isinstance(value, State) else value
    return values


def unpack(state: S, packed: msgspec.Raw) -> S:
    """Return a state before the first event with the fields that a checkpoint holds."""
    # A batch is in no checkpoint.
    types = get_type_hints(type(state), localns={"Batch": Any})
    for name, value in msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw]).items():
        inner = getattr(state, name)
        if isinstance(inner, State):
            unpack(inner, value)
        else:
            # What is None at first is a time or any value of JSON.
            kind = Any if inner is None else types[name]
            setattr(state, name, msgspec.msgpack.decode(value, type=kind, dec_hook=lambda cls, data: cls(data)))
    return state


def encode(begin: int, state: State) -> bytes:
    """Return a state as the body of a blob, with the place of the batch folded last."""
    return msgspec.msgpack.encode([begin, pack(state)], enc_hook=lambda value: value.encode())


def position_of(state: State) -> Position:
    """Return the position after what a state has folded."""
    return Position(state.seq, state.chain, state.end) if state.seq else START


def fold_log(form: Form[S], log: Log, until: int | None = None, *, cold: bool = False) -> S:
    """Return the state of a view of one log at its end or as of a moment, as ``reading.fold_view``."""
    blob = Blob.locate(log, form.name, form.key)
    resumed = None if blob is None or cold else _resume(form, blob, until)
    state, due = resumed or (fold_history(form.view, lambda: decode(log.read()), until), 0)
    # A view has one checkpoint, near the end: the state of an earlier moment must not take its place.
    if blob is not None and until is None and state.latest_batch is not None and state.end > due:
        # Where it cannot be stored, the next reader reads more.
        with suppress(*FAULTS):
            blob.write(state.seq, encode(state.latest_batch.begin, state))
    return state


def _resume(form: Form[S], blob: Blob, until: int | None) -> tuple[S, int] | None:
    """Return the state of a checkpoint folded further, and the offset after which a new one is worth its writing.

    None where there is no checkpoint that can be used, or this history does not go on from it.
    """
    body = blob.read() or b""
    try:
        begin, packed = msgspec.msgpack.decode(body, type=tuple[int, msgspec.Raw])
        state = unpack(form.view.start(), packed)
    except FAULTS:
        return None
    try:
        # The batch folded last is read again: that proves the ledger is the same.
        batch = read_batch_at(blob.log, begin)
        if batch is None or (batch.last, batch.chain) != (state.seq, state.chain):
            return None
        if until is not None and until < state.seq:
            return None
        [state.latest_batch] = decode([batch])
        fold(form.view, decode(blob.log.read(batch.position)), state, until)
        # What redacts or undoes changes what earlier events mean, also where it comes after the moment.
        needles = [bytes_of("kind", KIND_OF[kind]) for kind in REWRITING]
        if any(needle in raw.data for raw in blob.log.read(batch.position) for needle in needles):
            return None
    except DamagedLedgerError:
        # The ledger is damaged, or the position lies in a part that was sealed since. A fold from the first event says.
        return None
    return state, begin + max(TAIL_BYTES, len(body) // _TAIL_PART)
