"""What a hook writes, and how it learns that ``playbook.json`` is what the ledger says. Standard library only."""

from __future__ import annotations

import os

from tallybook.ledger import clock
from tallybook.ledger.backends.table import open_log
from tallybook.ledger.errors import CannotWriteError, DamagedLedgerError, LockHeldError, NewerLedgerError
from tallybook.ledger.fast_stdlib import import_lazily
from tallybook.ledger.kinds.playbook_neutral import PLAYBOOK_NEUTRAL
from tallybook.ledger.line import Draft, batch_key, first_seq, head_field
from tallybook.ledger.storage import disk
from tallybook.ledger.storage.log_ends import read_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from tallybook.ledger.backends.jsonl import JsonlLog
    from tallybook.ledger.fast_stdlib import StrPath
    from tallybook.ledger.storage import spool
    from tallybook.projections.surfaces.workspace.project import AnyProject
else:
    spool = import_lazily("tallybook.ledger.storage.spool")

HOOK_WAIT_MS = disk.LOCK_WAIT_MS
# Mostly the last few lines tell; each window is twice as large as the one before it.
_WINDOW_BYTES = 4 * 1024
_LOOKED_AT_BYTES = 1024 * 1024

BODIES: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "playbook.injected": (1, ("names", "left_out"), ()),
    "point.cited": (1, ("name", "where"), ()),
    "reflection.requested": (1, ("end", "trigger"), ("transcript",)),
}
"""Kind that a hook writes → version, fields of its body, fields of free text; a test compares it with the classes."""


def draft(kind: str, **fields: Any) -> Draft:
    """Return an event of a kind that hooks write."""
    version, body, free = BODIES[kind]
    texts = {field: fields[field] for field in free}
    return Draft(kind, version, {field: fields[field] for field in body}, texts or None)


def record(
    project: AnyProject,
    drafts: Sequence[Draft],
    by: Mapping[str, str],
    key: str,
    *,
    not_after: tuple[str, int] = ("", 0),
) -> bool:
    """Append a batch, once under its key; where the ledger cannot take it, it waits in the spool.

    Args:
        project: Whose ledger it is.
        drafts: The events.
        by: Who reports them.
        key: The idempotency key.
        not_after: The beginning of keys and a time in microseconds; a batch under such a key that the ledger took no
            longer ago than that counts as the same delivery. Without one, only the key itself does.

    Returns:
        False where it was there already.

    Raises:
        TallybookError: It could be written nowhere.
    """
    log = open_log(project.ledger)
    try:
        with log.transaction(HOOK_WAIT_MS) as transaction:
            if not_after[0] and _has_recent(log.log_file, transaction.position.offset, *not_after):
                return False
            return transaction.append(drafts, by, key) is not None
    except (LockHeldError, CannotWriteError, DamagedLedgerError, NewerLedgerError):
        now = clock.utc_now()
        if not_after[0] and _has_recent_spooled(project, log, *not_after):
            return False
        # Whoever mends the ledger, or holds it, takes it in afterwards.
        spool.check(drafts, by, key, now.at)
        facts = [[one.kind, one.v, one.body, one.free] for one in drafts]
        spool.put(project.ledger, now.at, clock.new_id(now.unix_us), [{"facts": facts, "by": dict(by), "key": key}])
        return True
    finally:
        log.close()


def _has_recent(path: StrPath, end: int, beginning: str, time_us: int) -> bool:
    """Return whether a batch under a key with this beginning was recorded so short a time ago."""
    since = _ago(time_us)
    fd = disk.open_file(path, write=False)
    try:
        for line in _lines_before(fd, end):
            if head_field(line, b"at") < since:
                return False
            if batch_key(line).startswith(beginning):
                return True
    finally:
        os.close(fd)
    return False


def _has_recent_spooled(project: AnyProject, log: JsonlLog, beginning: str, time_us: int) -> bool:
    """Return the same where the lock could not be had: of the log up to its head, and of the spool."""
    try:
        head = log.read_head()
        if head is not None and _has_recent(log.log_file, head.position.offset, beginning, time_us):
            return True
    except (CannotWriteError, DamagedLedgerError, OSError):
        # What cannot be read was not recorded just now.
        pass
    return spool.has_recent(project.ledger, beginning, _ago(time_us))


def _ago(time_us: int) -> str:
    return clock.moment(clock.utc_now().unix_us - time_us).at


def is_current(project: AnyProject, seq: int, chain: str) -> bool:
    """Say whether nothing that changes the playbook stands behind a moment; False where that would take long to see.

    It trusts the last lines of the log as far as they can be read: what it answers for is shown, and not recorded.
    """
    log = open_log(project.ledger)
    head = log.read_head()
    if head is None:
        return False
    if (head.position.seq, head.position.chain) == (seq, chain):
        return True
    fd = disk.open_file(log.log_file, write=False)
    try:
        for line in _lines_before(fd, head.position.offset):
            found = first_seq(line)
            if 1 <= found <= seq:
                return True
            if kind_of(line) not in PLAYBOOK_NEUTRAL:
                return False
    finally:
        os.close(fd)
    return False


def _lines_before(fd: int, end: int) -> Iterator[bytes]:
    """Yield the lines of a log before an offset, the last one first, as far back as can be read in a short time."""
    begin, window, rest = end, _WINDOW_BYTES, b""
    while begin > 0 and end - begin < _LOOKED_AT_BYTES:
        at = max(begin - window, 0)
        text = read_at(fd, begin - at, at) + rest
        rest, _, whole = (b"", b"", text) if at == 0 else text.partition(b"\n")
        yield from reversed(list(filter(None, whole.split(b"\n"))))
        begin, window = at, 2 * window


def kind_of(line: bytes) -> str:
    """Return the kind of a line as it stands in the log, empty where it has none."""
    _, found, rest = line.partition(b',\t"kind":"')
    return rest.partition(b'"')[0].decode("ascii", "replace") if found else ""
