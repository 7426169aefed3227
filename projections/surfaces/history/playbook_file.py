"""``playbook.json`` on disk: manual edits of it as events, a state with them, and replacing it with a new rendering."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
import contextlib
from itertools import chain
import json
import os
from pathlib import Path
import stat
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

import attrs

from tallybook.ledger.codec import decode
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, MissingLinesError, Problem
from tallybook.ledger.events import Entry, Event, ItemSkipped, PlaybookAdopted, PointEdited
from tallybook.ledger.fast_stdlib import dumps, import_lazily, sha256
from tallybook.ledger.line import MAX_BATCH_BYTES
from tallybook.ledger.names import (
    OTHERS,
    SECTION_KEYS,
    SECTION_NAMES,
    SECTIONS,
    filter_sections,
    find_section,
    read_sections,
    rename_in_sections,
)
from tallybook.ledger.playbook_constants import REDACTED, SECTIONED
from tallybook.ledger.records import Author, Batch, EventRecord, make_batch
from tallybook.ledger.sharing.numbers import PENDING, book_number
from tallybook.ledger.storage import disk
from tallybook.projections.playbook.fold import State, fold, fold_history, history
from tallybook.projections.playbook.render import entries_by_section, playbook_bytes, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK, VERSION, Playbook
from tallybook.projections.surfaces.console.output import format_time
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.history.checkpoints import Form, S
from tallybook.projections.surfaces.history.reading import Opened, fold_view, has_book
from tallybook.projections.surfaces.workspace.project import PLAYBOOK_NAME, Project

if TYPE_CHECKING:
    from tallybook.ledger.decisions import legacy_import, update
    from tallybook.ledger.decisions.legacy_import import LegacyFile, LegacyItem
    from tallybook.ledger.log import JsonlLog

else:
    # Mostly the file is the last rendering, and then nothing is decided.
    _DECISIONS = "tallybook.ledger.decisions."
    legacy_import, update = import_lazily(*(_DECISIONS + name for name in ("legacy_import", "update")))

RENDER_WAIT_MS = 250
_RENDER_ROUNDS = 20
_WITHOUT_COUNTS = ("bare_string", "dict_no_score")
_PLAIN_HEADINGS = frozenset(dumps({heading: []}) for heading in SECTIONS)
"""The headings of a rendering in the later format, as a file's skipped items."""


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


def read_playbook(project: Project, data: bytes, taken: Collection[str] = ()) -> LegacyFile:
    """Return what the bytes of ``playbook.json`` say; an entry without a name gets one that is not taken.

    Raises:
        BadInputError: They are no playbook, or something else than a file is in its place.
    """
    if not data and not project.playbook.is_file():
        raise BadInputError(project.playbook.name, "is not a file")
    return legacy_import.read_legacy(data, project.playbook.name, taken)


def last_rendered(project: Project) -> Rendered | None:
    """Return the last rendering of ``playbook.json``, None where the note of it is missing or damaged."""
    # The note only saves comparing, so no error of it counts.
    with contextlib.suppress(OSError, CannotWriteError, ValueError):
        seq, digest = disk.read_file(project.ledger / "rendered").decode("ascii").split()
        if seq.isdigit():
            return Rendered(int(seq), digest)
    return None


def last_rendering(project: Project, *, edited: bool = False) -> Playbook | None:
    """Return the entries that ``playbook.json`` was rendered with last; None where it is no such rendering.

    Args:
        project: The project.
        edited: Whether a file with a manual edit will do.
    """
    rendered, data = last_rendered(project), read_bytes(project.playbook)
    if rendered is None or data is None or not (edited or sha256(data).hexdigest() == rendered.sha256):
        return None
    try:
        legacy = legacy_import.read_legacy(data, project.playbook.name)
    except BadInputError:
        return None
    top = legacy.top_keys
    updated = top.pop("last_updated", None)
    entries = {item.entry.name: item.entry for item in legacy.items}
    return Playbook(rendered.seq, entries=entries, used=set(entries), top=top, adopted_at=updated)


def adoption_key(digest: str) -> str:
    """Return the idempotency key of importing a file with this SHA-256."""
    return f"adopt:{digest}"


