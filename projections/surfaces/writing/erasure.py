"""Search for texts in the project's files, in every spelling; overwriting them in place; the end of a redaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property
import json
import os
from pathlib import Path
import re
import stat

import attrs

from tallybook.ledger import codec, errors
from tallybook.ledger.decisions.curation import APPLY, PERSON, PROPOSE
from tallybook.ledger.events import EVENT_TYPES, RATINGS, EventRedacted
from tallybook.ledger.fast_stdlib import dumps
from tallybook.ledger.line import KNOWN_RATERS, LOG_NAME
from tallybook.ledger.log import JsonlLog
from tallybook.ledger.names import PREFIX, SECTIONS
from tallybook.ledger.playbook_constants import PERSONAL_PREFIX
from tallybook.ledger.records import EventRecord
from tallybook.ledger.sharing import replica
from tallybook.ledger.storage import caches, disk, redacted_digests, redaction
from tallybook.ledger.storage.disk import read_at
from tallybook.ledger.storage.redacted_digests import MIN_TEXT_CHARS, normalize_look
from tallybook.ledger.storage.redaction import PendingRedaction
from tallybook.projections.surfaces.history import checkpoints
from tallybook.projections.surfaces.workspace.project import Project

_WINDOW_BYTES = 1024 * 1024
# Larger files are not JSON of Tallybook, and are only searched byte by byte.
_MAX_JSON_BYTES = 16 * 1024 * 1024
# The ledger overwrites its log itself, and those of a shared book; the other files hold no text, or are rendered again.
_APART = re.compile(
    rf"playbook\.json|ledger/(?:({redaction.PENDING_FILE}|{re.escape(LOG_NAME)}|head|lock)"
    rf"|{replica.FOLDER}/[^/]+/({redaction.PENDING_FILE}|{re.escape(LOG_NAME)}|head)"
    rf"|{redacted_digests.FOLDER}/{re.escape(redacted_digests.NAME)})"
)
# Where the agent keeps whole checkouts of the repository: copies like any other.
_CHECKOUTS = "worktrees"
READ, CUT, ASIDE = "read", "cut", "aside"
"""Kinds of Tallybook's files: one that it reads again, one that quotes only the beginning of a long text, any other."""
# The files that Tallybook writes in the agent's folder besides its score files; other files there are foreign.
_KINDS = {
    re.compile(r"ledger/.+", re.DOTALL): READ,
    re.compile(r"diagnostic/\d{8}T\d{12}Z_[^/]+\.txt", re.DOTALL): CUT,
    re.compile(r"playbook\.json\.unreadable-[^/]+|\.playbook\.json\.\d+\.tmp", re.DOTALL): ASIDE,
}
_SCORES = "metrics/scores"
_FOLDERS = ("ledger", "diagnostic", _SCORES)


def files(project: Project) -> Iterator[tuple[Path, str]]:
    """Yield every file in the agent's folder but the log and the playbook, with its kind; empty for a foreign file.

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
            if not _APART.fullmatch(place) and _may_hold(path, claude):
                yield path, "" if path.is_symlink() else _find_kind(path, place)
    # What cannot be listed may hold files of ours.
    places = ((path, path.relative_to(claude).as_posix()) for path in closed)
    yield from ((path, ASIDE if place == "." or place.startswith(_FOLDERS) else "") for path, place in places)


def _find_kind(path: Path, place: str) -> str:
    """Return the kind of a file, by its name and, where others use such names too, by its content; empty if foreign."""
    if not place.startswith(f"{_SCORES}/"):
        return next((kind for pattern, kind in _KINDS.items() if pattern.fullmatch(place)), "")
    # Slow to load, and only a project that is scored has such files.
    from tallybook.projections.scores import view as score_files

    with suppress(OSError, errors.TallybookError):
        if score_files.is_score_file(path.parent.name, path.name, disk.read_file(path)):
            return READ
    return ""


def _may_hold(path: Path, claude: Path) -> bool:
    """Return whether a path in the agent's folder is a file, or a link to something elsewhere."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError:
        return True
    if stat.S_ISLNK(mode):
        return path.exists() and not path.resolve().is_relative_to(claude.resolve())
    return stat.S_ISREG(mode)


