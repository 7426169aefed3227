"""``playbook.json`` on disk: what a hand changed in it, and how a rendering takes its place."""

from __future__ import annotations

import contextlib
from itertools import count
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import attrs

from tallybook.ledger.backends.table import open_log
from tallybook.ledger.encoding.codec import decode
from tallybook.ledger.errors import BadInputError, CannotWriteError, LockHeldError, Problem
from tallybook.ledger.events import ItemSkipped, PlaybookAdopted, PointMerged, PointRated
from tallybook.ledger.fast_stdlib import NamedTuple, import_lazily, sha256
from tallybook.ledger.names import rename_in_sections
from tallybook.ledger.records import Author, EventRecord, make_batch
from tallybook.ledger.storage import disk
from tallybook.projections.fold import fold
from tallybook.projections.playbook.entry_state import REDACTED
from tallybook.projections.playbook.render import playbook_bytes, playbook_dict, read_stamp
from tallybook.projections.playbook.view import PLAYBOOK, VERSION, Playbook
from tallybook.projections.surfaces.history import reading
from tallybook.projections.surfaces.workspace.project import PLAYBOOK_NAME
from tallybook.projections.undo import history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tallybook.ledger.decisions import legacy_import as seeds
    from tallybook.ledger.decisions import update as decide
    from tallybook.ledger.decisions.legacy_import import LegacyFile, LegacyItem
    from tallybook.ledger.events import Entry, Event
    from tallybook.ledger.line import RawBatch
    from tallybook.ledger.records import Batch
    from tallybook.ledger.storage import redacted_digests as redactions
    from tallybook.ledger.storage.redacted_digests import Redactions
    from tallybook.projections.fold import State
    from tallybook.projections.surfaces.workspace.project import Project

    Read = Callable[[], Iterator[RawBatch]]
else:
    # Mostly the file is the ledger's own rendering.
    decide, seeds = (
        import_lazily("tallybook.ledger.decisions.update"),
        import_lazily("tallybook.ledger.decisions.legacy_import"),
    )
    redactions = import_lazily("tallybook.ledger.storage.redacted_digests")

RENDER_WAIT_MS = 250
_WITHOUT_COUNTS = ("bare_string", "dict_no_score")
_RENDER_ROUNDS = 20


class Rendered(NamedTuple):
    """What was last written to ``playbook.json``.

    Attributes:
        seq: The moment it shows.
        sha256: Of its bytes, in hex.
    """

    seq: int
    sha256: str


@attrs.frozen
class Found:
    """What stands in ``playbook.json`` and is not the ledger's own rendering.

    Attributes:
        events: What it says on top of the ledger; empty where it is merely stale or cannot be read.
        sha256: Of its bytes; None where there is no file.
        key: Names this very change, so that it is taken in once.
        problems: What was odd in it.
        legacy: The file as it was read, None where it was not.
        unreadable: Whether it is there and no playbook.
    """

    events: tuple[Event, ...] = ()
    sha256: str | None = None
    key: str | None = None
    problems: tuple[Problem, ...] = ()
    legacy: LegacyFile | None = None
    unreadable: bool = False

    @property
    def adopted(self) -> bool:
        """Say whether it begins the ledger's playbook."""
        return bool(self.events) and isinstance(self.events[0], PlaybookAdopted)


def read_bytes(path: Path) -> bytes | None:
    """Return a file's bytes, None where there is none; no bytes where a link, a pipe or a folder stands in its place.

    Raises:
        CannotWriteError: It cannot be read now: nobody knows what it says, so nothing may take its place.
    """
    try:
        return disk.read_file(path)
    except FileNotFoundError:
        return None
    except (OSError, CannotWriteError) as error:
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            return b""
        why = error.reason if isinstance(error, CannotWriteError) else disk.reason(error)
        raise CannotWriteError(path, f"cannot be read: {why}", "nothing was recorded; try again") from error


