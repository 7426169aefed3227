"""``playbook.json`` on disk: finding manual edits in it, and replacing it with a new rendering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import contextlib
from itertools import count
import os
from pathlib import Path
import stat
from typing import TYPE_CHECKING, NamedTuple

import attrs

from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, MissingLinesError, Problem
from tallybook.ledger.events import Event, PlaybookAdopted
from tallybook.ledger.fast_stdlib import sha256
from tallybook.ledger.line import MAX_BATCH_BYTES, RawBatch
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.ledger.storage import disk
from tallybook.projections.fold import fold
from tallybook.projections.playbook.render import read_stamp
from tallybook.projections.playbook.view import PLAYBOOK, Playbook
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.reading import Opened
from tallybook.projections.surfaces.workspace.project import PLAYBOOK_NAME, Project

if TYPE_CHECKING:
    from tallybook.ledger.decisions.legacy_import import LegacyFile

    Read = Callable[[], Iterator[RawBatch]]

RENDER_WAIT_MS = 250
_RENDER_ROUNDS = 20


class Rendered(NamedTuple):
    """The last rendering of ``playbook.json``.

    Attributes:
        seq: The event number that it shows.
        sha256: SHA-256 of its bytes, in hex.
    """

    seq: int
    sha256: str


@attrs.frozen
class ExaminedFile:
    """``playbook.json`` as compared with the ledger.

    Attributes:
        events: The manual edit as events; empty where there is none, or the file cannot be read.
        sha256: SHA-256 of its bytes; None where there is no file.
        key: The idempotency key of this very edit.
        problems: What was odd in it.
        legacy: The file as it was read, None where it was not.
        unreadable: Whether it is there and is not a playbook.
        is_foreign: Whether it is not what the shared book says, nor an edit of a moment that is available here.
    """

    events: tuple[Event, ...] = ()
    sha256: str | None = None
    key: str | None = None
    problems: tuple[Problem, ...] = ()
    legacy: LegacyFile | None = None
    unreadable: bool = False
    is_foreign: bool = False

    @property
    def adopted(self) -> bool:
        """Return whether its entries begin the ledger's playbook."""
        return bool(self.events) and isinstance(self.events[0], PlaybookAdopted)


def read_bytes(path: Path) -> bytes | None:
    """Return a file's bytes, None where there is none; no bytes where a link, a pipe or a folder is in its place.

    Raises:
        CannotWriteError: It cannot be read now, so it may hold a manual edit and must not be replaced.
    """
    try:
        return disk.read_file(path, MAX_BATCH_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, CannotWriteError) as error:
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            return b""
        hint = "nothing was recorded; try again"
        raise CannotWriteError(path, f"cannot be read: {disk.reason(error)}", hint) from error


def last_rendered(project: Project) -> Rendered | None:
    """Return the last rendering of ``playbook.json``, None where the note of it is missing or damaged."""
    # The note only saves comparing, so no error of it counts.
    with contextlib.suppress(OSError, CannotWriteError, ValueError):
        seq, digest = disk.read_file(project.ledger / "rendered").decode("ascii").split()
        if seq.isdigit():
            return Rendered(int(seq), digest)
    return None


def adoption_key(digest: str) -> str:
    """Return the idempotency key of importing a file with this SHA-256."""
    return f"adopt:{digest}"