def holds(path: Path, wanted: TextSearch, span: tuple[int, int] | None = None, kind: str = "") -> bool:
    """Return whether a file holds one of the texts.

    Args:
        path: The file.
        wanted: The texts.
        span: The range of bytes to search; None for the whole file.
        kind: As for `TextSearch.find`.

    Raises:
        OSError: It cannot be read.
        CannotWriteError: It is not a regular file.
    """
    with disk.hold_open(path) as fd:
        begin, end = span or (0, os.fstat(fd).st_size)
        if end - begin > _MAX_JSON_BYTES:
            return next(_places(fd, (begin, end), wanted.needles), None) is not None
        return wanted.holds(read_at(fd, end - begin, begin), kind)


def overwrite(path: Path, wanted: TextSearch, kind: str = "") -> bool:
    """Overwrite the texts in a file with as many asterisks, durably; arguments as for `holds`.

    Returns:
        Whether there was one.

    Raises:
        CannotWriteError: It cannot be overwritten.
        OutcomeUnknownError: The disk would not confirm it.
    """
    try:
        with disk.hold_open(path, write=True) as fd:
            size = os.fstat(fd).st_size
            if size > _MAX_JSON_BYTES:
                places = list(_places(fd, (0, size), wanted.needles))
            else:
                places = list(wanted.find(read_at(fd, size, 0), kind))
            for begin, end in places:
                os.lseek(fd, begin, os.SEEK_SET)
                disk.write_all(fd, b"*" * (end - begin), path)
            if places:
                disk.flush(fd, path)
    except OSError as error:
        raise errors.CannotWriteError(path, disk.reason(error), "the text is still in it") from error
    return bool(places)