def last_rendered(project: Project) -> Rendered | None:
    """Return what was last written to ``playbook.json``, None where nobody noted it."""
    fields: list[str] = []
    with contextlib.suppress(CannotWriteError):
        # No more than a note that saves comparing.
        fields = (read_bytes(project.ledger / "rendered") or b"").decode("ascii", "replace").split()
    return Rendered(int(fields[0]), fields[1]) if len(fields) == 2 and fields[0].isdigit() else None  # noqa: PLR2004


def adoption_key(data: bytes) -> str:
    """Return what turns away the second import of a file."""
    return f"adopt:{sha256(data).hexdigest()}"


def examine(project: Project, state: Playbook, read: Read) -> Found:
    """Compare ``playbook.json`` with the ledger, writing nothing.

    Args:
        project: Whose file it is.
        state: The playbook at the head of the ledger.
        read: Gives the ledger's batches from the beginning, for a base that lies in the past.
    """
    # The note comes first: what is rendered while this looks is newer than the note, and is told by its own stamp.
    rendered = last_rendered(project)
    data = read_bytes(project.playbook)
    if data is None:
        return Found()
    digest = sha256(data).hexdigest()
    if digest == (rendered.sha256 if rendered is not None else state.source):
        # The ledger's own rendering; or the adopted file, before anything was rendered over it.
        return Found(sha256=digest)
    try:
        # A name that is generated for an entry without one must not be a name that ever stood.
        legacy = seeds.read_legacy(data, project.playbook.name, state.used)
    except BadInputError:
        odd = Problem(project.playbook.name, "is not a playbook, and is set aside")
        return Found(sha256=digest, unreadable=True, problems=(odd,))
    redacted = redactions.load(project.ledger)
    if state.stamp == (0, ""):
        legacy, refused = redacted.filter_legacy(legacy)
        problems = (*legacy.problems, *_problems(project, refused))
        return Found(seeds.seed_events(legacy), digest, adoption_key(data), problems, legacy)
    base = _base(project, legacy, state, rendered)
    events, refused = _edit_events(legacy, state, base, read, redacted)
    # The same bytes may be put back after another rendering; the last one makes that another change.
    since = rendered.seq if rendered is not None else ""
    problems = (*legacy.problems, *_problems(project, refused))
    return Found(events, digest, f"edit:{legacy.stamp}:{since}:{digest}", problems, legacy)


def _problems(project: Project, refused: Sequence[decide.RefusedText]) -> tuple[Problem, ...]:
    """Return what a person should hear of redacted texts in the file."""
    return tuple(Problem(f"{project.playbook.name}: {one.name or one.item}", one.reason) for one in refused)


def _base(project: Project, legacy: LegacyFile, state: Playbook, rendered: Rendered | None) -> Playbook:
    """Return the playbook that was changed: the one at the file's stamp, else the last rendering, else the head."""
    stamp = read_stamp(legacy.stamp)
    # A file without a stamp was changed where the last rendering stood, or else where the adopted file did.
    seq = stamp[0] if stamp is not None else rendered.seq if rendered is not None else state.adoption
    if seq >= state.stamp[0]:
        return state
    base = reading.current(open_log(project.ledger), seq)
    return base if stamp is None or base.stamp == stamp else state