def examine(opened: Opened, state: Playbook, read: Read | None = None) -> ExaminedFile:
    """Compare ``playbook.json`` with the ledger, writing nothing.

    Args:
        opened: The project.
        state: The playbook at the head of the ledger.
        read: Reads the ledger from its beginning, for an edit of an earlier rendering; None for the ledger's own.
    """
    project = opened.project
    # The note comes first: a later rendering is recognised by its own stamp.
    rendering = last_rendered(project)
    data = read_bytes(project.playbook)
    if data is None:
        return ExaminedFile()
    digest = sha256(data).hexdigest()
    if digest == (rendering.sha256 if rendering is not None else state.source):
        # The ledger's own rendering; or the adopted file, before anything was rendered over it.
        return ExaminedFile(sha256=digest)
    from tallybook.ledger.decisions import legacy_import
    from tallybook.projections.surfaces.history import manual_edit

    try:
        # An entry without a name gets one that was never used.
        legacy = legacy_import.read_legacy(data, project.playbook.name, state.used)
    except BadInputError as error:
        why = str(error).removeprefix(f"{project.playbook.name}: ")
        problem = Problem(project.playbook.name, f"cannot be used, and is set aside: {why}")
        return ExaminedFile(sha256=digest, unreadable=True, problems=(problem,))
    if state.stamp == (0, ""):
        legacy, refusals = opened.redactions.filter_legacy(legacy)
        problems = _problems_of(project, legacy, ((text.name or text.item, text.reason) for text in refusals))
        return ExaminedFile(legacy_import.seed_events(legacy), digest, adoption_key(digest), problems, legacy)
    base = _find_base(opened, legacy, state, rendering)
    if base is None:
        return _examine_foreign(opened, legacy, digest)
    events, notes = manual_edit.find_edit(opened, legacy, state, base, read or opened.log.read)
    # The same bytes may be put back after another rendering; the last one makes that another change.
    since = rendering.seq if rendering is not None else ""
    key = f"edit:{legacy.stamp}:{since}:{digest}"
    return ExaminedFile(events, digest, key, _problems_of(project, legacy, notes), legacy)


def _problems_of(project: Project, legacy: LegacyFile, notes: Iterable[tuple[str, str]]) -> tuple[Problem, ...]:
    """Return what a person should know of a file: the problems of its items, and what became of names in it."""
    return (*legacy.problems, *(Problem(f"{project.playbook.name}: {name}", what) for name, what in notes))


def _examine_foreign(opened: Opened, legacy: LegacyFile, digest: str) -> ExaminedFile:
    """Return another machine's rendering: no edit of this machine's, and set aside where the book says otherwise."""
    from tallybook.projections.surfaces.history import manual_edit

    stamp, log = read_stamp(legacy.shared_stamp), opened.log
    if stamp is not None and reading.has_book(log) and stamp[0] <= log.history.frontier.seq:
        book = log.book_playbook(stamp[0])
        entries = tuple(item.entry for item in legacy.items)
        by_section = manual_edit.is_by_section(legacy, opened.settings.format)
        if (book.seq, book.chain) == stamp and entries == manual_edit.shown_entries(book, by_section=by_section):
            return ExaminedFile(sha256=digest)
    problem = Problem(
        opened.project.playbook.name, "is not what the book says, nor an edit of what is here, and is set aside"
    )
    return ExaminedFile(sha256=digest, is_foreign=True, problems=(problem,))


def _find_base(opened: Opened, legacy: LegacyFile, state: Playbook, rendering: Rendered | None) -> Playbook | None:
    """Return the playbook that was changed: the one at the file's stamp, else the last rendering, else the head.

    None where the stamp is none of this machine's, or lines of the shared book as of then are missing.
    """
    stamp = read_stamp(legacy.stamp)
    if stamp is not None and state.shared_stamp[0]:
        log = reading.open_own_log(opened.project)
        own = ((batch.last, batch.chain) for batch in log.read() if batch.last <= stamp[0])
        if stamp[0] > log.head().seq or stamp not in own:
            return None
    # A file without a stamp is an edit of the last rendering, or else of the adopted file.
    seq = stamp[0] if stamp is not None else rendering.seq if rendering is not None else state.adoption
    if seq >= state.stamp[0]:
        return state
    try:
        base = reading.current(opened.log, seq)
    except MissingLinesError:
        return None
    return base if stamp is None or base.stamp == stamp else state