def _places(fd: int, span: tuple[int, int], needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the place of each of these spellings in a range of a file, as (begin, end) offsets."""
    overlap = max(map(len, needles), default=1) - 1
    for position in range(*span, _WINDOW_BYTES):
        window = read_at(fd, min(_WINDOW_BYTES + overlap, span[1] - position), position)
        yield from ((position + begin, position + end) for begin, end in find_bytes(window, needles))


# Searching a text

# JSON in JSON in JSON: an original item of a file, in a payload, in the spool.
_LAYERS = 3
# In a broken file a line may end within a string.
_STRING = re.compile(rb'"([^"\\\n]*+(?:\\.[^"\\\n]*+)*+)(?:"(\s*:)?)?')
_ESCAPE = re.compile(r'\\+(?:u([0-9a-fA-F]{4})|([nrtbf"/]))?')
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
# The keys of Tallybook's own JSON; any other key is an entry's text or name.
_KEY = re.compile(rb"[a-z_]+")
_WORDS = frozenset(word.encode() for word in (*EVENT_TYPES, *RATINGS, *KNOWN_RATERS, *SECTIONS, PROPOSE, APPLY, PERSON))
# Moments, names of entries, ids and digests.
_SLUGS = "|".join(SECTIONS.values())
_FORMATTED = re.compile(
    rf"\d{{4}}-\d\d-\d\dT[\d:.]+Z|(?:{PREFIX}|{PERSONAL_PREFIX}|(?:{_SLUGS})-)\d+|[0-9a-f-]{{32,64}}".encode()
)
# A diagnostic quotes a text up to its 80th character; what may follow such a beginning there.
_CUT_CHARS = 80
_CUT = '" (helpful='


class TextSearch:
    """A search for texts.

    Attributes:
        texts: The texts.
    """

    def __init__(self, texts: Collection[str]) -> None:
        """Remember the texts."""
        self.texts = tuple(texts)

    @cached_property
    def spellings(self) -> tuple[str, ...]:
        """Return the spellings of the texts: as they are, and within JSON."""
        forms = dict.fromkeys(self.texts)
        for _ in range(_LAYERS):
            for text in tuple(forms):
                escaped = json.dumps(text)[1:-1]
                capital = re.sub(r"\\u[0-9a-f]{4}", lambda match: rf"\u{match[0][2:].upper()}", escaped)
                forms |= dict.fromkeys((dumps(text)[1:-1], escaped, capital))
        # The longest first: a shorter one may be its beginning.
        return tuple(sorted(forms, key=len, reverse=True))

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        """Return the spellings as bytes."""
        return tuple(form.encode("utf-8", "surrogatepass") for form in self.spellings)

    @cached_property
    def _cut_needles(self) -> tuple[bytes, ...]:
        """Return how the texts end where a diagnostic cuts them off, the longest first."""
        ends = range(MIN_TEXT_CHARS, _CUT_CHARS + 1)
        cut = {text[:end] + _CUT for text in self.texts for end in ends if end < len(text)}
        return tuple(form.encode("utf-8", "surrogatepass") for form in sorted(cut, key=len, reverse=True))

    @cached_property
    def _looks(self) -> tuple[str, ...]:
        """Return how the texts look; one of which too few characters are visible only matches exactly."""
        looks = (normalize_look(_normalize_escapes(text)) for text in self.texts)
        return tuple(look for look in looks if len(look.strip()) >= MIN_TEXT_CHARS)

    def is_spelled_in(self, text: str) -> bool:
        """Return whether a text holds one of the texts in one of its spellings."""
        return any(form in text for form in self.spellings)

    def is_in(self, text: str) -> bool:
        """Return whether a text holds one of the texts, or what looks the same, also within JSON."""
        if self.is_spelled_in(text):
            return True
        # A backslash may be the text's own, as in a path of Windows.
        looks = {normalize_look(text), normalize_look(_normalize_escapes(text))}
        return any(form in look for look in looks for form in self._looks)

    def find(self, data: bytes, kind: str = "") -> Iterator[tuple[int, int]]:
        """Yield the places to overwrite in a file, as (begin, end) offsets.

        Args:
            data: The file's bytes.
            kind: READ where Tallybook reads the file again: only values are erased where it is JSON, and no words of
                its format. CUT where it quotes only the beginning of a long text. Empty for any other file.
        """
        if kind == CUT:
            yield from ((begin, end - len(_CUT)) for begin, end in find_bytes(data, self._cut_needles))
        text = data.decode("utf-8", "replace")
        if self.is_in(text):
            has_words = kind == READ and _is_json(text)
            if not has_words:
                yield from find_bytes(data, self.needles)
            yield from self._find_in_strings(data, has_words=has_words)

    def is_in_values(self, data: bytes) -> bool:
        """Return whether a value of a line of the log holds one of the texts."""
        text = data.decode("utf-8", "replace")
        return self.is_in(text) and next(self._find_in_strings(data, has_words=True), None) is not None

    def _find_in_strings(self, data: bytes, *, has_words: bool) -> Iterator[tuple[int, int]]:
        """Yield the places to overwrite within the strings of JSON, where it ``has_words`` not in those."""
        for match in _STRING.finditer(data):
            if has_words and self._is_word(match[1], is_key=match[2] is not None):
                continue
            begin, end = match.span(1)
            unerased = bytearray(match[1])
            for first, last in find_bytes(match[1], self.needles):
                unerased[first:last] = b"*" * (last - first)
                yield begin + first, begin + last
            if self.is_in(unerased.decode("utf-8", "replace")):
                yield begin, end

    def holds(self, data: bytes, kind: str = "") -> bool:
        """Return whether a file has one of the texts, also where it cannot be overwritten; arguments as for `find`."""
        if next(self.find(data, kind), None) is not None:
            return True
        text = data.decode(json.detect_encoding(data), "replace")
        return not (kind == READ and _is_json(text)) and self.is_in(text)

    def _is_word(self, value: bytes, *, is_key: bool) -> bool:
        """Return whether a string of JSON is a word of Tallybook's format."""
        if is_key:
            return _KEY.fullmatch(value) is not None
        # A secret may have the form of a digest: it is erased where it is the whole text.
        return value in _WORDS or (_FORMATTED.fullmatch(value) is not None and value not in self.needles)


def find_bytes(data: bytes, needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the place of each of these needles, as (begin, end) offsets."""
    for needle in needles:
        offset = data.find(needle)
        while offset >= 0:
            yield offset, offset + len(needle)
            offset = data.find(needle, offset + 1)


def _is_json(text: str) -> bool:
    """Return whether a text is JSON, or lines of JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        lines = [line for line in text.split("\n") if line.strip()]
        # Most files that are not JSON are told by their first line.
        return len(lines) > 1 and all(map(_is_json, lines))
    return True


def _normalize_escapes(text: str) -> str:
    """Return a text without the escapes of JSON, of every layer."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape, text)
    # Two escapes may be one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _CONTROLS.get(match[2], match[2]) if match[2] else "\\"


# ---- A redaction, to its end ----


@attrs.define
class RedactionResult:
    """What holds a text, or what a redaction erased.

    Attributes:
        events: The events that held the text, in order.
        bodies: Numbers of events that hold it outside their free text, where it cannot be erased.
        files: Tallybook's files that hold it, or in which it was overwritten.
        remaining: Where the text still is, and why, a line each.
        foreign: Files in the agent's folder that hold it and are not Tallybook's.
        unsearched: Other people's files that could not be searched, such as a link out of the folder, a line each.
        alike: How many of the events hold only what looks the same.
        unrecorded: How many of the events are not in the ledger yet: they wait in the spool, or are a manual edit.
        mine: The folder of the person's own playbook, which holds it as well; None where it does not.
    """

    events: tuple[EventRecord, ...] = ()
    bodies: tuple[int, ...] = ()
    files: list[Path] = attrs.field(factory=list)
    remaining: list[str] = attrs.field(factory=list)
    foreign: list[Path] = attrs.field(factory=list)
    unsearched: list[str] = attrs.field(factory=list)
    alike: int = 0
    unrecorded: int = 0
    mine: Path | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing holds the text."""
        return not (self.events or self.bodies or self.files or self.remaining or self.foreign)


def finish(project: Project, log: JsonlLog) -> RedactionResult:
    """Finish the pending redaction: append its events, overwrite the texts in the files, and last in the log.

    If it is killed at any point, or refused, the next writer begins it again; readers leave the texts out all the
    while.

    Raises:
        TallybookError: The ledger is damaged.
    """
    pending, done = redaction.read_pending(log.folder), RedactionResult()
    if pending is None:
        return done
    # Of a shared project: event numbers and offsets are those of the own ledger alone.
    log = JsonlLog(log.folder, log.now)
    try:
        _note_in_copies(log.folder, pending)
        with log.transaction() as tx:
            redacted = {id_ for batch in tx.read() for id_ in redaction.read_redacted_ids(batch)}
            drafts = [codec.encode(EventRedacted(id_, pending.reason)) for id_ in pending.ids if id_ not in redacted]
            if drafts:
                tx.append(drafts, pending.by)
        _await_rendering(project)
        # Checkpoints hold texts; one from before a redaction is never used again.
        uncleared = checkpoints.clear(log.folder)
        done = search_files(project, pending.texts, overwriting=True)
        done.remaining += [*uncleared, *_erase_in_copies(log.folder, pending)]
        with log.transaction() as tx:
            redaction.erase(log.path, tx.read(), frozenset(pending.ids))
            # Another process may have finished it, and a third may have requested more since.
            if not done.remaining and redaction.read_pending(log.folder) == pending:
                redaction.remove_pending(log.folder)
    except (errors.LockHeldError, errors.CannotWriteError, errors.OutcomeUnknownError) as error:
        done.remaining.append(f"{log.path}: not finished, the next command that writes continues: {error}")
    finally:
        log.close()
    return done


def _note_in_copies(ledger: Path, pending: PendingRedaction) -> None:
    """List the events in each copy of a shared book, so that nobody reads their texts there from now on.

    The list stays, because the book may not say yet that they are redacted.
    """
    # Where only the emptied file remains to be removed, there are no events, and no author who could list them.
    for folder in list_copies(ledger) if pending.ids else ():
        with suppress(errors.TallybookError):
            # Without the texts: the file stays.
            redaction.add_pending(folder, pending.ids, (), pending.reason or "redacted", pending.by)
            checkpoints.clear(folder)


def _erase_in_copies(ledger: Path, pending: PendingRedaction) -> list[str]:
    """Erase the texts of events in the copies of a shared book; return what could not be erased, a line each."""
    _note_in_copies(ledger, pending)
    remaining: list[str] = []
    folders = list_copies(ledger)
    if not folders:
        return remaining
    try:
        # Who takes the lock of syncs removes what an interrupted append left; a sync that runs has done it.
        with suppress(errors.LockHeldError), replica.lock(ledger, 0):
            pass
    except errors.TallybookError as error:
        remaining.append(str(error))
    for folder in folders:
        copy = JsonlLog(folder)
        try:
            redaction.erase(copy.path, copy.read(), redaction.read_pending_ids(folder).union(pending.ids))
        except errors.DamagedLedgerError:
            # One that was set aside: its bytes prove nothing, and are searched like those of any file.
            overwrite(copy.path, TextSearch(pending.texts))
        except errors.TallybookError as error:
            remaining.append(f"{copy.path}: not erased: {error}")
    return remaining


def list_copies(ledger: Path) -> list[Path]:
    """Return the folders of every copy of a shared book, those that were set aside included."""
    return sorted(path.parent for path in ledger.glob(f"{replica.FOLDER}/*/{LOG_NAME}"))


def _await_rendering(project: Project) -> None:
    """Wait for a rendering or a checkpoint that may have begun before the event; later ones hold no such text.

    A temporary file that still holds it belongs to a killed process, and is never renamed.

    Raises:
        LockHeldError: It takes too long.
    """
    locks = {project.ledger / "render.lock": True}
    cache = caches.find_folder(project.ledger)
    if cache is not None:
        locks[Path(cache, checkpoints.LOCK)] = False
    for path, create in locks.items():
        # Nobody stored a checkpoint yet, or another redaction removed the cache just now.
        with suppress(FileNotFoundError), disk.hold_open(path, write=True, create=create) as fd:
            disk.lock(fd, path, disk.LOCK_WAIT_MS)


def search_files(project: Project, texts: Collection[str], *, overwriting: bool) -> RedactionResult:
    """Find every file that holds one of these texts, and overwrite it in Tallybook's own files if ``overwriting``."""
    done, wanted = RedactionResult(), TextSearch(texts)
    for path, kind in files(project) if texts else ():
        search_file(done, path, kind, wanted, overwriting=overwriting)
    return done


def search_file(done: RedactionResult, path: Path, kind: str, wanted: TextSearch, *, overwriting: bool = False) -> None:
    """Note in a result what is found in a file of a kind, as ``search_files``."""
    try:
        if overwrite(path, wanted, kind) if kind and overwriting else holds(path, wanted, kind=kind):
            (done.files if kind else done.foreign).append(path)
        if kind and overwriting and holds(path, wanted, kind=kind):
            done.remaining.append(f"{path}: contains it in a spelling that cannot be overwritten; delete the file")
    except (errors.TallybookError, OSError) as error:
        # A file that was deleted in the meantime holds nothing; one that cannot be read may.
        if path.exists():
            why = "could not be listed" if path.is_dir() else f"could not be searched: {error}"
            (done.remaining if kind else done.unsearched).append(f"{path}: {why}")