def examine(opened: Opened, state: Playbook) -> ExaminedFile:
    """Compare ``playbook.json`` with the ledger, writing nothing.

    Args:
        opened: The project.
        state: The playbook at the head of the ledger.
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
    try:
        legacy = read_playbook(project, data, state.used)
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
    events, notes = _find_edit(opened, legacy, state, base)
    # The same bytes may be put back after another rendering; the last one makes that another change.
    since = rendering.seq if rendering is not None else ""
    key = f"edit:{legacy.stamp}:{since}:{digest}"
    if events and opened.log.find_delivery(key) is not None:
        # It is recorded, and nothing was rendered after it.
        events = ()
    return ExaminedFile(events, digest, key, _problems_of(project, legacy, notes), legacy)


def _problems_of(project: Project, legacy: LegacyFile, notes: Iterable[tuple[str, str]]) -> tuple[Problem, ...]:
    """Return what a person should know of a file: the problems of its items, and what became of names in it."""
    return (*legacy.problems, *(Problem(f"{project.playbook.name}: {name}", what) for name, what in notes))


def _examine_foreign(opened: Opened, legacy: LegacyFile, digest: str) -> ExaminedFile:
    """Return another machine's rendering: no edit of this machine's, and set aside where the book says otherwise."""
    stamp, log = read_stamp(legacy.shared_stamp), opened.log
    if stamp is not None and reading.has_book(log) and stamp[0] <= log.history.frontier.seq:
        book = log.book_playbook(stamp[0])
        entries = tuple(item.entry for item in legacy.items)
        by_section = _is_by_section(legacy, opened.settings.format)
        if (book.seq, book.chain) == stamp and entries == _list_shown_entries(book, by_section=by_section):
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


# The manual edit in a file


def _find_edit(
    opened: Opened, legacy: LegacyFile, state: Playbook, base: Playbook
) -> tuple[tuple[Event, ...], list[tuple[str, str]]]:
    """Return the manual edit in a file as events, none where nothing was changed, and what is odd in it.

    Args:
        opened: The project.
        legacy: The file.
        state: The playbook at the head of the ledger.
        base: The playbook that was edited.

    Returns:
        Of what is odd, a name or a heading, and what became of it.
    """
    log, redacted, form = opened.log, opened.redactions, opened.settings.format
    by_section = _is_by_section(legacy, form)
    by_index = _name_entries(legacy, base)
    if base.rewrites < state.rewrites:
        # A file that is older than a redaction has a text that was redacted since.
        gone = {name for name, entry in base.entries.items() if entry.text == REDACTED}
        redacted_entries = {index: entry for index, entry in by_index.items() if entry.name in gone}
        by_index |= {index: attrs.evolve(entry, text=REDACTED) for index, entry in redacted_entries.items()}
    pairs = ((item.entry.name, by_index[item.index].name) for item in legacy.items)
    new_names = {name: new_name for name, new_name in pairs if name != new_name}
    kept = {index: base.entries[name] for name, index in legacy.without_text.items() if name in base.entries}
    notes = [(entry.name, "has no text there, and stays as it was") for entry in kept.values()]
    by_index |= kept
    entries = tuple(by_index[index] for index in sorted(by_index))
    if by_section:
        unknown = [heading for heading in legacy.sections or () if not find_section(heading)]
        notes += [(heading, "is no section of this format; its entries are in OTHERS") for heading in unknown]
    top, placed = (_read_sectioned_top if by_section else _flat_top)(legacy, state, base, new_names)
    if redacted.refusal_in_json(top) is not None:
        top = ""
    # A rendering drops the parts of the file that are no entries; the ledger keeps them.
    evidence = [item for item in legacy.skipped if not (by_section and item.original in _PLAIN_HEADINGS)]
    evidence += [
        ItemSkipped(item.index, f"{item.entry.name} was read from it", item.original)
        for item in legacy.items
        if item.original
    ]
    odd = tuple(item for item in evidence if redacted.refusal_in_json(item.original or "") is None)
    base_entries = _list_shown_entries(base, by_section=by_section)
    until = _find_changed_days(legacy, base, new_names)
    if entries == base_entries and not (top or odd or placed or until):
        return (), notes
    names, edited = None, {}
    if base is not state:
        # Edits of other machines are not in the file.
        edited = _count_edits(log.own if reading.has_book(log) else log, base)
        if reading.has_book(log):
            names = log.names_since(base.seq)
            edited = {names.get(name, name): counts for name, counts in edited.items()}
    edit = update.Edit(base_entries, entries, top, base.stamp[0], legacy.sha256, placed, until)
    decision = update.decide_edit(edit, state, names, redacted.refusal, edited)
    refusals = [refusal for refusal in decision.ignored if isinstance(refusal, update.RefusedText)]
    notes += [(refusal.name or refusal.item, refusal.reason) for refusal in refusals]
    # Of an edit of refused texts alone only its closing event is left.
    is_empty = bool(refusals) and len(decision.events) == 1 and not top and not odd
    return () if is_empty else (*odd, *decision.events), notes


def _count_edits(log: JsonlLog, base: Playbook) -> dict[str, tuple[int, int]]:
    """Return what edits since a playbook added to the counts of its entries: name → (helpful, harmful)."""
    edited: dict[str, tuple[int, int]] = {}
    later = (batch for batch in history(lambda: decode(log.read())) if batch.last > base.seq)
    for event in chain.from_iterable(batch.events for batch in later):
        # Version 1 did not say what its writer saw.
        if isinstance(event, PointEdited) and event.change and event.name in base.entries:
            helpful, harmful = edited.get(event.name, (0, 0))
            before = event.helpful_before, event.harmful_before
            if event.change in {"new", "copied"}:
                # It brought the entry back.
                then, helpful, harmful = base.entries[event.name], 0, 0
                before = then.helpful, then.harmful
            edited[event.name] = helpful + event.helpful - before[0], harmful + event.harmful - before[1]
    return edited


def _is_by_section(legacy: LegacyFile, form: str) -> bool:
    """Return whether a file is a rendering in the later format, or is to be one; else its sections are keys."""
    return legacy.sections is not None and (form == SECTIONED or legacy.stamp is not None)


def _list_shown_entries(playbook: Playbook, *, by_section: bool) -> tuple[Entry, ...]:
    """Return the entries in the order of a rendering."""
    if not by_section:
        return tuple(playbook.entries.values())
    return tuple(entry for entries in entries_by_section(playbook).values() for entry in entries)


def _read_sectioned_top(
    legacy: LegacyFile, state: Playbook, base: Playbook, new_names: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return the changed top-level keys of a file in the later format, and the entries that it puts elsewhere."""
    before = {entry.name: key for key, entries in entries_by_section(base).items() for entry in entries}
    placed: dict[str, str] = {}
    for heading, names in (legacy.sections or {}).items():
        section = find_section(heading) or OTHERS
        placed |= {new_names.get(name, name): section for name in names}
    placed = {name: section for name, section in placed.items() if section != before.get(name, OTHERS)}
    others = {key: value for key, value in _top(legacy).items() if key not in SECTION_KEYS}
    if others == {key: value for key, value in base.top.items() if key not in SECTION_KEYS}:
        return "", placed
    # The event replaces all keys, so it has the sections of every entry as well.
    everyone = {*state.entries, *state.gone, *placed}
    sections = filter_sections(state.top, everyone, state.placed | placed).get(SECTION_NAMES)
    # Larger sections do not fit into a line: they are left out, and no entry is lost for them.
    if sections is not None and len(dumps(sections).encode()) <= legacy_import.MAX_SECTION_BYTES:
        others[SECTION_NAMES] = sections
    return dumps(others), placed