def _edit_events(
    legacy: LegacyFile, state: Playbook, base: Playbook, read: Read, redacted: Redactions
) -> tuple[tuple[Event, ...], tuple[decide.RefusedText, ...]]:
    """Return what a changed file says on top of the ledger, nothing where it says nothing new; and what is refused."""
    found = _recognised(legacy, base)
    if base.rewrites < state.rewrites:
        found = tuple(_without_what_is_gone(point, base) for point in found)
    before = playbook_dict(base)
    del before["key_points"], before["last_updated"]
    renamed = {
        item.point.name: point.name
        for item, point in zip(legacy.items, found, strict=True)
        if item.point.name != point.name
    }
    changed = decide.rename_in_top(legacy.top, renamed) if rename_in_sections(_top(legacy), renamed) != before else ""
    if redacted.refusal_in_json(changed) is not None:
        changed = ""
    odd = tuple(item for item in _evidence(legacy) if redacted.refusal_in_json(item.original or "") is None)
    points = tuple(base.points.values())
    if found == points and not changed and not odd:
        return (), ()
    moment = base.stamp[0]
    drift = _ratings_since(base, read) if base is not state else {}
    edit = decide.Edit(points, found, changed, moment, legacy.sha256)
    known = decide.PlaybookFacts(state.points, state.high_water, state.used, refusal=redacted.refusal)
    decision = decide.decide_edit(edit, known, drift)
    refused = tuple(one for one in decision.ignored if isinstance(one, decide.RefusedText))
    says_nothing = bool(refused) and len(decision.events) == 1 and not changed and not odd
    return () if says_nothing else (*odd, *decision.events), refused


def _without_what_is_gone(point: Entry, base: Playbook) -> Entry:
    """Return an entry of a file that is older than a redaction; a text that is gone is not brought back by it."""
    before = base.points.get(point.name)
    gone = before is not None and before.text == REDACTED
    return attrs.evolve(point, text=REDACTED) if gone else point


def _recognised(legacy: LegacyFile, base: Playbook) -> tuple[Entry, ...]:
    """Return a file's entries; one that carries no name is the one whose text it has, and keeps that one's name.

    So an old file that is put back changes what it says, and renames nothing.
    """
    standing = {point.text: point for point in base.points.values()}
    carried = {item.point.name for item in legacy.items if not _is_unnamed(item)}
    points = []
    for item in legacy.items:
        point = item.point
        known = standing.get(point.text) if _is_unnamed(item) else None
        if known is not None and known.name not in carried:
            carried.add(known.name)
            point = known if item.migrated in _WITHOUT_COUNTS else attrs.evolve(point, name=known.name)
        points.append(point)
    return tuple(points)


def _is_unnamed(item: LegacyItem) -> bool:
    if item.origin == "bare_string" or not item.original:
        return item.origin == "bare_string"
    value = json.loads(item.original)
    return not isinstance(value, dict) or value.get("name") != item.point.name


def _evidence(legacy: LegacyFile) -> tuple[ItemSkipped, ...]:
    """Return what the file holds beside its entries: it leaves the file when that is rendered, and stays here."""
    read = (
        ItemSkipped(item.index, f"{item.point.name} was read from it", item.original)
        for item in legacy.items
        if item.original
    )
    return (*legacy.skipped, *read)


def _top(legacy: LegacyFile) -> dict[str, Any]:
    # A file that an older program wrote may lack the version; that is no change by anybody.
    top = {"version": VERSION} | legacy.top_keys
    top.pop("last_updated", None)
    return top


def _ratings_since(base: Playbook, read: Read) -> Mapping[str, tuple[int, int]]:
    """Count the ratings that counted behind a moment, by name: (helpful, harmful). ``base`` is folded on."""
    counts: dict[str, tuple[int, int]] = {}
    for batch in history(lambda: decode(read())):
        if batch.last <= base.seq:
            continue
        for event in batch.events:
            for name, helpful, harmful in _counted(event, base):
                before = counts.get(name, (0, 0))
                counts[name] = (before[0] + helpful, before[1] + harmful)
        fold(PLAYBOOK, [batch], base)
    return counts


def _counted(event: Event, base: Playbook) -> Iterator[tuple[str, int, int]]:
    """Yield what an event adds to the counts of entries that stand: (name, helpful, harmful)."""
    if isinstance(event, PointRated):
        name = event.name if event.name in base.points else base.merged.get(event.name)
        if name is not None and name in base.points:
            yield name, event.rating == "helpful", event.rating == "harmful"
    elif isinstance(event, PointMerged) and event.name in base.points:
        merged = (base.points[name] for name in set(event.merged) & base.points.keys() - {event.name})
        yield from ((event.name, point.helpful, point.harmful) for point in merged)