def edit_batch(end: int, file: ExaminedFile, at: str) -> Batch:
    """Return the manual edit in a file, of which there must be one, as the batch after an event number."""
    by = Author("import" if file.adopted else "human")
    return make_batch(*(EventRecord(end + index, at, event, by=by) for index, event in enumerate(file.events, 1)))


def with_edit(state: Playbook, file: ExaminedFile, at: str) -> Playbook:
    """Return the playbook with the manual edit in a file; ``state`` is changed."""
    return fold(PLAYBOOK, [edit_batch(state.seq, file, at)], state) if file.events else state


def render(opened: Opened, state: Playbook, file: ExaminedFile) -> bool:
    """Write ``playbook.json`` unless it shows a later moment of this ledger already.

    Args:
        opened: The project.
        state: The playbook to write.
        file: The file as it was examined; one that cannot be read is set aside first.

    Returns:
        False where the file was changed since it was examined: it must be examined again.

    Raises:
        CannotWriteError: The file is as it was.
        OutcomeUnknownError: The disk did not confirm the new one.
    """
    log, path = opened.log, opened.project.ledger / "render.lock"
    with disk.hold_open(path, write=True, create=True) as fd:
        try:
            disk.lock(fd, path, RENDER_WAIT_MS)
        except LockHeldError:
            # The process that holds it looks at the head once more before it lets go.
            return True
        for _ in range(_RENDER_ROUNDS):
            # Writers that did not wait for this one have appended since.
            state = reading.catch_up(log, state) if log.head().seq > state.seq else state
            if not _replace(opened, state, file):
                return False
            if log.head().seq <= state.seq:
                break
        return True


def _replace(opened: Opened, state: Playbook, file: ExaminedFile) -> bool:
    """Put the rendering in place of the file that was examined, or of an earlier rendering; False for any other."""
    project = opened.project

    def is_replaceable() -> bool:
        # A person may change the file until the very moment of the rename.
        digest = _digest(project)
        if digest in {None, file.sha256}:
            return True
        rendering = last_rendered(project)
        return rendering is not None and digest == rendering.sha256

    if (file.unreadable or file.is_foreign) and _digest(project) == file.sha256:
        set_aside(project, opened.log.now().at)
    data = opened.rendering_of(state)
    digest = sha256(data).hexdigest()
    # What was read when the file was examined need not be read again: a later edit is found by the next command.
    if digest != file.sha256 and not disk.replace_file(project.playbook, data, may_replace=is_replaceable):
        return False
    # The note only saves comparing: without it the file's own stamp tells what it shows.
    disk.replace_cache_file(project.ledger / "rendered", f"{state.stamp[0]} {digest}\n".encode())
    return True


def _digest(project: Project) -> str | None:
    data = read_bytes(project.playbook)
    return None if data is None else sha256(data).hexdigest()


def set_aside(project: Project, at: str) -> Path:
    """Keep an unreadable ``playbook.json``, byte for byte, under a dated name in its folder.

    It is the same file under another name, with the mode that its owner gave it.

    Raises:
        CannotWriteError: It cannot be kept, or a link leads to it, so it must not be replaced.
    """
    if project.playbook != project.claude / PLAYBOOK_NAME:
        hint = "the file is unchanged; remove the link"
        raise CannotWriteError(project.playbook, "is not a playbook, and a link leads to it", hint)
    name = f"{project.playbook.name}.unreadable-{at[:19].replace(':', '').replace('-', '')}"
    aside = project.playbook.with_name(name)
    for number in count(2):
        try:
            # A hard link never replaces what another process set aside, and the file stays until it is replaced.
            os.link(project.playbook, aside)
        except FileExistsError:
            aside = project.playbook.with_name(f"{name}-{number}")
        except OSError:
            break
        else:
            return aside
    try:
        # A folder, or a file system without links.
        project.playbook.rename(aside)
    except OSError as error:
        raise CannotWriteError(project.playbook, disk.reason(error), "the file is unchanged") from error
    return aside
