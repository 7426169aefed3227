"""Files in a ledger's cache that can be rebuilt from the ledger: checkpoints and index segments are such files.

A file holds a checksum, a header in JSON and, where it needs one, a body of bytes. It is used only if the checksum
fits and the same code wrote it. Whoever uses it compares the position in its header with the ledger. So a file that is
missing, stale, foreign or damaged costs time and changes no answer. What lies before its position is not read again:
damage there is found by ``verify``.
"""

from __future__ import annotations

from functools import cache
import json
import os
from pathlib import Path
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import attrs

from tallybook.ledger.backends.jsonl import JsonlLog
from tallybook.ledger.errors import TallybookError
from tallybook.ledger.fast_stdlib import dumps, sha256
from tallybook.ledger.line import START, Position
from tallybook.ledger.storage import caches, disk, redaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallybook.ledger.log import Log

LOCK: Final = "checkpoints.lock"
APART_BYTES: Final = 2 * 1024 * 1024
"""How much of the ledger one file covers, at least: a few hundredths of a second of folding."""
TAIL_BYTES: Final = 64 * 1024
"""A shorter ledger needs no such files: folding it takes a millisecond or two."""
FAULTS: Final = (OSError, TallybookError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What reading or writing such a file can end with. The caller then does without it."""

_SUM_CHARS: Final = 32
_IMPORT: Final = re.compile(rb"^from (tallybook[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)


@cache
def code_digest(*modules: str) -> str:
    """Return a digest of the source of these modules and of every module of Tallybook that they import.

    The list of modules comes from the import statements, so a cache that other code wrote is never used, wherever
    modules are moved.
    """
    hasher = sha256()
    for name, source in sorted(modules_of(*modules).items()):
        hasher.update(b"%b %d\n" % (name.encode(), len(source)))
        hasher.update(source)
    return hasher.hexdigest()[:_SUM_CHARS]


def modules_of(*modules: str) -> dict[str, bytes]:
    """Return the source of these modules and of every module of Tallybook that they import, by name.

    Imports that are indented do not count: they are for type checkers, or do not decide a fold.
    """
    sources: dict[str, bytes] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        if name not in sources:
            sources[name] = Path(str(sys.modules[name].__file__)).read_bytes()
            pending += _imports(sources[name])
    return sources


def _imports(source: bytes) -> Iterator[str]:
    """Yield the modules of Tallybook that a source imports at its top level."""
    for package, names in _IMPORT.findall(source):
        yield package.decode()
        # A name that is imported may itself be a module.
        yield from sys.modules.keys() & {f"{package.decode()}.{name}" for name in re.findall(r"\w+", names.decode())}


def is_cached(log: Log) -> TypeGuard[JsonlLog]:
    """Return whether a ledger has such files: it is long enough, and this user has a folder for them."""
    try:
        if not isinstance(log, JsonlLog) or log.path.stat().st_size <= TAIL_BYTES:
            return False
        return caches.find_folder(log.folder) is not None
    except OSError:
        return False


def last_redaction(log: JsonlLog, after: Position) -> int:
    """Return the number of the last event after a position that redacts something, 0 without one."""
    return max((batch.last for batch in log.read(after) if redaction.redacted_ids(batch)), default=0)


@attrs.frozen
class Reading:
    """One reading of a ledger, from which files are written.

    Attributes:
        log: The ledger.
        head: The acknowledged end of the ledger when the reading began. A redaction after it may have been missed.
        is_redacting: Whether a redaction was unfinished then, so that nothing may be stored.
    """

    log: JsonlLog
    head: Position
    is_redacting: bool

    @classmethod
    def of(cls, log: Log) -> Reading | None:
        """Begin to read a ledger; None where nothing is stored of it."""
        if not is_cached(log):
            return None
        # The head comes first: a redaction that begins after it is found by last_redaction.
        head = log.head()
        return None if head == START else cls(log, head, redaction.read_pending(log.folder) is not None)


@attrs.frozen
class FileKind:
    """A kind of rebuildable file: one folder of the cache, in which a file is named after an event number.

    Attributes:
        folder: Name of the folder.
        modules: The modules that decide what is in a file, those that they import included.
    """

    folder: str
    modules: tuple[str, ...]

    def read(self, log: JsonlLog, name: str) -> tuple[Any, bytes] | None:
        """Return the header and the body of a file, None where it is missing, damaged or was written by other code."""
        cache_folder = caches.find_folder(log.folder)
        if cache_folder is None:
            return None
        try:
            data = disk.read_file(Path(cache_folder, self.folder, name))
            checksum, content = data[:_SUM_CHARS], data[_SUM_CHARS:]
            if _checksum(content) != checksum:
                return None
            line, _, body = content.partition(b"\n")
            code, header = json.loads(line)
            return (header, body) if code == code_digest(*self.modules) else None
        except FAULTS:
            return None

    def write(self, reading: Reading, seq: int, name: str, content: bytes) -> bool:
        """Write a file, unless another process writes now, or its last event is not acknowledged yet.

        A redaction removes texts from every file. It waits for the lock that is held here and is announced before, so
        a text that it removes is not written again after it.

        Args:
            reading: The reading that the content comes from.
            seq: Number of the last event in it.
            name: Name of the file.
            content: What ``encode`` returned.

        Returns:
            False where nothing that this reading came to may be stored any more.

        Raises:
            OSError, TallybookError: The disk refuses.
        """
        log = reading.log
        cache_folder = caches.find_folder(log.folder)
        if cache_folder is None:
            return False
        caches.make_folder(cache_folder, log.folder)
        folder = Path(cache_folder, self.folder)
        disk.make_folder(folder, durable=False)
        fd = disk.open_file(Path(cache_folder, LOCK), write=True, create=True)
        try:
            if not disk.try_lock(fd) or log.head().seq < seq:
                return True
            if redaction.read_pending(log.folder) is not None or last_redaction(log, reading.head) > 0:
                return False
            disk.replace_cache_file(folder / name, _checksum(content) + content)
            return True
        finally:
            os.close(fd)

    def encode(self, header: Any, body: bytes = b"") -> bytes:
        """Return the content of a file, without its checksum."""
        return dumps([code_digest(*self.modules), header]).encode() + b"\n" + body

    def names(self, log: JsonlLog) -> list[str]:
        """Return the names of the files that are there."""
        try:
            cache_folder = caches.find_folder(log.folder)
            return [] if cache_folder is None else [path.name for path in Path(cache_folder, self.folder).iterdir()]
        except OSError:
            return []


def _checksum(content: bytes) -> bytes:
    return sha256(content).hexdigest()[:_SUM_CHARS].encode()