def with_found(state: Playbook, found: Found, at: str) -> Playbook:
    """Return the playbook as it would stand if what was found were taken in; ``state`` is changed."""
    return fold(PLAYBOOK, [batch_of_found(state, found, at)], state) if found.events else state


def batch_of_found(state: State, found: Found, at: str) -> Batch:
    """Return what was found as the batch that it would be, were it taken in behind a state; there must be something."""
    by = Author("import" if found.adopted else "human")
    return make_batch(
        *(EventRecord(state.seq + index, at, event, by=by) for index, event in enumerate(found.events, 1))
    )


def render(project: Project, state: Playbook, found: Found, at: str, catch_up: Callable[[Playbook], Playbook]) -> bool:
    """Write ``playbook.json`` unless it shows a later moment of this ledger already.

    Args:
        project: Whose file it is.
        state: The playbook to write.
        found: The file as it was examined; one that cannot be read is set aside first.
        at: The present moment, for the name of what is set aside.
        catch_up: Folds on what was appended since, so that writers who could not wait are not left out.

    Returns:
        False where somebody changed the file since it was examined: it must be examined again.

    Raises:
        CannotWriteError: The file stands as it was.
        OutcomeUnknownError: The disk would not confirm the new one.
    """
    fd = disk.open_file(project.ledger / "render.lock", write=True, create=True)
    try:
        try:
            disk.lock(fd, project.ledger / "render.lock", RENDER_WAIT_MS)
        except LockHeldError:
            # Whoever holds it looks at the head once more before it lets go.
            return True
        for _ in range(_RENDER_ROUNDS):
            state = catch_up(state)
            if not _replace(project, state, found, at):
                return False
            before = state.stamp
            state = catch_up(state)
            if state.stamp == before:
                break
        return True
    finally:
        os.close(fd)


def _replace(project: Project, state: Playbook, found: Found, at: str) -> bool:
    """Put the rendering in place of the file that was examined, or of an earlier rendering; False for any other."""
    rendered = last_rendered(project)
    ours = None if rendered is None else rendered.sha256

    def is_replaceable() -> bool:
        return _digest(project) in {None, ours, found.sha256}

    if not is_replaceable():
        return False
    if found.unreadable and _digest(project) == found.sha256:
        set_aside(project, at)
    fresh = playbook_bytes(state)
    current = read_bytes(project.playbook) == fresh
    # A hand may change the file until the very moment of the rename.
    if not current and not disk.replace_file(project.playbook, fresh, may_replace=is_replaceable):
        return False
    note = f"{state.stamp[0]} {sha256(fresh).hexdigest()}\n".encode()
    # No more than a note that saves comparing: without it the file's own stamp tells what it shows.
    disk.replace_cache_file(project.ledger / "rendered", note)
    return True


def _digest(project: Project) -> str | None:
    data = read_bytes(project.playbook)
    return None if data is None else sha256(data).hexdigest()


def _is_linked(project: Project) -> bool:
    """Say whether a link stands in place of the file."""
    return project.playbook != project.claude / PLAYBOOK_NAME


def set_aside(project: Project, at: str) -> Path:
    """Keep an unreadable ``playbook.json``, byte for byte, under a dated name beside it.

    It is the same file under another name, with the mode that its owner gave it.

    Raises:
        CannotWriteError: It cannot be kept, or is another file of the project, so nothing takes its place.
    """
    if _is_linked(project):
        hint = "the file is unchanged; remove the link"
        raise CannotWriteError(project.playbook, "is not a playbook, and a link leads to it", hint)
    name = f"{project.playbook.name}.unreadable-{at[:19].replace(':', '').replace('-', '')}"
    aside = project.playbook.with_name(name)
    for number in count(2):
        try:
            # A link never takes the place of what another process set aside; the file stands until it is replaced.
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
