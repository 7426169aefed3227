"""A text in the project's files: find it in every spelling, and overwrite it in place."""

from __future__ import annotations

import json
import os
from pathlib import Path
import re
import stat
from typing import TYPE_CHECKING, Any

from tallybook.ledger.errors import CannotWriteError, TallybookError
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.storage import disk, redacted_digests
from tallybook.ledger.storage.disk import read_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallybook.projections.surfaces.workspace.project import Project

MIN_TEXT_CHARS = 4
"""A shorter text would match much that nobody wants redacted."""

_WINDOW_BYTES = 1024 * 1024
# Larger files are not JSON of Tallybook, and are only searched byte by byte.
_MAX_JSON_BYTES = 16 * 1024 * 1024
# JSON in JSON in JSON: an original item of a file, in a payload, in the spool.
_LAYERS = 3
# The ledger overwrites its log itself; the other files hold no text, or are rendered again.
_DIGESTS = f"ledger/{redacted_digests.FOLDER}/{redacted_digests.NAME}"
_APART = frozenset({"ledger/events.jsonl", "ledger/head", "ledger/lock", "ledger/erasing", "playbook.json", _DIGESTS})
# Where the agent keeps whole checkouts of the repository: copies like any other.
_CHECKOUTS = "worktrees"
# What Tallybook writes in the agent's folder besides its score files; anything else there is somebody's own.
_OWN = re.compile(
    r"ledger/.+|playbook\.json\.unreadable-[^/]+|\.playbook\.json\.\d+\.tmp|diagnostic/\d{8}T\d{12}Z_[^/]+\.txt",
    re.DOTALL,
)
_SCORES = "metrics/scores"
_FOLDERS = ("ledger", "diagnostic", _SCORES)
# A diagnostic quotes a text up to its 80th character; what may follow such a beginning there.
_CUT_CHARS = 80
_CUT = '" (helpful='


def spellings(texts: Collection[str]) -> tuple[str, ...]:
    """Return the spellings of texts in a file: as they are, and within JSON."""
    found = dict.fromkeys(texts)
    for _ in range(_LAYERS):
        for text in tuple(found):
            found |= dict.fromkeys((dumps(text)[1:-1], escaped := json.dumps(text)[1:-1], _capital(escaped)))
    # The longest first: a shorter one may be its beginning.
    return tuple(sorted(found, key=len, reverse=True))


def cut_spellings(texts: Collection[str]) -> tuple[str, ...]:
    """Return how texts may end where a diagnostic cuts them off, the longest first."""
    found = {text[:chars] for text in texts for chars in range(MIN_TEXT_CHARS, min(len(text), _CUT_CHARS + 1))}
    return tuple(beginning + _CUT for beginning in sorted(found, key=lambda beginning: (-len(beginning), beginning)))


def _capital(escaped: str) -> str:
    return re.sub(r"\\u[0-9a-f]{4}", lambda found: rf"\u{found[0][2:].upper()}", escaped)


def files(project: Project) -> Iterator[tuple[Path, bool]]:
    """Yield every file in the agent's folder but the log and the playbook, and whether it is Tallybook's.

    Folders that cannot be listed and links that lead out of the folder are among them: they cannot be searched.
    Checkouts are left out: what is Tallybook's in them belongs to another folder.
    """
    claude = project.claude
    closed: list[Path] = []
    for folder, folders, names in os.walk(claude, onerror=lambda error: closed.append(Path(error.filename))):
        linked = [name for name in folders if Path(folder, name).is_symlink()]
        if Path(folder) == claude:
            folders[:] = [name for name in folders if name != _CHECKOUTS]
        for name in sorted((*names, *linked)):
            path = Path(folder, name)
            place = path.relative_to(claude).as_posix()
            if place not in _APART and _may_hold(path, claude):
                yield path, _is_own(path, place) and not path.is_symlink()
    # What cannot be listed may hold files of ours.
    yield from ((path, path.relative_to(claude).as_posix().startswith(_FOLDERS)) for path in closed)


def _is_own(path: Path, place: str) -> bool:
    """Say whether Tallybook writes a file of this name and, where others may have one of that name, of this content."""
    if not place.startswith(f"{_SCORES}/"):
        return _OWN.fullmatch(place) is not None
    # Slow to load, and only a project that is scored has such files.
    from tallybook.projections.scores.reports import score_files

    try:
        document = json.loads(disk.read_file(path))
    except (OSError, ValueError, RecursionError, TallybookError):
        return False
    return score_files.named_as(path.parent.name, path.name, document)


def _may_hold(path: Path, claude: Path) -> bool:
    """Say whether a name in the agent's folder stands for a file, or leads to something elsewhere."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if stat.S_ISLNK(mode):
        return path.exists() and not path.resolve().is_relative_to(claude.resolve())
    return stat.S_ISREG(mode)


def holds(path: Path, wanted: Collection[str]) -> bool:
    """Say whether a file holds one of these spellings, or, if it is JSON, one of the texts in another spelling.

    Raises:
        OSError: It cannot be read.
        CannotWriteError: It is not a regular file.
    """
    needles = [form.encode("utf-8", "surrogatepass") for form in wanted]
    fd = disk.open_file(path, write=False)
    try:
        size = os.fstat(fd).st_size
        if next(_places(fd, (0, size), needles), None) is not None:
            return True
        return size <= _MAX_JSON_BYTES and _says(read_at(fd, size, 0), wanted)
    finally:
        os.close(fd)


def overwrite(path: Path, wanted: Collection[str]) -> bool:
    """Overwrite each of these spellings in a file with as many asterisks, durably.

    Returns:
        Whether there was one.

    Raises:
        CannotWriteError: It cannot be overwritten.
        OutcomeUnknownError: The disk would not confirm it.
    """
    needles = [form.encode("utf-8", "surrogatepass") for form in wanted]
    try:
        fd = disk.open_file(path, write=True)
        try:
            places = list(_places(fd, (0, os.fstat(fd).st_size), needles))
            for begin, end in places:
                stars = b"*" * len(read_at(fd, end - begin, begin).removesuffix(_CUT.encode()))
                os.lseek(fd, begin, os.SEEK_SET)
                disk.write_all(fd, stars, path)
            if places:
                disk.flush(fd, path)
        finally:
            os.close(fd)
    except OSError as error:
        raise CannotWriteError(path, disk.reason(error), "the text is still in it") from error
    return bool(places)


def in_range(path: Path, begin: int, end: int, wanted: Collection[str]) -> bool:
    """Say whether a range of a file holds one of these spellings."""
    needles = [form.encode("utf-8", "surrogatepass") for form in wanted]
    fd = disk.open_file(path, write=False)
    try:
        return next(_places(fd, (begin, end), needles), None) is not None
    finally:
        os.close(fd)


def _places(fd: int, span: tuple[int, int], needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where a needle stands in a stretch of a file, as (begin, end) offsets."""
    overlap = max(map(len, needles), default=1) - 1
    for position in range(*span, _WINDOW_BYTES):
        window = read_at(fd, min(_WINDOW_BYTES + overlap, span[1] - position), position)
        for needle in needles:
            found = window.find(needle)
            while found >= 0:
                yield position + found, position + found + len(needle)
                found = window.find(needle, found + 1)


def _says(data: bytes, wanted: Collection[str]) -> bool:
    """Say whether a text of a JSON document holds one of the forms, however the document spells it."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str) and any(form in one for form in wanted):
            return True
        if isinstance(one, dict):
            waiting += one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return False