def _flat_top(
    legacy: LegacyFile, _state: Playbook, base: Playbook, new_names: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return the changed top-level keys of a file, and the entries that it puts elsewhere.

    Where nothing but that was changed, no key is: edits of two machines then add up.
    """
    before = filter_sections(base.top, base.entries, base.placed)
    after = rename_in_sections(_top(legacy), new_names)
    if after == before:
        return "", {}
    # The heading of each entry that has one.
    was, now = (
        {name: heading for heading, names in (read_sections(top) or {}).items() for name in names}
        for top in (before, after)
    )
    placed = {name: key for name, key in now.items() if key in SECTIONS and was.get(name) != key}
    # A whole set of sections would replace what another machine moved meanwhile.
    if after == filter_sections(before, now, placed):
        return "", placed
    return update.rename_in_top(legacy.top, new_names), {}


def _find_changed_days(legacy: LegacyFile, base: Playbook, new_names: Mapping[str, str]) -> dict[str, str]:
    """Return the last days that a file gives its entries otherwise; one without that key says nothing about them."""
    if legacy.until is None:
        return {}
    days = {new_names.get(name, name): day for name, day in legacy.until.items()}
    names = {**days, **{name: "" for name in base.until if name in base.entries}}
    return {name: days.get(name, "") for name in names if days.get(name, "") != base.until.get(name, "")}


def _name_entries(legacy: LegacyFile, base: Playbook) -> dict[int, Entry]:
    """Return a file's entries by their index; one without a name gets the name of the entry whose text it has.

    So restoring an old file changes only what it says otherwise, and renames nothing.
    """
    by_text = {entry.text: entry for entry in base.entries.values()}
    taken_names = {item.entry.name for item in legacy.items if not _is_unnamed(item)}.union(legacy.without_text)
    entries = {}
    for item in legacy.items:
        entry = item.entry
        same = by_text.get(entry.text) if _is_unnamed(item) else None
        if same is not None and same.name not in taken_names:
            taken_names.add(same.name)
            # A file without counts says nothing about them.
            entry = same if item.migrated in _WITHOUT_COUNTS else attrs.evolve(entry, name=same.name)
        entries[item.index] = entry
    return entries


def _is_unnamed(item: LegacyItem) -> bool:
    if item.origin == "bare_string" or not item.original:
        return item.origin == "bare_string"
    value = json.loads(item.original)
    return not isinstance(value, dict) or value.get("name") != item.entry.name


def _top(legacy: LegacyFile) -> dict[str, Any]:
    # A file that an older program wrote may lack the version; that is not an edit.
    top = {"version": VERSION} | legacy.top_keys
    # Each rendering takes that time from the events.
    top.pop("last_updated", None)
    return top


# The file as the ledger has it


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
    log = opened.log
    # Another process that holds the lock looks at the head once more before it lets go.
    with contextlib.suppress(LockHeldError), disk.hold_lock(opened.project.ledger / "render.lock", RENDER_WAIT_MS):
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
        now = _digest(project)
        return now in {None, file.sha256} or now == (last_rendered(project) or file).sha256

    if (file.unreadable or file.is_foreign) and _digest(project) == file.sha256:
        set_aside(project, opened.log.now().at)
    data = playbook_bytes(state, opened.settings.format)
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
    try:
        # A file that is linked stays until it is replaced; a folder is renamed.
        return Path(disk.link_aside(project.playbook, f"{project.playbook}.unreadable", at, "", os.rename))
    except OSError as error:
        raise CannotWriteError(project.playbook, disk.reason(error), "the file is unchanged") from error


# A state as of a moment

WITH_EDIT: Final = "now, with a manual edit of playbook.json that is not recorded yet"


@attrs.frozen
class AsOf(Generic[S]):
    """The state of a view as of a moment.

    Attributes:
        state: The view's state.
        moment: Which moment that is, for people: "event 812, 2026-11-21 20:17 UTC".
        notes: Notes for a person, a line each.
        commit: The commit whose own history it is of; empty for the project's.
    """

    state: S
    moment: str
    notes: tuple[str, ...] = ()
    commit: str = ""


def describe(state: State, seq: int, named: str = "") -> str:
    """Return which moment an answer shows: "event 812, 2026-11-21 20:17 UTC".

    Args:
        state: What was folded up to the moment.
        seq: The event number that was asked for.
        named: What else the moment is called.
    """
    if state.latest_batch is None:
        moment = "the beginning, before any event"
    else:
        moment = f"event {state.seq}, {format_time(state.latest_batch.at)}"
    if seq > state.seq:
        moment += f" (event {seq} is inside a batch, which counts as a whole)"
    return f"{moment}, {named}" if named else moment


def fold_as_of(project: Project, form: Form[S], when: str | None = None, option: str = "--at") -> AsOf[S]:
    """Return the state of a view as of a moment; now, with a manual edit that is not recorded yet, without one.

    Raises:
        BadInputError: There is no such moment; the error begins with ``option``.
    """
    opened = Opened(project)
    log, moment = opened.log, None
    if when is not None:
        from tallybook.projections.surfaces.history import moments

        moment = moments.find(project, when, option, log)
    if moment is None or not moment.is_apart:
        state = fold_view(form, log, None if moment is None else moment.seq)
    else:
        # The history of a commit, or of the book alone, is another than the project's own.
        state = fold_history(form.view, moment.history)
        if moment.in_book is not None:
            book = form.book(state)
            book.stamp, book.shared_stamp = (0, ""), (book_number(book.stamp[0]) or 0, book.stamp[1])
    if moment is not None:
        return AsOf(state, describe(state, moment.seq, moment.named), moment.notes, moment.commit)
    file = examine(opened, form.book(state))
    if not file.events:
        says = "playbook.json is not a playbook, so this is what the ledger says; `tallybook doctor` says why"
        return AsOf(state, describe(state, state.seq), (says,) if file.unreadable else ())
    end = PENDING + state.seq if has_book(log) else state.seq
    return AsOf(fold(form.view, [edit_batch(end, file, log.now().at)], state), WITH_EDIT)
